//! A backup: one committed state, copied into a folder while commits go on.
//!
//! ```text
//! checkpoint   the base gets what the log has: a backup needs no log
//! hold         that state, whose blocks keep their extents, and a read of the base, under one lock of checkpoints
//! copy         each column's extents, by their checksums, one behind the other; the base, entry by entry, with the new places of the
//!              extents; commits and checkpoints go on
//! end          the list of all files with their checksums is written and synced, then the mark of a folder that is not finished is removed
//! ```
//!
//! So the folder is a closed database of its own, without a gap in its files, and with a list beside it by which every byte can be
//! compared ([`contents`]). Whatever ends the copy leaves the mark, and such a folder is neither opened nor restored ([`folder`]).
//!
//! A process that only reads has no checkpoints: it copies the base as it is, and makes what the log has behind it to the copy.

mod contents;
mod folder;
mod places;
mod restore;

use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use rowmill_base::{Cancel, CommitId, Error, ErrorKind, Result};
use rowmill_io::{Disk, OpenMode, RealDisk};

use self::contents::Contents;
use self::folder::Folder;
pub(crate) use self::folder::{check_finished, check_no_backup};
use self::places::Places;
pub use self::restore::{Restored, restore, restore_over};
use crate::base::{BaseCopy, BaseRead, Operation, WriteBatch};
use crate::checkpoint;
use crate::column_files::{TABLES, column_path, table_folder};
use crate::engine::Core;
use crate::manifest::{self, BLOCK, BlockEntry, META_KEY, Meta, parse_row_key};
use crate::recovery;
use crate::snapshot::Snapshot;

/// A backup that was made, or found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackedUp {
    /// The last commit that it has.
    pub commit: CommitId,
    /// When it was begun.
    pub made: SystemTime,
    /// Its files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What is copied.
struct Source {
    /// Of the base: keeps what it names, in every process.
    read: Box<dyn BaseRead>,
    /// What the backup will have. Keeps its blocks.
    state: Arc<Snapshot>,
    /// What the state has and the read has not.
    later: WriteBatch,
}

impl Core {
    /// Copies the last committed state into the folder `to`, which is not there or empty. Commits go on meanwhile; those that are
    /// acknowledged after this began may be missing from it.
    ///
    /// An error leaves nothing in the folder. Damage that a checksum shows is one: what is copied is what was written.
    pub fn backup(&self, to: &Path, cancel: &Cancel) -> Result<BackedUp> {
        self.backup_over(to, &RealDisk::new(to), cancel)
    }

    /// The same, with all files but the base's through `disk`, which has `to` as its directory: for tests of faults.
    pub fn backup_over(&self, to: &Path, disk: &dyn Disk, cancel: &Cancel) -> Result<BackedUp> {
        let made = SystemTime::now();
        if let Some(own) = self.path() {
            folder::check_apart(own, to, "back up")?;
        }
        let folder = Folder::begin(to, disk, "a backup")?;
        let source = self.source()?;
        let contents = Copying { engine: self, source: &source, folder: &folder, cancel }.run(made)?;
        let backed_up = contents.backed_up();
        contents.write(disk)?;
        folder.finish()?;
        Ok(backed_up)
    }

    fn source(&self) -> Result<Source> {
        if self.is_read_only() {
            return self.followed_source();
        }
        let mut stored = self.stored().hold();
        // Of a database without a log, none is made.
        checkpoint::checkpoint_of(self, &mut stored)?;
        let (read, before) = (self.base().read()?, Arc::clone(&stored));
        // Checkpoints go on from here: the read has that state, and goes on having it.
        drop(stored);
        if self.journal().log().is_some() {
            return Ok(Source { read, state: before, later: WriteBatch::default() });
        }
        let state = self.latest();
        let mut later = checkpoint::difference(&before, &state)?;
        later.put(META_KEY.to_vec(), self.ids().meta().encode());
        Ok(Source { read, state, later })
    }

    /// The base may have a later state than the snapshot, but never one of which something was given back.
    fn followed_source(&self) -> Result<Source> {
        let state = self.snapshot()?;
        let read = self.base().read()?;
        let (in_base, meta) = recovery::load(&*read, self.files(), self.freed(), Some(&state))?;
        if in_base.commit >= state.commit {
            return Ok(Source { read, state: Arc::new(in_base), later: WriteBatch::default() });
        }
        let mut later = checkpoint::difference(&in_base, &state)?;
        later.put(META_KEY.to_vec(), raised(meta, &state).encode());
        later.put(manifest::LOG_POSITION_KEY.to_vec(), manifest::encode_position(state.log_end));
        Ok(Source { read, state, later })
    }
}

/// `meta` behind all ids that `state` names. What was given out since and is not named any more may be given out again.
fn raised(mut meta: Meta, state: &Snapshot) -> Meta {
    let catalog = &state.catalog;
    for schema in catalog.schemas() {
        meta.next_schema.0 = meta.next_schema.0.max(schema.id.0 + 1);
    }
    for view in catalog.all_views() {
        meta.next_view.0 = meta.next_view.0.max(view.id.0 + 1);
    }
    for table in catalog.all_tables() {
        meta.next_table.0 = meta.next_table.0.max(table.id.0 + 1);
        for index in table.keyed.iter().flat_map(|keyed| keyed.index_ids()) {
            meta.next_index.0 = meta.next_index.0.max(index.0 + 1);
        }
    }
    for block in state.tables.values().flat_map(|table| table.blocks.iter()) {
        meta.next_block.0 = meta.next_block.0.max(block.id().0 + 1);
    }
    meta
}

/// A copy that is being made.
struct Copying<'a> {
    engine: &'a Core,
    source: &'a Source,
    folder: &'a Folder<'a>,
    cancel: &'a Cancel,
}

impl Copying<'_> {
    fn run(&self, made: SystemTime) -> Result<Contents> {
        let mut contents = Contents::new(self.source.state.commit, made);
        let places = Places::of(&self.source.state);
        // The base first: it is the shorter one, and its read is the one that holds back others.
        let names = self.base(&places)?;
        for name in names {
            contents.push(contents::sums_of(self.folder.disk(), &name, self.cancel)?);
        }
        self.columns(&places, &mut contents)?;
        Ok(contents)
    }

    fn base(&self, places: &Places) -> Result<Vec<String>> {
        let Source { read, state, later } = self.source;
        let mut copy: Box<dyn BaseCopy> = self.engine.base().begin_copy(self.folder.path())?;
        let mut entries = 0_u64;
        read.scan(&[], &mut |key, value| {
            entries += 1;
            if entries.is_multiple_of(ENTRIES_PER_LOOK) {
                self.cancel.check()?;
            }
            match moved(places, key, value)? {
                Moved::Same => copy.put(key, value)?,
                Moved::Elsewhere(value) => copy.put(key, &value)?,
                Moved::Gone => {}
            }
            Ok(true)
        })?;
        let mut moved_later = WriteBatch::default();
        for operation in later.operations() {
            match operation {
                Operation::Put { key, value } => match moved(places, key, value)? {
                    Moved::Same => moved_later.set_row(key, Some(value)),
                    Moved::Elsewhere(value) => moved_later.set_row(key, Some(&value)),
                    Moved::Gone => moved_later.delete(key),
                },
                Operation::Delete { key } => moved_later.delete(key),
                Operation::DeletePrefix { prefix } => moved_later.delete_prefix(prefix),
            }
        }
        copy.finish(&moved_later, state.commit)
    }

    fn columns(&self, places: &Places, contents: &mut Contents) -> Result<()> {
        let (disk, state) = (self.folder.disk(), &self.source.state);
        disk.create_dir(TABLES)?;
        for ((table, column), pieces) in places.files() {
            let def = state.catalog.table_by_id(*table);
            let def = def.ok_or_else(|| Error::internal(format!("rows of a table {table} without a definition")))?;
            disk.create_dir(&table_folder(*table))?;
            let path = column_path(*table, *column);
            let file = disk.open(&path, OpenMode::Create)?;
            let mut writing = contents::Writing::new(path, file);
            for piece in pieces {
                self.cancel.check()?;
                let chunk = &piece.block.chunks()[piece.chunk];
                piece.block.with_verified_bytes(def, chunk, |bytes| writing.write(bytes))?;
            }
            contents.push(writing.finish()?);
        }
        let folders = places.files().keys().map(|(table, _)| table_folder(*table));
        folders.collect::<std::collections::BTreeSet<_>>().iter().try_for_each(|folder| disk.sync_dir(folder))?;
        disk.sync_dir(TABLES)
    }
}

/// Entries of the base between two looks at whether it is to go on.
const ENTRIES_PER_LOOK: u64 = 1 << 12;

/// What becomes of an entry of the base.
enum Moved {
    Same,
    Elsewhere(Vec<u8>),
    Gone,
}

/// Entries of blocks name extents, which lie elsewhere in the copy. A block that the state does not have is left out.
fn moved(places: &Places, key: &[u8], value: &[u8]) -> Result<Moved> {
    if key.first() != Some(&BLOCK) {
        return Ok(Moved::Same);
    }
    let (table, first_row) = parse_row_key(key)?;
    let mut entry = BlockEntry::decode(first_row, value)?;
    if !places.has(entry.id) {
        return Ok(Moved::Gone);
    }
    // Chunks of dropped columns are in the entries, and nowhere else.
    let to = |(column, extent)| Some((column, places.place(table, column, extent)?));
    entry.chunks = entry.chunks.into_iter().filter_map(to).collect();
    Ok(Moved::Elsewhere(entry.encode()))
}

/// The backup in the folder `path`: its list, which says nothing yet about whether the files are there.
pub fn backup_at(path: &Path) -> Result<BackedUp> {
    check_finished(path)?;
    let disk = RealDisk::new(path);
    match Contents::read(&disk)? {
        Some(contents) => Ok(contents.backed_up()),
        None => Err(no_backup(path)),
    }
}

fn no_backup(path: &Path) -> Error {
    let message = format!("there is no backup in {}: it has no file {}", path.display(), contents::NAME);
    Error::new(ErrorKind::UndefinedFile, message).hint("name a folder that a backup was written to")
}
