//! `INSERT ... ON CONFLICT` in the engine: gathers the rows, and inserts them with the program that inserts one row.

use std::sync::Arc;

use arrow::array::RecordBatch;
use rowmill_base::{Error, ErrorKind, Result, SqlType};
use rowmill_plan::write::Write;
use rowmill_program::{Compiled, ProgramScratch, ResultRows};
use rowmill_query::binder::BoundQuery;
use rowmill_storage::TableDef;
use rowmill_storage::keyed::ColumnValues;
use rowmill_txn::{Snapshot, Transaction};

use crate::outcome::{Outcome, RowStream};
use crate::program::{StatementProgram, insert_of_row};
use crate::session::Work;

/// Rows to insert, and the program that inserts one of them.
pub(super) struct ConflictRows {
    kinds: Vec<SqlType>,
    made: StatementProgram,
    compiled: Compiled,
    /// The columns of the batches, and how many rows each batch has.
    batches: Vec<(Vec<ColumnValues>, usize)>,
}

impl ConflictRows {
    pub(super) fn new(
        work: &Work<'_>,
        view: &Arc<Snapshot>,
        table: &TableDef,
        plan: &Write<BoundQuery>,
    ) -> Result<ConflictRows> {
        let made = work.with_planning_room(|| insert_of_row(table, plan, work.params))?;
        let made = made.ok_or_else(too_much)?;
        let compiled = Compiled::new(&made.program, view.catalog())?;
        let kinds = table.columns.iter().map(|column| column.kind.clone()).collect();
        Ok(ConflictRows { kinds, made, compiled, batches: Vec::new() })
    }

    /// Adds rows of the table.
    pub(super) fn add(&mut self, rows: &RecordBatch) -> Result<()> {
        let columns = rows.columns().iter().zip(&self.kinds).map(|(values, kind)| ColumnValues::new(values, kind));
        self.batches.push((columns.collect::<Result<_>>()?, rows.num_rows()));
        Ok(())
    }

    /// Inserts all rows as one statement, so that none of them changes another.
    pub(super) fn finish(self, work: &Work<'_>, transaction: &mut Transaction, tag: &'static str) -> Result<Outcome> {
        let (mut scratch, mut given) = (ProgramScratch::default(), ResultRows::default());
        scratch.set_cancel(work.cancel.clone());
        let rows = self.compiled.run_for_rows(transaction, &self.batches, &mut scratch, &mut given)?;
        Ok(match self.made.schema {
            None => Outcome::Changed { tag, rows },
            Some(schema) => Outcome::Rows(RowStream::ready(given.to_batch(&schema)?)),
        })
    }
}

/// Returns the error for a clause that has no program.
fn too_much() -> Error {
    let what = "INSERT ... ON CONFLICT with SET, WHERE or RETURNING that need more than the row is not supported";
    Error::new(ErrorKind::Unsupported, what).hint("MERGE can compute them")
}
