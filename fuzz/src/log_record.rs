//! The payload of a record of the log. Its checksum is right, so that its decoder must find what is wrong.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rowmill::Database;
use rowmill_io::{Disk, RealDisk};
use rowmill_txn::log::{Log, LogOptions, Position};
use tempfile::TempDir;

thread_local! {
    /// A closed database with the tables, and the place of its copies.
    static MADE: RefCell<TempDir> = RefCell::new({
        let folder = TempDir::new().expect("a folder");
        let database = Database::open(folder.path().join("made")).expect("a database");
        let mut connection = database.connect().expect("a connection");
        connection.run(crate::TABLES, |_| Ok(())).expect("the tables");
        folder
    });
}

/// Appends the bytes as a record to the log of a copy of a database, and opens it.
pub fn run(data: &[u8]) {
    MADE.with_borrow(|folder| {
        let copied = folder.path().join("copied");
        let _ = std::fs::remove_dir_all(&copied);
        copy(&folder.path().join("made"), &copied);
        append(&copied.join("log"), data);
        if let Ok(database) = Database::open(&copied) {
            let mut connection = database.connect().expect("a connection");
            for table in ["hits", "users"] {
                let _ = connection.query(&format!("SELECT * FROM {table}")).map(|rows| rows.count());
            }
        }
    });
}

/// Writes a record at the end of the log in `dir`, as a process that ended then would have left it.
fn append(dir: &Path, payload: &[u8]) {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new(dir));
    let options = LogOptions::default();
    let Ok(replayed) = Log::replay(&*disk, options, Position(0), &mut |_| Ok(())) else { return };
    if let Ok(log) = Log::start(&disk, options, replayed)
        && let Ok(end) = log.append(payload)
    {
        let _ = log.sync_to(end);
    }
}

fn copy(from: &Path, to: &PathBuf) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        match entry.file_type().expect("a type").is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(std::fs::copy(entry.path(), &target).expect("a file")),
        }
    }
}
