//! What can be asked of an open database: its log, its checkpoints, and who holds back what it would give back.

use rowmill_base::{CommitId, Durability, Result};

use crate::base::Reader;
use crate::checkpoint::CheckpointTimes;
use crate::engine::Core;
use crate::log::LogWork;

/// The log at one moment.
#[derive(Clone, Debug)]
pub struct LogStatus {
    /// When commits are answered.
    pub durability: Durability,
    /// The last commit, and the last that the base has.
    pub commit: CommitId,
    /// The last commit that the base has.
    pub stored: CommitId,
    /// Bytes of the log that the base does not have: what opening would have to read.
    pub bytes_behind: u64,
    /// `None` where there is no log: in memory, or in a process that only reads.
    pub work: Option<LogWork>,
    /// Checkpoints since the database was opened.
    pub checkpoints: CheckpointTimes,
}

impl Core {
    /// The log of now.
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

    /// Who reads a state of the database in which process: space that is given up behind it waits.
    pub fn readers(&self) -> Result<Vec<Reader>> {
        self.base().readers()
    }
}
