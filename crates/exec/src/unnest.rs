//! UNNEST: repeats each row once for each item of its lists.
//!
//! A row becomes as many result rows as its longest list has items; shorter lists are filled with NULL. A batch of the
//! result ends when it is full, even in the middle of a list, so long lists need no additional memory.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, ListArray, RecordBatch, UInt32Array};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::take;
use arrow::datatypes::{DataType, SchemaRef};
use arrow::error::ArrowError;
use rowmill_base::{Cancel, Error, Result};

use crate::batch::{BatchSource, Batches};
use crate::share::{batch_of, share, with_nulls};

/// A request to repeat each row for the items of its lists.
#[derive(Clone, Debug)]
pub(crate) struct UnnestRequest {
    /// The columns of the input to keep.
    pub keep: Vec<usize>,
    /// The columns of the input with the lists.
    pub lists: Vec<usize>,
    /// Whether a last column numbers the items of each row from 1.
    pub ordinality: bool,
    /// Whether a row without items is returned once, with NULL in the new columns.
    pub outer: bool,
    /// The schema of the result: the kept columns, the items of each list, the item number.
    pub schema: SchemaRef,
    /// The most rows of a batch.
    pub batch_rows: usize,
    /// Ends the work early. Workers check it once per batch.
    pub cancel: Cancel,
}

/// Returns each row of its input once for each item of its lists.
#[derive(Debug)]
pub(crate) struct Unnest {
    input: Arc<dyn BatchSource>,
    request: UnnestRequest,
    schema: SchemaRef,
}

impl Unnest {
    /// Makes the operator over `input`. Fails if a column in `lists` is no list.
    pub(crate) fn new(input: Arc<dyn BatchSource>, request: UnnestRequest) -> Result<Arc<Unnest>> {
        for list in &request.lists {
            let kind = input.schema().field(*list).data_type();
            if !matches!(kind, DataType::List(_)) {
                return Err(Error::internal(format!("UNNEST got a column of {kind}, not a list")));
            }
        }
        let schema = with_nulls(&request.schema);
        Ok(Arc::new(Unnest { input, request, schema }))
    }
}

impl BatchSource for Unnest {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn parallelism(&self) -> usize {
        self.input.parallelism()
    }

    fn worker(self: Arc<Self>) -> Batches {
        let mut input = Arc::clone(&self.input).worker();
        let mut current: Option<UnnestedBatch> = None;
        share(move || {
            loop {
                self.request.cancel.check()?;
                if let Some(batch) = &mut current
                    && let Some(rows) = batch.next(&self.request, &self.schema)?
                {
                    return Ok(Some(rows));
                }
                let Some(batch) = input.next().transpose()? else { return Ok(None) };
                current = Some(UnnestedBatch::new(batch, &self.request));
            }
        })
    }
}

/// A batch of the input, and the position of the next item to return.
struct UnnestedBatch {
    batch: RecordBatch,
    lists: Vec<ListArray>,
    row: usize,
    /// The number of items of the current row that are done.
    item: usize,
}

impl UnnestedBatch {
    fn new(batch: RecordBatch, request: &UnnestRequest) -> UnnestedBatch {
        let lists = request.lists.iter().map(|list| batch.column(*list).as_list::<i32>().clone()).collect();
        UnnestedBatch { batch, lists, row: 0, item: 0 }
    }

    /// Returns the next rows, or `None` when all rows of the batch are done.
    fn next(&mut self, request: &UnnestRequest, schema: &SchemaRef) -> Result<Option<RecordBatch>> {
        let room = request.batch_rows.max(1);
        // For each row of the result: the row of the input, and the place of the item in its list.
        let (mut rows, mut items): (Vec<u32>, Vec<u32>) = (Vec::new(), Vec::new());
        while self.row < self.batch.num_rows() && rows.len() < room {
            let longest = self.lists.iter().map(|list| len_of(list, self.row)).max().unwrap_or(0);
            let rows_of_row = if request.outer { longest.max(1) } else { longest };
            // A long list may fill several batches. `item` records where the next batch continues.
            let end = rows_of_row.min(self.item + room - rows.len());
            items.extend(self.item as u32..end as u32);
            rows.resize(items.len(), self.row as u32);
            (self.row, self.item) = if end == rows_of_row { (self.row + 1, 0) } else { (self.row, end) };
        }
        if rows.is_empty() {
            return Ok(None);
        }
        let count = rows.len();
        let rows = UInt32Array::from(rows);
        let mut columns = Vec::with_capacity(schema.fields().len());
        for column in &request.keep {
            columns.push(take(self.batch.column(*column), &rows, None).map_err(failed)?);
        }
        for list in &self.lists {
            columns.push(items_of(list, rows.values(), &items)?);
        }
        if request.ordinality {
            columns.push(self.ordinality(rows.values(), &items));
        }
        batch_of("UNNEST", schema, columns, count).map(Some)
    }

    /// The number of each item, from 1. NULL for a row without items.
    fn ordinality(&self, rows: &[u32], items: &[u32]) -> ArrayRef {
        let has_item =
            |(row, item): (&u32, &u32)| *item > 0 || self.lists.iter().any(|list| len_of(list, *row as usize) > 0);
        let valid: BooleanBuffer = rows.iter().zip(items).map(has_item).collect();
        let places: Vec<i64> = items.iter().map(|item| i64::from(*item) + 1).collect();
        Arc::new(Int64Array::new(places.into(), Some(NullBuffer::new(valid))))
    }
}

/// The number of items of a list. A NULL list has none.
fn len_of(list: &ListArray, row: usize) -> usize {
    if list.is_null(row) { 0 } else { list.value_length(row) as usize }
}

/// Takes one item for each of `rows`, by its place in the row's list. NULL if the list has no item there.
fn items_of(list: &ListArray, rows: &[u32], items: &[u32]) -> Result<ArrayRef> {
    let offsets = list.value_offsets();
    let place = |(row, item): (&u32, &u32)| {
        let has_item = (*item as usize) < len_of(list, *row as usize);
        // The items of all rows are in one array. Offsets say where a row's items begin.
        has_item.then(|| offsets[*row as usize] as u32 + item)
    };
    let places: UInt32Array = rows.iter().zip(items).map(place).collect();
    take(list.values(), &places, None).map_err(failed)
}

fn failed(error: ArrowError) -> Error {
    Error::internal(format!("cannot copy the items of lists: {error}"))
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{Field, Int64Type, Schema};
    use rowmill_base::ErrorKind;

    use super::*;
    use crate::collect::collect;
    use crate::values::ReadyBatches;

    type Items = Option<Vec<Option<i64>>>;

    fn input(rows: &[(i64, Items, Items)], batch_rows: usize) -> Arc<dyn BatchSource> {
        let list = || DataType::List(Arc::new(Field::new_list_field(DataType::Int64, true)));
        let fields =
            vec![Field::new("id", DataType::Int64, true), Field::new("a", list(), true), Field::new("b", list(), true)];
        let schema: SchemaRef = Arc::new(Schema::new(fields));
        let batch = |rows: &[(i64, Items, Items)]| {
            let ids = Int64Array::from_iter_values(rows.iter().map(|row| row.0));
            let lists = |of: fn(&(i64, Items, Items)) -> Items| -> ArrayRef {
                Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(rows.iter().map(of)))
            };
            let columns = vec![Arc::new(ids) as ArrayRef, lists(|row| row.1.clone()), lists(|row| row.2.clone())];
            RecordBatch::try_new(Arc::clone(&schema), columns).expect("three columns")
        };
        let batches = rows.chunks(batch_rows).map(batch).collect();
        ReadyBatches::new(schema, batches)
    }

    fn rows() -> Vec<(i64, Items, Items)> {
        let some = |items: &[i64]| Some(items.iter().map(|item| Some(*item)).collect::<Vec<_>>());
        vec![
            (1, some(&[10, 11, 12]), some(&[20])),
            (2, None, None),
            (3, some(&[]), some(&[])),
            (4, Some(vec![None]), None),
            (5, None, some(&[50, 51])),
            (6, some(&(0..40).collect::<Vec<_>>()), some(&(0..39).collect::<Vec<_>>())),
        ]
    }

    fn request(ordinality: bool, outer: bool, batch_rows: usize) -> UnnestRequest {
        let count = 3 + usize::from(ordinality);
        let fields: Vec<Field> = (0..count).map(|_| Field::new("c", DataType::Int64, true)).collect();
        let schema = Arc::new(Schema::new(fields));
        let cancel = Cancel::new();
        UnnestRequest { keep: vec![0], lists: vec![1, 2], ordinality, outer, schema, batch_rows, cancel }
    }

    type Found = (Option<i64>, Option<i64>, Option<i64>, Option<i64>);

    fn found(batches: &[RecordBatch]) -> Vec<Found> {
        let mut found = Vec::new();
        for batch in batches {
            let value = |column: usize, row: usize| {
                let numbers = batch.columns().get(column)?.as_primitive::<Int64Type>();
                numbers.is_valid(row).then(|| numbers.value(row))
            };
            found.extend((0..batch.num_rows()).map(|row| (value(0, row), value(1, row), value(2, row), value(3, row))));
        }
        found.sort();
        found
    }

    fn expected(ordinality: bool, outer: bool) -> Vec<Found> {
        let mut all = Vec::new();
        for (id, a, b) in rows() {
            let (a, b) = (a.unwrap_or_default(), b.unwrap_or_default());
            let longest = a.len().max(b.len());
            let item = |list: &[Option<i64>], place: usize| list.get(place).copied().flatten();
            all.extend((0..longest).map(|place| {
                let count = ordinality.then_some(place as i64 + 1);
                (Some(id), item(&a, place), item(&b, place), count)
            }));
            if outer && longest == 0 {
                all.push((Some(id), None, None, None));
            }
        }
        all.sort();
        all
    }

    #[test]
    fn every_item_becomes_a_row() {
        for (ordinality, outer) in [(false, false), (true, false), (false, true), (true, true)] {
            for (batch_rows, workers) in [(1, 1), (3, 4), (1024, 1), (1024, 4)] {
                for input_rows in [1, 4, 100] {
                    let request = request(ordinality, outer, batch_rows);
                    let source: Arc<dyn BatchSource> = Unnest::new(input(&rows(), input_rows), request).expect("lists");
                    let batches = collect(&source, workers).expect("nothing fails");
                    assert!(batches.iter().all(|batch| (1..=batch_rows).contains(&batch.num_rows())));
                    assert_eq!(found(&batches), expected(ordinality, outer));
                }
            }
        }
    }

    #[test]
    fn empty_input_gives_no_rows_and_cancel_ends_the_work() {
        let source: Arc<dyn BatchSource> = Unnest::new(input(&[], 1), request(true, true, 10)).expect("lists");
        assert!(collect(&source, 2).expect("nothing fails").is_empty());
        let cancelled = request(true, true, 10);
        cancelled.cancel.cancel();
        let source: Arc<dyn BatchSource> = Unnest::new(input(&rows(), 1), cancelled).expect("lists");
        assert_eq!(collect(&source, 1).expect_err("cancelled").kind(), ErrorKind::Cancelled);
    }
}
