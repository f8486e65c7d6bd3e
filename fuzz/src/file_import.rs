//! Files from elsewhere: CSV, JSON, Parquet and Arrow.

use std::cell::RefCell;

use rowmill::Connection;
use tempfile::TempDir;

/// A function that reads a file of each format, and the ending of its name.
const FORMATS: [(&str, &str); 4] =
    [("read_csv", "csv"), ("read_json", "json"), ("read_parquet", "parquet"), ("read_arrow", "arrow")];

thread_local! {
    static READING: RefCell<(Connection, TempDir)> =
        RefCell::new((crate::connection(), TempDir::new().expect("a folder")));
}

/// Reads the bytes after the first as a file of the format that the first names, and counts its rows.
pub fn run(data: &[u8]) {
    let Some((first, file)) = data.split_first() else { return };
    let (function, ending) = FORMATS[usize::from(*first) % FORMATS.len()];
    READING.with_borrow_mut(|(connection, folder)| {
        let path = folder.path().join(format!("input.{ending}"));
        std::fs::write(&path, file).expect("a file");
        let query = format!("SELECT * FROM {function}('{}')", path.display());
        if let Ok(rows) = connection.query(&query) {
            rows.take_while(Result::is_ok).for_each(drop);
        }
    });
}
