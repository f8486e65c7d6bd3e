//! `MERGE`: changes, removes or adds rows of one table according to the rows of another.
//!
//! One query joins the two tables. For each pair of rows, and for each row without a partner, it returns the number of
//! the first clause that the row meets and the values of that clause ([`rowmill_query::binder::target`]).

use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::write::{ColumnValue, NewRow, WriteAction, WriteSource};
use rowmill_query::binder::target::{self, MergeRows, TargetRows, TargetValue, TargetValues};
use rowmill_storage::TableDef;
use sqlparser::ast::{
    Ident, Merge, MergeAction, MergeClause, MergeClauseKind, MergeInsertExpr, MergeInsertKind, MergeUpdateExpr,
    OutputClause, TableWithJoins, With,
};

use super::assignments::{Assignments, keeps_columns, kinds_of_columns};
use super::cell::LiteralCell;
use super::clause::{refuse, unsupported};
use super::delete::old_row;
use super::insert::{check_generated, check_width, column_name};
use super::target_table::TargetTable;
use super::write::BoundWrite;
use super::write::binder::WriteBinder;

const STATEMENT: &str = "MERGE";

impl WriteBinder<'_> {
    /// Binds a `MERGE`. Refuses the clauses that we do not execute.
    pub(super) fn merge<'s>(&self, with: Option<&With>, merge: &'s Merge) -> Result<BoundWrite<'s>> {
        let Merge { merge_token: _, optimizer_hints, into: _, table, source, on, clauses, output } = merge;
        refuse(STATEMENT, [(!optimizer_hints.is_empty(), "an optimizer hint")])?;
        let returning = match output {
            None => None,
            Some(OutputClause::Returning { returning_token: _, select_items }) => Some(select_items.as_slice()),
            Some(OutputClause::Output { .. }) => return Err(unsupported(STATEMENT, "OUTPUT")),
        };
        let target = TargetTable::of_relation(self.work, STATEMENT, table)?;
        let table = self.table(&target.name)?;
        let kinds = kinds_of_columns(&table);
        let mut actions = Vec::with_capacity(clauses.len());
        let mut bound = Vec::with_capacity(clauses.len());
        let mut first = 0;
        for MergeClause { when_token: _, clause_kind, predicate, action } in clauses {
            let rows = match clause_kind {
                MergeClauseKind::Matched => MergeRows::Partners,
                MergeClauseKind::NotMatched | MergeClauseKind::NotMatchedByTarget => MergeRows::Source,
                MergeClauseKind::NotMatchedBySource => MergeRows::Target,
            };
            let (action, values) = match (action, rows) {
                (MergeAction::Delete { .. }, MergeRows::Partners | MergeRows::Target) => {
                    let (old, values) = if returning.is_some() { old_row(&table, first) } else { (None, Vec::new()) };
                    (WriteAction::Delete(old), values)
                }
                (MergeAction::Update(update), MergeRows::Partners | MergeRows::Target) => {
                    let assignments = self.merge_assignments(&table, target.alias(), update)?;
                    let keeps = keeps_columns(&table, returning.is_some());
                    let (row, values) = assignments.new_row(self, &table, &kinds, first, keeps)?;
                    (WriteAction::Update(row), values)
                }
                (MergeAction::Insert(insert), MergeRows::Source) => {
                    let (row, values) = self.merge_insert(&table, insert, &kinds, first)?;
                    (WriteAction::Insert(row), values)
                }
                (_, MergeRows::Source) => return Err(needs("WHEN NOT MATCHED", "INSERT")),
                _ => return Err(needs("WHEN MATCHED and WHEN NOT MATCHED BY SOURCE", "UPDATE or DELETE")),
            };
            first += values.len();
            let name = match &action {
                WriteAction::Insert(_) => "INSERT",
                WriteAction::Update(_) => "UPDATE",
                WriteAction::Delete(_) => "DELETE",
            };
            actions.push(action);
            bound.push(target::MergeClause { rows, condition: predicate.as_ref(), action: name, values });
        }
        let others = [TableWithJoins { relation: source.clone(), joins: Vec::new() }];
        let values = TargetValues::Merge { on, clauses: &bound };
        let rows = TargetRows { with, target: target.relation, others: &others, condition: None, values };
        let names = (&*table, target.alias());
        let (rows, returning) = self.target_returning(&rows, STATEMENT, names, returning)?;
        self.plan(STATEMENT, table, WriteSource::Merge(rows), actions, returning)
    }

    fn merge_assignments<'s>(
        &self,
        table: &TableDef,
        alias: &str,
        update: &'s MergeUpdateExpr,
    ) -> Result<Assignments<'s>> {
        let MergeUpdateExpr { update_token: _, assignments, update_predicate, delete_predicate } = update;
        let clauses = [
            (update_predicate.is_some(), "WHERE after UPDATE"),
            (delete_predicate.is_some(), "DELETE WHERE after UPDATE"),
        ];
        refuse(STATEMENT, clauses)?;
        Assignments::of(self, STATEMENT, table, alias, assignments)
    }

    /// Returns the row that `INSERT` adds, and the values that it needs.
    fn merge_insert<'k>(
        &self,
        table: &TableDef,
        insert: &'k MergeInsertExpr,
        kinds: &'k [arrow::datatypes::DataType],
        first: usize,
    ) -> Result<(NewRow, Vec<TargetValue<'k>>)> {
        let MergeInsertExpr { insert_token: _, columns, kind_token: _, kind, insert_predicate } = insert;
        refuse(STATEMENT, [(insert_predicate.is_some(), "WHERE after INSERT")])?;
        let MergeInsertKind::Values(values) = kind else { return Err(unsupported(STATEMENT, "INSERT ROW")) };
        let [row] = values.rows.as_slice() else {
            let what = format!("{STATEMENT}: INSERT takes one row of values");
            return Err(Error::new(ErrorKind::CardinalityViolation, what));
        };
        let names = columns.iter().map(|name| column_name(STATEMENT, name)).collect::<Result<Vec<&Ident>>>()?;
        let targets = self.targets_of_width(table, &names, row.content.len())?;
        check_width(table, &targets, row.content.len())?;
        let is_default = |place: usize| {
            matches!(LiteralCell::of(&row.content[place], &table.columns[targets[place]].kind), LiteralCell::Default)
        };
        check_generated(table, &targets, false, |place, _| is_default(place))?;
        let mut made = NewRow { columns: Vec::new(), assigned: targets.clone() };
        let mut given = Vec::new();
        let generated = self.generated(table)?;
        for (index, column) in table.columns.iter().enumerate() {
            if let Some(expr) = generated.at(index) {
                made.columns.push(ColumnValue::Generated(expr.clone()));
                continue;
            }
            let place = targets.iter().position(|target| *target == index).filter(|place| !is_default(*place));
            made.columns.push(match place {
                None => self.absent(table, column)?,
                Some(place) => {
                    given.push(TargetValue::Expr { expr: &row.content[place], kind: &kinds[index] });
                    ColumnValue::Source(first + given.len() - 1)
                }
            });
        }
        Ok((made, given))
    }
}

fn needs(kind: &str, action: &str) -> Error {
    Error::new(ErrorKind::Syntax, format!("{STATEMENT}: {kind} goes with {action}"))
}
