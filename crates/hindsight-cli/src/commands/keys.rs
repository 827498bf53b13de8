//! Keys as `methods` and `benchmarks` list them.

use std::io::{self, Write};

use hindsight::settings::{Family, Key};

/// Prints keys with their defaults on MNIST and their documentation.
pub(super) fn print_keys(out: &mut impl Write, prefix: &str, keys: &[Key]) -> io::Result<()> {
    for key in keys {
        let default = key.default_for(Family::Mnist);
        writeln!(out, "  {prefix}{} = {default}", key.name)?;
        writeln!(out, "      {}; {}", key.doc, key.kind)?;
        if !key.grid.is_empty() {
            writeln!(out, "      searched in the paper: {:?}", key.grid)?;
        }
    }
    Ok(())
}
