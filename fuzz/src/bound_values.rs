//! Values for parameters: each statement casts, compares, stores or computes with them.

use std::cell::RefCell;

use rowmill::{Connection, Statement, Value};

const STATEMENTS: [&str; 9] = [
    "SELECT name FROM users WHERE id = ?",
    "SELECT id FROM users WHERE name LIKE ? ORDER BY id LIMIT 3",
    "SELECT count(*) FROM users WHERE born BETWEEN ? AND ?",
    "SELECT CAST(? AS TIMESTAMP), CAST(? AS DECIMAL(10, 2)), CAST(? AS INTERVAL)",
    "SELECT sum(price * ?) FROM hits WHERE at >= ? OR url = ?",
    "INSERT INTO users VALUES (?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET name = excluded.name",
    "UPDATE users SET balance = balance + ? WHERE name = ?",
    "SELECT substring(? FROM ? FOR ?), upper(?), length(?)",
    "SELECT * FROM hits ORDER BY id LIMIT ? OFFSET ?",
];

thread_local! {
    static PREPARED: RefCell<(Connection, Vec<Statement>)> = RefCell::new({
        let mut connection = crate::connection();
        let statements = STATEMENTS.iter().map(|text| connection.prepare(text).expect("a statement")).collect();
        (connection, statements)
    });
}

/// Runs the statement that the first byte names with values made of the rest. Changes are rolled back.
pub fn run(data: &[u8]) {
    let Some((first, mut rest)) = data.split_first() else { return };
    PREPARED.with_borrow_mut(|(connection, statements)| {
        let statement = &statements[usize::from(*first) % statements.len()];
        let values: Vec<Value> = (0..statement.parameter_count()).map(|_| value(&mut rest)).collect();
        if connection.begin(false).is_ok() {
            let _ = statement.run(connection, &values).map(drop);
            connection.rollback().expect("a transaction ends");
        }
    });
}

/// Takes a value: a byte for its type, a byte for its length, and its bytes.
fn value(data: &mut &[u8]) -> Value {
    let mut take = |len: usize| {
        let (taken, rest) = data.split_at(len.min(data.len()));
        *data = rest;
        taken
    };
    let kind = take(1).first().copied().unwrap_or_default();
    let number = |bytes: &[u8]| bytes.iter().fold(0, |number: i64, byte| number << 8 | i64::from(*byte));
    match kind % 6 {
        0 => Value::Null,
        1 => Value::Boolean(kind > 128),
        2 => Value::Integer(number(take(8))),
        3 => Value::Double(f64::from_bits(number(take(8)) as u64)),
        4 => {
            let len = take(1).first().copied().unwrap_or_default();
            Value::Text(String::from_utf8_lossy(take(len.into())).into_owned())
        }
        _ => {
            let len = take(1).first().copied().unwrap_or_default();
            Value::Blob(take(len.into()).to_vec())
        }
    }
}
