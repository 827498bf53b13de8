//! Softmax cross-entropy, optionally over a subset of the classes.

use super::{Tape, resize};
use crate::kernels::Scalar;

impl<T: Scalar> Tape<T> {
    /// The mean cross-entropy of the logits. Seeds the backward pass with its gradient.
    ///
    /// `mask: [batch, classes]` selects the classes in the softmax of each row; `None` selects all. It must
    /// allow the label of the row.
    ///
    /// # Panics
    /// If there is not one label per row, a label is not an allowed class, or the mask has another shape.
    pub fn cross_entropy(&mut self, labels: &[u32], mask: Option<&[bool]>) -> T {
        let batch = T::of(self.batch as f64);
        let mut probabilities = std::mem::take(&mut self.probabilities);
        let total: T = self.softmax(labels, mask, &mut probabilities).sum();
        self.feature_cotangent.clear();
        let classes = probabilities.len() / labels.len().max(1);
        let deltas = self.logit_deltas();
        for ((row, p), &label) in
            deltas.chunks_exact_mut(classes).zip(probabilities.chunks_exact(classes)).zip(labels)
        {
            row.iter_mut().zip(p).for_each(|(d, &p)| *d = p / batch);
            row[label as usize] -= T::one() / batch;
        }
        self.probabilities = probabilities;
        total / batch
    }

    /// The sum over `parts` of a weight times the mean cross-entropy of so many rows, one part after the
    /// other. Seeds the backward pass with its gradient. Rows behind the parts count for nothing. One part of
    /// weight one gives the seed of [`Tape::cross_entropy`] to the last bit.
    ///
    /// # Panics
    /// As [`Tape::cross_entropy`], and if the parts have more rows than there are.
    pub fn cross_entropy_of_parts(
        &mut self,
        labels: &[u32],
        mask: Option<&[bool]>,
        parts: &[(usize, T)],
    ) -> T {
        let mut probabilities = std::mem::take(&mut self.probabilities);
        let losses: Vec<T> = self.softmax(labels, mask, &mut probabilities).collect();
        self.feature_cotangent.clear();
        let classes = probabilities.len() / labels.len().max(1);
        let deltas = self.logit_deltas();
        deltas.fill(T::zero());
        let (mut total, mut first) = (T::zero(), 0);
        for &(count, weight) in parts.iter().filter(|(count, _)| *count > 0) {
            let (rows, of) = (first..first + count, T::of(count as f64));
            total += weight * losses[rows.clone()].iter().copied().sum::<T>() / of;
            for row in rows {
                let at = row * classes..(row + 1) * classes;
                let (deltas, p) = (&mut deltas[at.clone()], &probabilities[at]);
                deltas.iter_mut().zip(p).for_each(|(d, &p)| *d = weight * p / of);
                deltas[labels[row] as usize] -= weight / of;
            }
            first += count;
        }
        self.probabilities = probabilities;
        total
    }

    /// The cross-entropy of each row. Does not seed the backward pass.
    pub fn sample_losses(&mut self, labels: &[u32], mask: Option<&[bool]>, out: &mut Vec<T>) {
        let mut probabilities = std::mem::take(&mut self.probabilities);
        out.clear();
        out.extend(self.softmax(labels, mask, &mut probabilities));
        self.probabilities = probabilities;
    }

    /// Seeds the tangent of the backward pass with the tangent of the gradient of the cross-entropy,
    /// `d' = (diag(p) - p p^T) z' / batch`.
    pub(crate) fn seed_cross_entropy_tangent(&mut self) {
        let batch = T::of(self.batch as f64);
        let last = self.values.len() - 1;
        let tangents = &self.value_tangents[last];
        let classes = tangents.len() / self.batch.max(1);
        let out = &mut resize(&mut self.delta_tangents, last + 1)[last];
        out.clear();
        for (p, z) in self.probabilities.chunks_exact(classes).zip(tangents.chunks_exact(classes)) {
            let mean: T = p.iter().zip(z).map(|(&p, &z)| p * z).sum();
            out.extend(p.iter().zip(z).map(|(&p, &z)| p * (z - mean) / batch));
        }
    }

    /// Fills `probabilities` and yields the loss of each row.
    fn softmax<'a>(
        &'a self,
        labels: &'a [u32],
        mask: Option<&'a [bool]>,
        probabilities: &'a mut Vec<T>,
    ) -> impl Iterator<Item = T> + 'a {
        let logits = self.logits();
        assert_eq!(labels.len(), self.batch, "the number of labels is not the number of rows");
        let classes = logits.len() / self.batch.max(1);
        assert!(
            mask.is_none_or(|mask| mask.len() == logits.len()),
            "the mask has another shape than the logits"
        );
        probabilities.resize(logits.len(), T::zero());
        let rows = logits.chunks_exact(classes.max(1)).zip(probabilities.chunks_exact_mut(classes.max(1)));
        rows.zip(labels).enumerate().map(move |(i, ((z, p), &label))| {
            let allowed = |c: usize| mask.is_none_or(|mask| mask[i * classes + c]);
            let label = label as usize;
            assert!(label < classes && allowed(label), "label {label} is not an allowed class");
            let top = (0..classes).filter(|&c| allowed(c)).map(|c| z[c]).fold(T::neg_infinity(), T::max);
            let mut sum = T::zero();
            for c in 0..classes {
                p[c] = if allowed(c) { (z[c] - top).exp() } else { T::zero() };
                sum += p[c];
            }
            p.iter_mut().for_each(|p| *p /= sum);
            sum.ln() + top - z[label]
        })
    }
}
