//! Data sets: what they hold, where they are looked for, how they are fetched.

/// A data set of 8-bit images with a training and a test part.
#[derive(Debug, Clone)]
pub struct Dataset {
    /// Name as in `hindsight data list`.
    pub name: String,
    /// Channels, height, width of one image.
    pub shape: [usize; 3],
    /// Labels are `0..classes`.
    pub classes: usize,
    /// Training part.
    pub train: Split,
    /// Test part.
    pub test: Split,
}

/// Images and their labels.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Split {
    /// Pixels, one image after the other: `[n, channels * height * width]`.
    pub pixels: Vec<u8>,
    /// Labels, `[n]`.
    pub labels: Vec<u8>,
}
