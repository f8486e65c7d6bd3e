//! ORDER BY with a LIMIT, as far as the scan can help: it gives only rows that may be among the first.
//!
//! The cursors share the keys of the best rows so far. The last of them is a bound: a block whose zone map lies behind it
//! is skipped, and of a frame only the rows before it are read, and no more than are asked for. Whoever asked still has
//! to sort what comes.

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
    /// Its position in the table's definition.
    pub column: usize,
    /// `DESC`
    pub descending: bool,
    /// `NULLS FIRST`
    pub nulls_first: bool,
}

/// An order of which only the first rows matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopRequest {
    /// What rows are ordered by, at least one.
    pub keys: Vec<TopKey>,
    /// How many matter, at least one.
    pub rows: usize,
}

/// The best rows that the cursors of a scan have met.
pub(super) struct Top {
    request: TopRequest,
    converter: RowConverter,
    best: Mutex<Best>,
}

#[derive(Default)]
struct Best {
    /// Their keys, the last one on top.
    rows: BinaryHeap<OwnedRow>,
    /// The first key of the last one, once there are as many as matter.
    bound: Option<ArrayRef>,
}

impl fmt::Debug for Top {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.request.fmt(f)
    }
}

impl Top {
    pub(super) fn new(request: TopRequest, table: &TableDef) -> Result<Top> {
        let fields = request.keys.iter().map(|key| {
            let options = SortOptions { descending: key.descending, nulls_first: key.nulls_first };
            SortField::new_with_options(table.columns[key.column].kind.arrow(), options)
        });
        let converter = RowConverter::new(fields.collect()).map_err(failed)?;
        Ok(Top { request, converter, best: Mutex::default() })
    }

    fn first(&self) -> TopKey {
        self.request.keys[0]
    }

    /// Sorts blocks so that those with the best values come first, which makes the bound tight early.
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
        // Nothing known comes first: it may hold anything.
        keys.sort_by(|(left, _), (right, _)| left.cmp(right));
        blocks.iter_mut().zip(keys).for_each(|(block, (_, sorted))| *block = sorted);
        Ok(())
    }

    /// Whether a block may hold a row before the bound.
    pub(super) fn may_hold(&self, block: &Block, table: &TableDef) -> Result<bool> {
        let Some(bound) = self.best.lock().bound.clone() else { return Ok(true) };
        let first = self.first();
        let Some(head) = block.chunk_head(table, first.column)? else { return Ok(true) };
        if bound.is_null(0) || (first.nulls_first && head.null_count() > 0) {
            return Ok(true);
        }
        let Some(end) = end_of(block, table, first)? else { return Ok(true) };
        let (end, bound) = (Scalar::new(end), Scalar::new(bound));
        let is_behind = if first.descending { cmp::lt(&end, &bound) } else { cmp::gt(&end, &bound) };
        Ok(is_behind.is_ok_and(|is_behind| !(is_behind.is_valid(0) && is_behind.value(0))))
    }

    /// The column that rows are ordered by first and the values of it that are not behind the bound; `None` as long as there
    /// is no bound.
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

    /// Those of the rows at `positions` whose first key may be among the first. The codes of strings are in the order of
    /// the strings, so that none has to be decoded for it; `None` if there are none.
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
        let (_, last, _) = ranks.select_nth_unstable(self.request.rows - 1);
        let last = *last;
        // Rows with the same first key are told apart by the others.
        let kept = positions.iter().zip(&codes).filter(|(_, rank)| **rank <= last);
        Ok(Some(kept.map(|(position, _)| *position).collect()))
    }

    /// The first column that rows are ordered by.
    pub(super) fn first_column(&self) -> usize {
        self.first().column
    }

    /// Those of the rows at `positions` that may be among the first. `read` gives the values of a column at positions.
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
        if places.len() > self.request.rows {
            places.select_nth_unstable_by(self.request.rows - 1, |left, right| rows.row(*left).cmp(&rows.row(*right)));
            places.truncate(self.request.rows);
        }
        places.sort_unstable();
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
                // An equal row is as good as one that is there already.
                _ => false,
            }
        });
        if best.rows.len() == self.request.rows {
            let last = best.rows.peek().map(OwnedRow::row);
            let mut keys = self.converter.convert_rows(last).map_err(failed)?;
            best.bound = Some(keys.swap_remove(0));
        }
        Ok(places.into_iter().map(|place| positions[place]).collect())
    }

    /// Which values are not behind the bound.
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

/// The value of a block that comes first in the order of `key`, or one before it. `None` if nothing is known.
fn end_of(block: &Block, table: &TableDef, key: TopKey) -> Result<Option<ArrayRef>> {
    let zone = block.chunk_head(table, key.column)?.and_then(|head| head.zone());
    Ok(zone.and_then(|zone| if key.descending { zone.max.map(|max| max.value) } else { Some(zone.min.value) }))
}

fn failed(error: ArrowError) -> Error {
    Error::internal(format!("the first rows of an order: {error}"))
}
