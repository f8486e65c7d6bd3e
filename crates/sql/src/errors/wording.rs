//! DataFusion's and Arrow's way of writing types and values, turned into SQL.

use arrow::datatypes::DataType;
use rowmill_base::SqlType;

use crate::text_format::interval_text;

/// The SQL name of an Arrow type, or Arrow's own where SQL has none.
pub(crate) fn type_name(kind: &DataType) -> String {
    match kind {
        DataType::Null => "NULL".into(),
        _ => SqlType::from_arrow(kind).map_or_else(|| kind.to_string(), |kind| kind.to_string()),
    }
}

/// Prefixes that say which layer failed. Who reads the message did not ask for a layer.
const LAYERS: &[&str] = &[
    "DataFusion error: ",
    "Error during planning: ",
    "Execution error: ",
    "Internal error: ",
    "Arrow error: ",
    "Compute error: ",
    "Cast error: ",
    "Parser error: ",
    "Schema error: ",
    "External error: ",
    "Invalid argument error: ",
    "Arithmetic overflow: ",
    "This feature is not implemented: ",
    "Not yet implemented: ",
    "Parquet error: ",
    "EOF: ",
];

/// Type names without parameters, as Arrow writes them and as SQL does.
const TYPES: &[(&str, &str)] = &[
    ("Boolean", "BOOLEAN"),
    ("Int8", "TINYINT"),
    ("Int16", "SMALLINT"),
    ("Int32", "INTEGER"),
    ("Int64", "BIGINT"),
    ("UInt8", "TINYINT UNSIGNED"),
    ("UInt16", "SMALLINT UNSIGNED"),
    ("UInt32", "INTEGER UNSIGNED"),
    ("UInt64", "BIGINT UNSIGNED"),
    ("Float16", "REAL"),
    ("Float32", "REAL"),
    ("Float64", "DOUBLE"),
    ("Utf8", "TEXT"),
    ("LargeUtf8", "TEXT"),
    ("Utf8View", "TEXT"),
    ("Binary", "BLOB"),
    ("LargeBinary", "BLOB"),
    ("BinaryView", "BLOB"),
    ("Date32", "DATE"),
    ("Date64", "DATE"),
    ("Decimal32", "DECIMAL"),
    ("Decimal64", "DECIMAL"),
    ("Decimal128", "DECIMAL"),
    ("Decimal256", "DECIMAL"),
];

/// Type names that take parameters: `name(parameters)` becomes the text made of them.
const PARAMETERISED: &[&str] = &[
    "Timestamp",
    "TimestampSecond",
    "TimestampMillisecond",
    "TimestampMicrosecond",
    "TimestampNanosecond",
    "Time32",
    "Time64",
    "Interval",
    "IntervalMonthDayNano",
    "Duration",
    "List",
    "LargeList",
    "FixedSizeList",
    "FixedSizeBinary",
];

/// `text` without layers, type names and literals of DataFusion; what stands in single quotes is the user's and stays.
pub(crate) fn plain(text: &str) -> String {
    let text = text.split("\n\nbacktrace:").next().unwrap_or(text);
    let text = match text.find("This issue was likely caused by a bug") {
        Some(end) => text[..end].trim_end().trim_end_matches('.'),
        None => text,
    };
    let mut text = text.to_string();
    for layer in LAYERS {
        text = text.replace(layer, "");
    }
    rewrite(text.trim().trim_end_matches('.'))
}

fn rewrite(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if first == '\'' {
            // The user's own text, up to the closing quote.
            let end = rest[1..].find('\'').map_or(rest.len(), |end| end + 2);
            out.push_str(&rest[..end]);
            rest = &rest[end..];
        } else if first.is_ascii_alphabetic() || first == '_' {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            rest = word_or_literal(word, after, &mut out);
        } else {
            out.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    out
}

/// Writes `word` with the parentheses behind it, if they belong to it, and returns what follows.
fn word_or_literal<'a>(word: &str, after: &'a str, out: &mut String) -> &'a str {
    let named = TYPES.iter().find(|(arrow, _)| *arrow == word);
    if named.is_none() && !PARAMETERISED.contains(&word) {
        out.push_str(word);
        return after;
    }
    let Some((inside, behind)) = parenthesised(after) else {
        out.push_str(named.map_or(word, |(_, sql)| sql));
        return after;
    };
    match named {
        Some((_, "DECIMAL")) if !inside.contains('.') && inside.split(',').count() == 2 => {
            out.push_str(&format!("DECIMAL({})", inside.replace(' ', "")));
        }
        // `Decimal128(Some(150),4,2)` and `Decimal128(1.5,2,1)` are values.
        Some((_, "DECIMAL")) => out.push_str(inside.split(',').next().unwrap_or(inside)),
        Some((_, "TEXT")) => out.push_str(&format!("'{}'", inside.trim_matches('"'))),
        Some(_) => out.push_str(inside.trim_matches('"')),
        None => out.push_str(&parameterised(word, inside)),
    }
    behind
}

fn parameterised(word: &str, inside: &str) -> String {
    match word {
        "Timestamp" => {
            let digits = match inside.split(',').next().unwrap_or("").trim() {
                "s" | "Second" => "(0)",
                "ms" | "Millisecond" => "(3)",
                "ns" | "Nanosecond" => "(9)",
                _ => "",
            };
            let zone = inside.contains(',') && !inside.contains("None");
            format!("TIMESTAMP{digits}{}", if zone { " WITH TIME ZONE" } else { "" })
        }
        "Time32" | "Time64" => "TIME".into(),
        "IntervalMonthDayNano" if inside.contains("months: ") => interval(inside),
        "Interval" => "INTERVAL".into(),
        "Duration" => "INTERVAL".into(),
        "FixedSizeBinary" if inside.trim() == "16" => "UUID".into(),
        "FixedSizeBinary" => "BLOB".into(),
        "List" | "LargeList" | "FixedSizeList" => {
            let item = inside.split(',').next().unwrap_or(inside).trim_start_matches("nullable ");
            format!("{}[]", rewrite(item))
        }
        // A literal of a type with a unit: the first part is the value.
        _ => inside.split(',').next().unwrap_or(inside).trim_matches('"').to_string(),
    }
}

/// `IntervalMonthDayNano { months: 0, days: 1, nanoseconds: 0 }`
fn interval(inside: &str) -> String {
    let part = |name: &str| {
        let digits = inside.split(name).nth(1).unwrap_or("").chars();
        digits.take_while(|c| *c == '-' || c.is_ascii_digit()).collect::<String>().parse::<i64>().unwrap_or(0)
    };
    let (months, days) = (part("months: ") as i32, part("days: ") as i32);
    format!("INTERVAL '{}'", interval_text(months, days, part("nanoseconds: ").into()))
}

/// The text inside the parentheses that `text` starts with, and the text behind them.
fn parenthesised(text: &str) -> Option<(&str, &str)> {
    if !text.starts_with('(') {
        return None;
    }
    let mut depth = 0_i32;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some((&text[1..at], &text[at + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_and_literals_become_sql() {
        assert_eq!(
            plain("Cannot coerce Utf8View + Int64 to valid types"),
            "Cannot coerce TEXT + BIGINT to valid types"
        );
        assert_eq!(plain("Int64(5) > Utf8(\"x\")"), "5 > 'x'");
        assert_eq!(plain("Decimal128(10, 2) and Decimal128(1.5,2,1)"), "DECIMAL(10,2) and 1.5");
        assert_eq!(plain("Timestamp(ns) and List(Int32)"), "TIMESTAMP(9) and INTEGER[]");
        assert_eq!(plain("Timestamp(µs, \"UTC\")"), "TIMESTAMP WITH TIME ZONE");
        assert_eq!(plain("Error during planning: 'Int64' is quoted."), "'Int64' is quoted");
        assert_eq!(
            plain("a + IntervalMonthDayNano(\"IntervalMonthDayNano { months: 14, days: -1, nanoseconds: 0 }\")"),
            "a + INTERVAL '1 year 2 mons -1 days'"
        );
    }
}
