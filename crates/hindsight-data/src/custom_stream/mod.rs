//! Custom streams: data in CSV, NPY, NPZ, IDX or series files or folders of images, described by a TOML file.
//!
//! `StreamFile::read` reads the description, `StreamFile::load` what it names. The keys are in
//! `docs/streams.md`.

#[cfg(feature = "files")]
mod description;
#[cfg(feature = "files")]
mod loading;
mod scale;
#[cfg(feature = "files")]
mod stream_file;
mod tasks;

pub use scale::Scale;
#[cfg(feature = "files")]
pub use stream_file::StreamFile;
pub use tasks::{CustomTasks, Part};
