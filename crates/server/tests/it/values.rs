//! Values of every type, as text and in binary, in both directions.

use std::error::Error;

use bytes::{BufMut, BytesMut};
use tokio_postgres::SimpleQueryMessage;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type};

use crate::support::with_client;

/// The bytes of a value in binary, of any type.
#[derive(Clone, Debug, PartialEq)]
struct RawValue(Vec<u8>);

impl<'a> FromSql<'a> for RawValue {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(RawValue(raw.to_vec()))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

impl ToSql for RawValue {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.put_slice(&self.0);
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    tokio_postgres::types::to_sql_checked!();
}

/// A type, the number that PostgreSQL gives it, a literal, its text, and its binary form in hexadecimal digits, as
/// PostgreSQL 15 sends them.
const VALUES: &[(&str, u32, &str, &str, &str)] = &[
    ("BOOLEAN", 16, "true", "t", "01"),
    ("TINYINT", 21, "-5", "-5", "fffb"),
    ("SMALLINT", 21, "300", "300", "012c"),
    ("INTEGER", 23, "-70000", "-70000", "fffeee90"),
    ("BIGINT", 20, "5000000000", "5000000000", "000000012a05f200"),
    ("SMALLINT UNSIGNED", 23, "65535", "65535", "0000ffff"),
    ("INTEGER UNSIGNED", 20, "4294967295", "4294967295", "00000000ffffffff"),
    ("BIGINT UNSIGNED", 1700, "18446744073709551615", "18446744073709551615", "000500040000000007341a5802e103bb064f"),
    ("REAL", 700, "1.5", "1.5", "3fc00000"),
    ("DOUBLE", 701, "-2", "-2", "c000000000000000"),
    ("DECIMAL(10, 2)", 1700, "12345.60", "12345.60", "000300010000000200010929 1770"),
    ("DECIMAL(10, 4)", 1700, "-0.0012", "-0.0012", "0001ffff40000004000c"),
    ("DECIMAL(10, 2)", 1700, "0", "0.00", "0000000000000002"),
    ("DECIMAL(8, 0)", 1700, "20000", "20000", "0001000100000000 0002"),
    (
        "DECIMAL(50, 1)",
        1700,
        "10000000000000000000000000000000000000000.5",
        "10000000000000000000000000000000000000000.5",
        "000c000a00000001000100000000000000000000000000000000000000001388",
    ),
    ("TEXT", 25, "'ä, b'", "ä, b", "c3a42c2062"),
    ("BLOB", 17, "'\\x00ff'", "\\x00ff", "00ff"),
    ("DATE", 1082, "'2024-02-29'", "2024-02-29", "00002279"),
    ("DATE", 1082, "'1999-12-31'", "1999-12-31", "ffffffff"),
    ("TIME", 1083, "'12:30:45.5'", "12:30:45.5", "0000000a7cebc860"),
    ("TIMESTAMP", 1114, "'2000-01-01 00:00:01'", "2000-01-01 00:00:01", "00000000000f4240"),
    ("TIMESTAMP(0)", 1114, "'2000-01-01 00:00:01'", "2000-01-01 00:00:01", "00000000000f4240"),
    ("TIMESTAMP WITH TIME ZONE", 1184, "'2000-01-01 01:00:01+01'", "2000-01-01 00:00:01+00", "00000000000f4240"),
    (
        "INTERVAL",
        1186,
        "'1 year 2 mons -3 days 04:05:06.5'",
        "1 year 2 mons -3 days 04:05:06.5",
        "000000036c9361a0fffffffd0000000e",
    ),
    (
        "UUID",
        2950,
        "'550e8400-e29b-41d4-a716-446655440000'",
        "550e8400-e29b-41d4-a716-446655440000",
        "550e8400e29b41d4a716446655440000",
    ),
    ("INTEGER[]", 1007, "[1, NULL]", "{1,NULL}", "0000000100000001000000170000000200000001 00000004 00000001 ffffffff"),
    (
        "TEXT[]",
        1009,
        "['a', 'b, \"c', '', 'null']",
        "{a,\"b, \\\"c\",\"\",\"null\"}",
        "0000000100000000000000190000000400000001 0000000161 00000005622c202263 00000000 000000046e756c6c",
    ),
    ("INTEGER[]", 1007, "[]", "{}", "000000000000000000000017"),
];

fn bytes(hex: &str) -> Vec<u8> {
    let digits: String = hex.split_whitespace().collect();
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect()
}

#[test]
fn every_type_has_its_text_and_its_binary_form() {
    with_client(|client| async move {
        for (kind, oid, literal, text, hex) in VALUES {
            let sql = format!("SELECT CAST({literal} AS {kind}) AS v");
            let messages = client.simple_query(&sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
            let shown = messages.iter().find_map(|message| match message {
                SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
                _ => None,
            });
            assert_eq!(shown.as_deref(), Some(*text), "{sql}");
            let row = client.query_one(&sql, &[]).await.unwrap();
            assert_eq!(row.columns()[0].type_().oid(), *oid, "{sql}");
            assert_eq!(row.get::<_, RawValue>(0), RawValue(bytes(hex)), "{sql}");
        }
    });
}

#[test]
fn every_value_comes_back_as_it_was_sent() {
    with_client(|client| async move {
        for (kind, oid, _, _, hex) in VALUES {
            let sql = format!("SELECT CAST($1 AS {kind}) AS v");
            let statement = client.prepare(&sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
            assert_eq!(statement.params()[0].oid(), *oid, "{sql}");
            let sent = RawValue(bytes(hex));
            let row = client.query_one(&statement, &[&sent]).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
            assert_eq!(row.get::<_, RawValue>(0), sent, "{sql}");
            let row = client.query_one(&statement, &[&None::<RawValue>]).await.unwrap();
            assert_eq!(row.get::<_, Option<RawValue>>(0), None, "{sql}");
        }
    });
}

#[test]
fn values_are_stored_through_parameters() {
    with_client(|client| async move {
        for (index, (kind, _, literal, _, hex)) in VALUES.iter().enumerate() {
            let table = format!("t{index}");
            client.batch_execute(&format!("CREATE TABLE {table} (v {kind})")).await.unwrap();
            let insert = format!("INSERT INTO {table} VALUES ($1)");
            let sent = RawValue(bytes(hex));
            let stored = client.execute(&insert, &[&sent]).await;
            assert_eq!(stored.unwrap_or_else(|error| panic!("{kind}: {error:?}")), 1, "{kind}");
            let row = client.query_one(&format!("SELECT v FROM {table}"), &[]).await.unwrap();
            assert_eq!(row.get::<_, RawValue>(0), sent, "{kind} {literal}");
        }
    });
}

#[test]
fn nested_lists_and_structs_are_json() {
    with_client(|client| async move {
        let sql = "SELECT [[1], [2, 3]] AS lists, {'a': 1, 'b': 'x'} AS struct";
        let row = client.query_one(sql, &[]).await.unwrap();
        assert_eq!(
            row.columns().iter().map(|column| column.type_().clone()).collect::<Vec<_>>(),
            [Type::JSON, Type::JSON]
        );
        assert_eq!(row.get::<_, RawValue>(0), RawValue(b"[[1], [2, 3]]".to_vec()));
        assert_eq!(row.get::<_, RawValue>(1), RawValue(b"{\"a\": 1, \"b\": \"x\"}".to_vec()));
    });
}

#[test]
fn documents_are_json() {
    with_client(|client| async move {
        client.batch_execute("CREATE TABLE docs (id INTEGER PRIMARY KEY, j JSONB)").await.unwrap();
        let document = RawValue(b"{\"a\": [1]}".to_vec());
        assert_eq!(client.execute("INSERT INTO docs VALUES (1, $1)", &[&document]).await.unwrap(), 1);
        let wrong = RawValue(b"{\"a\"".to_vec());
        let error = client.execute("INSERT INTO docs VALUES (2, $1)", &[&wrong]).await.unwrap_err();
        assert_eq!(error.code().unwrap().code(), "22P02");
        let sql = "SELECT j, j->'a' AS part, j->>'a' AS text, [j] AS list FROM docs WHERE j->>'a' = '[1]'";
        let row = client.query_one(sql, &[]).await.unwrap();
        let kinds: Vec<Type> = row.columns().iter().map(|column| column.type_().clone()).collect();
        assert_eq!(kinds, [Type::JSON, Type::JSON, Type::TEXT, Type::JSON_ARRAY]);
        assert_eq!(row.get::<_, RawValue>(0), document);
        assert_eq!(row.get::<_, RawValue>(1), RawValue(b"[1]".to_vec()));
    });
}

#[test]
fn floats_are_written_as_postgresql_writes_them() {
    with_client(|client| async move {
        let sql = "SELECT 3::DOUBLE AS a, 'inf'::DOUBLE AS b, '-inf'::REAL AS c, 'NaN'::DOUBLE AS d, 0.1::DOUBLE AS e";
        let messages = client.simple_query(sql).await.unwrap();
        let SimpleQueryMessage::Row(row) = &messages[1] else { panic!("{messages:?}") };
        let texts: Vec<_> = (0..5).map(|column| row.get(column).unwrap()).collect();
        assert_eq!(texts, ["3", "Infinity", "-Infinity", "NaN", "0.1"]);
    });
}

#[test]
fn a_value_that_is_damaged_is_refused() {
    with_client(|client| async move {
        for (kind, hex) in [
            ("INTEGER", "0000"),
            ("DATE", "80000000"),
            ("TIME", "7fffffffffffffff"),
            ("DECIMAL(10, 2)", "000100000000"),
            ("DECIMAL(10, 2)", "0001000000000000ffff"),
            ("UUID", "00"),
            ("TEXT", "ff"),
            ("INTEGER[]", "0000000100000001000000177fffffff00000001"),
        ] {
            let statement = client.prepare(&format!("SELECT CAST($1 AS {kind}) AS v")).await.unwrap();
            let refused = client.query(&statement, &[&RawValue(bytes(hex))]).await;
            let error = refused.expect_err(kind);
            assert!(error.code().is_some_and(|code| code.code().starts_with("22")), "{kind}: {error:?}");
        }
    });
}
