//! `MERGE`: changes, removes or adds rows of one table according to the rows of another.
//!
//! One query joins the two tables. For each pair of rows, and for each row without a partner, it returns the first
//! clause that the row meets and the values of that clause. The values are computed only where their clause is met:
//!
//! ```text
//! SELECT row number, CASE WHEN matched AND ... THEN 0 WHEN ... THEN 1 END,
//!        CASE WHEN clause 0 is met THEN first value END, ...
//! FROM target RIGHT JOIN source ON ...
//! ```
//!
//! Then we remove rows, change rows and add rows, in this order, so that a key that one row gives up is free for
//! another.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, AsArray, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::Int64Type;
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_storage::TableDef;
use rowmill_txn::Transaction;
use sqlparser::ast::helpers::attached_token::AttachedToken;
use sqlparser::ast::{
    BinaryOperator, CaseWhen, Expr, Ident, Join, JoinConstraint, JoinOperator, Merge, MergeAction, MergeClauseKind,
    MergeInsertExpr, MergeInsertKind, MergeUpdateExpr, Query, SetExpr, TableFactor, TableWithJoins, Value,
};

use super::cell::LiteralCell;
use super::clause::{refuse, unsupported};
use super::insert::{check_generated, check_width};
use super::keyed_change;
use super::relation;
use super::row_query::{ChangedTable, numbered, row_id};
use super::row_sink::{ColumnSource, RowSink, targets};
use super::sql_text;
use super::update::{NewRow, assigned_pairs};
use crate::names::identifiers;
use crate::outcome::Outcome;
use crate::session::Work;

const STATEMENT: &str = "MERGE";

/// The effect of a clause on its rows.
enum Action {
    Remove,
    Change(RowSink),
    Add(RowSink),
}

/// A clause, and the range of its values among the columns of the query.
struct Clause {
    action: Action,
    values: std::ops::Range<usize>,
}

/// The number of columns before the values: the row number and the clause.
const LEADING: usize = 2;

pub(crate) fn run(work: &mut Work<'_>, merge: &Merge) -> Result<Outcome> {
    let Merge { merge_token: _, optimizer_hints, into: _, table, source, on, clauses: _, output } = merge;
    refuse(STATEMENT, [(!optimizer_hints.is_empty(), "an optimizer hint"), (output.is_some(), "OUTPUT or RETURNING")])?;
    let target = ChangedTable::of(work, STATEMENT, &TableWithJoins { relation: table.clone(), joins: Vec::new() })?;
    let rows = work.write(|work, transaction| {
        let view = transaction.view()?;
        let table = relation::table(view.catalog(), &target.name)?;
        let Plan { query, clauses } = plan(work, merge, &target, &table, source, on)?;
        let batches = work.rows(view, &query)?;
        let schema = batches.schema();
        for clause in &clauses {
            let fields = &schema.fields()[LEADING..][clause.values.clone()];
            if let Action::Change(sink) | Action::Add(sink) = &clause.action {
                sink.check_types(fields)?;
            }
            // All rows must be known before the first change, because the query reads the table that we change.
        }
        let batches = batches.collect::<Result<Vec<_>>>()?;
        check_once(&batches, &table)?;
        MergeChanges { work, transaction, table: &table, batches: &batches }.apply(clauses)
    })?;
    Ok(Outcome::Changed { tag: STATEMENT, rows })
}

struct Plan {
    query: Query,
    clauses: Vec<Clause>,
}

fn plan(
    work: &Work<'_>,
    merge: &Merge,
    target: &ChangedTable,
    table: &Arc<TableDef>,
    source: &TableFactor,
    on: &Expr,
) -> Result<Plan> {
    let is_by_source = |kind: MergeClauseKind| kind == MergeClauseKind::NotMatchedBySource;
    let is_added =
        |kind: MergeClauseKind| matches!(kind, MergeClauseKind::NotMatched | MergeClauseKind::NotMatchedByTarget);
    let has =
        |is_meant: &dyn Fn(MergeClauseKind) -> bool| merge.clauses.iter().any(|clause| is_meant(clause.clause_kind));
    let in_target = Expr::IsNotNull(Box::new(target.row_number()));
    let (source, marker) = match has(&is_by_source) {
        true => marked(work, source).map(|(source, marker)| (source, Some(marker)))?,
        false => (source.clone(), None),
    };
    let constraint = JoinConstraint::On(on.clone());
    // Only clauses for rows without a partner need an outer join, and on their side only.
    let join_operator = match (has(&is_added), has(&is_by_source)) {
        (false, false) => JoinOperator::Inner(constraint),
        (true, false) => JoinOperator::Right(constraint),
        (false, true) => JoinOperator::Left(constraint),
        (true, true) => JoinOperator::FullOuter(constraint),
    };

    // `met[n]` is the condition under which a row belongs to clause n, before earlier clauses are considered.
    let mut met = Vec::new();
    let mut clauses = Vec::new();
    let mut values: Vec<(usize, Expr)> = Vec::new();
    for (number, clause) in merge.clauses.iter().enumerate() {
        let is_here = match clause.clause_kind {
            MergeClauseKind::Matched => match &marker {
                Some(marker) => and(in_target.clone(), Expr::IsNotNull(Box::new(marker.clone()))),
                None => in_target.clone(),
            },
            MergeClauseKind::NotMatched | MergeClauseKind::NotMatchedByTarget => {
                Expr::IsNull(Box::new(target.row_number()))
            }
            MergeClauseKind::NotMatchedBySource => {
                let marker = marker.clone().ok_or_else(|| Error::internal("rows that may be missing are marked"))?;
                Expr::IsNull(Box::new(marker))
            }
        };
        met.push(match &clause.predicate {
            None => is_here,
            Some(predicate) => and(is_here, Expr::Nested(Box::new(predicate.clone()))),
        });
        let first = values.len();
        let action = match (&clause.action, is_added(clause.clause_kind)) {
            (MergeAction::Delete { .. }, false) => Action::Remove,
            (MergeAction::Update(update), false) => {
                let new = changed(work, target, table, update)?;
                values.extend(new.items.into_iter().map(|item| (number, item)));
                Action::Change(RowSink::new(Arc::clone(table), new.sources))
            }
            (MergeAction::Insert(insert), true) => {
                let (items, sink) = added(work, table, insert)?;
                values.extend(items.into_iter().map(|item| (number, item)));
                Action::Add(sink)
            }
            (_, true) => return Err(needs("WHEN NOT MATCHED", "INSERT")),
            (_, false) => return Err(needs("WHEN MATCHED and WHEN NOT MATCHED BY SOURCE", "UPDATE or DELETE")),
        };
        clauses.push(Clause { action, values: first..values.len() });
    }
    // CASE returns the number of the first clause that is met, as MERGE requires.
    let clause = case(met.into_iter().enumerate().map(|(number, met)| (met, integer(number))));
    let of_clause = |(number, value): (usize, Expr)| {
        let is_met =
            Expr::BinaryOp { left: Box::new(clause.clone()), op: BinaryOperator::Eq, right: Box::new(integer(number)) };
        case([(is_met, value)])
    };
    // Values of a clause that is not met are NULL, so they cannot fail.
    let values: Vec<Expr> = values.into_iter().map(of_clause).collect();
    let items = std::iter::once(clause.clone()).chain(values);
    let mut query = target.query(work, items, &[], None)?;
    let SetExpr::Select(select) = &mut *query.body else {
        return Err(Error::internal("a SELECT is a SELECT"));
    };
    select.from[0].joins = vec![Join { relation: source, global: false, join_operator }];
    Ok(Plan { query, clauses })
}

fn needs(kind: &str, action: &str) -> Error {
    Error::new(ErrorKind::Syntax, format!("{STATEMENT}: {kind} goes with {action}"))
}

/// Returns the source with one more column, which is NULL where a joined row has no row of the source.
fn marked(work: &Work<'_>, source: &TableFactor) -> Result<(TableFactor, Expr)> {
    let (TableFactor::Table { alias, .. } | TableFactor::Derived { alias, .. }) = source else {
        return Err(unsupported(STATEMENT, "a source that is neither a table nor a query"));
    };
    let alias = match (alias, source) {
        (Some(alias), _) if alias.columns.is_empty() => alias.name.clone(),
        (None, TableFactor::Table { name, .. }) => {
            let last = identifiers(name)?.into_iter().last().cloned();
            last.ok_or_else(|| Error::internal("a table has a name"))?
        }
        _ => return Err(unsupported(STATEMENT, "a source without a name, or with names for its columns,")),
    };
    let sql = format!("SELECT 1 FROM (SELECT *, true AS \"{MARKER}\" FROM t) AS t");
    let query = sql_text::query(&sql, work.settings())?;
    let SetExpr::Select(outer) = *query.body else {
        return Err(Error::internal("a SELECT is a SELECT"));
    };
    let mut derived = outer.from.into_iter().next().map(|from| from.relation);
    if let Some(TableFactor::Derived { subquery, alias: Some(named), .. }) = &mut derived
        && let SetExpr::Select(inner) = &mut *subquery.body
    {
        inner.from = vec![TableWithJoins { relation: source.clone(), joins: Vec::new() }];
        named.name = alias.clone();
        let marker = Expr::CompoundIdentifier(vec![alias, Ident::with_quote('"', MARKER)]);
        return derived.map(|derived| (derived, marker)).ok_or_else(|| Error::internal("it has a FROM"));
    }
    Err(Error::internal("it was a query of a query"))
}

/// The column that tells rows of the source from missing ones.
const MARKER: &str = "\u{1}source";

/// Returns the new row of `UPDATE SET`.
fn changed(work: &Work<'_>, target: &ChangedTable, table: &TableDef, update: &MergeUpdateExpr) -> Result<NewRow> {
    let MergeUpdateExpr { update_token: _, assignments, update_predicate, delete_predicate } = update;
    let clauses =
        [(update_predicate.is_some(), "WHERE after UPDATE"), (delete_predicate.is_some(), "DELETE WHERE after UPDATE")];
    refuse(STATEMENT, clauses)?;
    NewRow::of(work, target, &assigned_pairs(assignments)?, table)
}

/// Returns the values of `INSERT` and the sink that takes them.
fn added(work: &Work<'_>, table: &Arc<TableDef>, insert: &MergeInsertExpr) -> Result<(Vec<Expr>, RowSink)> {
    let MergeInsertExpr { insert_token: _, columns, kind_token: _, kind, insert_predicate } = insert;
    refuse(STATEMENT, [(insert_predicate.is_some(), "WHERE after INSERT")])?;
    let MergeInsertKind::Values(values) = kind else { return Err(unsupported(STATEMENT, "INSERT ROW")) };
    let [row] = values.rows.as_slice() else {
        return Err(Error::new(
            ErrorKind::CardinalityViolation,
            format!("{STATEMENT}: INSERT takes one row of values"),
        ));
    };
    let names = columns.iter().map(|name| match identifiers(name)?[..] {
        [name] => Ok(work.statement.spell(name)),
        _ => Err(unsupported(STATEMENT, &format!("\"{name}\" as a column of INSERT"))),
    });
    let names = names.collect::<Result<Vec<_>>>()?;
    let places = match names.as_slice() {
        [] => (0..table.columns.len()).collect(),
        names => targets(table, names.iter().copied())?,
    };
    check_width(table, &places, row.content.len())?;
    let is_default = |place: usize| {
        matches!(LiteralCell::of(&row.content[place], &table.columns[places[place]].kind), LiteralCell::Default)
    };
    check_generated(table, &places, |place, _| is_default(place))?;
    let mut items = Vec::new();
    let sources = table.columns.iter().enumerate().map(|(index, column)| {
        match places.iter().position(|place| *place == index).filter(|place| !is_default(*place)) {
            None => ColumnSource::absent(work, table, column),
            Some(place) => {
                items.push(row.content[place].clone());
                Ok(ColumnSource::Input(items.len() - 1))
            }
        }
    });
    let sources = sources.collect::<Result<Vec<_>>>()?;
    Ok((items, RowSink::new(Arc::clone(table), sources)))
}

/// Refuses a row that several rows of the source would change or remove, because the result would depend on their
/// order.
fn check_once(batches: &[RecordBatch], table: &TableDef) -> Result<()> {
    let mut seen = HashSet::new();
    for batch in batches {
        let clauses = batch.column(1);
        for row in (0..batch.num_rows()).filter(|row| clauses.is_valid(*row)) {
            if row_id(batch, row).is_some_and(|id| !seen.insert(id)) {
                let what = format!("a row of table \"{}\" meets several rows of the source", table.name);
                return Err(Error::new(ErrorKind::CardinalityViolation, what)
                    .hint("narrow ON down, or aggregate the source, so that each row meets one"));
            }
        }
    }
    Ok(())
}

/// Applies the rows of the query to the table.
struct MergeChanges<'a, 'w> {
    work: &'a Work<'w>,
    transaction: &'a mut Transaction,
    table: &'a Arc<TableDef>,
    batches: &'a [RecordBatch],
}

impl MergeChanges<'_, '_> {
    fn apply(mut self, clauses: Vec<Clause>) -> Result<u64> {
        let mut changed = 0;
        for (number, clause) in clauses.iter().enumerate() {
            if matches!(clause.action, Action::Remove) {
                changed += self.remove(number)?;
            }
        }
        // Keyed changes are applied together, so that rows can exchange their keys.
        changed += self.change(&clauses)?;
        for (number, Clause { action, values }) in clauses.into_iter().enumerate() {
            let Action::Add(mut sink) = action else { continue };
            for rows in self.rows_of(number)? {
                sink.write_columns(
                    self.work,
                    self.transaction,
                    &rows.columns()[LEADING..][values.clone()],
                    rows.num_rows(),
                )?;
            }
            changed += sink.rows();
        }
        Ok(changed)
    }

    /// Returns the rows that meet a clause.
    fn rows_of(&self, clause: usize) -> Result<Vec<RecordBatch>> {
        let wanted = clause as i64;
        let mut rows = Vec::new();
        for batch in self.batches {
            self.work.cancel.check()?;
            let clauses = batch.column(1).as_primitive::<Int64Type>();
            let is_met: BooleanArray = clauses.iter().map(|clause| Some(clause == Some(wanted))).collect();
            let met = filter_record_batch(batch, &is_met).map_err(|error| Error::internal(error.to_string()))?;
            if met.num_rows() > 0 {
                rows.push(met);
            }
        }
        Ok(rows)
    }

    fn remove(&mut self, clause: usize) -> Result<u64> {
        let rows = self.rows_of(clause)?;
        if self.table.keyed.is_some() {
            return keyed_change::delete(self.transaction, self.table, &rows);
        }
        rows.iter().map(|rows| self.transaction.delete(self.table.id, numbered(rows).0)).sum()
    }

    fn change(&mut self, clauses: &[Clause]) -> Result<u64> {
        let (mut keyed, mut changed) = (Vec::new(), 0);
        for (number, Clause { action, values }) in clauses.iter().enumerate() {
            let Action::Change(sink) = action else { continue };
            for rows in self.rows_of(number)? {
                let input = &rows.columns()[LEADING..][values.clone()];
                let new = sink.assigned(self.work, self.transaction, input, rows.num_rows())?;
                if self.table.keyed.is_some() {
                    keyed.push((keyed_change::keys(&rows)?, new));
                    continue;
                }
                // A columnar table has no update in place: the old row is deleted and the new one appended.
                changed += self.transaction.delete(self.table.id, numbered(&rows).0)?;
                self.transaction.insert(self.table.id, &new)?;
            }
        }
        match keyed.is_empty() {
            true => Ok(changed),
            false => self.transaction.update_keyed(self.table.id, &keyed),
        }
    }
}

fn and(left: Expr, right: Expr) -> Expr {
    let op = BinaryOperator::And;
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

fn integer(number: usize) -> Expr {
    Expr::Value(Value::Number(number.to_string(), false).into())
}

fn case(arms: impl IntoIterator<Item = (Expr, Expr)>) -> Expr {
    let conditions = arms.into_iter().map(|(condition, result)| CaseWhen { condition, result }).collect();
    Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions,
        else_result: None,
    }
}
