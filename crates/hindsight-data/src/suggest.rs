//! "Did you mean": the known name nearest to a misspelt one.

/// The one of `known` that is most likely meant by `name`.
pub fn nearest<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    // The comparison takes memory for the product of both lengths, so long input is not compared.
    let known = known.filter(|_| name.len() <= 100);
    let (distance, candidate) =
        known.map(|candidate| (strsim::damerau_levenshtein(name, candidate), candidate)).min()?;
    (distance <= 1 + name.len() / 3).then_some(candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_short_names_have_a_nearest_one() {
        let nearest = |name: &str| nearest(name, ["batch", "tasks"].into_iter());
        assert_eq!(nearest("bacth"), Some("batch"));
        assert_eq!(nearest("unlike"), None);
        assert_eq!(nearest(&"batch".repeat(1 << 20)), None);
    }
}
