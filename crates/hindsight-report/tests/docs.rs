//! Generated documentation is what the tables say.

#[test]
fn the_reference_of_methods_is_not_stale() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/methods.md");
    let found = std::fs::read_to_string(path).unwrap_or_default();
    let expected = hindsight_report::methods_page(hindsight::methods::METHODS);
    assert!(found == expected, "run `cargo run --release -- methods --markdown > docs/methods.md`");
}
