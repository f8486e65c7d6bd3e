//! Every type whose values are numbers with a text form of its own: values in, by every way of the library, and out.

use std::fmt::Write;

use rowmill::{Connection, Database, Param, Value};
use rowmill_base::{NUMBERED_TYPES, NumberedType, UnsignedNumber};

/// The least values and the greatest one, in order, as numbers and texts.
fn samples(kind: &NumberedType) -> Vec<(UnsignedNumber, String)> {
    let mut greatest = [0; 32];
    greatest[32 - kind.bytes..].fill(u8::MAX);
    let greatest = UnsignedNumber::from_be_bytes(greatest);
    let before = UnsignedNumber { low: greatest.low - 1, ..greatest };
    let numbers = [0_u128.into(), 1.into(), 0x1234.into(), before, greatest];
    let text = |number| {
        let mut text = String::new();
        kind.write(number, &mut text);
        text
    };
    numbers.into_iter().map(|number: UnsignedNumber| (number, text(number))).collect()
}

fn texts(connection: &mut Connection, sql: &str) -> Vec<String> {
    let rows = connection.query(sql).and_then(|rows| rows.rows()).expect("an answer");
    rows.iter().map(|row| row.get::<String>(0).expect("a text")).collect()
}

#[test]
fn values_come_back_as_texts_and_numbers() {
    for kind in NUMBERED_TYPES {
        let database = Database::memory().expect("opens");
        let mut connection = database.connect().expect("connects");
        let name = kind.name;
        connection
            .execute_batch(&format!(
                "CREATE TABLE keyed (v {name} PRIMARY KEY, n BIGINT); CREATE TABLE t (v {name}, n BIGINT)"
            ))
            .expect("created");
        let samples = samples(kind);
        let all: Vec<&String> = samples.iter().map(|(_, text)| text).collect();

        // Parameters and the appender take texts.
        let insert = connection.prepare("INSERT INTO keyed VALUES ($1, $2)").expect("prepared");
        for (n, text) in all.iter().enumerate().rev() {
            insert.execute(&mut connection, (text, n)).expect("inserted");
        }
        let mut appender = connection.appender("t").expect("an appender");
        for (n, text) in all.iter().enumerate().rev() {
            appender.row(&[Value::Text((*text).clone()), Value::Integer(n as i64)]).expect("appended");
        }
        assert_eq!(appender.finish().expect("committed"), all.len() as u64);
        for table in ["keyed", "t"] {
            assert_eq!(
                texts(&mut connection, &format!("SELECT v FROM {table} ORDER BY v")).iter().collect::<Vec<_>>(),
                all
            );
        }

        // A result that leaves the engine has texts, also inside of lists.
        let result =
            connection.query("SELECT v, [v] AS list, {'a': v} AS struct FROM t ORDER BY v").expect("an answer");
        let schema = result.schema().clone();
        assert!(!schema.to_string().contains("Decimal"), "{schema}");
        let batches = result.batches().expect("an answer");
        assert!(batches.iter().all(|batch| batch.schema() == schema));
        let mut shown = String::new();
        write!(shown, "[\"{}\"]", all[2]).expect("written");
        let list = rowmill::text::format_value(batches[0].column(1), 2).expect("a text");
        assert_eq!(list.as_deref(), Some(shown.as_str()));

        // Answers in place have numbers.
        let find = connection.prepare("SELECT v, n FROM keyed WHERE v = $1").expect("prepared");
        for (n, (number, text)) in samples.iter().enumerate() {
            let answer = find.ask(&mut connection, &[Param::Text(text)]).expect("an answer");
            assert_eq!(answer.len(), 1, "{text}");
            assert_eq!(answer.wide_number(0, 0).expect("a number"), *number);
            assert_eq!(answer.number(0, 0).is_ok(), !kind.is_wide(), "{text}");
            assert_eq!(answer.integer(0, 1).expect("a number"), n as i64);
            assert!(answer.decimal(0, 0).is_err() && answer.number(0, 1).is_err());
            let batch = answer.to_batch().expect("a batch");
            assert_eq!(rowmill::text::format_value(batch.column(0), 0).expect("a text").as_ref(), Some(text));
        }

        // Every other text is refused, and names the type.
        let error = insert.execute(&mut connection, ("no such value", 0)).expect_err("refused");
        assert!(error.to_string().contains(name), "{error:?}");
        assert_eq!(error.hint_text(), Some(kind.hint));
        let error = find.ask(&mut connection, &[Param::Text("no such value")]).expect_err("refused");
        assert!(error.to_string().contains(name), "{error:?}");
    }
}
