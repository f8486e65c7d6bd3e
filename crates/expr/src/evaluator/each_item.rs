//! Expressions that are evaluated for each item of a list.
//!
//! The items of all lists of a batch become one column. The outer columns that the expression reads are repeated beside
//! it. So one evaluation serves all items of the batch.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, ListArray, UInt32Array, new_null_array};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{interleave, take};
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
        // A list without items has nothing to reduce.
        self.body.can_fail || self.function == ItemFunction::Reduce
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
        if self.function == ItemFunction::Reduce {
            return self.reduced(&items, input);
        }
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
            ItemFunction::Reduce => Err(Error::internal("a list is reduced step by step")),
        }
    }

    /// Combines the items of each list. Step `n` takes item `n` of all lists that have it at once, so the body is
    /// evaluated as often as the longest list has items.
    fn reduced(&self, items: &BatchItems, input: InputRows<'_>) -> Result<ArrayRef> {
        let ranges = items.each_row(Some);
        let mut active: Vec<u32> = Vec::new();
        for (row, range) in ranges.iter().enumerate() {
            match range {
                Some(range) if range.is_empty() => {
                    let message = "array_reduce cannot begin with a list without items";
                    return Err(Error::new(ErrorKind::InvalidParameter, message)
                        .hint("a third argument gives the value to begin with"));
                }
                Some(_) => active.push(row as u32),
                None => {}
            }
        }
        let item_at = |row: u32, step: usize| ranges[row as usize].as_ref().map(|range| (range.start + step) as u32);
        let length = |row: u32| ranges[row as usize].as_ref().map_or(0, |range| range.len());
        let firsts: UInt32Array = active.iter().map(|row| item_at(*row, 0)).collect();
        let mut so_far = take(&items.values, &firsts, None).map_err(arrow_failed)?;
        // The values of each step, and for each row the step and the place at which its last value is.
        let mut steps = vec![new_null_array(so_far.data_type(), 1)];
        let mut picks = vec![(0, 0); ranges.len()];
        let mut step = 1;
        while !active.is_empty() {
            let is_done = |row: u32| length(row) == step;
            active.iter().enumerate().filter(|(_, row)| is_done(**row)).for_each(|(place, row)| {
                picks[*row as usize] = (steps.len(), place);
            });
            let left: UInt32Array =
                (0..active.len() as u32).filter(|place| !is_done(active[*place as usize])).collect();
            let next = take(&so_far, &left, None).map_err(arrow_failed)?;
            steps.push(so_far);
            active.retain(|row| length(*row) != step);
            so_far = self.next_values(items, input, &active, next, |row| item_at(row, step), step)?;
            step += 1;
        }
        let steps: Vec<&dyn Array> = steps.iter().map(|values| values.as_ref()).collect();
        interleave(&steps, &picks).map_err(arrow_failed)
    }

    /// Evaluates the expression for one more item of the rows that have one.
    fn next_values(
        &self,
        items: &BatchItems,
        input: InputRows<'_>,
        rows: &[u32],
        so_far: ArrayRef,
        item: impl Fn(u32) -> Option<u32>,
        step: usize,
    ) -> Result<ArrayRef> {
        if rows.is_empty() {
            return Ok(so_far);
        }
        let of_rows = UInt32Array::from(rows.to_vec());
        let mut columns = Vec::with_capacity(self.columns.len() + self.parameters);
        for column in &self.columns {
            columns.push(take(input.column(*column)?, &of_rows, None).map_err(arrow_failed)?);
        }
        let places: UInt32Array = rows.iter().map(|row| item(*row)).collect();
        columns.push(so_far);
        columns.push(take(&items.values, &places, None).map_err(arrow_failed)?);
        if self.parameters > 2 {
            columns.push(Arc::new(Int64Array::from(vec![step as i64 + 1; rows.len()])));
        }
        spread(self.body.evaluate(InputRows { columns: &columns, rows: rows.len() })?, rows.len())
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
