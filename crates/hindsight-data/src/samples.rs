//! Samples in memory: 8-bit images or features, row by row, each with its class.

use hindsight_nn::LinearMap;

/// Samples and their classes. All readers return them, and all streams are views over them.
#[derive(Debug, Clone, PartialEq)]
pub struct Samples {
    /// One sample after the other: `[n, width]`.
    pub values: Values,
    /// Classes, `[n]`.
    pub labels: Vec<u32>,
}

/// The values of samples; images keep the 8 bits of their files.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// Each byte is 255 times the value.
    Bytes(Vec<u8>),
    /// The values themselves.
    Floats(Vec<f32>),
}

impl Default for Samples {
    fn default() -> Samples {
        Samples::images(Vec::new(), Vec::new())
    }
}

impl Samples {
    /// 8-bit images.
    pub fn images(pixels: Vec<u8>, labels: Vec<u32>) -> Samples {
        Samples { values: Values::Bytes(pixels), labels }
    }

    /// Number of samples.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// The pixels of 8-bit images; of features there are none.
    pub fn pixels(&self) -> &[u8] {
        match &self.values {
            Values::Bytes(pixels) => pixels,
            Values::Floats(_) => &[],
        }
    }

    /// The values of a sample of `width`, which for a pixel are in [0, 1].
    pub fn read(&self, sample: usize, width: usize, to: &mut Vec<f32>) {
        to.clear();
        match &self.values {
            Values::Bytes(bytes) => {
                to.extend(bytes[sample * width..][..width].iter().map(|&byte| FRACTIONS[usize::from(byte)]));
            }
            Values::Floats(floats) => to.extend_from_slice(&floats[sample * width..][..width]),
        }
    }

    /// [`Samples::read`] through `map`, whose width is that of the samples; appends to `to`.
    pub fn read_through(&self, sample: usize, map: &LinearMap, to: &mut Vec<f32>) {
        let at = sample * map.width()..(sample + 1) * map.width();
        match &self.values {
            Values::Bytes(bytes) => {
                let bytes = &bytes[at];
                map.apply_to(|source| FRACTIONS[usize::from(bytes[source])], to);
            }
            Values::Floats(floats) => map.apply(&floats[at], to),
        }
    }
}

/// What the values of a byte stand for. A table is faster than as many divisions.
static FRACTIONS: [f32; 256] = {
    let (mut fractions, mut byte) = ([0.0; 256], 0);
    while byte < 256 {
        fractions[byte] = byte as f32 / 255.0;
        byte += 1;
    }
    fractions
};

impl Values {
    /// Number of values.
    pub fn len(&self) -> usize {
        match self {
            Values::Bytes(bytes) => bytes.len(),
            Values::Floats(floats) => floats.len(),
        }
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends `other`, which has the same variant because all files of a stream have one format.
    #[cfg(feature = "files")]
    pub(crate) fn append(&mut self, other: Values) {
        match (self, other) {
            (Values::Bytes(to), Values::Bytes(more)) => to.extend(more),
            (Values::Floats(to), Values::Floats(more)) => to.extend(more),
            _ => unreachable!("all files of a stream have one format"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_as_fractions() {
        let mut row = vec![7.0; 5];
        Samples::images(vec![9, 9, 0, 255], vec![0, 1]).read(1, 2, &mut row);
        assert_eq!(row, [0.0, 1.0]);
        assert!((0..=255).all(|byte: u8| FRACTIONS[usize::from(byte)] == f32::from(byte) / 255.0));
        let floats = Samples { values: Values::Floats(vec![9.0, 9.0, -3.0, 0.5]), labels: vec![0, 1] };
        floats.read(1, 2, &mut row);
        assert_eq!((row, floats.pixels()), (vec![-3.0, 0.5], &[][..]));
    }
}
