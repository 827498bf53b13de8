//! Bounds on the length of a step, so that no feedback between steps and anchors can run away.
//!
//! Gradients of stream and replay are clipped to `clip`, so that theta moves at most alpha times that far.
//! What the anchors add is at most `trust` times as long as the replay part: below 1, the update still
//! descends the replay loss.

use super::settings::HalSettings;

pub(super) struct Limits {
    /// Longest replay part, alpha included; none for any.
    longest: Option<f64>,
    trust: Option<f64>,
    /// theta~, before the anchored part is added to it.
    plain: Vec<f32>,
}

impl Limits {
    pub(super) fn new(settings: &HalSettings) -> Limits {
        let positive = |limit: f32| Some(f64::from(limit)).filter(|&limit| limit > 0.0);
        let longest = positive(settings.clip).map(|clip| f64::from(settings.rate) * clip);
        Limits { longest, trust: positive(settings.trust), plain: Vec::new() }
    }

    /// Whether there are any.
    pub(super) fn any(&self) -> bool {
        self.longest.is_some() || self.trust.is_some()
    }

    pub(super) fn clips(&self) -> bool {
        self.longest.is_some()
    }

    /// Shortens the step from `theta` to `ahead` where it is too long.
    pub(super) fn clip(&self, theta: &[f32], ahead: &mut [f32]) {
        if let Some(longest) = self.longest {
            shorten(theta, ahead, longest);
        }
    }

    pub(super) fn remember(&mut self, ahead: &[f32]) {
        if self.trust.is_some() {
            self.plain.clear();
            self.plain.extend_from_slice(ahead);
        }
    }

    /// Shortens what was added to `ahead` since it was remembered.
    pub(super) fn hold(&self, theta: &[f32], ahead: &mut [f32]) {
        if let Some(trust) = self.trust {
            shorten(&self.plain, ahead, trust * distance(theta, &self.plain));
        }
    }
}

/// Moves `to` towards `from` until it is at most `longest` away; all the way where it is not finite.
fn shorten(from: &[f32], to: &mut [f32], longest: f64) {
    let length = distance(from, to);
    if length <= longest {
        return;
    }
    if !length.is_finite() {
        return to.copy_from_slice(from);
    }
    hindsight_nn::params::blend((longest / length) as f32, from, to);
}

/// |a - b|. Short sums in `f32` lanes, which vectorise, are summed in `f64`.
fn distance(a: &[f32], b: &[f32]) -> f64 {
    let squares = a.chunks(512).zip(b.chunks(512)).map(|(a, b)| {
        let (a, b) = (a.chunks(16), b.chunks(16));
        let mut lanes = [0.0_f32; 16];
        for (a, b) in a.zip(b) {
            lanes.iter_mut().zip(a).zip(b).for_each(|((sum, a), b)| *sum += (a - b) * (a - b));
        }
        lanes.iter().map(|&sum| f64::from(sum)).sum::<f64>()
    });
    squares.sum::<f64>().sqrt()
}
