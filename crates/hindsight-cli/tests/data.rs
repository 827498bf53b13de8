//! `hindsight data` on small stand-ins of its data sets. Nothing here needs a network.

mod common;

use std::fs;

use common::{Done, TestDir};

/// Runs `hindsight data` with space-separated arguments, on data in `data`.
fn data(place: &TestDir, args: &str) -> Done {
    place.hindsight(&format!("data {args}"))
}

/// A PNG of one pixel.
const PIXEL: &[u8] = b"\x89PNG\x0d\x0a\x1a\x0a\x00\x00\x00\x0dIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x00\x00\x00\x00:~\x9bU\x00\x00\x00\x0aIDATx\x9cc\x08\x00\x00\x00R\x00Q\xf7!\xd9\xb7\x00\x00\x00\x00IEND\xaeB`\x82";

#[test]
fn cifar_files_are_listed_and_verified_with_what_they_hold() {
    let place = TestDir::empty();
    let record = |label: u8| [vec![0, label], vec![7; 3072]].concat();
    place.write("data/cifar-100-binary/train.bin", (0..100).flat_map(record).collect::<Vec<u8>>());
    let half = data(&place, "verify cifar100");
    assert_eq!(half.code, Some(1));
    assert!(half.out.contains("test.bin                 missing"), "{}", half.out);
    place.write("data/cifar-100-binary/test.bin", record(3));
    let verify = data(&place, "verify cifar100");
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
    let verify = data(&place, "verify cifar100");
    assert!(verify.out.contains("record 0 has the label `255`, expected less than 100"), "{}", verify.out);
    place.refuses("data fetch cifar100", "train.bin` is not the original", "move this one");
}

#[test]
fn images_of_the_user_are_verified_and_never_fetched() {
    let place = TestDir::empty();
    let laid_out = "train/CLASS/NAME.jpg";
    place.refuses("data fetch miniimagenet", "may not be passed on", laid_out);
    place.refuses("data fetch folder", "these are images of your own", laid_out);
    fs::create_dir(place.path("data")).unwrap();
    place.refuses("data verify folder", "found no images, expected a folder of JPEG or PNG files", laid_out);
    place.refuses("data verify miniimagenet --data-dir nowhere", "not found, expected a folder", laid_out);
    for name in ["train/cat/1.png", "train/dog/1.png", "test/cat/1.png", "test/dog/1.png"] {
        place.write(&format!("data/miniimagenet/{name}"), PIXEL);
    }
    let list = data(&place, "list");
    assert!(list.out.contains("miniimagenet`, 4 images of 2 classes"), "{}", list.out);
    let verify = data(&place, "verify miniimagenet");
    assert_eq!(verify.code, Some(0), "{}", verify.out);
    assert!(verify.out.contains("2 for training, 1 of each class"), "{}", verify.out);
    let verify = data(&place, "verify folder --data-dir data/miniimagenet");
    assert_eq!(verify.code, Some(0), "{}", verify.out);
    place.write("data/miniimagenet/test/dog/2.jpg", b"not an image");
    let verify = data(&place, "verify miniimagenet");
    assert_eq!(verify.code, Some(1), "{}", verify.out);
    assert!(
        verify.out.contains("left out 1 of 5 images that cannot be read: `test/dog/2.jpg`"),
        "{}",
        verify.out
    );
}
