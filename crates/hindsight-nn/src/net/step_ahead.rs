//! A step that is looked at before it is taken.

use super::Gradient;
use crate::{kernels::Scalar, tape::Tape};

/// theta~ = theta - rate g, and what a method adds to it after a look at other inputs there.
///
/// A network with factored gradients leaves out the first layer, which is most of a perceptron: with
/// `g = x^T dz` there, inputs `a` see `a W~ = a W - rate (a x^T) dz`, and all that is added to these weights
/// is added to theta at once.
#[derive(Debug, Clone)]
pub struct StepAhead<T: Scalar = f32> {
    rate: T,
    /// Whether theta~ is written out as a whole, so that a caller may change it.
    whole: bool,
    ahead: Vec<T>,
    first: Vec<T>,
}

/// What is added to theta~, for gradients `here` at theta and `there` at theta~.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Correction {
    /// `-rate here`.
    Here,
    /// `-rate (here - there)`.
    Difference,
    /// `-rate (here - there) - rate^2 H there`, with H the Hessian of the loss whose gradient is g.
    WithHessian,
}

impl<T: Scalar> StepAhead<T> {
    /// A step at `rate`.
    pub fn new(rate: T, whole: bool) -> StepAhead<T> {
        StepAhead { rate, whole, ahead: Vec::new(), first: Vec::new() }
    }

    /// Computes theta~. Returns it where it is whole.
    pub fn begin(&mut self, g: &mut Gradient<'_, T>, theta: &[T]) -> Option<&mut [T]> {
        match g.net.factored() {
            Some(net) if !self.whole => {
                net.step_ahead(theta, g.tape, -self.rate, &mut self.ahead);
                None
            }
            _ => {
                self.ahead.clear();
                self.ahead.extend_from_slice(theta);
                g.add_to(-self.rate, &mut self.ahead);
                Some(&mut self.ahead)
            }
        }
    }

    /// Forward passes over `x` at theta and at theta~.
    pub fn forward(&mut self, g: &mut Gradient<'_, T>, theta: &[T], x: &[T], tapes: [&mut Tape<T>; 2]) {
        let (rate, ahead) = (self.rate, &self.ahead[..]);
        match g.net.factored() {
            Some(net) if !self.whole => {
                net.forward_around([theta, ahead], (g.tape, rate), x, tapes, &mut self.first);
            }
            _ => {
                let [here, there] = tapes;
                g.net.forward(theta, x, here);
                g.net.forward(ahead, x, there);
            }
        }
    }

    /// Carries the cotangents that are seeded on the tapes of [`StepAhead::forward`] back, and adds the
    /// correction. Returns theta~ where it is whole; a caller may change it before [`StepAhead::finish`].
    pub fn correct(
        &mut self,
        g: &mut Gradient<'_, T>,
        theta: &mut [T],
        [here, there]: [&mut Tape<T>; 2],
        correction: Correction,
    ) -> Option<&mut [T]> {
        let (net, rate, ahead) = (g.net, self.rate, &mut self.ahead[..]);
        net.backward(theta, here);
        if correction != Correction::Here {
            net.backward(ahead, there);
        }
        if let Some(net) = net.factored().filter(|_| !self.whole) {
            net.correct([theta, ahead], rate, [g.tape, here, there], correction);
            return None;
        }
        if correction == Correction::Here {
            net.accumulate(here, -rate, ahead);
        } else {
            let mut at_theta = Gradient::new(net, here);
            Gradient::new(net, there).add_sum_to(-1.0, &mut at_theta, rate, ahead);
        }
        if correction == Correction::WithHessian {
            Gradient::new(net, there).hvp(theta, g.tape, -(rate * rate), ahead);
        }
        Some(ahead)
    }

    /// Takes the step: theta <- theta~ and what was added to it.
    pub fn finish(&mut self, g: &Gradient<'_, T>, theta: &mut Vec<T>) {
        match g.net.factored() {
            Some(net) if !self.whole => net.finish_step(theta, &self.ahead),
            _ => std::mem::swap(theta, &mut self.ahead),
        }
    }
}
