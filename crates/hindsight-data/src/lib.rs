//! Data sets for continual learning: built-in digits, MNIST, CIFAR-100, folders of images, and custom streams
//! of CSV, NPY, NPZ or IDX files. Nothing here knows a learner. Without the feature `files` there are the
//! digits alone.
//!
//! ```
//! use hindsight_data::{Options, load};
//!
//! let digits = load("digits", "unused".as_ref(), &Options::default())?;
//! assert_eq!((digits.shape, digits.classes), ([1, 28, 28], 10));
//! # Ok::<(), hindsight_data::DataError>(())
//! ```

#![forbid(unsafe_code)]

pub mod atomic_file;
pub mod bounded_read;
mod catalog;
mod cells;
#[cfg(feature = "files")]
mod cifar;
#[cfg(feature = "files")]
pub mod cifar10;
#[cfg(feature = "files")]
pub mod cifar100;
pub mod custom_stream;
mod data_dir;
mod dataset;
pub mod digits;
mod error;
#[cfg(feature = "fetch")]
pub mod fetch;
pub mod formats;
pub mod hex;
#[cfg(feature = "files")]
mod image_cache;
#[cfg(feature = "images")]
mod image_decode;
#[cfg(all(feature = "files", not(feature = "images")))]
#[path = "no_image_decode.rs"]
mod image_decode;
#[cfg(feature = "files")]
pub mod image_folder;
#[cfg(feature = "files")]
pub mod mnist;
#[cfg(feature = "files")]
mod published;
#[cfg(feature = "files")]
pub mod published_streams;
#[cfg(feature = "files")]
pub mod rows;
mod samples;
pub mod schema;
pub mod suggest;

pub use catalog::{DATASETS, Info, Origin, info, load};
pub use data_dir::data_dir;
pub use dataset::{DEFAULT_IMAGE_SIZE, Dataset, MAX_IMAGE_SIZE, Options};
#[cfg(feature = "files")]
pub use error::CustomStreamError;
pub use error::{DataError, FetchFailure, RowError};
#[cfg(feature = "files")]
pub use published::{DownloadSource, FileSet, Original, Published, find};
pub use samples::{Samples, Values};
