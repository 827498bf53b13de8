//! What the reader takes, refuses and tells.

use std::io::Write;

use flate2::{Compression, write::GzEncoder};

use super::{error::MAX_RATIO, *};

const COLUMNS: Columns<'_> = Columns {
    label: "kind",
    task: None,
    task_columns: &[],
    features: None,
    ignore: &[],
    delimiter: None,
    header: None,
    missing: Missing::Refuse,
    categories: None,
};

fn table(text: &str, columns: &Columns<'_>) -> Result<SampleTable, CsvError> {
    read(text.as_bytes(), text.len() as u64, columns)
}

fn error(text: &str) -> String {
    table(text, &COLUMNS).unwrap_err().to_string()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn all_other_columns_are_features() {
    let text = "a,kind,b\n1,x,-2.5\n 3 ,\"y, z\",4e-1\n\n5,x,6";
    let plain = table(text, &COLUMNS).unwrap();
    assert_eq!(plain.shape, [1, 1, 2]);
    assert_eq!(plain.features, ["a", "b"]);
    assert_eq!(plain.values, Values::Floats(vec![1.0, -2.5, 3.0, 0.4, 5.0, 6.0]));
    assert_eq!(plain.labels, ["x", "y, z", "x"].into_iter().collect());
    assert_eq!((&plain.tasks, &plain.lines[..], plain.notes.len()), (&None, &[2, 3, 5][..], 0));
    let packed = gzip(text.as_bytes());
    assert_eq!(read(&packed[..], packed.len() as u64, &COLUMNS).unwrap(), plain);
}

#[test]
fn missing_values_are_refused_left_open_or_end_the_line() {
    let text = "a,b,kind\n1,true,x\n,false,y\n3,NA,x\nnan,0,y\n";
    assert_eq!(error(text), "line 3: no value in column `a`, expected one in every line");
    let mean = table(text, &Columns { missing: Missing::Mean, ..COLUMNS }).unwrap();
    let Values::Floats(values) = mean.values else { panic!("bytes") };
    let values: Vec<_> = values.into_iter().map(|value| (!value.is_nan()).then_some(value)).collect();
    let found = [Some(1.0), Some(1.0), None, Some(0.0), Some(3.0), None, None, Some(0.0)];
    assert_eq!(values, found);
    assert_eq!(mean.notes, ["3 missing values were replaced by the mean of their column"]);
    let dropped = table(text, &Columns { missing: Missing::Drop, ..COLUMNS }).unwrap();
    assert_eq!(dropped.values, Values::Floats(vec![1.0, 1.0]));
    assert_eq!((&dropped.lines[..], dropped.labels.len()), (&[2][..], 1));
    assert_eq!(dropped.notes, ["3 rows with a missing value were left out"]);
    let none = table("a,kind\n,x\n", &Columns { missing: Missing::Drop, ..COLUMNS }).unwrap_err();
    assert!(matches!(none, CsvError::NoSamples), "{none}");
}

#[test]
fn columns_of_text_become_a_feature_for_each_category() {
    let text = "a,colour,kind\n1,red,x\n2,7,y\n3,blue,x\n4,,y\n";
    assert_eq!(error(text), "line 2: `red` in column `colour`, expected a number");
    let mut finder = TextColumnFinder::default();
    finder.scan(text.as_bytes(), text.len() as u64, &COLUMNS).unwrap();
    let categories = finder.categories();
    assert_eq!(categories, [("colour".to_owned(), ["7", "blue", "red"].map(String::from).to_vec())].into());
    let columns = Columns { categories: Some(&categories), missing: Missing::Mean, ..COLUMNS };
    let found = table(&format!("{text}5,green,x\n"), &columns).unwrap();
    assert_eq!(found.shape, [1, 1, 4]);
    assert_eq!(found.features, ["a", "colour"]);
    let expected: [[f32; 4]; 5] =
        [[1., 0., 0., 1.], [2., 1., 0., 0.], [3., 0., 1., 0.], [4., 0., 0., 0.], [5., 0., 0., 0.]];
    assert_eq!(found.values, Values::Floats(expected.concat()));
    assert_eq!(found.notes.len(), 2, "{:?}", found.notes);
    let refused = table(text, &Columns { missing: Missing::Refuse, ..columns }).unwrap_err();
    assert_eq!(refused.to_string(), "line 5: no value in column `colour`, expected one in every line");
    // Numbers may be as different as they like, texts may not.
    let many = |text: &str| {
        let lines: String = (0..300).map(|i| format!("{text}{i},x\n")).collect();
        let (mut finder, lines) = (TextColumnFinder::default(), format!("a,kind\n{lines}"));
        finder.scan(lines.as_bytes(), lines.len() as u64, &COLUMNS).map(|()| finder.categories())
    };
    assert_eq!(many("").unwrap(), Categories::new());
    assert!(matches!(many("id"), Err(CsvError::Categories { most: 256, .. })));
}

#[test]
fn integers_that_32_bits_cannot_hold_are_told() {
    let note = |text: &str| table(&format!("a,kind\n{text},x\n"), &COLUMNS).unwrap().notes;
    assert_eq!(note("16777216").len() + note("20000000.5").len() + note("1e30").len(), 0);
    let told = note("16777217");
    assert!(told[0].starts_with("1 integers are too large to be exact in 32 bits, the first is 16777217 in"));
    assert!(told[0].ends_with("if that is an identifier, list `a` in `ignore`"), "{told:?}");
}

#[test]
fn of_several_columns_the_one_that_is_not_zero_names_the_task() {
    let task_columns = ["p".to_owned(), "q".to_owned()];
    let columns = Columns { task_columns: &task_columns, ..COLUMNS };
    let found = table("p,a,q,kind\n0,5,1,x\n1.0,6,0.0,y\n", &columns).unwrap();
    assert_eq!((&*found.features, &found.values), (&["a".to_owned()][..], &Values::Floats(vec![5.0, 6.0])));
    assert_eq!(found.tasks, Some(["q", "p"].into_iter().collect()));
    let none = table("p,a,q,kind\n0,5,0,x\n", &columns).unwrap_err();
    assert_eq!(none.to_string(), "line 2: 0 of the columns `p`, `q` are not zero, expected one: the task");
}

#[test]
fn columns_are_chosen_by_name_and_in_the_order_asked_for() {
    let (features, ignore) = (["b".to_owned(), "a".to_owned()], ["id".to_owned()]);
    let columns = Columns { task: Some("day"), features: Some(&features), ..COLUMNS };
    let text = "\u{feff}id;a;b;kind;day\r\nfirst;1;2;x;mon\r\nsecond;3;4;y;tue\r\n";
    let found = table(text, &columns).unwrap();
    assert_eq!(found.values, Values::Floats(vec![2.0, 1.0, 4.0, 3.0]));
    assert_eq!(found.tasks, Some(["mon", "tue"].into_iter().collect()));
    assert_eq!(found.notes, ["values are separated by `;`"]);
    let columns = Columns { features: None, ignore: &ignore, delimiter: Some(b';'), ..columns };
    let found = table(text, &columns).unwrap();
    assert_eq!((found.features, found.notes.len()), (vec!["a".to_owned(), "b".to_owned()], 0));
}

#[test]
fn delimiter_and_header_are_detected_and_can_be_set() {
    for (text, delimiter) in [
        ("a,b;c,d\n", b','),
        ("\n\r\na;b\n1,2,3,4", b';'),
        ("a\tb,c\td", b'\t'),
        ("\"a,b,c\";d", b';'),
        ("a", b','),
        ("", b','),
    ] {
        assert_eq!(detect_delimiter(text.as_bytes()), delimiter, "{text:?}");
    }
    assert!(detect_header(&["1", "2", "x"]) && detect_header(&["", "0"]) && detect_header(&["0", "1", "2"]));
    assert!(!detect_header(&["5.1", "3", "-1e3"]) && !detect_header(&["1", "2"]));

    let third = Columns { label: "3", ..COLUMNS };
    let found = table("1;2;0\n3;4;1\n", &third).unwrap();
    assert_eq!(found.values, Values::Floats(vec![1.0, 2.0, 3.0, 4.0]));
    assert_eq!((&found.features[..], &found.lines[..]), (&["1", "2"].map(String::from)[..], &[1, 2][..]));
    assert_eq!(found.notes, ["values are separated by `;`", "no header: columns are named `1` to `3`"]);
    let found = table("1,2,3\n3,4,1\n", &Columns { header: Some(true), ..third }).unwrap();
    assert_eq!((found.values, found.notes.len()), (Values::Floats(vec![3.0, 4.0]), 0));
    let found = table("1,2,x\n3,4,y\n", &Columns { header: Some(false), ..third }).unwrap();
    assert_eq!((found.labels.len(), found.notes.len()), (2, 0));

    let unnamed = table("1,2,0\n", &COLUMNS).unwrap_err();
    assert_eq!(unnamed.to_string(), "line 1: no column `kind`, found `1`, `2`, `3`");
    assert!(unnamed.hint().contains("`header = true`"));
    assert!(table("5.1,3.5,setosa\n", &third).unwrap_err().hint().contains("`header = false`"));
}

#[test]
fn flaws_are_told_with_their_line_and_column() {
    assert_eq!(error(""), "the file is empty, expected a header and a line per sample");
    assert_eq!(error("a,kind\n"), "found a header and no samples, expected a line per sample");
    assert_eq!(error("\na,a,kind\n1,2,x"), "line 2: found the column `a` twice, expected each name once");
    assert_eq!(error(",a,kind\n0,1,x"), "line 1: column 1 has no name, expected one for each");
    assert_eq!(error("a,b\n1,2"), "line 1: no column `kind`, found `a`, `b`");
    assert_eq!(error("kind\nx"), "line 1: found no column of features, expected at least one beside `kind`");
    assert_eq!(error("a,kind\n1,x\n1,x,2"), "line 3: found 3 values, expected 2 as in the first line");
    assert_eq!(error("a,kind\n1,x\n\r\n1"), "line 4: found 1 values, expected 2 as in the first line");
    assert_eq!(error("a,kind\n,x"), "line 2: no value in column `a`, expected one in every line");
    assert_eq!(error("a,kind\n1,"), "line 2: no value in column `kind`, expected one in every line");
    assert_eq!(error("a,kind\n1,x\nNA,y"), "line 3: `NA` in column `a`, expected a number");
    let comma = table("a;kind\n1,5;x", &COLUMNS).unwrap_err();
    assert_eq!(comma.to_string(), "line 2: `1,5` in column `a`, expected a number");
    assert_eq!(comma.hint(), "write decimal points instead of commas");
    for found in ["nan", "inf", "-inf", "1e39"] {
        let expected = format!("line 2: `{found}` in column `a`, expected a finite number below 3.4e38");
        assert_eq!(error(&format!("a,kind\n{found},x")), expected);
    }
    let many: Vec<String> = (0..30).map(|i| format!("f{i}")).collect();
    assert!(error(&format!("{}\n", many.join(","))).ends_with("`f18`, `f19` and 10 more"));
    let unknown = ["c".to_owned()];
    for columns in [
        Columns { task: Some("c"), ..COLUMNS },
        Columns { features: Some(&unknown), ..COLUMNS },
        Columns { ignore: &unknown, ..COLUMNS },
    ] {
        let error = table("a,kind\n1,x", &columns).unwrap_err();
        assert_eq!(error.to_string(), "line 1: no column `c`, found `a`, `kind`");
    }
}

#[test]
fn quotes_keep_delimiters_quotes_and_lines_together() {
    let text = "a,kind\r\n1,\"x,\r\ny\"\r\n\r\n \n2,\"say \"\"z\"\"\"\r\n\"3\",\" w \"";
    let found = table(text, &COLUMNS).unwrap();
    assert_eq!(found.labels, ["x,\r\ny", "say \"z\"", "w"].into_iter().collect());
    assert_eq!((found.values, found.lines), (Values::Floats(vec![1.0, 2.0, 3.0]), vec![2, 6, 7]));
    for open in ["1,\"x", "1,\"x\n", "1,\"x\n2,y\n\n", "\"1,x", "1,y\"\"\n2,\"z\n"] {
        let error = error(&format!("a,kind\n\n0,z\n{open}"));
        let line = if open.contains("\"\"") { 5 } else { 4 };
        assert!(
            error.starts_with(&format!("line {line}: found a quote that is not closed")),
            "{open}: {error}"
        );
    }
}

#[test]
fn text_that_is_not_utf8_is_refused() {
    // The second would be a good letter if the two values were one.
    for bytes in [&b"a,kind\n1,\xff\xfe"[..], b"a,kind\n1\xc3,\xa4"] {
        let error = read(bytes, 0, &COLUMNS).unwrap_err();
        assert_eq!(error.to_string(), "line 2: found bytes that are not text in UTF-8");
    }
}

#[test]
fn endless_lines_and_compressed_bombs_are_not_read_to_the_end() {
    let zeros = io::repeat(0).take(1 << 40);
    assert!(matches!(read(zeros, 1 << 40, &COLUMNS), Err(CsvError::Long { line: 1 })));
    let text = "a,kind\n1,x\n2,\"".as_bytes().chain(io::repeat(b'\n'));
    assert!(matches!(read(text, u64::MAX, &COLUMNS), Err(CsvError::Long { line: 3 })));
    // What a file of 100 bytes may expand to, and what is left of it when 7 bytes more may be read.
    let limits = CsvLimits::new(Some(100));
    assert_eq!(limits.packed, Some((100, 1 << 28)));
    limits.total.set(7);
    let mut records = CsvRecords::new(io::Cursor::new("1,x\n2,y\n"), b',', limits);
    assert_eq!(records.next().unwrap(), Some(1));
    assert!(matches!(records.next(), Err(CsvError::Expands { packed: 100, .. })));
    assert_eq!(CsvLimits::new(Some(1 << 30)).total.get(), MAX_RATIO << 30);
}
