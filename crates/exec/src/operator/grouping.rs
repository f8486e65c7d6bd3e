//! Adapts groupings to the types that the engine can group.
//!
//! The engine groups and compares values of fixed size, texts and blobs. A grouping over other values becomes a
//! grouping over these:
//!
//! ```text
//! lists and structs   become bytes that are equal exactly if the values are equal, and that sort like the values. The
//!                     result of the grouping is turned back into values
//! pairs of doubles    become one value of 128 bits
//! ```

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryViewBuilder, ListArray, UInt32Array, new_null_array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use rowmill_base::{Error, Result};
use rowmill_plan::{Aggregate, AggregateRole, Expr, Group, is_key_kind};

use crate::aggregate::{PAIR, pairs_of};
use crate::function::VectorFunction;
use crate::project::Projected;
use crate::row_keys::RowKeys;

/// A grouping whose values have types that the engine groups.
pub(super) struct AdaptedGroup {
    pub(super) group: Group,
    /// The functions of the plan, and functions that convert values.
    pub(super) functions: Vec<Arc<dyn VectorFunction>>,
    /// The schema that the grouping itself returns.
    pub(super) schema: SchemaRef,
    /// How to make each column of the result from the grouping's columns. `None` if they already are the result.
    pub(super) result: Option<Vec<Projected>>,
}

/// Rewrites `group` so that it only has types that the engine groups. `None` if it already has.
pub(super) fn adapted(
    group: &Group,
    schema: &SchemaRef,
    functions: &[Arc<dyn VectorFunction>],
) -> Result<Option<AdaptedGroup>> {
    let needs_pair = |aggregate: &Aggregate| !aggregate.more.is_empty();
    let is_other = |kind: &DataType| !is_key_kind(kind);
    let is_of_other =
        |aggregate: &Aggregate| needs_bytes(aggregate) || aggregate.order.iter().any(|order| is_other(&order.kind));
    let keys = group.keys.iter().any(|key| is_other(&key.kind));
    if !keys && !group.aggregates.iter().any(|aggregate| needs_pair(aggregate) || is_of_other(aggregate)) {
        return Ok(None);
    }
    let mut adapter =
        Adapter { functions: functions.to_vec(), encoded: Vec::new(), pairs: Vec::new(), fields: Vec::new() };
    let mut adapted = group.clone();
    let mut result = Vec::with_capacity(schema.fields().len());
    for (column, (key, field)) in adapted.keys.iter_mut().zip(schema.fields()).enumerate() {
        if is_other(&key.kind) {
            result.push(Projected::Function(Arc::new(Decoded::new(column, &key.kind, false)?)));
            if let Some(always) = adapted.always.get_mut(column) {
                // The groups that exist without rows must have their keys in the same form.
                *always = bytes_of(&RowKeys::new([key.kind.clone()])?, always)?;
            }
            (key.expr, key.kind) = adapter.encode(key.expr, &key.kind)?;
        } else {
            result.push(Projected::Column(column));
        }
        adapter.fields.push(Field::new(field.name(), key.kind.clone(), true));
    }
    for (aggregate, field) in adapted.aggregates.iter_mut().zip(&schema.fields()[group.keys.len()..]) {
        let column = result.len();
        result.push(adapter.aggregate(aggregate, column)?);
        adapter.fields.push(Field::new(field.name(), aggregate.kind.clone(), true));
    }
    let is_same = result.iter().all(|column| matches!(column, Projected::Column(_)));
    Ok(Some(AdaptedGroup {
        group: adapted,
        functions: adapter.functions,
        schema: Arc::new(Schema::new(adapter.fields)),
        result: (!is_same).then_some(result),
    }))
}

/// Whether an aggregate must compare values of its argument whose type the engine does not compare.
fn needs_bytes(aggregate: &Aggregate) -> bool {
    let counts_rows = aggregate.function.is_count() && !aggregate.distinct;
    aggregate.argument.as_ref().is_some_and(|(_, kind)| !is_key_kind(kind)) && !counts_rows
}

struct Adapter {
    functions: Vec<Arc<dyn VectorFunction>>,
    /// The encoded expressions and their functions. Each expression is encoded by one function only, so that
    /// aggregates over it can share state.
    encoded: Vec<(Expr, usize)>,
    pairs: Vec<([Expr; 2], usize)>,
    fields: Vec<Field>,
}

impl Adapter {
    /// Rewrites an aggregate whose result is column `column`. Returns how to make the original result from that
    /// column.
    fn aggregate(&mut self, aggregate: &mut Aggregate, column: usize) -> Result<Projected> {
        for order in &mut aggregate.order {
            if !is_key_kind(&order.kind) {
                (order.expr, order.kind) = self.encode(order.expr, &order.kind)?;
            }
        }
        let Some((expr, kind)) = aggregate.argument.clone() else { return Ok(Projected::Column(column)) };
        // An aggregate of two arguments, such as corr, gets both as one pair.
        if let [(second, _)] = *aggregate.more {
            aggregate.more.clear();
            aggregate.argument = Some((self.pair([expr, second]), PAIR));
            return Ok(Projected::Column(column));
        }
        if !needs_bytes(aggregate) {
            return Ok(Projected::Column(column));
        }
        aggregate.argument = Some(self.encode(expr, &kind)?);
        let is_list = aggregate.function.role == AggregateRole::List;
        if aggregate.function.is_zero_of_nothing {
            // A count does not show the values.
            return Ok(Projected::Column(column));
        }
        let bytes = DataType::BinaryView;
        // The engine computes with bytes, and a projection above decodes the result.
        aggregate.kind = match is_list {
            true => DataType::List(Arc::new(Field::new_list_field(bytes, true))),
            false => bytes,
        };
        Ok(Projected::Function(Arc::new(Decoded::new(column, &kind, is_list)?)))
    }

    /// Encodes an expression of type `kind` as bytes.
    fn encode(&mut self, expr: Expr, kind: &DataType) -> Result<(Expr, DataType)> {
        // Aggregates that share one function share their states, so we must not encode an expression twice.
        let known = self.encoded.iter().find(|(known, _)| *known == expr).map(|(_, function)| *function);
        let function = match known {
            Some(function) => function,
            None => {
                let of = Operands::new(&[expr], &self.functions);
                self.functions.push(Arc::new(Encoded { of, keys: RowKeys::new([kind.clone()])? }));
                self.encoded.push((expr, self.functions.len() - 1));
                self.functions.len() - 1
            }
        };
        Ok((Expr::Function(function), DataType::BinaryView))
    }

    /// Combines two expressions into one.
    fn pair(&mut self, exprs: [Expr; 2]) -> Expr {
        let known = self.pairs.iter().find(|(known, _)| *known == exprs).map(|(_, function)| *function);
        Expr::Function(known.unwrap_or_else(|| {
            let of = Operands::new(&exprs, &self.functions);
            self.functions.push(Arc::new(PairFunction { of }));
            self.pairs.push((exprs, self.functions.len() - 1));
            self.functions.len() - 1
        }))
    }
}

/// The operands of a function: columns and other functions.
#[derive(Debug)]
struct Operands {
    /// The function of each operand, and the number of its columns. A plain column has no function.
    parts: Vec<(Option<Arc<dyn VectorFunction>>, usize)>,
    columns: Vec<usize>,
}

impl Operands {
    fn new(exprs: &[Expr], functions: &[Arc<dyn VectorFunction>]) -> Operands {
        let (mut parts, mut columns) = (Vec::new(), Vec::new());
        for expr in exprs {
            match *expr {
                Expr::Column(column) => {
                    parts.push((None, 1));
                    columns.push(column);
                }
                Expr::Function(function) => {
                    let function = &functions[function];
                    parts.push((Some(Arc::clone(function)), function.columns().len()));
                    columns.extend_from_slice(function.columns());
                }
            }
        }
        Operands { parts, columns }
    }

    /// Computes the values of each operand. `columns` has the columns of all operands, one operand after the other.
    fn values(&self, mut columns: &[ArrayRef], rows: usize) -> Result<Vec<ArrayRef>> {
        let value = |(function, count): &(Option<Arc<dyn VectorFunction>>, usize)| {
            let (own, rest) = columns.split_at(*count);
            columns = rest;
            match function {
                None => Ok(Arc::clone(&own[0])),
                Some(function) => function.evaluate(own, rows),
            }
        };
        self.parts.iter().map(value).collect()
    }

    fn never_fail(&self) -> bool {
        self.parts.iter().all(|(function, _)| function.as_ref().is_none_or(|function| function.never_fails()))
    }
}

/// A function that turns values into bytes. NULL stays NULL.
#[derive(Debug)]
struct Encoded {
    of: Operands,
    keys: RowKeys,
}

impl VectorFunction for Encoded {
    fn columns(&self) -> &[usize] {
        &self.of.columns
    }

    fn evaluate(&self, columns: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        bytes_of(&self.keys, &self.of.values(columns, rows)?[0])
    }

    fn never_fails(&self) -> bool {
        self.of.never_fail()
    }
}

fn bytes_of(keys: &RowKeys, values: &ArrayRef) -> Result<ArrayRef> {
    let rows = keys.encode(std::slice::from_ref(values))?;
    let nulls = values.logical_nulls();
    let mut bytes = BinaryViewBuilder::with_capacity(values.len());
    for row in 0..values.len() {
        match nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            true => bytes.append_null(),
            false => bytes.append_value(rows.get(row)),
        }
    }
    Ok(Arc::new(bytes.finish()))
}

/// A function that turns bytes, or lists of them, back into values.
#[derive(Debug)]
struct Decoded {
    columns: [usize; 1],
    kind: DataType,
    keys: RowKeys,
    is_list: bool,
}

impl Decoded {
    fn new(column: usize, kind: &DataType, is_list: bool) -> Result<Decoded> {
        Ok(Decoded { columns: [column], kind: kind.clone(), keys: RowKeys::new([kind.clone()])?, is_list })
    }

    fn values(&self, bytes: &ArrayRef) -> Result<ArrayRef> {
        let bytes = bytes.as_binary_view();
        if bytes.null_count() == bytes.len() {
            return Ok(new_null_array(&self.kind, bytes.len()));
        }
        let mut values = self.keys.decode(bytes.iter().flatten())?;
        let values = values.pop().ok_or_else(|| Error::internal("decoding bytes gave no column"))?;
        if bytes.null_count() == 0 {
            return Ok(values);
        }
        // The decoder skipped the NULLs. Spread its values over all rows again.
        let mut next = 0..;
        let places = bytes.iter().map(|bytes| bytes.and_then(|_| next.next()));
        take(&values, &UInt32Array::from_iter(places), None).map_err(failed)
    }
}

impl VectorFunction for Decoded {
    fn columns(&self) -> &[usize] {
        &self.columns
    }

    fn evaluate(&self, columns: &[ArrayRef], _: usize) -> Result<ArrayRef> {
        if !self.is_list {
            return self.values(&columns[0]);
        }
        let lists = columns[0].as_list::<i32>();
        let field = Arc::new(Field::new_list_field(self.kind.clone(), true));
        let values = self.values(lists.values())?;
        let lists = ListArray::try_new(field, lists.offsets().clone(), values, lists.nulls().cloned());
        Ok(Arc::new(lists.map_err(failed)?))
    }
}

/// A function that combines two doubles into one value, the first in the low half. NULL if one of the doubles is NULL.
#[derive(Debug)]
struct PairFunction {
    of: Operands,
}

impl VectorFunction for PairFunction {
    fn columns(&self) -> &[usize] {
        &self.of.columns
    }

    fn evaluate(&self, columns: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let values = self.of.values(columns, rows)?;
        pairs_of(&values[0], &values[1])
    }

    fn never_fails(&self) -> bool {
        self.of.never_fail()
    }
}

fn failed(error: ArrowError) -> Error {
    Error::internal(format!("cannot convert the values of a grouping: {error}"))
}

#[cfg(test)]
mod tests;
