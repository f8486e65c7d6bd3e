//! The background jobs of an open database. Each has a thread of its own, which only this file may start.

use std::thread::{Builder, JoinHandle};

use rowmill_base::{Error, Result};

/// A background job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Job {
    /// Makes the next segments of the log.
    Segments,
    /// Syncs commits that no caller waits for.
    Sync,
    /// Joins recent rows and rewrites small and sparse blocks.
    Merge,
    /// Brings the ordered base up to the log.
    Checkpoint,
    /// Deletes rows of time tables that are older than their time to live.
    Expire,
    /// Refreshes materialized views.
    Refresh,
    /// Makes statistics of tables that have changed.
    Analyze,
    /// Makes column copies of keyed tables.
    Copy,
}

impl Job {
    /// The name of the job's thread, as the tools of the system show it.
    pub(crate) fn thread_name(self) -> &'static str {
        match self {
            Job::Segments => "rowmill-log",
            Job::Sync => "rowmill-sync",
            Job::Merge => "rowmill-merge",
            Job::Checkpoint => "rowmill-checkpoint",
            Job::Expire => "rowmill-expire",
            Job::Refresh => "rowmill-refresh",
            Job::Analyze => "rowmill-analyze",
            Job::Copy => "rowmill-copy",
        }
    }

    /// Starts the job's thread.
    pub(crate) fn spawn(self, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
        let name = self.thread_name();
        let thread = Builder::new().name(name.to_owned()).spawn(work);
        thread.map_err(|error| Error::io(format_args!("starting the thread {name}"), &error))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const ALL: [Job; 8] =
        [Job::Segments, Job::Sync, Job::Merge, Job::Checkpoint, Job::Expire, Job::Refresh, Job::Analyze, Job::Copy];

    #[test]
    fn every_job_is_on_the_page_about_durability() {
        let (_, section) =
            include_str!("../../../docs/durability.md").split_once("## Background jobs").expect("a section");
        let source = include_str!("job.rs");
        let (_, list) = source.split_once("pub(crate) enum Job {").expect("the list");
        let (list, _) = list.split_once('}').expect("its end");
        let jobs = list.lines().filter(|line| line.trim_end().ends_with(',')).count();
        assert_eq!(jobs, ALL.len(), "`ALL` lacks a job");
        for job in ALL {
            let name = job.thread_name();
            assert!(section.contains(&format!("| `{name}` |")), "docs/durability.md lacks the job {name}");
        }
    }

    /// Returns the source files below `folder` that start a thread outside of tests.
    fn starters(folder: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).expect("a folder of sources") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                starters(&path, found);
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("a source file");
            let code = text.split("#[cfg(test)]").next().expect("a first part");
            if ["thread::Builder", "thread::spawn"].iter().any(|start| code.contains(start)) {
                found.push(path.file_name().expect("a name").to_string_lossy().into_owned());
            }
        }
    }

    #[test]
    fn only_jobs_start_threads() {
        let mut found = Vec::new();
        starters(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
        found.retain(|name| name != "tests.rs" && name != "job.rs");
        assert!(found.is_empty(), "threads are started in {found:?}; a background job belongs in the list of jobs");
    }
}
