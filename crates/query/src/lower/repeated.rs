//! Rows that come several times or once: items of lists, recursive queries, single rows.

use std::sync::Arc;

use arrow::datatypes::DataType;
use rowmill_base::{Error, Result};
use rowmill_plan::{self as plan, ColumnId, Logical, Node, ScalarExpr};

use super::Lowerer;
use super::relation::Relation;
use crate::column_set::ColumnSet;

impl Lowerer<'_> {
    /// The first row of each combination of `by`.
    pub(super) fn first_rows(&mut self, input: &Logical, by: &[ColumnId], needed: &ColumnSet) -> Result<Relation> {
        let (input, by) = self.with_ids(input, by, needed)?;
        let below = Arc::clone(input.node());
        Ok(input.over(Node::FirstRows { input: below, by }))
    }

    /// At most one row for each combination of `by`.
    pub(super) fn single_row(&mut self, input: &Logical, by: &[ColumnId], needed: &ColumnSet) -> Result<Relation> {
        let (input, by) = self.with_ids(input, by, needed)?;
        let below = Arc::clone(input.node());
        Ok(input.over(Node::SingleRow { input: below, by }))
    }

    /// The rows of `input`, in whose source all of `ids` are columns, and the positions of those.
    fn with_ids(&mut self, input: &Logical, ids: &[ColumnId], needed: &ColumnSet) -> Result<(Relation, Vec<usize>)> {
        let mut read = needed.clone();
        ids.iter().for_each(|id| read.insert(*id));
        let rows = self.lower(input, &read)?;
        let rows = self.settled(rows, &read)?;
        let exprs: Vec<ScalarExpr> = ids.iter().map(|id| self.columns.expr(*id)).collect();
        let (rows, made) = self.with_columns(rows, &exprs)?;
        let positions = made.iter().map(|id| rows.position(*id).expect("the column was made")).collect();
        Ok((rows, positions))
    }

    pub(super) fn unnest(
        &mut self,
        input: &Logical,
        lists: &[(ColumnId, ScalarExpr)],
        ordinality: Option<ColumnId>,
        outer: bool,
        needed: &ColumnSet,
    ) -> Result<Relation> {
        let mut read = needed.clone();
        lists.iter().for_each(|(_, list)| read.insert_all(list));
        let rows = self.lower(input, &read)?;
        let mut rows = self.settled(rows, &read)?;
        rows.keep_derived(needed);
        let exprs: Vec<ScalarExpr> = lists.iter().map(|(_, list)| list.clone()).collect();
        let (rows, made) = self.with_columns(rows, &exprs)?;
        let mut kept = needed.clone();
        rows.derived.iter().for_each(|(_, expr)| kept.insert_all(expr));
        let keep: Vec<usize> = (0..rows.ids.len()).filter(|place| kept.contains(rows.ids[*place])).collect();
        let mut ids: Vec<ColumnId> = keep.iter().map(|place| rows.ids[*place]).collect();
        ids.extend(lists.iter().map(|(id, _)| *id));
        ids.extend(ordinality);
        let node = plan::Unnest {
            input: Arc::clone(rows.node()),
            keep,
            lists: made.iter().map(|id| rows.position(*id).expect("the column was made")).collect(),
            ordinality: ordinality.is_some(),
            outer,
            schema: self.schema(&ids),
        };
        Ok(Relation { derived: rows.derived, ..Relation::new(Node::Unnest(node), ids) })
    }

    pub(super) fn recursive(&mut self, query: &Logical) -> Result<Relation> {
        let Logical::Recursive { number, base, base_columns, step, step_columns, distinct, columns } = query else {
            return Err(Error::internal("a recursive query is dispatched by its kind"));
        };
        let base = self.lower(base, &base_columns.iter().copied().collect())?;
        let base = self.exactly(base, base_columns)?;
        let step = self.lower(step, &step_columns.iter().copied().collect())?;
        let step = self.exactly(step, step_columns)?;
        debug_assert!(columns.iter().all(|id| *self.kind(*id) != DataType::Null), "NULL columns were given a type");
        let schema = self.schema(columns);
        let node = plan::Recursive { number: *number, base, step, distinct: *distinct, schema };
        Ok(Relation::new(Node::Recursive(node), columns.clone()))
    }
}
