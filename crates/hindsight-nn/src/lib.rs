//! The numerical engine of hindsight: networks as pure functions of a flat parameter vector.
//!
//! A network ([`Net`]) owns no weights. theta is a `Vec<f32>` that the caller keeps, copies, adds and
//! subtracts. Gradients have the same type, so a learning rule is vector algebra ([`params`]) over a few
//! calls:
//!
//! ```
//! use hindsight_nn::{Mlp, Net, Rng, Tape};
//!
//! let net = Mlp::new(&[4, 8, 3]).unwrap();
//! let mut theta: Vec<f32> = net.init(&mut Rng::named(1, "init"));
//! let (x, labels) = ([0.0, 0.5, 1.0, 0.0, 1.0, 0.0, 0.0, 0.5], [2, 0]);
//!
//! let mut tape = Tape::new();
//! let mut losses = vec![];
//! for _ in 0..50 {
//!     net.forward(&theta, &x, &mut tape); //           records logits and features on the tape
//!     losses.push(tape.cross_entropy(&labels, None)); // seeds the backward pass
//!     net.backward(&theta, &mut tape);
//!     net.accumulate(&mut tape, -0.1, &mut theta); //      theta += -0.1 * gradient: an SGD step
//! }
//! assert!(losses[49] < 0.5 * losses[0]);
//! ```
//!
//! Everything is generic over `f32` and `f64`. Learners run in `f32`; the tests check the derivatives of the
//! same code in `f64` against central differences.

mod cholesky;
mod input;
#[doc(hidden)] // public for the benchmarks of the kernels, not part of the interface
pub mod kernels;
mod layers;
mod linear_map;
mod mlp;
mod net;
pub mod optim;
pub mod params;
mod quantized;
mod resnet;
pub mod rng;
mod tape;

pub use cholesky::Cholesky;
pub use input::{Inputs, Pixels, SelectedInputs};
pub use kernels::{CacheAligned, Scalar, SparseRows};
pub use layers::BatchNormMode;
pub use linear_map::LinearMap;
pub use mlp::Mlp;
pub use net::{BoundedLogits, Correction, Gradient, Layer, LocalNet, LocalPass, Net, ShapeError, StepAhead};
pub use quantized::{QuantizedRows, WEIGHT_GRID};
pub use resnet::ResNet;
pub use rng::Rng;
pub use tape::Tape;
