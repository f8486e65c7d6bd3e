//! Records of the log, made to a state one behind the other.
//!
//! Most of a long log is commits of few rows that are put behind others. What each costs as a state of its own is many times what its
//! bytes take to read, so such rows are gathered, and become runs and a state when enough are there, when something else is in
//! the log, or at its end. Nobody sees a state in between.

use std::collections::BTreeMap;
use std::sync::Arc;

use rowmill_base::{CommitId, Error, Result, RowNumber, TableId};
use rowmill_storage::{FreedExtents, RunsInBytes};

use crate::change::{Appended, AppendedRun, Change, TableChange};
use crate::column_files::ColumnFiles;
use crate::manifest::Meta;
use crate::snapshot::Snapshot;

/// Rows, or bytes of them in the log, that are gathered at most.
const GATHERED_ROWS_MAX: usize = 1 << 16;
const GATHERED_BYTES_MAX: usize = 8 << 20;

/// A state to which records are made.
#[derive(Debug)]
pub(crate) struct Replay<'a> {
    files: &'a ColumnFiles,
    freed: &'a Arc<FreedExtents>,
    /// Without what is gathered.
    state: Arc<Snapshot>,
    /// The last commit, which may be gathered.
    commit: CommitId,
    meta: Option<Meta>,
    gathered: BTreeMap<TableId, Gathered>,
    rows: usize,
    bytes: usize,
}

/// Rows behind those that the state has of a table.
#[derive(Debug)]
struct Gathered {
    runs: RunsInBytes,
    next_row: RowNumber,
}

impl<'a> Replay<'a> {
    /// To be made to `state`. Keyed rows go to the versions that the state has.
    pub(crate) fn of(state: &Arc<Snapshot>, files: &'a ColumnFiles, freed: &'a Arc<FreedExtents>) -> Replay<'a> {
        let (state, commit) = (Arc::clone(state), state.commit);
        Replay { files, freed, state, commit, meta: None, gathered: BTreeMap::new(), rows: 0, bytes: 0 }
    }

    /// The last commit.
    pub(crate) fn commit(&self) -> CommitId {
        self.commit
    }

    /// Makes the next record.
    pub(crate) fn record(&mut self, record: &[u8]) -> Result<()> {
        match Change::appended(record)? {
            Some(appended) if appended.commit.0 == self.commit.0 + 1 => self.gather(appended),
            // Of a commit that does not follow this says so.
            _ => self.change(record),
        }
    }

    fn change(&mut self, record: &[u8]) -> Result<()> {
        self.settle()?;
        let (mut change, meta) = Change::decode(record, &self.state, self.files, self.freed)?;
        let mut next = change.apply(&self.state, self.files.memory())?.snapshot;
        if let Some(keyed) = &mut change.keyed {
            let store = self.state.keyed.store();
            store.apply(next.commit, keyed);
            next.keyed = store.unread_state(next.commit);
        }
        self.state = Arc::new(next);
        (self.commit, self.meta) = (self.state.commit, Some(meta));
        Ok(())
    }

    fn gather(&mut self, appended: Appended<'_>) -> Result<()> {
        for run in &appended.runs {
            if !self.gather_run(run)? {
                // It has other columns, or a gap is before it: rows for another run. Those of the same commit that are gathered already
                // are no harm, since nobody sees the state.
                self.settle()?;
                if !self.gather_run(run)? {
                    return Err(Error::internal("the first run of a table is always gathered"));
                }
            }
        }
        (self.commit, self.meta) = (appended.commit, Some(appended.meta));
        match self.rows >= GATHERED_ROWS_MAX || self.bytes >= GATHERED_BYTES_MAX {
            true => self.settle(),
            false => Ok(()),
        }
    }

    /// `false`, with nothing done, if the run cannot be put behind what is gathered of its table.
    fn gather_run(&mut self, run: &AppendedRun<'_>) -> Result<bool> {
        if !self.gathered.contains_key(&run.table) {
            let def = self.state.catalog.table_by_id(run.table);
            let def = def.ok_or_else(|| damaged(&format!("a table {} that is not there", run.table)))?;
            let runs = RunsInBytes::new(run.first_row, def);
            self.gathered.insert(run.table, Gathered { runs, next_row: run.next_row });
        }
        let of_table = self.gathered.get_mut(&run.table).expect("it was put there");
        let before = of_table.runs.rows();
        if !of_table.runs.push(run.first_row, run.bytes)? {
            return Ok(false);
        }
        if of_table.runs.end_row() > run.next_row {
            return Err(damaged("rows behind the last row"));
        }
        of_table.next_row = run.next_row;
        self.rows += of_table.runs.rows() - before;
        self.bytes += run.bytes.len();
        Ok(true)
    }

    /// Makes a state of what is gathered.
    fn settle(&mut self) -> Result<()> {
        (self.rows, self.bytes) = (0, 0);
        let memory = self.files.memory();
        let mut tables = BTreeMap::new();
        for (id, Gathered { runs, next_row }) in std::mem::take(&mut self.gathered) {
            let runs = vec![Arc::new(runs.finish()?.counted(memory))];
            tables.insert(id, TableChange { runs, next_row, ..TableChange::default() });
        }
        if !tables.is_empty() || self.state.commit != self.commit {
            let change = Change { catalog: Arc::clone(&self.state.catalog), tables, keyed: None };
            let next = change.apply(&self.state, memory)?.snapshot;
            self.state = Arc::new(Snapshot { commit: self.commit, ..next });
        }
        Ok(())
    }

    /// The state behind the last record, and the ids that come next, if there was one.
    pub(crate) fn finish(mut self) -> Result<(Arc<Snapshot>, Option<Meta>)> {
        self.settle()?;
        Ok((self.state, self.meta))
    }
}

fn damaged(problem: &str) -> Error {
    Error::corrupt(format!("a record of the log: {problem}"))
}
