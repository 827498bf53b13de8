//! Data sets for continual learning: built-in digits, MNIST, CIFAR-100, folders of images, and custom streams of
//! CSV, NPY, NPZ or IDX files. Nothing here knows a learner.
//!
//! ```
//! use hindsight_data::{Options, load};
//!
//! let digits = load("digits", "unused".as_ref(), &Options::default())?;
//! assert_eq!((digits.shape, digits.classes), ([1, 28, 28], 10));
//! # Ok::<(), hindsight_data::DataError>(())
//! ```

pub mod atomic_file;
pub mod bounded_read;
mod catalog;
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
mod image_cache;
#[cfg(feature = "images")]
mod image_decode;
#[cfg(not(feature = "images"))]
#[path = "no_image_decode.rs"]
mod image_decode;
pub mod image_folder;
pub mod mnist;
mod published;
pub mod suggest;

pub use catalog::{DATASETS, Info, Origin, info, load};
pub use data_dir::data_dir;
pub use dataset::{DEFAULT_IMAGE_SIZE, Dataset, MAX_IMAGE_SIZE, Options, Split};
pub use error::{CustomStreamError, DataError, FetchFailure};
pub use published::{FileSet, Original, Published, Source, find};
