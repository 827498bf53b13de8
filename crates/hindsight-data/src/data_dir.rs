//! Where data sets are looked for.

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
};

/// The data directory: `flag` (`--data-dir`), or `HINDSIGHT_DATA`, or the user's cache directory.
pub fn data_dir(flag: Option<&Path>) -> PathBuf {
    data_dir_in(flag, |key| env::var_os(key))
}

fn data_dir_in(flag: Option<&Path>, env: impl Fn(&str) -> Option<OsString>) -> PathBuf {
    let from_env = || env("HINDSIGHT_DATA").map(PathBuf::from).filter(|path| !path.as_os_str().is_empty());
    flag.map(Path::to_path_buf).or_else(from_env).unwrap_or_else(|| cache_dir(&env))
}

/// Our folder in the user's cache directory.
pub(crate) fn cache_dir(env: impl Fn(&str) -> Option<OsString>) -> PathBuf {
    let path = |key| env(key).map(PathBuf::from).filter(|path| !path.as_os_str().is_empty());
    let home = || path("HOME").or_else(env::home_dir).unwrap_or_default();
    let cache = if cfg!(windows) {
        path("LOCALAPPDATA").unwrap_or_else(|| home().join("AppData").join("Local"))
    } else if cfg!(target_os = "macos") {
        home().join("Library").join("Caches")
    } else {
        // A relative `XDG_CACHE_HOME` is to be ignored, says its specification.
        let xdg = path("XDG_CACHE_HOME").filter(|path| path.is_absolute());
        xdg.unwrap_or_else(|| home().join(".cache"))
    };
    cache.join("hindsight")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_comes_before_the_environment_and_that_before_the_cache() {
        let env = |key: &str| match key {
            "HINDSIGHT_DATA" => Some("/data".into()),
            _ => None,
        };
        assert_eq!(data_dir_in(Some(Path::new("/flag")), env), Path::new("/flag"));
        assert_eq!(data_dir_in(None, env), Path::new("/data"));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_cache_follows_xdg_and_empty_variables_count_as_unset() {
        let dir = |data: &str, xdg: &str| {
            data_dir_in(None, |key| {
                Some(OsString::from(match key {
                    "HINDSIGHT_DATA" => data,
                    "XDG_CACHE_HOME" => xdg,
                    _ => "/home/me",
                }))
            })
        };
        assert_eq!(dir("", "/cache"), Path::new("/cache/hindsight"));
        assert_eq!(dir("", ""), Path::new("/home/me/.cache/hindsight"));
        assert_eq!(dir("", "relative"), Path::new("/home/me/.cache/hindsight"));
    }
}
