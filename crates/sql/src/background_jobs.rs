//! The background jobs of an open database that run statements of their own.

use std::sync::Arc;

use rowmill_base::Result;
use rowmill_exec::workers::Workers;
use rowmill_txn::{AnalyzeJob, Engine};

use crate::refresher::Refresher;
use crate::session::temporary::drop_left_temporary_tables;

/// The jobs, which run until this is dropped.
#[derive(Debug)]
pub struct BackgroundJobs {
    _refresher: Refresher,
    _analyzer: AnalyzeJob,
}

impl BackgroundJobs {
    /// Removes what an earlier process has left, and starts the jobs of `engine`. Their queries run on `workers`.
    pub fn start(engine: &Arc<Engine>, workers: &Arc<Workers>) -> Result<BackgroundJobs> {
        drop_left_temporary_tables(engine, workers)?;
        Ok(BackgroundJobs {
            _refresher: Refresher::start(engine, workers)?,
            _analyzer: engine.analyze_in_background()?,
        })
    }
}
