//! Reads Parquet as rows of a query.
//!
//! ```text
//! row groups ─► do statistics exclude them? ─► pieces ─► worker: Bloom filters, page indexes ─► rows
//! ```
//!
//! Workers take pieces in the order of the files. A piece is a row group, or a part of a large one. We decode only the
//! columns that the query needs, and of these only the pages that may have a matching row. If the query needs no
//! columns, nothing is decoded, because the metadata has the number of rows.
//!
//! A column of the query has a number in the set of files. Each file may have it at another index.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use parquet::arrow::arrow_reader::RowSelection;
use rowmill_base::{Cancel, Result, SqlType};
use rowmill_exec::batch::{BatchSource, Batches};
use rowmill_exec::scan::condition::{ColumnCondition, Condition, Test, conjuncts};
use rowmill_plan::Predicate;

use crate::bloom_filter::is_refuted;
use crate::guard::damaged;
use crate::mapping::{TargetColumn, batch_of, schema_of};
use crate::parquet_blocks::convert_column;
use crate::parquet_file::{ParquetFile, RowGroupReader};
use crate::rows::{BYTES_PER_WORKER_MIN, RowsRequest};

/// Row groups are cut at multiples of this many rows. Writers usually begin a page there, unless the values are long.
/// If a cut is within a page, both sides must decode that page.
const PAGE_ROWS: usize = 20_000;
/// A piece should not have fewer rows than this, because its own readers and dictionaries would cost more than sharing
/// the row group saves.
const PIECE_ROWS_MIN: usize = 6 * PAGE_ROWS;
/// With this many row groups per worker, no row group is cut, because the last ones are a small part of the whole.
const GROUPS_PER_WORKER: usize = 4;
/// The number of pieces per worker if row groups are cut. More pieces would be more even, but would decode more
/// dictionaries.
const PIECES_PER_WORKER: usize = 2;

/// A scan of Parquet files.
pub(crate) struct ParquetScan {
    files: Vec<ScannedFile>,
    target: Vec<TargetColumn>,
    /// For each column of the target, its number in the set.
    columns: Vec<usize>,
    schema: SchemaRef,
    /// The types of all columns of the set.
    kinds: Vec<SqlType>,
    predicates: Vec<Predicate>,
    /// The predicates as sets of values.
    conditions: Vec<Condition>,
    pieces: Vec<GroupPiece>,
    next_piece: AtomicUsize,
    parallelism: usize,
    batch_rows: usize,
    cancel: Cancel,
}

/// A file of a scan.
pub(crate) struct ScannedFile {
    pub(crate) file: Arc<ParquetFile>,
    /// For each column of the set, its index in the file.
    pub(crate) places: Vec<usize>,
}

/// Some rows of one row group.
#[derive(Clone, Debug)]
struct GroupPiece {
    file: usize,
    group: usize,
    /// The number of the group's first row in the file.
    first_row: u64,
    group_rows: usize,
    /// The rows of the piece within the group.
    rows: Range<usize>,
}

impl ParquetScan {
    /// Makes a scan. `columns` are the columns of the whole set.
    pub(crate) fn new(files: Vec<ScannedFile>, columns: &[TargetColumn], request: &RowsRequest<'_>) -> ParquetScan {
        let target: Vec<TargetColumn> = request.columns.iter().map(|column| columns[*column].clone()).collect();
        let kinds: Vec<SqlType> = columns.iter().map(|column| column.kind.clone()).collect();
        let conditions = conjuncts(request.predicates, &|column| &kinds[column]);
        let mut scan = ParquetScan {
            files,
            schema: schema_of(&target),
            target,
            columns: request.columns.to_vec(),
            kinds,
            predicates: request.predicates.to_vec(),
            conditions,
            pieces: Vec::new(),
            next_piece: AtomicUsize::new(0),
            parallelism: 1,
            batch_rows: request.batch_rows.max(1),
            cancel: request.cancel.clone(),
        };
        // Statistics are examined before the scan starts, so that the number of workers fits the remaining bytes.
        let groups = scan.row_groups();
        let workers = scan.bytes(&groups) / BYTES_PER_WORKER_MIN;
        let workers = workers.clamp(1, request.threads.max(1) as u64) as usize;
        // Every part of a row group would read its chunks over the network again.
        let is_remote = scan.files.iter().any(|file| file.file.is_remote());
        scan.pieces = if is_remote { groups } else { cut(groups, workers) };
        scan.parallelism = workers.min(scan.pieces.len()).max(1);
        scan
    }

    /// The row groups that the statistics do not exclude.
    fn row_groups(&self) -> Vec<GroupPiece> {
        let mut groups = Vec::new();
        for (number, file) in self.files.iter().enumerate() {
            let mut first_row = 0;
            for (group, metadata) in file.file.metadata().row_groups().iter().enumerate() {
                let group_rows = metadata.num_rows().unsigned_abs() as usize;
                let piece = GroupPiece { file: number, group, first_row, group_rows, rows: 0..group_rows };
                first_row += group_rows as u64;
                let left = rows_of_all(&self.conditions, &|condition| {
                    let (column, kind) = (file.places[condition.column], &self.kinds[condition.column]);
                    let Test::Values(values) = &condition.test else { return None };
                    Some(file.file.row_group_zone(group, column, kind)?.selection(values))
                });
                if group_rows > 0 && left.is_none_or(|rows| rows.selects_any()) {
                    groups.push(piece);
                }
            }
        }
        groups
    }

    /// The number of compressed bytes of the columns that are read.
    fn bytes(&self, groups: &[GroupPiece]) -> u64 {
        let of_group = |piece: &GroupPiece| {
            let file = &self.files[piece.file];
            self.columns
                .iter()
                .map(|column| file.file.column_bytes_of_group(piece.group, file.places[*column]))
                .sum::<u64>()
        };
        groups.iter().map(of_group).sum()
    }

    fn open(&self, piece: &GroupPiece) -> Result<OpenPiece> {
        let file = &self.files[piece.file];
        let rows = self.rows_to_read(piece);
        let rows_left = RowsLeft::new(&rows, piece.first_row);
        let places: Vec<usize> = self.columns.iter().map(|column| file.places[*column]).collect();
        let reader = match places.is_empty() || rows_left.is_empty() {
            true => None,
            false => Some(file.file.read_row_group(piece.group, &places, rows, self.batch_rows)?),
        };
        Ok(OpenPiece { file: piece.file, reader, rows_left })
    }

    /// The rows of a piece that remain after Bloom filters and page indexes.
    fn rows_to_read(&self, piece: &GroupPiece) -> RowSelection {
        let ScannedFile { file, places } = &self.files[piece.file];
        // Selections cover the whole row group, so a piece must be cut out of them.
        let own = RowSelection::from_consecutive_ranges([piece.rows.clone()].into_iter(), piece.group_rows);
        let place = |column: usize| places[column];
        if self.predicates.iter().any(|predicate| is_refuted(predicate, file, piece.group, &place)) {
            return RowSelection::from_consecutive_ranges(std::iter::empty(), piece.group_rows);
        }
        let left = rows_of_all(&self.conditions, &|condition| {
            let Test::Values(values) = &condition.test else { return None };
            let zones = file.page_zones(piece.group, places[condition.column], &self.kinds[condition.column])?;
            Some(zones.selection(values))
        });
        left.map_or(own.clone(), |left| left.intersection(&own))
    }

    /// The next rows of a piece. `None` at its end.
    fn next_batch(&self, piece: &mut OpenPiece) -> Result<Option<RecordBatch>> {
        let OpenPiece { file, reader, rows_left } = piece;
        let Some(reader) = reader else {
            let rows = rows_left.take(self.batch_rows).len();
            return if rows == 0 { Ok(None) } else { batch_of(&self.schema, Vec::new(), rows).map(Some) };
        };
        let file = &self.files[*file];
        let name = &file.file.source.name;
        let Some(batch) = reader.next_rows()? else {
            return match rows_left.is_empty() {
                true => Ok(None),
                false => Err(damaged(name, "a column ends before its last row")),
            };
        };
        // The row numbers must agree with the rows that Parquet returns, or errors would name wrong rows. A mismatch
        // means damage.
        let numbers = rows_left.take(batch.num_rows());
        if numbers.len() < batch.num_rows() {
            return Err(damaged(name, "a column continues after its last row"));
        }
        let columns = self.target.iter().zip(&self.columns).map(|(target, column)| {
            let array = reader.column(&batch, file.places[*column]);
            convert_column(array, target, name, |row| numbers.row(row))
        });
        batch_of(&self.schema, columns.collect::<Result<_>>()?, batch.num_rows()).map(Some)
    }
}

/// Cuts row groups if they are too few for all workers to finish at about the same time.
fn cut(groups: Vec<GroupPiece>, workers: usize) -> Vec<GroupPiece> {
    if workers == 1 || groups.len() >= workers * GROUPS_PER_WORKER {
        return groups;
    }
    let rows: usize = groups.iter().map(|group| group.rows.len()).sum();
    let rows_max = rows.div_ceil(workers * PIECES_PER_WORKER).max(PIECE_ROWS_MIN);
    let mut pieces = Vec::new();
    for group in groups {
        let parts = group.group_rows.div_ceil(rows_max);
        // Cut at likely page borders, so that few pages are decoded twice.
        let part_rows = group.group_rows.div_ceil(parts).next_multiple_of(PAGE_ROWS);
        for start in (0..group.group_rows).step_by(part_rows) {
            pieces.push(GroupPiece { rows: start..group.group_rows.min(start + part_rows), ..group.clone() });
        }
    }
    pieces
}

/// The rows for which all of `conditions` may be true. `None` if these may be any rows. `rows` returns the rows for a
/// condition on one column.
fn rows_of_all(
    conditions: &[Condition],
    rows: &dyn Fn(&ColumnCondition) -> Option<RowSelection>,
) -> Option<RowSelection> {
    let mut all: Option<RowSelection> = None;
    for condition in conditions {
        let Some(some) = rows_of(condition, rows) else { continue };
        // Each condition narrows the rows. Once none is left, the others need not be asked.
        let both = all.map_or(some.clone(), |all| all.intersection(&some));
        let is_empty = !both.selects_any();
        all = Some(both);
        if is_empty {
            break;
        }
    }
    all
}

fn rows_of(condition: &Condition, rows: &dyn Fn(&ColumnCondition) -> Option<RowSelection>) -> Option<RowSelection> {
    match condition {
        Condition::Column(condition) => rows(condition),
        Condition::Columns(_) => None,
        Condition::All(parts) => rows_of_all(parts, rows),
        Condition::Any(parts) => {
            let parts = parts.iter().map(|part| rows_of(part, rows));
            parts.reduce(|left, right| Some(left?.union(&right?))).flatten()
        }
    }
}

/// A piece that a worker is reading.
struct OpenPiece {
    file: usize,
    /// `None` if no column needs decoding.
    reader: Option<RowGroupReader>,
    rows_left: RowsLeft,
}

/// The file's row numbers of the rows of a piece that are still ahead.
struct RowsLeft(VecDeque<Range<u64>>);

impl RowsLeft {
    /// The rows that `selection` selects in a row group that begins at `first_row`.
    fn new(selection: &RowSelection, first_row: u64) -> RowsLeft {
        let mut next_row = first_row;
        let mut ranges = VecDeque::new();
        for selector in selection.iter() {
            let range = next_row..next_row + selector.row_count as u64;
            next_row = range.end;
            if !selector.skip {
                ranges.push_back(range);
            }
        }
        RowsLeft(ranges)
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes the next rows, at most `rows_max`.
    fn take(&mut self, rows_max: usize) -> RowsTaken {
        let mut left = rows_max as u64;
        let mut taken = Vec::with_capacity(1);
        while left > 0
            && let Some(range) = self.0.front_mut()
        {
            let part = range.start..range.end.min(range.start + left);
            range.start = part.end;
            left -= part.end - part.start;
            taken.push(part);
            if range.is_empty() {
                self.0.pop_front();
            }
        }
        RowsTaken(taken)
    }
}

/// The file's row numbers of the rows of a batch.
struct RowsTaken(Vec<Range<u64>>);

impl RowsTaken {
    fn len(&self) -> usize {
        self.0.iter().map(|range| (range.end - range.start) as usize).sum()
    }

    /// The row number of a row of the batch.
    fn row(&self, row: usize) -> u64 {
        let mut left = row as u64;
        for range in &self.0 {
            let rows = range.end - range.start;
            if left < rows {
                return range.start + left;
            }
            left -= rows;
        }
        left
    }
}

impl fmt::Debug for ParquetScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ParquetScan")
            .field("schema", &self.schema)
            .field("pieces", &self.pieces)
            .finish_non_exhaustive()
    }
}

impl BatchSource for ParquetScan {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn parallelism(&self) -> usize {
        self.parallelism
    }

    fn worker(self: Arc<Self>) -> Batches {
        let mut open: Option<OpenPiece> = None;
        rowmill_exec::share::share(move || {
            loop {
                self.cancel.check()?;
                let Some(piece) = &mut open else {
                    let number = self.next_piece.fetch_add(1, Ordering::Relaxed);
                    let Some(piece) = self.pieces.get(number) else { return Ok(None) };
                    open = Some(self.open(piece)?);
                    continue;
                };
                if let Some(batch) = self.next_batch(piece)? {
                    return Ok(Some(batch));
                }
                open = None;
            }
        })
    }
}
