//! The status of an open database: its log, its checkpoints and its readers.

use rowmill_base::{CommitId, Durability, Result};

use crate::base::Reader;
use crate::checkpoint::CheckpointTimes;
use crate::engine::Core;
use crate::log::LogWork;

/// The log at one moment.
#[derive(Clone, Debug)]
pub struct LogStatus {
    /// How durable a commit is when it is answered.
    pub durability: Durability,
    /// The last commit that readers see.
    pub commit: CommitId,
    /// The last commit that the base has.
    pub stored: CommitId,
    /// Bytes of the log that the base does not have, which recovery would have to read.
    pub bytes_behind: u64,
    /// `None` without a log: in memory, or in a process that only reads.
    pub work: Option<LogWork>,
    /// Checkpoints since the database was opened.
    pub checkpoints: CheckpointTimes,
}

impl Core {
    /// The current status of the log.
    pub fn log_status(&self) -> LogStatus {
        let journal = self.journal();
        let end = journal.log().map_or(self.stored().log_end(), |log| log.end());
        LogStatus {
            durability: journal.durability(),
            commit: journal.shown().commit,
            stored: self.stored().commit(),
            bytes_behind: end.0.saturating_sub(self.stored().log_end().0),
            work: journal.log().map(|log| log.work()),
            checkpoints: self.stored().times(),
        }
    }

    /// The readers of the database in all processes, with the states that they read. Space that later commits give up
    /// waits for them.
    pub fn readers(&self) -> Result<Vec<Reader>> {
        self.base().readers()
    }
}
