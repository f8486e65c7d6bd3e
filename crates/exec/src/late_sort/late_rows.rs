//! Columns of a table that are read by the places of rows, after these have been sorted.
//!
//! The rows of one call are read part by part of the table, and those of a part in their stored order, because a column
//! decodes neighbouring rows and neighbouring values of its list together. Then the columns are put into the order of
//! the rows. Each call opens the chunks that it reads, because an open chunk keeps its value list once many values of
//! it were read, and the lists of all blocks may not fit memory.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, UInt32Array};
use arrow::compute::{interleave, take};
use arrow::datatypes::{SchemaRef, UInt64Type};
use arrow::error::ArrowError;
use rowmill_base::{Error, Result};
use rowmill_storage::{TableSource, repeat_missing};

use super::OWNER;
use crate::scan::{PartOfTable, TablePart, TablePlace};
use crate::share::batch_of;

/// The origin of a column of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LateOrigin {
    /// The column of the sorted rows at this position.
    Sorted(usize),
    /// The column of the table at this position in its definition.
    Table(usize),
}

/// Reads columns by places.
#[derive(Debug)]
pub(crate) struct LateRows {
    pub(super) table: Arc<dyn TableSource>,
    /// The origin of each column of `schema`.
    pub(super) columns: Vec<LateOrigin>,
    /// The position of the places among the columns of the sorted rows.
    pub(super) places: usize,
    pub(super) schema: SchemaRef,
}

/// The rows of a call that are in one part of the table, in their order there.
struct RowsOfPart {
    part: TablePart,
    rows: Vec<u32>,
}

impl LateRows {
    /// Turns sorted rows with places into rows of the result. All batches are read together, so they should have some
    /// ten thousand rows.
    pub(crate) fn read(&self, batches: &[RecordBatch]) -> Result<Vec<RecordBatch>> {
        let places = batches.iter().flat_map(|batch| {
            let places = batch.column(self.places).as_primitive::<UInt64Type>();
            places.values().iter().copied()
        });
        let (parts, indices) = by_part(places);
        let columns = self.columns.iter().map(|column| match column {
            LateOrigin::Sorted(_) => Ok(None),
            LateOrigin::Table(column) => self.column(*column, &parts, &indices).map(Some),
        });
        let late = columns.collect::<Result<Vec<Option<ArrayRef>>>>()?;
        let mut start = 0;
        let batch = |batch: &RecordBatch| {
            let rows = batch.num_rows();
            let columns = self.columns.iter().zip(&late).map(|(origin, late)| match (origin, late) {
                (LateOrigin::Sorted(column), _) => Arc::clone(batch.column(*column)),
                (LateOrigin::Table(_), late) => late.as_ref().expect("late columns are read").slice(start, rows),
            });
            let columns = columns.collect();
            start += rows;
            batch_of(OWNER, &self.schema, columns, rows)
        };
        batches.iter().map(batch).collect()
    }

    /// Reads a column of the table. `indices` has the part and the position in it of each row.
    fn column(&self, column: usize, parts: &[RowsOfPart], indices: &[(usize, usize)]) -> Result<ArrayRef> {
        let values = parts.iter().map(|part| self.values(column, part)).collect::<Result<Vec<_>>>()?;
        let values: Vec<&dyn Array> = values.iter().map(AsRef::as_ref).collect();
        match values.is_empty() {
            true => Ok(arrow::array::new_empty_array(&self.table.table().columns[column].kind.arrow())),
            false => interleave(&values, indices).map_err(failed),
        }
    }

    /// Reads a column for the rows of one part.
    fn values(&self, column: usize, part: &RowsOfPart) -> Result<ArrayRef> {
        let table = self.table.table();
        match part.part.of(&*self.table) {
            PartOfTable::Block(block) => match block.chunk(table, column)? {
                Some(chunk) => chunk.take(&part.rows),
                None => {
                    let column = &table.columns[column];
                    repeat_missing(column.missing.as_ref(), &column.kind.arrow(), part.rows.len())
                }
            },
            PartOfTable::Run(run) => {
                take(&run.values(table, column)?, &UInt32Array::from(part.rows.clone()), None).map_err(failed)
            }
        }
    }
}

/// Groups rows by their parts. Returns the parts, and for each row the index of its part and its position there.
fn by_part(places: impl Iterator<Item = u64>) -> (Vec<RowsOfPart>, Vec<(usize, usize)>) {
    let mut placed: Vec<(u64, u32)> = places.zip(0..).collect();
    placed.sort_unstable();
    let mut indices = vec![(0, 0); placed.len()];
    let mut parts: Vec<RowsOfPart> = Vec::new();
    for (bits, index) in placed {
        let TablePlace { part, row } = TablePlace::of_bits(bits);
        if parts.last().is_none_or(|last| last.part != part) {
            parts.push(RowsOfPart { part, rows: Vec::new() });
        }
        let number = parts.len() - 1;
        let rows = &mut parts[number].rows;
        indices[index as usize] = (number, rows.len());
        rows.push(row);
    }
    (parts, indices)
}

fn failed(error: ArrowError) -> Error {
    Error::internal(format!("cannot read the columns of sorted rows: {error}"))
}
