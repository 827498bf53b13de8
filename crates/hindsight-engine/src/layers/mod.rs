//! Layers as functions of a slice of theta: forward, backward and tangent side by side.

pub(crate) mod linear;
