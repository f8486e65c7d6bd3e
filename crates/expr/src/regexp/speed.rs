//! Prints the cost of a text with and without programs: `cargo test --release -p rowmill-expr regexp::speed --
//! --ignored --nocapture`.

use std::hint::black_box;
use std::time::Instant;

use arrow::array::StringViewBuilder;
use rand::prelude::*;

use super::*;

const TEXTS: usize = 1 << 15;
const LONG_TEXTS: usize = 1 << 9;

/// Makes addresses of pages that refer to others: 30 to 100 bytes, most of them from sites with many pages.
fn referers() -> StringViewArray {
    let mut random = StdRng::seed_from_u64(1);
    let mut word = |from: &[&'static str]| *from.choose(&mut random).unwrap();
    let syllables = ["ta", "ro", "mi", "ne", "ka", "lo", "shop", "news", "auto", "-", "foto", "ru"];
    let text = |_| {
        let mut text = String::from(word(&["http://", "http://", "https://", ""]));
        text += word(&["www.", "", "m.", "yandsearch.", "forum."]);
        (0..3).for_each(|_| text += word(&syllables));
        text += word(&[".ru", ".com", ".org", ".net.ua"]);
        text += word(&["/", "/", "/search?text=", "/index.php?id="]);
        while text.len() < 30 || word(&["on", "on", "on", "on", "on", "on", "end"]) == "on" && text.len() < 100 {
            text += word(&syllables);
            text += word(&["/", "", "%20", "&p=1", "привет", ".html"]);
        }
        text
    };
    StringViewArray::from_iter_values((0..TEXTS).map(text))
}

/// Returns the nanoseconds per text of several ways, the best of several runs of each.
fn nanoseconds<const N: usize>(texts: usize, mut ways: [&mut dyn FnMut(); N]) -> [f64; N] {
    let mut best = [f64::MAX; N];
    for _ in 0..5 {
        for (way, best) in ways.iter_mut().zip(&mut best) {
            let start = Instant::now();
            way();
            *best = best.min(start.elapsed().as_secs_f64() * 1e9 / texts as f64);
        }
    }
    best
}

/// Replaces text by text with the library alone. Our times should be below its times.
fn by_library(texts: &StringViewArray, regex: &Regex, limit: usize, replacement: &str) -> StringViewArray {
    let mut builder = StringViewBuilder::with_capacity(texts.len());
    texts.iter().flatten().for_each(|text| builder.append_value(regex.replacen(text, limit, replacement)));
    builder.finish()
}

/// Replaces with a pattern without its final `.*$`, by the library. Takes group 1 directly from the text.
fn by_short_pattern(texts: &StringViewArray, short: &Regex) -> StringViewArray {
    let mut builder = StringViewBuilder::with_capacity(texts.len());
    let mut locations = short.capture_locations();
    for text in texts.iter().flatten() {
        match short.captures_read(&mut locations, text) {
            Some(_) => builder.append_value(locations.get(1).map_or("", |(start, end)| &text[start..end])),
            None => builder.append_value(text),
        }
    }
    builder.finish()
}

#[test]
#[ignore = "a measurement"]
fn prints_the_cost_of_every_way() {
    let texts = referers();
    let (host, short) = (r"^https?://(?:www\.)?([^/]+)/.*$", Regex::new(r"^https?://(?:www\.)?([^/]+)/").unwrap());
    let bytes: u64 = texts.lengths().map(u64::from).sum();
    println!("{} bytes per text", bytes / TEXTS as u64);
    let [before] = nanoseconds(texts.len(), [&mut || drop(black_box(by_short_pattern(&texts, &short)))]);
    println!("without the end of the pattern, one group taken out: {before:.0} ns");
    let start = Instant::now();
    (0..100).for_each(|_| drop(black_box(Replacer::new(host, r"\1", None))));
    println!("reading pattern and replacement: {:.0} us", start.elapsed().as_secs_f64() * 1e4);

    for (texts, kind) in [(&texts, "addresses"), (&long_texts(), "long texts")] {
        println!("\n{kind}");
        print_replacements(texts, host);
        print_matches(texts, host);
    }
}

/// Makes texts of about 5,000 bytes without digits, in which most patterns do not match.
fn long_texts() -> StringViewArray {
    let mut random = StdRng::seed_from_u64(2);
    let words = ["the", "quick", "brown", "fox", "jumps", "over", "lazy", "dog", "timeout", "https", "слово", "fail"];
    let text = |_| (0..900).map(|_| *words.choose(&mut random).unwrap()).collect::<Vec<_>>().join(" ");
    StringViewArray::from_iter_values((0..LONG_TEXTS).map(text))
}

fn print_replacements(texts: &StringViewArray, host: &str) {
    let replacements = [
        (host, r"\1", ""),
        (host, r"\1 of \0", ""),
        (r"^https?://(?:www\.)?([^/]+)/", r"\1", ""),
        (r"https?://([^/]+)/.*", r"\1", ""),
        ("^https?://", "", ""),
        (r"^www\.", "", ""),
        (r"\?.*$", "", ""),
        (r"^(.*)/[^/]*$", r"\1", ""),
        (r".*=(\d+)$", r"\1", ""),
        ("[0-9]+", "#", "g"),
        (r"\s+", " ", "g"),
        ("[^a-z0-9]", "", "g"),
        (r"(\w+)\.(\w+)", r"\2.\1", ""),
        (r"(\w+)\.(\w+)", r"\2.\1", "g"),
        ("(?:ru|com)/", "", ""),
        ("(yandsearch|forum|m)\\.([^/]*)", r"\2", ""),
        ("(?:ta|ro|mi)+(?:ne|ka)", "-", "g"),
        ("WWW", "-", "gi"),
        (r"(\p{Cyrillic}+)", r"<\1>", "g"),
    ];
    for (pattern, replacement, flags) in replacements {
        let full = if flags.contains('i') { format!("(?i){pattern}") } else { pattern.to_string() };
        let regex = Regex::new(&full).unwrap();
        let dollars = replacement.replace('\\', "$");
        let limit = usize::from(!flags.contains('g'));
        let ours = Replacer::new(pattern, replacement, (!flags.is_empty()).then_some(flags)).unwrap();
        let mut plain = Replacer::new(pattern, replacement, (!flags.is_empty()).then_some(flags)).unwrap();
        plain.search.forget_program();
        let [library, plain, ours] = nanoseconds(
            texts.len(),
            [
                &mut || drop(black_box(by_library(texts, &regex, limit, &dollars))),
                &mut || drop(black_box(plain.replace(texts, &|_| Ok(())))),
                &mut || drop(black_box(ours.replace(texts, &|_| Ok(())))),
            ],
        );
        println!(
            "replace {pattern} by {replacement:?} {flags}: {library:.0} ns by the library, {plain:.0} without a \
             program ({:.2}), {ours:.0} now ({:.2})",
            plain / library,
            ours / library
        );
    }
}

fn print_matches(texts: &StringViewArray, host: &str) {
    for pattern in [
        host,
        "^https?://",
        "^http://forum",
        r"\.html$",
        r"^.*\.net\.ua/.*$",
        "^$",
        r"\d{3,}",
        "[а-я]+",
        r"\bfail\w*",
        "fox.*dog.*zebra",
        "(foo|bar)+baz",
        "(?i)ZEBRA",
        "^https?://[^/]*shop",
        "auto",
        ".*auto.*html",
        "shop|news|auto",
        "[0-9]+",
        r"\.ru/.*привет",
        "(?i)AUTO",
        r"\w+\.html$",
        r"^\w+://\w+\.ru",
    ] {
        let regex = Regex::new(pattern).unwrap();
        let ours = Matcher::new(pattern, None).unwrap();
        let library = || BooleanBuffer::collect_bool(texts.len(), |row| regex.is_match(texts.value(row)));
        let [library, now] = nanoseconds(
            texts.len(),
            [&mut || drop(black_box(library())), &mut || drop(black_box(ours.is_match(texts)))],
        );
        println!("match {pattern}: {library:.0} ns by the library, {now:.0} now ({:.2})", now / library);
    }
}
