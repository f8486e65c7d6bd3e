//! Open runs: recent rows of a columnar table that no sealed block holds yet.
//!
//! Together the runs are the table's open block. A run is immutable; neighbouring runs of like size are joined as they
//! gather, eight at a time, so that a row is copied a logarithmic number of times and a scan meets few of them.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, new_null_array};
use arrow::compute::concat;
use arrow::datatypes::DataType;
use roaring::RoaringBitmap;
use rowmill_base::{Broker, ColumnId, Error, Reservation, Result, RowNumber};

use crate::floats::canonical_floats;
use crate::run_codec::{self, RunDecoder};
use crate::schema::TableDef;

/// Runs of one tier that are joined into one of the next.
const FAN_IN: usize = 8;
/// Runs of this size are large enough to be scanned by themselves and are not joined further.
const JOINED_ROWS_MAX: usize = 1 << 16;
/// The same for bytes: a run is one value of the base.
const JOINED_BYTES_MAX: u64 = 32 << 20;

/// Consecutive recent rows, in memory as Arrow arrays.
#[derive(Clone, Debug)]
pub struct OpenRun {
    first_row: RowNumber,
    rows: usize,
    /// The columns that existed when the rows were written, by id.
    columns: Arc<[(ColumnId, ArrayRef)]>,
    /// Positions of deleted rows.
    deleted: Option<Arc<RoaringBitmap>>,
    /// What the columns take, counted as long as anybody holds them. `None` where nobody counts.
    memory: Option<Arc<Reservation>>,
}

impl OpenRun {
    /// The rows of `batch`, whose columns are those of `table` in order.
    pub fn new(first_row: RowNumber, table: &TableDef, batch: &RecordBatch) -> Self {
        assert_eq!(batch.num_columns(), table.columns.len(), "a run holds whole rows");
        let columns = table.columns.iter().zip(batch.columns()).map(|(def, values)| (def.id, canonical_floats(values)));
        OpenRun { first_row, rows: batch.num_rows(), columns: columns.collect(), deleted: None, memory: None }
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
    pub fn memory_bytes(&self) -> u64 {
        match &self.memory {
            Some(counted) => counted.bytes(),
            None => self.columns.iter().map(|(_, values)| value_bytes(values)).sum(),
        }
    }

    /// The same run, whose memory `broker` counts. Never refused: the rows are here, and the next to ask finds less left.
    #[must_use]
    pub fn counted(self, broker: &Broker) -> Self {
        let mut memory = broker.reservation("recent rows");
        memory.recount(self.memory_bytes());
        OpenRun { memory: Some(Arc::new(memory)), ..self }
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

    /// The rows at `positions`, under their own numbers, without the memory of the others.
    pub fn part(&self, positions: Range<usize>) -> Result<Self> {
        let (start, rows) = (positions.start, positions.len());
        let gone = self.deleted.iter().flat_map(|deleted| deleted.iter());
        let gone = gone.filter(|row| positions.contains(&(*row as usize))).map(|row| row - start as u32);
        let deleted: RoaringBitmap = gone.collect();
        let columns = self.columns.iter().map(|(id, values)| Ok((*id, concat_values(&[values.slice(start, rows)])?)));
        Ok(OpenRun {
            first_row: RowNumber(self.first_row.0 + start as u64),
            rows,
            columns: columns.collect::<Result<Vec<_>>>()?.into(),
            deleted: (!deleted.is_empty()).then(|| Arc::new(deleted)),
            memory: None,
        })
    }

    /// The bytes that the base keeps. Deletes are kept apart from them.
    pub fn encode(&self) -> Result<Vec<u8>> {
        run_codec::encode(self.rows, &self.columns)
    }

    /// The run of [`OpenRun::encode`]'s bytes.
    pub fn decode(first_row: RowNumber, table: &Arc<TableDef>, bytes: &[u8]) -> Result<Self> {
        let mut runs = RunsInBytes::new(first_row, table);
        runs.push(first_row, bytes)?;
        runs.finish()
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
            memory: None,
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
            let is_large = run.rows >= JOINED_ROWS_MAX || run.memory_bytes() >= JOINED_BYTES_MAX;
            if !follows || run.tier() > tier || is_large {
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

/// Runs that follow each other, of whose bytes one is made.
#[derive(Debug)]
pub struct RunsInBytes {
    table: Arc<TableDef>,
    first_row: RowNumber,
    decoder: RunDecoder,
}

impl RunsInBytes {
    /// Of no run yet.
    pub fn new(first_row: RowNumber, table: &Arc<TableDef>) -> RunsInBytes {
        RunsInBytes { table: Arc::clone(table), first_row, decoder: RunDecoder::default() }
    }

    /// Behind the last row.
    pub fn end_row(&self) -> RowNumber {
        RowNumber(self.first_row.0 + self.decoder.rows() as u64)
    }

    /// Rows so far.
    pub fn rows(&self) -> usize {
        self.decoder.rows()
    }

    /// Puts a run of [`OpenRun::encode`]'s bytes behind the others. `false`, with nothing done, if it does not follow them or has other
    /// columns. After an error nothing more may be done.
    pub fn push(&mut self, first_row: RowNumber, bytes: &[u8]) -> Result<bool> {
        if first_row != self.end_row() {
            return Ok(false);
        }
        let table = &self.table;
        let kind = |id| table.column_by_id(id).map(|index| table.columns[index].kind.clone());
        let pushed = self.decoder.push(bytes, kind).map_err(|error| located(error, table, first_row))?;
        Ok(pushed.is_some())
    }

    /// One run of all.
    pub fn finish(self) -> Result<OpenRun> {
        let (rows, columns) = self.decoder.finish().map_err(|error| located(error, &self.table, self.first_row))?;
        Ok(OpenRun { first_row: self.first_row, rows, columns: columns.into(), deleted: None, memory: None })
    }
}

fn located(error: Error, table: &TableDef, row: RowNumber) -> Error {
    error.context(format_args!("table {}, row {row}", table.name))
}

/// `rows` times the value that rows older than a column have.
pub fn repeat_missing(missing: Option<&ArrayRef>, kind: &arrow::datatypes::DataType, rows: usize) -> Result<ArrayRef> {
    let Some(value) = missing else { return Ok(new_null_array(kind, rows)) };
    let indices = arrow::array::UInt32Array::from(vec![0; rows]);
    arrow::compute::take(value, &indices, None).map_err(|error| Error::internal(error.to_string()))
}

/// An array that keeps so many times its values alive is copied.
const CUT_FACTOR: u64 = 2;

/// Bytes of the values, without what an array keeps alive beside them because it was cut from a larger one.
pub fn value_bytes(values: &ArrayRef) -> u64 {
    let bytes = match values.data_type() {
        DataType::Utf8View => 16 * values.len() + values.as_string_view().total_buffer_bytes_used(),
        DataType::BinaryView => 16 * values.len() + values.as_binary_view().total_buffer_bytes_used(),
        kind => kind.primitive_width().map_or_else(|| values.get_array_memory_size(), |width| width * values.len()),
    };
    bytes as u64
}

/// One array of the values of `parts`, compact: it does not keep the buffers of what it was cut from.
pub fn concat_values(parts: &[ArrayRef]) -> Result<ArrayRef> {
    let joined = match parts {
        [only] if only.get_buffer_memory_size() as u64 <= CUT_FACTOR * value_bytes(only) => Arc::clone(only),
        // A second part, if an empty one, has the first one copied.
        [only] => return concat_values(&[Arc::clone(only), only.slice(0, 0)]),
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
    use arrow::array::Int64Array;
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
            keyed: None,
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
    fn rows_count_as_long_as_anybody_holds_them() {
        let broker = Broker::new(1000);
        let one = Arc::unwrap_or_clone(run(0, 100)).counted(&broker);
        let deleted = one.with_deleted(&RoaringBitmap::from([1]));
        drop(one);
        assert_eq!((deleted.memory_bytes(), broker.used_bytes()), (800, 800));
        let large = Arc::unwrap_or_clone(run(100, 200)).counted(&broker);
        assert_eq!(broker.used_bytes(), 2_400, "counting is never refused");
        drop((deleted, large));
        assert_eq!(broker.used_bytes(), 0);
    }

    #[test]
    fn a_cut_array_does_not_keep_the_rest() {
        let large: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100_000));
        let values = concat_values(&[large.slice(7, 3)]).expect("ints are joined");
        assert_eq!(values.as_primitive::<Int64Type>().values(), &[7, 8, 9]);
        assert!(values.get_buffer_memory_size() < 1_000);
        let whole = concat_values(&[Arc::clone(&large)]).expect("nothing to join");
        assert_eq!(whole.to_data().buffers()[0].as_ptr(), large.to_data().buffers()[0].as_ptr(), "nothing was copied");
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
    fn a_part_has_its_own_rows_and_deletes() {
        let whole = run(10, 6).with_deleted(&RoaringBitmap::from([0, 3]));
        let part = whole.part(2..5).expect("ints are copied");
        assert_eq!((part.first_row(), part.rows(), part.live_rows()), (RowNumber(12), 3, 2));
        assert_eq!(part.deleted(), Some(&RoaringBitmap::from([1])));
        assert_eq!(part.column(ColumnId(0)), Some(&(Arc::new(Int64Array::from(vec![12, 13, 14])) as ArrayRef)));
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
