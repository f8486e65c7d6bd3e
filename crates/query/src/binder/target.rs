//! The rows of a table that UPDATE, DELETE and MERGE change, with the values computed from them.
//!
//! ```text
//! UPDATE t SET b = b + 1 FROM u WHERE t.a = u.a   row of t, b + 1
//! MERGE INTO t USING u ON t.a = u.a               row of t, number of the clause, values of clause 0, of clause 1, ...
//! ```
//!
//! A row of a MERGE belongs to the first clause that it meets. For example, `WHEN MATCHED AND t.b > 1` comes before
//! `WHEN MATCHED`. The values of the other clauses are NULL there and are
//! not computed, so they cannot fail.

use arrow::datatypes::DataType;
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::logical::LogicalJoinKind;
use rowmill_plan::{ColumnId, CompareOp, ExprOp, Logical, ScalarExpr};
use rowmill_storage::TableDef;
use sqlparser::ast;

use super::from::{FromPart, cross};
use super::place::unsupported;
use super::query::{conjuncts, filter, map};
use super::scope::{Clause, FromNames, NamedColumn, ScopeRelation, SelectLevel};
use super::{Binder, BoundQuery, BoundRows, ExprColumn};
use crate::catalog::QueryCatalog;

/// The rows of a table that a statement changes, and the values that it needs from them.
#[derive(Clone, Copy, Debug)]
pub struct TargetRows<'q> {
    /// `WITH` before the statement.
    pub with: Option<&'q ast::With>,
    /// The table, with its alias.
    pub target: &'q ast::TableFactor,
    /// The tables joined to the target: FROM of UPDATE, USING of DELETE and MERGE.
    pub others: &'q [ast::TableWithJoins],
    /// The condition on the joined rows: WHERE.
    pub condition: Option<&'q ast::Expr>,
    /// The values to compute.
    pub values: TargetValues<'q>,
}

/// `RETURNING` of a statement that joins other tables to its target.
#[derive(Clone, Copy, Debug)]
pub struct ReturnedItems<'q> {
    /// The list after RETURNING.
    pub items: &'q [ast::SelectItem],
    /// The columns of the row that the statement writes or removes.
    pub row: &'q [ExprColumn],
}

/// A bound `RETURNING`.
#[derive(Clone, Debug)]
pub struct BoundReturning {
    /// The items, over the columns of the row and then those of `beside`, as [`super::bind_items`] binds them.
    pub query: BoundQuery,
    /// The names and types of the columns of the other tables that the items read. The query of the target gives these
    /// columns last, in the same order.
    pub beside: Vec<(String, DataType)>,
}

impl BoundReturning {
    /// `RETURNING` that reads no other table.
    pub fn of_row(query: BoundQuery) -> BoundReturning {
        BoundReturning { query, beside: Vec::new() }
    }
}

/// The values that a statement computes from joined rows.
#[derive(Clone, Copy, Debug)]
pub enum TargetValues<'q> {
    /// One list for every pair of rows: UPDATE and DELETE.
    Pairs(&'q [TargetValue<'q>]),
    /// One list for each clause: MERGE.
    Merge {
        /// Which rows are partners.
        on: &'q ast::Expr,
        /// The clauses in order.
        clauses: &'q [MergeClause<'q>],
    },
}

/// A `WHEN` clause of MERGE.
#[derive(Clone, Debug)]
pub struct MergeClause<'q> {
    /// The rows that the clause is for.
    pub rows: MergeRows,
    /// The condition after AND.
    pub condition: Option<&'q ast::Expr>,
    /// What happens to the row, as `merge_action` names it: INSERT, UPDATE or DELETE.
    pub action: &'static str,
    /// The values of the clause.
    pub values: Vec<TargetValue<'q>>,
}

/// The joined rows that a clause of MERGE is for. They decide which tables the clause may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeRows {
    /// Pairs of partners: WHEN MATCHED.
    Partners,
    /// Rows of the target without a partner: WHEN NOT MATCHED BY SOURCE.
    Target,
    /// Rows of the source without a partner: WHEN NOT MATCHED.
    Source,
}

/// A value that is computed from joined rows.
#[derive(Clone, Copy, Debug)]
pub enum TargetValue<'q> {
    /// The column of the target at this position.
    Column(usize),
    /// An expression. A parameter or NULL without a type gets the type `kind`.
    Expr {
        /// The expression.
        expr: &'q ast::Expr,
        /// The type of the column that takes the value.
        kind: &'q DataType,
    },
    /// A column of a subquery that gives at most one row: `SET (a, b) = (SELECT ...)`. Values of one subquery share it.
    Subquery {
        /// The subquery.
        query: &'q ast::Query,
        /// The position of the column.
        column: usize,
        /// The number of columns that the subquery must have.
        of: usize,
    },
}

/// Binds the rows that a statement changes, and its values. The result has the number or key of the target's row (NULL
/// if a row of the other tables has no partner), then for MERGE the number of the clause (NULL if no clause is met),
/// then the values.
pub fn bind_target(
    rows: &TargetRows<'_>,
    clause: &'static str,
    catalog: &dyn QueryCatalog,
    spelling: &dyn Fn(&ast::Ident) -> String,
    parameters: &[DataType],
) -> Result<BoundQuery> {
    let mut binder = Binder::new(catalog, spelling, parameters);
    let (bound, _) = binder.target_and_names(rows, clause)?;
    // Columns that only keep their values are not read.
    binder.check_reads(Some(&bound.plan), &[])?;
    Ok(binder.finish(bound))
}

/// Binds the rows that a statement changes as [`bind_target`] does, and `RETURNING` over the changed rows and the rows
/// of the other tables that are joined to them.
///
/// `*` gives the columns of the target and then those of the other tables, for MERGE the other way round, as in
/// PostgreSQL. A name without a table that several tables have is that of the target.
pub fn bind_target_returning(
    rows: &TargetRows<'_>,
    returned: &ReturnedItems<'_>,
    clause: &'static str,
    catalog: &dyn QueryCatalog,
    spelling: &dyn Fn(&ast::Ident) -> String,
    parameters: &[DataType],
) -> Result<(BoundQuery, BoundReturning)> {
    let mut binder = Binder::new(catalog, spelling, parameters);
    let (mut bound, others) = binder.target_and_names(rows, clause)?;
    let mut of_items = Binder::new(catalog, spelling, parameters);
    let row = of_items.given_names(returned.row);
    let (others, copies) = of_items.copied_names(&others, &binder);
    let mut given: Vec<ColumnId> = (0..returned.row.len()).map(ColumnId).collect();
    let (names, preferred) = match rows.values {
        TargetValues::Merge { .. } => (vec![others, row], 1),
        TargetValues::Pairs(_) => (vec![row, others], 0),
    };
    let mut items = of_items.items_over(names, Some(preferred), returned.items, "RETURNING", given.clone())?;
    let mut beside = Vec::new();
    let read = items.named_columns();
    for (of, copy) in copies.into_iter().filter(|(_, copy)| read.contains(&copy.0)) {
        given.push(copy);
        let column = binder.columns.get(of);
        beside.push((column.name.clone(), column.kind.clone()));
        binder.note_results([of]);
        bound.columns.push(NamedColumn::new(of, "beside"));
    }
    items.give_rows_of(given);
    binder.check_reads(Some(&bound.plan), &[])?;
    Ok((binder.finish(bound), BoundReturning { query: of_items.finish_checked(items)?, beside }))
}

/// The name of what happened to a row of MERGE, in RETURNING.
pub(super) const MERGE_ACTION: &str = "merge_action";

/// The names that the values of a statement may use.
struct NamesOfTarget {
    target: FromNames,
    others: FromNames,
}

impl NamesOfTarget {
    fn all(&self) -> FromNames {
        self.target.clone().and(self.others.clone())
    }

    fn of(&self, rows: MergeRows) -> FromNames {
        match rows {
            MergeRows::Partners => self.all(),
            MergeRows::Target => self.target.clone(),
            MergeRows::Source => self.others.clone(),
        }
    }
}

impl Binder<'_> {
    /// Binds the rows. Also returns the names of the other tables.
    fn target_and_names(&mut self, rows: &TargetRows<'_>, clause: &'static str) -> Result<(BoundRows, FromNames)> {
        if let Some(with) = rows.with {
            self.with_clause(with)?;
        }
        let bound = self.target_rows(rows, clause)?;
        self.check_unused_withs(0)?;
        Ok(bound)
    }

    /// The names of another binder over new columns of this one, and the columns of both, by pairs.
    fn copied_names(&mut self, names: &FromNames, of: &Binder<'_>) -> (FromNames, Vec<(ColumnId, ColumnId)>) {
        let mut copies: Vec<(ColumnId, ColumnId)> = Vec::new();
        let mut copied = names.clone();
        let columns = copied.relations.iter_mut().flat_map(|relation| &mut relation.columns);
        for column in columns.chain(&mut copied.visible) {
            let known = copies.iter().find(|(id, _)| *id == column.id).map(|(_, copy)| *copy);
            let copy = known.unwrap_or_else(|| {
                let copy = self.add_column(&column.spelled, of.kind(column.id).clone());
                copies.push((column.id, copy));
                copy
            });
            column.id = copy;
        }
        (copied, copies)
    }

    fn target_rows(&mut self, rows: &TargetRows<'_>, clause: &'static str) -> Result<(BoundRows, FromNames)> {
        self.levels.push(SelectLevel::new(self.columns_end()));
        let mut target = self.tables_of_from(&[table(rows.target)])?;
        let target_names = self.level().names.pop().unwrap_or_default();
        let row = self.number_rows(&mut target)?;
        // LATERAL items can see the names of the target, and the other tables must have different names.
        self.level().names = vec![target_names.clone()];
        let others = match rows.others {
            [] => None,
            items => Some(self.other_tables(items, &target_names)?),
        };
        let others_names = others.as_ref().map_or_else(FromNames::default, |part| part.names.clone());
        let mut names = NamesOfTarget { target: target_names, others: others_names };
        self.level().names = vec![names.all()];
        let mut output = vec![NamedColumn::new(row, "row number")];
        let plan = match (&rows.values, others) {
            (TargetValues::Pairs(values), others) => {
                let mut plan = match others {
                    None => target,
                    Some(others) => cross(target, others.plan),
                };
                self.end_of_from(Clause::Where);
                if let Some(condition) = rows.condition {
                    let condition = self.condition(condition)?;
                    filter(&mut plan, condition);
                }
                self.level().clause = Clause::Other(clause);
                let values = self.target_values(values, &names, &mut plan)?;
                self.give(&mut plan, values, &mut output);
                plan
            }
            (TargetValues::Merge { on, clauses }, Some(others)) => {
                let mut merge = self.merge_join(target, row, others, on, clauses)?;
                self.end_of_from(Clause::Other(clause));
                self.merge_values(&mut merge, clauses, &names, &mut output)?;
                names.others.relations.push(self.merge_action(&mut merge.plan, output[1].id, clauses));
                merge.plan
            }
            (TargetValues::Merge { .. }, None) => return Err(Error::internal("MERGE has a source")),
        };
        self.levels.pop();
        Ok((BoundRows { plan, columns: output }, names.others))
    }

    /// Adds the column `merge_action` to a plan, which has the numbers of clauses. It is a name for RETURNING only, and
    /// no part of `*`.
    fn merge_action(&mut self, plan: &mut Logical, number: ColumnId, clauses: &[MergeClause<'_>]) -> ScopeRelation {
        let number = self.columns.expr(number);
        let whens = clauses.iter().enumerate().map(|(place, clause)| {
            let operands = Box::new([number.clone(), ScalarExpr::literal(place as i64)]);
            let is_met = ScalarExpr::new(DataType::Boolean, ExprOp::Compare(CompareOp::Equal, operands));
            (is_met, ScalarExpr::literal(clause.action))
        });
        let action = ExprOp::Case { whens: whens.collect(), otherwise: None };
        let id = self.add_column(MERGE_ACTION, DataType::Utf8View);
        map(plan, vec![(id, ScalarExpr::new(DataType::Utf8View, action))]);
        let columns = vec![NamedColumn::new(id, MERGE_ACTION)];
        ScopeRelation { is_value: true, ..ScopeRelation::new(Some(MERGE_ACTION), columns) }
    }

    /// Ends FROM: from here on expressions are bound, and columns that exist now are those of the tables.
    fn end_of_from(&mut self, clause: Clause) {
        let end = self.columns_end();
        self.level().end = Some(end);
        self.level().clause = clause;
    }

    fn other_tables(&mut self, items: &[ast::TableWithJoins], target: &FromNames) -> Result<FromPart> {
        let mut part: Option<FromPart> = None;
        for item in items {
            let next = self.table_with_joins(item)?;
            let joined = match part.take() {
                None => next,
                Some(left) => FromPart { plan: cross(left.plan, next.plan), names: left.names.and(next.names) },
            };
            self.level().names = vec![target.clone(), joined.names.clone()];
            part = Some(joined);
        }
        Ok(part.expect("a FROM clause has at least one item"))
    }

    /// Binds values over `plan`, which a subquery of several columns is joined to.
    fn target_values(
        &mut self,
        values: &[TargetValue<'_>],
        names: &NamesOfTarget,
        plan: &mut Logical,
    ) -> Result<Vec<ScalarExpr>> {
        let mut joined: Vec<(*const ast::Query, Vec<NamedColumn>)> = Vec::new();
        let mut bound = Vec::with_capacity(values.len());
        for value in values {
            bound.push(match value {
                TargetValue::Column(position) => self.columns.expr(names.target.visible[*position].id),
                TargetValue::Expr { expr, kind } => self.value_of_column(expr, kind)?,
                TargetValue::Subquery { query, column, of } => {
                    let address = std::ptr::from_ref(*query);
                    if !joined.iter().any(|(known, _)| *known == address) {
                        joined.push((address, self.join_subquery(query, *of, plan)?));
                    }
                    let (_, columns) = joined.iter().find(|(known, _)| *known == address).expect("it was joined");
                    self.columns.expr(columns[*column].id)
                }
            });
        }
        Ok(bound)
    }

    fn value_of_column(&mut self, expr: &ast::Expr, kind: &DataType) -> Result<ScalarExpr> {
        let bound = self.expr(expr)?;
        if let ExprOp::Column(id) = bound.op {
            self.note_results([ColumnId(id)]);
        }
        let bound = self.typed_parameter(bound, kind);
        // Only NULL has no type. In the type of its column it is a value like any other.
        Ok(match (&bound.kind, bound.as_constant()) {
            (DataType::Null, Some(_)) => ScalarExpr::null(kind.clone()),
            (DataType::Null, None) => bound.cast(kind.clone()),
            _ => bound,
        })
    }

    /// Joins the one row of a subquery to each row of `plan`, or NULL if it has none. Returns its columns.
    fn join_subquery(&mut self, query: &ast::Query, width: usize, plan: &mut Logical) -> Result<Vec<NamedColumn>> {
        let rows = self.query(query)?;
        if rows.columns.len() != width {
            let found = rows.columns.len();
            let message = format!("SET has {width} columns, but its subquery gives {found}");
            return Err(Error::new(ErrorKind::CardinalityViolation, message));
        }
        self.note_results(rows.columns.iter().map(|column| column.id));
        let left = std::mem::replace(plan, Logical::one_row());
        let right = Logical::SingleRow { input: Box::new(rows.plan), by: Vec::new() };
        *plan = Logical::join(LogicalJoinKind::Left, left, right, Vec::new());
        Ok(rows.columns)
    }

    /// Adds `values` to the columns of `plan` and to `output`.
    fn give(&mut self, plan: &mut Logical, values: Vec<ScalarExpr>, output: &mut Vec<NamedColumn>) {
        let mut computed = Vec::new();
        for value in values {
            let id = match value.op {
                ExprOp::Column(id) => ColumnId(id),
                _ => {
                    let id = self.add_column("value", value.kind.clone());
                    computed.push((id, value));
                    id
                }
            };
            output.push(NamedColumn::new(id, "value"));
        }
        map(plan, computed);
    }

    fn merge_join(
        &mut self,
        target: Logical,
        row: ColumnId,
        mut source: FromPart,
        on: &ast::Expr,
        clauses: &[MergeClause<'_>],
    ) -> Result<MergeJoin> {
        let conditions = conjuncts(self.condition(on)?);
        let has = |rows: MergeRows| clauses.iter().any(|clause| clause.rows == rows);
        // Only clauses for rows without a partner need an outer join, and on their side only.
        let (keeps_source, keeps_target) = (has(MergeRows::Source), has(MergeRows::Target));
        // A column that is never NULL tells the rows of the source from missing ones.
        let source_mark = keeps_target.then(|| self.add_column("source", DataType::Boolean));
        if let Some(mark) = source_mark {
            let is_there = ScalarExpr::literal(true);
            map(&mut source.plan, vec![(mark, is_there)]);
        }
        let (kind, left, right) = match (keeps_source, keeps_target) {
            (false, false) => (LogicalJoinKind::Inner, target, source.plan),
            (false, true) => (LogicalJoinKind::Left, target, source.plan),
            (true, false) => (LogicalJoinKind::Left, source.plan, target),
            (true, true) => (LogicalJoinKind::Full, target, source.plan),
        };
        Ok(MergeJoin { plan: Logical::join(kind, left, right, conditions), row, source_mark })
    }

    /// Adds the number of the clause that a joined row meets, and the values of all clauses.
    fn merge_values(
        &mut self,
        merge: &mut MergeJoin,
        clauses: &[MergeClause<'_>],
        names: &NamesOfTarget,
        output: &mut Vec<NamedColumn>,
    ) -> Result<()> {
        let mut met = Vec::with_capacity(clauses.len());
        for (number, clause) in clauses.iter().enumerate() {
            self.level().names = vec![names.of(clause.rows)];
            let mut conditions = self.partners(merge, clause.rows);
            if let Some(condition) = clause.condition {
                conditions.push(self.condition(condition)?);
            }
            met.push((ScalarExpr::and(conditions), ScalarExpr::literal(number as i64)));
        }
        let number = ScalarExpr::new(DataType::Int64, ExprOp::Case { whens: met, otherwise: None });
        self.give(&mut merge.plan, vec![number], output);
        let number = self.columns.expr(output[1].id);
        let mut values = Vec::new();
        for (place, clause) in clauses.iter().enumerate() {
            self.level().names = vec![names.of(clause.rows)];
            if clause.values.iter().any(|value| matches!(value, TargetValue::Subquery { .. })) {
                return Err(unsupported("MERGE ... SET (...) = (SELECT ...)").hint("put the subquery into USING"));
            }
            for value in self.target_values(&clause.values, names, &mut merge.plan)? {
                let operands = Box::new([number.clone(), ScalarExpr::literal(place as i64)]);
                let is_met = ScalarExpr::new(DataType::Boolean, ExprOp::Compare(CompareOp::Equal, operands));
                let kind = value.kind.clone();
                values.push(ScalarExpr::new(kind, ExprOp::Case { whens: vec![(is_met, value)], otherwise: None }));
            }
        }
        self.give(&mut merge.plan, values, output);
        Ok(())
    }

    /// The conditions under which a joined row consists of these rows.
    fn partners(&self, merge: &MergeJoin, rows: MergeRows) -> Vec<ScalarExpr> {
        let is_null = |id: ColumnId, negated: bool| {
            let value = Box::new(self.columns.expr(id));
            ScalarExpr::new(DataType::Boolean, ExprOp::IsNull { value, negated })
        };
        match rows {
            MergeRows::Partners => {
                let in_source = merge.source_mark.map(|mark| is_null(mark, true));
                std::iter::once(is_null(merge.row, true)).chain(in_source).collect()
            }
            MergeRows::Source => vec![is_null(merge.row, false)],
            MergeRows::Target => merge.source_mark.map(|mark| is_null(mark, false)).into_iter().collect(),
        }
    }

    /// Makes the scan of the target give the numbers of its rows, or the keys of a keyed table.
    fn number_rows(&mut self, plan: &mut Logical) -> Result<ColumnId> {
        let Logical::Scan(scan) = plan else {
            return Err(unsupported("changing rows of a source that is not a table"));
        };
        let id = self.add_column("row number", kind_of_row(self.tables[scan.table].table()));
        scan.row_number = Some(id);
        self.note_target();
        Ok(id)
    }
}

/// The target and the source of a MERGE, joined.
struct MergeJoin {
    plan: Logical,
    /// The number or key of the target's row.
    row: ColumnId,
    /// A column that is NULL where the source has no row, if there can be such rows.
    source_mark: Option<ColumnId>,
}

/// The type of what identifies a row of a table: its number, or its key in a keyed table.
pub(crate) fn kind_of_row(table: &TableDef) -> DataType {
    if table.keyed.is_some() { DataType::BinaryView } else { DataType::UInt64 }
}

fn table(factor: &ast::TableFactor) -> ast::TableWithJoins {
    ast::TableWithJoins { relation: factor.clone(), joins: Vec::new() }
}
