//! A data set in memory: samples for training and for test.

use sha2::{Digest, Sha256};

use crate::{
    hex::hex,
    samples::{Samples, Values},
};

/// Height and width to which images of any size are brought, if no other is asked for.
pub const DEFAULT_IMAGE_SIZE: usize = 84;

/// The largest height and width.
pub const MAX_IMAGE_SIZE: usize = 512;

/// A data set with a training and a test part.
#[derive(Debug, Clone)]
pub struct Dataset {
    /// Name as in `hindsight data list`.
    pub name: String,
    /// Channels, height and width of a sample; `[1, 1, width]` where it is no image.
    pub shape: [usize; 3],
    /// Labels are `0..classes`.
    pub classes: usize,
    /// What the classes are called; empty where they have numbers alone.
    pub class_names: Vec<String>,
    /// Training part; of a custom stream all samples, which its tasks divide.
    pub train: Samples,
    /// Test part.
    pub test: Samples,
    /// What the user should know about it, in lines: what was left out, and why.
    pub notes: Vec<String>,
}

impl Dataset {
    /// Values in a sample.
    pub fn width(&self) -> usize {
        self.shape.iter().product()
    }

    /// What a class is called.
    pub fn class_name(&self, class: usize) -> String {
        self.class_names.get(class).cloned().unwrap_or_else(|| class.to_string())
    }

    /// SHA-256 of what was read, whatever files it came from: shape, classes, and of the training and the
    /// test part the number, labels (32 bits each) and values (8 or 32 bits each); numbers as 64 bits, all
    /// little-endian.
    pub fn checksum(&self) -> String {
        let mut hash = Sha256::new();
        let number = |n: usize| (n as u64).to_le_bytes();
        self.shape.iter().chain([&self.classes]).for_each(|&n| hash.update(number(n)));
        for split in [&self.train, &self.test] {
            hash.update(number(split.len()));
            hash.update(split.labels.iter().flat_map(|label| label.to_le_bytes()).collect::<Vec<u8>>());
            match &split.values {
                Values::Bytes(pixels) => hash.update(pixels),
                Values::Floats(values) => values.iter().for_each(|value| hash.update(value.to_le_bytes())),
            }
        }
        hex(&hash.finalize())
    }
}

/// How a data set is to be read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Height and width to which images are resized, where they come in sizes of their own; the data set's
    /// own if there is none. Others are read as they are.
    pub image_size: Option<usize>,
}
