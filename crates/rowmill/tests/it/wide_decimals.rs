//! Decimals of more than 38 digits: values in, by every way of the library, and out.

use rowmill::{Database, Param, Value};

#[test]
fn values_of_76_digits_come_back_by_every_way() {
    let database = Database::memory().expect("opens");
    let mut connection = database.connect().expect("connects");
    connection
        .execute_batch(
            "CREATE TABLE keyed (v DECIMAL(76,1) PRIMARY KEY, n BIGINT); CREATE TABLE t (v DECIMAL(76,1), n BIGINT)",
        )
        .expect("created");
    let nines = format!("{}.9", "9".repeat(75));
    let texts = [format!("-{nines}"), "-0.1".to_owned(), "0.0".to_owned(), "2.5".to_owned(), nines];

    // Parameters and the appender take texts. Parameters also take decimals of up to 38 digits.
    let insert = connection.prepare("INSERT INTO keyed VALUES ($1, $2)").expect("prepared");
    for (n, text) in texts.iter().enumerate() {
        insert.execute(&mut connection, (text, n)).expect("inserted");
    }
    let mut appender = connection.appender("t").expect("an appender");
    for (n, text) in texts.iter().enumerate() {
        appender.row(&[Value::Text(text.clone()), Value::Integer(n as i64)]).expect("appended");
    }
    appender.finish().expect("committed");
    let find = connection.prepare("SELECT v, n FROM keyed WHERE v = $1").expect("prepared");
    let answer = find.ask(&mut connection, &[Param::Decimal(25, 1)]).expect("an answer");
    assert_eq!((answer.len(), answer.integer(0, 1).expect("a number")), (1, 3));
    for (n, text) in texts.iter().enumerate() {
        let answer = find.ask(&mut connection, &[Param::Text(text)]).expect("an answer");
        assert_eq!((answer.len(), answer.integer(0, 1).expect("a number")), (1, n as i64), "{text}");
        let unscaled = answer.wide_decimal(0, 0).expect("a decimal");
        assert_eq!(unscaled.to_string(), text.replace('.', "").replace("-01", "-1").replace("00", "0"));
        assert!(answer.decimal(0, 0).is_err() && answer.blob(0, 0).is_err());
    }
    for table in ["keyed", "t"] {
        let rows = connection.query(&format!("SELECT v FROM {table} ORDER BY v")).and_then(|rows| rows.rows());
        let found: Vec<String> = rows.expect("rows").iter().map(|row| row.get(0).expect("a text")).collect();
        assert_eq!(found, texts, "{table}");
    }
    let error = insert.execute(&mut connection, ("1e76", 9)).expect_err("too large");
    assert_eq!(error.sqlstate(), "22003", "{error}");
}
