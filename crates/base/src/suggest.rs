//! Suggests known names for a misspelled one.

/// Returns up to three of `candidates` that are nearest to `asked`, nearest first. Case does not matter. Names that
/// are too different to be typing errors are left out.
pub fn nearest<'a>(asked: &str, candidates: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let asked = asked.to_lowercase();
    // Allow one typing error per three characters, and two in short names.
    let bound = (asked.chars().count() / 3).max(2);
    let mut scored: Vec<(usize, &str)> = candidates
        .into_iter()
        .filter_map(|name| {
            let lower = name.to_lowercase();
            let distance = distance(&asked, &lower);
            // A name that contains the whole other name is probably meant, even if it is much longer.
            let inside = asked.len() >= 3 && (lower.contains(&asked) || (lower.len() >= 3 && asked.contains(&lower)));
            (distance <= bound || inside).then_some((distance, name))
        })
        .collect();
    scored.sort();
    scored.dedup();
    scored.truncate(3);
    scored.into_iter().map(|(_, name)| name).collect()
}

/// The Levenshtein distance with swaps of neighbouring characters (optimal string alignment).
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let change = usize::from(a[i - 1] != b[j - 1]);
            row[j] = (last[j] + 1).min(row[j - 1] + 1).min(last[j - 1] + change);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_errors_are_matched_and_unrelated_names_are_not() {
        let names = ["UserID", "WatchID", "URL", "SearchPhrase", "EventTime"];
        assert_eq!(nearest("usreid", names), ["UserID"]);
        assert_eq!(nearest("Serch_Phrase", names), ["SearchPhrase"]);
        assert_eq!(nearest("phrase", names), ["SearchPhrase"]);
        assert!(nearest("temperature", names).is_empty());
    }
}
