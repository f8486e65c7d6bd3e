//! How many rows have the values of a column, asked of the lists of its blocks: of few values or of the most frequent ones, so
//! that hardly any value is read.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::compute::filter;
use arrow::datatypes::Int64Type;
use arrow::error::ArrowError;
use rowmill_base::{Error, Reservation, Result, SqlType};
use rowmill_plan::Predicate;
use rowmill_storage::chunk::ValueSet;

use super::super::rows::{concat, take};
use super::super::texts::is_text;
use super::super::{GroupBy, Lists, OWNER};
use super::Limits;
use super::list_counts::{Histogram, ListCounts, PartCounts, greatest};
use crate::predicate::evaluate;

/// Bits of a number of lists.
const LISTS_BITS: u32 = 20;

/// The values of a column with their rows, block by block.
pub(super) struct RowCounts {
    counter: Arc<GroupBy>,
    lists: Vec<ListCounts>,
    /// The values of rows that no list has, each once, and their rows.
    of_loose: Option<Counted>,
    /// How many places of all lists have how many rows.
    histogram: Histogram,
    memory: Reservation,
}

/// Values, each once, and the rows that they have.
struct Counted {
    values: ArrayRef,
    rows: Vec<u64>,
}

impl RowCounts {
    /// Those of `counter`, which groups by one column alone and has read `parts`.
    pub(super) fn new(counter: &Arc<GroupBy>, parts: Vec<PartCounts>) -> Result<RowCounts> {
        let mut counts = RowCounts {
            counter: Arc::clone(counter),
            lists: Vec::new(),
            of_loose: None,
            histogram: Histogram::default(),
            memory: counter.request.broker.reservation(OWNER),
        };
        let mut loose = Vec::new();
        for part in parts {
            counts.lists.extend(part.lists);
            loose.extend(part.loose);
            counts.histogram.join(&part.histogram);
        }
        counts.memory.grow(counts.lists.iter().map(ListCounts::bytes).sum())?;
        if !loose.is_empty() {
            let values = concat(&loose)?;
            let rows = vec![1; values.len()];
            let of_loose = counts.counted(values, rows)?;
            counts.histogram.add(&of_loose.rows);
            counts.of_loose = Some(of_loose);
        }
        Ok(counts)
    }

    fn column(&self) -> (usize, &SqlType) {
        let Lists { source, column, .. } = self.counter.lists.as_ref().expect("a counter has lists");
        (*column, &source.table().columns[*column].kind)
    }

    /// `most` values that have more rows than most: of those that have the most rows in some block, those that have the most in
    /// all. `None` if these have more than one of `share` rows.
    pub(super) fn most_frequent(&self, most: usize, share: u64) -> Result<Option<ArrayRef>> {
        let mut found = Vec::new();
        for counts in &self.lists {
            found.push(counts.list.values_at(&counts.most_frequent(most))?);
        }
        if let Some(Counted { values, rows }) = &self.of_loose {
            found.push(take(values, &greatest(rows, most))?);
        }
        let all = self.rows_of(&self.each_once(&found)?)?;
        let places = greatest(&all.rows, most);
        let rows: u64 = places.iter().map(|place| all.rows[*place as usize]).sum();
        if rows.saturating_mul(share) > self.histogram.rows_of_all {
            return Ok(None);
        }
        take(&all.values, &places).map(Some)
    }

    /// All values that at least `rows_min` rows have, and perhaps some others, without those of `first`. `None` if these may have
    /// most of all rows.
    ///
    /// Of a value that enough rows have some list has its share. What lists have less than the share of is not read, so that all
    /// that is known of a value is what it has at least and at most; with a lesser share these are nearer to each other, and
    /// fewer values have to be looked up. This is the three-phase uniform threshold algorithm (Cao and Wang, 2004), with blocks
    /// for nodes.
    pub(super) fn with_rows(&self, rows_min: u64, first: &ArrayRef, limits: Limits) -> Result<Option<ArrayRef>> {
        let (column, kind) = self.column();
        let lists = (self.lists.len() + usize::from(self.of_loose.is_some())) as u64;
        let read_max = if is_text(&kind.arrow()) { limits.texts_read } else { limits.numbers_read };
        let share = rows_min.div_ceil(lists);
        // Few are looked up sooner than told apart.
        let parts = if self.histogram.places_with(share) <= limits.looked_up / 16 { [1; 4] } else { [8, 4, 2, 1] };
        let shares = parts.map(|part| share.div_ceil(part));
        let Some(share) = shares.into_iter().find(|share| self.histogram.places_with(*share) <= read_max) else {
            return Ok(None);
        };
        let (mut found, mut rows_found) = (Vec::new(), Vec::new());
        // Beside the rows, in how many lists a value was found.
        let in_one = |rows: u64| rows << LISTS_BITS | 1;
        for counts in &self.lists {
            let (places, rows) = counts.with_rows(share)?;
            rows_found.extend(rows.into_iter().map(|rows| in_one(rows.into())));
            found.push(counts.list.values_at(&places)?);
        }
        if let Some(Counted { values, rows }) = &self.of_loose {
            let places: Vec<u32> =
                (0..).zip(rows).filter(|(_, rows)| **rows >= share).map(|(place, _)| place).collect();
            rows_found.extend(places.iter().map(|place| in_one(rows[*place as usize])));
            found.push(take(values, &places)?);
        }
        let known = self.counted(concat(&found)?, rows_found)?;
        let (mut places, mut rows_at_most) = (Vec::new(), 0);
        for (place, known) in (0..).zip(&known.rows) {
            let (rows, found_in) = (known >> LISTS_BITS, known & ((1 << LISTS_BITS) - 1));
            let at_most = rows + (lists - found_in) * (share - 1);
            if at_most >= rows_min {
                places.push(place);
                rows_at_most += at_most;
            }
        }
        let values = take(&known.values, &places)?;
        if places.len() > limits.looked_up {
            let is_worth_it = rows_at_most * 2 <= self.histogram.rows_of_all;
            return is_worth_it.then(|| other_than(&values, None, column, first)).transpose();
        }
        let all = self.rows_of(&values)?;
        let enough = BooleanBuffer::collect_bool(all.rows.len(), |place| all.rows[place] >= rows_min);
        other_than(&all.values, Some(enough), column, first).map(Some)
    }

    /// The rows that each of `values` has, which are no two alike. What no row has is left out.
    fn rows_of(&self, values: &ArrayRef) -> Result<Counted> {
        let (column, kind) = self.column();
        let (mut found, mut rows) = (vec![values.slice(0, 0)], Vec::new());
        let set = value_set(kind, values)?;
        for ListCounts { list, .. } in &self.lists {
            let places = list.places_of(&set)?;
            list.weights_at(&places, &mut rows)?;
            found.push(list.values_at(&places)?);
        }
        if let Some(Counted { values: loose, rows: of_loose }) = &self.of_loose {
            let places = places_of(loose, &these_values(column, values)?)?;
            rows.extend(places.iter().map(|place| of_loose[*place as usize]));
            found.push(take(loose, &places)?);
        }
        self.counted(concat(&found)?, rows)
    }

    /// The values of some arrays, each once.
    fn each_once(&self, parts: &[ArrayRef]) -> Result<ArrayRef> {
        let values = concat(parts)?;
        let rows = vec![1; values.len()];
        Ok(self.counted(values, rows)?.values)
    }

    /// Each value once, with all rows that it has.
    fn counted(&self, values: ArrayRef, rows: Vec<u64>) -> Result<Counted> {
        let counted = self.counter.group_values(self.column().0, values, rows)?;
        let rows = rows_in(&counted)?.iter().map(|rows| *rows as u64).collect();
        Ok(Counted { values: Arc::clone(counted.column(0)), rows })
    }
}

/// The rows of a counter's groups.
fn rows_in(groups: &RecordBatch) -> Result<&[i64]> {
    match groups.column(1).as_primitive_opt::<Int64Type>() {
        Some(rows) => Ok(rows.values()),
        None => Err(Error::internal("a count that is no integer")),
    }
}

/// The condition that a column has one of `values`.
pub(super) fn these_values(column: usize, values: &ArrayRef) -> Result<Predicate> {
    let is_in = Predicate::In { column, values: without_null(values)?, negated: false };
    Ok(match values.null_count() {
        0 => is_in,
        _ => Predicate::Or(vec![is_in, Predicate::IsNull { column, negated: false }]),
    })
}

/// The condition that a column has none of `values`.
fn other_values(column: usize, values: &ArrayRef) -> Result<Predicate> {
    let not_in = Predicate::In { column, values: without_null(values)?, negated: true };
    let is_null = Predicate::IsNull { column, negated: values.null_count() > 0 };
    Ok(match values.null_count() {
        0 => Predicate::Or(vec![not_in, is_null]),
        _ => Predicate::And(vec![not_in, is_null]),
    })
}

/// Those of `values` whose bit is set, or all, but for those among `first`.
fn other_than(values: &ArrayRef, bits: Option<BooleanBuffer>, column: usize, first: &ArrayRef) -> Result<ArrayRef> {
    let values = match bits {
        Some(bits) => filter(values, &BooleanArray::new(bits, None)).map_err(failed)?,
        None => Arc::clone(values),
    };
    take(&values, &places_of(&values, &other_values(column, first)?)?)
}

/// The places of the values for which a condition is true.
fn places_of(values: &ArrayRef, condition: &Predicate) -> Result<Vec<u32>> {
    let truth = evaluate(condition, values.len(), &mut |_| Ok(Arc::clone(values)))?;
    Ok((0..truth.len() as u32)
        .filter(|place| truth.is_valid(*place as usize) && truth.value(*place as usize))
        .collect())
}

fn value_set(kind: &SqlType, values: &ArrayRef) -> Result<ValueSet> {
    let set = ValueSet::any_of(kind, &without_null(values)?)
        .ok_or_else(|| Error::internal(format!("values of type {kind} are not looked up")))?;
    Ok(if values.null_count() > 0 { set.or(&ValueSet::null(kind)) } else { set })
}

fn without_null(values: &ArrayRef) -> Result<ArrayRef> {
    match values.nulls() {
        Some(nulls) => filter(values, &BooleanArray::new(nulls.inner().clone(), None)).map_err(failed),
        None => Ok(Arc::clone(values)),
    }
}

fn failed(error: ArrowError) -> Error {
    Error::internal(error.to_string())
}
