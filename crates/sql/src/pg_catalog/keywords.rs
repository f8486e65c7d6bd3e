//! The words of SQL: `pg_get_keywords()`, by which editors highlight them, and names that need quotes because of them.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringViewArray};
use rowmill_base::{Error, Result};
use sqlparser::keywords::ALL_KEYWORDS;

use crate::statement::sql_text::quoted;

/// The words that PostgreSQL reserves, in order.
const RESERVED: [&str; 76] = [
    "all",
    "analyse",
    "analyze",
    "and",
    "any",
    "array",
    "as",
    "asc",
    "asymmetric",
    "both",
    "case",
    "cast",
    "check",
    "collate",
    "column",
    "constraint",
    "create",
    "current_catalog",
    "current_date",
    "current_role",
    "current_time",
    "current_timestamp",
    "current_user",
    "default",
    "deferrable",
    "desc",
    "distinct",
    "do",
    "else",
    "end",
    "except",
    "false",
    "fetch",
    "for",
    "foreign",
    "from",
    "grant",
    "group",
    "having",
    "in",
    "initially",
    "intersect",
    "into",
    "lateral",
    "leading",
    "limit",
    "localtime",
    "localtimestamp",
    "not",
    "null",
    "offset",
    "on",
    "only",
    "or",
    "order",
    "placing",
    "primary",
    "references",
    "returning",
    "select",
    "session_user",
    "some",
    "symmetric",
    "table",
    "then",
    "to",
    "trailing",
    "true",
    "union",
    "unique",
    "user",
    "using",
    "variadic",
    "when",
    "where",
    "window",
];

fn is_reserved(word: &str) -> bool {
    RESERVED.binary_search(&word).is_ok() || word == "with"
}

/// A name as PostgreSQL writes it: in quotes unless it is a plain word in lower case that is not reserved.
pub(super) fn pg_name(name: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte == b'_' || byte.is_ascii_digit();
    let starts_plain = name.starts_with(|first: char| first.is_ascii_lowercase() || first == '_');
    if starts_plain && name.bytes().all(is_plain) && !is_reserved(name) { name.to_owned() } else { quoted(name) }
}

/// Returns the rows: each word with the letter of its kind and its description.
pub(crate) fn rows(name: &str, arguments: usize) -> Result<Option<RecordBatch>> {
    if name != "pg_get_keywords" || arguments > 0 {
        return Ok(None);
    }
    let kinds = ALL_KEYWORDS.iter().map(|word| is_reserved(&word.to_lowercase())).collect::<Vec<_>>();
    let words: StringViewArray = ALL_KEYWORDS.iter().map(|word| Some(word.to_lowercase())).collect();
    let text = |of: fn(&bool) -> &'static str| Arc::new(kinds.iter().map(of).map(Some).collect::<StringViewArray>());
    let letters = text(|reserved| if *reserved { "R" } else { "U" });
    let descriptions = text(|reserved| if *reserved { "reserved" } else { "unreserved" });
    let columns = [("word", Arc::new(words) as ArrayRef), ("catcode", letters), ("catdesc", descriptions)];
    let batch = RecordBatch::try_from_iter(columns);
    batch.map(Some).map_err(|error| Error::internal(format!("pg_get_keywords: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_words_and_capitals_need_quotes() {
        assert!(RESERVED.is_sorted());
        let names = ["id", "order", "with", "UserID", "1st", "a b"].map(pg_name);
        assert_eq!(names, ["id", "\"order\"", "\"with\"", "\"UserID\"", "\"1st\"", "\"a b\""]);
    }
}
