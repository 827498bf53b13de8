//! Finds the commit that the sources are at, for records. Outside a repository there is none.

use std::{path::Path, process::Command};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // A crate unpacked inside somebody else's repository must not claim its commit.
    if git(&["rev-parse", "--show-prefix"]).as_deref() != Some("crates/hindsight-cl/") {
        return;
    }
    let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) else { return };
    println!("cargo::rustc-env=HINDSIGHT_COMMIT={commit}");
    // These change with every commit and checkout, and with nothing else. A path that is not there would
    // make cargo build anew each time.
    for name in ["HEAD", "logs/HEAD"] {
        let path = git(&["rev-parse", "--git-path", name]).filter(|path| Path::new(path).is_file());
        if let Some(path) = path {
            println!("cargo::rerun-if-changed={path}");
        }
    }
}

fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}
