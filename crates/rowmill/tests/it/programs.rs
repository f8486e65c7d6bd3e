//! Prepared statements on keyed tables: the functions of programs that have no counterpart in SQL text.

use rowmill::{Connection, Database, ErrorKind, Param, Result, Value};

fn stock() -> Result<(Database, Connection)> {
    let database = Database::memory()?;
    let mut connection = database.connect()?;
    connection
        .execute_batch("CREATE TABLE stock (item INTEGER PRIMARY KEY, name TEXT, price DECIMAL(9, 2), at TIMESTAMP)")?;
    Ok((database, connection))
}

#[test]
fn answers_are_read_in_place() -> Result<()> {
    let (_database, mut connection) = stock()?;
    let insert = connection.prepare("INSERT INTO stock VALUES (?, ?, ?, ?)")?;
    let row = [Param::Integer(1), Param::Text("bolt"), Param::Decimal(250, 2), Param::Timestamp(1_000_000)];
    assert_eq!(insert.ask(&mut connection, &row)?.changed(), 1);
    let nulls = [Param::Integer(2), Param::Null, Param::Null, Param::Null];
    assert_eq!(insert.ask(&mut connection, &nulls)?.changed(), 1);

    let find = connection.prepare("SELECT name, price, at, price * 2 FROM stock WHERE item = ?")?;
    let answer = find.ask(&mut connection, &[Param::Integer(1)])?;
    assert_eq!((answer.len(), answer.text(0, 0)?, answer.decimal(0, 1)?), (1, "bolt", 250));
    assert_eq!((answer.integer(0, 2)?, answer.decimal(0, 3)?), (1_000_000, 500));
    assert_eq!(answer.integer(0, 0).unwrap_err().kind(), ErrorKind::DatatypeMismatch);
    assert_eq!(answer.text(1, 0).unwrap_err().kind(), ErrorKind::UndefinedColumn);
    assert!(find.ask(&mut connection, &[Param::Integer(2)])?.is_null(0, 1)?);
    assert!(find.ask(&mut connection, &[Param::Integer(3)])?.is_empty());
    // No item can have this value.
    assert!(find.ask(&mut connection, &[Param::Double(1.5)])?.is_empty());
    assert!(find.ask(&mut connection, &[Param::Null])?.is_empty());
    let error = find.ask(&mut connection, &[]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CardinalityViolation);
    Ok(())
}

#[test]
fn statements_without_a_program_answer_too() -> Result<()> {
    let (_database, mut connection) = stock()?;
    let sum = connection.prepare("SELECT name, SUM(price) AS s FROM stock GROUP BY name ORDER BY name")?;
    assert_eq!(sum.ask(&mut connection, &[])?.len(), 0);
    connection.execute_batch("INSERT INTO stock VALUES (1, 'a', 1.5, NULL), (2, 'a', 2, NULL), (3, 'b', 1, NULL)")?;
    let answer = sum.ask(&mut connection, &[])?;
    assert_eq!((answer.len(), answer.text(1, 0)?, answer.decimal(0, 1)?), (2, "b", 350));
    Ok(())
}

#[test]
fn a_program_with_too_many_rows_falls_back_to_the_engine() -> Result<()> {
    let (_database, mut connection) = stock()?;
    let many = "INSERT INTO stock SELECT value, repeat('x', 1000), 1, NULL FROM generate_series(1, 80000)";
    assert_eq!(connection.execute_batch(many)?, 80_000);
    let all = connection.prepare("SELECT item, name FROM stock WHERE item > ?")?;
    let rows: usize = all.query(&mut connection, &[Value::Integer(0)])?.batches()?.iter().map(|b| b.num_rows()).sum();
    assert_eq!(rows, 80_000);
    let change = connection.prepare("UPDATE stock SET name = name || 'y' WHERE item > ?")?;
    assert_eq!(change.execute(&mut connection, &[Value::Integer(0)])?, 80_000);
    Ok(())
}

#[test]
fn programs_obey_transactions() -> Result<()> {
    let (database, mut connection) = stock()?;
    let insert = connection.prepare("INSERT INTO stock VALUES (?, 'x', 1, NULL)")?;
    let price = connection.prepare("UPDATE stock SET price = price + 1 WHERE item = ?")?;
    insert.ask(&mut connection, &[Param::Integer(1)])?;

    connection.begin(true)?;
    let error = price.ask(&mut connection, &[Param::Integer(1)]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnly);
    connection.commit()?;

    let mut other = database.connect()?;
    connection.begin(false)?;
    other.begin(false)?;
    price.ask(&mut connection, &[Param::Integer(1)])?;
    price.ask(&mut other, &[Param::Integer(1)])?;
    connection.commit()?;
    let error = other.commit().unwrap_err();
    assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::SerializationFailure, "40001"));
    price.ask(&mut other, &[Param::Integer(1)])?;
    let rows = other.query("SELECT price FROM stock")?.rows()?;
    assert_eq!(rows[0].get::<String>(0)?, "3.00");

    let error = insert.ask(&mut connection, &[Param::Integer(1)]).unwrap_err();
    assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::UniqueViolation, "23505"));
    Ok(())
}

/// When the definitions from which a program was made change, the program must be made again.
#[test]
fn programs_follow_definitions() -> Result<()> {
    let (database, mut connection) = stock()?;
    connection.execute_batch("INSERT INTO stock VALUES (1, 'a', 1, NULL)")?;
    let all = connection.prepare("SELECT * FROM stock WHERE item = ?")?;
    let columns = |connection: &mut Connection| -> Result<usize> {
        Ok(all.query(connection, &[Value::Integer(1)])?.batches()?[0].num_columns())
    };
    assert_eq!(columns(&mut connection)?, 4);
    let mut other = database.connect()?;
    other.execute_batch("ALTER TABLE stock ADD COLUMN more INTEGER DEFAULT 5")?;
    assert_eq!(columns(&mut connection)?, 5);
    other.execute_batch(
        "DROP TABLE stock; CREATE TABLE stock (item BIGINT PRIMARY KEY); INSERT INTO stock VALUES (1)",
    )?;
    assert_eq!(columns(&mut connection)?, 1);
    other.execute_batch("DROP TABLE stock")?;
    let error = all.ask(&mut connection, &[Param::Integer(1)]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UndefinedTable);
    Ok(())
}

#[test]
fn a_program_reads_the_clock_in_each_run() -> Result<()> {
    let database = Database::memory()?;
    let mut connection = database.connect()?;
    connection.execute_batch(
        "CREATE TABLE visits (id INTEGER PRIMARY KEY, at TIMESTAMPTZ DEFAULT now(), local TIMESTAMP, day DATE);
         CREATE TABLE history (id INTEGER, at TIMESTAMPTZ)",
    )?;
    let visit = connection.prepare("INSERT INTO visits (id, local, day) VALUES (?, localtimestamp, current_date)")?;
    let event = connection.prepare("INSERT INTO history VALUES (?, CURRENT_TIMESTAMP)")?;
    let touch = connection.prepare("UPDATE visits SET at = now() WHERE id = ? AND at < now()")?;
    let until_now = connection.prepare("SELECT id FROM visits WHERE at <= now() AND id < ?")?;
    let pause = || std::thread::sleep(std::time::Duration::from_millis(2));
    for id in 0..3 {
        visit.ask(&mut connection, &[Param::Integer(id)])?;
        event.ask(&mut connection, &[Param::Integer(id)])?;
        pause();
    }
    let instants = |connection: &mut Connection, table: &str| -> Result<i64> {
        let rows = connection.query(&format!("SELECT count(DISTINCT at) FROM {table}"))?.rows()?;
        rows[0].get(0)
    };
    assert_eq!((instants(&mut connection, "visits")?, instants(&mut connection, "history")?), (3, 3));
    let agree = "SELECT count(*) FROM visits
                 WHERE at = local::timestamptz AND day = local::date
                 AND at BETWEEN now() - INTERVAL '1 hour' AND now()";
    assert_eq!(connection.query(agree)?.rows()?[0].get::<i64>(0)?, 3);
    assert_eq!(until_now.ask(&mut connection, &[Param::Integer(9)])?.len(), 3);

    // All statements of a transaction have one time, that of its begin.
    let mut transaction = connection.transaction()?;
    for id in 0..3 {
        pause();
        assert_eq!(touch.ask(&mut transaction, &[Param::Integer(id)])?.changed(), 1);
        event.ask(&mut transaction, &[Param::Integer(id)])?;
    }
    // The rows have the time of the transaction now, which is not before itself.
    assert_eq!(touch.ask(&mut transaction, &[Param::Integer(0)])?.changed(), 0);
    transaction.commit()?;
    assert_eq!((instants(&mut connection, "visits")?, instants(&mut connection, "history")?), (1, 4));
    Ok(())
}
