//! What a database holds and has done, as monitoring asks for it.

use rowmill_txn::Engine;

/// The memory of a database at this moment, and the work of its log since it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DatabaseLoad {
    /// The bytes of memory that are in use.
    pub memory_bytes: u64,
    /// The most bytes that were in use at once.
    pub memory_peak_bytes: u64,
    /// The limit of memory.
    pub memory_limit_bytes: u64,
    /// The bytes of temporary files.
    pub temporary_bytes: u64,
    /// The limit of temporary files.
    pub temporary_limit_bytes: u64,
    /// The commits. 0 in a process that only reads, as are all of the following.
    pub commits: u64,
    /// The bytes that were written to the log.
    pub log_bytes: u64,
    /// How often the log was synced.
    pub log_syncs: u64,
    /// The bytes of the log that the next checkpoint will release.
    pub log_bytes_behind: u64,
    /// The checkpoints.
    pub checkpoints: u64,
}

impl DatabaseLoad {
    pub(crate) fn of(engine: &Engine) -> DatabaseLoad {
        let (broker, quota, log) = (engine.broker(), engine.temp().quota(), engine.log_status());
        let work = log.work.as_ref();
        DatabaseLoad {
            memory_bytes: broker.used_bytes(),
            memory_peak_bytes: broker.peak_bytes(),
            memory_limit_bytes: broker.limit_bytes(),
            temporary_bytes: quota.used_bytes(),
            temporary_limit_bytes: quota.limit_bytes(),
            commits: work.map_or(0, |work| work.records),
            log_bytes: work.map_or(0, |work| work.bytes),
            log_syncs: work.map_or(0, |work| work.syncs),
            log_bytes_behind: log.bytes_behind,
            checkpoints: log.checkpoints.count,
        }
    }
}
