//! Expressions that are evaluated for each item of a list.
//!
//! The items of all lists of a batch become one column. The outer columns that the expression reads are repeated beside
//! it. So one evaluation serves all items of the batch.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, ListArray, UInt32Array, new_null_array};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::take;
use arrow::datatypes::{DataType, FieldRef};
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::{ExprOp, ItemFunction, ScalarExpr};

use super::narrowed::InputRows;
use super::prepared::PreparedExpr;
use super::{spread, truth};
use crate::kinds::{arrow_failed, type_name};

/// An expression over items, ready for evaluation.
#[derive(Debug)]
pub(super) struct PreparedItems {
    function: ItemFunction,
    /// The outer columns that the expression reads, ascending.
    columns: Vec<usize>,
    /// The number of parameters of the expression: the item, and maybe its position.
    parameters: usize,
    /// The expression over `columns`, followed by the parameters.
    body: PreparedExpr,
}

impl PreparedItems {
    pub(super) fn new(function: ItemFunction, parameters: &[usize], body: &ScalarExpr) -> Result<PreparedItems> {
        let mut columns = Vec::new();
        body.each(&mut |part| columns.extend(part.as_column()));
        columns.sort_unstable();
        columns.dedup();
        let mut body = body.clone();
        // The body reads `columns` first, then the parameters, so we renumber both.
        body.rewrite(&mut |part| match &mut part.op {
            ExprOp::Column(position) => {
                *position = columns.binary_search(position).expect("all columns were collected");
            }
            ExprOp::ItemParameter(number) => {
                if let Some(place) = parameters.iter().position(|parameter| parameter == number) {
                    part.op = ExprOp::Column(columns.len() + place);
                }
            }
            _ => {}
        });
        let body = PreparedExpr::new(&body)?;
        Ok(PreparedItems { function, columns, parameters: parameters.len(), body })
    }

    /// Returns the columns that the expression reads, ascending.
    pub(super) fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// Whether the evaluation can fail for some rows.
    pub(super) fn can_fail(&self) -> bool {
        self.body.can_fail
    }

    /// Evaluates the function for `lists`, which has one list for each row of `input`.
    pub(super) fn evaluate(&self, lists: &ArrayRef, kind: &DataType, input: InputRows<'_>) -> Result<ArrayRef> {
        if *lists.data_type() == DataType::Null {
            return Ok(new_null_array(kind, lists.len()));
        }
        let lists = lists
            .as_list_opt::<i32>()
            .ok_or_else(|| Error::internal(format!("items of {}", type_name(lists.data_type()))))?;
        let items = BatchItems::of(lists)?;
        let values = self.body_values(&items, input)?;
        match self.function {
            ItemFunction::Transform => items.lists_of(item_field(kind)?, values),
            ItemFunction::Filter => {
                let kept = truth(&rowmill_plan::Operand::rows(values), items.rows.len())?;
                items.lists_where(item_field(kind)?, |item| kept.value(item))
            }
            ItemFunction::First => {
                let kept = truth(&rowmill_plan::Operand::rows(values), items.rows.len())?;
                let firsts = items.each_row(|mut range| range.find(|item| kept.value(*item)).map(|item| item as u32));
                take(&items.values, &UInt32Array::from(firsts), None).map_err(arrow_failed)
            }
            ItemFunction::AnyMatch => items.matches(&values, true),
            ItemFunction::AllMatch => items.matches(&values, false),
        }
    }

    /// Returns the value of the expression for each item.
    fn body_values(&self, items: &BatchItems, input: InputRows<'_>) -> Result<ArrayRef> {
        let count = items.rows.len();
        if count == 0 {
            return Ok(new_null_array(&self.body.kind, 0));
        }
        let mut columns = Vec::with_capacity(self.columns.len() + self.parameters);
        for column in &self.columns {
            columns.push(take(input.column(*column)?, &items.rows, None).map_err(arrow_failed)?);
        }
        columns.push(Arc::clone(&items.values));
        if self.parameters > 1 {
            columns.push(Arc::new(items.positions()));
        }
        spread(self.body.evaluate(InputRows { columns: &columns, rows: count })?, count)
    }
}

/// The items of the lists of a batch. A list that is NULL has no items.
struct BatchItems {
    values: ArrayRef,
    /// The row of each item.
    rows: UInt32Array,
    /// The begin of the items of each row, and after them the end of the last row.
    offsets: Vec<i32>,
    nulls: Option<NullBuffer>,
}

impl BatchItems {
    fn of(lists: &ListArray) -> Result<BatchItems> {
        let mut offsets = Vec::with_capacity(lists.len() + 1);
        let (mut positions, mut rows) = (Vec::new(), Vec::new());
        offsets.push(0);
        for row in 0..lists.len() {
            if lists.is_valid(row) {
                let range = lists.value_offsets()[row]..lists.value_offsets()[row + 1];
                rows.extend(range.clone().map(|_| row as u32));
                positions.extend(range.map(|position| position as u32));
            }
            // Offsets of lists have 32 bits, so a batch cannot have more items.
            let end = i32::try_from(positions.len()).map_err(|_| {
                Error::new(ErrorKind::ResultTooLarge, "the lists of a batch have more than 2147483647 items")
            })?;
            offsets.push(end);
        }
        let values = take(lists.values(), &UInt32Array::from(positions), None).map_err(arrow_failed)?;
        Ok(BatchItems { values, rows: UInt32Array::from(rows), offsets, nulls: lists.nulls().cloned() })
    }

    /// Returns the position of each item in its list, counted from 1.
    fn positions(&self) -> Int64Array {
        let of_row = |pair: &[i32]| 1..=i64::from(pair[1] - pair[0]);
        self.offsets.windows(2).flat_map(of_row).collect()
    }

    /// Calls `of` with the range of items of each row. A NULL list gives NULL.
    fn each_row<T>(&self, of: impl Fn(std::ops::Range<usize>) -> Option<T>) -> Vec<Option<T>> {
        let is_valid = |row: usize| self.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
        let rows = self.offsets.windows(2).enumerate();
        rows.map(|(row, pair)| if is_valid(row) { of(pair[0] as usize..pair[1] as usize) } else { None }).collect()
    }

    /// Makes lists of the same lengths from `values`.
    fn lists_of(self, field: FieldRef, values: ArrayRef) -> Result<ArrayRef> {
        let lists = ListArray::try_new(field, OffsetBuffer::new(self.offsets.into()), values, self.nulls);
        Ok(Arc::new(lists.map_err(arrow_failed)?))
    }

    /// Returns the lists with only the items that are `kept`.
    fn lists_where(self, field: FieldRef, kept: impl Fn(usize) -> bool) -> Result<ArrayRef> {
        let mut positions = Vec::new();
        let mut offsets = Vec::with_capacity(self.offsets.len());
        offsets.push(0);
        for pair in self.offsets.windows(2) {
            positions.extend((pair[0] as u32..pair[1] as u32).filter(|item| kept(*item as usize)));
            offsets.push(positions.len() as i32);
        }
        let values = take(&self.values, &UInt32Array::from(positions), None).map_err(arrow_failed)?;
        let lists = ListArray::try_new(field, OffsetBuffer::new(offsets.into()), values, self.nulls);
        Ok(Arc::new(lists.map_err(arrow_failed)?))
    }

    /// Returns `decisive` if a condition of the list has this value, NULL if a condition is NULL, and otherwise the
    /// opposite. `decisive` is true for ANY and false for ALL.
    fn matches(&self, conditions: &ArrayRef, decisive: bool) -> Result<ArrayRef> {
        let conditions = conditions
            .as_boolean_opt()
            .ok_or_else(|| Error::internal(format!("a condition of type {}", type_name(conditions.data_type()))))?;
        let found = self.each_row(|mut range| {
            let mut unknown = false;
            let is_found = range.any(|item| {
                unknown |= conditions.is_null(item);
                conditions.is_valid(item) && conditions.value(item) == decisive
            });
            match (is_found, unknown) {
                (true, _) => Some(decisive),
                (false, true) => None,
                (false, false) => Some(!decisive),
            }
        });
        Ok(Arc::new(BooleanArray::from(found)))
    }
}

fn item_field(kind: &DataType) -> Result<FieldRef> {
    match kind {
        DataType::List(field) => Ok(Arc::clone(field)),
        other => Err(Error::internal(format!("a list of type {}", type_name(other)))),
    }
}
