//! The column files of all tables, and the removal of files that no definition names.
//!
//! ```text
//! tables/5/0.col      a column, by its id, of table 5
//! tables/5/rows.col   the row numbers of those blocks of the table that keep a list of them
//! ```
//!
//! A file is created with the first block of its column and keeps its name as long as the column exists. While the
//! column has no blocks, the file has length zero. We do not remove it, because a process that reads beside the writer
//! has it mapped, and the next block must appear in that mapping. When the column or table is dropped, the file may
//! still have readers. It is removed when no chunk of this process uses it and no other process reads a state that
//! named it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use rowmill_base::{Broker, ColumnId, CommitId, Result, TableId};
use rowmill_io::Disk;
use rowmill_storage::{ColumnFile, Extent, ROW_NUMBERS};

/// The folder of the column files within the database's directory.
pub(crate) const TABLES: &str = "tables";

const ROW_NUMBERS_FILE: &str = "rows.col";
const COLUMN_SUFFIX: &str = ".col";

/// The folder of a table's column files.
pub(crate) fn table_folder(table: TableId) -> String {
    format!("{TABLES}/{table}")
}

/// The file of a column.
pub(crate) fn column_path(table: TableId, column: ColumnId) -> String {
    match column {
        ROW_NUMBERS => format!("{TABLES}/{table}/{ROW_NUMBERS_FILE}"),
        column => format!("{TABLES}/{table}/{column}{COLUMN_SUFFIX}"),
    }
}

/// The column that a file with this name belongs to, or `None` for any other name.
fn column_of(name: &str) -> Option<ColumnId> {
    match name {
        ROW_NUMBERS_FILE => Some(ROW_NUMBERS),
        name => name.strip_suffix(COLUMN_SUFFIX)?.parse().ok().map(ColumnId),
    }
}

/// The column files of all tables.
#[derive(Debug)]
pub(crate) struct ColumnFiles {
    disk: Arc<dyn Disk>,
    memory: Broker,
    files: Mutex<HashMap<(TableId, ColumnId), Arc<ColumnFile>>>,
    /// Files and folders that no definition names, with the first commit that does not name them.
    unnamed: Mutex<BTreeMap<Unnamed, CommitId>>,
}

/// A file or folder that should be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Unnamed {
    /// The folder of a table that was dropped, or never committed.
    Folder(TableId),
    /// The file of a dropped column of an existing table.
    File(TableId, ColumnId),
}

impl Unnamed {
    fn holds(self, table: TableId, column: ColumnId) -> bool {
        match self {
            Unnamed::Folder(folder) => folder == table,
            Unnamed::File(of, file) => (of, file) == (table, column),
        }
    }
}

impl ColumnFiles {
    /// Column files on `disk`, none of them opened yet. `memory` accounts for values decoded from them.
    pub(crate) fn new(disk: Arc<dyn Disk>, memory: Broker) -> Self {
        ColumnFiles { disk, memory, files: Mutex::default(), unnamed: Mutex::default() }
    }

    /// The account of memory.
    pub(crate) fn memory(&self) -> &Broker {
        &self.memory
    }

    /// The file of a column. A file that is opened now has no extents in use.
    pub(crate) fn get(&self, table: TableId, column: ColumnId) -> Result<Arc<ColumnFile>> {
        self.get_or_put(table, column, Vec::new())
    }

    /// The file of a column. A file that is opened now has exactly the extents `named` in use.
    pub(crate) fn get_or_put(&self, table: TableId, column: ColumnId, named: Vec<Extent>) -> Result<Arc<ColumnFile>> {
        let mut files = self.files.lock();
        if let Some(file) = files.get(&(table, column)) {
            return Ok(Arc::clone(file));
        }
        let (disk, memory) = (Arc::clone(&self.disk), self.memory.clone());
        let file = Arc::new(ColumnFile::new(disk, memory, column_path(table, column), named)?);
        files.insert((table, column), Arc::clone(&file));
        Ok(file)
    }

    /// The tables and columns that have a file on disk. Names of other files are ignored.
    pub(crate) fn on_disk(&self) -> Result<Vec<(TableId, Vec<ColumnId>)>> {
        let tables = self.disk.list(TABLES)?;
        let tables = tables.iter().filter_map(|name| name.parse().ok().map(TableId));
        tables
            .map(|table| {
                let names = self.disk.list(&table_folder(table))?;
                Ok((table, names.iter().filter_map(|name| column_of(name)).collect()))
            })
            .collect()
    }

    /// Notes that no commit from `since` on names a file or folder. It is removed as soon as no process can read it.
    pub(crate) fn note_unnamed(&self, what: Unnamed, since: CommitId) {
        let mut unnamed = self.unnamed.lock();
        // A name can be noted twice. The later commit counts, because readers of states before it may need the name.
        let known = unnamed.entry(what).or_insert(since);
        *known = since.max(*known);
    }

    /// Whether anything waits to be removed.
    pub(crate) fn has_unnamed(&self) -> bool {
        !self.unnamed.lock().is_empty()
    }

    /// Names in the table folders that do not belong to a table: they are neither named, nor in use, nor waiting for
    /// removal.
    pub(crate) fn strays(&self, is_named: impl Fn(Unnamed) -> bool) -> Result<Vec<String>> {
        let mut strays = Vec::new();
        for name in self.disk.list(TABLES)? {
            let Some(table) = name.parse().ok().map(TableId).filter(|table| table.to_string() == name) else {
                strays.push(format!("{TABLES}/{name}"));
                continue;
            };
            let folder = table_folder(table);
            // We list the disk before we look at the definitions. A name that was on disk then and is unknown now is
            // certainly stray.
            let names = self.disk.list(&folder)?;
            if !is_named(Unnamed::Folder(table)) && !self.knows(Unnamed::Folder(table)) {
                strays.push(folder);
                continue;
            }
            let is_stray = |name: &String| match column_of(name) {
                // The list of row numbers stays as long as its table.
                Some(ROW_NUMBERS) => false,
                Some(column) => {
                    let file = Unnamed::File(table, column);
                    !is_named(file) && !self.knows(file) && !self.unnamed.lock().contains_key(&Unnamed::Folder(table))
                }
                None => true,
            };
            strays.extend(names.into_iter().filter(is_stray).map(|name| format!("{folder}/{name}")));
        }
        Ok(strays)
    }

    /// Whether this process uses a file or folder, or it waits for removal.
    fn knows(&self, what: Unnamed) -> bool {
        self.files.lock().keys().any(|(table, column)| what.holds(*table, *column))
            || self.unnamed.lock().contains_key(&what)
    }

    /// Removes files and folders that no commit since `since` names, if `may_free` allows it and this process does not
    /// use them. A name that is in use again stays: after a crash, ids that no commit has are given out once more.
    pub(crate) fn remove_unnamed(
        &self,
        may_free: impl Fn(CommitId) -> bool,
        is_named: impl Fn(Unnamed) -> bool,
    ) -> Result<()> {
        let mut outcome = Ok(());
        self.unnamed.lock().retain(|what, since| {
            if is_named(*what) {
                return false;
            }
            if !may_free(*since) {
                return true;
            }
            match self.remove_unused(*what) {
                Ok(removed) => !removed,
                Err(error) => {
                    // We forget it here. The next opening finds it again.
                    outcome = Err(error);
                    false
                }
            }
        });
        outcome
    }

    /// Removes the files of one name. Returns `false` if a chunk, or an extent that waits to be freed, uses one of
    /// them.
    fn remove_unused(&self, what: Unnamed) -> Result<bool> {
        // We hold the lock during the calls, so that no thread is given a file whose name is being removed.
        let mut files = self.files.lock();
        let in_use = |file: &Arc<ColumnFile>| Arc::strong_count(file) > 1;
        if files.iter().any(|((table, column), file)| what.holds(*table, *column) && in_use(file)) {
            return Ok(false);
        }
        files.retain(|(table, column), _| !what.holds(*table, *column));
        match what {
            Unnamed::Folder(table) => self.disk.remove_dir(&table_folder(table))?,
            Unnamed::File(table, column) => self.disk.remove(&column_path(table, column))?,
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rowmill_io::MemoryDisk;

    #[test]
    fn paths_and_columns_convert_both_ways() {
        for column in [ColumnId(0), ColumnId(17), ROW_NUMBERS] {
            let path = column_path(TableId(3), column);
            assert_eq!(path.strip_prefix("tables/3/").and_then(column_of), Some(column));
        }
        assert_eq!((column_of("x.col"), column_of("3"), column_of(".DS_Store")), (None, None, None));
    }

    #[test]
    fn unnamed_files_are_removed_after_their_last_reader() {
        let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
        let files = ColumnFiles::new(Arc::clone(&disk), Broker::new(u64::MAX));
        disk.create_dir(&table_folder(TableId(1))).expect("a folder");
        let held = files.get(TableId(1), ColumnId(0)).expect("a file");
        held.write(vec![1]).expect("written");
        files.note_unnamed(Unnamed::Folder(TableId(1)), CommitId(5));
        files.note_unnamed(Unnamed::Folder(TableId(1)), CommitId(0));
        files.note_unnamed(Unnamed::Folder(TableId(7)), CommitId(0));
        files.remove_unnamed(|_| false, |what| what == Unnamed::Folder(TableId(7))).expect("the folder is named again");
        files.remove_unnamed(|since| since <= CommitId(4), |_| false).expect("no file may be removed yet");
        files.remove_unnamed(|_| true, |_| false).expect("the file is held");
        assert_eq!(files.on_disk().expect("listed"), [(TableId(1), vec![ColumnId(0)])]);
        drop(held);
        files.remove_unnamed(|_| true, |_| false).expect("removed");
        assert_eq!(files.on_disk().expect("listed"), []);
        assert!(!files.has_unnamed());
    }
}
