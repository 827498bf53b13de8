//! Layers: forward, backward and tangent side by side. A layer is a shape and a place in theta.

pub(crate) mod batch_norm;
pub(crate) mod linear;
