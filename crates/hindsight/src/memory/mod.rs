//! Episodic memories: which samples of the stream are kept, and how they are drawn again.

mod ring;

pub use ring::Ring;
