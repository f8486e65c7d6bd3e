//! Damaged column files must give an error that names the place, never a wrong answer, and the other tables must stay
//! usable.

use std::path::{Path, PathBuf};

use rowmill::arrow::array::RecordBatch;
use rowmill::{Database, ErrorKind, Options};

fn make(path: &Path) {
    let database =
        Database::open_with(path, Options::new().set("rows_per_block", "700").expect("valid")).expect("opens");
    let mut connection = database.connect().expect("connects");
    connection
        .execute_batch(
            "CREATE TABLE facts (n BIGINT, small SMALLINT, word TEXT, amount DECIMAL(12,2), ratio DOUBLE, flag BOOLEAN);
             INSERT INTO facts SELECT value, value % 7, 'word number ' || (value % 300), value * 1.25, value / 3.0,
                    CASE WHEN value % 5 = 0 THEN NULL ELSE value % 2 = 0 END FROM generate_series(1, 1400);
             CREATE TABLE other (x INTEGER);
             INSERT INTO other SELECT value FROM generate_series(1, 700)",
        )
        .expect("filled");
}

fn column_files(path: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(path.join("tables/0"))
        .expect("the first table's folder")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    files
}

const SUM: &str = "SELECT count(n), sum(n), sum(small), min(word), max(word), count(distinct word), sum(amount), \
    sum(ratio), \
                   count(flag), sum(CASE WHEN flag THEN 1 ELSE 0 END) FROM facts";

fn answer(path: &Path, sql: &str) -> rowmill::Result<String> {
    let database = Database::open_with(path, Options::new().read_only(true))?;
    let rows = database.connect()?.query(sql)?.batches()?;
    Ok(shown(&rows))
}

/// Returns the values of all rows as text, one line per row.
fn shown(batches: &[RecordBatch]) -> String {
    let mut text = String::new();
    for batch in batches {
        for row in 0..batch.num_rows() {
            for column in batch.columns() {
                let value = rowmill::text::format_value(column, row).expect("printable");
                text.push_str(&value.unwrap_or_else(|| "NULL".into()));
                text.push(' ');
            }
            text.push('\n');
        }
    }
    text
}

#[test]
fn a_flipped_byte_gives_an_error_that_names_the_place() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    make(folder.path());
    let expected = answer(folder.path(), SUM).expect("undamaged");
    let step = if std::env::var_os("ROWMILL_LONG").is_some() { 1 } else { 97 };
    for file in column_files(folder.path()) {
        let whole = std::fs::read(&file).expect("a column file");
        // A prime step reaches all kinds of fields. With ROWMILL_LONG we damage every byte.
        for at in (0..whole.len()).step_by(step) {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x10;
            std::fs::write(&file, &damaged).expect("damaged");
            let error = answer(folder.path(), SUM).expect_err(&format!("{}: byte {at} is wrong", file.display()));
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
            for part in ["facts", "column", "block", "offset"] {
                assert!(error.message().contains(part), "no {part} in: {error}");
            }
            // Damage of one table must not affect the others.
            assert_eq!(answer(folder.path(), "SELECT sum(x) FROM other").expect("the other table"), answer_of_other());
        }
        std::fs::write(&file, &whole).expect("mended");
    }
    assert_eq!(answer(folder.path(), SUM).expect("mended"), expected);
}

fn answer_of_other() -> String {
    let column = std::sync::Arc::new(rowmill::arrow::array::Int64Array::from(vec![245_350]));
    shown(&[RecordBatch::try_from_iter([("sum(x)", column as _)]).expect("one column")])
}

#[test]
fn a_truncated_file_gives_an_error_that_names_the_place() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    make(folder.path());
    for file in column_files(folder.path()) {
        let whole = std::fs::read(&file).expect("a column file");
        for len in [0, 1, 100, 4096, whole.len() - 1] {
            // The last length must be shorter than the file, because a file of full length is not damaged.
            std::fs::write(&file, &whole[..len.min(whole.len() - 1)]).expect("cut");
            let error = answer(folder.path(), SUM).expect_err(&format!("{}: cut to {len} bytes", file.display()));
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
            assert!(error.message().contains("facts") && error.message().contains("block"), "{error}");
        }
        std::fs::remove_file(&file).expect("removed");
        assert!(answer(folder.path(), SUM).is_err());
        std::fs::write(&file, &whole).expect("mended");
    }
}
