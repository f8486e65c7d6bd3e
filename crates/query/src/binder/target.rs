//! The rows of a table that UPDATE, DELETE and MERGE change, with the values computed from them.

use arrow::datatypes::DataType;
use rowmill_base::Result;
use rowmill_plan::logical::LogicalJoinKind;
use rowmill_plan::{ColumnId, Logical};
use sqlparser::ast;

use super::from::FromPart;
use super::place::{start_of, unsupported};
use super::query::{conjuncts, filter, map};
use super::scope::{Clause, FromNames, NamedColumn, SelectLevel};
use super::{Binder, BoundQuery, BoundRows};
use crate::catalog::QueryCatalog;

/// The rows of a table that a statement changes, and the values that it needs from them.
#[derive(Clone, Copy, Debug)]
pub struct TargetRows<'q> {
    /// `WITH` before the statement.
    pub with: Option<&'q ast::With>,
    /// The table, with its alias.
    pub target: &'q ast::TableFactor,
    /// Whether the first column of the result is the row number of the target: BIGINT UNSIGNED, or NULL if a row of the
    /// other tables has no partner.
    pub row_number: bool,
    /// The tables joined to the target: FROM of UPDATE, USING of DELETE and MERGE.
    pub others: &'q [ast::TableWithJoins],
    /// How the target is joined to the others.
    pub join: TargetJoin<'q>,
    /// The condition on the joined rows: WHERE.
    pub condition: Option<&'q ast::Expr>,
    /// The values to compute.
    pub values: &'q [TargetValue<'q>],
}

/// How the other tables are joined to the target.
#[derive(Clone, Copy, Debug)]
pub enum TargetJoin<'q> {
    /// Every pair: FROM and USING.
    Pairs,
    /// `MERGE ... ON condition`
    Merge {
        /// Which rows are partners.
        on: &'q ast::Expr,
        /// Whether rows of the source without a partner are given: WHEN NOT MATCHED.
        keeps_source: bool,
        /// Whether rows of the target without a partner are given: WHEN NOT MATCHED BY SOURCE.
        keeps_target: bool,
    },
}

/// A value that is computed from joined rows.
#[derive(Clone, Copy, Debug)]
pub struct TargetValue<'q> {
    /// The value.
    pub expr: &'q ast::Expr,
    /// The type that it is cast to.
    pub kind: Option<&'q DataType>,
    /// The tables whose columns it may name.
    pub sees: TargetNames,
}

/// The tables whose columns a value may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetNames {
    /// Those of the target and of the other tables.
    All,
    /// Those of the target: WHEN NOT MATCHED BY SOURCE.
    Target,
    /// Those of the other tables: WHEN NOT MATCHED.
    Others,
}

/// Binds the rows that a statement changes, and its values. The result has the row number if it is requested, then the
/// columns of the target in order, then the values.
pub fn bind_target(
    rows: &TargetRows<'_>,
    clause: &'static str,
    catalog: &dyn QueryCatalog,
    spelling: &dyn Fn(&ast::Ident) -> String,
    parameters: &[DataType],
) -> Result<BoundQuery> {
    let mut binder = Binder::new(catalog, spelling, parameters);
    if let Some(with) = rows.with {
        binder.with_clause(with)?;
    }
    let bound = binder.target_rows(rows, clause)?;
    binder.check_unused_withs(0)?;
    Ok(binder.finish(bound))
}

impl Binder<'_> {
    fn target_rows(&mut self, rows: &TargetRows<'_>, clause: &'static str) -> Result<BoundRows> {
        self.levels.push(SelectLevel::new(self.columns_end()));
        let target = self.tables_of_from(&[table(rows.target)])?;
        let target_names = self.level().names.pop().unwrap_or_default();
        let columns = target_names.visible.clone();
        let mut target = FromPart { plan: target, names: target_names };
        let row_number = match rows.row_number {
            true => Some(self.number_rows(&mut target.plan)?),
            false => None,
        };
        // LATERAL items can see the names of the target, and the other tables must have different names.
        self.level().names = vec![target.names.clone()];
        let others = match rows.others {
            [] => None,
            items => {
                let plan = self.other_tables(items, &target.names)?;
                Some(plan)
            }
        };
        let others_names = others.as_ref().map_or_else(FromNames::default, |part| part.names.clone());
        let all_names = target.names.clone().and(others_names.clone());
        self.level().names = vec![all_names.clone()];
        let mut plan = self.join_target(target.plan, others, &rows.join)?;
        let end = self.columns_end();
        self.level().end = Some(end);
        self.level().clause = Clause::Where;
        if let Some(condition) = rows.condition {
            let condition = self.condition(condition)?;
            filter(&mut plan, condition);
        }
        self.level().clause = Clause::Other(clause);
        let mut output: Vec<NamedColumn> = Vec::with_capacity(1 + columns.len() + rows.values.len());
        output.extend(row_number.map(|id| NamedColumn::new(id, "row number")));
        output.extend(columns);
        let mut computed = Vec::with_capacity(rows.values.len());
        for value in rows.values {
            let names = match value.sees {
                TargetNames::All => all_names.clone(),
                TargetNames::Target => target.names.clone(),
                TargetNames::Others => others_names.clone(),
            };
            self.level().names = vec![names];
            let bound = self.expr(value.expr)?;
            let bound = match value.kind {
                Some(kind) => {
                    let bound = self.typed_parameter(bound, kind);
                    self.placed(start_of(value.expr), |binder| binder.coerce(bound, kind))?
                }
                None => bound,
            };
            let id = self.add_column("value", bound.kind.clone());
            output.push(NamedColumn::new(id, "value"));
            computed.push((id, bound));
        }
        map(&mut plan, computed);
        self.levels.pop();
        Ok(BoundRows { plan, columns: output })
    }

    fn other_tables(&mut self, items: &[ast::TableWithJoins], target: &FromNames) -> Result<FromPart> {
        let mut part: Option<FromPart> = None;
        for item in items {
            let next = self.table_with_joins(item)?;
            let joined = match part.take() {
                None => next,
                Some(left) => FromPart { plan: every_pair(left.plan, next.plan), names: left.names.and(next.names) },
            };
            self.level().names = vec![target.clone(), joined.names.clone()];
            part = Some(joined);
        }
        Ok(part.expect("a FROM clause has at least one item"))
    }

    fn join_target(&mut self, target: Logical, others: Option<FromPart>, join: &TargetJoin<'_>) -> Result<Logical> {
        let Some(others) = others else { return Ok(target) };
        let (on, keeps_source, keeps_target) = match join {
            TargetJoin::Pairs => return Ok(every_pair(target, others.plan)),
            TargetJoin::Merge { on, keeps_source, keeps_target } => (on, *keeps_source, *keeps_target),
        };
        let conditions = conjuncts(self.condition(on)?);
        let (kind, left, right) = match (keeps_source, keeps_target) {
            (false, false) => (LogicalJoinKind::Inner, target, others.plan),
            (false, true) => (LogicalJoinKind::Left, target, others.plan),
            (true, false) => (LogicalJoinKind::Left, others.plan, target),
            (true, true) => (LogicalJoinKind::Full, target, others.plan),
        };
        Ok(Logical::join(kind, left, right, conditions))
    }

    /// Makes the scan of the target give its row numbers.
    fn number_rows(&mut self, plan: &mut Logical) -> Result<ColumnId> {
        let Logical::Scan(scan) = plan else {
            return Err(unsupported("changing rows of a source that is not a table"));
        };
        let id = self.add_column("row number", DataType::UInt64);
        scan.row_number = Some(id);
        Ok(id)
    }
}

fn every_pair(left: Logical, right: Logical) -> Logical {
    Logical::join(LogicalJoinKind::Inner, left, right, Vec::new())
}

fn table(factor: &ast::TableFactor) -> ast::TableWithJoins {
    ast::TableWithJoins { relation: factor.clone(), joins: Vec::new() }
}
