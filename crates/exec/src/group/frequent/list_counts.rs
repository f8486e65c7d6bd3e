//! Counts the rows of the values of lists. Each worker does this for the lists that it reads.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use rowmill_base::{Error, Result};

use super::super::ranges::ColumnPart;
use super::super::rows::concat;
use super::super::value_list::ValueList;
use super::super::{GroupBy, Lists};

/// Places of a list that are kept with their rows. It bounds the memory for each list. With a quarter and four times as
/// many, ClickBench's most frequent users take 11.1 and 12.3 ms instead of 11.6, and its most frequent addresses 7.9
/// and 9.4 instead of 8.3.
const KEPT_MAX: usize = 1 << 15;

/// The lists that one worker has read.
pub(super) struct PartCounts {
    pub(super) lists: Vec<ListCounts>,
    /// The values of rows outside of lists; `of_loose` has each of them once, with its rows.
    pub(super) loose: Vec<ArrayRef>,
    pub(super) of_loose: Option<CountedValues>,
    pub(super) histogram: Histogram,
    /// The most frequent values of each list, each value once, with the rows that were found.
    pub(super) frequent: Option<CountedValues>,
}

/// Values, each once, with the number of rows that were found.
#[derive(Clone)]
pub(super) struct CountedValues {
    pub(super) values: ArrayRef,
    pub(super) rows: Vec<u64>,
}

impl CountedValues {
    /// Adds up the rows of each distinct value. `None` if there are no values.
    pub(super) fn of(
        counter: &GroupBy,
        column: usize,
        values: &[ArrayRef],
        rows: Vec<u64>,
    ) -> Result<Option<CountedValues>> {
        if rows.is_empty() {
            return Ok(None);
        }
        let counted = counter.group_values(column, concat(values)?, rows)?;
        let rows = rows_in(&counted)?.iter().map(|rows| *rows as u64).collect();
        Ok(Some(CountedValues { values: Arc::clone(counted.column(0)), rows }))
    }

    /// Joins several counts. Each of them must have a value at most once.
    pub(super) fn join(
        counter: &GroupBy,
        column: usize,
        mut parts: Vec<CountedValues>,
    ) -> Result<Option<CountedValues>> {
        if parts.len() < 2 {
            return Ok(parts.pop());
        }
        let rows = parts.iter().flat_map(|part| part.rows.iter().copied()).collect();
        let values: Vec<ArrayRef> = parts.into_iter().map(|part| part.values).collect();
        CountedValues::of(counter, column, &values, rows)
    }
}

/// The rows of a counter's groups.
pub(super) fn rows_in(groups: &RecordBatch) -> Result<&[i64]> {
    match groups.column(1).as_primitive_opt::<Int64Type>() {
        Some(rows) => Ok(rows.values()),
        None => Err(Error::internal("a count must be a 64-bit integer")),
    }
}

/// A list and the rows of its most frequent values.
pub(super) struct ListCounts {
    pub(super) list: ValueList,
    /// Places with their rows: all places that have at least `rows_min` rows.
    kept: Vec<(u32, u32)>,
    rows_min: u64,
}

impl PartCounts {
    /// Reads lists that no other worker takes. Of each list with at least `len_min` values, picks the `most` most
    /// frequent values.
    pub(super) fn read(counter: &GroupBy, lists: &Lists, most: usize, len_min: usize) -> Result<PartCounts> {
        let (mut histogram, mut rows, mut of_lists) = (Histogram::default(), Vec::new(), Vec::new());
        let (mut frequent, mut rows_of_frequent) = (Vec::new(), Vec::new());
        let (mut loose, mut of_loose) = (Vec::new(), Vec::new());
        let mut read = |part: ColumnPart| -> Result<()> {
            let list = match part {
                ColumnPart::List(list) => list,
                ColumnPart::Loose(values) => {
                    let rows = vec![1; values.len()];
                    of_loose.extend(CountedValues::of(counter, lists.column, std::slice::from_ref(&values), rows)?);
                    loose.push(values);
                    return Ok(());
                }
            };
            rows.clear();
            list.weights(0..list.len(), &mut rows)?;
            let rows_min = match rows.len() <= KEPT_MAX {
                true => {
                    histogram.add(&rows);
                    0
                }
                // We cannot keep all places of a long list. A histogram says how many rows a place must have so that
                // few enough remain.
                false => {
                    let mut of_list = Histogram::default();
                    of_list.add(&rows);
                    histogram.join(&of_list);
                    of_list.rows_of_few(KEPT_MAX as u64)
                }
            };
            let counts = ListCounts { list, kept: with_rows(&rows, rows_min), rows_min };
            if counts.list.len() >= len_min {
                let (places, rows) = counts.most_frequent(most);
                frequent.push(counts.list.values_at(&places)?);
                rows_of_frequent.extend(rows);
            }
            of_lists.push(counts);
            Ok(())
        };
        counter.read_lists(lists, &mut read)?;
        let of_loose = CountedValues::join(counter, lists.column, of_loose)?;
        let frequent = CountedValues::of(counter, lists.column, &frequent, rows_of_frequent)?;
        Ok(PartCounts { lists: of_lists, loose, of_loose, histogram, frequent })
    }
}

impl ListCounts {
    /// Bytes of memory in use.
    pub(super) fn bytes(&self) -> u64 {
        self.list.bytes() + (self.kept.capacity() * size_of::<(u32, u32)>()) as u64
    }

    /// The places of the `most` most frequent values, ascending, and their rows.
    fn most_frequent(&self, most: usize) -> (Vec<u32>, Vec<u64>) {
        let rows: Vec<u64> = self.kept.iter().map(|(_, rows)| u64::from(*rows)).collect();
        let of = |at: u32| (self.kept[at as usize].0, rows[at as usize]);
        greatest(&rows, most).into_iter().map(of).unzip()
    }

    /// The places of the values that at least `rows_min` rows have, ascending, and their rows.
    pub(super) fn with_rows(&self, rows_min: u64) -> Result<(Vec<u32>, Vec<u32>)> {
        // The kept places do not go down to this number of rows, so the list must be read again.
        if rows_min < self.rows_min {
            let mut rows = Vec::new();
            self.list.weights(0..self.list.len(), &mut rows)?;
            return Ok(with_rows(&rows, rows_min).into_iter().unzip());
        }
        Ok(self.kept.iter().filter(|(_, rows)| u64::from(*rows) >= rows_min).copied().unzip())
    }
}

/// The places of the numbers that are at least `least`, and the numbers. These fit 32 bits because they count rows of a
/// block.
fn with_rows(rows: &[u64], least: u64) -> Vec<(u32, u32)> {
    let mut kept = vec![(0, 0); rows.iter().filter(|rows| **rows >= least).count() + 1];
    let mut len = 0;
    // We write each pair in any case and advance only past wanted ones, so that there is no branch to predict.
    for (place, rows) in (0..).zip(rows) {
        kept[len] = (place, *rows as u32);
        len += usize::from(*rows >= least);
    }
    kept.truncate(len);
    kept
}

/// For each number of rows, the number of places in lists that have it.
#[derive(Default)]
pub(super) struct Histogram {
    /// Places by number of rows. The last entry has all places with more.
    places: Vec<u64>,
    pub(super) rows_of_all: u64,
}

impl Histogram {
    const LEN: usize = 1 << 12;

    pub(super) fn add(&mut self, rows_of_places: &[u64]) {
        self.places.resize(Histogram::LEN, 0);
        for rows in rows_of_places {
            self.rows_of_all += rows;
            self.places[(*rows as usize).min(Histogram::LEN - 1)] += 1;
        }
    }

    pub(super) fn join(&mut self, other: &Histogram) {
        self.places.resize(Histogram::LEN, 0);
        self.places.iter_mut().zip(&other.places).for_each(|(places, more)| *places += more);
        self.rows_of_all += other.rows_of_all;
    }

    /// The least number of rows that at most `most` places have.
    fn rows_of_few(&self, most: u64) -> u64 {
        let mut places = 0;
        let above = self.places.iter().rposition(|more| {
            places += more;
            places > most
        });
        above.map_or(0, |rows| rows as u64 + 1)
    }

    /// The number of places with at least `rows` rows. It may count a few too many.
    pub(super) fn places_with(&self, rows: u64) -> usize {
        self.places.iter().skip((rows as usize).min(Histogram::LEN - 1)).sum::<u64>() as usize
    }
}

/// The places of the `most` greatest numbers, ascending.
pub(super) fn greatest(numbers: &[u64], most: usize) -> Vec<u32> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greatest_returns_the_places_of_the_largest_numbers() {
        assert_eq!(greatest(&[5, 1, 9, 1, 7], 2), [2, 4]);
        assert_eq!(greatest(&[9, 5], 3), [0, 1]);
        assert_eq!(greatest(&[4, 4, 4], 1), [0]);
        assert_eq!(greatest(&[], 2), [0_u32; 0]);
    }

    #[test]
    fn a_histogram_counts_places_by_their_number_of_rows() {
        let (mut one, mut all) = (Histogram::default(), Histogram::default());
        one.add(&[1, 1, 2, 9]);
        all.add(&[100_000, 5]);
        all.join(&one);
        assert_eq!((all.places_with(1), all.places_with(2), all.places_with(6)), (6, 4, 2));
        assert_eq!(all.rows_of_all, 100_018);
        assert_eq!([0, 1, 2, 3, 4, 6].map(|most| all.rows_of_few(most)), [4_096, 10, 6, 3, 2, 0]);
    }
}
