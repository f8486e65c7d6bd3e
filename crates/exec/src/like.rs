//! LIKE over the windows of a stored list of strings. The matcher itself is in `rowmill_expr::kernels::like`.

pub(crate) use rowmill_expr::kernels::like::{ESCAPE, LikePattern, LikeRange};
use rowmill_storage::strings::StringWindow;

/// Sets the truth of each string of `window`: whether it matches `pattern`.
pub(crate) fn find(pattern: &LikePattern, window: StringWindow<'_>, truth: &mut [bool]) {
    pattern.find(window.bytes(), window.offsets(), &mut truth[..window.len()]);
}

#[cfg(test)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};
    use rowmill_storage::strings::{StringList, encode_list};

    use super::*;

    /// Makes patterns and strings of few characters, some of several bytes, so that many of them match.
    fn random(rng: &mut SmallRng, characters: &str, length_max: usize) -> String {
        let characters: Vec<char> = characters.chars().collect();
        (0..rng.random_range(0..=length_max)).map(|_| characters[rng.random_range(0..characters.len())]).collect()
    }

    #[test]
    fn strings_match_in_windows_as_they_do_one_by_one() {
        let rng = &mut SmallRng::seed_from_u64(3);
        for _ in 0..3000 {
            let pattern = random(rng, "%%%__aabя€\\\n", 9);
            let strings: Vec<String> = (0..rng.random_range(0..40)).map(|_| random(rng, "aaabbя€%_\\\n", 12)).collect();
            let matcher = LikePattern::new(&pattern, Some(ESCAPE));
            let mut sorted: Vec<&[u8]> = strings.iter().map(String::as_bytes).collect();
            sorted.sort_unstable();
            let stored = encode_list(&sorted).expect("a short list");
            let list = StringList::open(&stored, sorted.len()).expect("a list of ours");
            let (mut found, start) = (vec![false; sorted.len()], sorted.len() / 3);
            list.for_each_window(start..sorted.len(), |window| {
                let first = start + window.first();
                let length = window.len();
                find(&matcher, window, &mut found[first..first + length]);
                Ok(())
            })
            .expect("a list of ours");
            let expected = sorted.iter().skip(start).map(|string| matcher.matches(string));
            assert!(found[start..].iter().copied().eq(expected), "{pattern:?} {strings:?}");

            let is_in = |string: &String| match LikeRange::of(&pattern, Some(ESCAPE)) {
                Some(LikeRange::Equal(text)) => Some(*string == text),
                Some(LikeRange::Prefix(text)) => Some(string.starts_with(&text)),
                None => None,
            };
            for string in &strings {
                assert!(
                    is_in(string).is_none_or(|is| is == matcher.matches(string.as_bytes())),
                    "{pattern:?} {string:?}"
                );
            }
        }
    }
}
