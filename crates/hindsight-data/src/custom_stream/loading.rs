//! Reading what a stream file names, into samples with classes and tasks.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{self, BufReader, Read, Seek},
    path::{Path, PathBuf},
};

use hindsight_nn::Rng;

use super::{
    CustomTasks, Part,
    description::{Boundaries, Description, Files, Format, HeadSetting},
    tasks::split_hold_out,
};
use crate::{
    dataset::Dataset,
    error::{CustomStreamError, DataError},
    formats::{
        csv::{self, Categories, Columns, TextColumnFinder},
        idx, npy,
        npz::{Npz, NpzError},
        series::{self, Entries},
        table::{Categorical, SampleTable},
    },
    image_folder::ImageFolder,
    samples::{Samples, Values},
    schema::{Column, Missing, Schema, TextColumns, imbalance},
};

/// The most classes and the most tasks that a stream may have.
const MAX_CLASSES: usize = 1 << 16;
const MAX_TASKS: usize = 1000;

/// Where rows came from, to tell of flaws.
struct RowOrigin {
    path: PathBuf,
    first: usize,
    lines: Vec<u64>,
}

/// Everything that was read, row by row.
#[derive(Default)]
struct LoadedRows {
    table: Option<SampleTable>,
    origins: Vec<RowOrigin>,
    labels: Categorical,
    /// Empty if the files have no column or array of tasks.
    tasks: Categorical,
    /// The table of `[[files]]` that each row is of, and whether it is for test.
    places: Vec<(usize, bool)>,
    notes: Vec<String>,
}

impl LoadedRows {
    /// Appends what was read from `path`.
    fn push(&mut self, table: SampleTable, path: PathBuf, place: (usize, bool)) -> Result<(), DataError> {
        let first = self.places.len();
        (0..table.labels.len()).for_each(|i| self.labels.push(table.labels.get(i)));
        if let Some(tasks) = &table.tasks {
            (0..tasks.len()).for_each(|i| self.tasks.push(tasks.get(i)));
        }
        self.places.resize(first + table.labels.len(), place);
        if u32::try_from(self.places.len()).is_err() {
            let (images, each) = (self.places.len(), 4 * table.shape.iter().product::<usize>());
            return Err(DataError::Memory { images, each });
        }
        self.origins.push(RowOrigin { path: path.clone(), first, lines: table.lines.clone() });
        match &mut self.table {
            None => self.table = Some(table),
            Some(all) if all.shape == table.shape => all.values.append(table.values),
            Some(all) => {
                let (found, expected, first) = (table.shape, all.shape, self.origins[0].path.clone());
                return Err(DataError::CustomStream {
                    path,
                    flaw: CustomStreamError::Shape { found, expected, first },
                });
            }
        }
        Ok(())
    }

    /// Puts the mean of the rows to learn from in place of missing values, and returns the mean of each
    /// feature.
    fn fill_in_means(&mut self, missing: Missing) -> Vec<f32> {
        let Some(SampleTable { shape, values: Values::Floats(values), .. }) = &mut self.table else {
            return Vec::new();
        };
        let width = shape.iter().product();
        if missing != Missing::Mean {
            return vec![0.0; width];
        }
        let mut sums = vec![(0.0, 0.0_f64); width];
        let train = values.chunks_exact(width).zip(&self.places).filter(|(_, (_, is_test))| !is_test);
        for (row, _) in train {
            for (value, (sum, count)) in row.iter().zip(&mut sums).filter(|(value, _)| !value.is_nan()) {
                (*sum, *count) = (*sum + f64::from(*value), *count + 1.0);
            }
        }
        let means: Vec<f32> = sums.iter().map(|(sum, count)| (sum / count.max(1.0)) as f32).collect();
        for (value, mean) in values.iter_mut().zip(means.iter().cycle()).filter(|(value, _)| value.is_nan()) {
            *value = *mean;
        }
        means
    }

    /// An error about a row.
    fn flaw(&self, row: usize, flaw: impl FnOnce(String) -> CustomStreamError) -> DataError {
        let origin =
            self.origins.iter().rev().find(|origin| origin.first <= row).expect("a row has an origin");
        let place = match origin.lines.get(row - origin.first) {
            Some(line) => format!("line {line}"),
            None => format!("row {}", row - origin.first),
        };
        DataError::CustomStream { path: origin.path.clone(), flaw: flaw(place) }
    }
}

/// Reads all that a description at `path` names.
pub(super) fn load(description: &Description, path: &Path) -> Result<(Dataset, CustomTasks), DataError> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut rows = LoadedRows::default();
    let mut columns = description.columns();
    let categories = match description.text() {
        TextColumns::Refuse => Categories::new(),
        TextColumns::OneHot => find_categories(description, folder)?,
    };
    for (i, files) in description.files.iter().enumerate() {
        let Files { train, labels, test, test_labels, .. } = files;
        for (file, labels, is_test) in [(Some(train), labels, false), (test.as_ref(), test_labels, true)] {
            let Some(file) = file.map(|file| folder.join(file)) else { continue };
            let labels = labels.as_ref().map(|labels| folder.join(labels));
            let roles = csv_columns(description, columns.as_deref(), Some(&categories));
            let table = read(description, &file, labels.as_deref(), &roles, &mut rows.notes)?;
            if description.format == Format::Csv {
                // Columns are told by their names: another file may have them in another order.
                columns.get_or_insert_with(|| table.features.clone());
            }
            rows.push(table, file, (i, is_test))?;
        }
    }
    let means = rows.fill_in_means(description.missing());
    let (mut dataset, tasks) = arrange(description, path, &mut rows, &categories, &means)?;
    let mut counts = vec![0; dataset.classes];
    let trained = tasks.tasks.iter().flat_map(|part| &part.train);
    trained.for_each(|&row| counts[dataset.train.labels[row as usize] as usize] += 1);
    let note = imbalance(counts.into_iter().zip(dataset.class_names.iter().map(String::as_str)));
    dataset.notes.extend(note.map(|note| format!("{note}; see balanced accuracy")));
    Ok((dataset, tasks))
}

/// The roles of columns in the CSV files of a stream.
fn csv_columns<'a>(
    description: &'a Description,
    features: Option<&'a [String]>,
    categories: Option<&'a Categories>,
) -> Columns<'a> {
    Columns {
        label: description.label(),
        task: description.task(),
        task_columns: description.task_columns(),
        features,
        ignore: &description.ignore,
        delimiter: description.delimiter(),
        header: description.header,
        missing: description.missing(),
        categories,
    }
}

/// The texts of columns, in all files to learn from.
fn find_categories(description: &Description, folder: &Path) -> Result<Categories, DataError> {
    let mut finder = TextColumnFinder::default();
    let columns = description.columns();
    for files in &description.files {
        let path = folder.join(&files.train);
        let (len, file) = open(&path)?;
        let scanned = finder.scan(file, len, &csv_columns(description, columns.as_deref(), None));
        scanned.map_err(|flaw| DataError::Csv { path, flaw })?;
    }
    Ok(finder.categories())
}

fn unreadable(path: &Path, error: io::Error) -> DataError {
    DataError::CustomStream { path: path.into(), flaw: CustomStreamError::Unreadable(error) }
}

fn open(path: &Path) -> Result<(u64, BufReader<File>), DataError> {
    let opened = File::open(path).and_then(|file| Ok((file.metadata()?.len(), BufReader::new(file))));
    opened.map_err(|error| unreadable(path, error))
}

/// Reads one file, or folder of images.
fn read(
    description: &Description,
    path: &Path,
    labels: Option<&Path>,
    columns: &Columns<'_>,
    notes: &mut Vec<String>,
) -> Result<SampleTable, DataError> {
    let own = |path: &Path, flaw| DataError::CustomStream { path: path.into(), flaw };
    let labels = labels.unwrap_or(path);
    let table = match description.format {
        Format::Csv => {
            let (len, file) = open(path)?;
            let read = csv::read(file, len, columns);
            read.map_err(|flaw| DataError::Csv { path: path.into(), flaw })?
        }
        Format::Npy => {
            let flaw = |path: &Path, flaw| DataError::Npy { path: path.into(), flaw };
            let (len, file) = open(path)?;
            let (shape, values) = npy::features(file, len).map_err(|error| flaw(path, error))?;
            let (len, file) = open(labels)?;
            let labels = npy::labels(file, len).map_err(|error| flaw(labels, error))?;
            table(shape, Values::Floats(values), labels, None)
        }
        Format::Npz => {
            let (len, file) = open(path)?;
            from_npz(file, len, description).map_err(|flaw| DataError::Npz { path: path.into(), flaw })?
        }
        Format::Series => {
            let entries = Entries {
                features: description.array(),
                label: description.label(),
                task: description.task(),
                window: description.window(),
            };
            let read = series::read(open(path)?.1, &entries);
            read.map_err(|flaw| DataError::Series { path: path.into(), flaw })?
        }
        Format::Idx => {
            let (len, file) = open(path)?;
            let images = idx::images(file, len).map_err(|flaw| own(path, CustomStreamError::Idx(flaw)))?;
            let (len, file) = open(labels)?;
            let words = idx::labels(file, len).map_err(|flaw| own(labels, CustomStreamError::Idx(flaw)))?;
            let words = words.iter().map(u8::to_string).collect::<Vec<_>>();
            let [height, width] = images.size;
            table(
                [1, height, width],
                Values::Bytes(images.pixels),
                words.iter().map(String::as_str).collect(),
                None,
            )
        }
        Format::Images => {
            // A folder without images has an error of its own.
            fs::read_dir(path).map_err(|error| unreadable(path, error))?;
            let folder = ImageFolder::open(&path.to_string_lossy(), path)?;
            let images = folder.load(description.image_size())?;
            let names: Vec<&str> = folder.names().collect();
            let classes = images.train.labels.iter().chain(&images.test.labels);
            let words = classes.map(|&class| names[class as usize]).collect();
            notes.extend(images.notes.iter().map(|note| format!("`{}`: {note}", path.display())));
            let mut values = images.train.values;
            values.append(images.test.values);
            table(images.shape, values, words, None)
        }
    };
    notes.extend(table.notes.iter().map(|note| format!("`{}`: {note}", path.display())));
    let expected = table.values.len() / table.shape.iter().product::<usize>();
    let tasks = table.tasks.as_ref().map(|tasks| ("tasks", path, tasks.len()));
    for (what, file, found) in [("labels", labels, table.labels.len())].into_iter().chain(tasks) {
        if found != expected {
            return Err(own(file, CustomStreamError::Count { what, found, expected, samples: path.into() }));
        }
    }
    Ok(table)
}

fn table(shape: [usize; 3], values: Values, labels: Categorical, tasks: Option<Categorical>) -> SampleTable {
    SampleTable { shape, features: Vec::new(), values, labels, tasks, lines: Vec::new(), notes: Vec::new() }
}

fn from_npz(file: impl Read + Seek, len: u64, description: &Description) -> Result<SampleTable, NpzError> {
    let mut archive = Npz::open(file, len)?;
    let (shape, values) = archive.features(description.array())?;
    let labels = archive.labels(description.label())?;
    let tasks = description.task().map(|name| archive.labels(name)).transpose()?;
    Ok(table(shape, Values::Floats(values), labels, tasks))
}

/// Numbers by size, and before other words; these by the alphabet.
fn compare(a: &str, b: &str) -> Ordering {
    let key = |word: &str| word.parse::<f64>().map_or(f64::INFINITY, |number| number);
    key(a).total_cmp(&key(b)).then_with(|| a.cmp(b))
}

/// The order of tasks: numbers by size, other words as they first appear.
fn task_order(words: &Categorical, used: &BTreeSet<u32>) -> Vec<u32> {
    let mut order: Vec<u32> = used.iter().copied().collect();
    let word = |i: &u32| words.categories[*i as usize].as_str();
    if order.iter().all(|i| word(i).parse::<f64>().is_ok()) {
        order.sort_by(|a, b| compare(word(a), word(b)));
    }
    order
}

/// LoadedRows by task and words as classes, held against each other.
fn arrange(
    description: &Description,
    path: &Path,
    rows: &mut LoadedRows,
    categories: &Categories,
    means: &[f32],
) -> Result<(Dataset, CustomTasks), DataError> {
    let own = |flaw| DataError::CustomStream { path: path.into(), flaw };
    let mut parts: Vec<Part> = Vec::new();
    let part = |name: String| Part { name, train: Vec::new(), test: Vec::new() };
    let task_of: Vec<Option<usize>> = match description.tasks {
        Boundaries::Files => {
            parts.extend(description.files.iter().map(|files| part(description.name_of(files))));
            rows.places.iter().map(|(files, _)| Some(*files)).collect()
        }
        Boundaries::None => {
            parts.push(part("stream".to_owned()));
            vec![Some(0); rows.places.len()]
        }
        Boundaries::Column => {
            let trained = rows.tasks.codes.iter().zip(&rows.places).filter(|(_, (_, is_test))| !is_test);
            let order = task_order(&rows.tasks, &trained.map(|(task, _)| *task).collect());
            parts.extend(order.iter().map(|&i| part(rows.tasks.categories[i as usize].clone())));
            let place: BTreeMap<u32, usize> = order.into_iter().zip(0..).collect();
            rows.tasks.codes.iter().map(|task| place.get(task).copied()).collect()
        }
    };
    if !(1..=MAX_TASKS).contains(&parts.len()) {
        return Err(own(CustomStreamError::Tasks { found: parts.len(), most: MAX_TASKS }));
    }
    for (row, (task, (_, is_test))) in task_of.iter().zip(&rows.places).enumerate() {
        let Some(task) = *task else {
            return Err(rows
                .flaw(row, |place| CustomStreamError::Task { place, task: rows.tasks.get(row).to_owned() }));
        };
        let part = &mut parts[task];
        if *is_test { part.test.push(row as u32) } else { part.train.push(row as u32) }
    }

    // Classes are those of the training rows; which rows those are depends on the seed, which classes does
    // not.
    let hold_out = description.hold_out.map(|share| (share, description.last()));
    let mut splits = Vec::new();
    let mut rng = Rng::named(0, "hold out");
    for part in &parts {
        splits.push(match hold_out {
            None => (part.train.clone(), part.test.clone()),
            Some((share, last)) => split_hold_out(&part.train, &rows.labels.codes, share, last, &mut rng),
        });
    }
    let per_task = description.heads == HeadSetting::PerTask;
    let group = |task: usize| if per_task { task } else { 0 };
    let mut known: BTreeSet<(usize, u32)> = BTreeSet::new();
    for (task, (train, _)) in splits.iter().enumerate() {
        known.extend(train.iter().map(|&row| (group(task), rows.labels.codes[row as usize])));
    }
    if !(2..=MAX_CLASSES).contains(&known.len()) {
        return Err(own(CustomStreamError::Classes { found: known.len(), most: MAX_CLASSES }));
    }
    let word = |label: u32| rows.labels.categories[label as usize].as_str();
    let mut order: Vec<(usize, u32)> = known.into_iter().collect();
    order.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| compare(word(a.1), word(b.1))));
    let classes: BTreeMap<(usize, u32), u32> = order.iter().copied().zip(0..).collect();
    for (task, (_, test)) in splits.iter().enumerate() {
        if test.is_empty() {
            return Err(own(CustomStreamError::NoTest { task: parts[task].name.clone() }));
        }
        let unknown = |row: &&u32| !classes.contains_key(&(group(task), rows.labels.codes[**row as usize]));
        if let Some(&row) = test.iter().find(unknown) {
            let task = per_task.then(|| parts[task].name.clone());
            let class = rows.labels.get(row as usize).to_owned();
            return Err(rows.flaw(row as usize, |place| CustomStreamError::Class { place, class, task }));
        }
    }

    let mut labels = vec![0; rows.places.len()];
    for (task, part) in parts.iter().enumerate() {
        for &row in part.train.iter().chain(&part.test) {
            labels[row as usize] = classes[&(group(task), rows.labels.codes[row as usize])];
        }
    }
    let heads = per_task.then(|| {
        let classes = |task| (0..order.len()).filter(|&class| order[class].0 == task).collect();
        (0..parts.len()).map(classes).collect()
    });
    let named = |&(task, label): &(usize, u32)| match per_task {
        true => format!("{}/{}", parts[task].name, word(label)),
        false => word(label).to_owned(),
    };
    let class_names: Vec<String> = order.iter().map(named).collect();
    let SampleTable { shape, values, features, .. } =
        rows.table.take().expect("a stream names at least one file");
    let mut means = means.iter();
    let mut column = |name: String| {
        let categories = categories.get(&name).cloned();
        let of_column = means.by_ref().take(categories.as_ref().map_or(1, Vec::len));
        let mean = of_column.copied().reduce(|first, _| first).filter(|_| categories.is_none());
        Column { name, mean: mean.unwrap_or(0.0), categories }
    };
    let schema = (description.format == Format::Csv).then(|| Schema {
        label: description.label().to_owned(),
        task: description.task().map(str::to_owned),
        ignore: description.ignore.iter().chain(description.task_columns()).cloned().collect(),
        missing: description.missing(),
        columns: features.into_iter().map(&mut column).collect(),
    });
    let dataset = Dataset {
        name: String::new(),
        shape,
        classes: class_names.len(),
        class_names,
        train: Samples { values, labels },
        test: Samples::default(),
        notes: std::mem::take(&mut rows.notes),
    };
    let tasks = CustomTasks {
        tasks: parts,
        ends: description.tasks != Boundaries::None,
        heads,
        hold_out,
        standardise: description.standardise,
        shuffled: description.shuffled(),
        schema,
    };
    Ok((dataset, tasks))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::custom_stream::StreamFile;

    /// What `toml` gives with these files beside it.
    fn load(toml: &str, files: &[(&str, &[u8])]) -> Result<(Dataset, CustomTasks), String> {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in files {
            fs::write(folder.path().join(name), bytes).unwrap();
        }
        let file =
            StreamFile::parse(toml.as_bytes(), &folder.path().join("s.toml")).map_err(|e| e.to_string())?;
        let place = format!("{}/", folder.path().display());
        let read = super::load(&file.description, &file.path);
        read.map_err(|error| error.to_string().replace(&place, ""))
    }

    const COLUMN: &str = "format = \"csv\"\nlabel = \"y\"\ntasks = \"column\"\ntask = \"t\"\nhold_out = 0.5\n\
                          [[files]]\ntrain = \"a.csv\"\n";

    #[test]
    fn classes_and_numbered_tasks_are_in_order_and_named_tasks_as_they_come() {
        let read = |rows: &str| load(COLUMN, &[("a.csv", format!("x,y,t\n{rows}").as_bytes())]).unwrap();
        let tasks =
            |tasks: &CustomTasks| tasks.tasks.iter().map(|part| part.name.clone()).collect::<Vec<_>>();
        let (numbers, of_numbers) = read("1,10,11\n2,10,2\n3,9,11\n4,9,2\n5,9,2\n6,9,11\n7,10,2\n8,10,11\n");
        assert_eq!(
            (numbers.class_names.as_slice(), tasks(&of_numbers)),
            (&["9", "10"].map(String::from)[..], vec!["2".into(), "11".into()])
        );
        assert_eq!((numbers.train.labels[0], numbers.train.labels[2]), (1, 0));
        assert_eq!(of_numbers.tasks[0].train, [1, 3, 4, 6]);
        let (words, of_words) = read("1,b,z\n2,a,z\n3,b,z\n4,a,z\n5,a,k\n6,a,k\n7,7,k\n8,7,k\n");
        assert_eq!(
            (words.class_names.as_slice(), tasks(&of_words)),
            (&["7", "a", "b"].map(String::from)[..], vec!["z".into(), "k".into()])
        );
    }

    #[test]
    fn missing_values_texts_and_rare_classes_are_handled_and_told() {
        let keys = "missing = \"mean\"\ntext = \"one-hot\"\nlabel = \"y\"\n";
        let toml = format!("format = \"csv\"\n{keys}[[files]]\ntrain = \"a.csv\"\ntest = \"b.csv\"\n");
        let rare: String = (0..40).map(|i| format!("{},red,p\n", i % 2)).collect();
        let train = format!("x,c,y\n{rare},blue,q\n8.5,,q\n");
        // The columns of the other file are in another order, and it has a text of its own.
        let test: (&str, &[u8]) = ("b.csv", b"c,x,y\ngreen,,p\nblue,3,q\n");
        let (data, tasks) = load(&toml, &[("a.csv", train.as_bytes()), test]).unwrap();
        let mut row = Vec::new();
        let mut values = |i| {
            data.train.read(i, 3, &mut row);
            row.clone()
        };
        // (20 + 8.5) / 41
        let mean = (28.5_f64 / 41.0) as f32;
        assert_eq!((values(40), values(41)), (vec![mean, 1.0, 0.0], vec![8.5, 0.0, 0.0]));
        assert_eq!((values(42), values(43)), (vec![mean, 0.0, 0.0], vec![3.0, 1.0, 0.0]));
        let schema = tasks.schema.as_ref().unwrap();
        assert_eq!(
            (schema.missing, schema.features()),
            (Missing::Mean, vec!["x".into(), "c=blue".into(), "c=red".into()])
        );
        assert_eq!((schema.columns[0].mean, schema.columns[1].mean), (mean, 0.0));

        let drop = toml.replace("mean", "drop");
        let samples =
            load(&drop, &[("a.csv", train.as_bytes()), ("b.csv", b"c,x,y\nred,1,p\n")]).unwrap_err();
        assert!(samples.contains("found 1 classes"), "both rows of `q` lack a value: {samples}");
    }

    #[test]
    fn a_head_per_task_makes_classes_of_the_same_label_different() {
        let rows = b"x,y,t\n1,a,k\n2,a,k\n3,b,k\n4,b,k\n5,b,m\n6,b,m\n7,c,m\n8,c,m\n";
        let (data, tasks) = load(&format!("heads = \"per-task\"\n{COLUMN}"), &[("a.csv", rows)]).unwrap();
        assert_eq!(data.class_names, ["k/a", "k/b", "m/b", "m/c"]);
        assert_eq!((data.train.labels[2], data.train.labels[4]), (1, 2));
        let heads = tasks.heads.unwrap();
        assert_eq!(heads, [vec![0, 1], vec![2, 3]]);
    }

    #[test]
    fn what_does_not_fit_together_is_refused() {
        let csv = |tail: &str| format!("format = \"csv\"\nlabel = \"y\"\n{tail}");
        let two = csv("hold_out = 0.5\n[[files]]\ntrain = \"a.csv\"\n");
        let a: (&str, &[u8]) = ("a.csv", b"x,y\n1,p\n2,p\n3,q\n4,q\n");
        assert!(load(&two, &[a]).is_ok());
        assert_eq!(
            load(&two, &[("a.csv", b"x,y\n1,p\n2,p\n")]).unwrap_err(),
            "`s.toml`: found 1 classes, expected 2 to 65536"
        );
        assert_eq!(
            load(&two, &[("a.csv", b"x,y\n1,p\n2,q\n3,r\n")]).unwrap_err(),
            "`s.toml`: task `a` has no samples for test, expected at least one beside those for training"
        );
        let last = csv("hold_out = 0.5\nhold_out_rows = \"last\"\n[[files]]\ntrain = \"a.csv\"\n");
        assert_eq!(
            load(&last, &[("a.csv", b"x,y\n1,p\n2,q\n3,r\n4,q\n")]).unwrap_err(),
            "`a.csv`: line 4: found the class `r`, expected one of the training data"
        );
        let tested = csv("[[files]]\ntrain = \"a.csv\"\ntest = \"b.csv\"\n");
        let no_column = load(&tested, &[a, ("b.csv", b"z,y\n1,p\n")]).unwrap_err();
        assert_eq!(no_column, "`b.csv`: line 1: no column `x`, found `z`, `y`");
        let tasks: String = (0..1001).map(|i| format!("1,p,{i}\n2,q,{i}\n")).collect();
        let many = load(COLUMN, &[("a.csv", format!("x,y,t\n{tasks}").as_bytes())]).unwrap_err();
        assert_eq!(many, "`s.toml`: found 1001 tasks, expected 1 to 1000");
    }

    /// A `.npy` file of bytes.
    fn npy(shape: &str, body: &[u8]) -> Vec<u8> {
        let header = format!("{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}\n");
        [b"\x93NUMPY\x01\0", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), body].concat()
    }

    #[test]
    fn arrays_of_different_lengths_and_sizes_are_refused() {
        let toml =
            "format = \"npy\"\n[[files]]\ntrain = \"x\"\nlabels = \"y\"\ntest = \"z\"\ntest_labels = \"y\"\n";
        let files = |z: &str, y: &[u8]| {
            let x = npy("(4, 2)", &[0, 1, 2, 3, 4, 5, 6, 7]);
            let y = npy(&format!("({},)", y.len()), y);
            load(toml, &[("x", &x), ("y", &y), ("z", &npy(z, &[0; 8]))])
        };
        let (_, tasks) = files("(4, 2)", &[1, 0, 1, 0]).unwrap();
        assert_eq!(
            (tasks.tasks[0].train.as_slice(), tasks.tasks[0].test.as_slice()),
            (&[0, 1, 2, 3][..], &[4, 5, 6, 7][..])
        );
        let flaw = |z, y| files(z, y).unwrap_err();
        assert_eq!(flaw("(4, 2)", &[1, 0]), "`y`: found 2 labels, expected 4, as many as samples in `x`");
        // Not the same shape: a row of features is no image.
        assert_eq!(
            flaw("(4, 2, 1)", &[1, 0, 1, 0]),
            "`z`: found samples of [1, 2, 1], expected [1, 1, 2] as in `x`"
        );
        assert_eq!(
            flaw("(2, 4)", &[1, 0, 1, 0]),
            "`y`: found 4 labels, expected 2, as many as samples in `z`"
        );
    }
}
