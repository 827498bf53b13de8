//! Images of the user's own: a folder per class with JPEG and PNG files of any size.
//!
//! Three layouts are understood:
//!
//! - `DIR/CLASS/*.jpg`: a sixth of every class, at least one image, is for test;
//! - `DIR/train/CLASS/*.jpg` and `DIR/test/CLASS/*.jpg` with the same classes: split as it is; a `val` beside
//!   them joins `train`, and takes the place of a `test` that is not there;
//! - `DIR/{train,val,test}/CLASS/*.jpg` with no class in two of them, as miniImageNet is distributed for
//!   few-shot learning: all classes together, each split as in the first layout.
//!
//! Classes are numbered in the order of their names. Decoding is spread over the cores, and what comes out
//! does not depend on how many there are. It is kept in one file (`image_cache`), as it takes minutes
//! where reading takes a second.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use hindsight_nn::Rng;
use rayon::prelude::*;
use sha2::{Digest, Sha256};

use crate::{
    bounded_read,
    dataset::{Dataset, MAX_IMAGE_SIZE},
    error::{DataError, first_few},
    image_cache::{self, Cached},
    image_decode,
    samples::Samples,
};

/// The most classes that labels can tell apart.
const MAX_CLASSES: usize = 1 << 16;

/// A file may not be longer than this.
const MAX_FILE: u64 = 256 << 20;

/// A folder of images whose files are known, but not read yet.
#[derive(Debug)]
pub struct ImageFolder {
    /// Name of the data set.
    name: String,
    root: PathBuf,
    classes: Vec<Class>,
    /// Number of files and folders that are no images, or have none.
    ignored: usize,
}

#[derive(Debug)]
struct Class {
    name: String,
    train: Vec<ImageFile>,
    test: Vec<ImageFile>,
}

/// A file that should be an image.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct ImageFile {
    path: PathBuf,
    bytes: u64,
    /// Time of the last change in nanoseconds since 1970.
    changed: u128,
}

/// Class folders by name, each with its images by name.
type Classes = BTreeMap<String, Vec<ImageFile>>;

impl ImageFolder {
    /// Finds the images of the data set `name` in the first of `folders` of `dir`, or `dir` itself, that has
    /// some.
    pub fn find(name: &str, folders: &[&str], dir: &Path) -> Result<Self, DataError> {
        let mut failure = None;
        for root in folders.iter().map(|folder| dir.join(folder)).chain([dir.into()]) {
            match Self::open(name, &root) {
                // A folder that is not there, or has other things in it, leaves hope for the next.
                Err(error @ (DataError::NoFolder { .. } | DataError::NoImages { .. })) => {
                    failure.get_or_insert(error);
                }
                outcome => return outcome,
            }
        }
        Err(failure.unwrap_or_else(|| DataError::NoFolder { path: dir.into() }))
    }

    /// Finds the images in `root`.
    pub fn open(name: &str, root: &Path) -> Result<Self, DataError> {
        if !root.is_dir() {
            return Err(DataError::NoFolder { path: root.into() });
        }
        let mut ignored = 0;
        let mut parts = Vec::new();
        for part in ["train", "val", "test"] {
            let folder = root.join(part);
            if folder.is_dir() {
                let mut ignored_here = 0;
                let classes = class_folders(&folder, &mut ignored_here)?;
                if !classes.is_empty() {
                    parts.push((part, classes));
                    ignored += ignored_here;
                }
            }
        }
        let classes =
            if parts.is_empty() { split_all(class_folders(root, &mut ignored)?) } else { join(parts, root)? };
        match classes.len() {
            0 => Err(DataError::NoImages { path: root.into() }),
            2..=MAX_CLASSES => Ok(Self { name: name.into(), root: root.into(), classes, ignored }),
            found => Err(DataError::Classes { path: root.into(), found, most: MAX_CLASSES }),
        }
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Number of classes.
    pub fn classes(&self) -> usize {
        self.classes.len()
    }

    /// The names of the classes, in the order of their labels.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.classes.iter().map(|class| class.name.as_str())
    }

    /// Number of files that should be images.
    pub fn images(&self) -> usize {
        self.classes.iter().map(|class| class.train.len() + class.test.len()).sum()
    }

    /// The images at `size` x `size`, from the user's cache directory if that holds them, and kept there
    /// otherwise.
    pub fn load(&self, size: usize) -> Result<Dataset, DataError> {
        self.load_cached(size, &image_cache::location(&self.root, size))
    }

    fn load_cached(&self, size: usize, cache: &Path) -> Result<Dataset, DataError> {
        check(size)?;
        let fingerprint = self.fingerprint();
        if let Some(cached) = image_cache::read(cache, size, &fingerprint) {
            return Ok(self.dataset(size, cached));
        }
        let decoded = self.decoded(size)?;
        let names: Vec<&str> = self.classes.iter().map(|class| class.name.as_str()).collect();
        let kept = image_cache::write(cache, size, &fingerprint, &names, &decoded);
        let mut dataset = self.dataset(size, decoded);
        if let Err(error) = kept {
            dataset.notes.push(format!("decoded images cannot be kept for the next time: {error}"));
        }
        Ok(dataset)
    }

    /// The images at `size` x `size`, read one by one, whatever the cache holds.
    pub fn decode(&self, size: usize) -> Result<Dataset, DataError> {
        check(size)?;
        Ok(self.dataset(size, self.decoded(size)?))
    }

    fn dataset(&self, size: usize, content: Cached) -> Dataset {
        let mut notes = content.notes;
        if self.ignored > 0 {
            notes.push(format!("ignored {} files and folders that are no images or have none", self.ignored));
        }
        Dataset {
            name: self.name.clone(),
            shape: [3, size, size],
            classes: self.classes.len(),
            class_names: self.names().map(str::to_owned).collect(),
            train: content.train,
            test: content.test,
            notes,
        }
    }

    fn decoded(&self, size: usize) -> Result<Cached, DataError> {
        let (train, bad_train) = self.part(size, "training", |class| &class.train)?;
        let (test, bad_test) = self.part(size, "test", |class| &class.test)?;
        let bad = [bad_train, bad_test].concat();
        let notes = Vec::from_iter(left_out(&bad, self.images()));
        Ok(Cached { train, test, notes })
    }

    /// One part of every class, with the images that cannot be read and why.
    fn part(
        &self,
        size: usize,
        part: &'static str,
        of: impl Fn(&Class) -> &Vec<ImageFile>,
    ) -> Result<(Samples, Vec<String>), DataError> {
        let classes = self.classes.iter().zip(0..=u32::from(u16::MAX));
        let images: Vec<(&ImageFile, u32)> =
            classes.flat_map(|(class, label)| of(class).iter().map(move |image| (image, label))).collect();
        let width = 3 * size * size;
        let mut pixels = zeros(images.len(), width)?;
        let outcomes: Vec<Result<(), String>> = pixels
            .par_chunks_exact_mut(width)
            .zip(&images)
            .map(|(out, (image, _))| decode(image, size, out))
            .collect();

        // What is left out is closed up, so that the order stays.
        let (mut labels, mut bad) = (Vec::with_capacity(images.len()), Vec::new());
        for (i, ((image, label), outcome)) in images.iter().zip(outcomes).enumerate() {
            match outcome {
                Ok(()) => {
                    pixels.copy_within(i * width..(i + 1) * width, labels.len() * width);
                    labels.push(*label);
                }
                Err(reason) => {
                    let path = image.path.strip_prefix(&self.root).unwrap_or(&image.path);
                    bad.push((*label, format!("`{}`: {reason}", path.display())));
                }
            }
        }
        pixels.truncate(labels.len() * width);
        // Labels are in order, so classes without images are gaps.
        for (class, label) in self.classes.iter().zip(0..=u32::from(u16::MAX)) {
            if labels.binary_search(&label).is_err() {
                bad.retain(|(of, _)| *of == label);
                return Err(DataError::EmptyClass {
                    path: self.root.clone(),
                    class: class.name.clone(),
                    part,
                    bad: bad.into_iter().map(|(_, why)| why).collect(),
                });
            }
        }
        Ok((Samples::images(pixels, labels), bad.into_iter().map(|(_, why)| why).collect()))
    }

    /// Stands for the files and their division, so that it changes whenever one of them does.
    fn fingerprint(&self) -> String {
        let mut hasher = Sha256::new();
        for class in &self.classes {
            for (part, images) in [("train", &class.train), ("test", &class.test)] {
                for ImageFile { path, bytes, changed } in images {
                    let path = path.strip_prefix(&self.root).unwrap_or(path);
                    hasher.update(path.as_os_str().as_encoded_bytes());
                    // No path has a zero byte in it.
                    hasher.update(format!("\0{part} {bytes} {changed}\n"));
                }
            }
        }
        hasher.finalize().iter().fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        })
    }
}

fn check(size: usize) -> Result<(), DataError> {
    match size {
        1..=MAX_IMAGE_SIZE => Ok(()),
        found => Err(DataError::Resize { found, most: MAX_IMAGE_SIZE }),
    }
}

/// The folders in `folder` that have images in them. Everything else is counted.
fn class_folders(folder: &Path, ignored: &mut usize) -> Result<Classes, DataError> {
    let mut classes = Classes::new();
    for (name, path) in entries(folder)? {
        if is_hidden(&name) || !path.is_dir() {
            *ignored += usize::from(!image_cache::is_cache(&name));
            continue;
        }
        let mut images = Vec::new();
        for (name, path) in entries(&path)? {
            match path.metadata() {
                Ok(meta) if meta.is_file() && is_image(&name) => {
                    let changed = meta.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
                    let changed = changed.map_or(0, |time| time.as_nanos());
                    images.push(ImageFile { path, bytes: meta.len(), changed });
                }
                _ => *ignored += 1,
            }
        }
        if images.is_empty() {
            *ignored += 1;
        } else {
            images.sort();
            classes.entry(name).or_default().extend(images);
        }
    }
    Ok(classes)
}

fn entries(folder: &Path) -> Result<Vec<(String, PathBuf)>, DataError> {
    let entries = || {
        fs::read_dir(folder)?
            .map(|entry| entry.map(|e| (text(&e.file_name()), e.path())))
            .collect::<io::Result<_>>()
    };
    entries().map_err(|error| DataError::Io { path: folder.into(), error })
}

/// A name as text. Bytes that are not UTF-8 are written out, so that different names stay different.
fn text(name: &OsStr) -> String {
    let chunks = name.as_encoded_bytes().utf8_chunks();
    chunks.map(|chunk| format!("{}{}", chunk.valid(), chunk.invalid().escape_ascii())).collect()
}

fn is_hidden(name: &str) -> bool {
    name.starts_with('.')
}

fn is_image(name: &str) -> bool {
    let end = name.rsplit_once('.').map_or("", |(_, end)| end).to_ascii_lowercase();
    !is_hidden(name) && ["jpg", "jpeg", "png"].contains(&end.as_str())
}

/// Splits every class by itself.
fn split_all(classes: Classes) -> Vec<Class> {
    let split = |(name, images): (String, Vec<ImageFile>)| {
        // A generator for every class: one more class leaves the others as they were.
        let mut order: Vec<usize> = (0..images.len()).collect();
        let tests = (images.len() / 6).max(1);
        Rng::named(0, &format!("image folder split {name}")).shuffle_front(&mut order, tests);
        let mut is_test = vec![false; images.len()];
        order[..tests].iter().for_each(|&i| is_test[i] = true);
        let mut class = Class { name, train: Vec::new(), test: Vec::new() };
        for (image, is_test) in images.into_iter().zip(is_test) {
            let part = if is_test { &mut class.test } else { &mut class.train };
            part.push(image);
        }
        class
    };
    classes.into_iter().map(split).collect()
}

/// Joins `train`, `val` and `test`, as far as they are there.
fn join(mut parts: Vec<(&'static str, Classes)>, root: &Path) -> Result<Vec<Class>, DataError> {
    let shared = |a: &Classes, b: &Classes| a.keys().any(|name| b.contains_key(name));
    let apart = (0..parts.len()).all(|i| (0..i).all(|j| !shared(&parts[i].1, &parts[j].1)));
    if apart {
        return Ok(split_all(parts.into_iter().flat_map(|(_, classes)| classes).collect()));
    }
    let (first, expected) = &parts[0];
    for (part, classes) in &parts[1..] {
        let here = |a: &Classes, b: &Classes| a.keys().find(|name| !b.contains_key(*name)).cloned();
        let odd = here(expected, classes).map(|class| (class, *first, *part));
        if let Some((class, with, without)) = odd.or_else(|| Some((here(classes, expected)?, *part, *first)))
        {
            return Err(DataError::UnevenParts { path: root.into(), class, with, without });
        }
    }
    // The last part is for test, be it `test` or, without one, `val`.
    let mut test = parts.pop().map(|(_, classes)| classes).unwrap_or_default();
    let mut train = Classes::new();
    for (name, images) in parts.into_iter().flat_map(|(_, classes)| classes) {
        train.entry(name).or_default().extend(images);
    }
    let class = |(name, train)| {
        let test = test.remove(&name).unwrap_or_default();
        Class { name, train, test }
    };
    Ok(train.into_iter().map(class).collect())
}

/// Memory for `images` of `width` bytes, if there is that much.
fn zeros(images: usize, width: usize) -> Result<Vec<u8>, DataError> {
    let mut pixels = Vec::new();
    let bytes = images.checked_mul(width).filter(|&bytes| pixels.try_reserve_exact(bytes).is_ok());
    pixels.resize(bytes.ok_or(DataError::Memory { images, each: width })?, 0);
    Ok(pixels)
}

/// Reads an image into `out`: red, then green, then blue, each `size` x `size`.
fn decode(image: &ImageFile, size: usize, out: &mut [u8]) -> Result<(), String> {
    if image.bytes > MAX_FILE {
        return Err(format!("found {} bytes, expected at most {MAX_FILE}", image.bytes));
    }
    let bytes = bounded_read::read_whole(&image.path).map_err(|error| error.to_string())?;
    image_decode::decode_rgb(&bytes, size, out)
}

/// Decodes one file at `size` x `size` into `out`: red, then green, then blue.
pub(crate) fn decode_file(path: &Path, size: usize, out: &mut [u8]) -> Result<(), String> {
    let bytes = path.metadata().map_err(|error| error.to_string())?.len();
    decode(&ImageFile { path: path.into(), bytes, changed: 0 }, size, out)
}

/// All images of `ROOT/CLASS`, each with its class, by name; or those right in `root`, without classes.
pub(crate) fn list_files(root: &Path) -> Result<Vec<(PathBuf, Option<String>)>, DataError> {
    let classes = class_folders(root, &mut 0)?;
    let labelled = classes.into_iter().flat_map(|(class, images)| {
        images.into_iter().map(move |image| (image.path, Some(class.clone()))).collect::<Vec<_>>()
    });
    let mut files: Vec<(PathBuf, Option<String>)> = labelled.collect();
    if files.is_empty() {
        let here = entries(root)?.into_iter().filter(|(name, path)| is_image(name) && path.is_file());
        files = here.map(|(_, path)| (path, None)).collect();
        files.sort();
    }
    match files.is_empty() {
        true => Err(DataError::NoImages { path: root.into() }),
        false => Ok(files),
    }
}

/// A line about the images that cannot be read, if there are some.
fn left_out(bad: &[String], images: usize) -> Option<String> {
    let named = first_few(bad)?;
    Some(format!("left out {} of {images} images that cannot be read: {named}", bad.len()))
}

#[cfg(all(test, feature = "images"))]
mod tests {
    use image::{ExtendedColorType, ImageEncoder, Rgb, RgbImage, codecs};
    use tempfile::TempDir;

    use super::*;
    use crate::image_decode::decode_bytes;

    const SIZE: usize = 8;

    fn rgb(colour: [u8; 3], width: u32, height: u32) -> RgbImage {
        RgbImage::from_pixel(width, height, Rgb(colour))
    }

    fn jpeg(image: &RgbImage) -> Vec<u8> {
        let mut bytes = Vec::new();
        codecs::jpeg::JpegEncoder::new_with_quality(&mut bytes, 95).encode_image(image).unwrap();
        bytes
    }

    fn png(pixels: &[u8], width: u32, height: u32, kind: ExtendedColorType) -> Vec<u8> {
        let mut bytes = Vec::new();
        codecs::png::PngEncoder::new(&mut bytes).write_image(pixels, width, height, kind).unwrap();
        bytes
    }

    /// A PNG of one pixel, which is red as much as is said.
    fn red(red: u8) -> Vec<u8> {
        png(&[red, 0, 0], 1, 1, ExtendedColorType::Rgb8)
    }

    fn put(root: &Path, name: &str, bytes: &[u8]) {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    /// A folder with these files, each a pixel that is red by its position in the list.
    fn folder(names: &[&str]) -> TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (i, name) in names.iter().enumerate() {
            put(dir.path(), name, &red(i as u8));
        }
        dir
    }

    fn decode_all(root: &Path) -> Result<Dataset, DataError> {
        ImageFolder::open("folder", root)?.decode(SIZE)
    }

    /// The position in the list of each image of a part.
    fn reds(split: &Samples) -> Vec<u8> {
        split.pixels().chunks_exact(3 * SIZE * SIZE).map(|image| image[0]).collect()
    }

    fn names(classes: &[&str], each: usize) -> Vec<String> {
        let of = |class: &&str| (0..each).map(|i| format!("{class}/{i:03}.png")).collect::<Vec<_>>();
        classes.iter().flat_map(of).collect()
    }

    #[test]
    fn a_sixth_of_every_class_is_for_test_and_always_the_same() {
        let names = names(&["dog", "cat"], 12);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let dir = folder(&names);
        let data = decode_all(dir.path()).unwrap();
        assert_eq!((data.name.as_str(), data.shape, data.classes), ("folder", [3, SIZE, SIZE], 2));
        assert_eq!(data.train.labels, [[0; 10], [1; 10]].concat(), "in the order of names");
        assert_eq!(data.test.labels, [0, 0, 1, 1]);
        let [train, test] = [reds(&data.train), reds(&data.test)];
        assert!(train[..10].is_sorted() && train[10..].is_sorted());
        assert!(train[..10].iter().all(|&red| red >= 12) && train[10..].iter().all(|&red| red < 12));
        let mut all = [train, test.clone()].concat();
        all.sort();
        assert_eq!(all, (0..24).collect::<Vec<u8>>());
        assert!(data.notes.is_empty(), "{:?}", data.notes);
        // Pinned: another division would make results of different versions incomparable.
        assert_eq!(test, [12, 13, 3, 4]);
        // Another class changes nothing for these.
        put(dir.path(), "bee/1.png", &red(100));
        put(dir.path(), "bee/2.png", &red(101));
        assert_eq!(reds(&decode_all(dir.path()).unwrap().test)[1..], test);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn classes_whose_names_are_not_utf8_stay_apart() {
        use std::os::unix::ffi::OsStrExt;
        let dir = folder(&["a/1.png", "a/2.png"]);
        for byte in [0xfe, 0xff] {
            let class = dir.path().join(OsStr::from_bytes(&[b'x', byte]));
            fs::create_dir(&class).unwrap();
            fs::write(class.join("1.png"), red(byte)).unwrap();
            fs::write(class.join("2.png"), red(byte)).unwrap();
        }
        let found = ImageFolder::open("folder", dir.path()).unwrap();
        assert_eq!(found.names().collect::<Vec<_>>(), ["a", "x\\xfe", "x\\xff"]);
    }

    #[test]
    fn the_number_of_threads_changes_nothing() {
        let names = names(&["a", "b", "c"], 20);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let dir = folder(&names);
        put(dir.path(), "b/007.png", b"garbage");
        let on = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let data = pool.install(|| decode_all(dir.path())).unwrap();
            (data.train, data.test, data.notes)
        };
        assert_eq!(on(1), on(7));
    }

    #[test]
    fn train_and_test_with_the_same_classes_are_taken_as_they_are_and_val_joins_train() {
        let names = ["train/a/x.png", "train/b/x.png", "test/a/x.png", "test/b/x.png"];
        let dir = folder(&names);
        let data = decode_all(dir.path()).unwrap();
        assert_eq!((reds(&data.train), reds(&data.test)), (vec![0, 1], vec![2, 3]));
        put(dir.path(), "val/a/x.png", &red(9));
        put(dir.path(), "val/b/x.png", &red(8));
        let data = decode_all(dir.path()).unwrap();
        assert_eq!((reds(&data.train), data.train.labels), (vec![0, 9, 1, 8], vec![0, 0, 1, 1]));
        assert_eq!((reds(&data.test), data.test.labels), (vec![2, 3], vec![0, 1]));
        fs::remove_dir_all(dir.path().join("test")).unwrap();
        let data = decode_all(dir.path()).unwrap();
        assert_eq!((reds(&data.train), reds(&data.test)), (vec![0, 1], vec![9, 8]));
    }

    #[test]
    fn parts_with_classes_of_their_own_are_joined_and_each_class_is_split() {
        let names: Vec<String> = [("train", "b"), ("train", "d"), ("val", "a"), ("test", "c")]
            .iter()
            .flat_map(|(part, class)| (0..6).map(move |i| format!("{part}/{class}/{i}.png")))
            .collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let data = decode_all(folder(&names).path()).unwrap();
        assert_eq!(data.classes, 4);
        assert_eq!(data.train.labels, [[0; 5], [1; 5], [2; 5], [3; 5]].concat());
        assert_eq!(data.test.labels, [0, 1, 2, 3]);
        assert!((12..18).contains(&reds(&data.train)[0]), "class `a` is in `val`");
    }

    #[test]
    fn parts_that_share_some_classes_are_refused() {
        let dir = folder(&["train/a/x.png", "train/b/x.png", "test/a/x.png"]);
        let error = decode_all(dir.path()).unwrap_err();
        assert!(error.to_string().contains("found the class `b` in `train` but not in `test`"), "{error}");
        assert!(error.hint().is_some());
        let dir = folder(&["train/a/x.png", "val/a/x.png", "test/a/x.png", "val/z/x.png"]);
        let error = decode_all(dir.path()).unwrap_err();
        assert!(error.to_string().contains("found the class `z` in `val` but not in `train`"), "{error}");
    }

    #[test]
    fn every_kind_of_image_becomes_red_green_and_blue_planes() {
        use ExtendedColorType::{L8, La8, Rgb16, Rgba8};
        let (train, test) = ("train/a/x.png", "test/a/x.png");
        let colour = [200, 100, 50];
        let large = jpeg(&rgb(colour, 100, 37));
        let wide: Vec<u8> = colour.iter().flat_map(|&c| u16::from_be_bytes([c, c]).to_ne_bytes()).collect();
        for (bytes, expected) in [
            (large, colour),
            (jpeg(&rgb(colour, SIZE as u32, SIZE as u32)), colour),
            (jpeg(&rgb(colour, 1, 1)), colour),
            (png(&[77], 1, 1, L8), [77; 3]),
            (png(&[77, 10], 1, 1, La8), [77; 3]),
            (png(&[1, 2, 3, 0], 1, 1, Rgba8), [1, 2, 3]),
            (png(&wide, 1, 1, Rgb16), colour),
            (PALETTE.to_vec(), [10, 20, 30]),
        ] {
            let dir = folder(&["train/b/x.png", "test/b/x.png"]);
            put(dir.path(), train, &bytes);
            put(dir.path(), test, &bytes);
            let data = decode_all(dir.path()).unwrap();
            for (plane, expected) in data.test.pixels().chunks_exact(SIZE * SIZE).zip(expected) {
                let near = |&value: &u8| value.abs_diff(expected) <= 2;
                assert!(plane.iter().all(near), "{plane:?}, expected {expected}");
            }
        }
    }

    /// A PNG of one pixel from a palette of one colour.
    const PALETTE: &[u8] = b"\x89PNG\x0d\x0a\x1a\x0a\x00\x00\x00\x0dIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x03\x00\x00\x00(\xcb4\xbb\x00\x00\x00\x03PLTE\x0a\x14\x1e~LR:\x00\x00\x00\x0aIDATx\x9cc`\x00\x00\x00\x02\x00\x01H\xaf\xa4q\x00\x00\x00\x00IEND\xaeB`\x82";

    #[test]
    fn reduction_averages_and_keeps_places() {
        // The left half is a checkerboard of single pixels, the right half is white.
        let image = RgbImage::from_fn(64, 64, |x, y| {
            let bright = if x >= 32 || (x + y) % 2 == 0 { 255 } else { 0 };
            Rgb([bright, 0, bright])
        });
        let dir = folder(&["train/b/x.png", "test/b/x.png"]);
        let bytes = png(image.as_raw(), 64, 64, ExtendedColorType::Rgb8);
        put(dir.path(), "train/a/x.png", &bytes);
        put(dir.path(), "test/a/x.png", &bytes);
        let data = decode_all(dir.path()).unwrap();
        let (red, rest) = data.train.pixels().split_at(SIZE * SIZE);
        for row in red.chunks_exact(SIZE) {
            assert!(row[..3].iter().all(|value| (120..136).contains(value)), "{row:?}");
            assert!(row[5..].iter().all(|&value| value == 255), "{row:?}");
        }
        assert!(rest[..SIZE * SIZE].iter().all(|&green| green == 0));
        assert_eq!(rest[SIZE * SIZE..][..SIZE * SIZE], *red);
    }

    /// Ways not to be an image, with a word on each.
    fn broken() -> Vec<(&'static str, Vec<u8>, &'static str)> {
        let photo = RgbImage::from_fn(90, 60, |x, y| Rgb([x as u8 * 2, y as u8 * 3, (x * y) as u8]));
        let whole = jpeg(&photo);
        let cut = whole[..whole.len() * 2 / 3].to_vec();
        let mut unfinished = png(photo.as_raw(), 90, 60, ExtendedColorType::Rgb8);
        unfinished.truncate(unfinished.len() / 2);
        vec![
            ("garbage.jpg", b"no image at all".to_vec(), "neither JPEG nor PNG"),
            ("empty.png", Vec::new(), "the file is empty"),
            ("cut.jpeg", cut, "the file ends early"),
            ("unfinished.png", unfinished, ""),
            ("huge.png", empty(100_000, 100_000), "found 100000x100000 pixels, expected 1 to 67108864"),
            ("wide.png", empty(67_108_864, 1), "found 67108864x1 pixels, expected at most 16384 on a side"),
            ("gif.png", b"GIF89a\x01\0\x01\0\0\0\0;".to_vec(), "not supported"),
        ]
    }

    /// The header of a PNG of that size, with a little content.
    fn empty(width: u32, height: u32) -> Vec<u8> {
        let mut bytes = png(&[0; 16], 16, 1, ExtendedColorType::L8);
        bytes[16..20].copy_from_slice(&width.to_be_bytes());
        bytes[20..24].copy_from_slice(&height.to_be_bytes());
        let mut crc = flate2::Crc::new();
        crc.update(&bytes[12..29]);
        bytes[29..33].copy_from_slice(&crc.sum().to_be_bytes());
        bytes
    }

    #[test]
    fn images_that_cannot_be_read_are_left_out_named_and_counted() {
        let names = ["train/a/x.png", "train/b/x.png", "train/b/y.png", "test/a/x.png", "test/b/x.png"];
        let dir = folder(&names);
        for (name, bytes, _) in broken() {
            put(dir.path(), &format!("train/b/{name}"), &bytes);
        }
        let data = decode_all(dir.path()).unwrap();
        assert_eq!((reds(&data.train), data.train.labels), (vec![0, 1, 2], vec![0, 1, 1]));
        let [note] = &data.notes[..] else { panic!("{:?}", data.notes) };
        assert!(note.starts_with("left out 7 of 12 images that cannot be read: `train"), "{note}");
        assert!(
            note.ends_with("; and 2 more") && note.contains("cut.jpeg`: the file ends early; "),
            "{note}"
        );
    }

    #[test]
    fn each_broken_image_is_told_by_what_is_wrong_with_it() {
        for (name, bytes, reason) in broken() {
            let dir = folder(&["train/a/x.png", "train/b/x.png", "test/a/x.png", "test/b/x.png"]);
            put(dir.path(), &format!("test/b/{name}"), &bytes);
            let data = decode_all(dir.path()).unwrap();
            assert!(data.notes[0].contains(name) && data.notes[0].contains(reason), "{:?}", data.notes);
        }
    }

    #[test]
    fn a_class_without_a_good_image_is_refused_with_the_bad_ones() {
        let dir = folder(&["train/a/x.png", "train/b/x.png", "test/a/x.png", "train/a/y.jpg"]);
        put(dir.path(), "test/b/x.png", b"garbage");
        put(dir.path(), "test/a/z.png", b"");
        let error = decode_all(dir.path()).unwrap_err();
        let DataError::EmptyClass { class, part: "test", bad, .. } = &error else { panic!("{error}") };
        assert_eq!((class.as_str(), bad.len()), ("b", 1));
        let message = error.to_string();
        assert!(message.contains("found no good test image of the class `b`, expected at least one; `test"));
        assert!(message.ends_with("x.png`: neither JPEG nor PNG"), "{message}");
        // One image is for test, so none is left for training.
        let error = decode_all(folder(&["a/x.png", "a/y.png", "b/x.png"]).path()).unwrap_err();
        assert!(
            error.to_string().ends_with("no good training image of the class `b`, expected at least one")
        );
        assert!(error.hint().unwrap().contains("two good images"));
    }

    #[test]
    fn one_class_is_refused() {
        let error = decode_all(folder(&["cat/x.png", "cat/y.png"]).path()).unwrap_err();
        assert!(matches!(error, DataError::Classes { found: 1, .. }), "{error}");
        assert!(error.to_string().ends_with("found 1 class folders with images, expected 2 to 65536"));
        assert!(error.hint().is_some());
    }

    #[test]
    fn a_folder_that_is_missing_or_without_images_is_refused() {
        let dir = folder(&["loose.png", "a/notes.txt", "b/deeper/x.png", ".hidden/x.png", "c/.x.png"]);
        let error = decode_all(dir.path()).unwrap_err();
        assert!(matches!(error, DataError::NoImages { .. }), "{error}");
        let error = decode_all(&dir.path().join("nowhere")).unwrap_err();
        assert!(matches!(error, DataError::NoFolder { .. }), "{error}");
        assert!(error.hint().unwrap().contains("CLASS/NAME.jpg"));
    }

    #[test]
    fn what_is_no_image_is_ignored_and_counted() {
        let dir = folder(&["a/x.PNG", "a/y.Jpg", "b/x.png", "b/y.JPEG"]);
        for name in
            ["readme.md", "a/.DS_Store", "a/x.txt", "empty/x.txt", ".git/x.png", ".hindsight-84x84.cache"]
        {
            put(dir.path(), name, b"");
        }
        let data = decode_all(dir.path()).unwrap();
        assert_eq!(data.train.labels.len() + data.test.labels.len(), 4);
        assert_eq!(data.notes, ["ignored 6 files and folders that are no images or have none"]);
    }

    #[test]
    fn an_image_size_out_of_range_is_refused() {
        let images =
            ImageFolder::open("folder", folder(&["a/x.png", "a/y.png", "b/x.png", "b/y.png"]).path());
        let images = images.unwrap();
        for size in [0, MAX_IMAGE_SIZE + 1, usize::MAX] {
            for outcome in [images.load(size), images.decode(size)] {
                assert!(matches!(outcome, Err(DataError::Resize { found, .. }) if found == size));
            }
        }
        assert!(images.decode(0).unwrap_err().hint().unwrap().contains("84"));
    }

    #[test]
    fn more_than_memory_can_hold_is_refused() {
        for images in [usize::MAX, usize::MAX / 3072] {
            let error = zeros(images, 3072).unwrap_err();
            assert!(matches!(error, DataError::Memory { each: 3072, .. }), "{error}");
            assert!(error.hint().is_some());
        }
    }

    #[test]
    fn decoded_images_are_kept_until_a_file_changes() {
        let dir = folder(&["a/x.png", "a/y.png", "b/x.png", "b/y.png", "b/z.png"]);
        put(dir.path(), "b/w.png", b"garbage");
        let elsewhere = tempfile::tempdir().unwrap();
        let cache = elsewhere.path().join("new").join("8x8.cache");
        let load = || ImageFolder::open("folder", dir.path()).unwrap().load_cached(SIZE, &cache).unwrap();
        let first = load();
        let same = |data: &Dataset| {
            assert_eq!((&data.train, &data.test, &data.notes), (&first.train, &first.test, &first.notes));
        };
        same(&decode_all(dir.path()).unwrap());

        // That it is used shows in what it holds.
        let images = ImageFolder::open("folder", dir.path()).unwrap();
        let mut marked = Cached { train: first.train.clone(), test: first.test.clone(), notes: Vec::new() };
        let mut pixels = marked.train.pixels().to_vec();
        pixels[0] ^= 1;
        marked.train.values = crate::Values::Bytes(pixels);
        let fingerprint = images.fingerprint();
        image_cache::write(&cache, SIZE, &fingerprint, &["a", "b"], &marked).unwrap();
        assert_eq!(load().train, marked.train);

        // Anything wrong with it means decoding again, and a good one after that.
        let bytes = fs::read(&cache).unwrap();
        fs::write(&cache, &bytes[..bytes.len() - 1]).unwrap();
        same(&load());
        assert_eq!(
            fs::read(&cache).unwrap().len(),
            bytes.len() + first.notes[0].len() + 2,
            "the note has come back"
        );

        put(dir.path(), "a/x.png", &png(&[250, 0, 0, 255], 1, 1, ExtendedColorType::Rgba8));
        let changed = load();
        assert!([reds(&changed.train), reds(&changed.test)].concat().contains(&250));
        fs::remove_file(dir.path().join("a").join("y.png")).unwrap();
        put(dir.path(), "a/z.png", &red(200));
        assert!([reds(&load().train), reds(&load().test)].concat().contains(&200));
    }

    #[test]
    fn no_damage_to_an_image_panics() {
        let photo = RgbImage::from_fn(24, 16, |x, y| Rgb([x as u8 * 9, y as u8 * 12, (x * y) as u8]));
        for whole in [jpeg(&photo), png(photo.as_raw(), 24, 16, ExtendedColorType::Rgb8)] {
            assert!(decode_bytes(&whole).is_ok());
            for at in 0..whole.len() {
                assert!(decode_bytes(&whole[..at]).is_err() || at + 20 > whole.len(), "cut to {at} bytes");
                let mut bytes = whole.clone();
                bytes[at] ^= 1 << (at % 8);
                let _ = decode_bytes(&bytes);
            }
        }
    }
}
