//! The type of a column by the type that SQLite's table declares.

use rowmill_base::{SqlType, TimeUnit};

/// Returns the type for a declared type, which may be any text.
pub(super) fn column_type(declared: &str) -> SqlType {
    let declared = declared.to_ascii_lowercase();
    let has = |parts: &[&str]| parts.iter().any(|part| declared.contains(part));
    // The order is that of SQLite, in which POINT is an integer. The types that SQLite has not come where their names
    // are not part of another one.
    if has(&["bool"]) {
        SqlType::Boolean
    } else if has(&["int"]) {
        SqlType::Int64
    } else if has(&["char", "clob", "text"]) {
        SqlType::TEXT
    } else if has(&["blob"]) {
        SqlType::Blob
    } else if has(&["real", "floa", "doub", "dec", "num"]) {
        SqlType::Float64
    } else if has(&["timestamp", "datetime"]) {
        SqlType::Timestamp { unit: TimeUnit::Microsecond, zoned: false }
    } else if has(&["date"]) {
        SqlType::Date
    } else {
        SqlType::TEXT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declared_types_are_read_as_sqlite_reads_them() {
        for (declared, kind) in [
            ("INTEGER", SqlType::Int64),
            ("unsigned big int", SqlType::Int64),
            ("VARCHAR(20)", SqlType::TEXT),
            ("DECIMAL(10, 2)", SqlType::Float64),
            ("NUMERIC", SqlType::Float64),
            ("BOOLEAN", SqlType::Boolean),
            ("DATE", SqlType::Date),
            ("datetime", SqlType::Timestamp { unit: TimeUnit::Microsecond, zoned: false }),
            ("", SqlType::TEXT),
            ("JSON", SqlType::TEXT),
            ("BLOB", SqlType::Blob),
        ] {
            assert_eq!(column_type(declared), kind, "{declared}");
        }
    }
}
