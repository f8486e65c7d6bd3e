//! LATEST ON: the newest row of each combination of keys.
//!
//! ```text
//! FROM trades WHERE ... LATEST ON ts PARTITION BY symbol
//! =  the rows whose number is 1, numbered for each symbol from the newest row on
//! ```
//!
//! WHERE filters the rows before the newest ones are chosen. Of rows with the same time the one that was added to its
//! table last is taken. A row without a time is taken only if all rows of its keys have none.

use arrow::datatypes::DataType;
use rowmill_base::{Error, Result};
use rowmill_plan::logical::{LogicalSortKey, LogicalWindow, LogicalWindowCall};
use rowmill_plan::{ColumnId, CompareOp, Logical, ScalarExpr};
use sqlparser::ast::Expr;

use super::Binder;
use super::call::arguments_of;

impl Binder<'_> {
    /// Binds what replaces a LATEST ON clause in the syntax tree: the call `"latest on"(...)` in DISTRIBUTE BY.
    pub(super) fn latest_on(&mut self, plan: Logical, clause: &[Expr]) -> Result<Logical> {
        let [Expr::Function(call)] = clause else { return Ok(plan) };
        let arguments = arguments_of(call)?;
        let Some((time, keys)) = arguments.split_first() else {
            return Err(Error::internal("a LATEST ON without its parts"));
        };
        let time = self.expr(time)?;
        let partition = keys.iter().map(|key| self.expr(key)).collect::<Result<Vec<_>>>()?;
        let mut plan = plan;
        let mut order = vec![newest_first(time)];
        if let Some(arrival) = self.arrival(&mut plan) {
            order.push(newest_first(self.columns.expr(arrival)));
        }
        let number = self.add_column("row", DataType::Int64);
        let calls = vec![(number, LogicalWindowCall::row_number())];
        let window = LogicalWindow { input: Box::new(plan), partition, order, calls, top: None };
        let first = ScalarExpr::compare(self.columns.expr(number), CompareOp::Equal, ScalarExpr::literal(1_i64));
        Ok(Logical::filter(Logical::Window(window), vec![first]))
    }

    /// Returns a column that orders the rows of a plan by their arrival, if they are rows of one columnar table.
    pub(super) fn arrival(&mut self, plan: &mut Logical) -> Option<ColumnId> {
        match plan {
            Logical::Filter { input, .. } | Logical::Map { input, .. } => self.arrival(input),
            Logical::Scan(scan) if self.tables[scan.table].table().keyed.is_none() => {
                let known = scan.row_number;
                Some(known.unwrap_or_else(|| {
                    let id = self.add_column("row number", DataType::UInt64);
                    scan.row_number = Some(id);
                    id
                }))
            }
            _ => None,
        }
    }
}

fn newest_first(expr: ScalarExpr) -> LogicalSortKey {
    LogicalSortKey { expr, descending: true, nulls_first: false }
}
