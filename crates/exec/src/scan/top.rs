//! ORDER BY with a LIMIT, as far as a scan can help: it returns only rows that may be among the first.
//!
//! The cursors share the keys of the best rows so far. The worst of these is a bound. A block whose zone map is after
//! the bound is skipped. Of a frame, only rows up to the bound are read, and at most as many rows as the limit. The
//! caller must still sort the result.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::fmt;

use arrow::array::{Array, ArrayRef, Scalar, UInt32Array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::kernels::cmp;
use arrow::compute::{SortOptions, take};
use arrow::error::ArrowError;
use arrow::row::{OwnedRow, RowConverter, SortField};
use parking_lot::Mutex;
use rowmill_base::{Error, Result, SqlType};
use rowmill_storage::chunk::{Chunk, ValueSet};
use rowmill_storage::{Block, TableDef};

/// One of the columns that rows are ordered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopKey {
    /// The position in the table's definition.
    pub column: usize,
    /// `DESC`
    pub descending: bool,
    /// `NULLS FIRST`
    pub nulls_first: bool,
}

/// An order whose first rows alone matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopRequest {
    /// The order: at least one key.
    pub keys: Vec<TopKey>,
    /// The number of rows that matter, at least one.
    pub rows: usize,
}

/// The best rows that the cursors of a scan have met.
pub(super) struct TopOfScan {
    request: TopRequest,
    converter: RowConverter,
    best: Mutex<BestSoFar>,
}

#[derive(Default)]
struct BestSoFar {
    /// The keys of these rows. The worst one is on top.
    rows: BinaryHeap<OwnedRow>,
    /// The first column of the worst row's key, once enough rows are known.
    bound: Option<ArrayRef>,
}

impl fmt::Debug for TopOfScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.request.fmt(f)
    }
}

impl TopOfScan {
    pub(super) fn new(request: TopRequest, table: &TableDef) -> Result<TopOfScan> {
        let fields = request.keys.iter().map(|key| {
            let options = SortOptions { descending: key.descending, nulls_first: key.nulls_first };
            SortField::new_with_options(table.columns[key.column].kind.arrow(), options)
        });
        let converter = RowConverter::new(fields.collect()).map_err(failed)?;
        Ok(TopOfScan { request, converter, best: Mutex::default() })
    }

    fn first(&self) -> TopKey {
        self.request.keys[0]
    }

    /// Sorts blocks so that those with the best values come first. The bound is then tight early.
    pub(super) fn best_first(&self, table: &TableDef, blocks: &mut [(usize, &Block)]) -> Result<()> {
        let first = self.first();
        let field = SortField::new_with_options(
            table.columns[first.column].kind.arrow(),
            SortOptions { descending: first.descending, nulls_first: false },
        );
        let converter = RowConverter::new(vec![field]).map_err(failed)?;
        let mut keys: Vec<(Option<OwnedRow>, (usize, &Block))> = Vec::with_capacity(blocks.len());
        for (index, block) in blocks.iter() {
            let value = end_of(block, table, first)?;
            let rows = value.map(|value| converter.convert_columns(&[value])).transpose().map_err(failed)?;
            keys.push((rows.map(|rows| rows.row(0).owned()), (*index, *block)));
        }
        // A block without a known end comes first, because it may have any value.
        keys.sort_by(|(left, _), (right, _)| left.cmp(right));
        blocks.iter_mut().zip(keys).for_each(|(block, (_, sorted))| *block = sorted);
        Ok(())
    }

    /// Whether a block may have a row that is not after the bound.
    pub(super) fn may_hold(&self, block: &Block, table: &TableDef) -> Result<bool> {
        let Some(bound) = self.best.lock().bound.clone() else { return Ok(true) };
        let first = self.first();
        let Some(head) = block.chunk_head(table, first.column)? else { return Ok(true) };
        // A bound of NULL or a NULL that comes first cannot be judged by the zone map.
        if bound.is_null(0) || (first.nulls_first && head.null_count() > 0) {
            return Ok(true);
        }
        let Some(end) = end_of(block, table, first)? else { return Ok(true) };
        let (end, bound) = (Scalar::new(end), Scalar::new(bound));
        let is_behind = if first.descending { cmp::lt(&end, &bound) } else { cmp::gt(&end, &bound) };
        Ok(is_behind.is_ok_and(|is_behind| !(is_behind.is_valid(0) && is_behind.value(0))))
    }

    /// The first column of the order and its values that are not after the bound; `None` until there is a bound.
    pub(super) fn bound(&self, table: &TableDef) -> Option<(usize, ValueSet)> {
        let bound = self.best.lock().bound.clone()?;
        let first = self.first();
        let kind = &table.columns[first.column].kind;
        let values = match first.descending {
            true => ValueSet::less_than(kind, &bound, false)?.other_values(),
            false => ValueSet::less_than(kind, &bound, true)?,
        };
        Some((first.column, if first.nulls_first { values.or(&ValueSet::null(kind)) } else { values }))
    }

    /// The rows at `positions` whose first key may be among the first, judged by their codes. Codes of texts have the
    /// order of the texts, so no text must be decoded. `None` if there are no such codes.
    pub(super) fn by_codes(&self, chunk: &Chunk, positions: &[u32]) -> Result<Option<Vec<u32>>> {
        let is_text = matches!(chunk.kind(), SqlType::Text { .. } | SqlType::Blob);
        if !is_text || !chunk.has_values() || positions.len() <= self.request.rows {
            return Ok(None);
        }
        let first = self.first();
        let mut codes = Vec::new();
        chunk.take_codes(positions, &mut codes)?;
        let null = chunk.distinct().unwrap_or_default() as u32;
        let rank = |code: u32| match code {
            code if code >= null => {
                if first.nulls_first {
                    0
                } else {
                    null + 1
                }
            }
            code if first.descending => null - code,
            code => code + 1,
        };
        codes.iter_mut().for_each(|code| *code = rank(*code));
        let mut ranks = codes.clone();
        // The rank of the last row that could be among the first of this frame.
        let (_, last, _) = ranks.select_nth_unstable(self.request.rows - 1);
        let last = *last;
        // Rows with equal first keys all stay, because the other keys decide between them.
        let kept = positions.iter().zip(&codes).filter(|(_, rank)| **rank <= last);
        Ok(Some(kept.map(|(position, _)| *position).collect()))
    }

    /// The first column that rows are ordered by.
    pub(super) fn first_column(&self) -> usize {
        self.first().column
    }

    /// The rows at `positions` that may be among the first. `read` returns the values of a column at positions.
    pub(super) fn keep(
        &self,
        mut positions: Vec<u32>,
        read: &mut dyn FnMut(usize, &[u32]) -> Result<ArrayRef>,
    ) -> Result<Vec<u32>> {
        let first = self.first();
        let mut values = read(first.column, &positions)?;
        let bound = self.best.lock().bound.clone();
        if let Some(bound) = bound.filter(|bound| bound.is_valid(0)) {
            let before = self.not_behind(&values, bound)?;
            if before.count_set_bits() < before.len() {
                let kept: Vec<u32> = before.set_indices().map(|index| index as u32).collect();
                positions = kept.iter().map(|index| positions[*index as usize]).collect();
                values = take(&values, &UInt32Array::from(kept), None).map_err(failed)?;
            }
        }
        if positions.is_empty() {
            return Ok(positions);
        }
        let mut columns = vec![values];
        for key in &self.request.keys[1..] {
            columns.push(read(key.column, &positions)?);
        }
        let rows = self.converter.convert_columns(&columns).map_err(failed)?;
        let mut places: Vec<usize> = (0..positions.len()).collect();
        // At most as many rows of one frame as the limit can be among the first.
        if places.len() > self.request.rows {
            places.select_nth_unstable_by(self.request.rows - 1, |left, right| rows.row(*left).cmp(&rows.row(*right)));
            places.truncate(self.request.rows);
        }
        places.sort_unstable();
        // Other cursors may have found better rows since the bound was read, so compare again under the lock.
        let mut best = self.best.lock();
        places.retain(|place| {
            let row = rows.row(*place);
            if best.rows.len() < self.request.rows {
                best.rows.push(row.owned());
                return true;
            }
            let last = best.rows.peek().map(|last| row.cmp(&last.row()));
            match last {
                Some(Ordering::Less) => {
                    best.rows.pop();
                    best.rows.push(row.owned());
                    true
                }
                // An equal row is not needed, because enough rows are at least as good.
                _ => false,
            }
        });
        // The bound exists only once enough rows are known, and it can only get better.
        if best.rows.len() == self.request.rows {
            let last = best.rows.peek().map(OwnedRow::row);
            let mut keys = self.converter.convert_rows(last).map_err(failed)?;
            best.bound = Some(keys.swap_remove(0));
        }
        Ok(places.into_iter().map(|place| positions[place]).collect())
    }

    /// The values that are not after the bound.
    fn not_behind(&self, values: &ArrayRef, bound: ArrayRef) -> Result<BooleanBuffer> {
        let first = self.first();
        let bound = Scalar::new(bound);
        let before = if first.descending { cmp::gt_eq(values, &bound) } else { cmp::lt_eq(values, &bound) };
        let before = before.map_err(failed)?;
        Ok(match before.nulls() {
            Some(nulls) if first.nulls_first => before.values() | &!nulls.inner(),
            Some(nulls) => before.values() & nulls.inner(),
            None => before.values().clone(),
        })
    }
}

/// The value of a block that comes first in the order of `key`, or a value before it. `None` if nothing is known.
fn end_of(block: &Block, table: &TableDef, key: TopKey) -> Result<Option<ArrayRef>> {
    let zone = block.chunk_head(table, key.column)?.and_then(|head| head.zone());
    Ok(zone.and_then(|zone| if key.descending { zone.max.map(|max| max.value) } else { Some(zone.min.value) }))
}

fn failed(error: ArrowError) -> Error {
    Error::internal(format!("the first rows of an order: {error}"))
}
