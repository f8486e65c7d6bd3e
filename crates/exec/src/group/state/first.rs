//! The first row of each group in an order.
//!
//! Each row is compared with the best row of its group so far, one column after the other. After each column but the
//! last, only the rows that equal the best remain. Where a column is a value list, we compare the codes, because they
//! are in the order of the values.

use std::cmp::Ordering;
use std::mem::size_of;
use std::sync::Arc;

use arrow::array::{Array, BinaryViewArray};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use rowmill_base::{Error, Result};

use super::numbers::{NumberForm, StateNumbers};
use crate::group::bits::width_of;
use crate::group::rows::PartValues;
use crate::group::texts::order_of_views;

/// No row yet.
const NONE: u32 = u32::MAX;

/// The order of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Direction {
    pub(super) descending: bool,
    pub(super) nulls_first: bool,
}

impl Direction {
    /// The reversed direction.
    pub(super) fn reversed(self) -> Direction {
        Direction { descending: !self.descending, nulls_first: !self.nulls_first }
    }
}

/// The values that are compared.
enum Ranks {
    /// Ascending values, such as those of a value list: their indexes have the same order.
    Places,
    Signed(ScalarBuffer<i64>),
    Wide(ScalarBuffer<i128>),
    Text(BinaryViewArray),
}

/// One of the columns by which rows are ordered.
pub(super) struct OrderColumn {
    ranks: Ranks,
    codes: Option<Arc<Vec<u32>>>,
    nulls: Option<NullBuffer>,
    direction: Direction,
    /// Whether no row has a smaller value than an earlier row. The times of events in a block are an example.
    is_ascending: bool,
}

impl OrderColumn {
    pub(super) fn new(PartValues { values, codes, is_list }: &PartValues, direction: Direction) -> Result<OrderColumn> {
        let form = match width_of(values.data_type()) {
            None => NumberForm::Text,
            Some(128) => NumberForm::Wide,
            Some(_) => NumberForm::Signed,
        };
        let ranks = match is_list {
            true => Ranks::Places,
            false => match StateNumbers::new(values, form)? {
                StateNumbers::Signed(numbers) => Ranks::Signed(numbers),
                StateNumbers::Wide(numbers) => Ranks::Wide(numbers),
                StateNumbers::Text(texts) => Ranks::Text(texts),
                StateNumbers::Unsigned(_) | StateNumbers::Float(_) => {
                    return Err(Error::internal("numbers that are not in the order of their values"));
                }
            },
        };
        let nulls = values.logical_nulls().filter(|nulls| nulls.null_count() > 0);
        let is_ascending = match &ranks {
            Ranks::Signed(numbers) => codes.is_none() && nulls.is_none() && numbers.is_sorted(),
            Ranks::Places | Ranks::Wide(_) | Ranks::Text(_) => false,
        };
        Ok(OrderColumn { ranks, codes: codes.clone(), nulls, direction, is_ascending })
    }

    /// Compares two rows; `compare` compares the values at two indexes.
    #[inline]
    fn compare(&self, left: u32, right: u32, compare: impl Fn(usize, usize) -> Ordering) -> Ordering {
        let place = |row: u32| self.codes.as_ref().map_or(row, |codes| codes[row as usize]) as usize;
        let (left, right) = (place(left), place(right));
        if let Some(nulls) = &self.nulls
            && (nulls.is_null(left) || nulls.is_null(right))
        {
            let order = nulls.is_valid(left).cmp(&nulls.is_valid(right));
            return if self.direction.nulls_first { order } else { order.reverse() };
        }
        let order = compare(left, right);
        if self.direction.descending { order.reverse() } else { order }
    }

    /// Finds the best row of each group among `rows`, which ascend.
    fn find(&self, best: &mut BestRows, ties: Ties<'_>, rows: impl Iterator<Item = (u32, u32)> + Clone) {
        // In ascending rows the first one is the least and the last one the greatest, so no value is compared.
        match (self.is_ascending, self.direction.descending, &ties) {
            (true, false, Ties::TakeFirst) => return best.find(ties, rows, |_, _| Ordering::Greater),
            (true, true, Ties::TakeLast) => return best.find(ties, rows, |_, _| Ordering::Less),
            _ => {}
        }
        match &self.ranks {
            Ranks::Places => {
                best.find(ties, rows, |left, right| self.compare(left, right, |left, right| left.cmp(&right)))
            }
            Ranks::Signed(numbers) => best.find(ties, rows, |left, right| {
                self.compare(left, right, |left, right| numbers[left].cmp(&numbers[right]))
            }),
            Ranks::Wide(numbers) => best.find(ties, rows, |left, right| {
                self.compare(left, right, |left, right| numbers[left].cmp(&numbers[right]))
            }),
            Ranks::Text(texts) => best.find(ties, rows, |left, right| {
                self.compare(left, right, |left, right| {
                    order_of_views(texts.views()[left], texts.views()[right])
                        .then_with(|| texts.value(left).cmp(texts.value(right)))
                })
            }),
        }
    }
}

/// Says what happens to rows that equal the best row of their group.
enum Ties<'a> {
    /// They are appended here, for the next column. The best row is one of them.
    Tell(&'a mut Vec<(u32, u32)>),
    /// The first one stays.
    TakeFirst,
    /// The last one replaces the others.
    TakeLast,
}

/// The best row of each group.
#[derive(Debug, Default)]
struct BestRows {
    /// The best row, by group.
    best: Vec<u32>,
    /// Groups that have a best row.
    touched: Vec<u32>,
}

impl BestRows {
    /// Forgets all rows, and makes room for `groups` groups.
    fn reset(&mut self, groups: usize) {
        if self.best.len() < groups {
            self.best.reserve_exact(groups - self.best.len());
            self.best.resize(groups, NONE);
        }
        // We reset only the groups that the last call touched, because there may be many groups and few rows.
        self.touched.drain(..).for_each(|group| self.best[group as usize] = NONE);
        self.touched.reserve_exact(groups);
    }

    #[inline]
    fn find(
        &mut self,
        ties: Ties<'_>,
        rows: impl Iterator<Item = (u32, u32)> + Clone,
        compare: impl Fn(u32, u32) -> Ordering,
    ) {
        let takes_last = matches!(ties, Ties::TakeLast);
        let BestRows { best, touched } = self;
        rows.clone().for_each(|(row, group)| {
            let best = &mut best[group as usize];
            if *best == NONE {
                touched.push(group);
                *best = row;
                return;
            }
            match compare(row, *best) {
                Ordering::Less => *best = row,
                Ordering::Equal if takes_last => *best = row,
                _ => {}
            }
        });
        if let Ties::Tell(equal) = ties {
            // Only now the best of each group is known, so rows must be compared a second time.
            equal.extend(rows.filter(|(row, group)| compare(*row, best[*group as usize]) == Ordering::Equal));
        }
    }
}

/// Finds the first rows of groups. Keeps its memory between uses.
#[derive(Debug, Default)]
pub(super) struct Firsts {
    best: BestRows,
    /// The rows that may be first, and their groups.
    rows: Vec<(u32, u32)>,
    /// Those of them that may still be first after the next column.
    equal: Vec<(u32, u32)>,
}

impl Firsts {
    /// Bytes of memory for at most `rows` rows and `groups` groups in an order of `columns` columns.
    pub(super) fn bytes_for(columns: usize, rows: usize, groups: usize) -> u64 {
        // One column decides at once. Two leave equal rows for the second one, more columns need two lists of them.
        let lists = columns.saturating_sub(1).min(2);
        (lists * rows * size_of::<(u32, u32)>() + groups * 2 * size_of::<u32>()) as u64
    }

    /// Bytes of memory in use.
    pub(super) fn bytes(&self) -> u64 {
        let rows = self.rows.capacity() + self.equal.capacity();
        (rows * size_of::<(u32, u32)>() + self.best.best.capacity() * 2 * size_of::<u32>()) as u64
    }

    /// Finds the first row of each group that has rows, and returns it with the group. `rows` has rows, which ascend,
    /// with their group, which is below `groups`. Of equal rows the last one wins if `latest`, otherwise the first.
    pub(super) fn find(
        &mut self,
        columns: &[OrderColumn],
        latest: bool,
        rows: impl ExactSizeIterator<Item = (u32, u32)> + Clone,
        groups: usize,
    ) -> impl ExactSizeIterator<Item = (u32, u32)> {
        let Firsts { best, rows: left, equal } = self;
        best.reset(groups);
        let last = if latest { Ties::TakeLast } else { Ties::TakeFirst };
        // All columns but the last only narrow down the rows; the last one decides.
        match columns {
            [] => best.find(last, rows, |_, _| Ordering::Equal),
            [column] => column.find(best, last, rows),
            [first, between @ .., column] => {
                left.clear();
                left.reserve_exact(rows.len());
                first.find(best, Ties::Tell(left), rows);
                for column in between {
                    equal.clear();
                    equal.reserve_exact(left.len());
                    column.find(best, Ties::Tell(equal), left.iter().copied());
                    std::mem::swap(left, equal);
                }
                column.find(best, last, left.iter().copied());
            }
        }
        let BestRows { best, touched } = &self.best;
        touched.iter().map(|group| (best[*group as usize], *group))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, Float64Array, Int32Array, StringViewArray};

    #[test]
    fn each_group_has_the_row_that_a_sort_puts_first() {
        let rows = 2_000_u32;
        let numbers: Vec<Option<i32>> = (0..rows as i32).map(|row| (row % 7 != 0).then_some(row * 31 % 5)).collect();
        let floats: Vec<Option<f64>> = (0..rows)
            .map(|row| (row % 5 != 0).then(|| if row % 11 == 0 { f64::NAN } else { (row % 3).into() }))
            .collect();
        let texts: Vec<Option<String>> =
            (0..rows).map(|row| (row % 3 != 0).then(|| format!("a longer text {}", row * 17 % 4))).collect();
        let values = |values: ArrayRef| PartValues { values, codes: None, is_list: false };
        let columns = [
            values(Arc::new(Int32Array::from(numbers.clone()))),
            values(Arc::new(Float64Array::from(floats.clone()))),
            values(Arc::new(StringViewArray::from(texts.clone()))),
        ];
        // Numbers as codes into an ascending list, with NULL last.
        let list = PartValues {
            values: Arc::new(Int32Array::from(vec![Some(0), Some(1), Some(2), Some(3), Some(4), None])),
            codes: Some(Arc::new(numbers.iter().map(|number| number.map_or(5, |number| number as u32)).collect())),
            is_list: true,
        };
        let mut firsts = Firsts::default();
        for bits in 0..32 {
            let directions: Vec<Direction> = (0..3)
                .map(|column| Direction {
                    descending: bits >> column & 1 == 1,
                    nulls_first: bits >> (column + 1) & 1 == 1,
                })
                .collect();
            let latest = bits >> 4 & 1 == 1;
            let first = if bits % 3 == 0 { &list } else { &columns[0] };
            let order: Vec<OrderColumn> = [first, &columns[1], &columns[2]]
                .into_iter()
                .zip(&directions)
                .map(|(values, direction)| OrderColumn::new(values, *direction).expect("ordered"))
                .collect();
            fn by<T>(
                direction: Direction,
                left: Option<T>,
                right: Option<T>,
                compare: fn(&T, &T) -> Ordering,
            ) -> Ordering {
                match (left, right) {
                    (Some(left), Some(right)) if direction.descending => compare(&right, &left),
                    (Some(left), Some(right)) => compare(&left, &right),
                    (left, right) if direction.nulls_first => left.is_some().cmp(&right.is_some()),
                    (left, right) => right.is_some().cmp(&left.is_some()),
                }
            }
            let compare = |left: &u32, right: &u32| {
                let (l, r) = (*left as usize, *right as usize);
                by(directions[0], numbers[l], numbers[r], i32::cmp)
                    .then_with(|| by(directions[1], floats[l], floats[r], f64::total_cmp))
                    .then_with(|| by(directions[2], texts[l].as_ref(), texts[r].as_ref(), |l, r| l.cmp(r)))
                    .then_with(|| if latest { right.cmp(left) } else { left.cmp(right) })
            };
            let group_of = |row: u32| row * 13 % 10;
            let found = firsts.find(&order, latest, (0..rows).map(|row| (row, group_of(row))), 12);
            let mut found: Vec<(u32, u32)> = found.collect();
            found.sort_by_key(|(_, group)| *group);
            let wanted: Vec<(u32, u32)> = (0..10)
                .map(|group| ((0..rows).filter(|row| group_of(*row) == group).min_by(compare).expect("a row"), group))
                .collect();
            assert_eq!(found, wanted, "{directions:?}");
        }
    }

    #[test]
    fn the_first_row_in_an_ascending_column_is_the_one_that_a_comparison_finds() {
        let rows = 1_000_u32;
        // Neighbours have equal values.
        let ascending = PartValues {
            values: Arc::new(Int32Array::from_iter_values((0..rows as i32).map(|row| row / 4))),
            codes: None,
            is_list: false,
        };
        let group_of = |row: u32| row / 3 % 7;
        for (descending, latest) in [(false, false), (false, true), (true, false), (true, true)] {
            let direction = Direction { descending, nulls_first: false };
            let known = OrderColumn::new(&ascending, direction).expect("ordered");
            assert!(known.is_ascending);
            let mut compared = OrderColumn::new(&ascending, direction).expect("ordered");
            compared.is_ascending = false;
            let find = |column: OrderColumn| {
                let (mut firsts, columns) = (Firsts::default(), [column]);
                let found = firsts.find(&columns, latest, (0..rows).map(|row| (row, group_of(row))), 7);
                found.collect::<Vec<_>>()
            };
            assert_eq!(find(known), find(compared), "descending {descending}, latest {latest}");
        }
    }
}
