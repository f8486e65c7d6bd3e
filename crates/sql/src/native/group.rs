//! GROUP BY.
//!
//! Where a statement asks for the distinct values of several arguments of a whole table, or for other aggregates beside
//! them, each of these is a grouping of its own over the same rows, and their results are joined by the keys: the engine
//! has better ways to put one argument's distinct values together than several at a time, and reading a table's value
//! lists several times costs less than what those save. Over other rows one grouping keeps the sets of values.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::AggregateFunction as AggregateCall;
use datafusion::logical_expr::logical_plan::Aggregate as AggregateNode;
use datafusion::logical_expr::{Expr, ExprSchemable};
use rowmill_plan::{self as plan, AggregateFunction, Node, is_aggregated, is_key_kind};

use super::join::JoinSpec;
use super::lowering::Lowerer;
use super::rows::Rows;
use crate::semantics::total_error;

/// One aggregate of a statement.
struct Call {
    function: AggregateFunction,
    /// Over the columns of the rows below, and its type; of rows without.
    argument: Option<(Expr, DataType)>,
    distinct: bool,
    /// Which rows count, over the columns of the rows below.
    filter: Option<Expr>,
    kind: DataType,
}

/// Aggregates that one grouping gives, by their places among those of the statement.
struct Part {
    /// The argument whose distinct values are aggregated.
    distinct: Option<Expr>,
    calls: Vec<usize>,
}

impl Lowerer<'_> {
    pub(super) fn group(&mut self, aggregate: &AggregateNode, input: &Rows) -> Result<Option<Rows>> {
        let (schema, key_count) = (aggregate.schema.inner(), aggregate.group_expr.len());
        if schema.fields().len() != key_count + aggregate.aggr_expr.len() {
            return Ok(None);
        }
        let below = aggregate.input.schema();
        let mut keys = Vec::with_capacity(key_count);
        for expr in &aggregate.group_expr {
            if matches!(expr, Expr::GroupingSet(_)) {
                return Ok(None);
            }
            keys.push(input.resolve(expr.clone(), below)?);
        }
        let mut calls = Vec::with_capacity(aggregate.aggr_expr.len());
        for (expr, field) in aggregate.aggr_expr.iter().zip(&schema.fields()[key_count..]) {
            let Expr::AggregateFunction(call) = expr.clone().unalias() else { return Ok(None) };
            let Some(call) = call_of(&call, field.data_type(), below, input)? else { return Ok(None) };
            calls.push(call);
        }
        let arguments = calls.iter().flat_map(Call::exprs);
        let asked: Vec<Expr> = keys.iter().chain(arguments).cloned().collect();
        let Some(input) = self.settled(input.clone(), &asked)? else { return Ok(None) };
        let Some(keys) = self.keys(keys, &schema.fields()[..key_count], &input)? else { return Ok(None) };
        let is_table = matches!(&**input.node(), Node::Scan(scan) if scan.predicates.is_empty());
        if is_table && calls.iter().any(|call| call.distinct) && calls.iter().all(|call| call.filter.is_none()) {
            return self.in_parts(&keys, &calls, &input);
        }
        let all: Vec<usize> = (0..calls.len()).collect();
        self.grouping(&keys, &all, &calls, &input)
    }

    fn keys(&mut self, exprs: Vec<Expr>, fields: &[Arc<Field>], input: &Rows) -> Result<Option<Vec<plan::Key>>> {
        let mut keys = Vec::with_capacity(exprs.len());
        for (expr, field) in exprs.into_iter().zip(fields) {
            let Some(key) = self.key(expr, field.data_type().clone(), input)? else { return Ok(None) };
            keys.push(key);
        }
        Ok(Some(keys))
    }

    fn key(&mut self, expr: Expr, kind: DataType, input: &Rows) -> Result<Option<plan::Key>> {
        if !is_key_kind(&kind) || expr.column_refs().is_empty() {
            return Ok(None);
        }
        // What the planner believes of an expression is not relied on.
        let nullable = input.place(&expr).is_none_or(|place| input.node().is_nullable(place));
        let expr = self.expr(expr, &kind, input)?;
        Ok(expr.map(|expr| plan::Key { expr, kind, nullable }))
    }

    fn in_parts(&mut self, keys: &[plan::Key], calls: &[Call], input: &Rows) -> Result<Option<Rows>> {
        let mut whole: Option<Rows> = None;
        let mut places: Vec<Option<Expr>> = vec![None; calls.len()];
        for part in parts(calls) {
            let Some(rows) = self.grouping(keys, &part.calls, calls, input)? else { return Ok(None) };
            for (column, call) in part.calls.iter().enumerate() {
                places[*call] = Some(rows.exprs[keys.len() + column].clone());
            }
            whole = match whole {
                None => Some(rows),
                Some(whole) => {
                    let on = rows.exprs.iter().zip(&whole.exprs).take(keys.len());
                    let on = on.map(|(left, right)| (left.clone(), right.clone())).collect();
                    let exprs = whole.exprs[..keys.len()].to_vec();
                    let spec = JoinSpec { on, nulls_equal: true, ..JoinSpec::inner() };
                    self.join_rows(spec, rows, whole)?.map(|rows| Rows { exprs, ..rows })
                }
            };
            if whole.is_none() {
                return Ok(None);
            }
        }
        let Some(whole) = whole else { return Ok(None) };
        let keys = whole.exprs[..keys.len()].to_vec();
        let exprs = keys.into_iter().chain(places.into_iter().flatten()).collect();
        Ok(Some(Rows { exprs, ..whole }))
    }

    /// Rows by keys.
    fn grouping(&mut self, keys: &[plan::Key], chosen: &[usize], calls: &[Call], input: &Rows) -> Result<Option<Rows>> {
        let mut aggregates = Vec::with_capacity(chosen.len());
        for call in chosen.iter().map(|call| &calls[*call]) {
            let argument = match &call.argument {
                None => None,
                Some((expr, of)) => {
                    let Some(expr) = self.expr(expr.clone(), of, input)? else { return Ok(None) };
                    Some((expr, of.clone()))
                }
            };
            let filter = match &call.filter {
                None => None,
                Some(filter) => {
                    let Some(filter) = self.expr(filter.clone(), &DataType::Boolean, input)? else { return Ok(None) };
                    Some(filter)
                }
            };
            let plain = aggregate(call.function, argument, call.kind.clone());
            aggregates.push(plan::Aggregate { distinct: call.distinct, filter, ..plain });
        }
        self.grouped(keys.to_vec(), aggregates, input).map(Some)
    }

    fn grouped(&mut self, keys: Vec<plan::Key>, aggregates: Vec<plan::Aggregate>, input: &Rows) -> Result<Rows> {
        let of_keys = keys.iter().map(|key| Field::new("", key.kind.clone(), key.nullable));
        let of_aggregates = aggregates
            .iter()
            .map(|aggregate| Field::new("", aggregate.kind.clone(), aggregate.function != AggregateFunction::Count));
        let fields: Vec<Arc<Field>> = of_keys.chain(of_aggregates).map(Arc::new).collect();
        let names = self.named(&fields)?;
        let group = plan::Group { predicates: Vec::new(), keys, aggregates };
        let schema = Arc::new(Schema::new(names.fields().clone()));
        let node = Node::Group { input: Arc::clone(input.node()), group, schema };
        Ok(Rows::new(node, names, true))
    }
}

impl Call {
    /// What it reads of a row.
    fn exprs(&self) -> impl Iterator<Item = &Expr> {
        self.argument.iter().map(|(expr, _)| expr).chain(&self.filter)
    }
}

fn aggregate(function: AggregateFunction, argument: Option<(plan::Expr, DataType)>, kind: DataType) -> plan::Aggregate {
    let plain = plan::Aggregate::new(function, argument, kind);
    match (&plain.argument, function) {
        (Some((_, of)), AggregateFunction::Sum | AggregateFunction::Average) => {
            plan::Aggregate { total_error: total_error(function.name(), of), ..plain.clone() }
        }
        _ => plain,
    }
}

/// The engine's aggregate with DataFusion's name, for arguments of a type.
fn function_of(name: &str, kind: &DataType) -> Option<AggregateFunction> {
    use AggregateFunction as Function;
    Some(match name {
        "count" => Function::Count,
        "sum" => Function::Sum,
        "avg" => Function::Average,
        "min" => Function::Min,
        "max" => Function::Max,
        "bool_and" if *kind == DataType::Boolean => Function::Min,
        "bool_or" if *kind == DataType::Boolean => Function::Max,
        "bit_and" => Function::BitAnd,
        "bit_or" => Function::BitOr,
        "bit_xor" => Function::BitXor,
        "var" => Function::VarianceSample,
        "var_pop" => Function::VariancePopulation,
        "stddev" => Function::DeviationSample,
        "stddev_pop" => Function::DeviationPopulation,
        "median" => Function::Median,
        _ => return None,
    })
}

fn call_of(call: &AggregateCall, kind: &DataType, below: &DFSchema, input: &Rows) -> Result<Option<Call>> {
    use AggregateFunction as Function;
    let params = &call.params;
    let is_plain = params.order_by.is_empty() && params.null_treatment.is_none();
    let ([argument], true) = (params.args.as_slice(), is_plain) else { return Ok(None) };
    let filter = params.filter.as_ref().map(|filter| input.resolve((**filter).clone(), below)).transpose()?;
    let (of, kind) = (argument.get_type(below)?, kind.clone());
    let Some(function) = function_of(call.func.name(), &of) else { return Ok(None) };
    // Of distinct values these are what they are of all.
    let is_same = matches!(function, Function::Min | Function::Max | Function::BitAnd | Function::BitOr);
    let distinct = params.distinct && !is_same;
    if distinct && !matches!(function, Function::Count | Function::Sum | Function::Average) {
        return Ok(None);
    }
    if let (Function::Count, false, Expr::Literal(value, _)) = (function, distinct, argument)
        && !value.is_null()
    {
        return Ok(Some(Call { function, argument: None, distinct, filter, kind }));
    }
    let argument = input.resolve(argument.clone(), below)?;
    if !is_aggregated(function, &of) || distinct && !is_key_kind(&of) || argument.column_refs().is_empty() {
        return Ok(None);
    }
    Ok(Some(Call { function, argument: Some((argument, of)), distinct, filter, kind }))
}

/// The groupings that give all of `calls`; there is one at least.
fn parts(calls: &[Call]) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for (place, call) in calls.iter().enumerate() {
        let distinct = call.argument.as_ref().filter(|_| call.distinct).map(|(expr, _)| expr.clone());
        match parts.iter_mut().find(|part| part.distinct == distinct) {
            Some(part) => part.calls.push(place),
            None => parts.push(Part { distinct, calls: vec![place] }),
        }
    }
    if parts.is_empty() {
        parts.push(Part { distinct: None, calls: Vec::new() });
    }
    parts
}
