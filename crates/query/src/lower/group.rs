//! GROUP BY.
//!
//! A query over a whole table may ask for the distinct values of several arguments, or for other aggregates next to
//! them. We then compute each of these in its own grouping over the same rows and join the results by the keys. The
//! engine is better at the distinct values of one argument than of several at a time, and reading the value lists of a
//! table several times costs less than that saves. Over any other rows, a single grouping keeps sets of values.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use rowmill_base::{Result, SqlType};
use rowmill_plan::logical::{AggregateCall, LogicalGroup};
use rowmill_plan::{self as plan, AggregateFunction, AggregateRole, ColumnId, ExprOp, Node, ScalarExpr};

use super::Lowerer;
use super::grouping_sets::total_kind;
use super::join::JoinSpec;
use super::relation::LoweredRelation;
use crate::column_set::ColumnSet;

/// Aggregates that are computed by one grouping, by their positions in the query.
struct GroupPart {
    /// The argument whose distinct values are aggregated.
    distinct: Option<ScalarExpr>,
    calls: Vec<usize>,
}

impl Lowerer<'_> {
    pub(super) fn group(&mut self, group: &LogicalGroup, needed: &ColumnSet) -> Result<LoweredRelation> {
        let mut group = group.clone();
        group.aggregates.retain(|(id, _)| needed.contains(*id));
        let input = self.lower(&group.input, &read_by(&group))?;
        let input = self.early_functions(&mut group, input)?;
        let read = read_by(&group);
        // Grouping below the joins may be cheaper, and must be decided before the joins are ordered.
        let input = match self.eager_group(&group, input)? {
            Ok(eager) => {
                return match &group.sets {
                    Some(sets) => self.sets_of_groups(&group, sets, eager),
                    None => self.last_group(&group, &eager.joined, eager.aggregates),
                };
            }
            Err(input) => self.settled(input, &read)?,
        };
        if let Some(sets) = &group.sets {
            return self.grouping_sets(&group, sets, input);
        }
        let input = match self.column_groups(&group, input)? {
            Ok(grouped) => return Ok(grouped),
            Err(input) => input,
        };
        let is_table = matches!(&**input.node(), Node::Scan(scan) if scan.predicates.is_empty());
        let calls = &group.aggregates;
        let in_parts = is_table
            && calls.iter().any(|(_, call)| is_of_distinct_values(call))
            && calls.iter().all(|(_, call)| call.filter.is_none());
        match in_parts {
            true => self.grouped_in_parts(input, &group.keys, calls),
            false => self.grouped_rows(input, &group.keys, calls),
        }
    }

    /// Groups the rows of `input` by keys.
    pub(super) fn grouped_rows(
        &mut self,
        input: LoweredRelation,
        keys: &[(ColumnId, ScalarExpr)],
        calls: &[(ColumnId, AggregateCall)],
    ) -> Result<LoweredRelation> {
        // The engine groups by columns, so a constant must become a column first.
        let constants: Vec<ScalarExpr> = keys
            .iter()
            .map(|(_, key)| key)
            .chain(calls.iter().flat_map(|(_, call)| value_exprs(call)))
            .filter(|expr| !input.reads(&input.resolve(expr)))
            .cloned()
            .collect();
        let (input, made) = self.with_columns(input, &constants)?;
        let as_column = |expr: &ScalarExpr| match constants.iter().position(|constant| constant == expr) {
            Some(place) => ScalarExpr::id(made[place], expr.kind.clone()),
            None => expr.clone(),
        };
        let mut of_node = Vec::with_capacity(keys.len());
        for (_, key) in keys {
            of_node.push(self.key(&as_column(key), &input)?);
        }
        let mut aggregates = Vec::with_capacity(calls.len());
        for (_, call) in calls {
            let mut call = call.clone();
            value_exprs_mut(&mut call).for_each(|expr| *expr = as_column(expr));
            aggregates.push(self.aggregate(&call, &input)?);
        }
        let ids = keys.iter().map(|(id, _)| *id).chain(calls.iter().map(|(id, _)| *id)).collect();
        let mut grouped = self.group_node(of_node, aggregates, Vec::new(), ids, &input);
        let resolved: Vec<ScalarExpr> = keys.iter().map(|(_, key)| input.resolve(&as_column(key))).collect();
        let groups = self.estimator.group_count(input.node(), &resolved, &|id| input.position(ColumnId(id)));
        grouped.set_groups(groups);
        Ok(grouped)
    }

    pub(super) fn key(&mut self, expr: &ScalarExpr, input: &LoweredRelation) -> Result<plan::GroupKey> {
        let resolved = input.resolve(expr);
        let position = resolved.as_column().and_then(|column| input.position(ColumnId(column)));
        let nullable = position.is_none_or(|position| input.node().is_nullable(position));
        Ok(plan::GroupKey { expr: self.resolved_expr(&resolved, input)?, kind: resolved.kind, nullable })
    }

    pub(super) fn group_node(
        &mut self,
        keys: Vec<plan::GroupKey>,
        aggregates: Vec<plan::Aggregate>,
        always: Vec<ArrayRef>,
        ids: Vec<ColumnId>,
        input: &LoweredRelation,
    ) -> LoweredRelation {
        let group = plan::Group { predicates: Vec::new(), keys, aggregates, always };
        let schema = self.schema(&ids);
        LoweredRelation::new(Node::Group { input: Arc::clone(input.node()), group, rows: None, schema }, ids)
    }

    fn grouped_in_parts(
        &mut self,
        input: LoweredRelation,
        keys: &[(ColumnId, ScalarExpr)],
        calls: &[(ColumnId, AggregateCall)],
    ) -> Result<LoweredRelation> {
        let mut whole: Option<LoweredRelation> = None;
        for part in parts(calls) {
            let chosen: Vec<(ColumnId, AggregateCall)> = part.calls.iter().map(|place| calls[*place].clone()).collect();
            let Some(known) = whole else {
                whole = Some(self.grouped_rows(input.clone(), keys, &chosen)?);
                continue;
            };
            // The keys of a later part need new ids, because the join compares them with those of the first part.
            let own: Vec<(ColumnId, ScalarExpr)> = keys
                .iter()
                .map(|(id, key)| (self.columns.add(self.columns.get(*id).name.clone(), key.kind.clone()), key.clone()))
                .collect();
            let rows = self.grouped_rows(input.clone(), &own, &chosen)?;
            let on = own.iter().zip(keys).map(|((left, _), (right, _))| (*left, *right)).collect();
            let kept = known.ids.iter().copied().chain(chosen.iter().map(|(id, _)| *id)).collect();
            let spec = JoinSpec { nulls_equal: true, ..JoinSpec::inner(on, kept) };
            whole = Some(self.join_node(spec, rows, known)?);
        }
        Ok(whole.expect("there is at least one part"))
    }

    /// Converts an aggregate of a query to one of the engine.
    pub(super) fn aggregate(&mut self, call: &AggregateCall, input: &LoweredRelation) -> Result<plan::Aggregate> {
        let mut arguments = call.arguments.as_slice();
        if let (true, [argument], false) = (call.function.is_count(), arguments, call.distinct)
            && let ExprOp::Literal(value) = &argument.op
            && !value.is_null()
        {
            arguments = &[];
        }
        let argument = match arguments.first() {
            None => None,
            Some(argument) => Some((self.expr(argument, input)?, argument.kind.clone())),
        };
        let more = arguments.iter().skip(1).map(|more| Ok((self.expr(more, input)?, more.kind.clone())));
        let more = more.collect::<Result<_>>()?;
        let mut order: Vec<plan::AggregateOrder> = Vec::with_capacity(call.order.len());
        for key in &call.order {
            let resolved = input.resolve(&key.expr);
            if !input.reads(&resolved) {
                // A key that has one value in all rows does not order them.
                continue;
            }
            order.push(plan::AggregateOrder {
                expr: self.resolved_expr(&resolved, input)?,
                kind: resolved.kind,
                descending: key.descending,
                nulls_first: key.nulls_first,
            });
        }
        let filter = call.filter.as_ref().map(|filter| self.expr(filter, input)).transpose()?;
        let plain = plan::Aggregate::new(call.function, argument, call.kind.clone());
        let total_error = match (&plain.argument, call.function.role) {
            (Some((_, of)), AggregateRole::Sum | AggregateRole::Average) => total_error(call.function, of),
            _ => plain.total_error.clone(),
        };
        Ok(plan::Aggregate {
            more,
            parameter: call.parameter.as_ref().map(|value| Arc::clone(value.array())),
            distinct: call.distinct && !call.function.ignores_duplicates,
            order,
            skips_nulls: call.skips_nulls,
            filter,
            total_error,
            ..plain
        })
    }
}

/// The error message for an overflow of a total.
fn total_error(function: AggregateFunction, of: &DataType) -> String {
    let name = |kind: &DataType| SqlType::from_arrow(kind).map_or_else(|| kind.to_string(), |kind| kind.to_string());
    let total = name(&total_kind(of));
    format!("number out of range: the total of {}({}) does not fit {total}", function.name, name(of))
}

/// Whether an aggregate over distinct values can be computed from a grouping by its argument, without a set of values.
fn is_of_distinct_values(call: &AggregateCall) -> bool {
    use AggregateRole::{Average, Count, Sum};
    call.distinct && matches!(call.function.role, Count | Sum | Average)
}

/// The columns that a grouping reads.
pub(super) fn read_by(group: &LogicalGroup) -> ColumnSet {
    let mut read = ColumnSet::default();
    group.keys.iter().for_each(|(_, key)| read.add_columns_of(key));
    group.aggregates.iter().flat_map(|(_, call)| call_exprs(call)).for_each(|expr| read.add_columns_of(expr));
    read
}

/// The expressions that an aggregate reads for each row.
pub(super) fn call_exprs(call: &AggregateCall) -> impl Iterator<Item = &ScalarExpr> {
    call.arguments.iter().chain(call.order.iter().map(|key| &key.expr)).chain(&call.filter)
}

/// The expressions whose values an aggregate needs. `count` of a constant needs none.
fn value_exprs(call: &AggregateCall) -> impl Iterator<Item = &ScalarExpr> {
    let is_count = call.function.is_count() && !call.distinct;
    let counts_rows = move |expr: &&ScalarExpr| !(is_count && expr.as_constant().is_some_and(|value| !value.is_null()));
    call.arguments.iter().filter(counts_rows).chain(&call.filter)
}

fn value_exprs_mut(call: &mut AggregateCall) -> impl Iterator<Item = &mut ScalarExpr> {
    call.arguments.iter_mut().chain(&mut call.filter)
}

/// Splits `calls` into groupings. Returns at least one.
fn parts(calls: &[(ColumnId, AggregateCall)]) -> Vec<GroupPart> {
    let mut parts: Vec<GroupPart> = Vec::new();
    for (place, (_, call)) in calls.iter().enumerate() {
        let distinct = call.arguments.first().filter(|_| is_of_distinct_values(call)).cloned();
        match parts.iter_mut().find(|part| part.distinct == distinct) {
            Some(part) => part.calls.push(place),
            None => parts.push(GroupPart { distinct, calls: vec![place] }),
        }
    }
    if parts.is_empty() {
        parts.push(GroupPart { distinct: None, calls: Vec::new() });
    }
    parts
}
