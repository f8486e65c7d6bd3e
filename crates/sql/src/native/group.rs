//! GROUP BY.
//!
//! Where a statement asks for the distinct values of several arguments of a whole table, or for other aggregates beside
//! them, each of these is a grouping of its own over the same rows, and their results are joined by the keys: the engine
//! has better ways to put one argument's distinct values together than several at a time, and reading a table's value
//! lists several times costs less than what those save. Over other rows one grouping keeps the sets of values.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, StringViewArray};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{
    AggregateFunction as AggregateCall, AggregateFunctionParams, NullTreatment, Sort as SortExpr,
};
use datafusion::logical_expr::logical_plan::Aggregate as AggregateNode;
use datafusion::logical_expr::{Expr, ExprSchemable};
use rowmill_plan::{self as plan, AggregateFunction, Node, is_aggregated, is_key_kind};

use super::grouping_sets::key_sets;
use super::join::JoinSpec;
use super::lowering::Lowerer;
use super::rows::Rows;
use crate::semantics::total_error;

/// One aggregate of a statement.
#[derive(Clone)]
pub(super) struct Call {
    pub(super) function: AggregateFunction,
    /// Over the columns of the rows below, and its type; of rows without.
    argument: Option<(Expr, DataType)>,
    /// What the function needs to know besides.
    parameter: Option<ArrayRef>,
    pub(super) distinct: bool,
    /// The values by which those of the argument are ordered, over the columns of the rows below, and their types.
    order: Vec<(SortExpr, DataType)>,
    skips_nulls: bool,
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
        let (exprs, sets) = match aggregate.group_expr.as_slice() {
            [Expr::GroupingSet(set)] => match key_sets(set) {
                Some((exprs, sets)) => (exprs, Some(sets)),
                None => return Ok(None),
            },
            exprs if exprs.iter().any(|expr| matches!(expr, Expr::GroupingSet(_))) => return Ok(None),
            exprs => (exprs.to_vec(), None),
        };
        let (fields, first_call) = (aggregate.schema.fields(), exprs.len() + usize::from(sets.is_some()));
        if fields.len() != first_call + aggregate.aggr_expr.len() {
            return Ok(None);
        }
        let below = aggregate.input.schema();
        let mut keys = Vec::with_capacity(exprs.len());
        for expr in exprs {
            keys.push(input.resolve(expr, below)?);
        }
        let mut calls = Vec::with_capacity(aggregate.aggr_expr.len());
        for (expr, field) in aggregate.aggr_expr.iter().zip(&fields[first_call..]) {
            let Expr::AggregateFunction(call) = expr.clone().unalias() else { return Ok(None) };
            let Some(call) = call_of(&call, field.data_type(), below, input)? else { return Ok(None) };
            calls.push(call);
        }
        let arguments = calls.iter().flat_map(Call::exprs);
        let asked: Vec<Expr> = keys.iter().chain(arguments).cloned().collect();
        let Some(input) = self.settled(input.clone(), &asked)? else { return Ok(None) };
        let fields = &fields[..first_call];
        if let Some(sets) = sets {
            return self.grouping_sets(sets, fields, keys, &calls, &input);
        }
        let Some(keys) = self.keys(keys, fields, &input)? else { return Ok(None) };
        let is_table = matches!(&**input.node(), Node::Scan(scan) if scan.predicates.is_empty());
        if is_table && calls.iter().any(Call::is_of_distinct_values) && calls.iter().all(|call| call.filter.is_none()) {
            return self.in_parts(&keys, &calls, &input);
        }
        let all: Vec<usize> = (0..calls.len()).collect();
        self.grouping(&keys, &all, &calls, &input)
    }

    pub(super) fn keys(
        &mut self,
        exprs: Vec<Expr>,
        fields: &[Arc<Field>],
        input: &Rows,
    ) -> Result<Option<Vec<plan::Key>>> {
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
            let Some(aggregate) = self.aggregate(call, input)? else { return Ok(None) };
            aggregates.push(aggregate);
        }
        self.grouped(keys.to_vec(), aggregates, input).map(Some)
    }

    /// An aggregate of a statement as one of the engine.
    pub(super) fn aggregate(&mut self, call: &Call, input: &Rows) -> Result<Option<plan::Aggregate>> {
        let argument = match &call.argument {
            None => None,
            Some((expr, of)) => {
                let Some(expr) = self.expr(expr.clone(), of, input)? else { return Ok(None) };
                Some((expr, of.clone()))
            }
        };
        let mut order = Vec::with_capacity(call.order.len());
        for (SortExpr { expr, asc, nulls_first }, kind) in &call.order {
            let Some(expr) = self.expr(expr.clone(), kind, input)? else { return Ok(None) };
            let (kind, descending, nulls_first) = (kind.clone(), !asc, *nulls_first);
            order.push(plan::AggregateOrder { expr, kind, descending, nulls_first });
        }
        let filter = match &call.filter {
            None => None,
            Some(filter) => {
                let Some(filter) = self.expr(filter.clone(), &DataType::Boolean, input)? else { return Ok(None) };
                Some(filter)
            }
        };
        Ok(Some(plan::Aggregate {
            parameter: call.parameter.clone(),
            distinct: call.distinct,
            order,
            skips_nulls: call.skips_nulls,
            filter,
            ..aggregate(call.function, argument, call.kind.clone())
        }))
    }

    pub(super) fn grouped(
        &mut self,
        keys: Vec<plan::Key>,
        aggregates: Vec<plan::Aggregate>,
        input: &Rows,
    ) -> Result<Rows> {
        self.grouped_always(keys, aggregates, Vec::new(), input)
    }

    /// As [`Lowerer::grouped`], with groups that are there even without rows.
    pub(super) fn grouped_always(
        &mut self,
        keys: Vec<plan::Key>,
        aggregates: Vec<plan::Aggregate>,
        always: Vec<ArrayRef>,
        input: &Rows,
    ) -> Result<Rows> {
        let of_keys = keys.iter().map(|key| Field::new("", key.kind.clone(), key.nullable));
        let of_aggregates = aggregates
            .iter()
            .map(|aggregate| Field::new("", aggregate.kind.clone(), aggregate.function != AggregateFunction::Count));
        let fields: Vec<Arc<Field>> = of_keys.chain(of_aggregates).map(Arc::new).collect();
        let names = self.named(&fields)?;
        let group = plan::Group { predicates: Vec::new(), keys, aggregates, always };
        let schema = Arc::new(Schema::new(names.fields().clone()));
        let node = Node::Group { input: Arc::clone(input.node()), group, schema };
        Ok(Rows::new(node, names, true))
    }
}

impl Call {
    /// What it reads of a row.
    pub(super) fn exprs_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        let order = self.order.iter_mut().map(|(order, _)| &mut order.expr);
        self.argument.iter_mut().map(|(expr, _)| expr).chain(order).chain(&mut self.filter)
    }

    /// What it reads of a row.
    pub(super) fn exprs(&self) -> impl Iterator<Item = &Expr> {
        let order = self.order.iter().map(|(order, _)| &order.expr);
        self.argument.iter().map(|(expr, _)| expr).chain(order).chain(&self.filter)
    }

    /// Whether it is the same over a grouping by its argument, and thus needs no set of values.
    fn is_of_distinct_values(&self) -> bool {
        use AggregateFunction::{Average, Count, Sum};
        self.distinct && matches!(self.function, Count | Sum | Average)
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
        "percentile_cont" => Function::Quantile,
        "array_agg" => Function::Array,
        "string_agg" => Function::Text,
        "first_value" => Function::First,
        "last_value" => Function::Last,
        "nth_value" => Function::Nth,
        "approx_distinct" => Function::ApproximateCount,
        _ => return None,
    })
}

fn call_of(call: &AggregateCall, kind: &DataType, below: &DFSchema, input: &Rows) -> Result<Option<Call>> {
    use AggregateFunction as Function;
    let params = &call.params;
    let Some(argument) = params.args.first() else { return Ok(None) };
    let filter = params.filter.as_ref().map(|filter| input.resolve((**filter).clone(), below)).transpose()?;
    let (of, kind) = (argument.get_type(below)?, kind.clone());
    let Some(function) = function_of(call.func.name(), &of) else { return Ok(None) };
    let Ok(parameter) = parameter_of(function, params) else { return Ok(None) };
    let order = match function {
        Function::Array | Function::Text | Function::First | Function::Last | Function::Nth => &*params.order_by,
        // Its order has been turned into the share.
        Function::Quantile => &[],
        _ if params.order_by.is_empty() => &[],
        _ => return Ok(None),
    };
    let skips_nulls = match params.null_treatment {
        None | Some(NullTreatment::RespectNulls) => false,
        Some(NullTreatment::IgnoreNulls) => true,
    };
    // Nobody says what other functions make of it.
    if params.null_treatment.is_some() && (!function.takes_nulls() || function == Function::Nth) {
        return Ok(None);
    }
    // Of distinct values these are what they are of all.
    let is_same = matches!(
        function,
        Function::Min | Function::Max | Function::BitAnd | Function::BitOr | Function::ApproximateCount
    );
    let distinct = params.distinct && !is_same;
    if distinct && !is_computed_of_distinct(function) {
        return Ok(None);
    }
    if let (Function::Count, false, Expr::Literal(value, _)) = (function, distinct, argument)
        && !value.is_null()
    {
        let (parameter, order) = (None, Vec::new());
        return Ok(Some(Call { function, argument: None, parameter, distinct, order, skips_nulls, filter, kind }));
    }
    let argument = input.resolve(argument.clone(), below)?;
    // Texts come in several layouts, of which the engine has one.
    let of = match function {
        Function::Text if matches!(of, DataType::Utf8 | DataType::LargeUtf8) => DataType::Utf8View,
        _ => of,
    };
    if !is_aggregated(function, &of) || distinct && !is_key_kind(&of) || argument.column_refs().is_empty() {
        return Ok(None);
    }
    let Some(order) = order_of(order, below, input)? else { return Ok(None) };
    // Distinct values can be put in an order of their own only.
    if distinct && order.iter().any(|(order, _)| order.expr != argument) {
        return Ok(None);
    }
    Ok(Some(Call { function, argument: Some((argument, of)), parameter, distinct, order, skips_nulls, filter, kind }))
}

/// Whether an aggregate of distinct values is one of the engine's.
fn is_computed_of_distinct(function: AggregateFunction) -> bool {
    use AggregateFunction::{Array, Average, Count, Median, Quantile, Sum, Text};
    matches!(function, Count | Sum | Average | Median | Quantile | Array | Text)
}

/// An order of values over the columns of the rows below; none if the engine has no such order. What is the same for all
/// rows orders nothing.
fn order_of(order: &[SortExpr], below: &DFSchema, input: &Rows) -> Result<Option<Vec<(SortExpr, DataType)>>> {
    let mut resolved: Vec<(SortExpr, DataType)> = Vec::with_capacity(order.len());
    for SortExpr { expr, asc, nulls_first } in order {
        let kind = expr.get_type(below)?;
        if !is_key_kind(&kind) {
            return Ok(None);
        }
        let expr = input.resolve(expr.clone(), below)?;
        let is_known = resolved.iter().any(|(known, _)| known.expr == expr);
        if !is_known && !expr.column_refs().is_empty() {
            resolved.push((SortExpr { expr, asc: *asc, nulls_first: *nulls_first }, kind));
        }
    }
    Ok(Some(resolved))
}

/// What a function needs to know besides its first argument. Fails if that is nothing that the engine takes.
fn parameter_of(function: AggregateFunction, params: &AggregateFunctionParams) -> Result<Option<ArrayRef>, NotTaken> {
    use AggregateFunction as Function;
    let values: Vec<&ScalarValue> = params.args[1..].iter().map_while(Expr::as_literal).collect();
    let is_descending = params.order_by.first().is_some_and(|order| !order.asc);
    let is_own_order = params.order_by.iter().all(|order| order.expr == params.args[0]);
    Ok(match (function, &*values) {
        (Function::Text, [value]) if value.is_null() => Some(Arc::new(StringViewArray::from_iter_values([""]))),
        (Function::Text, [value]) => {
            let between = value.try_as_str().flatten().ok_or(NotTaken)?;
            Some(Arc::new(StringViewArray::from_iter_values([between])))
        }
        (Function::Nth, [ScalarValue::Int64(Some(place))]) if *place != 0 => {
            Some(Arc::new(Int64Array::from(vec![*place])))
        }
        (Function::Quantile, [ScalarValue::Float64(Some(share))]) if is_own_order && (0.0..=1.0).contains(share) => {
            Some(Arc::new(Float64Array::from(vec![if is_descending { 1.0 - share } else { *share }])))
        }
        (Function::Text | Function::Nth | Function::Quantile, _) => return Err(NotTaken),
        _ if params.args.len() == 1 => None,
        _ => return Err(NotTaken),
    })
}

/// Something that the engine does not take.
struct NotTaken;

/// The groupings that give all of `calls`; there is one at least.
fn parts(calls: &[Call]) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for (place, call) in calls.iter().enumerate() {
        let distinct = call.argument.as_ref().filter(|_| call.is_of_distinct_values()).map(|(expr, _)| expr.clone());
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
