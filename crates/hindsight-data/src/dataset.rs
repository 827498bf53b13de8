//! A data set in memory: 8-bit images with their classes, a training and a test part.

use sha2::{Digest, Sha256};

use crate::hex::hex;

/// Height and width to which images of any size are brought, if no other is asked for.
pub const DEFAULT_IMAGE_SIZE: usize = 84;

/// The largest height and width.
pub const MAX_IMAGE_SIZE: usize = 512;

/// A data set of 8-bit images with a training and a test part.
#[derive(Debug, Clone)]
pub struct Dataset {
    /// Name as in `hindsight data list`.
    pub name: String,
    /// Channels, height, width of one image.
    pub shape: [usize; 3],
    /// Labels are `0..classes`.
    pub classes: usize,
    /// What the classes are called; empty where they have numbers alone.
    pub class_names: Vec<String>,
    /// Training part.
    pub train: Split,
    /// Test part.
    pub test: Split,
    /// What the user should know about it, in lines: what was left out, and why.
    pub notes: Vec<String>,
}

impl Dataset {
    /// Values in one image.
    pub fn width(&self) -> usize {
        self.shape.iter().product()
    }

    /// What a class is called.
    pub fn class_name(&self, class: usize) -> String {
        self.class_names.get(class).cloned().unwrap_or_else(|| class.to_string())
    }

    /// SHA-256 of what was read, whatever files it came from: shape, classes, and of the training and the
    /// test part the number, labels (32 bits each) and pixels; numbers as 64 bits, all little-endian.
    pub fn checksum(&self) -> String {
        let mut hash = Sha256::new();
        let number = |n: usize| (n as u64).to_le_bytes();
        self.shape.iter().chain([&self.classes]).for_each(|&n| hash.update(number(n)));
        for split in [&self.train, &self.test] {
            hash.update(number(split.labels.len()));
            let labels: Vec<u8> =
                split.labels.iter().flat_map(|&label| u32::from(label).to_le_bytes()).collect();
            hash.update(labels);
            hash.update(&split.pixels);
        }
        hex(&hash.finalize())
    }
}

/// Images and their labels.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Split {
    /// Pixels, one image after the other: `[n, channels * height * width]`.
    pub pixels: Vec<u8>,
    /// Labels, `[n]`.
    pub labels: Vec<u16>,
}

/// How a data set is to be read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Height and width to which images are resized, where they come in sizes of their own; the data set's
    /// own if there is none. Others are read as they are.
    pub image_size: Option<usize>,
}
