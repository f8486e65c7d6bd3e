use std::collections::BTreeSet;

use arrow::array::AsArray;
use arrow::compute::concat;
use rand::prelude::*;

use super::machine::{Machine, SearchOutcome};
use super::program::Program;
use super::*;

const SEED: u64 = 0x5EED;

fn long() -> bool {
    std::env::var_os("ROWMILL_LONG").is_some()
}

fn unlimited(_: usize) -> Result<()> {
    Ok(())
}

fn replaced(text: &str, pattern: &str, replacement: &str, flags: Option<&str>) -> String {
    let texts = StringViewArray::from(vec![text]);
    Replacer::new(pattern, replacement, flags).unwrap().replace(&texts, &unlimited).unwrap().value(0).to_string()
}

#[test]
fn replacements_are_those_of_sql() {
    let host = r"^https?://(?:www\.)?([^/]+)/.*$";
    assert_eq!(replaced("https://www.rowmill.org/a/b", host, r"\1", None), "rowmill.org");
    assert_eq!(replaced("http://www./a", host, r"\1", None), "www.");
    assert_eq!(replaced("http:///a", host, r"\1", None), "http:///a");
    assert_eq!(replaced("http://a/\n", host, r"\1", None), "http://a/\n");
    assert_eq!(replaced("foobarbaz", "b(..)", r"X\1Y", None), "fooXarYbaz");
    assert_eq!(replaced("foobarbaz", "b(..)", r"X\1Y", Some("g")), "fooXarYXazY");
    assert_eq!(replaced("aBc", "(b|d)", r"Ab\1a", Some("i")), "aAbBac");
    assert_eq!(replaced("aBcB", "b", "-", Some("gi")), "a-c-");
    assert_eq!(replaced("a\nb", "^b", "-", Some("m")), "a\n-");
    assert_eq!(replaced("a\nb", "a.b", "-", Some("s")), "-");
    assert_eq!(replaced("ab", "a b", "-", Some("x")), "-");
    assert_eq!(replaced("abc", "", "-", Some("g")), "-a-b-c-");
    assert_eq!(replaced("abc", "b", r"[\0]", None), "a[b]c");
    assert_eq!(replaced("abc", "b", r"$0$$\n\", None), r"a$0$$\n\c");
    assert_eq!(replaced("abc", "b", r"\&\\1\9", None), r"ab\1c");
}

#[test]
fn invalid_patterns_are_refused() {
    let refused = |pattern: &str, flags| Replacer::new(pattern, "", flags).unwrap_err();
    let error = refused("[", None);
    assert_eq!(error.kind(), ErrorKind::InvalidParameter);
    assert_eq!(error.message(), "'[' is not a regular expression: unclosed character class");
    assert_eq!(refused("a", Some("zz")).message(), "'(?zz)a' is not a regular expression: unrecognized flag");
    assert_eq!(refused("a", Some("")).kind(), ErrorKind::InvalidParameter);
    assert_eq!(refused("a", Some("gg")).kind(), ErrorKind::InvalidParameter);
    assert_eq!(refused("((a{100}){100}){100}", None).kind(), ErrorKind::ResultTooLarge);
    assert_eq!(refused(&"(".repeat(10_000), None).kind(), ErrorKind::InvalidParameter);
    assert_eq!(Matcher::new("(", None).unwrap_err().kind(), ErrorKind::InvalidParameter);
    assert_eq!(Matcher::new("a", Some("gi")).unwrap_err().kind(), ErrorKind::InvalidParameter);
    assert!(Matcher::new("a", Some("")).is_ok());
}

#[test]
fn null_stays_null() {
    let long = "a text that is too long for its view";
    let texts = StringViewArray::from(vec![Some("none"), Some("ab"), None, Some(long), None]).slice(1, 4);
    let results = Replacer::new("^a", "", None).unwrap().replace(&texts, &unlimited).unwrap();
    assert_eq!(results, StringViewArray::from(vec![Some("b"), None, Some(&long[1..]), None]));
    let found = Matcher::new("^a b*t", None).unwrap().is_match(&texts);
    assert_eq!(found, BooleanArray::from(vec![Some(false), None, Some(true), None]));
    assert!(Replacer::new("a", "", None).unwrap().replace(&texts.slice(0, 0), &unlimited).unwrap().is_empty());
}

#[test]
fn parts_that_can_be_empty_are_not_needed_for_a_match() {
    let texts = StringViewArray::from(vec!["a bc d", "a baac d", "a bac d", "", "\nbc"]);
    let found = |pattern| Matcher::new(pattern, None).unwrap().is_match(&texts).values().iter().collect::<Vec<_>>();
    assert_eq!(found(".*b(?:a{2,3})?c.*"), [true, true, false, false, true]);
    assert_eq!(found("^.*b(?:a{2,3})?c.*$"), [true, true, false, false, false]);
    assert_eq!(found(".*(?:[a&&b]{1,3})?bc"), [true, false, false, false, true]);
    assert_eq!(found(".*"), [true; 5]);
    assert_eq!(found("[a&&b]*.*"), [true; 5]);
}

/// Returns a column of two texts with a buffer each, too long for their views, and a short one.
fn long_texts() -> StringViewArray {
    let [first, second] = ["http://first.example.org/page", "second, which is none of those"]
        .map(|text| -> arrow::array::ArrayRef { std::sync::Arc::new(StringViewArray::from(vec![text, "short"])) });
    concat(&[&first, &second]).unwrap().as_string_view().clone()
}

#[test]
fn pieces_of_texts_are_not_copied() {
    let texts = long_texts();
    let results = Replacer::new("^http://([^/]*)/.*$", r"\1", None).unwrap().replace(&texts, &unlimited).unwrap();
    assert_eq!(results.value(0), "first.example.org");
    assert_eq!(results.value(2), texts.value(2));
    for row in [0, 2] {
        let source = texts.value(row).as_bytes().as_ptr_range();
        assert!(source.contains(&results.value(row).as_ptr()));
    }
}

#[test]
fn buffers_without_views_are_released() {
    let texts = long_texts();
    let shared = |pattern, replacement| {
        let results = Replacer::new(pattern, replacement, None).unwrap().replace(&texts, &unlimited).unwrap();
        let bytes = |buffers: &[arrow::buffer::Buffer]| buffers.iter().map(|buffer| buffer.len()).collect::<Vec<_>>();
        (bytes(results.data_buffers()), bytes(texts.data_buffers()))
    };
    let (results, source) = shared("nothing", "");
    assert_eq!(results, source);
    let (results, source) = shared("^s.*$", "x");
    assert_eq!(results, [source[0]]);
    let (results, source) = shared("^h.*$", "a new text of some length");
    assert_eq!(results, [25, source[1]]);
}

#[test]
fn new_texts_fill_many_buffers() {
    let texts = StringViewArray::from_iter_values((0..5_000).map(|row| format!("{row} ").repeat(1 + row % 700)));
    let results = Replacer::new(" ", "; ", Some("g")).unwrap().replace(&texts, &unlimited).unwrap();
    assert!(results.data_buffers().len() > 5);
    for (text, result) in texts.iter().zip(&results) {
        assert_eq!(text.unwrap().replace(' ', "; "), result.unwrap());
    }
    let used: usize = results.lengths().map(|length| length as usize).filter(|&length| length > 12).sum();
    let held: usize = results.data_buffers().iter().map(|buffer| buffer.capacity()).sum();
    assert!(held < used + used / 10);
}

#[test]
fn hard_patterns_take_no_exponential_time() {
    let text = "a".repeat(20_000);
    for pattern in ["^(a+)+$b", "^(?:a|aa)+b", "^a*a*a*a*a*a*b", "(?:a*?b)?a*?c", "^(?:a?){60}a{60}b", "(x+x+)+y"] {
        assert!(
            !Matcher::new(pattern, None).unwrap().is_match(&StringViewArray::from(vec![text.as_str(); 3])).value(2)
        );
    }
}

#[test]
fn too_many_choices_make_the_machine_give_up() {
    let text = "a".repeat(100_000) + "c";
    assert_eq!(replaced(&text, "^(?:a??(ab?))*(c)", r"\1\2", None), "ac");
    assert!(Matcher::new("^(?:a|ab)*c", None).unwrap().is_match(&StringViewArray::from(vec![text])).value(0));
}

/// Generates patterns of few letters, so that texts of few letters match them.
struct Patterns(StdRng);

impl Patterns {
    fn pick<'t>(&mut self, from: &[&'t str]) -> &'t str {
        from.choose(&mut self.0).unwrap()
    }

    fn pattern(&mut self) -> String {
        let begin =
            self.pick(&["", "", "^", "^", "(?m)^", "(?s)", "(?i)", "(?U)", "^.*", ".*?", "^https?://(?:www\\.)?"]);
        let end = self.pick(&["", "", "$", ".*$", ".*", "/.*$", "(?s:.*)$", "$|b", ".*?$"]);
        let body = self.alternation(3);
        format!("{begin}{body}{end}")
    }

    fn alternation(&mut self, depth: u32) -> String {
        let parts = if depth > 0 && self.0.random_ratio(1, 5) { 2 + self.0.random_range(0..2) } else { 1 };
        (0..parts).map(|_| self.concat(depth)).collect::<Vec<_>>().join("|")
    }

    fn concat(&mut self, depth: u32) -> String {
        (0..self.0.random_range(0..4)).map(|_| self.repetition(depth)).collect()
    }

    fn repetition(&mut self, depth: u32) -> String {
        let part = if depth > 0 && self.0.random_ratio(1, 3) {
            let inside = self.alternation(depth - 1);
            format!("{}{inside})", self.pick(&["(", "(", "(?:"]))
        } else {
            self.atom().to_string()
        };
        let count =
            self.pick(&["", "", "", "", "?", "*", "+", "{2}", "{0,2}", "{1,3}", "{2,}", "??", "*?", "+?", "{1,2}?"]);
        format!("{part}{count}")
    }

    fn atom(&mut self) -> &'static str {
        const LITERALS: &[&str] = &["a", "b", "/", "é", "Ж", "ab", r"\.", "www", r"\n", "ttps://www.é", "1"];
        const CLASSES: &[&str] = &[
            ".",
            "(?s:.)",
            "[^/]",
            "[^a]",
            "[ab]",
            "[^ab/]",
            "[^ab/.]",
            r"\w",
            r"\W",
            r"\d",
            r"\s",
            "[а-яЖ]",
            "[^é]",
            "[aé]",
            "(?i:a)",
            "(?i:k)",
            r"\PL",
            "[a&&b]",
            "(?-u:[ab])",
            "(?R:.)",
        ];
        const LOOKS: &[&str] =
            &["^", "$", "(?m:^)", "(?m:$)", r"\b", r"\B", r"(?-u:\b)", r"\b{start}", "(?mR:$)", r"\A", r"\z"];
        match self.0.random_range(0..20) {
            0..10 => self.pick(LITERALS),
            10..19 => self.pick(CLASSES),
            _ => self.pick(LOOKS),
        }
    }

    fn text(&mut self) -> String {
        let pieces =
            ["a", "a", "b", "b", "/", ".", "é", "Ж", "\n", "w", " ", "1", "A", "K", "www.", "\r\n", "\u{212A}"];
        let begin = self.pick(&["", "", "", "http://", "https://www.", "/"]).to_string();
        (0..self.0.random_range(0..12)).fold(begin, |text, _| text + self.pick(&pieces))
    }

    fn replacement(&mut self) -> String {
        let pieces = [r"\1", r"\1", r"\2", "$1", r"\0", r"\9", "-", "é", "$", r"\\1", "a text of some length"];
        let pieces: Vec<&str> = (0..self.0.random_range(0..3)).map(|_| self.pick(&pieces)).collect();
        pieces.concat()
    }
}

#[test]
fn programs_find_what_the_library_finds() {
    let mut patterns = Patterns(StdRng::seed_from_u64(SEED));
    let (mut programs, mut matches, mut given_up) = (0, 0, 0);
    let rounds = if long() { 200_000 } else { 3_000 };
    for _ in 0..rounds {
        let pattern = patterns.pattern();
        let Ok((regex, hir)) = read(&pattern) else { continue };
        let groups: BTreeSet<usize> = (1..regex.captures_len()).filter(|_| patterns.0.random_ratio(2, 3)).collect();
        let Some(program) = Program::new(&hir, &groups) else { continue };
        programs += 1;
        let mut machine = Machine::new(regex.captures_len());
        let mut wanted = regex.capture_locations();
        for _ in 0..8 {
            let text = patterns.text();
            let from = if patterns.0.random() { 0 } else { patterns.0.random_range(0..=text.len()) };
            machine.begin(&text);
            let outcome = machine.find(&program, &text, from);
            let found = regex.captures_read_at(&mut wanted, &text, from).is_some();
            if outcome == SearchOutcome::GaveUp {
                given_up += 1;
                continue;
            }
            assert_eq!(outcome == SearchOutcome::Found, found, "{pattern:?} in {text:?} from {from}");
            for &group in groups.iter().chain(&[0]).filter(|_| found) {
                let at = machine.group(group);
                assert_eq!(at, wanted.get(group), "group {group} of {pattern:?} in {text:?} from {from}");
            }
            matches += usize::from(found);
        }
    }
    println!("{programs} programs of {rounds} patterns, {matches} matches, {given_up} given up");
    assert!(programs > rounds / 5 && matches > programs && given_up < matches / 100);
}

/// Makes a column of texts in one to three buffers, with NULLs and with rows before its first one.
fn column(patterns: &mut Patterns, rows: usize) -> StringViewArray {
    let parts: Vec<arrow::array::ArrayRef> = (0..patterns.0.random_range(1..4))
        .map(|_| -> arrow::array::ArrayRef {
            let text = |_| patterns.0.random_ratio(9, 10).then(|| patterns.text());
            std::sync::Arc::new((0..=rows).map(text).collect::<StringViewArray>())
        })
        .collect();
    let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
    let all = concat(&parts).unwrap();
    all.as_string_view().slice(1, all.len() - 1)
}

#[test]
fn columns_are_replaced_and_matched_as_the_library_does() {
    let mut patterns = Patterns(StdRng::seed_from_u64(SEED + 1));
    let reference = Regex::new(r"\\(\\|\d)").unwrap();
    for _ in 0..if long() { 100_000 } else { 1_500 } {
        let (pattern, replacement) = (patterns.pattern(), patterns.replacement());
        let flags = ["", "", "g", "g", "i", "gi", "ms", "gU", "xg"].choose(&mut patterns.0).copied().unwrap();
        let options = flags.replace('g', "");
        let full = if options.is_empty() { pattern.clone() } else { format!("(?{options}){pattern}") };
        let Ok(regex) = Regex::new(&full) else { continue };
        let texts = column(&mut patterns, 8);

        let replacer = Replacer::new(&pattern, &replacement, (!flags.is_empty()).then_some(flags)).unwrap();
        let dollars = replacement.replace('$', "$$");
        let template = reference.replace_all(&dollars, |found: &regex::Captures<'_>| match &found[1] {
            r"\" => r"\".to_string(),
            group => format!("${{{group}}}"),
        });
        let limit = if flags.contains('g') { 0 } else { 1 };
        let results = replacer.replace(&texts, &unlimited).unwrap();
        let wanted = texts.iter().map(|text| Some(regex.replacen(text?, limit, &*template).into_owned()));
        assert_eq!(results, wanted.collect::<StringViewArray>(), "{pattern:?} by {replacement:?}, {flags:?}");

        let matcher = Matcher::new(&pattern, Some(&options)).unwrap();
        let wanted: BooleanArray = texts.iter().map(|text| Some(regex.is_match(text?))).collect();
        assert_eq!(matcher.is_match(&texts), wanted, "{pattern:?}, {flags:?}");
    }
}

#[test]
fn one_replacer_serves_many_threads() {
    let replacer = Replacer::new("(?:a|ab)(c|bcd)", r"\1", None).unwrap();
    let texts = StringViewArray::from_iter_values((0..1000).map(|row| format!("{row} abcd")));
    std::thread::scope(|scope| {
        let run = || replacer.replace(&texts, &unlimited).unwrap();
        let others: Vec<_> = (0..3).map(|_| scope.spawn(run)).collect();
        others.into_iter().for_each(|other| assert_eq!(other.join().unwrap(), run()));
    });
}
