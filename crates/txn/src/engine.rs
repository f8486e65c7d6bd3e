//! The engine: one open directory (or one database in memory), its current snapshot, and the state that all connections
//! share.

use std::collections::BTreeSet;
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard, RwLock};
use rowmill_base::{
    BlockId, Broker, Cancel, ColumnId, CommitId, Durability, Error, ErrorKind, IndexId, Result, SchemaId, Settings,
    TableId, ViewId,
};
use rowmill_io::{DirectoryLock, Disk, MemoryDisk, RealDisk, free_disk_bytes, memory_bytes};
use rowmill_storage::spill::TempSpace;
use rowmill_storage::{ColumnDef, ColumnFile, ColumnTarget, FreedExtents, ROWS_PER_BLOCK_MAX, TableDef};

use crate::back_pressure::relieve_at_once;
use crate::backup;
use crate::base::{BaseKind, MemoryBase, OrderedBase};
use crate::bell::Background;
use crate::catalog::Catalog;
use crate::checkpoint::{self, InBase};
use crate::column_copies;
use crate::column_files::{ColumnFiles, TABLES, Unnamed, table_folder};
use crate::directory::{check_no_foreign_files, make_directory};
use crate::expire::{self, ExpiredRows, ExpiryReports};
use crate::job::Job;
use crate::journal::Journal;
use crate::keyed::generation::Generation;
use crate::keyed::store::KeyedStore;
use crate::log::{Log, LogOptions, Position};
use crate::manifest::Meta;
use crate::merge;
use crate::recovery;
use crate::refreshes::Refreshes;
use crate::row_claims::{RowClaimInfo, RowClaimant, RowClaims};
use crate::sequences::Sequences;
use crate::snapshot::{Pin, Snapshot};
use crate::space_return::SpaceReturn;
use crate::transaction::Transaction;

/// Options for tests that inspect the log byte by byte, where short segments are easier to handle.
const SHORT_LOG: LogOptions = LogOptions { segment_bytes: 1 << 14 };

/// Recent rows of keyed tables may take one part in this many of the memory limit. Above that, a checkpoint is due.
const KEYED_SHARE: u64 = 8;

/// Delay between a commit and the refreshes that it causes, so that a burst of commits causes one refresh.
const REFRESH_SETTLE: Duration = Duration::from_millis(50);

/// The folder of temporary files within the database's directory.
pub(crate) const TEMP: &str = "temp";

/// How a directory is opened.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// Opens the directory for reading only, beside the process that writes it.
    pub read_only: bool,
    /// Settings that differ from the defaults.
    pub settings: Settings,
    /// The kind of ordered base for a new directory. An existing directory keeps the kind that it has.
    pub base: BaseKind,
    /// The account of memory of another database of this process, which the new one is to share.
    pub broker: Option<Broker>,
}

/// One open database: the handle that connections and transactions share.
///
/// Dropping it stops the background threads and brings the base up to the log, so that the next opening has nothing to
/// replay.
#[derive(Debug)]
pub struct Engine {
    core: Arc<Core>,
}

/// Everything about an open database except the handle that stops its background threads. The threads hold it too.
#[derive(Debug)]
pub struct Core {
    path: Option<PathBuf>,
    read_only: bool,
    disk: Arc<dyn Disk>,
    base: Arc<dyn OrderedBase>,
    settings: RwLock<Settings>,
    broker: Broker,
    temp: TempSpace,
    ids: Ids,
    files: ColumnFiles,
    freed: Arc<FreedExtents>,
    journal: Journal,
    stored: InBase,
    setting: Mutex<()>,
    /// In a process that only reads: whether the last read of the log stopped before its end.
    following: Mutex<bool>,
    /// The commit lock. A thread that needs both must take [`Stored::hold`] first.
    committing: Mutex<()>,
    /// Values of sequences that were handed out.
    pub(crate) sequences: Sequences,
    /// Refreshes of materialized views.
    refreshes: Refreshes,
    /// The thread of `Job::Merge`.
    merger: Background,
    row_claims: Arc<RowClaims>,
    /// The thread of `Job::Checkpoint`.
    checkpointer: Background,
    /// The thread of `Job::Expire`.
    expirer: Background,
    expiry_reports: ExpiryReports,
    /// The thread of `Job::Refresh`.
    refresher: Background,
    /// The thread of `Job::Analyze`.
    analyzer: Background,
    /// Held while the database is open, and released last.
    _lock: Option<DirectoryLock>,
}

impl Engine {
    /// Opens the directory at `path` and creates it if it does not exist. A backup can only be opened for reading.
    pub fn open(path: &Path, options: OpenOptions) -> Result<Arc<Engine>> {
        backup::check_finished(path)?;
        if !options.read_only {
            backup::check_no_backup(path)?;
        }
        Engine::open_unfinished(path, options)
    }

    /// Opens a directory like [`Engine::open`], but also one whose restore is not finished.
    pub(crate) fn open_unfinished(path: &Path, options: OpenOptions) -> Result<Arc<Engine>> {
        let looked = path.metadata().map(|metadata| Some(metadata.is_dir())).or_else(|error| match error.kind() {
            io::ErrorKind::NotFound => Ok(None),
            _ => Err(Error::io(format_args!("look for {}", path.display()), &error)),
        })?;
        if looked == Some(false) {
            return Err(Error::new(ErrorKind::UndefinedFile, format!("{} is a file, not a directory", path.display()))
                .hint("a database is a directory of its own"));
        }
        if options.read_only && BaseKind::of(path)?.is_none() {
            return Err(Error::new(ErrorKind::UndefinedFile, format!("there is no database in {}", path.display()))
                .hint("open it for writing to create one"));
        }
        // Before we create anything, so that a refused opening leaves no traces.
        let found = BaseKind::of(path)?;
        found.unwrap_or(options.base).check_supported(path, options.read_only)?;
        if found.is_none() && looked.is_some() {
            check_no_foreign_files(path)?;
        }
        if !options.read_only && looked.is_none() {
            make_directory(path)
                .map_err(|error| Error::io(format_args!("making the directory {}", path.display()), &error))?;
        }
        let lock = match options.read_only {
            true => None,
            false => Some(DirectoryLock::acquire(path)?),
        };
        // After the lock, so that no other process creates a base at the same time.
        let base = BaseKind::of(path)?.unwrap_or(options.base).open(path, options.read_only)?;
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::new(path));
        Engine::start(Some(path.to_owned()), disk, base, lock, options, Some(LogOptions::default()))
    }

    /// An empty database in memory.
    pub fn memory(settings: Settings) -> Result<Arc<Engine>> {
        Engine::memory_with(OpenOptions { settings, ..OpenOptions::default() })
    }

    /// An empty database in memory, with options for its settings and its account of memory.
    pub fn memory_with(options: OpenOptions) -> Result<Arc<Engine>> {
        Engine::start(None, Arc::new(MemoryDisk::new()), Arc::new(MemoryBase::new()), None, options, None)
    }

    /// A database over a disk and a base of the caller, with a log in short segments. Only tests that inject faults
    /// should use it.
    pub fn over(disk: Arc<dyn Disk>, base: Arc<dyn OrderedBase>, settings: Settings) -> Result<Arc<Engine>> {
        Engine::start(None, disk, base, None, OpenOptions { settings, ..OpenOptions::default() }, Some(SHORT_LOG))
    }

    fn start(
        path: Option<PathBuf>,
        disk: Arc<dyn Disk>,
        base: Arc<dyn OrderedBase>,
        lock: Option<DirectoryLock>,
        options: OpenOptions,
        log_options: Option<LogOptions>,
    ) -> Result<Arc<Engine>> {
        let broker = options.broker.clone().unwrap_or_else(|| {
            Broker::new(match options.settings.number("memory_limit") {
                0 => memory_bytes() / 2,
                limit => limit,
            })
        });
        let temp = temp_space(path.as_deref().filter(|_| !options.read_only), &options.settings);
        // A database in memory has no folder of its own. Its first temporary file looks for orphans.
        if path.is_some() && !options.read_only {
            temp.remove_orphans();
        }
        let freed = Arc::new(FreedExtents::default());
        let files = ColumnFiles::new(Arc::clone(&disk), broker.clone());
        let replayed = match options.read_only {
            true => None,
            false => {
                recovery::initialise(&*base)?;
                // Once at opening, so that a commit only needs to sync this folder and the table folders below it.
                disk.create_dir(TABLES)?;
                disk.sync_dir("")?;
                // Replay must come before the load below: it brings the base up to the log.
                log_options.map(|options| recovery::replay(&disk, &*base, &broker, &temp, options)).transpose()?
            }
        };
        let (mut snapshot, meta) = recovery::load(&*base.read()?, &files, &freed, None)?;
        if !options.read_only {
            // What no commit names was left by a crash or a drop. We note it now and free it when no reader needs it.
            recovery::note_unnamed(&files, &freed, &snapshot)?;
            let generation = match replayed {
                Some(_) => Generation::of_base(snapshot.commit, Arc::clone(&base)),
                // Without a log no checkpoint ever writes rows to the base, so the base has none.
                None => Generation::empty(snapshot.commit),
            };
            let store = KeyedStore::new(generation, &broker, Some(temp.clone()));
            let keyed = store.state(snapshot.commit, &store.current());
            snapshot.keyed = keyed;
        }
        let log =
            replayed.zip(log_options).map(|(replayed, options)| Log::start(&disk, options, replayed)).transpose()?;
        // The state that the base has is only compared with, so it must not keep versions or a read of the base alive.
        let keyed = snapshot.keyed.store().unread_state(snapshot.keyed.commit());
        let stored_state = Arc::new(snapshot.with_keyed(keyed));
        let bound = Duration::from_millis(options.settings.number("relaxed_sync_ms"));
        let journal = Journal::start(log, snapshot, options.settings.durability(), bound)?;
        let core = Arc::new(Core {
            path,
            read_only: options.read_only,
            disk,
            base,
            settings: RwLock::new(options.settings),
            broker,
            temp,
            ids: Ids::new(meta),
            files,
            freed,
            stored: InBase::new(stored_state),
            journal,
            setting: Mutex::new(()),
            following: Mutex::new(false),
            committing: Mutex::new(()),
            sequences: Sequences::default(),
            refreshes: Refreshes::default(),
            merger: Background::default(),
            row_claims: RowClaims::new(),
            checkpointer: Background::default(),
            expirer: Background::default(),
            expiry_reports: ExpiryReports::default(),
            refresher: Background::default(),
            analyzer: Background::default(),
            _lock: lock,
        });
        // We build the engine before its threads start: if one fails to start, dropping the engine stops the others.
        let engine = Arc::new(Engine { core });
        if !engine.read_only {
            engine.try_reap()?;
            merge::start(&engine.merger, &engine.core)?;
            expire::start(&engine.expirer, &engine.core)?;
            column_copies::start(&engine.core)?;
        }
        if engine.journal.log().is_some() {
            checkpoint::start(&engine.checkpointer, &engine.core)?;
        }
        Ok(engine)
    }

    /// Starts the job that refreshes materialized views. It calls `work` after commits while the database has such
    /// views, and after the time that `work` returned. `work` may hold the engine: the job ends when the result is
    /// dropped.
    pub fn refresh_in_background(
        self: &Arc<Self>,
        work: impl Fn(&Cancel) -> Option<Duration> + Send + 'static,
    ) -> Result<RefreshJob> {
        let core = Arc::clone(&self.core);
        let work = move |stop: &Cancel| {
            // A commit rings when it is the latest state, but readers see it only after the log is synced. Without
            // this, the job could find nothing to do and sleep until the next commit.
            core.journal().show_latest();
            work(stop)
        };
        self.refresher.start_timed(Job::Refresh, REFRESH_SETTLE, work)?;
        // What became due while the database was closed.
        if self.latest().catalog().materialized_views().next().is_some() {
            self.refresher.ring();
        }
        Ok(RefreshJob(Arc::clone(&self.core)))
    }

    pub(crate) fn core_arc(&self) -> Arc<Core> {
        Arc::clone(&self.core)
    }

    /// Begins a transaction over the last committed state. It keeps what it reads, so callers should end it soon.
    pub fn begin(self: &Arc<Self>) -> Result<Transaction> {
        relieve_at_once(self);
        let base = self.snapshot()?;
        Ok(Transaction::new(Arc::clone(self), base))
    }
}

/// The job that refreshes materialized views. It runs until this is dropped, which waits for its end.
#[derive(Debug)]
pub struct RefreshJob(Arc<Core>);

impl RefreshJob {
    /// Tells the job to end. A caller that can cancel its work should do so after this call.
    pub fn stop(&self) {
        self.0.refresher.tell_to_stop();
    }
}

impl Drop for RefreshJob {
    fn drop(&mut self) {
        self.0.refresher.stop();
    }
}

impl Deref for Engine {
    type Target = Core;

    fn deref(&self) -> &Core {
        &self.core
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let core = &self.core;
        // What refreshes keep holds extents, which `reap` below gives back.
        core.refreshes.forget_bases();
        core.merger.stop();
        core.expirer.stop();
        if !core.read_only {
            core.latest().keyed.store().column_copies().close();
        }
        core.checkpointer.stop();
        // If this checkpoint fails, nothing is lost: the next opening replays the log.
        let _ = checkpoint::checkpoint(core);
        if core.stored.times().count > 0 {
            SpaceReturn::at_close(core);
        }
        core.journal.stop();
        if !core.read_only {
            core.latest().keyed.store().close();
        }
        core.reap();
    }
}

impl Core {
    /// The directory, or `None` for a database in memory.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Whether the database refuses writes.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// The account of memory that all parts of the database share.
    pub fn broker(&self) -> &Broker {
        &self.broker
    }

    /// The place of temporary files.
    pub fn temp(&self) -> &TempSpace {
        &self.temp
    }

    /// A copy of the current settings.
    pub fn settings(&self) -> Settings {
        self.settings.read().clone()
    }

    /// Changes a setting of the database. An error leaves all settings as they were.
    pub fn set(&self, name: &str, text: &str) -> Result<()> {
        // One at a time, so that no other call changes the settings between the comparison and the write.
        let _setting = self.setting.lock();
        let mut changed = self.settings();
        changed.set(name, text)?;
        // The journal changes first, because that can fail.
        if changed.durability() != self.journal.durability() {
            self.set_durability(changed.durability())?;
        }
        let mut settings = self.settings.write();
        settings.copy(name, &changed)?;
        let limit = settings.number("memory_limit");
        if limit > 0 {
            self.broker.set_limit_bytes(limit);
        }
        if settings.number("temp_disk_limit") > 0 {
            self.temp.quota().set_limit_bytes(settings.number("temp_disk_limit"));
        }
        self.temp.set_file_bytes_min(settings.number("spill_file_bytes_min"));
        if name.eq_ignore_ascii_case("column_copy_rows") && !self.read_only {
            self.latest().keyed.store().column_copies().set_rows_min(settings.number("column_copy_rows"));
        }
        if name.eq_ignore_ascii_case("temp_directory") {
            self.temp.set_folder(temp_folder(self.path.as_deref().filter(|_| !self.read_only), &settings));
        }
        Ok(())
    }

    /// Changes the durability between two commits. Commits that no log holds must be in the base before this continues.
    ///
    /// We make two checkpoints. The first waits for a running check or checkpoint while commits go on. The second runs
    /// under the commit lock and has little left to write.
    fn set_durability(&self, durability: Durability) -> Result<()> {
        let mut stored = self.stored.hold();
        checkpoint::checkpoint_of(self, &mut stored)?;
        let _committing = self.lock_commit();
        checkpoint::checkpoint_of(self, &mut stored)?;
        self.journal.set_durability(durability)
    }

    /// The last committed state. A process that only reads gets whatever the writing process has committed by now.
    pub fn snapshot(&self) -> Result<Arc<Snapshot>> {
        match self.read_only {
            true => self.follow(),
            false => Ok(self.journal.shown()),
        }
    }

    /// The claims of rows by open transactions.
    pub(crate) fn row_claims(&self) -> &Arc<RowClaims> {
        &self.row_claims
    }

    /// Makes a holder of claims for a statement outside of a transaction, which must wait for a row before it runs
    /// again. `connection` is the number of its connection.
    pub fn row_claimant(&self, connection: Option<u64>) -> RowClaimant {
        self.row_claims.claimant(connection)
    }

    /// The open transactions that have claimed rows, and those that wait for them.
    pub fn claimed_rows(&self) -> Vec<RowClaimInfo> {
        self.row_claims.list()
    }

    /// The state that the next commit builds on. It may not be on disk yet.
    pub(crate) fn latest(&self) -> Arc<Snapshot> {
        self.journal.latest()
    }

    /// Returns the last commit of the writing process. The snapshot holds a read of the base for as long as it lives,
    /// so callers should drop it soon.
    ///
    /// We start from the state that was loaded last and apply the records that the log has after it. That state keeps
    /// no read of the base. It is still safe to use unless the base is newer: then only a commit that the base does not
    /// have yet can have removed what the state names, and such space is not freed.
    fn follow(&self) -> Result<Arc<Snapshot>> {
        /// The writing process may release the log after we have read the base, but hardly this often in a row.
        const TRIES: usize = 16;
        // One at a time, because keyed rows of the log go to versions that all snapshots share.
        let mut is_torn = self.following.lock();
        let (mut known, mut is_fresh) = (self.journal.shown(), false);
        for _ in 0..TRIES {
            let read = self.base.read()?;
            let in_base = read.commit_id()?;
            if (*is_torn && !is_fresh) || known.commit < in_base {
                // Our state is older than the base or spoiled by half a replay, so we start from the base.
                known = Arc::new(recovery::load(&*read, &self.files, &self.freed, Some(&known))?.0);
            }
            // Set until the replay succeeds: after a failure the versions have keyed rows that the state does not.
            *is_torn = true;
            let state = recovery::follow(&*self.disk, &known, &self.files, &self.freed)?;
            if let Some(state) = state {
                *is_torn = false;
                self.journal.show(&state);
                let store = state.keyed.store();
                let generation = store.keep(Generation::of_read(in_base, read));
                let keyed = store.state(state.keyed.commit().max(in_base), &generation);
                // Later calls read this state of the base or a newer one, so the store need not keep the read.
                *store.current_mut() = store.keep(Generation::unread(in_base));
                store.forget();
                return Ok(Arc::new(state.pinned(Pin::new(generation), keyed)));
            }
            // The writing process reused the log before our position, or started another log. The base knows the new
            // position.
            let read = self.base.read()?;
            known = Arc::new(recovery::load(&*read, &self.files, &self.freed, Some(&known))?.0);
            is_fresh = true;
        }
        Err(Error::corrupt("the log ends before the position that was on disk, and the base has no later state")
            .hint("if a process writes this directory, try again; otherwise the log is damaged"))
    }

    /// Makes a checkpoint and gives back all space that no snapshot needs.
    pub fn checkpoint(&self) -> Result<()> {
        self.check_writable()?;
        checkpoint::checkpoint(self)?;
        self.try_reap()
    }

    pub(crate) fn check_writable(&self) -> Result<()> {
        match self.read_only {
            false => Ok(()),
            true => Err(Error::new(ErrorKind::ReadOnly, "the database is open for reading only")),
        }
    }

    pub(crate) fn ids(&self) -> &Ids {
        &self.ids
    }

    pub(crate) fn base(&self) -> &dyn OrderedBase {
        &*self.base
    }

    pub(crate) fn base_arc(&self) -> Arc<dyn OrderedBase> {
        Arc::clone(&self.base)
    }

    pub(crate) fn freed(&self) -> &Arc<FreedExtents> {
        &self.freed
    }

    pub(crate) fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    pub(crate) fn files(&self) -> &ColumnFiles {
        &self.files
    }

    pub(crate) fn try_lock_commit(&self) -> Option<MutexGuard<'_, ()>> {
        self.committing.try_lock()
    }

    pub(crate) fn lock_commit(&self) -> MutexGuard<'_, ()> {
        self.committing.lock()
    }

    /// Rewrites the blocks of a table that are small or have many deleted rows, as a background job does by itself. A
    /// table that does not exist, or that has no blocks, stays as it is.
    pub fn merge_table(&self, table: TableId, cancel: &Cancel) -> Result<()> {
        self.check_writable()?;
        merge::merge_table(self, table, cancel)
    }

    /// Deletes the rows of time tables that are expired at `now_us`, in microseconds since 1970-01-01 UTC. A background
    /// job does the same every minute, by the clock.
    pub fn expire_rows(&self, now_us: i64) -> Result<()> {
        self.check_writable()?;
        expire::expire_all(self, now_us, &Cancel::new())
    }

    pub(crate) fn expiry_reports(&self) -> &ExpiryReports {
        &self.expiry_reports
    }

    /// What was deleted because it was expired, since the database was opened: the last reports, oldest first.
    pub fn expired_rows(&self) -> Vec<ExpiredRows> {
        self.expiry_reports.all()
    }

    /// Wakes the background threads after a commit whose record ends at `end`, with the definitions `catalog`.
    pub(crate) fn tidy(&self, end: Position, catalog: &Catalog) {
        self.merger.ring();
        if catalog.materialized_views().next().is_some() {
            self.refresher.ring();
        }
        if self.is_checkpoint_due(end) || !self.stored.is_watched() {
            self.checkpointer.ring();
        }
    }

    /// Whether a checkpoint is due: the log, which ends at `end`, is long, keyed rows take much memory, or space waits
    /// for a checkpoint.
    pub(crate) fn is_checkpoint_due(&self, end: Position) -> bool {
        self.has_many_recent_rows(KEYED_SHARE) || self.stored.is_due(end, self.checkpoint_log_bytes())
    }

    /// The length of the log at which a checkpoint is due, in bytes.
    pub(crate) fn checkpoint_log_bytes(&self) -> u64 {
        self.settings.read().number("checkpoint_log_bytes")
    }

    /// Whether recent rows of keyed tables take more than one part in `share` of the memory limit.
    pub(crate) fn has_many_recent_rows(&self, share: u64) -> bool {
        let bytes_max = self.broker.limit_bytes() / share;
        // Recent rows are a part of the memory in use, which is much cheaper to ask for. So we ask for it first.
        self.broker.used_bytes() > bytes_max && self.latest().keyed.store().bytes() > bytes_max
    }

    pub(crate) fn analyzer(&self) -> &Background {
        &self.analyzer
    }

    pub(crate) fn journal(&self) -> &Journal {
        &self.journal
    }

    pub(crate) fn stored(&self) -> &InBase {
        &self.stored
    }

    /// Notes that no commit from `since` on has the table. Its folder is removed after its last reader is gone.
    pub(crate) fn note_dropped(&self, table: TableId, since: CommitId) {
        self.files.note_unnamed(Unnamed::Folder(table), since);
    }

    /// Gives back extents and files whose last reader is gone. If that fails, the next opening finds and frees them.
    pub(crate) fn reap(&self) {
        if self.has_unfreed() {
            let _ = self.try_reap();
        }
    }

    /// Whether extents, files or older files of the base wait to be given back.
    pub(crate) fn has_unfreed(&self) -> bool {
        !self.freed.is_empty() || self.files.has_unnamed() || self.base.has_older_files()
    }

    /// Gives back extents and files whose last reader is gone, and returns the first error.
    ///
    /// In this process, a snapshot holds what it reads. The base knows the readers of other processes: space that
    /// commit `n` removed is free when no reader is older than `n`. The base counts as a reader too, because recovery
    /// applies the log to the state that the base names.
    pub(crate) fn try_reap(&self) -> Result<()> {
        // We must read `stored` before we look at the readers. A reader that begins after that look reads a base that
        // has at least `stored`.
        let stored = self.journal.log().map(|_| self.stored.commit());
        let oldest = self.base.oldest_reader()?;
        let may_free = |removed_by| [oldest, stored].into_iter().flatten().all(|needed| removed_by <= needed);
        self.freed.reap(may_free)?;
        let latest = self.latest();
        self.files.remove_unnamed(may_free, |what| latest.names(what))
    }

    pub(crate) fn sync_directories<'a>(&self, paths: impl Iterator<Item = &'a str>) -> Result<()> {
        let folders: BTreeSet<&str> =
            paths.filter_map(|path| path.rsplit_once('/').map(|(folder, _)| folder)).collect();
        for folder in folders {
            self.disk.sync_dir(folder)?;
        }
        self.disk.sync_dir(TABLES)
    }

    /// Makes the files and the folder for the next block of a table.
    pub(crate) fn column_targets(&self, table: &TableDef) -> Result<Vec<ColumnTarget>> {
        let target = |column: &ColumnDef| {
            let file = self.files.get(table.id, column.id)?;
            Ok(ColumnTarget { id: column.id, kind: column.kind.clone(), file })
        };
        let targets = table.columns.iter().map(target).collect::<Result<_>>()?;
        // After the targets, because open files keep their folder from being removed.
        self.disk.create_dir(&table_folder(table.id))?;
        Ok(targets)
    }

    pub(crate) fn column_file(&self, table: TableId, column: ColumnId) -> Result<Arc<ColumnFile>> {
        self.files.get(table, column)
    }

    /// The number of rows after which a block is sealed.
    pub fn rows_per_block(&self) -> usize {
        (self.settings.read().number("rows_per_block") as usize).clamp(1, ROWS_PER_BLOCK_MAX)
    }

    pub(crate) fn small_block_rows(&self) -> usize {
        self.settings.read().number("small_block_rows") as usize
    }

    /// Lets a query that reads a whole keyed table wait until the table has a column copy. For tests.
    pub fn wait_for_column_copies(&self) {
        self.latest().keyed.store().column_copies().make_readers_wait();
    }

    /// The refreshes of materialized views in this process.
    pub fn refreshes(&self) -> &Refreshes {
        &self.refreshes
    }

    /// The number of threads that one statement may use.
    pub fn threads(&self) -> usize {
        self.settings.read().threads()
    }
}

/// The folder for temporary files. Each process should make its own folder in there. `path` is that of a database that
/// may be written.
fn temp_folder(path: Option<&Path>, settings: &Settings) -> PathBuf {
    match (settings.folder("temp_directory"), path) {
        (Some(folder), _) => folder.into(),
        (None, Some(path)) => path.join(TEMP),
        (None, None) => std::env::temp_dir(),
    }
}

fn temp_space(path: Option<&Path>, settings: &Settings) -> TempSpace {
    let folder = temp_folder(path, settings);
    let limit = match settings.number("temp_disk_limit") {
        // The folder may not exist yet, so we ask for the space where it will be made. If the system does not tell,
        // only the disk itself is a limit.
        0 => folder.ancestors().find_map(free_disk_bytes).map_or(u64::MAX, |free| free / 2),
        limit => limit,
    };
    let temp = TempSpace::in_folder(folder, limit);
    temp.set_file_bytes_min(settings.number("spill_file_bytes_min"));
    temp
}

/// The next ids. Ids taken by transactions that never commit are lost, which costs nothing.
#[derive(Debug)]
pub(crate) struct Ids {
    schema: AtomicU32,
    table: AtomicU32,
    view: AtomicU32,
    block: AtomicU64,
    index: AtomicU32,
}

impl Ids {
    fn new(meta: Meta) -> Self {
        Ids {
            schema: AtomicU32::new(meta.next_schema.0),
            table: AtomicU32::new(meta.next_table.0),
            view: AtomicU32::new(meta.next_view.0),
            block: AtomicU64::new(meta.next_block.0),
            index: AtomicU32::new(meta.next_index.0),
        }
    }

    pub(crate) fn schema(&self) -> SchemaId {
        SchemaId(self.schema.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn table(&self) -> TableId {
        TableId(self.table.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn view(&self) -> ViewId {
        ViewId(self.view.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn block(&self) -> BlockId {
        BlockId(self.block.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn index(&self) -> IndexId {
        IndexId(self.index.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn meta(&self) -> Meta {
        Meta {
            next_schema: SchemaId(self.schema.load(Ordering::Relaxed)),
            next_table: TableId(self.table.load(Ordering::Relaxed)),
            next_view: ViewId(self.view.load(Ordering::Relaxed)),
            next_block: BlockId(self.block.load(Ordering::Relaxed)),
            next_index: IndexId(self.index.load(Ordering::Relaxed)),
        }
    }
}

/// The commit id before the first commit.
pub(crate) const NO_COMMIT: CommitId = CommitId(0);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rung_checkpoint_is_made_only_if_it_is_due() {
        let settings = Settings::default();
        let engine = Engine::over(Arc::new(MemoryDisk::new()), Arc::new(MemoryBase::new()), settings).expect("opened");
        let mut change = engine.begin().expect("begun");
        change.create_schema("a").expect("new");
        change.commit().expect("committed");
        let before = engine.stored().times().count;
        // Commits ring like this until the checkpoint before is done.
        engine.checkpointer.ring();
        std::thread::sleep(Duration::from_millis(500));
        assert_eq!(engine.stored().times().count, before);
        engine.stored().note_space();
        engine.checkpointer.ring();
        while engine.stored().times().count == before {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
