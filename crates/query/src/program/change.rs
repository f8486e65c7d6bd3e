//! Programs for statements that change rows: the rows to change, and the values that are computed from them.

use rowmill_base::SqlType;
use rowmill_plan::program::{ChangeTarget, Scalar};
use rowmill_plan::{ColumnId, Logical, ScalarExpr};
use rowmill_storage::TableDef;

use super::lookups::Wanted;
use super::scalar::Scope;
use super::stage::Stage;
use super::{ProgramBuilder, is_unrepeatable};
use crate::binder::BoundQuery;

/// The rows that a statement changes, and the values that it computes from them.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangedRowsQuery {
    /// The rows.
    pub target: ChangeTarget,
    /// The values of the result after the row number, over the columns of the lookups.
    pub values: Vec<Scalar>,
}

/// Finds the rows to change with a program. The first column of the bound and optimized query must be the number or the
/// key of a row of a stored table. Returns `None` if no program finds them.
pub fn changed_rows(bound: &BoundQuery) -> Option<ChangedRowsQuery> {
    if bound.reads_clock || !bound.sources.is_empty() || is_unrepeatable(bound) {
        return None;
    }
    let builder = ProgramBuilder::new(bound);
    let mut stage = Stage::of(&bound.query.root, &builder.definitions)?;
    if stage.relation.has_outer_row() {
        stage = stage.without_outer_rows(&builder.definitions)?;
    }
    // Each found row must be a row of the table, and all of them must be found.
    if stage.grouping.is_some() || stage.limit.is_some() || stage.skip.is_some() {
        return None;
    }
    let add_column = |of: &ScalarExpr| builder.definitions.add_column(of);
    let of = |stage: &Stage<'_>| {
        let relation = &stage.relation;
        let (lookups, filter) = builder.lookups(relation, &Scope::default(), 0, Wanted::default())?;
        // With another table besides the target, a row of the target could be found twice.
        let may_repeat = relation.sources.iter().filter(|source| !source.is_of_keys()).count() > 1;
        Some((lookups, filter, may_repeat))
    };
    let turned = stage.with_semi_joins_as_sources(&add_column);
    let (plain, turned) = (of(&stage), turned.as_ref().and_then(of));
    let (lookups, filter, may_repeat) = match (plain, turned) {
        (Some(plain), Some(turned)) => {
            if turned.0.cost < plain.0.cost {
                turned
            } else {
                plain
            }
        }
        (plain, turned) => plain.or(turned)?,
    };
    let row = lookups.target?;
    let values = bound.query.output.get(1..)?;
    let values = values.iter().map(|(id, _)| {
        let expr = builder.definitions.column(*id);
        let scope = &lookups.scope;
        scope.scalar(&builder.definitions.resolve(&expr, &|id| scope.has(id)))
    });
    let values = values.collect::<Option<_>>()?;
    Some(ChangedRowsQuery { target: ChangeTarget { lookups: lookups.lookups, row, filter, may_repeat }, values })
}

/// Expressions over the columns of rows, where the columns are numbered consecutively: first those of the first table,
/// then those of the second. For example, the values of INSERT are bound over no table, conditions of CHECK over one,
/// and the assignments of ON CONFLICT over the existing row and `excluded`.
pub fn row_values<'e>(exprs: impl IntoIterator<Item = &'e ScalarExpr>, rows: &[&TableDef]) -> Option<Vec<Scalar>> {
    scope_of(rows).scalars(exprs)
}

/// The values of [`bind_items`](crate::binder::bind_items) over the columns of a table, for RETURNING.
pub fn computed_values(bound: &BoundQuery, table: &TableDef) -> Option<Vec<Scalar>> {
    if bound.reads_clock || is_unrepeatable(bound) {
        return None;
    }
    let Logical::Map { input, exprs } = &bound.query.root else { return None };
    if !matches!(**input, Logical::Values { .. }) {
        return None;
    }
    let scope = scope_of(&[table]);
    let value = |id: &ColumnId| match exprs.iter().find(|(own, _)| own == id) {
        Some((_, expr)) => scope.scalar(expr),
        None => scope.scalar(&bound.query.columns.expr(*id)),
    };
    bound.query.output.iter().map(|(id, _)| value(id)).collect()
}

fn scope_of(rows: &[&TableDef]) -> Scope {
    let mut scope = Scope::default();
    let columns = rows
        .iter()
        .enumerate()
        .flat_map(|(row, def)| def.columns.iter().enumerate().map(move |(at, column)| (row, at, column.kind.clone())));
    let mut add = |(id, (row, at, kind)): (usize, (usize, usize, SqlType))| scope.add(id, kind, row, at);
    columns.enumerate().for_each(&mut add);
    scope
}
