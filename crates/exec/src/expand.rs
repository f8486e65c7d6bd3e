//! Grouping by several sets of keys (GROUPING SETS): returns each row once for each set.
//!
//! In the rows for a set, keys that are not in the set become NULL, and a last column has the number of the set.
//! Grouping by all keys and that number then computes the groups of all sets in one pass over the input. For example,
//! GROUPING SETS ((a), (b)) turns a row (1, 2) into (1, NULL, 0) and (NULL, 2, 1). We copy no values: the new columns
//! of NULLs and numbers are slices of arrays that each worker keeps.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, UInt64Array, new_null_array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, SchemaRef};
use rowmill_base::{Cancel, Error, Result};
use rowmill_plan::KeySet;

use crate::batch::{BatchSource, Batches};
use crate::share::{batch_of, share, with_nulls};

/// Returns each row of its input once for each set.
#[derive(Debug)]
pub(crate) struct Expand {
    input: Arc<dyn BatchSource>,
    sets: Vec<KeySet>,
    schema: SchemaRef,
    cancel: Cancel,
}

impl Expand {
    /// Makes the operator over `input` for `sets`. `schema` must have the columns of the input, followed by the column
    /// of set numbers. Workers check `cancel` once per batch.
    pub(crate) fn new(
        input: Arc<dyn BatchSource>,
        sets: Vec<KeySet>,
        schema: &SchemaRef,
        cancel: Cancel,
    ) -> Arc<Expand> {
        let columns = input.schema().fields().len();
        assert_eq!(columns + 1, schema.fields().len(), "the schema must have a column for the number of the set");
        assert!(sets.iter().all(|set| set.columns.len() <= columns), "the keys of a set must be columns of the input");
        Arc::new(Expand { input, sets, schema: with_nulls(schema), cancel })
    }
}

impl BatchSource for Expand {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn parallelism(&self) -> usize {
        self.input.parallelism()
    }

    fn worker(self: Arc<Self>) -> Batches {
        let mut input = Arc::clone(&self.input).worker();
        let mut constants =
            Constants { nulls: vec![None; self.schema.fields().len()], numbers: vec![None; self.sets.len()] };
        let (mut batch, mut next_set): (Option<RecordBatch>, usize) = (None, self.sets.len());
        share(move || {
            self.cancel.check()?;
            // The batch was returned for every set, so we read the next one.
            if next_set == self.sets.len() {
                (batch, next_set) = (input.next().transpose()?, 0);
            }
            let Some(batch) = batch.as_ref().filter(|_| next_set < self.sets.len()) else { return Ok(None) };
            next_set += 1;
            self.of_set(batch, next_set - 1, &mut constants).map(Some)
        })
    }
}

/// Columns with the same value in every row, as long as the longest batch so far.
struct Constants {
    /// Columns of NULLs, by the number of the column.
    nulls: Vec<Option<ArrayRef>>,
    /// Columns of set numbers, by set.
    numbers: Vec<Option<ArrayRef>>,
}

impl Expand {
    /// Returns the rows of a batch for a set.
    fn of_set(&self, batch: &RecordBatch, set: usize, constants: &mut Constants) -> Result<RecordBatch> {
        let (rows, KeySet { columns: keys, number }) = (batch.num_rows(), &self.sets[set]);
        let mut columns = Vec::with_capacity(batch.num_columns() + 1);
        for (place, column) in batch.columns().iter().enumerate() {
            columns.push(match keys.get(place) {
                // The column is a key that is not in this set.
                Some(false) => cut(&mut constants.nulls[place], rows, || Ok(new_null_array(column.data_type(), rows)))?,
                _ => Arc::clone(column),
            });
        }
        let kind = self.schema.field(batch.num_columns()).data_type();
        // The number keeps groups apart whose keys are equal in different sets.
        columns.push(cut(&mut constants.numbers[set], rows, || numbers(*number, kind, rows))?);
        batch_of("sets of keys", &self.schema, columns, rows)
    }
}

/// Returns the first `rows` rows of `longest`, and makes a longer array first if that is too short.
fn cut(longest: &mut Option<ArrayRef>, rows: usize, make: impl FnOnce() -> Result<ArrayRef>) -> Result<ArrayRef> {
    match longest {
        Some(longest) if longest.len() >= rows => Ok(longest.slice(0, rows)),
        _ => Ok(Arc::clone(longest.insert(make()?))),
    }
}

fn numbers(number: u64, kind: &DataType, rows: usize) -> Result<ArrayRef> {
    cast(&UInt64Array::from_value(number, rows), kind)
        .map_err(|error| Error::internal(format!("cannot make the number of a set: {error}")))
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;
    use arrow::datatypes::{Field, Int64Type, Schema, UInt8Type};
    use rowmill_base::ErrorKind;

    use super::*;
    use crate::collect::collect;
    use crate::test_input::{Failing, numbers};

    fn expanded(input: Arc<dyn BatchSource>, sets: Vec<KeySet>) -> Arc<Expand> {
        let mut fields: Vec<Field> = input.schema().fields().iter().map(|field| Field::clone(field)).collect();
        fields.push(Field::new("set", DataType::UInt8, false));
        Expand::new(input, sets, &Arc::new(Schema::new(fields)), Cancel::new())
    }

    #[test]
    fn each_row_is_returned_once_for_each_set_with_its_keys() {
        let set = |is_in, number| KeySet { columns: vec![is_in], number };
        let source = expanded(numbers(0..10, 3), vec![set(true, 0), set(false, 1), set(false, 3)]);
        let source: Arc<dyn BatchSource> = source;
        let batches = collect(&source, 2).expect("rows");
        let mut rows = Vec::new();
        for batch in &batches {
            let (keys, sets) =
                (batch.column(0).as_primitive::<Int64Type>(), batch.column(1).as_primitive::<UInt8Type>());
            rows.extend(keys.iter().zip(sets.iter()));
        }
        rows.sort();
        let mut expected: Vec<(Option<i64>, Option<u8>)> = (0..10).map(|key| (Some(key), Some(0))).collect();
        expected.extend([1, 3].into_iter().flat_map(|set| std::iter::repeat_n((None, Some(set)), 10)));
        expected.sort();
        assert_eq!(rows, expected);
    }

    #[test]
    fn errors_are_returned_and_no_sets_give_no_rows() {
        let set = KeySet { columns: vec![true], number: 0 };
        let failing: Arc<dyn BatchSource> = expanded(Arc::new(Failing(numbers(0..100, 10))), vec![set]);
        assert_eq!(collect(&failing, 1).expect_err("the input fails").kind(), ErrorKind::Io);
        let none: Arc<dyn BatchSource> = expanded(numbers(0..10, 3), Vec::new());
        assert!(collect(&none, 1).expect("no rows").is_empty());
    }
}
