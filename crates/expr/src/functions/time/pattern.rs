//! Splits the patterns of `to_char`, `to_date` and `to_timestamp`, for example `YYYY-MM-DD HH24:MI:SS`, into pieces.

/// A piece of a pattern.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum PatternPiece {
    /// Literal text.
    Literal(String),
    /// A part of a date or time.
    Part {
        /// The part that is written.
        part: PatternPart,
        /// The case of its letters.
        letters: LetterCase,
        /// Whether it is written without padding (`FM`).
        is_short: bool,
        /// The case of an ordinal suffix (`th`) after the number, if any.
        ordinal: Option<LetterCase>,
    },
}

/// The case of written letters, taken from the letters of the pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LetterCase {
    /// `MONTH`
    Upper,
    /// `Month`
    Title,
    /// `month`
    Lower,
}

/// A part of a date or time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PatternPart {
    /// `HH`, `HH12`
    Hour12,
    /// `HH24`
    Hour24,
    /// `MI`
    Minute,
    /// `SS`
    Second,
    /// `MS` (3 digits), `US` (6), `FF1` to `FF9`
    Fraction(u32),
    /// `SSSS`, `SSSSS`
    SecondOfDay,
    /// `AM`, `PM`; with points if true.
    Meridiem(bool),
    /// `Y,YYY`
    YearWithComma,
    /// `YYYY` to `Y`, with the number of digits.
    Year(u32),
    /// `IYYY` to `I`, with the number of digits.
    IsoYear(u32),
    /// `BC`, `AD`; with points if true.
    Era(bool),
    /// `MONTH`
    MonthName,
    /// `MON`
    MonthShort,
    /// `MM`
    Month,
    /// `RM`
    MonthRoman,
    /// `DAY`
    DayName,
    /// `DY`
    DayShort,
    /// `DDD`
    DayOfYear,
    /// `IDDD`
    IsoDayOfYear,
    /// `DD`
    Day,
    /// `D`, 1 is Sunday
    Weekday,
    /// `ID`, 1 is Monday
    IsoWeekday,
    /// `W`
    WeekOfMonth,
    /// `WW`
    WeekOfYear,
    /// `IW`
    IsoWeek,
    /// `CC`
    Century,
    /// `J`
    Julian,
    /// `Q`
    Quarter,
    /// `TZ`
    ZoneName,
    /// `TZH`
    ZoneHours,
    /// `TZM`
    ZoneMinutes,
    /// `OF`
    ZoneOffset,
}

/// The words of patterns. A longer word must come before each word that is a prefix of it, because the first match
/// wins.
const WORDS: &[(&str, PatternPart)] = &[
    ("hh24", PatternPart::Hour24),
    ("hh12", PatternPart::Hour12),
    ("hh", PatternPart::Hour12),
    ("mi", PatternPart::Minute),
    ("sssss", PatternPart::SecondOfDay),
    ("ssss", PatternPart::SecondOfDay),
    ("ss", PatternPart::Second),
    ("ms", PatternPart::Fraction(3)),
    ("us", PatternPart::Fraction(6)),
    ("ff1", PatternPart::Fraction(1)),
    ("ff2", PatternPart::Fraction(2)),
    ("ff3", PatternPart::Fraction(3)),
    ("ff4", PatternPart::Fraction(4)),
    ("ff5", PatternPart::Fraction(5)),
    ("ff6", PatternPart::Fraction(6)),
    ("ff9", PatternPart::Fraction(9)),
    ("a.m.", PatternPart::Meridiem(true)),
    ("p.m.", PatternPart::Meridiem(true)),
    ("am", PatternPart::Meridiem(false)),
    ("pm", PatternPart::Meridiem(false)),
    ("y,yyy", PatternPart::YearWithComma),
    ("yyyy", PatternPart::Year(4)),
    ("yyy", PatternPart::Year(3)),
    ("yy", PatternPart::Year(2)),
    ("y", PatternPart::Year(1)),
    ("iyyy", PatternPart::IsoYear(4)),
    ("iyy", PatternPart::IsoYear(3)),
    ("iy", PatternPart::IsoYear(2)),
    ("iddd", PatternPart::IsoDayOfYear),
    ("id", PatternPart::IsoWeekday),
    ("iw", PatternPart::IsoWeek),
    ("i", PatternPart::IsoYear(1)),
    ("b.c.", PatternPart::Era(true)),
    ("a.d.", PatternPart::Era(true)),
    ("bc", PatternPart::Era(false)),
    ("ad", PatternPart::Era(false)),
    ("month", PatternPart::MonthName),
    ("mon", PatternPart::MonthShort),
    ("mm", PatternPart::Month),
    ("rm", PatternPart::MonthRoman),
    ("day", PatternPart::DayName),
    ("dy", PatternPart::DayShort),
    ("ddd", PatternPart::DayOfYear),
    ("dd", PatternPart::Day),
    ("d", PatternPart::Weekday),
    ("ww", PatternPart::WeekOfYear),
    ("w", PatternPart::WeekOfMonth),
    ("cc", PatternPart::Century),
    ("j", PatternPart::Julian),
    ("q", PatternPart::Quarter),
    ("tzh", PatternPart::ZoneHours),
    ("tzm", PatternPart::ZoneMinutes),
    ("tz", PatternPart::ZoneName),
    ("of", PatternPart::ZoneOffset),
];

/// The months in English.
pub(super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// The days of the week in English, from Sunday.
pub(super) const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// The months as Roman numerals.
pub(super) const ROMAN_MONTHS: [&str; 12] = ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"];

/// Splits a pattern into pieces. Text in double quotes is literal, and so is a quote after a backslash and everything
/// that is not a word of patterns.
pub(super) fn pieces_of(pattern: &str) -> Vec<PatternPiece> {
    let mut pieces = Vec::new();
    let mut literal = String::new();
    let mut rest = pattern;
    while let Some(first) = rest.chars().next() {
        if first == '"' {
            let mut chars = rest[1..].char_indices();
            let mut end = rest.len();
            while let Some((at, character)) = chars.next() {
                match character {
                    '"' => {
                        end = at + 2;
                        break;
                    }
                    '\\' => literal.extend(chars.next().map(|(_, escaped)| escaped)),
                    other => literal.push(other),
                }
            }
            rest = &rest[end..];
            continue;
        }
        if rest.starts_with("\\\"") {
            literal.push('"');
            rest = &rest[2..];
            continue;
        }
        // FM comes before the word that it modifies.
        let is_short = starts_with(rest, "fm");
        let word = if is_short { &rest[2..] } else { rest };
        match WORDS.iter().find(|(name, _)| starts_with(word, name)) {
            Some((name, part)) => {
                let (written, after) = word.split_at(name.len());
                let ordinal = match after.as_bytes() {
                    [b'T', b'H', ..] => Some(LetterCase::Upper),
                    [b't', b'h', ..] => Some(LetterCase::Lower),
                    _ => None,
                };
                if !literal.is_empty() {
                    pieces.push(PatternPiece::Literal(std::mem::take(&mut literal)));
                }
                pieces.push(PatternPiece::Part { part: *part, letters: case_of(written), is_short, ordinal });
                rest = if ordinal.is_some() { &after[2..] } else { after };
            }
            // FM alone modifies the next piece and writes nothing itself.
            None if is_short => rest = word,
            None => {
                literal.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    if !literal.is_empty() {
        pieces.push(PatternPiece::Literal(literal));
    }
    pieces
}

fn starts_with(text: &str, word: &str) -> bool {
    text.as_bytes().get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word.as_bytes()))
}

fn case_of(word: &str) -> LetterCase {
    let mut letters = word.chars().filter(char::is_ascii_alphabetic).map(|letter| letter.is_ascii_uppercase());
    match (letters.next(), letters.next()) {
        (Some(true), Some(false)) => LetterCase::Title,
        (Some(true), _) => LetterCase::Upper,
        _ => LetterCase::Lower,
    }
}
