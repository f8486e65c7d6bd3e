//! Open runs: recent rows of a columnar table that no sealed block holds yet.
//!
//! The runs of a table together are its open block. A run is immutable. Neighbouring runs of similar size are joined as
//! they accumulate, eight at a time. So a row is copied a logarithmic number of times, and a scan meets few runs.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, new_null_array};
use arrow::compute::concat;
use arrow::datatypes::DataType;
use roaring::RoaringBitmap;
use rowmill_base::{Broker, ColumnId, Error, Reservation, Result, RowNumber};

use crate::column_part::KeptParts;
use crate::floats::canonical_floats;
use crate::retyped::retyped;
use crate::run_codec::{self, RunDecoder};
use crate::schema::TableDef;
use crate::time_order::times_of;

/// This many runs of one tier are joined into one run of the next tier. A row is copied at most six times until its run
/// has 2^16 rows, and a scan meets at most seven runs of each tier.
const FAN_IN: usize = 8;
/// A run of this many rows is large enough to be scanned by itself and is not joined again. The rest of a bulk load
/// becomes a block from as many rows on (the setting `small_block_rows`).
const JOINED_ROWS_MAX: usize = 1 << 16;
/// A run of this many bytes is not joined again, because a run is one value of the base.
const JOINED_BYTES_MAX: u64 = 32 << 20;

/// Consecutive recent rows, in memory as Arrow arrays.
#[derive(Clone, Debug)]
pub struct OpenRun {
    first_row: RowNumber,
    rows: usize,
    /// The columns that existed when the rows were written, by id.
    columns: Arc<[(ColumnId, ArrayRef)]>,
    /// The positions of deleted rows.
    deleted: Option<Arc<RoaringBitmap>>,
    /// The memory account of the columns, held as long as any reader holds them. `None` if nothing accounts for them.
    memory: Option<Arc<Reservation>>,
    /// The first and the last time of a time table's rows, once someone has asked for them.
    times: Arc<OnceLock<(i64, i64)>>,
    /// The parts of documents that statements have read.
    parts: Arc<KeptParts>,
}

impl OpenRun {
    /// Makes a run of the rows of `batch`, whose columns must be those of `table` in order.
    pub fn new(first_row: RowNumber, table: &TableDef, batch: &RecordBatch) -> Self {
        assert_eq!(batch.num_columns(), table.columns.len(), "a run must have all columns of its table");
        let columns = table.columns.iter().zip(batch.columns()).map(|(def, values)| (def.id, canonical_floats(values)));
        let (columns, times, parts) = (columns.collect(), Arc::default(), Arc::default());
        OpenRun { first_row, rows: batch.num_rows(), columns, deleted: None, memory: None, times, parts }
    }

    /// Makes a run of `rows` rows that has only some columns of its table, by id. The caller must not read others.
    pub fn of_columns(first_row: RowNumber, rows: usize, columns: Vec<(ColumnId, ArrayRef)>) -> Self {
        let columns = columns.into_iter().map(|(id, values)| (id, canonical_floats(&values))).collect();
        OpenRun { first_row, rows, columns, deleted: None, memory: None, times: Arc::default(), parts: Arc::default() }
    }

    /// The number of the first row; the others follow without a gap.
    pub fn first_row(&self) -> RowNumber {
        self.first_row
    }

    /// The number of rows, including deleted ones.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The number of rows that are not deleted.
    pub fn live_rows(&self) -> usize {
        self.rows - self.deleted.as_ref().map_or(0, |deleted| deleted.len() as usize)
    }

    /// The positions of deleted rows.
    pub fn deleted(&self) -> Option<&RoaringBitmap> {
        self.deleted.as_deref()
    }

    /// The values of a column, or `None` if the rows are older than the column.
    pub fn column(&self, id: ColumnId) -> Option<&ArrayRef> {
        self.columns.iter().find(|(column, _)| *column == id).map(|(_, values)| values)
    }

    /// The bytes of memory that the rows take.
    pub fn memory_bytes(&self) -> u64 {
        match &self.memory {
            Some(counted) => counted.bytes(),
            None => self.columns.iter().map(|(_, values)| value_bytes(values)).sum(),
        }
    }

    /// Returns this run with its memory counted by `broker`. Never refused: the rows already exist, so only later
    /// requests find less memory left.
    #[must_use]
    pub fn counted(self, broker: &Broker) -> Self {
        // `recount` never fails, unlike growing the reservation.
        let mut memory = broker.reservation("recent rows");
        memory.recount(self.memory_bytes());
        OpenRun { memory: Some(Arc::new(memory)), ..self }
    }

    /// Whether both runs have the same rows, apart from deletes.
    pub fn same_rows(&self, other: &OpenRun) -> bool {
        self.first_row == other.first_row && Arc::ptr_eq(&self.columns, &other.columns)
    }

    /// Returns this run with row numbers from `first_row`.
    #[must_use]
    pub fn at(&self, first_row: RowNumber) -> Self {
        OpenRun { first_row, ..self.clone() }
    }

    /// Returns this run with the rows at `positions` deleted too.
    #[must_use]
    pub fn with_deleted(&self, positions: &RoaringBitmap) -> Self {
        let deleted = self.deleted.as_deref().map_or_else(|| positions.clone(), |deleted| deleted | positions);
        assert!(deleted.max().is_none_or(|last| (last as usize) < self.rows), "deletes must be within the run");
        OpenRun { deleted: (!deleted.is_empty()).then(|| Arc::new(deleted)), ..self.clone() }
    }

    /// Returns this run with exactly the rows at `positions` deleted.
    #[must_use]
    pub fn with_all_deleted(&self, positions: Option<Arc<RoaringBitmap>>) -> Self {
        OpenRun { deleted: positions, ..self.clone() }
    }

    /// Copies the rows at `positions` into a run of their own. They keep their row numbers, and the memory of the other
    /// rows is not shared.
    pub fn part(&self, positions: Range<usize>) -> Result<Self> {
        let (start, rows) = (positions.start, positions.len());
        let gone = self.deleted.iter().flat_map(|deleted| deleted.iter());
        // Deletes move with their rows.
        let gone = gone.filter(|row| positions.contains(&(*row as usize))).map(|row| row - start as u32);
        let deleted: RoaringBitmap = gone.collect();
        let columns = self.columns.iter().map(|(id, values)| Ok((*id, concat_values(&[values.slice(start, rows)])?)));
        Ok(OpenRun {
            first_row: RowNumber(self.first_row.0 + start as u64),
            rows,
            columns: columns.collect::<Result<Vec<_>>>()?.into(),
            deleted: (!deleted.is_empty()).then(|| Arc::new(deleted)),
            memory: None,
            times: Arc::default(),
            parts: Arc::default(),
        })
    }

    /// Encodes the rows for the base. The base stores deletes separately.
    pub fn encode(&self) -> Result<Vec<u8>> {
        run_codec::encode(self.rows, &self.columns)
    }

    /// Decodes the bytes of [`OpenRun::encode`].
    pub fn decode(first_row: RowNumber, table: &Arc<TableDef>, bytes: &[u8]) -> Result<Self> {
        let mut runs = RunsInBytes::new(first_row, table);
        runs.push(first_row, bytes)?;
        runs.finish()
    }

    /// The values of `table`'s column at `index`. If the rows are older than the column, its `missing` value is
    /// repeated.
    pub fn values(&self, table: &TableDef, index: usize) -> Result<ArrayRef> {
        let column = &table.columns[index];
        match (self.column(column.id), &column.part) {
            // The rows may be older than a change of an ENUM.
            (Some(values), None) if column.kind.has_labels() => retyped(values, &column.kind.arrow()),
            (Some(values), None) => Ok(Arc::clone(values)),
            (Some(documents), Some(part)) => self.parts.values(column.id.0, part, documents, self.memory.as_deref()),
            (None, _) => repeat_missing(column.missing.as_ref(), &column.kind.arrow(), self.rows),
        }
    }

    /// The first and the last value of the time column, with those of deleted rows. `None` if `table` is no time table.
    pub fn time_range(&self, table: &TableDef) -> Result<Option<(i64, i64)>> {
        let Some(column) = table.time_column() else { return Ok(None) };
        if let Some(range) = self.times.get() {
            return Ok(Some(*range));
        }
        let times = times_of(&self.values(table, column)?)?;
        let range = times.iter().copied().min().zip(times.iter().copied().max());
        Ok(range.map(|range| *self.times.get_or_init(|| range)))
    }

    /// Joins `runs` into one run. Each must start at the row number where the one before ends.
    pub fn join(table: &TableDef, runs: &[Arc<OpenRun>]) -> Result<Self> {
        let first_row = runs.first().expect("at least one run is joined").first_row;
        let mut rows = 0;
        let mut deleted = RoaringBitmap::new();
        for run in runs {
            assert_eq!(run.first_row.0, first_row.0 + rows as u64, "joined runs must follow each other without a gap");
            // Deleted positions count from the start of the joined run.
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
            times: Arc::default(),
            parts: Arc::default(),
        })
    }

    /// The number of runs at the end of `runs` that should be joined now: at least [`FAN_IN`] runs of the last one's
    /// tier or below, or 0.
    pub fn tail_to_join(runs: &[Arc<OpenRun>]) -> usize {
        let Some(last) = runs.last() else { return 0 };
        let tier = last.tier();
        // Walk backwards from the last run, as long as the row numbers have no gap and no run is larger or already
        // large enough.
        let mut count = 0;
        let mut next = last.first_row.0 + last.rows as u64;
        for run in runs.iter().rev() {
            let follows = run.first_row.0 + run.rows as u64 == next;
            // Joining a large run again would copy it without making scans faster.
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

/// Decodes consecutive runs directly into one run.
#[derive(Debug)]
pub struct RunsInBytes {
    table: Arc<TableDef>,
    first_row: RowNumber,
    decoder: RunDecoder,
}

impl RunsInBytes {
    /// Starts without any run.
    pub fn new(first_row: RowNumber, table: &Arc<TableDef>) -> RunsInBytes {
        RunsInBytes { table: Arc::clone(table), first_row, decoder: RunDecoder::default() }
    }

    /// The number after the last row.
    pub fn end_row(&self) -> RowNumber {
        RowNumber(self.first_row.0 + self.decoder.rows() as u64)
    }

    /// The number of rows so far.
    pub fn rows(&self) -> usize {
        self.decoder.rows()
    }

    /// Appends a run from the bytes of [`OpenRun::encode`]. Returns `false` without any change if the run does not
    /// follow the others or has other columns. After an error this value must not be used again.
    pub fn push(&mut self, first_row: RowNumber, bytes: &[u8]) -> Result<bool> {
        // Row numbers with a gap need a run of their own.
        if first_row != self.end_row() {
            return Ok(false);
        }
        let table = &self.table;
        // A dropped column has no type any longer, and its values are skipped.
        let kind = |id| table.column_by_id(id).map(|index| table.columns[index].kind.clone());
        let pushed = self.decoder.push(bytes, kind).map_err(|error| located(error, table, first_row))?;
        Ok(pushed.is_some())
    }

    /// Makes one run of all rows.
    pub fn finish(self) -> Result<OpenRun> {
        let (rows, columns) = self.decoder.finish().map_err(|error| located(error, &self.table, self.first_row))?;
        let (columns, times, parts) = (columns.into(), Arc::default(), Arc::default());
        Ok(OpenRun { first_row: self.first_row, rows, columns, deleted: None, memory: None, times, parts })
    }
}

fn located(error: Error, table: &TableDef, row: RowNumber) -> Error {
    error.context(format_args!("table {}, row {row}", table.name))
}

/// Repeats the value that rows older than a column have.
pub fn repeat_missing(missing: Option<&ArrayRef>, kind: &arrow::datatypes::DataType, rows: usize) -> Result<ArrayRef> {
    let Some(value) = missing else { return Ok(new_null_array(kind, rows)) };
    let indices = arrow::array::UInt32Array::from(vec![0; rows]);
    arrow::compute::take(value, &indices, None).map_err(|error| Error::internal(error.to_string()))
}

/// An array is copied if it keeps more than this many times its own values alive.
const CUT_FACTOR: u64 = 2;

/// The bytes of the values themselves. An array that was cut from a larger one may keep more bytes alive.
pub fn value_bytes(values: &ArrayRef) -> u64 {
    let bytes = match values.data_type() {
        DataType::Utf8View => 16 * values.len() + values.as_string_view().total_buffer_bytes_used(),
        DataType::BinaryView => 16 * values.len() + values.as_binary_view().total_buffer_bytes_used(),
        kind => kind.primitive_width().map_or_else(|| values.get_array_memory_size(), |width| width * values.len()),
    };
    bytes as u64
}

/// Joins `parts` into one compact array. It does not keep the buffers of arrays that the parts were cut from.
pub fn concat_values(parts: &[ArrayRef]) -> Result<ArrayRef> {
    let joined = match parts {
        [only] if only.get_buffer_memory_size() as u64 <= CUT_FACTOR * value_bytes(only) => Arc::clone(only),
        // `concat` copies only if it gets more than one part, so we add an empty one.
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
            part: None,
        };
        TableDef {
            id: TableId(1),
            schema: SchemaId(1),
            name: "t".into(),
            version: 1,
            columns: vec![column(0, "a", None)],
            next_column: ColumnId(1),
            keyed: None,
            time: None,
            rules: Default::default(),
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
    fn rows_count_as_memory_until_the_last_holder_drops_them() {
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
    fn a_cut_array_does_not_keep_the_other_rows_alive() {
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
