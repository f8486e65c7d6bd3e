//! Tests of the reader over a file that SQLite itself has written.

#![allow(clippy::unwrap_used)]

use arrow::util::display::array_value_to_string;

use super::*;

/// The rows of a table, a line each.
fn read(file: &SqliteFile, table: &str) -> Result<String> {
    let table = file.require_table(table)?;
    let columns: Vec<usize> = (0..table.schema().fields().len()).collect();
    let source = table.open(&columns, &[], 2, 1, &Cancel::new())?;
    let mut lines = String::new();
    for batch in source.worker() {
        let batch = batch?;
        for row in 0..batch.num_rows() {
            let cells = batch.columns().iter().map(|column| array_value_to_string(column, row).unwrap());
            lines += &format!("{}\n", cells.collect::<Vec<_>>().join("|"));
        }
    }
    Ok(lines)
}

#[test]
fn values_are_converted_to_the_type_of_their_column() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.db");
    let connection = Connection::open(&path).unwrap();
    connection
        .execute_batch(
            "CREATE TABLE T (a INTEGER, b TEXT, c REAL, d DATE, e TIMESTAMP, f BOOLEAN, g);
             INSERT INTO T VALUES (1, 'x', 2, '2024-02-29', '2024-02-29 12:00:01.5', 1, 2.0),
                 (NULL, 5, NULL, 86400, 1, 0, 'z');
             CREATE TABLE bad (a INTEGER); INSERT INTO bad VALUES (1), ('x');
             CREATE TABLE none (a INTEGER)",
        )
        .unwrap();
    let file = SqliteFile::open(path.to_str().unwrap(), false, &FileFolders::default()).unwrap();
    assert_eq!(file.table_names().unwrap(), ["T", "bad", "none"]);
    let rows = read(&file, "t").unwrap();
    assert_eq!(
        rows,
        "1|x|2.0|2024-02-29|2024-02-29T12:00:01.500|true|2.0\n|5||1970-01-02|1970-01-01T00:00:01|false|z\n"
    );
    let error = read(&file, "bad").unwrap_err();
    assert_eq!(error.message(), "column a of bad: 'x' is not a value of type BIGINT");
    let text = SqliteFile::open(path.to_str().unwrap(), true, &FileFolders::default()).unwrap();
    assert_eq!(read(&text, "bad").unwrap(), "1\nx\n");
    read(&file, "none").unwrap();
    let error = read(&file, "noone").unwrap_err();
    assert_eq!(error.hint_text(), Some("did you mean none?"));
}

#[test]
fn a_file_that_is_no_database_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.db");
    std::fs::write(&path, "not a database, but long enough to be looked at as one by the library").unwrap();
    let error = SqliteFile::open(path.to_str().unwrap(), false, &FileFolders::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadFileFormat, "{error}");
    let error = SqliteFile::open("/nowhere.db", false, &FileFolders::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UndefinedFile);
    let none = FileFolders::only(&[]).unwrap();
    assert_eq!(
        SqliteFile::open(path.to_str().unwrap(), false, &none).unwrap_err().kind(),
        ErrorKind::InsufficientPrivilege
    );
}
