//! `hindsight data` on small stand-ins of its data sets. Nothing here needs a network.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Stdio},
};

use tempfile::TempDir;

/// An empty folder to work in.
struct TestDir(TempDir);

/// What a command did.
struct Done {
    code: Option<i32>,
    out: String,
    err: String,
}

impl TestDir {
    fn new() -> TestDir {
        TestDir(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), bytes).unwrap();
    }

    /// Does `hindsight data` with arguments parted by spaces, on data in `data`.
    fn data(&self, args: &str) -> Done {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hindsight"));
        command.arg("data").args(args.split(' ')).current_dir(self.0.path()).stdin(Stdio::null());
        command.env("HINDSIGHT_DATA", self.path("data")).env("HOME", self.0.path());
        let output = command.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Done { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// Asserts that a command is refused with an error and a hint that say this.
    fn refuses(&self, args: &str, error: &str, hint: &str) {
        let done = self.data(args);
        assert_eq!(done.code, Some(2), "{args}: {}", done.err);
        let lines: Vec<&str> = done.err.lines().collect();
        assert!(lines[0].starts_with("error: ") && lines[0].contains(error), "{args}: {}", done.err);
        assert!(lines[1].starts_with("hint: ") && lines[1].contains(hint), "{args}: {}", done.err);
    }
}

/// A PNG of one pixel.
const PIXEL: &[u8] = b"\x89PNG\x0d\x0a\x1a\x0a\x00\x00\x00\x0dIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x00\x00\x00\x00:~\x9bU\x00\x00\x00\x0aIDATx\x9cc\x08\x00\x00\x00R\x00Q\xf7!\xd9\xb7\x00\x00\x00\x00IEND\xaeB`\x82";

#[test]
fn cifar_files_are_listed_and_verified_with_what_they_hold() {
    let place = TestDir::new();
    let record = |label: u8| [vec![0, label], vec![7; 3072]].concat();
    place.write("data/cifar-100-binary/train.bin", (0..100).flat_map(record).collect::<Vec<u8>>());
    let half = place.data("verify cifar100");
    assert_eq!(half.code, Some(1));
    assert!(half.out.contains("test.bin                 missing"), "{}", half.out);
    place.write("data/cifar-100-binary/test.bin", record(3));
    let verify = place.data("verify cifar100");
    assert_eq!(verify.code, Some(1), "the stand-in is not the original");
    for line in [
        "train.bin                different  ",
        "images of 3x32x32, 100 classes",
        "100 for training, 1 of each class",
        "1 for test, 0 to 1 of each class",
    ] {
        assert!(verify.out.contains(line), "{}", verify.out);
    }
    place.write("data/cifar-100-binary/test.bin", record(255));
    let verify = place.data("verify cifar100");
    assert!(
        verify.out.contains("record 0 has the fine label `255`, expected less than 100"),
        "{}",
        verify.out
    );
    place.refuses("fetch cifar100", "train.bin` is not the original", "move this one");
}

#[test]
fn images_of_the_user_are_verified_and_never_fetched() {
    let place = TestDir::new();
    let laid_out = "train/CLASS/NAME.jpg";
    place.refuses("fetch miniimagenet", "may not be passed on", laid_out);
    place.refuses("fetch folder", "these are images of your own", laid_out);
    fs::create_dir(place.path("data")).unwrap();
    place.refuses("verify folder", "found no images, expected a folder of JPEG or PNG files", laid_out);
    place.refuses("verify miniimagenet --data-dir nowhere", "not found, expected a folder", laid_out);
    for name in ["train/cat/1.png", "train/dog/1.png", "test/cat/1.png", "test/dog/1.png"] {
        place.write(&format!("data/miniimagenet/{name}"), PIXEL);
    }
    let list = place.data("list");
    assert!(list.out.contains("miniimagenet`, 4 images of 2 classes"), "{}", list.out);
    let verify = place.data("verify miniimagenet");
    assert_eq!(verify.code, Some(0), "{}", verify.out);
    assert!(verify.out.contains("2 for training, 1 of each class"), "{}", verify.out);
    let verify = place.data("verify folder --data-dir data/miniimagenet");
    assert_eq!(verify.code, Some(0), "{}", verify.out);
    place.write("data/miniimagenet/test/dog/2.jpg", b"not an image");
    let verify = place.data("verify miniimagenet");
    assert_eq!(verify.code, Some(1), "{}", verify.out);
    assert!(
        verify.out.contains("left out 1 of 5 images that cannot be read: `test/dog/2.jpg`"),
        "{}",
        verify.out
    );
}
