//! The readers that are fuzzed; the project's own tests feed them with everything found so far.

#[path = "../crates/hindsight-cli/tests/readers/mod.rs"]
pub mod readers;
