//! The background jobs of an open database that run statements of their own.

use std::sync::Arc;

use rowmill_base::Result;
use rowmill_sql::{Refresher, Workers, drop_left_temporary_tables};
use rowmill_txn::{AnalyzeJob, Engine};

/// The jobs, which run until this is dropped.
#[derive(Debug)]
pub(crate) struct BackgroundJobs {
    _refresher: Refresher,
    _analyzer: AnalyzeJob,
}

impl BackgroundJobs {
    /// Removes what an earlier process has left, and starts the jobs of `engine`. Their queries run on `workers`.
    pub(crate) fn start(engine: &Arc<Engine>, workers: &Arc<Workers>) -> Result<BackgroundJobs> {
        drop_left_temporary_tables(engine, workers)?;
        Ok(BackgroundJobs {
            _refresher: Refresher::start(engine, workers)?,
            _analyzer: engine.analyze_in_background()?,
        })
    }
}
