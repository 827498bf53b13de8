//! Samples as a memory keeps them: as they are, or in 8 bits.

use std::borrow::Cow;

use crate::{
    Batch,
    settings::Precision,
    state::{State, StateError, Tensors},
};

/// Slots with samples.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SampleStore {
    /// Labels and tasks; values too, unless they are kept in 8 bits.
    samples: Batch,
    quantised: Option<Quantised>,
}

/// Values in 8 bits: `[samples, width]`, and of each sample its least value and the size of a step.
#[derive(Debug, Clone, Default, PartialEq)]
struct Quantised {
    width: usize,
    steps: Vec<u8>,
    ranges: Vec<[f32; 2]>,
}

impl SampleStore {
    pub(super) fn new(precision: Precision) -> SampleStore {
        let quantised = match precision {
            Precision::F32 => None,
            Precision::U8 => Some(Quantised::default()),
        };
        SampleStore { samples: Batch::default(), quantised }
    }

    pub(super) fn len(&self) -> usize {
        self.samples.len()
    }

    /// Label and task of a slot.
    pub(super) fn answer(&self, slot: usize) -> (u32, u32) {
        (self.samples.labels[slot], self.samples.tasks[slot])
    }

    /// Appends a slot.
    pub(super) fn push(&mut self, x: &[f32], label: u32, task: u32) {
        match &mut self.quantised {
            None => self.samples.push(x, label, task),
            Some(quantised) => {
                self.samples.push(&[], label, task);
                quantised.width = x.len();
                let (range, steps) = quantise(x);
                quantised.ranges.push(range);
                quantised.steps.extend(steps);
            }
        }
    }

    /// Replaces what is in a slot.
    pub(super) fn set(&mut self, slot: usize, x: &[f32], label: u32, task: u32) {
        (self.samples.labels[slot], self.samples.tasks[slot]) = (label, task);
        let at = slot * x.len()..(slot + 1) * x.len();
        match &mut self.quantised {
            None => self.samples.x[at].copy_from_slice(x),
            Some(quantised) => {
                let (range, steps) = quantise(x);
                quantised.ranges[slot] = range;
                quantised.steps[at].iter_mut().zip(steps).for_each(|(kept, step)| *kept = step);
            }
        }
    }

    /// Appends the sample of a slot to `to`.
    pub(super) fn append(&self, slot: usize, to: &mut Batch) {
        match &self.quantised {
            None => to.extend([self.samples.sample(slot)]),
            Some(quantised) => {
                to.x.extend(quantised.row(slot));
                to.labels.push(self.samples.labels[slot]);
                to.tasks.push(self.samples.tasks[slot]);
            }
        }
    }

    /// All samples.
    pub(super) fn samples(&self) -> Cow<'_, Batch> {
        match &self.quantised {
            None => Cow::Borrowed(&self.samples),
            Some(_) => {
                let mut all = Batch::default();
                (0..self.len()).for_each(|slot| self.append(slot, &mut all));
                Cow::Owned(all)
            }
        }
    }

    /// What the values take.
    pub(super) fn bytes(&self) -> u64 {
        let bytes = match &self.quantised {
            None => size_of_val(self.samples.x.as_slice()),
            Some(quantised) => quantised.steps.len() + size_of_val(quantised.ranges.as_slice()),
        };
        bytes as u64
    }
}

impl Precision {
    /// What a sample of `width` values takes.
    pub fn bytes(self, width: usize) -> u64 {
        let bytes = match self {
            Precision::F32 => width * size_of::<f32>(),
            Precision::U8 => width + size_of::<[f32; 2]>(),
        };
        bytes as u64
    }
}

/// The least value and the size of a step, and the steps from it to each value, rounded.
fn quantise(x: &[f32]) -> ([f32; 2], impl Iterator<Item = u8>) {
    let (low, high) = x.iter().fold((f32::INFINITY, f32::NEG_INFINITY), |(l, h), &x| (l.min(x), h.max(x)));
    let step = (high - low) / 255.0;
    let scale = if step > 0.0 { 1.0 / step } else { 0.0 };
    // Out of range only by rounding, where `as` saturates.
    ([low, step], x.iter().map(move |x| ((x - low) * scale).round() as u8))
}

impl Quantised {
    fn row(&self, slot: usize) -> impl Iterator<Item = f32> + '_ {
        let [low, step] = self.ranges[slot];
        self.steps[slot * self.width..][..self.width].iter().map(move |&steps| low + f32::from(steps) * step)
    }
}

impl State for SampleStore {
    fn save(&self, name: &str, to: &mut Tensors) {
        let Some(quantised) = &self.quantised else { return self.samples.save(name, to) };
        // Whole numbers from 0 to 255 are exact as f32, so that what is read is what was saved.
        let x = quantised.steps.iter().map(|&step| f32::from(step)).collect();
        Batch { x, ..self.samples.clone() }.save(name, to);
        to.put_rows(&format!("{name}.ranges"), quantised.ranges.as_flattened(), 2);
    }

    fn load(&mut self, name: &str, from: &Tensors) -> Result<(), StateError> {
        self.samples.load(name, from)?;
        let Some(quantised) = &mut self.quantised else { return Ok(()) };
        let part = format!("{name}.ranges");
        let ranges = from.rows(&part, 2)?;
        if ranges.len() != 2 * self.samples.len() {
            let expected = format!("{}, as many as samples", self.samples.len());
            return Err(StateError::new(&part, format!("{} ranges", ranges.len() / 2), expected));
        }
        quantised.width = self.samples.width();
        quantised.ranges = ranges.as_chunks().0.to_vec();
        quantised.steps = std::mem::take(&mut self.samples.x).into_iter().map(|step| step as u8).collect();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_bits_are_within_half_a_step_and_keep_both_ends() {
        let mut store = SampleStore::new(Precision::U8);
        let rows: [&[f32]; 3] = [&[0.0, 0.3, 1.0, 0.5], &[-2.0, 5.0, 0.1, 0.2], &[7.0; 4]];
        store.push(rows[0], 1, 0);
        store.push(rows[0], 2, 1);
        store.push(rows[2], 3, 1);
        store.set(1, rows[1], 4, 2);
        let samples = store.samples();
        assert_eq!((&*samples.labels, &*samples.tasks), (&[1, 4, 3][..], &[0, 2, 1][..]));
        for (slot, row) in rows.iter().enumerate() {
            let (low, high) = row.iter().fold((f32::MAX, f32::MIN), |(l, h), &x| (l.min(x), h.max(x)));
            for (kept, x) in samples.sample(slot).0.iter().zip(*row) {
                assert!((kept - x).abs() <= (high - low) / 509.0, "{kept} for {x}");
            }
            assert_eq!(samples.sample(slot).0[0], row[0], "the least value is exact");
        }
        assert_eq!(store.bytes(), 3 * Precision::U8.bytes(4));
    }

    #[test]
    fn bytes_of_pixels_stay_what_they_are() {
        let mut store = SampleStore::new(Precision::U8);
        let pixels: Vec<f32> = (0..=255).map(|p| p as f32 / 255.0).collect();
        store.push(&pixels, 0, 0);
        let kept = store.samples();
        assert!(kept.x.iter().zip(&pixels).all(|(a, b)| (a - b).abs() < 1e-6));
    }
}
