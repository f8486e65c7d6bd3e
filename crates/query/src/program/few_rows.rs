//! The first rows of an order, when conditions and order have different keys.
//!
//! ```text
//! WHERE status = $1 ORDER BY created DESC LIMIT 20     with an index on status and an index on created
//! ```
//!
//! A search by `created` is short if many rows match, a read by `status` if few do. Only the values of the parameters
//! tell, so the program must have both reads, and counts the rows by `status` before it chooses. It should not count
//! if statistics say that few rows match any value.

use rowmill_plan::logical::{LogicalScan, LogicalSortKey};
use rowmill_plan::program::{FewRows, LookupSource, NestedLookup, ReadOutput, ReadPlan};
use rowmill_plan::{ColumnId, ScalarExpr};

use super::ProgramBuilder;
use super::access::{KeyChoice, choices};
use super::key_condition::OwnColumns;
use super::lookups::SEARCHED_ROWS;
use super::output::ROWS_OF_A_PAGE;
use super::scalar::Scope;
use super::spread::ValueSpread;
use super::stage::Stage;

/// By this factor, fewer rows than the limit must be expected for a read by the conditions alone.
const CERTAINLY_FEW: f64 = 10.0;

impl<'p> ProgramBuilder<'p> {
    /// Two reads in place of `read`, if the stage can be read both by its conditions and in its order. `order`
    /// is the order of the stage over the columns of its scan, and `is_ordered` says whether `read` follows it.
    pub(super) fn with_few_rows(
        &self,
        stage: &Stage<'p>,
        (order, is_ordered): (&[LogicalSortKey], bool),
        outer: &Scope,
        first_row: usize,
        ids: &[ColumnId],
        read: &ReadPlan,
    ) -> Option<ReadPlan> {
        let (scan, needed) = (stage.only_scan()?, stage.cut()?);
        let [NestedLookup { source: LookupSource::Table(_), .. }] = &read.lookups[..] else { return None };
        // A read by a key that gives both conditions and order needs no second one.
        if order.is_empty() || is_ordered && read.rows_max != Some(SEARCHED_ROWS) {
            return None;
        }
        let source = &*self.tables[scan.table];
        let own = OwnColumns { def: source.table(), columns: &scan.columns, known: outer };
        let known = |id: usize| scan.columns.iter().any(|(own, _)| own.0 == id) || outer.has(id);
        let conditions = stage.conditions_of(scan).map(|expr| self.definitions.resolve(expr, &known));
        let conditions: Vec<ScalarExpr> = conditions.collect();
        let facts = ValueSpread::of(source);
        let choices = choices(&own, &conditions.iter().collect::<Vec<_>>(), &facts);
        let by_conditions = choices.iter().find(|choice| choice.narrows())?;
        let by_order = choices.iter().find(|choice| !choice.narrows() && choice.gives(order, &own).is_some())?;
        let by_key = self.read_by(stage, scan, &conditions, by_conditions.clone(), false, outer, first_row, ids)?;
        let late = self.with_late_rows(stage, outer, first_row, ids, &by_key);
        let few = FewRows {
            counted: by_conditions.access.clone(),
            needed,
            table_rows: source.row_count(),
            read: late.unwrap_or(by_key),
        };
        let few_max = few.rows_max(ROWS_OF_A_PAGE as u64, SEARCHED_ROWS) as f64;
        let are_few = facts.is_known() && by_conditions.rows * CERTAINLY_FEW < few_max;
        if by_conditions.is_point || !is_ordered && are_few {
            return None;
        }
        let mut by_order = by_order.clone();
        by_order.access.backward = by_order.gives(order, &own)?;
        let searched = self.read_by(stage, scan, &conditions, by_order, true, outer, first_row, ids)?;
        Some(ReadPlan { rows_max: Some(SEARCHED_ROWS), few: Some(Box::new(few)), ..searched })
    }

    /// The read of a stage by one key of its only table.
    #[expect(clippy::too_many_arguments, reason = "a stage, its key, and the rows around it")]
    fn read_by(
        &self,
        stage: &Stage<'p>,
        scan: &LogicalScan,
        conditions: &[ScalarExpr],
        key: KeyChoice,
        is_ordered: bool,
        outer: &Scope,
        first_row: usize,
        ids: &[ColumnId],
    ) -> Option<ReadPlan> {
        let mut scope = outer.clone();
        let lookups = vec![self.lookup_by(key, scan, conditions, first_row, &mut scope)?];
        let (output, _) = self.rows(stage, &scope, ids, is_ordered)?;
        let output = ReadOutput::Rows(output);
        Some(ReadPlan { lookups, filter: None, output, for_update: false, rows_max: None, few: None })
    }
}
