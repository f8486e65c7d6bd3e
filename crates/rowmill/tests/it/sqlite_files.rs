//! Files of SQLite, written by SQLite itself and read with ATTACH and `sqlite_scan`.

use rowmill::{Connection, Database, ErrorKind, Result};

/// A file with two tables, a view and values that do not fit their declared types.
fn written(folder: &std::path::Path) -> String {
    let path = folder.join("old.db");
    let sqlite = rusqlite::Connection::open(&path).expect("opened");
    let sql = "CREATE TABLE Stock (item TEXT PRIMARY KEY, pieces INTEGER, price DECIMAL(6, 2), sold DATE);
               INSERT INTO Stock VALUES ('cup', 3, 2.5, '2026-01-02'), ('pot', NULL, 10, NULL),
                   ('pan', 7, 3, '2026-03-04');
               CREATE TABLE mixed (a INTEGER);
               INSERT INTO mixed VALUES (1), ('two');
               CREATE VIEW dear AS SELECT item FROM Stock WHERE price > 2.75;
               CREATE TABLE many (n INTEGER, text TEXT);
               WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 50000)
               INSERT INTO many SELECT n, 'row ' || n FROM r";
    sqlite.execute_batch(sql).expect("written");
    path.display().to_string()
}

fn texts(connection: &mut Connection, sql: &str) -> Result<Vec<String>> {
    connection.query(sql)?.rows()?.iter().map(|row| row.get(0)).collect()
}

#[test]
fn tables_and_views_of_an_attached_file_are_read_like_others() -> Result<()> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = written(folder.path());
    let mut connection = Database::memory()?.connect()?;
    connection.execute_batch(&format!("ATTACH '{path}' AS old (TYPE sqlite)"))?;
    let kinds =
        "SELECT concat_ws(' ', typeof(item), typeof(pieces), typeof(price), typeof(sold)) FROM old.stock LIMIT 1";
    assert_eq!(texts(&mut connection, kinds)?, ["TEXT BIGINT DOUBLE DATE"]);
    let sql = "SELECT item || ' ' || coalesce(pieces, 0) || ' ' || price FROM old.main.stock ORDER BY item";
    assert_eq!(texts(&mut connection, sql)?, ["cup 3 2.5", "pan 7 3.0", "pot 0 10.0"]);
    assert_eq!(texts(&mut connection, "SELECT item FROM old.dear ORDER BY 1")?, ["pan", "pot"]);
    connection.execute_batch("CREATE TABLE own (item TEXT PRIMARY KEY); INSERT INTO own SELECT item FROM old.stock")?;
    let joined = "SELECT s.item FROM own JOIN old.stock AS s ON s.item = own.item WHERE pieces > 3";
    assert_eq!(texts(&mut connection, joined)?, ["pan"]);
    let many = "SELECT count(*) || ' ' || sum(n) || ' ' || max(length(text)) FROM old.many";
    assert_eq!(texts(&mut connection, many)?, ["50000 1250025000 9"]);
    // A query that ends early ends the reader, too.
    assert_eq!(texts(&mut connection, "SELECT text FROM old.many LIMIT 1")?, ["row 1"]);
    Ok(())
}

#[test]
fn errors_of_attached_files_say_what_helps() -> Result<()> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = written(folder.path());
    let mut connection = Database::memory()?.connect()?;
    let error = connection.execute_batch(&format!("ATTACH '{path}' AS old")).expect_err("a type is needed");
    assert!(error.to_string().contains("TYPE sqlite"), "{error}");
    connection.execute_batch(&format!("ATTACH '{path}' AS old (TYPE sqlite)"))?;
    for sql in ["INSERT INTO old.stock VALUES ('x', 1, 1, NULL)", "CREATE TABLE old.t (a INTEGER)", "USE old"] {
        assert_eq!(connection.execute_batch(sql).expect_err(sql).kind(), ErrorKind::ReadOnly, "{sql}");
    }
    let error = texts(&mut connection, "SELECT a::TEXT FROM old.mixed").expect_err("a text is no number");
    assert_eq!(error.kind(), ErrorKind::InvalidText);
    assert!(error.to_string().contains("column a of mixed: 'two' is not a value of type BIGINT"), "{error}");
    assert_eq!(texts(&mut connection, "SELECT a FROM old.nothing").unwrap_err().kind(), ErrorKind::UndefinedTable);
    connection.execute_batch(&format!("ATTACH '{path}' AS words (TYPE sqlite, all_text)"))?;
    assert_eq!(texts(&mut connection, "SELECT a FROM words.mixed ORDER BY a")?, ["1", "two"]);
    connection.execute_batch("DETACH old; DETACH words")?;
    let error = connection.execute_batch("ATTACH '/nowhere.db' AS x (TYPE sqlite)").expect_err("no file");
    assert_eq!(error.kind(), ErrorKind::UndefinedFile);
    Ok(())
}

#[test]
fn a_table_function_reads_one_table() -> Result<()> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = written(folder.path());
    let mut connection = Database::memory()?.connect()?;
    let sql = format!("SELECT item FROM sqlite_scan('{path}', 'stock') WHERE pieces > 3");
    assert_eq!(texts(&mut connection, &sql)?, ["pan"]);
    assert_eq!(texts(&mut connection, &format!("SELECT a FROM sqlite_scan('{path}', 'mixed', true)"))?, ["1", "two"]);
    let error = texts(&mut connection, &format!("SELECT * FROM sqlite_scan('{path}', 'stok')")).expect_err("no table");
    assert!(error.to_string().contains("did you mean Stock?"), "{error}");
    let error = texts(&mut connection, "SELECT * FROM sqlite_scan('x.db')").expect_err("one argument");
    assert_eq!(error.kind(), ErrorKind::UndefinedFunction);
    Ok(())
}
