//! Continual learning.

pub mod data;
