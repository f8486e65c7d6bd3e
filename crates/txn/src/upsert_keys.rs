//! `DEDUP UPSERT KEYS`: finds the rows of a time table that new rows replace, because their keys are equal.
//!
//! There is no index. The keys contain the time, so only blocks and runs whose time range meets that of the new rows
//! are looked at, and of them only the rows that have a time of a new row. For rows that come in about the order of
//! time, these are the last few.
//!
//! NULL in a key equals NULL, and NaN equals NaN.

use std::collections::{HashMap, HashSet};

use arrow::array::{Array, ArrayRef};
use arrow::compute::cast;
use arrow::row::{RowConverter, Rows, SortField};
use roaring::RoaringBitmap;
use rowmill_base::{Error, Result};
use rowmill_storage::{TableDef, canonical_floats, time_order, times_of};

use crate::deletes::Holder;
use crate::time_merge::TimeRange;

/// Up to this many rows of one time are compared with each other. More are looked up by their keys.
const COMPARED_ROWS_MAX: usize = 16;

/// The keys of some rows of a time table.
pub(crate) struct UpsertKeys {
    converter: RowConverter,
    /// The positions of the key columns in the table.
    columns: Vec<usize>,
    times: Vec<i64>,
    rows: Rows,
    range: TimeRange,
}

impl UpsertKeys {
    /// The positions of the key columns of a table. `None` if its rows never replace others.
    pub(crate) fn columns(def: &TableDef) -> Option<Vec<usize>> {
        let keys = &def.time.as_ref()?.dedup_keys;
        // A key column cannot be dropped.
        let position = |id| def.column_by_id(id).expect("the keys are columns of the table");
        (!keys.is_empty()).then(|| keys.iter().map(|id| position(*id)).collect())
    }

    /// Makes the keys of rows from the values of the key columns, in the order of `columns`. `None` if there are no
    /// rows.
    pub(crate) fn new(def: &TableDef, columns: &[usize], values: &[ArrayRef]) -> Result<Option<UpsertKeys>> {
        let time = def.time_column().expect("only a time table has keys");
        let fields = columns.iter().map(|column| SortField::new(def.columns[*column].kind.arrow()));
        let converter = RowConverter::new(fields.collect()).map_err(failed)?;
        let rows = converter.convert_columns(&plain(def, columns, values)?).map_err(failed)?;
        let at = columns.iter().position(|column| *column == time).expect("the keys contain the time column");
        let times = times_of(&values[at])?;
        let (Some(first), Some(last)) = (times.iter().min().copied(), times.iter().max().copied()) else {
            return Ok(None);
        };
        let range = TimeRange { first, last };
        Ok(Some(UpsertKeys { converter, columns: columns.to_vec(), times, rows, range }))
    }

    /// The rows that stay if each row replaces those before it that have its key, ascending. `None` if all keys differ.
    pub(crate) fn last_of_each(&self) -> Option<Vec<u32>> {
        // The keys contain the time, so only rows of the same time can have equal keys.
        let order = time_order(&self.times);
        let rows = self.times.len() as u32;
        let replaced = match &order {
            Some(order) => self.replaced(order.iter().copied()),
            None => self.replaced(0..rows),
        };
        if replaced.is_empty() {
            return None;
        }
        let replaced: RoaringBitmap = replaced.into_iter().collect();
        Some((0..rows).filter(|row| !replaced.contains(*row)).collect())
    }

    /// The rows that have the key of a later row. `in_time` has all rows in the order of time, those of equal times in
    /// their own order.
    fn replaced(&self, in_time: impl Iterator<Item = u32>) -> Vec<u32> {
        let mut replaced = Vec::new();
        let mut of_one_time: Vec<u32> = Vec::new();
        for row in in_time {
            if of_one_time.first().is_some_and(|first| self.times[*first as usize] != self.times[row as usize]) {
                self.replaced_at_one_time(&of_one_time, &mut replaced);
                of_one_time.clear();
            }
            of_one_time.push(row);
        }
        self.replaced_at_one_time(&of_one_time, &mut replaced);
        replaced
    }

    /// Adds those of `rows`, which ascend, that have the key of a later one to `replaced`.
    fn replaced_at_one_time(&self, rows: &[u32], replaced: &mut Vec<u32>) {
        let key = |row: u32| self.rows.row(row as usize).data();
        if rows.len() <= COMPARED_ROWS_MAX {
            let is_replaced = |place: usize| rows[place + 1..].iter().any(|later| key(*later) == key(rows[place]));
            replaced.extend((0..rows.len()).filter(|place| is_replaced(*place)).map(|place| rows[place]));
            return;
        }
        let mut last: HashMap<&[u8], u32> = HashMap::with_capacity(rows.len());
        replaced.extend(rows.iter().filter_map(|row| last.insert(key(*row), *row)));
    }

    /// The positions of the live rows of `holders` that have one of these keys, by holder. Rows in `gone` are no longer
    /// live.
    pub(crate) fn find<'h>(
        &self,
        def: &TableDef,
        holders: impl Iterator<Item = (&'h Holder, Option<&'h RoaringBitmap>)>,
    ) -> Result<Vec<(&'h Holder, RoaringBitmap)>> {
        let mut found = Vec::new();
        // Most tables have no row of these times, so the keys are made findable when the first one is met.
        let (mut times, mut keys): (Option<Vec<i64>>, Option<HashSet<&[u8]>>) = (None, None);
        for (holder, gone) in holders {
            let Some(candidates) = rows_within(def, holder, gone, self.range)? else { continue };
            let times = times.get_or_insert_with(|| self.distinct_times());
            let at_times = candidates.iter().filter(|(_, time)| times.binary_search(time).is_ok());
            let at_times: Vec<u32> = at_times.map(|(row, _)| *row).collect();
            if at_times.is_empty() {
                continue;
            }
            let values = holder.columns_at(def, &self.columns, &at_times)?;
            let rows = self.converter.convert_columns(&plain(def, &self.columns, &values)?).map_err(failed)?;
            let keys = keys.get_or_insert_with(|| self.rows.iter().map(|row| row.data()).collect());
            let equal = rows.iter().zip(&at_times).filter(|(row, _)| keys.contains(row.data()));
            let positions: RoaringBitmap = equal.map(|(_, position)| *position).collect();
            if !positions.is_empty() {
                found.push((holder, positions));
            }
        }
        Ok(found)
    }

    /// The times of the keys, ascending.
    fn distinct_times(&self) -> Vec<i64> {
        let mut times = self.times.clone();
        // The times are mostly in order, which this sort finds.
        times.sort();
        times.dedup();
        times
    }
}

/// Whether a row of `own` has the key of a row of `others`. Each holder comes with its rows that are gone.
pub(crate) fn share_keys(
    def: &TableDef,
    columns: &[usize],
    own: &[(Holder, Option<&RoaringBitmap>)],
    others: &[(Holder, Option<&RoaringBitmap>)],
) -> Result<bool> {
    for (holder, gone) in own {
        let Some(range) = time_range(def, holder)? else { continue };
        for (other, other_gone) in others {
            let Some(rows) = rows_within(def, other, *other_gone, range)? else { continue };
            let positions: Vec<u32> = rows.into_iter().map(|(row, _)| row).collect();
            let values = other.columns_at(def, columns, &positions)?;
            if let Some(keys) = UpsertKeys::new(def, columns, &values)?
                && !keys.find(def, std::iter::once((holder, *gone)))?.is_empty()
            {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// The range of the times of a block or run.
fn time_range(def: &TableDef, holder: &Holder) -> Result<Option<TimeRange>> {
    let Some(column) = def.time_column() else { return Ok(None) };
    match holder {
        Holder::Block(block) => TimeRange::of(def, column, block).map(Some),
        Holder::Run(run) => Ok(run.time_range(def)?.map(|(first, last)| TimeRange { first, last })),
    }
}

/// The positions and times of the live rows of a holder within a range of time. `None` if there are none.
fn rows_within(
    def: &TableDef,
    holder: &Holder,
    gone: Option<&RoaringBitmap>,
    range: TimeRange,
) -> Result<Option<Vec<(u32, i64)>>> {
    let Some(own) = time_range(def, holder)? else { return Ok(None) };
    if own.last < range.first || range.last < own.first {
        return Ok(None);
    }
    let column = def.time_column().expect("a holder with a range of time");
    let times = match holder {
        Holder::Block(block) => match block.chunk(def, column)? {
            Some(chunk) => times_of(&chunk.read(0..block.rows())?)?,
            None => return Ok(None),
        },
        Holder::Run(run) => times_of(&run.values(def, column)?)?,
    };
    let is_live = |row: u32| ![holder.deleted(), gone].into_iter().flatten().any(|gone| gone.contains(row));
    let within = (0..).zip(times).filter(|(_, time)| (range.first..=range.last).contains(time));
    let rows: Vec<(u32, i64)> = within.filter(|(row, _)| is_live(*row)).collect();
    Ok((!rows.is_empty()).then_some(rows))
}

/// The values in the form in which equal ones are equal: of the column's own type, each float in one form.
fn plain(def: &TableDef, columns: &[usize], values: &[ArrayRef]) -> Result<Vec<ArrayRef>> {
    let plain = columns.iter().zip(values).map(|(column, values)| {
        let kind = def.columns[*column].kind.arrow();
        match *values.data_type() == kind {
            true => Ok(canonical_floats(values)),
            false => cast(values, &kind).map(|values| canonical_floats(&values)).map_err(failed),
        }
    });
    plain.collect()
}

fn failed(error: arrow::error::ArrowError) -> Error {
    Error::internal(format!("cannot compare the keys of rows: {error}"))
}
