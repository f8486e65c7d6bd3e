//! Sorts of a table's rows that leave texts in the table.
//!
//! ```text
//!                                            read url, title for the rows in order   (late_rows.rs)
//!   sort by title                            └─ sort by the rank of title
//!   └─ scan: id, url, title         ->          └─ add the ranks of titles           (ranked_rows.rs)
//!                                                  └─ scan: id, places
//! ```
//!
//! A sort moves each row several times, and writes and reads it if memory is short. Texts are most of the bytes of such
//! rows, but the table still has them when the rows are in order, and reading them then costs little more than reading
//! them before. So the sort gets a place in their stead. A text that rows are ordered by becomes a number, its rank
//! among all texts of the column (text_ranks.rs), if all blocks list their texts.
//!
//! Whether this pays depends on the bytes of the rows and on the memory ([`LateSort::new`]).

mod late_rows;
mod ranked_rows;
#[cfg(test)]
mod tests;
mod text_ranks;

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use rowmill_base::{Broker, ErrorKind, Reservation, Result, SqlType};
use rowmill_plan::SortKey;
use rowmill_storage::{TableDef, TableSource};

use self::late_rows::LateOrigin;
pub(crate) use self::late_rows::LateRows;
use self::ranked_rows::RankedRows;
use self::text_ranks::{TextRanks, bytes_of_ranks, values_to_rank};
use crate::batch::BatchSource;
use crate::forced::forced;
use crate::operator::Moved;
use crate::project::{Project, Projected};
use crate::scan::{ScanMetrics, ScanRequest, TableScan};
use crate::share::with_nulls;

/// The name of the operator in errors.
const OWNER: &str = "ORDER BY";

/// With fewer rows, a sort is over before the lists of texts are merged.
const ROWS_MIN: f64 = (1 << 17) as f64;
/// A part of this size of the memory limit is enough for the rows of a sort with their texts.
const MEMORY_SHARE: f64 = 2.0;
/// The bytes of texts for each byte that a table stores of them.
const BYTES_PER_STORED: f64 = 3.0;
/// If at most one of this number of rows is shown, the texts of the others are better not read at all.
const ROWS_PER_SHOWN: f64 = 4.0;
/// The bytes of a row's numbers in a sort, besides its texts.
const NUMBERS_BYTES: f64 = 48.0;
/// A table's rows, and the columns that a sort gets of them.
pub(crate) struct SortInput<'a> {
    pub(crate) table: &'a Arc<dyn TableSource>,
    /// The scan. Its columns are what `columns` refer to.
    pub(crate) scan: ScanRequest,
    /// The columns of the sort's input.
    pub(crate) columns: Vec<Projected>,
    pub(crate) schema: &'a SchemaRef,
    /// The estimated number of rows.
    pub(crate) rows: f64,
    /// The number of rows that the sort shows at most.
    pub(crate) shown: f64,
}

/// A sort whose texts are read afterwards.
pub(crate) struct LateSort {
    /// The rows to sort.
    pub(crate) source: Arc<dyn BatchSource>,
    /// The order, over the columns of `source`.
    pub(crate) keys: Vec<SortKey>,
    /// Reads the other columns.
    pub(crate) late: Arc<LateRows>,
    pub(crate) metrics: Arc<ScanMetrics>,
}

/// The columns of a sort by the way in which they are read.
struct ColumnWays {
    /// The columns of the table that become ranks, each once.
    ranked: Vec<usize>,
    values_to_rank: usize,
    /// For each column of the sort's input, the column of the table that it is read from late.
    late: Vec<Option<usize>>,
}

impl LateSort {
    /// Makes the sort of `input` by `keys` without its texts. `None` if sorting with them should take less time: if
    /// they fit memory, no text is a key, and most rows are shown.
    pub(crate) fn new(input: SortInput<'_>, keys: &[SortKey], broker: &Broker) -> Result<Option<LateSort>> {
        let Some(ways) = ColumnWays::of(&input, keys)? else { return Ok(None) };
        if !forced().late_sorts && !ways.pay(&input, broker) {
            return Ok(None);
        }
        let mut memory = broker.reservation(OWNER);
        match memory.grow(bytes_of_ranks(ways.values_to_rank)) {
            Ok(()) => ways.sort(input, keys, memory, broker).map(Some),
            // Sorting with the texts needs less memory at once.
            Err(error) if error.kind() == ErrorKind::MemoryLimit => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl ColumnWays {
    fn of(input: &SortInput<'_>, keys: &[SortKey]) -> Result<Option<ColumnWays>> {
        let table = input.table.table();
        let text = |column: &Projected| match column {
            Projected::Column(column) => input.scan.columns.get(*column).copied().filter(|at| is_text(table, *at)),
            Projected::Function(_) => None,
        };
        let mut late: Vec<Option<usize>> = input.columns.iter().map(text).collect();
        let (mut ranked, mut values) = (Vec::new(), 0);
        for key in keys {
            let Some(column) = late[key.column].filter(|column| !ranked.contains(column)) else { continue };
            match values_to_rank(&**input.table, column)? {
                Some(more) => {
                    ranked.push(column);
                    values += more;
                }
                // The sort compares the texts themselves, so it may as well return them.
                None => late[key.column] = None,
            }
        }
        let ways = ColumnWays { ranked, values_to_rank: values, late };
        Ok(ways.late.iter().any(Option::is_some).then_some(ways))
    }

    /// Whether the sort should take less time without the texts.
    fn pay(&self, input: &SortInput<'_>, broker: &Broker) -> bool {
        let rows = input.rows;
        // Ranks are made of all texts of the table, also of those that no row of the sort has.
        if rows < ROWS_MIN || rows < self.values_to_rank as f64 {
            return false;
        }
        !self.ranked.is_empty()
            || rows * self.row_bytes(&**input.table) > broker.limit_bytes() as f64 / MEMORY_SHARE
            || input.shown * ROWS_PER_SHOWN <= rows
    }

    /// The approximate bytes of a row of the sort with its texts.
    fn row_bytes(&self, table: &dyn TableSource) -> f64 {
        let stored = |column: &usize| {
            let column = table.table().columns[*column].id;
            table.blocks().iter().map(|block| block.chunk_bytes(column) as f64).sum::<f64>()
        };
        let texts: f64 = self.late.iter().flatten().map(stored).sum();
        texts * BYTES_PER_STORED / (table.row_count() as f64).max(1.0) + NUMBERS_BYTES
    }

    /// The columns of the table that must be read before the sort, each once, and for each column of the scan its
    /// position among them.
    fn columns_read(&self, input: &SortInput<'_>) -> (Vec<usize>, Vec<usize>) {
        let (mut read, mut moved) = (Vec::new(), vec![usize::MAX; input.scan.columns.len()]);
        for (column, _) in input.columns.iter().zip(&self.late).filter(|(_, late)| late.is_none()) {
            let columns = match column {
                Projected::Column(column) => std::slice::from_ref(column),
                Projected::Function(function) => function.columns(),
            };
            for column in columns {
                if moved[*column] == usize::MAX {
                    moved[*column] = read.len();
                    read.push(input.scan.columns[*column]);
                }
            }
        }
        (read, moved)
    }

    fn sort(self, input: SortInput<'_>, keys: &[SortKey], memory: Reservation, broker: &Broker) -> Result<LateSort> {
        let (read, moved) = self.columns_read(&input);
        let (mut sorted, mut fields, mut origins) = (Vec::new(), Vec::new(), Vec::new());
        for (number, (column, late)) in input.columns.iter().zip(&self.late).enumerate() {
            if let Some(column) = late {
                origins.push(LateOrigin::Table(*column));
                continue;
            }
            origins.push(LateOrigin::Sorted(sorted.len()));
            fields.push(Arc::clone(&input.schema.fields()[number]));
            sorted.push(match column {
                Projected::Column(column) => Projected::Column(moved[*column]),
                Projected::Function(function) => {
                    Projected::Function(Arc::new(Moved::new(Arc::clone(function), &moved)))
                }
            });
        }
        let (request, cancel) = (ScanRequest { columns: read, ..input.scan.clone() }, &input.scan.cancel);
        let scan = TableScan::with_places(Arc::clone(input.table), request)?;
        let (metrics, places, last) = (Arc::clone(scan.metrics()), sorted.len(), scan.schema().fields().len() - 1);
        sorted.push(Projected::Column(last));
        fields.push(Arc::clone(&scan.schema().fields()[last]));
        let schema = Arc::new(Schema::new(fields));
        let source: Arc<dyn BatchSource> = Project::new(scan, sorted, &schema, cancel.clone());
        let ranks = TextRanks::new(input.table, &self.ranked, memory, broker, &metrics.reads, cancel);
        let source: Arc<dyn BatchSource> = match self.ranked.is_empty() {
            true => source,
            false => RankedRows::new(source, ranks, self.ranked.len()),
        };
        let key = |key: &SortKey| {
            let column = match (&origins[key.column], self.late[key.column]) {
                (LateOrigin::Sorted(column), _) => *column,
                (_, late) => {
                    let rank = self.ranked.iter().position(|ranked| late == Some(*ranked));
                    places + 1 + rank.expect("a text to sort by is ranked, or else sorted itself")
                }
            };
            SortKey { column, ..*key }
        };
        let keys = keys.iter().map(key).collect();
        let late =
            LateRows { table: Arc::clone(input.table), columns: origins, places, schema: with_nulls(input.schema) };
        Ok(LateSort { source, keys, late: Arc::new(late), metrics })
    }
}

/// Whether a column of a table has texts or blobs that are stored by themselves.
fn is_text(table: &TableDef, column: usize) -> bool {
    let column = &table.columns[column];
    matches!(column.kind, SqlType::Text { .. } | SqlType::Blob) && column.part.is_none()
}
