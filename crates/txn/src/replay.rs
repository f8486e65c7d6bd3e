//! Applies records of the log to a state, one after the other.
//!
//! A long log mostly holds commits that append a few rows. Making a state for each would cost many times more than
//! reading its bytes. So we collect such rows and make a run and a state when there are enough of them, when another
//! kind of record follows, or at the end. No reader sees a state in between.

use std::collections::BTreeMap;
use std::sync::Arc;

use rowmill_base::{CommitId, Error, Result, RowNumber, TableId};
use rowmill_storage::{FreedExtents, RunsInBytes};

use crate::change::{CommitChange, TableChange};
use crate::column_files::ColumnFiles;
use crate::commit_record::{CommitRecord, RowsRecord, TableRecord, damaged};
use crate::manifest::Meta;
use crate::snapshot::Snapshot;

/// At most this many rows, or bytes of them in the log, are collected.
const GATHERED_ROWS_MAX: usize = 1 << 16;
const GATHERED_BYTES_MAX: usize = 8 << 20;

/// A state that records are applied to.
#[derive(Debug)]
pub(crate) struct Replay<'a> {
    files: &'a ColumnFiles,
    freed: &'a Arc<FreedExtents>,
    /// The state without the collected rows.
    state: Arc<Snapshot>,
    /// The last commit, whose rows may only be collected.
    commit: CommitId,
    meta: Option<Meta>,
    gathered: BTreeMap<TableId, ReplayedRows>,
    rows: usize,
    bytes: usize,
}

/// Rows of a table that come after those of the state.
#[derive(Debug)]
struct ReplayedRows {
    runs: RunsInBytes,
    next_row: RowNumber,
}

impl<'a> Replay<'a> {
    /// Starts with `state`. Keyed rows go to the versions that the state has.
    pub(crate) fn of(state: &Arc<Snapshot>, files: &'a ColumnFiles, freed: &'a Arc<FreedExtents>) -> Replay<'a> {
        let (state, commit) = (Arc::clone(state), state.commit);
        Replay { files, freed, state, commit, meta: None, gathered: BTreeMap::new(), rows: 0, bytes: 0 }
    }

    /// The last commit.
    pub(crate) fn commit(&self) -> CommitId {
        self.commit
    }

    /// Applies the next record.
    pub(crate) fn record(&mut self, record: &[u8]) -> Result<()> {
        let record = CommitRecord::read(record)?;
        match record.only_appends() && record.commit.0 == self.commit.0 + 1 {
            true => self.gather(record),
            // Everything else, also a record with a gap before it: the change of it reports that as an error.
            false => self.change(record),
        }
    }

    fn change(&mut self, record: CommitRecord<'_>) -> Result<()> {
        self.settle()?;
        let (mut change, meta) = record.change(&self.state, self.files, self.freed)?;
        let mut next = change.apply(&self.state, self.files.memory())?.snapshot;
        if let Some(keyed) = &mut change.keyed {
            let store = self.state.keyed.store();
            // The job that makes statistics counts from the opening on.
            let _ = store.apply(next.commit, keyed);
            next.keyed = store.unread_state(next.commit);
        }
        self.state = Arc::new(next);
        (self.commit, self.meta) = (self.state.commit, Some(meta));
        Ok(())
    }

    fn gather(&mut self, record: CommitRecord<'_>) -> Result<()> {
        for table in &record.tables {
            for run in &table.runs {
                if !self.gather_run(table, run)? {
                    // The run has other columns than the collected rows, or its numbers do not follow. We settle and
                    // start another run. Earlier runs of the same commit may become part of a state too early, but no
                    // reader sees that state.
                    self.settle()?;
                    if !self.gather_run(table, run)? {
                        return Err(Error::internal("the first run of a table is always gathered"));
                    }
                }
            }
        }
        (self.commit, self.meta) = (record.commit, Some(record.meta));
        match self.rows >= GATHERED_ROWS_MAX || self.bytes >= GATHERED_BYTES_MAX {
            true => self.settle(),
            false => Ok(()),
        }
    }

    /// Collects a run. Returns `false`, without any change, if it cannot follow the collected rows of its table.
    fn gather_run(&mut self, table: &TableRecord<'_>, run: &RowsRecord<'_>) -> Result<bool> {
        let (id, next_row) = (table.table, table.next_row);
        if !self.gathered.contains_key(&id) {
            let def = self.state.catalog.table_by_id(id);
            let def = def.ok_or_else(|| damaged(&format!("table {id} does not exist")))?;
            let runs = RunsInBytes::new(run.first_row, def);
            self.gathered.insert(id, ReplayedRows { runs, next_row });
        }
        let of_table = self.gathered.get_mut(&id).expect("it was inserted above");
        let before = of_table.runs.rows();
        if !of_table.runs.push(run.first_row, run.bytes)? {
            return Ok(false);
        }
        if of_table.runs.end_row() > next_row {
            return Err(damaged("rows after the last row"));
        }
        of_table.next_row = next_row;
        self.rows += of_table.runs.rows() - before;
        self.bytes += run.bytes.len();
        Ok(true)
    }

    /// Turns the collected rows into runs and makes the state that has them.
    fn settle(&mut self) -> Result<()> {
        (self.rows, self.bytes) = (0, 0);
        let memory = self.files.memory();
        let mut tables = BTreeMap::new();
        for (id, ReplayedRows { runs, next_row }) in std::mem::take(&mut self.gathered) {
            let runs = vec![Arc::new(runs.finish()?.counted(memory))];
            tables.insert(id, TableChange { runs, next_row, ..TableChange::default() });
        }
        if !tables.is_empty() || self.state.commit != self.commit {
            let change = CommitChange { catalog: Arc::clone(&self.state.catalog), tables, keyed: None };
            let next = change.apply(&self.state, memory)?.snapshot;
            self.state = Arc::new(Snapshot { commit: self.commit, ..next });
        }
        Ok(())
    }

    /// Returns the state after the last record, and the next ids if there was a record.
    pub(crate) fn finish(mut self) -> Result<(Arc<Snapshot>, Option<Meta>)> {
        self.settle()?;
        Ok((self.state, self.meta))
    }
}
