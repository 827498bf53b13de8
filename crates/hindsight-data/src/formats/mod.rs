//! Readers of file formats: bytes in, values out, each with an error type of its own. They know no data set.

#[cfg(feature = "files")]
pub mod cifar;
#[cfg(feature = "files")]
pub mod csv;
#[cfg(feature = "files")]
pub mod idx;
#[cfg(feature = "files")]
pub mod npy;
#[cfg(feature = "files")]
pub mod npz;
#[cfg(feature = "files")]
pub mod pickle;
#[cfg(feature = "files")]
pub mod series;
pub mod table;

/// Names in backticks.
pub(crate) fn quoted_list<T: std::fmt::Display>(items: impl IntoIterator<Item = T>) -> String {
    let quoted: Vec<String> = items.into_iter().map(|item| format!("`{item}`")).collect();
    quoted.join(", ")
}

/// The first of many names.
pub(crate) fn few(names: &[String]) -> String {
    const SHOWN: usize = 20;
    if names.is_empty() {
        return "none".to_owned();
    }
    let more = names.len().saturating_sub(SHOWN);
    let shown = quoted_list(&names[..names.len() - more]);
    if more > 0 { format!("{shown} and {more} more") } else { shown }
}
