//! `WITH RECURSIVE` over few rows.

use rowmill_base::SqlType;
use rowmill_plan::program::{LookupSource, Recursion};
use rowmill_plan::{ColumnId, Logical};

use super::ProgramBuilder;
use super::lookups::RowsInMemory;
use super::scalar::{Scope, sql_type};
use super::stage::Stage;

/// The rounds that we assume.
const ROUNDS: f64 = 10.0;

impl<'p> ProgramBuilder<'p> {
    /// Plans the rows of all rounds. The reads are numbered from `row` and can refer to the columns of `known`.
    pub(super) fn recursion(&self, plan: &'p Logical, known: &Scope, row: usize) -> Option<RowsInMemory> {
        let Logical::Recursive { number, base, base_columns, step, step_columns, distinct, columns } = plan else {
            return None;
        };
        let base = self.read(&Stage::of(base, &self.definitions)?, known, row, base_columns)?;
        // Within the step, the rows of the last round can be found by the recursion's number.
        self.rounds.borrow_mut().push(*number);
        let step = Stage::of(step, &self.definitions).and_then(|stage| self.read(&stage, known, row, step_columns));
        self.rounds.borrow_mut().pop();
        let step = step?;
        let kinds: Vec<_> = columns.iter().map(|id| self.definitions.kind(*id)).collect();
        // Base and step must agree with the declared types, because programs do not cast here.
        let is_same = |output: Vec<SqlType>| output.iter().map(SqlType::arrow).eq(kinds.iter().cloned());
        let has_keys = !distinct || base.read.output().iter().all(SqlType::is_ordered);
        if !is_same(base.read.output()) || !is_same(step.read.output()) || !has_keys {
            return None;
        }
        let rows = base.rows + step.rows * ROUNDS;
        let cost = base.cost + step.cost * ROUNDS;
        let recursion = Recursion { base: vec![base.read], step: step.read, distinct: *distinct };
        Some(RowsInMemory { source: LookupSource::Recursion(Box::new(recursion)), rows, cost })
    }

    /// The rows of the previous round of the recursion `number`, which must be one of the enclosing recursions.
    pub(super) fn last_round(&self, number: usize, columns: &[ColumnId]) -> Option<RowsInMemory> {
        let outwards = self.rounds.borrow().iter().rev().position(|around| *around == number)?;
        let kinds = columns.iter().map(|id| sql_type(&self.definitions.kind(*id))).collect::<Option<_>>()?;
        Some(RowsInMemory { source: LookupSource::LastRound(outwards, kinds), rows: 1.0, cost: 0.0 })
    }
}
