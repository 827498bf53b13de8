//! Counts in words.

/// `1 run`, `2 runs`, `3 classes`, `4 batches`.
pub fn plural(count: usize, noun: &str) -> String {
    let ending = match count {
        1 => "",
        _ if noun.ends_with('s') || noun.ends_with("ch") => "es",
        _ => "s",
    };
    format!("{count} {noun}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nouns_get_their_plural() {
        let found = [plural(0, "run"), plural(1, "class"), plural(3, "class")];
        assert_eq!(found, ["0 runs", "1 class", "3 classes"]);
    }
}
