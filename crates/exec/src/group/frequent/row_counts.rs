//! How many rows have the values of a column, asked of the lists of its blocks: of few values or of the most frequent ones, so
//! that hardly any value is read.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::compute::filter;
use arrow::datatypes::Int64Type;
use arrow::error::ArrowError;
use rowmill_base::{Error, Reservation, Result, SqlType};
use rowmill_plan::Predicate;
use rowmill_storage::chunk::ValueSet;

use super::super::ranges::ColumnParts;
use super::super::rows::{concat, take};
use super::super::texts::is_text;
use super::super::value_list::ValueList;
use super::super::{GroupBy, Lists, OWNER};
use super::Limits;
use crate::predicate::evaluate;

/// Bits of a number of lists.
const LISTS_BITS: u32 = 20;

/// The values of a column with their rows, block by block.
pub(super) struct RowCounts {
    counter: Arc<GroupBy>,
    lists: Vec<ValueList>,
    /// The values of rows that no list has.
    loose: Vec<ArrayRef>,
    /// The same, each once, and their rows.
    of_loose: Option<Counted>,
    /// How many places of all lists have how many rows.
    histogram: Histogram,
    _memory: Reservation,
}

/// Values, each once, and the rows that they have.
struct Counted {
    values: ArrayRef,
    rows: Vec<u64>,
}

/// The values that have some number of rows.
pub(super) enum Likely {
    Known(ArrayRef),
    /// They have no more than half of all rows, and are too many to be looked up one by one.
    Few,
    /// They may have most of all rows.
    Many,
}

impl RowCounts {
    /// Those of `counter`, which groups by one column alone and has read `parts`.
    pub(super) fn new(counter: &Arc<GroupBy>, parts: Vec<ColumnParts>) -> Result<RowCounts> {
        let (mut lists, mut loose) = (Vec::new(), Vec::new());
        for part in parts {
            lists.extend(part.lists);
            loose.extend(part.loose);
        }
        let mut memory = counter.request.broker.reservation(OWNER);
        memory.grow(lists.iter().map(ValueList::bytes).sum())?;
        let mut counts = RowCounts {
            counter: Arc::clone(counter),
            lists,
            loose,
            of_loose: None,
            histogram: Histogram::default(),
            _memory: memory,
        };
        if !counts.loose.is_empty() {
            let values = concat(&counts.loose)?;
            let rows = vec![1; values.len()];
            let of_loose = counts.counted(values, rows)?;
            counts.histogram.add(&of_loose.rows);
            counts.of_loose = Some(of_loose);
        }
        Ok(counts)
    }

    pub(super) fn into_parts(self) -> ColumnParts {
        ColumnParts { lists: self.lists, loose: self.loose }
    }

    fn column(&self) -> (usize, &SqlType) {
        let Lists { source, column, .. } = self.counter.lists.as_ref().expect("a counter has lists");
        (*column, &source.table().columns[*column].kind)
    }

    /// `most` values that have more rows than most: of those that have the most rows in some block, those that have the most in
    /// all. `None` if these have more than one of `share` rows.
    pub(super) fn most_frequent(&mut self, most: usize, share: u64) -> Result<Option<ArrayRef>> {
        let (mut found, mut rows) = (Vec::new(), Vec::new());
        for list in &self.lists {
            rows.clear();
            list.weights(0..list.len(), &mut rows)?;
            self.histogram.add(&rows);
            found.push(list.values_at(&greatest(&rows, most))?);
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

    /// The values that at least `rows_min` rows have, without those of `first`.
    ///
    /// Of a value that enough rows have some list has its share. What lists have less than the share of is not read, so that all
    /// that is known of a value is what it has at least and at most; with a lesser share these are nearer to each other, and
    /// fewer values have to be looked up. This is the three-phase uniform threshold algorithm (Cao and Wang, 2004), with blocks
    /// for nodes.
    pub(super) fn with_rows(&self, rows_min: u64, first: &ArrayRef, limits: Limits) -> Result<Likely> {
        let (column, kind) = self.column();
        let lists = (self.lists.len() + usize::from(self.of_loose.is_some())) as u64;
        let read_max = if is_text(&kind.arrow()) { limits.texts_read } else { limits.numbers_read };
        let share = rows_min.div_ceil(lists);
        let shares = [8, 4, 2, 1].map(|part| share.div_ceil(part));
        let Some(share) = shares.into_iter().find(|share| self.histogram.places_with(*share) <= read_max) else {
            return Ok(self.unknown(rows_min));
        };
        let (mut found, mut rows_found, mut rows) = (Vec::new(), Vec::new(), Vec::new());
        let mut find = |rows: &[u64], values_at: &dyn Fn(&[u32]) -> Result<ArrayRef>| -> Result<()> {
            let places: Vec<u32> =
                (0..).zip(rows).filter(|(_, rows)| **rows >= share).map(|(place, _)| place).collect();
            // Beside the rows, in how many lists the value was found.
            rows_found.extend(places.iter().map(|place| rows[*place as usize] << LISTS_BITS | 1));
            found.push(values_at(&places)?);
            Ok(())
        };
        for list in &self.lists {
            rows.clear();
            list.weights(0..list.len(), &mut rows)?;
            find(&rows, &|places| list.values_at(places))?;
        }
        if let Some(Counted { values, rows }) = &self.of_loose {
            find(rows, &|places| take(values, places))?;
        }
        let known = self.counted(concat(&found)?, rows_found)?;
        let places: Vec<u32> = (0..)
            .zip(&known.rows)
            .filter(|(_, known)| {
                let (rows, found_in) = (**known >> LISTS_BITS, **known & ((1 << LISTS_BITS) - 1));
                rows + (lists - found_in) * (share - 1) >= rows_min
            })
            .map(|(place, _)| place)
            .collect();
        if places.len() > limits.looked_up {
            return Ok(self.unknown(rows_min));
        }
        let all = self.rows_of(&take(&known.values, &places)?)?;
        let enough = BooleanBuffer::collect_bool(all.rows.len(), |place| all.rows[place] >= rows_min);
        other_than(&all.values, &enough, column, first).map(Likely::Known)
    }

    /// About the values that at least `rows_min` rows have, as if each were in all lists alike.
    fn unknown(&self, rows_min: u64) -> Likely {
        match self.histogram.rows_with(rows_min / self.lists.len().max(1) as u64) * 2 <= self.histogram.rows_of_all {
            true => Likely::Few,
            false => Likely::Many,
        }
    }

    /// The rows that each of `values` has, which are no two alike. What no row has is left out.
    fn rows_of(&self, values: &ArrayRef) -> Result<Counted> {
        let (column, kind) = self.column();
        let (mut found, mut rows) = (vec![values.slice(0, 0)], Vec::new());
        let set = value_set(kind, values)?;
        for list in &self.lists {
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

/// How many places of lists have how many rows.
#[derive(Default)]
struct Histogram {
    /// Places with so many rows; the last has all with more.
    places: Vec<u64>,
    /// Rows of places with more.
    rows_of_last: u64,
    rows_of_all: u64,
}

impl Histogram {
    const LEN: usize = 1 << 12;

    fn add(&mut self, rows_of_places: &[u64]) {
        self.places.resize(Histogram::LEN, 0);
        for rows in rows_of_places {
            self.rows_of_all += rows;
            let at = (*rows as usize).min(Histogram::LEN - 1);
            self.places[at] += 1;
            if at == Histogram::LEN - 1 {
                self.rows_of_last += rows;
            }
        }
    }

    /// Places with `rows` rows at least, or a few more.
    fn places_with(&self, rows: u64) -> usize {
        self.places.iter().skip((rows as usize).min(Histogram::LEN - 1)).sum::<u64>() as usize
    }

    /// The rows of those.
    fn rows_with(&self, rows: u64) -> u64 {
        let short = (0..).zip(&self.places).take(Histogram::LEN - 1).skip(rows as usize);
        short.map(|(rows, places): (u64, _)| rows * places).sum::<u64>() + self.rows_of_last
    }
}

/// The values of a counter's groups that have `rows_min` rows, without those of `first`.
pub(super) fn enough_rows(groups: &RecordBatch, rows_min: u64, column: usize, first: &ArrayRef) -> Result<ArrayRef> {
    let rows = rows_in(groups)?;
    let enough = BooleanBuffer::collect_bool(rows.len(), |group| rows[group] as u64 >= rows_min);
    other_than(groups.column(0), &enough, column, first)
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

/// Those of `values` whose bit is set and that are not among `first`.
fn other_than(values: &ArrayRef, bits: &BooleanBuffer, column: usize, first: &ArrayRef) -> Result<ArrayRef> {
    let values = filter(values, &BooleanArray::new(bits.clone(), None)).map_err(failed)?;
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

/// The places of the `most` greatest numbers, ascending.
fn greatest(numbers: &[u64], most: usize) -> Vec<u32> {
    let mut best: BinaryHeap<Reverse<(u64, u32)>> = BinaryHeap::with_capacity(most + 1);
    for (place, number) in (0..).zip(numbers) {
        if best.len() < most {
            best.push(Reverse((*number, place)));
        } else if best.peek().is_some_and(|Reverse((least, _))| least < number) {
            best.pop();
            best.push(Reverse((*number, place)));
        }
    }
    let mut places: Vec<u32> = best.into_iter().map(|Reverse((_, place))| place).collect();
    places.sort_unstable();
    places
}

fn failed(error: ArrowError) -> Error {
    Error::internal(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greatest_are_found_wherever_they_are() {
        assert_eq!(greatest(&[5, 1, 9, 1, 7], 2), [2, 4]);
        assert_eq!(greatest(&[9, 5], 3), [0, 1]);
        assert_eq!(greatest(&[4, 4, 4], 1), [0]);
        assert_eq!(greatest(&[], 2), [0_u32; 0]);
    }
}
