//! Rows once for each item of lists: UNNEST.
//!
//! A row has as many rows in the result as its longest list has items; the other lists are filled with NULL. A batch of
//! the result ends wherever it is full, be it in the middle of a list, so that long lists need no more memory than they
//! have.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, ListArray, RecordBatch, UInt32Array};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::take;
use arrow::datatypes::{DataType, SchemaRef};
use arrow::error::ArrowError;
use rowmill_base::{Cancel, Error, Result};

use crate::batch::{BatchSource, Batches};
use crate::share::{batch_of, share, with_nulls};

/// The way in which a row and its lists become rows.
#[derive(Clone, Debug)]
pub struct UnnestRequest {
    /// The columns of the input that stay.
    pub keep: Vec<usize>,
    /// The columns of the input that are lists.
    pub lists: Vec<usize>,
    /// Whether a last column counts the items of each row from 1.
    pub ordinality: bool,
    /// Whether a row without items is given once, with NULL in the new columns.
    pub outer: bool,
    /// The result: the columns that stay, the items of each list, the count.
    pub schema: SchemaRef,
    /// Rows of a batch at most.
    pub batch_rows: usize,
    /// Ends the work early; asked once per batch.
    pub cancel: Cancel,
}

/// Gives the rows of its input once for each item of their lists.
#[derive(Debug)]
pub struct Unnest {
    input: Arc<dyn BatchSource>,
    request: UnnestRequest,
    schema: SchemaRef,
}

impl Unnest {
    /// The rows of `input` with the items of their lists. An error if a column is no list.
    pub fn new(input: Arc<dyn BatchSource>, request: UnnestRequest) -> Result<Arc<Unnest>> {
        for list in &request.lists {
            let kind = input.schema().field(*list).data_type();
            if !matches!(kind, DataType::List(_)) {
                return Err(Error::internal(format!("the items of {kind}")));
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

/// A batch of the input, and how far it is given.
struct UnnestedBatch {
    batch: RecordBatch,
    lists: Vec<ListArray>,
    row: usize,
    /// Items of the row that are given.
    item: usize,
}

impl UnnestedBatch {
    fn new(batch: RecordBatch, request: &UnnestRequest) -> UnnestedBatch {
        let lists = request.lists.iter().map(|list| batch.column(*list).as_list::<i32>().clone()).collect();
        UnnestedBatch { batch, lists, row: 0, item: 0 }
    }

    /// The next rows; `None` when all are given.
    fn next(&mut self, request: &UnnestRequest, schema: &SchemaRef) -> Result<Option<RecordBatch>> {
        let room = request.batch_rows.max(1);
        // Of each row of the result, the row of the input and the place of the item.
        let (mut rows, mut items): (Vec<u32>, Vec<u32>) = (Vec::new(), Vec::new());
        while self.row < self.batch.num_rows() && rows.len() < room {
            let longest = self.lists.iter().map(|list| len_of(list, self.row)).max().unwrap_or(0);
            let rows_of_row = if request.outer { longest.max(1) } else { longest };
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

    /// The place of each item from 1; NULL for a row without items.
    fn ordinality(&self, rows: &[u32], items: &[u32]) -> ArrayRef {
        let has_item =
            |(row, item): (&u32, &u32)| *item > 0 || self.lists.iter().any(|list| len_of(list, *row as usize) > 0);
        let valid: BooleanBuffer = rows.iter().zip(items).map(has_item).collect();
        let places: Vec<i64> = items.iter().map(|item| i64::from(*item) + 1).collect();
        Arc::new(Int64Array::new(places.into(), Some(NullBuffer::new(valid))))
    }
}

/// Items of a list; none of NULL.
fn len_of(list: &ListArray, row: usize) -> usize {
    if list.is_null(row) { 0 } else { list.value_length(row) as usize }
}

/// An item of each of `rows`, by its place in the list; NULL after the end.
fn items_of(list: &ListArray, rows: &[u32], items: &[u32]) -> Result<ArrayRef> {
    let offsets = list.value_offsets();
    let place = |(row, item): (&u32, &u32)| {
        let has_item = (*item as usize) < len_of(list, *row as usize);
        has_item.then(|| offsets[*row as usize] as u32 + item)
    };
    let places: UInt32Array = rows.iter().zip(items).map(place).collect();
    take(list.values(), &places, None).map_err(failed)
}

fn failed(error: ArrowError) -> Error {
    Error::internal(format!("the items of lists: {error}"))
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{Field, Int64Type, Schema};
    use rowmill_base::ErrorKind;

    use super::*;
    use crate::collect::collect;
    use crate::values::Values;

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
        Values::new(schema, batches)
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
    fn every_item_is_a_row() {
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
    fn no_rows_have_no_items_and_cancel_ends_it() {
        let source: Arc<dyn BatchSource> = Unnest::new(input(&[], 1), request(true, true, 10)).expect("lists");
        assert!(collect(&source, 2).expect("nothing fails").is_empty());
        let cancelled = request(true, true, 10);
        cancelled.cancel.cancel();
        let source: Arc<dyn BatchSource> = Unnest::new(input(&rows(), 1), cancelled).expect("lists");
        assert_eq!(collect(&source, 1).expect_err("cancelled").kind(), ErrorKind::Cancelled);
    }
}
