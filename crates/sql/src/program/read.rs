//! `SELECT` as a program.

use std::sync::Arc;

use datafusion::arrow::datatypes::Field;
use datafusion::common::DFSchemaRef;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, SortExpr};
use datafusion::sql::sqlparser::ast;
use rowmill_base::{Result, SqlType};
use rowmill_plan::program::{
    Access, Aggregates, Body, LookupKind, NestedLookup, Order, Output, Read, RowAggregate, RowFunction, Rows as RowsOf,
    Scalar, ScalarOp, Value,
};

use super::access::{Choice, choices, split_ranges};
use super::rows::{BaseColumns, Rows};
use super::scalar::{base_column, scalar};
use super::{Analysed, Compiler, StatementProgram};
use crate::query::named_schema;
use crate::substitution::substitute;

impl Compiler<'_> {
    /// The program of a query, if it is one.
    pub(super) fn query(&self, query: &ast::Query) -> Result<Option<StatementProgram>> {
        if !reads_stored_tables(query) {
            return Ok(None);
        }
        let Analysed { plan, names } = self.analysed(query)?;
        let Some(mut read) = Block::of(&plan).and_then(Block::read) else { return Ok(None) };
        read.for_update = self.work.statement.locks_rows();
        let schema = named_schema(plan.schema().as_arrow(), &names);
        let program = self.program(Body::Read(read));
        Ok(Some(StatementProgram { program, schema: Some(schema), tag: "SELECT" }))
    }
}

/// Whether it is worth a look: a plain SELECT of something.
fn reads_stored_tables(query: &ast::Query) -> bool {
    let is_select = match &*query.body {
        ast::SetExpr::Select(select) => !select.from.is_empty() && select.distinct.is_none() && select.having.is_none(),
        _ => false,
    };
    is_select && query.with.is_none()
}

/// A query from its tables up to its limit.
pub(super) struct Block {
    rows: Rows,
    columns: BaseColumns,
    /// What is computed of all rows; the columns are over that then.
    aggregates: Option<Vec<RowAggregate>>,
    /// The columns of the plan.
    pub(super) exprs: Vec<Expr>,
    schema: DFSchemaRef,
    order: Vec<SortExpr>,
    skip: Option<Expr>,
    limit: Option<Expr>,
}

impl Block {
    /// The query that `plan` is, if it is made of what a program does.
    pub(super) fn of(plan: &LogicalPlan) -> Option<Block> {
        match plan {
            LogicalPlan::Limit(limit) => {
                let mut block = Block::of(&limit.input)?;
                if block.is_cut() {
                    return None;
                }
                block.skip = limit.skip.as_deref().cloned();
                block.limit = limit.fetch.as_deref().cloned();
                Some(block)
            }
            LogicalPlan::Sort(sort) => {
                let mut block = Block::of(&sort.input)?;
                if block.is_cut() || !block.order.is_empty() || sort.fetch.is_some() {
                    return None;
                }
                for key in &sort.expr {
                    let expr = block.resolve(&key.expr)?;
                    block.order.push(SortExpr { expr, asc: key.asc, nulls_first: key.nulls_first });
                }
                Some(block)
            }
            LogicalPlan::Projection(projection) => {
                let mut block = Block::of(&projection.input)?;
                block.exprs = projection.expr.iter().map(|expr| block.resolve(expr)).collect::<Option<_>>()?;
                block.schema = Arc::clone(&projection.schema);
                Some(block)
            }
            LogicalPlan::SubqueryAlias(alias) => {
                let block = Block::of(&alias.input)?;
                Some(Block { schema: Arc::clone(&alias.schema), ..block })
            }
            LogicalPlan::Aggregate(aggregate) => Block::aggregated(aggregate),
            plan => {
                let rows = Rows::of(plan)?;
                let columns = rows.columns()?;
                Some(Block {
                    columns,
                    aggregates: None,
                    exprs: rows.exprs.clone(),
                    schema: Arc::clone(plan.schema()),
                    rows,
                    order: Vec::new(),
                    skip: None,
                    limit: None,
                })
            }
        }
    }

    fn aggregated(aggregate: &Aggregate) -> Option<Block> {
        let rows = Rows::of(&aggregate.input)?;
        if !aggregate.group_expr.is_empty() {
            return None;
        }
        let of_rows = rows.columns()?;
        let computed = aggregate.aggr_expr.iter().map(|expr| row_aggregate(expr, &rows, &of_rows));
        let computed = computed.collect::<Option<Vec<_>>>()?;
        let kinds = computed.iter().map(RowAggregate::kind).collect::<Option<Vec<_>>>()?;
        let fields = aggregate.schema.fields();
        let is_of_kind = |(kind, field): (&SqlType, &Arc<Field>)| kind.arrow() == *field.data_type();
        if !kinds.iter().zip(fields).all(is_of_kind) {
            return None;
        }
        Some(Block {
            rows,
            columns: BaseColumns::of_aggregates(kinds)?,
            aggregates: Some(computed),
            exprs: (0..fields.len()).map(|place| Expr::Column(base_column(0, &place.to_string()))).collect(),
            schema: Arc::clone(&aggregate.schema),
            order: Vec::new(),
            skip: None,
            limit: None,
        })
    }

    /// `expr`, which is over the columns of the plan, over those of the tables or aggregates.
    fn resolve(&self, expr: &Expr) -> Option<Expr> {
        substitute(expr.clone(), &self.schema, &self.exprs).ok()
    }

    /// The columns as scalars.
    pub(super) fn scalars(&self) -> Option<Vec<Scalar>> {
        self.exprs.iter().map(|expr| scalar(expr, &self.columns)).collect()
    }

    /// The one table, with the conditions on its rows.
    pub(super) fn single_table(&self) -> Option<(&BaseColumns, &[Expr])> {
        let is_one = self.gives_rows_as_found() && self.rows.tables.len() == 1;
        is_one.then_some((&self.columns, &self.rows.conditions))
    }

    /// The columns of so many tables, with no condition on their rows.
    pub(super) fn tables(&self, count: usize) -> Option<&BaseColumns> {
        let is_so = self.gives_rows_as_found() && self.rows.tables.len() == count && self.rows.conditions.is_empty();
        is_so.then_some(&self.columns)
    }

    fn gives_rows_as_found(&self) -> bool {
        self.order.is_empty() && !self.is_cut() && self.aggregates.is_none()
    }

    /// Whether it has a limit or an offset.
    fn is_cut(&self) -> bool {
        self.skip.is_some() || self.limit.is_some()
    }

    fn read(self) -> Option<Read> {
        let tables = self.rows.columns()?;
        let mut conditions = split_ranges(self.rows.conditions.clone()).into_iter().map(Some).collect::<Vec<_>>();
        let (access, is_ordered) = self.first_access(&tables, &mut conditions)?;
        let mut joins = Vec::new();
        for number in 1..self.rows.tables.len() {
            joins.push(lookup(number, &self.rows, &tables, &mut conditions)?);
        }
        let left: Vec<Expr> = conditions.into_iter().flatten().collect();
        let filter = all_of(&left, &tables)?;
        let (columns, is_cut) = (self.scalars()?, self.is_cut());
        let output = match self.aggregates {
            Some(aggregates) if self.order.is_empty() && !is_cut => {
                Output::Aggregates(Aggregates { aggregates, columns })
            }
            Some(_) => return None,
            None => {
                let order = if is_ordered { Vec::new() } else { orders(&self.order, &self.columns)? };
                let number = |expr: &Option<Expr>| match expr {
                    None => Some(None),
                    Some(expr) => row_number(expr).map(Some),
                };
                Output::Rows(RowsOf { columns, order, skip: number(&self.skip)?, limit: number(&self.limit)? })
            }
        };
        Some(Read { access, joins, filter, output, for_update: false })
    }

    /// How the first table is read, and whether that is in the order asked for.
    fn first_access(&self, tables: &BaseColumns, conditions: &mut [Option<Expr>]) -> Option<(Access, bool)> {
        let known: Vec<Expr> = conditions.iter().flatten().cloned().collect();
        let choices = choices(0, &known, tables);
        let best = choices.first()?;
        let is_read_in_part = self.limit.is_some() && !self.order.is_empty() && self.aggregates.is_none();
        // An order that the key gives saves reading what is behind the limit.
        let in_order = |choice: &&Choice| choice.gives(&self.order, tables).is_some();
        let alike = |choice: &&Choice| choice.access.equal.len() == best.access.equal.len();
        let mut chosen = choices.iter().filter(alike).find(in_order).unwrap_or(best);
        if !chosen.narrows() && is_read_in_part {
            chosen = choices.iter().find(in_order)?;
        } else if !chosen.narrows() {
            return None;
        }
        let backward = chosen.gives(&self.order, tables);
        for answered in &chosen.answered {
            conditions[*answered] = None;
        }
        let access = Access { backward: backward.unwrap_or(false), ..chosen.access.clone() };
        Some((access, backward.is_some()))
    }
}

/// How table `number` is read for each row of those before.
fn lookup(number: usize, rows: &Rows, tables: &BaseColumns, conditions: &mut [Option<Expr>]) -> Option<NestedLookup> {
    let table = &rows.tables[number];
    if table.kind == LookupKind::Left {
        let on = split_ranges(table.on.clone());
        let chosen = choices(number, &on, tables).into_iter().next().filter(Choice::narrows)?;
        let left = on.iter().enumerate().filter(|(place, _)| !chosen.answered.contains(place));
        let left: Vec<Expr> = left.map(|(_, condition)| condition.clone()).collect();
        return Some(NestedLookup { kind: LookupKind::Left, access: chosen.access, condition: all_of(&left, tables)? });
    }
    let places: Vec<usize> = (0..conditions.len()).filter(|place| conditions[*place].is_some()).collect();
    let known: Vec<Expr> = conditions.iter().flatten().cloned().collect();
    let chosen = choices(number, &known, tables).into_iter().next().filter(Choice::narrows)?;
    for answered in &chosen.answered {
        conditions[places[*answered]] = None;
    }
    // What can be asked of the tables so far is asked now.
    let mut now = Vec::new();
    for condition in conditions.iter_mut() {
        if condition.as_ref().is_some_and(|condition| last_table(condition, tables).is_some_and(|last| last <= number))
        {
            now.extend(condition.take());
        }
    }
    Some(NestedLookup { kind: LookupKind::Inner, access: chosen.access, condition: all_of(&now, tables)? })
}

/// The last table that a condition speaks of.
fn last_table(condition: &Expr, tables: &BaseColumns) -> Option<usize> {
    let places = condition.column_refs().into_iter().map(|column| tables.place(column));
    places.collect::<Option<Vec<_>>>().map(|places| places.into_iter().map(|(table, _)| table).max().unwrap_or(0))
}

/// All conditions as one; none of none.
#[expect(clippy::option_option, reason = "whether there is one, and whether a program computes it")]
pub(super) fn all_of(conditions: &[Expr], tables: &BaseColumns) -> Option<Option<Scalar>> {
    let mut all = conditions.iter().map(|condition| scalar(condition, tables)).collect::<Option<Vec<_>>>()?;
    Some(match all.len() {
        0 => None,
        1 => all.pop(),
        _ => Some(Scalar::new(SqlType::Boolean, ScalarOp::And(all))),
    })
}

impl Choice {
    /// Whether its rows are in an order, and if so, whether read backward.
    fn gives(&self, order: &[SortExpr], tables: &BaseColumns) -> Option<bool> {
        if order.is_empty() {
            return Some(false);
        }
        let mut backward = None;
        let mut next = self.ordered.iter();
        for key in order {
            let Expr::Column(column) = &key.expr else { return None };
            let (table, place) = tables.place(column)?;
            if table != 0 {
                return None;
            }
            if self.is_point || self.fixed.contains(&place) {
                continue;
            }
            let (column, descending) = next.next()?;
            let column_def = &tables.tables[0].columns[place];
            let is_backward = *descending == key.asc;
            // A key has NULL behind all values, and before them where it is descending.
            let nulls_fit = !column_def.nullable || key.nulls_first != key.asc;
            if *column != place || *backward.get_or_insert(is_backward) != is_backward || !nulls_fit {
                return None;
            }
        }
        Some(backward.unwrap_or(false))
    }
}

fn orders(order: &[SortExpr], columns: &BaseColumns) -> Option<Vec<Order>> {
    let order = order.iter().map(|key| {
        Some(Order { value: scalar(&key.expr, columns)?, descending: !key.asc, nulls_first: key.nulls_first })
    });
    order.collect()
}

/// A number of rows: a literal or a parameter.
fn row_number(expr: &Expr) -> Option<Scalar> {
    let number = scalar(expr, &BaseColumns::none())?;
    match &number.op {
        ScalarOp::Literal(Value::Int(rows)) if *rows < 0 => None,
        _ if number.kind == SqlType::Int64 => Some(number),
        _ => None,
    }
}

fn row_aggregate(expr: &Expr, rows: &Rows, columns: &BaseColumns) -> Option<RowAggregate> {
    let Expr::AggregateFunction(AggregateFunction { func, params }) = expr.clone().unalias() else { return None };
    let is_plain = params.filter.is_none() && params.order_by.is_empty() && params.null_treatment.is_none();
    let [argument] = &*params.args else { return None };
    if !is_plain {
        return None;
    }
    let counts_rows = matches!(argument, Expr::Literal(value, _) if !value.is_null());
    let function = match (func.name(), params.distinct) {
        ("count", false) if counts_rows => RowFunction::CountRows,
        ("count", false) => RowFunction::Count,
        ("count", true) => RowFunction::CountDistinct,
        ("sum", false) => RowFunction::Sum,
        ("avg", false) => RowFunction::Average,
        ("min", _) => RowFunction::Min,
        ("max", _) => RowFunction::Max,
        _ => return None,
    };
    Some(RowAggregate { function, argument: scalar(&rows.resolve(argument)?, columns)? })
}
