//! Whole queries: WITH, set operations, VALUES, ORDER BY, LIMIT.

use std::rc::Rc;

use arrow::datatypes::DataType;
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_expr::typing;
use rowmill_plan::logical::{LogicalSetOperation, SetOperationKind};
use rowmill_plan::{ColumnId, ExprOp, Logical, ScalarExpr};
use sqlparser::ast::{self, LimitClause, Query, SetExpr, SetOperator, SetQuantifier, Spanned};

use super::built_query;
use super::place::{start_of, type_name, unsupported};
use super::scope::{Clause, FromNames, NamedColumn, ScopeRelation, SelectLevel};
use super::{Binder, BoundRows, QUERY_DEPTH};

impl Binder<'_> {
    /// Binds a query with its WITH clause.
    pub(super) fn query(&mut self, query: &Query) -> Result<BoundRows> {
        self.deeper(QUERY_DEPTH, |binder| {
            refuse_clauses(query)?;
            let visible = binder.withs.len();
            if let Some(with) = &query.with {
                binder.with_clause(with)?;
            }
            let rows = match limit_percent(query) {
                Some(limited) => binder.query_body(&limited)?,
                None => binder.query_body(query)?,
            };
            binder.check_unused_withs(visible)?;
            binder.withs.truncate(visible);
            Ok(rows)
        })
    }

    fn query_body(&mut self, query: &Query) -> Result<BoundRows> {
        match &*query.body {
            SetExpr::Select(select) => {
                let rows = self.select(select, query.order_by.as_ref())?;
                self.limit_rows(rows, query)
            }
            body => {
                let rows = self.set_expr(body)?;
                self.order_and_limit(rows, query)
            }
        }
    }

    /// Applies ORDER BY and LIMIT of `query` to the rows of its body, which must not be a SELECT.
    pub(super) fn order_and_limit(&mut self, rows: BoundRows, query: &Query) -> Result<BoundRows> {
        let rows = match &query.order_by {
            Some(order) => self.order_rows(rows, order)?,
            None => rows,
        };
        self.limit_rows(rows, query)
    }

    fn limit_rows(&mut self, mut rows: BoundRows, query: &Query) -> Result<BoundRows> {
        let (rows_max, skip) = self.limits(query)?;
        if let (Some(most), true) = (&rows_max, query.fetch.as_ref().is_some_and(|fetch| fetch.with_ties)) {
            rows.plan = self.with_ties(rows.plan, most.clone(), skip)?;
            return Ok(rows);
        }
        if rows_max.is_some() || skip.is_some() {
            rows.plan = Logical::Limit { input: Box::new(rows.plan), skip, rows: rows_max };
        }
        Ok(rows)
    }

    /// Binds the body of a query.
    pub(super) fn set_expr(&mut self, body: &SetExpr) -> Result<BoundRows> {
        match body {
            SetExpr::Select(select) => self.select(select, None),
            SetExpr::Query(query) => self.query(query),
            SetExpr::Values(values) => self.values(values),
            SetExpr::SetOperation { op, set_quantifier, .. } => self.set_operation(body, *op, *set_quantifier),
            SetExpr::Table(table) => self.table_statement(table),
            SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_) => {
                Err(unsupported("a statement that changes rows as a query"))
            }
        }
    }

    /// `TABLE t`
    fn table_statement(&mut self, table: &ast::Table) -> Result<BoundRows> {
        let parts = table.schema_name.iter().chain(&table.table_name).map(ast::Ident::new).collect::<Vec<_>>();
        let name = ast::ObjectName::from(parts);
        let (plan, relation) = self.relation(&name)?;
        Ok(BoundRows { plan, columns: relation.columns })
    }

    fn set_operation(&mut self, body: &SetExpr, op: SetOperator, quantifier: SetQuantifier) -> Result<BoundRows> {
        let (all, by_name) = match quantifier {
            SetQuantifier::All => (true, false),
            SetQuantifier::AllByName => (true, true),
            SetQuantifier::Distinct | SetQuantifier::None => (false, false),
            SetQuantifier::ByName | SetQuantifier::DistinctByName => (false, true),
        };
        let kind = match op {
            SetOperator::Union => SetOperationKind::Union,
            SetOperator::Intersect => SetOperationKind::Intersect,
            SetOperator::Except | SetOperator::Minus => SetOperationKind::Except,
        };
        let mut operands = Vec::new();
        gather(body, op, quantifier, kind == SetOperationKind::Union && !by_name, &mut operands);
        let mut inputs = Vec::with_capacity(operands.len());
        for operand in operands {
            inputs.push(self.deeper(1, |binder| binder.set_expr(operand))?);
        }
        if by_name {
            self.match_names(&mut inputs)?;
        }
        self.combine(kind, all, inputs).map_err(|error| self.at(error, body.span()))
    }

    /// Builds one set operation over all `inputs`. Their columns are cast to common types.
    pub(super) fn combine(
        &mut self,
        kind: SetOperationKind,
        all: bool,
        mut inputs: Vec<BoundRows>,
    ) -> Result<BoundRows> {
        let width = inputs[0].columns.len();
        if let Some(other) = inputs.iter().find(|input| input.columns.len() != width) {
            let message = format!(
                "the queries of a UNION, INTERSECT or EXCEPT must have the same number of columns: {width} and {}",
                other.columns.len()
            );
            return Err(Error::new(ErrorKind::CardinalityViolation, message));
        }
        let kinds = self.common_kinds(&inputs)?;
        for input in &mut inputs {
            self.cast_columns(input, &kinds)?;
        }
        let columns: Vec<NamedColumn> =
            inputs[0].columns.iter().zip(&kinds).map(|(column, kind)| self.copy_of(column, kind.clone())).collect();
        let inputs = inputs
            .into_iter()
            .map(|input| (input.plan, input.columns.iter().map(|column| column.id).collect()))
            .collect();
        let ids = columns.iter().map(|column| column.id).collect();
        let plan = Logical::SetOperation(LogicalSetOperation { kind, all, inputs, columns: ids });
        Ok(BoundRows { plan, columns })
    }

    /// The common type of each column of all inputs.
    fn common_kinds(&self, inputs: &[BoundRows]) -> Result<Vec<DataType>> {
        (0..inputs[0].columns.len())
            .map(|place| {
                let kinds = || inputs.iter().map(|input| self.kind(input.columns[place].id));
                // A column that has only NULLs becomes a TEXT column.
                if let Some(kind) = self.common_of_columns(inputs, place) {
                    return Ok(kind);
                }
                let mut distinct: Vec<String> = Vec::new();
                for name in kinds().map(type_name) {
                    if !distinct.contains(&name) {
                        distinct.push(name);
                    }
                }
                let message =
                    format!("column {} of the queries has no common type: {}", place + 1, distinct.join(" and "));
                Err(Error::new(ErrorKind::DatatypeMismatch, message).hint("CAST one of them to the type of the other"))
            })
            .collect()
    }

    fn common_of_columns(&self, inputs: &[BoundRows], place: usize) -> Option<DataType> {
        // A literal text next to another type is read as a value of that type.
        let is_text =
            |input: &&BoundRows| literal_of(&input.plan, input.columns[place].id).is_some_and(is_text_literal);
        let others = || inputs.iter().filter(|input| !is_text(input)).map(|input| self.kind(input.columns[place].id));
        let all = || inputs.iter().map(|input| self.kind(input.columns[place].id));
        match others().any(|kind| *kind != DataType::Null) {
            true => typing::common_kind(others()),
            false => typing::common_kind(all()),
        }
    }

    /// Casts the columns of `rows` to `kinds`.
    pub(super) fn cast_columns(&mut self, rows: &mut BoundRows, kinds: &[DataType]) -> Result<()> {
        let mut exprs = Vec::new();
        for (column, kind) in rows.columns.iter_mut().zip(kinds) {
            if self.kind(column.id) == kind {
                continue;
            }
            let value = match literal_of(&rows.plan, column.id) {
                Some(literal) => literal.clone(),
                None => self.columns.expr(column.id),
            };
            let cast = self.coerce(value, kind)?;
            column.id = self.add_column(&column.spelled, kind.clone());
            exprs.push((column.id, cast));
        }
        map(&mut rows.plan, exprs);
        Ok(())
    }

    /// Reorders the columns of all inputs by name, for `UNION BY NAME`.
    fn match_names(&mut self, inputs: &mut [BoundRows]) -> Result<()> {
        let mut names: Vec<(Rc<str>, Rc<str>)> = Vec::new();
        for input in inputs.iter() {
            for (place, column) in input.columns.iter().enumerate() {
                if input.columns[..place].iter().any(|other| other.name == column.name) {
                    let message = format!("a query of a UNION BY NAME has two columns \"{}\"", column.spelled);
                    return Err(Error::new(ErrorKind::AmbiguousColumn, message));
                }
                if !names.iter().any(|(name, _)| *name == column.name) {
                    names.push((Rc::clone(&column.name), Rc::clone(&column.spelled)));
                }
            }
        }
        for input in inputs {
            let mut missing = Vec::new();
            let columns = names
                .iter()
                .map(|(name, spelled)| match input.columns.iter().find(|column| column.name == *name) {
                    Some(column) => column.clone(),
                    None => {
                        let id = self.add_column(spelled, DataType::Null);
                        missing.push((id, ScalarExpr::null(DataType::Null)));
                        NamedColumn { id, name: Rc::clone(name), spelled: Rc::clone(spelled) }
                    }
                })
                .collect();
            input.columns = columns;
            map(&mut input.plan, missing);
        }
        Ok(())
    }

    /// `VALUES`
    fn values(&mut self, values: &ast::Values) -> Result<BoundRows> {
        let mut level = SelectLevel::new(self.columns_end());
        level.end = Some(level.first);
        level.clause = Clause::Other("VALUES");
        self.levels.push(level);
        let width = values.rows.first().map_or(0, |row| row.content.len());
        let mut rows = Vec::with_capacity(values.rows.len());
        for (number, row) in values.rows.iter().enumerate() {
            if row.content.len() != width {
                let message =
                    format!("row {} of VALUES has {} values, but {width} are needed", number + 1, row.content.len());
                return Err(self.at(Error::new(ErrorKind::CardinalityViolation, message), row.span()));
            }
            rows.push(row.content.iter().map(|value| self.expr(value)).collect::<Result<Vec<_>>>()?);
        }
        self.levels.pop();
        let mut columns = Vec::with_capacity(width);
        for place in 0..width {
            let kind = self.bring_together(rows.iter_mut().map(|row| &mut row[place]).collect()).map_err(|error| {
                let mut spans = values.rows.iter().map(|row| start_of(&row.content[place]));
                self.at(
                    error.context(format!("column {} of VALUES", place + 1)),
                    spans.next_back().expect("there is a row"),
                )
            })?;
            let name = format!("column{}", place + 1);
            columns.push(NamedColumn::new(self.add_column(&name, kind), &name));
        }
        let ids = columns.iter().map(|column| column.id).collect();
        Ok(BoundRows { plan: Logical::Values { columns: ids, rows }, columns })
    }

    /// Orders rows by the columns that they have, for the result of a set operation or of VALUES.
    fn order_rows(&mut self, rows: BoundRows, order: &ast::OrderBy) -> Result<BoundRows> {
        let mut level = SelectLevel::new(0);
        let relation = ScopeRelation::new(None, rows.columns.clone());
        level.names.push(FromNames::of(relation));
        level.end = Some(self.columns_end());
        level.clause = Clause::OrderBy;
        self.levels.push(level);
        let items = self.items_of_columns(&rows.columns);
        let keys = self.order_keys(order, &items)?;
        let level = self.levels.pop().expect("it was pushed");
        if !level.aggregates.is_empty() || !level.windows.is_empty() {
            let message = "ORDER BY after UNION, INTERSECT, EXCEPT or VALUES cannot contain aggregates or windows";
            return Err(Error::new(ErrorKind::Grouping, message).hint("order around a subquery that computes them"));
        }
        Ok(BoundRows { plan: Logical::Sort { input: Box::new(rows.plan), keys }, columns: rows.columns })
    }

    /// The OFFSET and the LIMIT of a query.
    fn limits(&mut self, query: &Query) -> Result<(Option<ScalarExpr>, Option<ScalarExpr>)> {
        let (mut rows, skip) = match &query.limit_clause {
            None => (None, None),
            Some(LimitClause::LimitOffset { limit, offset, .. }) => {
                (limit.as_ref(), offset.as_ref().map(|offset| &offset.value))
            }
            Some(LimitClause::OffsetCommaLimit { offset, limit }) => (Some(limit), Some(offset)),
        };
        let one = ast::Expr::value(ast::Value::Number("1".into(), false));
        if let Some(fetch) = &query.fetch {
            if rows.is_some() {
                return Err(Error::new(ErrorKind::Syntax, "a query cannot have both FETCH and LIMIT"));
            }
            rows = Some(fetch.quantity.as_ref().unwrap_or(&one));
        }
        let rows = rows.map(|rows| self.limit(rows, "LIMIT")).transpose()?;
        let skip = skip.map(|skip| self.limit(skip, "OFFSET")).transpose()?;
        Ok((rows, skip))
    }

    fn limit(&mut self, expr: &ast::Expr, clause: &'static str) -> Result<ScalarExpr> {
        let mut level = SelectLevel::new(self.columns_end());
        level.end = Some(level.first);
        level.clause = Clause::Other(clause);
        self.levels.push(level);
        let bound = self.expr(expr)?;
        self.levels.pop();
        let bound = self.typed_parameter(bound, &DataType::Int64);
        let is_whole = bound.kind.is_integer() || matches!(bound.kind, DataType::Null);
        if !is_whole && !is_text_literal(&bound) {
            let message = format!("{clause} takes a whole number, not {}", type_name(&bound.kind));
            return Err(self.at(Error::new(ErrorKind::DatatypeMismatch, message), start_of(expr)));
        }
        let mut bound = self.placed(start_of(expr), |binder| binder.coerce(bound, &DataType::Int64))?;
        if bound.as_constant().is_none() && !matches!(bound.op, ExprOp::Parameter(_)) {
            rowmill_expr::fold::fold(&mut bound);
        }
        if bound.as_constant().and_then(|value| value.as_bigint()).is_some_and(|rows| rows < 0) {
            let error = Error::new(ErrorKind::InvalidParameter, format!("{clause} must be >= 0, but it is {expr}"));
            return Err(self.at(error, start_of(expr)));
        }
        Ok(bound)
    }
}

/// Adds columns to `plan`.
pub(super) fn map(plan: &mut Logical, exprs: Vec<(ColumnId, ScalarExpr)>) {
    if exprs.is_empty() {
        return;
    }
    let input = std::mem::replace(plan, Logical::one_row());
    *plan = Logical::Map { input: Box::new(input), exprs };
}

/// Keeps the rows of `plan` for which all conditions are true.
pub(super) fn filter(plan: &mut Logical, condition: ScalarExpr) {
    let input = std::mem::replace(plan, Logical::one_row());
    *plan = Logical::Filter { input: Box::new(input), conditions: conjuncts(condition) };
}

/// Splits a chain of AND into its parts. A condition lets through only rows for which it is true, so operands of OR
/// that are never true are left out.
pub(super) fn conjuncts(condition: ScalarExpr) -> Vec<ScalarExpr> {
    match condition.op {
        ExprOp::And(parts) => parts.into_iter().flat_map(conjuncts).collect(),
        ExprOp::Or(mut parts) if parts.iter().any(is_never_true) && !parts.iter().all(is_never_true) => {
            parts.retain(|part| !is_never_true(part));
            conjuncts(ScalarExpr::or(parts))
        }
        _ => vec![condition],
    }
}

/// Whether a condition has a NULL that keeps it from being true.
fn is_never_true(condition: &ScalarExpr) -> bool {
    match &condition.op {
        ExprOp::Literal(value) => value.is_null(),
        ExprOp::And(parts) => parts.iter().any(is_never_true),
        _ => false,
    }
}

pub(super) fn is_text_literal(expr: &ScalarExpr) -> bool {
    expr.kind == DataType::Utf8View && expr.as_constant().is_some()
}

/// The literal that a SELECT gives as a column, if it is one.
fn literal_of(plan: &Logical, id: ColumnId) -> Option<&ScalarExpr> {
    match plan {
        Logical::Map { exprs, input } => match exprs.iter().find(|(made, _)| *made == id) {
            Some((_, expr)) => expr.as_constant().is_some().then_some(expr),
            None => literal_of(input, id),
        },
        Logical::Sort { input, .. } | Logical::Limit { input, .. } => literal_of(input, id),
        _ => None,
    }
}

/// Collects the operands of a set operation. Operands of a nested operation of the same kind are included if that is
/// equivalent.
fn gather<'q>(
    body: &'q SetExpr,
    wanted: SetOperator,
    quantifier: SetQuantifier,
    is_flat: bool,
    operands: &mut Vec<&'q SetExpr>,
) {
    let mut right_operands = Vec::new();
    let mut at = body;
    let mut is_first = true;
    // A chain is nested on the left and may be long, so we use a loop.
    loop {
        match at {
            SetExpr::SetOperation { left, op, set_quantifier, right }
                if is_first || is_flat && *op == wanted && *set_quantifier == quantifier =>
            {
                right_operands.push(&**right);
                at = left;
                is_first = false;
            }
            _ => break,
        }
    }
    operands.push(at);
    for right in right_operands.into_iter().rev() {
        match right {
            SetExpr::SetOperation { op, set_quantifier, .. }
                if is_flat && *op == wanted && *set_quantifier == quantifier =>
            {
                gather(right, wanted, quantifier, is_flat, operands);
            }
            other => operands.push(other),
        }
    }
}

/// Turns `LIMIT 10%` into a limit that a subquery counts: the share of the rows that the query has without it.
fn limit_percent(query: &Query) -> Option<Query> {
    let Some(LimitClause::LimitOffset { limit: Some(limit), .. }) = &query.limit_clause else { return None };
    let percent = built_query::arguments(built_query::as_call(limit, "limit percent")?)?.into_iter().next()?.clone();
    let all = Query { with: None, limit_clause: None, order_by: None, ..query.clone() };
    let number = |text: &str| ast::Expr::value(ast::Value::Number(text.into(), false));
    let share = built_query::binary(percent, ast::BinaryOperator::Divide, number("100.0"));
    let rows = built_query::call("count", vec![number("1")]);
    let share = built_query::binary(rows, ast::BinaryOperator::Multiply, ast::Expr::Nested(Box::new(share)));
    let rows = ast::Expr::Cast {
        kind: ast::CastKind::Cast,
        expr: Box::new(built_query::call("floor", vec![share])),
        data_type: ast::DataType::BigInt(None),
        array: false,
        format: None,
    };
    let from = built_query::derived(all, "limited", Vec::new());
    let counted = built_query::query(built_query::select(vec![ast::SelectItem::UnnamedExpr(rows)], from));
    let mut limited = query.clone();
    if let Some(LimitClause::LimitOffset { limit, .. }) = &mut limited.limit_clause {
        *limit = Some(ast::Expr::Subquery(Box::new(counted)));
    }
    Some(limited)
}

fn refuse_clauses(query: &Query) -> Result<()> {
    let is_by = matches!(&query.limit_clause, Some(LimitClause::LimitOffset { limit_by, .. }) if !limit_by.is_empty());
    let order = query.order_by.as_ref();
    let fills = order.is_some_and(|order| match &order.kind {
        ast::OrderByKind::Expressions(keys) => keys.iter().any(|key| key.with_fill.is_some()),
        ast::OrderByKind::All(_) => false,
    });
    let clauses = [
        (!query.locks.is_empty(), "FOR UPDATE and FOR SHARE"),
        (query.for_clause.is_some(), "FOR XML, FOR JSON and FOR BROWSE"),
        (query.settings.is_some(), "SETTINGS"),
        (query.format_clause.is_some(), "FORMAT"),
        (!query.pipe_operators.is_empty(), "a pipe operator (|>)"),
        (is_by, "LIMIT ... BY"),
        (query.fetch.as_ref().is_some_and(|fetch| fetch.percent), "FETCH ... PERCENT"),
        (order.is_some_and(|order| order.interpolate.is_some()), "INTERPOLATE"),
        (fills, "WITH FILL or INTERPOLATE after ORDER BY"),
    ];
    match clauses.iter().find(|(is_there, _)| *is_there) {
        Some((_, clause)) => Err(unsupported(clause)),
        None => Ok(()),
    }
}
