//! The numbers behind hindsight: networks as pure functions of a flat parameter vector.
//!
//! A network ([`Net`]) owns no weights. theta is a `Vec<f32>` that the caller keeps, copies, adds and
//! subtracts; gradients have the same type, so a learning rule is vector algebra ([`params`]) over a
//! handful of calls:
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
//!     net.forward(&theta, &x, &mut tape); //           logits and features are on the tape
//!     losses.push(tape.cross_entropy(&labels, None)); // seeds the backward pass
//!     net.backward(&theta, &mut tape);
//!     net.accumulate(&mut tape, -0.1, &mut theta); //      theta += -0.1 * gradient: an SGD step
//! }
//! assert!(losses[49] < 0.5 * losses[0]);
//! ```
//!
//! Everything is generic over `f32` and `f64`: learners run in `f32`, the tests of the derivatives run
//! the same code in `f64` against central differences.

mod input;
#[doc(hidden)] // for the benchmark of the kernels; not part of the interface
pub mod kernels;
mod layers;
mod loss;
mod mlp;
mod net;
pub mod optim;
pub mod params;
mod resnet;
pub mod rng;
mod scalar;
mod screen;

pub use input::{Inputs, LinearMap, Pixels, SparseRows};
pub use kernels::CacheAligned;
pub use mlp::{Mlp, ShapeError};
pub use net::{Layer, Net, Statistics, Tape, Visit};
pub use resnet::ResNet;
pub use rng::Rng;
pub use scalar::Scalar;
pub use screen::WholeRows;
