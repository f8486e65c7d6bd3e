//! A backup: one committed state, copied into a folder while commits go on.
//!
//! ```text
//! checkpoint   brings the base up to the log, so that the backup needs no log
//! hold         keeps that state, whose blocks keep their extents, and a read of the base, under one lock of
//! checkpoints
//! copy         writes the extents of each column one after the other and verifies their checksums; copies the base
//! entry
//!              by entry, with the new places of the extents; commits and checkpoints go on
//! end          writes and syncs the list of all files with their checksums, then removes the mark of an unfinished
//! folder
//! ```
//!
//! So the folder is a closed database of its own, with no gaps in its files. A list beside it makes it possible to
//! verify every byte ([`contents`]). If the copy ends early for any reason, the mark stays, and such a folder is
//! neither opened nor restored ([`folder`]).
//!
//! A process that only reads makes no checkpoints. It copies the base as it is and applies the log's later records to
//! the copy.

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
use self::places::ChunkPlaces;
pub use self::restore::{Restored, restore, restore_over};
use crate::base::{BaseCopy, BaseRead, Operation, WriteBatch};
use crate::checkpoint;
use crate::column_files::{TABLES, column_path, table_folder};
use crate::difference::difference;
use crate::engine::Core;
use crate::manifest::{self, BLOCK, BlockEntry, META_KEY, Meta, parse_row_key};
use crate::recovery;
use crate::snapshot::Snapshot;

/// A backup that was made or found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackedUp {
    /// The last commit in the backup.
    pub commit: CommitId,
    /// The time when it was started.
    pub made: SystemTime,
    /// Number of files.
    pub files: u64,
    /// Total length of the files.
    pub bytes: u64,
}

/// The state that is copied.
struct BackupSource {
    /// A read of the base. It keeps everything that the base names, for all processes.
    read: Box<dyn BaseRead>,
    /// The state that the backup will have. It keeps its blocks.
    state: Arc<Snapshot>,
    /// Changes of the base from the read's state to the backup's state.
    later: WriteBatch,
}

impl Core {
    /// Copies the last committed state into the folder `to`, which must not exist or be empty. Commits go on during the
    /// copy. Commits that are acknowledged after the start may be missing from the backup.
    ///
    /// After an error the folder is as it was before. Damage that a checksum shows is an error too, so the backup never
    /// holds other bytes than were written.
    pub fn backup(&self, to: &Path, cancel: &Cancel) -> Result<BackedUp> {
        self.backup_over(to, &RealDisk::new(to), cancel)
    }

    /// Makes a backup and writes all files except the base's through `disk`, whose directory must be `to`. It is meant
    /// for tests that inject faults.
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

    fn source(&self) -> Result<BackupSource> {
        if self.is_read_only() {
            return self.followed_source();
        }
        let mut stored = self.stored().hold();
        // A database without a log makes no checkpoints, so this does nothing for it.
        checkpoint::checkpoint_of(self, &mut stored)?;
        let (read, before) = (self.base().read()?, Arc::clone(&stored));
        // From here on checkpoints may go on, because the read keeps this state of the base.
        drop(stored);
        if self.journal().log().is_some() {
            return Ok(BackupSource { read, state: before, later: WriteBatch::default() });
        }
        // Without a log the base is empty of later commits. The backup gets them as a batch on top of the copy.
        let state = self.latest();
        let mut later = difference(&before, &state)?;
        later.put(META_KEY.to_vec(), self.ids().meta().encode());
        Ok(BackupSource { read, state, later })
    }

    /// The state to copy in a process that only reads. The base may be newer than our snapshot, and then the base's
    /// state is copied. All extents that it names are still kept.
    fn followed_source(&self) -> Result<BackupSource> {
        let state = self.snapshot()?;
        let read = self.base().read()?;
        let (in_base, meta) = recovery::load(&*read, self.files(), self.freed(), Some(&state))?;
        if in_base.commit >= state.commit {
            return Ok(BackupSource { read, state: Arc::new(in_base), later: WriteBatch::default() });
        }
        let mut later = difference(&in_base, &state)?;
        later.put(META_KEY.to_vec(), raised(meta, &state).encode());
        later.put(manifest::LOG_POSITION_KEY.to_vec(), manifest::encode_position(state.log_end));
        Ok(BackupSource { read, state, later })
    }
}

/// Raises the next ids above all ids that `state` names. An id that was given out since but is not in use may be given
/// out again.
fn raised(mut meta: Meta, state: &Snapshot) -> Meta {
    let catalog = &state.catalog;
    for schema in catalog.schemas() {
        meta.next_schema.0 = meta.next_schema.0.max(schema.id.0 + 1);
    }
    for view in catalog.all_views() {
        meta.next_view.0 = meta.next_view.0.max(view.id.0 + 1);
    }
    for def in catalog.macros() {
        // Macros take their ids from the counter of views.
        meta.next_view.0 = meta.next_view.0.max(def.id.0 + 1);
    }
    for def in catalog.types() {
        // Types take their ids from the counter of views, too.
        meta.next_view.0 = meta.next_view.0.max(def.id.0 + 1);
    }
    for table in catalog.all_tables() {
        meta.next_table.0 = meta.next_table.0.max(table.id.0 + 1);
        for index in table.keyed.iter().flat_map(|keyed| keyed.index_ids()) {
            meta.next_index.0 = meta.next_index.0.max(index.0 + 1);
        }
    }
    for role in catalog.roles() {
        // Roles take their ids from the counter of tables.
        meta.next_table.0 = meta.next_table.0.max(role.id.0 + 1);
    }
    for block in state.tables.values().flat_map(|table| table.blocks.iter()) {
        meta.next_block.0 = meta.next_block.0.max(block.id().0 + 1);
    }
    meta
}

/// A copy in progress.
struct Copying<'a> {
    engine: &'a Core,
    source: &'a BackupSource,
    folder: &'a Folder<'a>,
    cancel: &'a Cancel,
}

impl Copying<'_> {
    fn run(&self, made: SystemTime) -> Result<Contents> {
        let mut contents = Contents::new(self.source.state.commit, made);
        let places = ChunkPlaces::of(&self.source.state);
        // The base comes first. It is smaller, and its read holds back space for all processes.
        let names = self.base(&places)?;
        for name in names {
            contents.push(contents::sums_of(self.folder.disk(), &name, self.cancel)?);
        }
        self.columns(&places, &mut contents)?;
        Ok(contents)
    }

    /// Copies the base and returns the names of its files.
    fn base(&self, places: &ChunkPlaces) -> Result<Vec<String>> {
        let BackupSource { read, state, later } = self.source;
        let mut copy: Box<dyn BaseCopy> = self.engine.base().begin_copy(self.folder.path())?;
        let mut entries = 0_u64;
        read.scan(&[], &mut |key, value| {
            entries += 1;
            if entries.is_multiple_of(ENTRIES_PER_LOOK) {
                self.cancel.check()?;
            }
            match moved(places, key, value)? {
                MovedEntry::Same => copy.put(key, value)?,
                MovedEntry::Elsewhere(value) => copy.put(key, &value)?,
                MovedEntry::Gone => {}
            }
            Ok(true)
        })?;
        let mut moved_later = WriteBatch::default();
        // Entries of later commits name extents too, so they must be moved in the same way.
        for operation in later.operations() {
            match operation {
                Operation::Put { key, value } => match moved(places, key, value)? {
                    MovedEntry::Same => moved_later.set_row(key, Some(value)),
                    MovedEntry::Elsewhere(value) => moved_later.set_row(key, Some(&value)),
                    MovedEntry::Gone => moved_later.delete(key),
                },
                Operation::Delete { key } => moved_later.delete(key),
                Operation::DeletePrefix { prefix } => moved_later.delete_prefix(prefix),
            }
        }
        copy.finish(&moved_later, state.commit)
    }

    fn columns(&self, places: &ChunkPlaces, contents: &mut Contents) -> Result<()> {
        let (disk, state) = (self.folder.disk(), &self.source.state);
        disk.create_dir(TABLES)?;
        for ((table, column), pieces) in places.files() {
            let def = state.catalog.table_by_id(*table);
            let def = def.ok_or_else(|| Error::internal(format!("rows of table {table} without a definition")))?;
            disk.create_dir(&table_folder(*table))?;
            let path = column_path(*table, *column);
            let file = disk.open(&path, OpenMode::Create)?;
            let mut writing = contents::Writing::new(path, file);
            for piece in pieces {
                self.cancel.check()?;
                let chunk = &piece.block.chunks()[piece.chunk];
                // Verifying here means that damage stops the backup instead of becoming part of it.
                piece.block.with_verified_bytes(def, chunk, |bytes| writing.write(bytes))?;
            }
            contents.push(writing.finish()?);
        }
        let folders = places.files().keys().map(|(table, _)| table_folder(*table));
        folders.collect::<std::collections::BTreeSet<_>>().iter().try_for_each(|folder| disk.sync_dir(folder))?;
        disk.sync_dir(TABLES)
    }
}

/// Entries of the base between two checks for cancellation.
const ENTRIES_PER_LOOK: u64 = 1 << 12;

/// The form of a base entry in the copy.
enum MovedEntry {
    Same,
    Elsewhere(Vec<u8>),
    Gone,
}

/// Translates one entry of the base. Block entries name extents, which have other places in the copy. A block that the
/// state does not have is left out.
fn moved(places: &ChunkPlaces, key: &[u8], value: &[u8]) -> Result<MovedEntry> {
    if key.first() != Some(&BLOCK) {
        return Ok(MovedEntry::Same);
    }
    let (table, first_row) = parse_row_key(key)?;
    let mut entry = BlockEntry::decode(first_row, value)?;
    if !places.has(entry.id) {
        return Ok(MovedEntry::Gone);
    }
    // Entries still name chunks of dropped columns, which are not copied.
    let to = |(column, extent)| Some((column, places.place(table, column, extent)?));
    entry.chunks = entry.chunks.into_iter().filter_map(to).collect();
    Ok(MovedEntry::Elsewhere(entry.encode()))
}

/// The backup in the folder `path`, according to its list. This does not check whether the files exist.
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
