//! The phrases of searches, and the addresses of the result pages from which visitors come.

use std::fmt::Write as _;

use super::random::{Random, Stream};
use super::words::Words;

/// The phrases in the pool for each row of the table.
const PHRASES_PER_ROW: f64 = 0.142;

/// Returns the number of phrases from which a table of `rows` rows draws.
pub(crate) fn phrase_count(rows: u64) -> u64 {
    ((rows as f64 * PHRASES_PER_ROW) as u64).max(10)
}

/// The values of `SearchEngineID`, weighted by use.
const ENGINES: &[(u32, i16)] = &[
    (600, 2),
    (240, 3),
    (60, 4),
    (30, 1),
    (20, 5),
    (12, 13),
    (10, 44),
    (8, 7),
    (6, 12),
    (5, 45),
    (4, 48),
    (3, 53),
    (2, 61),
];

/// Draws the engine of a search. Many phrases are mostly searched for on one engine.
pub(crate) fn draw_engine(random: &mut Random, seed: u64, phrase: u64) -> i16 {
    match random.chance(0.8) {
        // The engine is a function of the phrase here, so that most searches for a phrase use the same engine.
        true => Random::new(seed, Stream::PhraseEngine, phrase).pick(ENGINES),
        false => random.pick(ENGINES),
    }
}

/// Appends phrase number `number`. Common phrases are short.
pub(crate) fn write_phrase(out: &mut String, seed: u64, number: u64, words: &Words) {
    let mut random = Random::new(seed, Stream::Phrase, number);
    let random = &mut random;
    let more = random.pick(&[(2, 0), (6, 1), (12, 2), (16, 3), (14, 4), (8, 5), (4, 6), (2, 8)]);
    let more = if number < 2_000 { more.min(2) } else { more };
    out.push_str(words.cyrillic(words.draw_noun(random)));
    for _ in 0..more {
        out.push(' ');
        match random.below(24) {
            0 => _ = write!(out, "{}", 2_000 + random.below(14)),
            1 => out.push_str(words.latin(words.draw_noun(random))),
            _ => out.push_str(words.cyrillic(words.draw(random))),
        }
    }
}

/// Appends the address of the result page for `phrase`, in the form that `engine` uses for a visitor of `region`.
pub(crate) fn write_result_page(out: &mut String, random: &mut Random, engine: i16, phrase: &str, region: i32) {
    // Writing to a String cannot fail.
    _ = match engine {
        2 => {
            out.push_str("http://yandex.ru/yandsearch?text=");
            push_percent(out, phrase);
            match random.below(16) {
                0 => write!(out, "&lr={region}"),
                1 => write!(out, "&p={}", random.skewed(4)),
                _ => Ok(()),
            }
        }
        3 => {
            out.push_str("http://www.google.ru/search?q=");
            push_plus(out, phrase);
            match random.below(12) {
                0 => write!(out, "&hl=ru&start={}", random.skewed(5) * 10),
                1 => write!(out, "&sourceid=chrome&ie=utf-8"),
                _ => write!(out, "&ie=utf-8"),
            }
        }
        4 => {
            out.push_str("http://go.mail.ru/search?q=");
            push_plus(out, phrase);
            write!(out, "&rch=l&sf={}", random.skewed(4) * 10)
        }
        _ => {
            _ = write!(out, "http://search{engine}.com/?query=");
            push_plus(out, phrase);
            Ok(())
        }
    };
}

fn push_plus(out: &mut String, phrase: &str) {
    out.extend(phrase.chars().map(|letter| if letter == ' ' { '+' } else { letter }));
}

/// Percent-encodes the phrase in windows-1251, as that engine did: one byte per letter.
fn push_percent(out: &mut String, phrase: &str) {
    for letter in phrase.chars() {
        match letter as u32 {
            0x20 => out.push('+'),
            code @ 0x410..=0x44f => _ = write!(out, "%{:02X}", code - 0x350),
            _ => out.push(letter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_encoded_in_one_byte() {
        let mut out = String::new();
        push_percent(&mut out, "дом 7");
        assert_eq!(out, "%E4%EE%EC+7");
    }

    #[test]
    fn a_phrase_number_always_gives_the_same_phrase() {
        let words = Words::new();
        let phrase = |number| {
            let mut out = String::new();
            write_phrase(&mut out, 3, number, &words);
            out
        };
        assert_eq!(phrase(5), phrase(5));
        assert_ne!(phrase(5_000), phrase(5_001));
    }
}
