//! The aggregates of a SELECT with a WINDOW JOIN.
//!
//! A WINDOW JOIN gives each left row with each right row in its window. With GROUP BY, these pairs are grouped like
//! other rows. Without GROUP BY, each left row is its own group: the aggregates of the select list are computed over
//! the right rows in its window, and the join itself computes them, so that the pairs are never made.

use std::collections::HashSet;

use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::logical::AggregateCall;
use rowmill_plan::{ColumnId, Logical, ScalarExpr};

use super::Binder;
use super::projection::SelectedItem;
use super::scope::WindowJoin;
use super::walk::{call_exprs, free_columns, inputs_mut, own_exprs};

impl Binder<'_> {
    /// Moves the aggregates of a SELECT without GROUP BY into the WINDOW JOINs of its FROM. Returns whether there are
    /// such joins.
    pub(super) fn aggregates_of_windows(&mut self, plan: &mut Logical) -> Result<bool> {
        let joins = std::mem::take(&mut self.level().window_joins);
        if joins.is_empty() || self.level().aggregates.is_empty() {
            return Ok(false);
        }
        for (id, call) in std::mem::take(&mut self.level().aggregates) {
            let join = owner(&call, &joins)?;
            let target = join_of(plan, &joins[join].right_columns)
                .ok_or_else(|| Error::internal("a WINDOW JOIN that is not in its FROM"))?;
            match target {
                Logical::OrderedJoin(join) => join.aggregates.get_or_insert_default().push((id, call)),
                _ => return Err(Error::internal("a WINDOW JOIN of another form")),
            }
        }
        // A join whose columns no aggregate reads would still repeat the left rows.
        for join in &joins {
            if let Some(Logical::OrderedJoin(join)) = join_of(plan, &join.right_columns) {
                join.aggregates.get_or_insert_default();
            }
        }
        let gone: HashSet<usize> = joins.into_iter().flat_map(|join| join.right_columns).collect();
        self.refuse_columns_above(plan, &gone)?;
        Ok(true)
    }

    /// Returns an error if an item names a column of the right side of a WINDOW JOIN outside of an aggregate.
    pub(super) fn refuse_window_columns(&self, items: &[SelectedItem], gone: &HashSet<usize>) -> Result<()> {
        for item in items {
            self.refuse_columns(&item.expr, gone).map_err(|error| self.at(error, item.span))?;
        }
        Ok(())
    }

    fn refuse_columns_above(&self, plan: &Logical, gone: &HashSet<usize>) -> Result<()> {
        if let Logical::OrderedJoin(join) = plan
            && join.aggregates.is_some()
        {
            return self.refuse_columns_above(&join.left, gone);
        }
        let mut result = Ok(());
        own_exprs(plan, &mut |expr| {
            if result.is_ok() {
                result = self.refuse_columns(expr, gone);
            }
        });
        result?;
        super::walk::inputs(plan).into_iter().try_for_each(|input| self.refuse_columns_above(input, gone))
    }

    pub(super) fn refuse_columns(&self, expr: &ScalarExpr, gone: &HashSet<usize>) -> Result<()> {
        match free_columns(expr).into_iter().find(|id| gone.contains(id)) {
            None => Ok(()),
            Some(id) => {
                let name = &self.columns.get(ColumnId(id)).name;
                let message =
                    format!("\"{name}\" is of the right side of a WINDOW JOIN, so it must be inside an aggregate");
                Err(Error::new(ErrorKind::Grouping, message).hint(
                    "a condition on it goes into FILTER (WHERE ...) of the aggregate, or into a subquery of FROM",
                ))
            }
        }
    }
}

/// The WINDOW JOIN whose rows an aggregate reads.
fn owner(call: &AggregateCall, joins: &[WindowJoin]) -> Result<usize> {
    let mut named = HashSet::new();
    call_exprs(call, &mut |expr| named.extend(free_columns(expr)));
    if named.is_empty() {
        return match joins {
            [_] => Ok(0),
            _ => Err(Error::new(ErrorKind::Grouping, "an aggregate without columns beside several WINDOW JOINs")
                .hint("count a column of one of the right sides")),
        };
    }
    let owner = joins.iter().position(|join| named.iter().all(|id| join.right_columns.contains(id)));
    owner.ok_or_else(|| {
        let message = "an aggregate of a WINDOW JOIN without GROUP BY must name columns of one right side only";
        Error::new(ErrorKind::Grouping, message).hint("with GROUP BY, aggregates are computed over pairs of rows")
    })
}

/// The join whose right side makes these columns.
fn join_of<'p>(plan: &'p mut Logical, columns: &HashSet<usize>) -> Option<&'p mut Logical> {
    if let Logical::OrderedJoin(join) = &*plan
        && crate::optimizer::walk::output(&join.right).iter().any(|id| columns.contains(&id.0))
    {
        return Some(plan);
    }
    inputs_mut(plan).into_iter().find_map(|input| join_of(input, columns))
}
