//! Counts the rows of the values of a column by the lists of its blocks, so that hardly any value is read.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow::compute::filter;
use arrow::error::ArrowError;
use rowmill_base::{Error, Reservation, Result, SqlType};
use rowmill_plan::Predicate;

use super::super::rows::{concat, take, values_where};
use super::super::texts::is_text;
use super::super::value_list::ValueList;
use super::super::{GroupBy, KnownLists, Lists, OWNER};
use super::Limits;
use super::list_counts::{CountedValues, Histogram, ListCounts, PartCounts, greatest, rows_in};
use crate::scan::filter::Filter;

/// Bits for a number of lists in the count that [`ValueRowCounts::to_read`] makes.
const PARTS_BITS: u32 = 20;

/// The values of a column with their rows, block by block.
pub(super) struct ValueRowCounts {
    counter: Arc<GroupBy>,
    /// Whether making groups must read rows. Otherwise the lists are enough.
    reads_rows: bool,
    lists: Vec<ListCounts>,
    /// The values of rows outside of lists; `of_loose` has each of them once, with its rows.
    loose: Option<ArrayRef>,
    of_loose: Option<CountedValues>,
    /// For each number of rows, the number of places in all lists that have it.
    histogram: Histogram,
    /// The most frequent values of each list, each value once, with the rows that were found.
    frequent: Option<CountedValues>,
    memory: Reservation,
}

/// Says which parts of lists must be read to find the values that may have enough rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct CountBound {
    /// The number of rows that is enough.
    rows_min: u64,
    /// Places with fewer rows are not read.
    share: u64,
}

impl ValueRowCounts {
    /// Joins the counts of `parts`, which `counter` has read. It must group by one column alone.
    pub(super) fn new(counter: &Arc<GroupBy>, reads_rows: bool, parts: Vec<PartCounts>) -> Result<ValueRowCounts> {
        let mut counts = ValueRowCounts {
            counter: Arc::clone(counter),
            reads_rows,
            lists: Vec::new(),
            loose: None,
            of_loose: None,
            histogram: Histogram::default(),
            frequent: None,
            memory: counter.request.broker.reservation(OWNER),
        };
        let (mut loose, mut of_loose, mut frequent) = (Vec::new(), Vec::new(), Vec::new());
        for part in parts {
            frequent.extend(part.frequent);
            counts.lists.extend(part.lists);
            loose.extend(part.loose);
            of_loose.extend(part.of_loose);
            counts.histogram.join(&part.histogram);
        }
        counts.memory.grow(counts.lists.iter().map(ListCounts::bytes).sum())?;
        let (column, _) = counts.column();
        if !loose.is_empty() {
            counts.loose = Some(concat(&loose)?);
        }
        if let Some(of_loose) = CountedValues::join(counter, column, of_loose)? {
            counts.histogram.add(&of_loose.rows);
            // Values outside of lists take part as one more list.
            frequent.push(of_loose.clone());
            counts.of_loose = Some(of_loose);
        }
        counts.frequent = CountedValues::join(counter, column, frequent)?;
        Ok(counts)
    }

    /// The number of lists that were read.
    pub(super) fn lists_read(&self) -> usize {
        self.lists.len()
    }

    /// The number of lists, plus one if some rows are outside of lists.
    fn parts(&self) -> usize {
        self.lists.len() + usize::from(self.of_loose.is_some())
    }

    /// Everything that was read. If `condition` is given, only the values for which it is true should be grouped.
    pub(super) fn lists(&self, condition: Option<Predicate>) -> Result<KnownLists> {
        let Lists { source, .. } = self.counter.lists.as_ref().expect("a counter has lists");
        let with_filter = |condition: Predicate| {
            let filter = Filter::new(&**source, vec![condition.clone()])?;
            Ok((condition, filter))
        };
        Ok(KnownLists {
            lists: self.lists.iter().map(|counts| counts.list.clone()).collect(),
            loose: self.loose.clone(),
            condition: condition.map(with_filter).transpose()?,
        })
    }

    fn column(&self) -> (usize, &SqlType) {
        let Lists { source, column, .. } = self.counter.lists.as_ref().expect("a counter has lists");
        (*column, &source.table().columns[*column].kind)
    }

    /// Whether finding the groups of `values` values with `rows` rows takes at most about one part in `share` of the
    /// time for all groups.
    fn are_few(&self, values: usize, rows: u64, share: u64) -> bool {
        /// The number of values that a scan of all lists puts into groups in the time of one search in a list. With 1
        /// and 8, ClickBench's Q37 and Q38 take 2.3 and 2.5 ms, with 64 3.5 and 5.6 ms.
        const VALUES_PER_SEARCH: usize = 8;
        if self.reads_rows {
            return rows.saturating_mul(share) <= self.histogram.rows_of_all;
        }
        let searches = values.saturating_mul(self.lists.len() * VALUES_PER_SEARCH);
        searches.saturating_mul(share as usize) <= self.histogram.places_with(0)
    }

    /// The `most` most frequent values, judged by those with the most rows in some list. `None` if their groups take
    /// more than one part in `share` of the time.
    pub(super) fn most_frequent(&self, most: usize, share: u64) -> Result<Option<ArrayRef>> {
        let Some(CountedValues { values, rows }) = &self.frequent else { return Ok(None) };
        let places = greatest(rows, most);
        let rows: u64 = places.iter().map(|place| rows[*place as usize]).sum();
        if !self.are_few(places.len(), rows, share) {
            return Ok(None);
        }
        take(values, &places).map(Some)
    }

    /// Finds how to read the values that at least `rows_min` rows have. `None` if that takes too long.
    ///
    /// If a value has enough rows in total, at least one list must have its share of them. We skip the places of lists
    /// with fewer rows than the share. So we know of each value only the least and greatest number of rows that it can
    /// have. A smaller share brings these closer together and leaves fewer values. For example, with 8 lists and a
    /// bound of 80 rows, a value that has fewer than 10 rows in every list cannot reach 80. This is the three-phase
    /// uniform threshold algorithm (Cao and Wang, 2004), with blocks as nodes.
    pub(super) fn bound(&self, rows_min: u64, limits: Limits) -> Option<CountBound> {
        // Each remaining text is searched in all lists, which takes as long as reading many. A number is found quickly.
        let (easily, (at_most, parts), many): (_, (_, &[u64]), _) = match is_text(&self.column().1.arrow()) {
            true => (limits.texts_read.0, (limits.texts_read.1, &[8, 4, 2, 1]), 0),
            false => {
                let many = self.histogram.rows_of_all.checked_div(limits.numbers_share).unwrap_or(0);
                (limits.numbers_read.0, (limits.numbers_read.1, &[2, 1]), many as usize)
            }
        };
        let share = rows_min.div_ceil(self.parts().max(1) as u64);
        let with = |parts: &[u64], most: usize| {
            parts.iter().map(|part| share.div_ceil(*part)).find(|share| self.histogram.places_with(*share) <= most)
        };
        // The whole share leaves too many values open, so it should be used only if everything else takes too long.
        let share = with(&[8, 4], easily)
            .or_else(|| with(parts, at_most))
            .or_else(|| with(&[2, 1], many))
            .filter(|_| rows_min > 1)?;
        Some(CountBound { rows_min, share })
    }

    /// The part of a list that must be read.
    pub(super) fn to_read(&self, list: usize, bound: CountBound) -> Result<ValueList> {
        // The weight holds the rows in its high bits and the number of lists, here one, in its low bits. Adding weights
        // adds both.
        let in_one = |rows: u32| u64::from(rows) << PARTS_BITS | 1;
        let counts = &self.lists[list];
        let (places, rows) = counts.with_rows(bound.share)?;
        Ok(counts.list.at(&places, rows.into_iter().map(in_one).collect()))
    }

    /// A grouping that adds up the weights of each value in `lists`. These must be all parts that
    /// [`ValueRowCounts::to_read`] returned.
    pub(super) fn put_together(&self, lists: Vec<ValueList>) -> Result<Arc<GroupBy>> {
        let known = KnownLists { lists, loose: None, condition: None };
        GroupBy::of_known(self.counter.source.clone(), self.counter.request.clone(), known)
    }

    /// The values that may have enough rows, from groups of [`ValueRowCounts::put_together`].
    pub(super) fn may_have_enough(&self, groups: &RecordBatch, bound: CountBound) -> Result<CountedValues> {
        let (mut places, mut rows_at_most) = (Vec::new(), Vec::new());
        for (place, known) in (0..).zip(rows_in(groups)?) {
            let (rows, found_in) = (*known as u64 >> PARTS_BITS, *known as u64 & ((1 << PARTS_BITS) - 1));
            // Every list in which the value was not found may still have one row less than the share.
            let at_most = rows + (self.parts() as u64).saturating_sub(found_in) * (bound.share - 1);
            if at_most >= bound.rows_min {
                places.push(place);
                rows_at_most.push(at_most);
            }
        }
        Ok(CountedValues { values: take(groups.column(0), &places)?, rows: rows_at_most })
    }

    /// All values that may have enough rows, without those of `first`. `found` has the values that some list has a
    /// share of. `None` if these may be most of all rows.
    pub(super) fn others(
        &self,
        found: Vec<CountedValues>,
        bound: CountBound,
        first: &ArrayRef,
        limits: Limits,
    ) -> Result<Option<ArrayRef>> {
        let (mut values, mut rows) = (Vec::new(), 0);
        for part in found {
            rows += part.rows.iter().sum::<u64>();
            values.push(part.values);
        }
        if let Some(CountedValues { values: of_loose, rows: of_values }) = &self.of_loose {
            let enough = (0..).zip(of_values).filter(|(_, rows)| **rows >= bound.share);
            let places: Vec<u32> = enough.map(|(place, _)| place).collect();
            rows += places.iter().map(|place| of_values[*place as usize]).sum::<u64>();
            values.push(take(of_loose, &places)?);
        }
        let found: usize = values.iter().map(|values| values.len()).sum();
        if found > limits.values_max || !self.are_few(found, rows, 2) {
            return Ok(None);
        }
        match values.is_empty() {
            true => Ok(Some(first.slice(0, 0))),
            false => values_where(&concat(&values)?, &other_values(self.column().0, first)?).map(Some),
        }
    }
}

/// The condition that a column has one of `values`.
pub(in crate::group) fn these_values(column: usize, values: &ArrayRef) -> Result<Predicate> {
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

fn without_null(values: &ArrayRef) -> Result<ArrayRef> {
    match values.nulls() {
        Some(nulls) => filter(values, &BooleanArray::new(nulls.inner().clone(), None)).map_err(failed),
        None => Ok(Arc::clone(values)),
    }
}

fn failed(error: ArrowError) -> Error {
    Error::internal(error.to_string())
}
