//! SUM(DISTINCT) and AVG(DISTINCT): the values themselves, each with the number of rows that hold it.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Accumulator;

use super::total::{Amount, Finish, Summand, TotalOf, scale_of, total_array, total_out_of_range};
use crate::errors::to_datafusion;

#[derive(Debug)]
pub(super) struct Distinct<S: Summand> {
    finish: Finish,
    kind: DataType,
    /// Rows per value; a window takes rows away again.
    rows: HashMap<i128, u64>,
    summand: std::marker::PhantomData<S>,
}

impl<S: Summand> Distinct<S> {
    pub(super) fn new(finish: Finish, kind: DataType) -> Distinct<S> {
        Distinct { finish, kind, rows: HashMap::new(), summand: std::marker::PhantomData }
    }

    /// The values in order, so that a sum of floats does not depend on the hash table.
    fn values(&self) -> Vec<TotalOf<S>> {
        let mut keys: Vec<i128> = self.rows.keys().copied().collect();
        keys.sort_unstable();
        keys.into_iter().map(TotalOf::<S>::from_key).collect()
    }
}

impl<S: Summand> Accumulator for Distinct<S> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in values[0].as_primitive::<S>().iter().flatten() {
            *self.rows.entry(S::widen(value).key()).or_default() += 1;
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in values[0].as_primitive::<S>().iter().flatten() {
            let key = S::widen(value).key();
            if let Some(rows) = self.rows.get_mut(&key) {
                *rows -= 1;
                if *rows == 0 {
                    self.rows.remove(&key);
                }
            }
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for values in states[0].as_list::<i32>().iter().flatten() {
            for value in values.as_primitive::<S::Total>().iter().flatten() {
                *self.rows.entry(value.key()).or_default() += 1;
            }
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values = total_array::<S>(self.values(), None, self.finish, &self.kind).map_err(to_datafusion)?;
        let field = Arc::new(Field::new_list_field(values.data_type().clone(), true));
        let offsets = OffsetBuffer::from_lengths([values.len()]);
        Ok(vec![ScalarValue::List(Arc::new(ListArray::new(field, offsets, values, None)))])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let values = self.values();
        let mut total = TotalOf::<S>::default();
        let mut is_bad = false;
        values.iter().for_each(|value| is_bad |= total.add(*value));
        if is_bad {
            return Err(to_datafusion(total_out_of_range(self.finish, &self.kind)));
        }
        let count = values.len() as u64;
        match (self.finish, count) {
            (Finish::Average, 0) => Ok(ScalarValue::Float64(None)),
            (Finish::Average, _) => Ok(ScalarValue::Float64(Some(total.divided(count, scale_of(&self.kind))))),
            (Finish::Sum, _) => {
                let nulls = (count == 0).then(|| arrow::buffer::NullBuffer::new_null(1));
                let array =
                    total_array::<S>(vec![total.shown()], nulls, self.finish, &self.kind).map_err(to_datafusion)?;
                ScalarValue::try_from_array(&array, 0)
            }
        }
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.rows.capacity() * (size_of::<(i128, u64)>() + 1)
    }
}
