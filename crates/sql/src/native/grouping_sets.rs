//! GROUPING SETS, ROLLUP and CUBE.
//!
//! The rows are read once. Where the aggregates of a group are those of its parts put together, the rows are grouped by
//! all keys first; the groups, of which there are fewer, then come once for each set ([`plan::Expand`]) and are grouped
//! again, by the keys of the set and its number. For other aggregates the rows themselves come once for each set.
//!
//! The number is the one that DataFusion's plans have in `__grouping_id`, of which `grouping()` is computed: a bit for
//! each key that is not in the set, the last key lowest, and above those bits how many times the set came before.

use std::sync::Arc;

use arrow::array::{ArrayRef, UInt64Array, new_null_array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::{Expr, GroupingSet};
use rowmill_plan::{self as plan, AggregateFunction, KeySet, Node};

use super::group::Call;
use super::lowering::Lowerer;
use super::rows::Rows;

/// All keys of grouping sets, each once, and the sets; none if a key is there twice where its place matters.
pub(super) fn key_sets(set: &GroupingSet) -> Option<(Vec<Expr>, Vec<KeySet>)> {
    let keys: Vec<Expr> = set.distinct_expr().into_iter().cloned().collect();
    if keys.len() > u64::BITS as usize || keys.iter().enumerate().any(|(place, key)| keys[..place].contains(key)) {
        return None;
    }
    let sets: Vec<Vec<bool>> = match set {
        GroupingSet::GroupingSets(sets) => {
            sets.iter().map(|set| keys.iter().map(|key| set.contains(key)).collect()).collect()
        }
        GroupingSet::Rollup(_) => (0..=keys.len()).map(|end| (0..keys.len()).map(|key| key < end).collect()).collect(),
        GroupingSet::Cube(_) => {
            let sets = 1_u64.checked_shl(keys.len() as u32)?;
            (0..sets).map(|set| (0..keys.len()).map(|key| set >> key & 1 == 1).collect()).collect()
        }
    };
    let number = |(place, set): (usize, &Vec<bool>)| {
        let left_out = set.iter().fold(0_u64, |bits, is_in| bits << 1 | u64::from(!is_in));
        let times = sets[..place].iter().filter(|other| *other == set).count() as u64;
        let above = if times == 0 { 0 } else { times.checked_shl(keys.len() as u32)? };
        Some(KeySet { columns: set.clone(), number: left_out | above })
    };
    let sets = sets.iter().enumerate().map(number).collect::<Option<_>>()?;
    Some((keys, sets))
}

impl Lowerer<'_> {
    /// The groups of all `sets`. `fields` are those of the keys and of the number of the set.
    pub(super) fn grouping_sets(
        &mut self,
        sets: Vec<KeySet>,
        fields: &[FieldRef],
        keys: Vec<Expr>,
        calls: &[Call],
        input: &Rows,
    ) -> Result<Option<Rows>> {
        let Some((of_set, of_keys)) = fields.split_last() else { return Ok(None) };
        let Some(all_keys) = self.keys(keys.clone(), of_keys, input)? else { return Ok(None) };
        let mut aggregates = Vec::with_capacity(calls.len());
        let rows = if calls.iter().all(is_of_parts) {
            let mut parts = Vec::new();
            for call in calls {
                let Some(whole) = self.aggregate(call, input)? else { return Ok(None) };
                aggregates.push(of_parts(whole, keys.len(), &mut parts));
            }
            let groups = self.grouped(all_keys, parts, input)?;
            self.expanded(groups, &sets, of_set)?
        } else {
            let mut calls = calls.to_vec();
            let Some(rows) = self.with_keys_first(keys.clone(), of_keys, &mut calls, input)? else { return Ok(None) };
            let rows = self.expanded(rows, &sets, of_set)?;
            for call in &calls {
                let Some(aggregate) = self.aggregate(call, &rows)? else { return Ok(None) };
                aggregates.push(aggregate);
            }
            rows
        };
        let always = always(&sets, fields)?;
        let key = |(place, field): (usize, &FieldRef)| plan::Key {
            expr: plan::Expr::Column(place),
            kind: field.data_type().clone(),
            nullable: true,
        };
        let mut keys: Vec<plan::Key> = of_keys.iter().enumerate().map(key).collect();
        keys.push(plan::Key {
            expr: plan::Expr::Column(rows.schema.fields().len() - 1),
            kind: of_set.data_type().clone(),
            nullable: false,
        });
        self.grouped_always(keys, aggregates, always, &rows).map(Some)
    }

    /// `rows`, whose first columns are keys, once for each set.
    fn expanded(&mut self, rows: Rows, sets: &[KeySet], of_set: &FieldRef) -> Result<Rows> {
        let nullable = |field: &FieldRef| (None, Arc::new(Field::clone(field).with_nullable(true)));
        let mut fields: Vec<_> = rows.schema.fields().iter().map(nullable).collect();
        fields.extend(self.named(&[Arc::clone(of_set)])?.fields().iter().map(|field| (None, Arc::clone(field))));
        let schema = Arc::new(DFSchema::new_with_metadata(fields, Default::default())?);
        let (input, sets) = (Arc::clone(rows.node()), sets.to_vec());
        let node = Node::Expand(plan::Expand { input, sets, schema: Arc::clone(schema.inner()) });
        Ok(Rows::new(node, schema, true))
    }

    /// Rows whose first columns are the keys, and behind those what `calls` read, which is named in them from then on.
    fn with_keys_first(
        &mut self,
        keys: Vec<Expr>,
        of_keys: &[FieldRef],
        calls: &mut [Call],
        input: &Rows,
    ) -> Result<Option<Rows>> {
        let key_count = keys.len();
        let mut exprs: Vec<Expr> = keys.into_iter().chain(calls.iter().flat_map(Call::exprs).cloned()).collect();
        let Some(rows) = self.with_columns(input.clone(), &mut exprs)? else { return Ok(None) };
        let places: Option<Vec<usize>> = exprs.iter().map(|expr| rows.place(expr)).collect();
        let Some(mut columns) = places else { return Ok(None) };
        let mut read = columns.split_off(key_count);
        calls.iter_mut().flat_map(Call::exprs_mut).zip(&read).for_each(|(expr, place)| {
            *expr = Expr::Column(Column::from_name(rows.schema.field(*place).name()));
        });
        read.sort_unstable();
        read.dedup();
        let mut fields: Vec<FieldRef> = self.named(of_keys)?.fields().iter().cloned().collect();
        fields.extend(read.iter().map(|place| Arc::clone(&rows.schema.fields()[*place])));
        columns.extend(read);
        let fields = fields.into_iter().map(|field| (None, Arc::new(Field::clone(&field).with_nullable(true))));
        let schema = Arc::new(DFSchema::new_with_metadata(fields.collect(), Default::default())?);
        let exprs = columns.into_iter().map(plan::Expr::Column).collect();
        let (input, of_node) = (Arc::clone(rows.node()), Arc::clone(schema.inner()));
        Ok(Some(Rows::new(Node::Project { input, exprs, schema: of_node }, schema, true)))
    }
}

/// Whether an aggregate of a group can be put together from those of its parts.
fn is_of_parts(call: &Call) -> bool {
    use AggregateFunction::{Average, BitAnd, BitOr, BitXor, Count, Max, Min, Sum};
    !call.distinct && matches!(call.function, Count | Sum | Average | Min | Max | BitAnd | BitOr | BitXor)
}

/// The aggregate that puts together what `parts`, columns behind `keys` keys, give of parts of the rows.
fn of_parts(whole: plan::Aggregate, keys: usize, parts: &mut Vec<plan::Aggregate>) -> plan::Aggregate {
    use AggregateFunction::{Average, Count, Sum};
    let mut add = |part: plan::Aggregate| {
        parts.push(part);
        plan::Expr::Column(keys + parts.len() - 1)
    };
    let (argument, of_parts) = match (whole.function, &whole.argument) {
        (Count, _) => (None, Some(add(whole.clone()))),
        (Average, Some((_, of))) => {
            let kind = total_kind(of);
            let total = add(plan::Aggregate { function: Sum, kind: kind.clone(), ..whole.clone() });
            let count = add(plan::Aggregate { function: Count, kind: DataType::Int64, ..whole.clone() });
            (Some((total, kind)), Some(count))
        }
        _ => (Some((add(whole.clone()), whole.kind.clone())), None),
    };
    plan::Aggregate { argument, of_parts, filter: None, ..whole }
}

/// The type of the exact total of numbers.
fn total_kind(kind: &DataType) -> DataType {
    match kind {
        DataType::Float32 | DataType::Float64 => DataType::Float64,
        DataType::Decimal128(_, scale) => DataType::Decimal128(38, *scale),
        DataType::Int64 | DataType::UInt64 => DataType::Decimal128(38, 0),
        _ => DataType::Int64,
    }
}

/// The groups that are there without rows: those of sets without keys. One array for each key and one for the number.
fn always(sets: &[KeySet], fields: &[FieldRef]) -> Result<Vec<ArrayRef>> {
    let empty = sets.iter().filter(|set| !set.columns.contains(&true));
    let numbers = UInt64Array::from_iter_values(empty.map(|set| set.number));
    let Some((of_set, of_keys)) = fields.split_last().filter(|_| !numbers.is_empty()) else { return Ok(Vec::new()) };
    let mut always: Vec<ArrayRef> =
        of_keys.iter().map(|field| new_null_array(field.data_type(), numbers.len())).collect();
    always.push(cast(&numbers, of_set.data_type())?);
    Ok(always)
}
