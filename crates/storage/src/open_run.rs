//! Open runs: recent rows of a columnar table that no sealed block holds yet.
//!
//! Together the runs are the table's open block. A run is immutable; neighbouring runs of like size are joined as they
//! gather, eight at a time, so that a row is copied a logarithmic number of times and a scan meets few of them.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, new_null_array};
use arrow::compute::concat;
use roaring::RoaringBitmap;
use rowmill_base::{ColumnId, Error, Result, RowNumber};

use crate::run_codec;
use crate::schema::TableDef;

/// Runs of one tier that are joined into one of the next.
const FAN_IN: usize = 8;
/// Runs of this size are large enough to be scanned by themselves and are not joined further.
const JOINED_ROWS_MAX: usize = 1 << 16;

/// Consecutive recent rows, in memory as Arrow arrays.
#[derive(Clone, Debug)]
pub struct OpenRun {
    first_row: RowNumber,
    rows: usize,
    /// The columns that existed when the rows were written, by id.
    columns: Arc<[(ColumnId, ArrayRef)]>,
    /// Positions of deleted rows.
    deleted: Option<Arc<RoaringBitmap>>,
}

impl OpenRun {
    /// The rows of `batch`, whose columns are those of `table` in order.
    pub fn new(first_row: RowNumber, table: &TableDef, batch: &RecordBatch) -> Self {
        assert_eq!(batch.num_columns(), table.columns.len(), "a run holds whole rows");
        let columns = table.columns.iter().zip(batch.columns()).map(|(def, values)| (def.id, Arc::clone(values)));
        OpenRun { first_row, rows: batch.num_rows(), columns: columns.collect(), deleted: None }
    }

    /// The number of the first row; the others follow without a gap.
    pub fn first_row(&self) -> RowNumber {
        self.first_row
    }

    /// Rows, deleted ones included.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Rows that are not deleted.
    pub fn live_rows(&self) -> usize {
        self.rows - self.deleted.as_ref().map_or(0, |deleted| deleted.len() as usize)
    }

    /// Positions of deleted rows.
    pub fn deleted(&self) -> Option<&RoaringBitmap> {
        self.deleted.as_deref()
    }

    /// The values of a column, or `None` if the rows are older than the column.
    pub fn column(&self, id: ColumnId) -> Option<&ArrayRef> {
        self.columns.iter().find(|(column, _)| *column == id).map(|(_, values)| values)
    }

    /// Bytes of memory that the rows hold.
    pub fn memory_bytes(&self) -> usize {
        self.columns.iter().map(|(_, values)| values.get_array_memory_size()).sum()
    }

    /// Whether both are the same rows, whatever is deleted of them.
    pub fn same_rows(&self, other: &OpenRun) -> bool {
        self.first_row == other.first_row && Arc::ptr_eq(&self.columns, &other.columns)
    }

    /// The same rows under other numbers.
    #[must_use]
    pub fn at(&self, first_row: RowNumber) -> Self {
        OpenRun { first_row, ..self.clone() }
    }

    /// The same rows, of which those at `positions` are deleted too.
    #[must_use]
    pub fn with_deleted(&self, positions: &RoaringBitmap) -> Self {
        let deleted = self.deleted.as_deref().map_or_else(|| positions.clone(), |deleted| deleted | positions);
        assert!(deleted.max().is_none_or(|last| (last as usize) < self.rows), "only rows of the run are deleted");
        OpenRun { deleted: (!deleted.is_empty()).then(|| Arc::new(deleted)), ..self.clone() }
    }

    /// The bytes that the base keeps. Deletes are kept apart from them.
    pub fn encode(&self) -> Result<Vec<u8>> {
        run_codec::encode(self.rows, &self.columns)
    }

    /// The run of [`OpenRun::encode`]'s bytes.
    pub fn decode(first_row: RowNumber, table: &TableDef, bytes: &[u8]) -> Result<Self> {
        let kind = |id| table.column_by_id(id).map(|index| table.columns[index].kind.clone());
        let (rows, columns) = run_codec::decode(bytes, kind)
            .map_err(|error| error.context(format_args!("table {}, row {first_row}", table.name)))?;
        Ok(OpenRun { first_row, rows, columns: columns.into(), deleted: None })
    }

    /// The values of `table`'s column at `index`, with the column's `missing` value where the rows are older.
    pub fn values(&self, table: &TableDef, index: usize) -> Result<ArrayRef> {
        let column = &table.columns[index];
        match self.column(column.id) {
            Some(values) => Ok(Arc::clone(values)),
            None => repeat_missing(column.missing.as_ref(), &column.kind.arrow(), self.rows),
        }
    }

    /// One run of the rows of `runs`, which follow each other without a gap.
    pub fn join(table: &TableDef, runs: &[Arc<OpenRun>]) -> Result<Self> {
        let first_row = runs.first().expect("at least one run is joined").first_row;
        let mut rows = 0;
        let mut deleted = RoaringBitmap::new();
        for run in runs {
            assert_eq!(run.first_row.0, first_row.0 + rows as u64, "joined runs follow each other");
            deleted.extend(run.deleted().into_iter().flatten().map(|position| position + rows as u32));
            rows += run.rows;
        }
        let columns = table.columns.iter().enumerate().map(|(index, column)| {
            let parts = runs.iter().map(|run| run.values(table, index)).collect::<Result<Vec<_>>>()?;
            Ok((column.id, concat_values(&parts)?))
        });
        Ok(OpenRun {
            first_row,
            rows,
            columns: columns.collect::<Result<Vec<_>>>()?.into(),
            deleted: (!deleted.is_empty()).then(|| Arc::new(deleted)),
        })
    }

    /// How many of the last of `runs` should be joined now: a tail of runs of one tier, at least [`FAN_IN`] of them.
    pub fn tail_to_join(runs: &[Arc<OpenRun>]) -> usize {
        let Some(last) = runs.last() else { return 0 };
        let tier = last.tier();
        let mut count = 0;
        let mut next = last.first_row.0 + last.rows as u64;
        for run in runs.iter().rev() {
            let follows = run.first_row.0 + run.rows as u64 == next;
            if !follows || run.tier() > tier || run.rows >= JOINED_ROWS_MAX {
                break;
            }
            next = run.first_row.0;
            count += 1;
        }
        if count >= FAN_IN { count } else { 0 }
    }

    fn tier(&self) -> u32 {
        (self.rows.max(1) as u32).ilog2() / FAN_IN.ilog2()
    }
}

/// `rows` times the value that rows older than a column have.
pub fn repeat_missing(missing: Option<&ArrayRef>, kind: &arrow::datatypes::DataType, rows: usize) -> Result<ArrayRef> {
    let Some(value) = missing else { return Ok(new_null_array(kind, rows)) };
    let indices = arrow::array::UInt32Array::from(vec![0; rows]);
    arrow::compute::take(value, &indices, None).map_err(|error| Error::internal(error.to_string()))
}

/// One array of the values of `parts`, compact: a view array does not keep the buffers of what it was cut from.
pub fn concat_values(parts: &[ArrayRef]) -> Result<ArrayRef> {
    use arrow::array::{Array, AsArray};
    use arrow::datatypes::DataType;
    let joined = match parts {
        [only] => Arc::clone(only),
        parts => {
            let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
            concat(&parts).map_err(|error| Error::internal(error.to_string()))?
        }
    };
    Ok(match joined.data_type() {
        DataType::Utf8View => Arc::new(joined.as_string_view().gc()),
        DataType::BinaryView => Arc::new(joined.as_binary_view().gc()),
        _ => joined,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::ColumnDef;
    use arrow::array::{AsArray, Int64Array};
    use arrow::datatypes::Int64Type;
    use rowmill_base::{SchemaId, SqlType, TableId};

    fn table() -> TableDef {
        let column = |id, name: &str, missing| ColumnDef {
            id: ColumnId(id),
            name: name.into(),
            kind: SqlType::Int64,
            nullable: true,
            default: None,
            missing,
        };
        TableDef {
            id: TableId(1),
            schema: SchemaId(1),
            name: "t".into(),
            version: 1,
            columns: vec![column(0, "a", None)],
            next_column: ColumnId(1),
        }
    }

    fn run(first: u64, rows: i64) -> Arc<OpenRun> {
        let values: ArrayRef = Arc::new(Int64Array::from_iter_values(first as i64..first as i64 + rows));
        let batch = RecordBatch::try_new(table().arrow_schema(), vec![values]).expect("one column");
        Arc::new(OpenRun::new(RowNumber(first), &table(), &batch))
    }

    #[test]
    fn one_row_runs_are_joined_a_logarithmic_number_of_times() {
        let mut runs: Vec<Arc<OpenRun>> = Vec::new();
        let mut copied = 0;
        for row in 0..5_000 {
            runs.push(run(row, 1));
            loop {
                let tail = OpenRun::tail_to_join(&runs);
                if tail == 0 {
                    break;
                }
                let joined = OpenRun::join(&table(), &runs[runs.len() - tail..]).expect("ints join");
                copied += joined.rows();
                runs.truncate(runs.len() - tail);
                runs.push(Arc::new(joined));
            }
        }
        assert!(runs.len() <= 8 * 5, "{} runs", runs.len());
        assert!(copied <= 5_000 * 5, "{copied} rows copied");
        let all: Vec<i64> = runs
            .iter()
            .flat_map(|run| run.column(ColumnId(0)).expect("a").as_primitive::<Int64Type>().values().to_vec())
            .collect();
        assert_eq!(all, (0..5_000).collect::<Vec<_>>());
    }

    #[test]
    fn deletes_move_with_their_rows() {
        let a = Arc::new(run(10, 3).with_deleted(&RoaringBitmap::from([1])));
        let b = Arc::new(run(13, 3).with_deleted(&RoaringBitmap::from([0, 2])));
        let joined = OpenRun::join(&table(), &[a, b]).expect("ints join");
        assert_eq!(joined.deleted().expect("three").iter().collect::<Vec<_>>(), [1, 3, 5]);
        assert_eq!(joined.live_rows(), 3);
    }

    #[test]
    fn rows_older_than_a_column_read_its_missing_value() {
        let mut newer = table();
        let mut column = newer.columns[0].clone();
        column.id = ColumnId(1);
        column.missing = Some(Arc::new(Int64Array::from(vec![7])));
        newer.columns.push(column);
        let values = run(0, 3).values(&newer, 1).expect("the missing value");
        assert_eq!(values.as_primitive::<Int64Type>().values(), &[7, 7, 7]);
    }
}
