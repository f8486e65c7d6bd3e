//! Proves that an integer column of a columnar table has no NULL and no value twice, from the values themselves.
//!
//! A table that was loaded from files declares no key, but most such tables have one. A proof lets the planner use that
//! key. It holds for one snapshot only: any later row may repeat a value.
//!
//! The proof marks each value in one bit per possible value between the least and the greatest one. It therefore needs
//! values that are dense enough, and reads each value once, in any order.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use roaring::RoaringBitmap;
use rowmill_base::Result;

use crate::block::Block;
use crate::chunk::Zone;
use crate::open_run::OpenRun;
use crate::source::TableSource;

/// The number of possible values per row up to which we try a proof. The bits then take at most eight bytes per row.
const VALUES_PER_ROW_MAX: u64 = 64;
/// The number of possible values up to which we try a proof: 16 MiB of bits.
const VALUES_MAX: u64 = 1 << 27;
/// The number of rows that are decoded at a time. They take 128 KiB, an eighth of the second-level cache.
const PIECE_ROWS: usize = 1 << 14;

/// Whether the column at position `column` holds integers or dates that are proven to be unique and not NULL. Returns
/// `false` if the values are too sparse for a proof, for other types, and for keyed tables, which declare their keys.
///
/// Reads the whole column: about two nanoseconds per row.
pub fn has_unique_integers(table: &dyn TableSource, column: usize) -> Result<bool> {
    let kind = table.table().columns[column].kind.arrow();
    if table.keyed().is_some() || !(kind.is_integer() || kind == DataType::Date32) {
        return Ok(false);
    }
    let Some(bounds) = bounds(table, column)? else { return Ok(false) };
    let mut seen = SeenIntegers::new(bounds);
    let mut values = Vec::with_capacity(PIECE_ROWS);
    for block in table.blocks() {
        let Some(chunk) = block.chunk(table.table(), column)? else { return Ok(false) };
        for first in (0..chunk.rows()).step_by(PIECE_ROWS) {
            values.clear();
            chunk.integers(first..chunk.rows().min(first + PIECE_ROWS), &mut values)?;
            if !seen.add(&values, first, block.deleted()) {
                return Ok(false);
            }
        }
    }
    for run in table.runs() {
        let Some(values) = integers(&run.values(table.table(), column)?) else { return Ok(false) };
        if !seen.add(&values, 0, run.deleted()) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The least and the greatest value, if the rows might all have different values and a proof is cheap enough.
fn bounds(table: &dyn TableSource, column: usize) -> Result<Option<(i64, i64)>> {
    let mut all: Option<(i64, i64)> = None;
    let blocks = table.blocks().iter().map(|block| bounds_of_block(table, block, column));
    let runs = table.runs().iter().map(|run| bounds_of_run(table, run, column));
    for part in blocks.chain(runs) {
        let Some((least, greatest)) = part? else { return Ok(None) };
        all = Some(all.map_or((least, greatest), |(low, high)| (low.min(least), high.max(greatest))));
    }
    Ok(all.filter(|(least, greatest)| {
        let rows = table.row_count();
        let possible = greatest.abs_diff(*least).saturating_add(1);
        rows <= possible && possible <= rows.saturating_mul(VALUES_PER_ROW_MAX).min(VALUES_MAX)
    }))
}

fn bounds_of_block(table: &dyn TableSource, block: &Block, column: usize) -> Result<Option<(i64, i64)>> {
    let Some(chunk) = block.chunk_head(table.table(), column)? else { return Ok(None) };
    // A block that counts its values has fewer values than rows, unless every row has its own.
    if chunk.null_count() > 0 || chunk.distinct().is_some_and(|distinct| distinct < block.live_rows()) {
        return Ok(None);
    }
    let Some(Zone { min, max: Some(max) }) = chunk.zone() else { return Ok(None) };
    let of_zone = integers(&min.value).zip(integers(&max.value));
    Ok(of_zone.and_then(|(min, max)| Some((*min.first()?, *max.first()?))))
}

fn bounds_of_run(table: &dyn TableSource, run: &OpenRun, column: usize) -> Result<Option<(i64, i64)>> {
    let Some(values) = integers(&run.values(table.table(), column)?) else { return Ok(None) };
    Ok(values.iter().min().copied().zip(values.iter().max().copied()))
}

/// The values as 64-bit integers. `None` if one of them is NULL or does not fit.
fn integers(values: &ArrayRef) -> Option<Vec<i64>> {
    let integers = match values.data_type() {
        DataType::Date32 => cast(&cast(values, &DataType::Int32).ok()?, &DataType::Int64).ok()?,
        _ => cast(values, &DataType::Int64).ok()?,
    };
    (integers.null_count() == 0).then(|| integers.as_primitive::<Int64Type>().values().to_vec())
}

/// The integers that were added, as bits.
struct SeenIntegers {
    least: i64,
    greatest: i64,
    words: Vec<u64>,
}

impl SeenIntegers {
    /// No integers, of those from the first bound to the second.
    fn new((least, greatest): (i64, i64)) -> SeenIntegers {
        let possible = usize::try_from(greatest.abs_diff(least)).expect("the bounds were checked") + 1;
        SeenIntegers { least, greatest, words: vec![0; possible.div_ceil(64)] }
    }

    /// Adds values, except those of the deleted rows; the first value is that of row `first`. Returns `false` if one of
    /// them was added before or is out of bounds.
    fn add(&mut self, values: &[i64], first: usize, deleted: Option<&RoaringBitmap>) -> bool {
        let is_deleted = |row: usize| deleted.is_some_and(|deleted| deleted.contains(row as u32));
        values.iter().enumerate().all(|(at, value)| is_deleted(first + at) || self.add_one(*value))
    }

    fn add_one(&mut self, value: i64) -> bool {
        // Deleted rows aside, bounds that are not those of the values would mean a damaged zone map.
        if value < self.least || value > self.greatest {
            return false;
        }
        let place = value.abs_diff(self.least) as usize;
        let (word, bit) = (&mut self.words[place / 64], 1 << (place % 64));
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Date32Array, Int32Array, Int64Array, StringViewArray};
    use arrow::record_batch::RecordBatch;
    use rowmill_base::{ColumnId, RowNumber, SchemaId, SqlType, TableId};

    use super::*;
    use crate::schema::{ColumnDef, TableDef};

    #[derive(Debug)]
    struct RunsTable {
        def: Arc<TableDef>,
        runs: Vec<Arc<OpenRun>>,
    }

    impl TableSource for RunsTable {
        fn table(&self) -> &Arc<TableDef> {
            &self.def
        }

        fn blocks(&self) -> &[Arc<Block>] {
            &[]
        }

        fn runs(&self) -> &[Arc<OpenRun>] {
            &self.runs
        }
    }

    fn is_unique(kind: SqlType, parts: Vec<ArrayRef>, deleted: &[u32]) -> bool {
        let id = ColumnDef {
            id: ColumnId(0),
            name: "id".into(),
            kind,
            nullable: true,
            default: None,
            missing: None,
            part: None,
        };
        let def = Arc::new(TableDef {
            id: TableId(1),
            schema: SchemaId(1),
            name: "t".into(),
            version: 1,
            columns: vec![id],
            next_column: ColumnId(1),
            keyed: None,
            time: None,
            rules: Default::default(),
        });
        let run = |values: ArrayRef| {
            let batch = RecordBatch::try_new(def.arrow_schema(), vec![values]).expect("one column");
            let run = OpenRun::new(RowNumber(0), &def, &batch);
            Arc::new(run.with_deleted(&deleted.iter().copied().collect()))
        };
        let runs = parts.into_iter().map(run).collect();
        has_unique_integers(&RunsTable { def, runs }, 0).expect("runs can be read")
    }

    #[test]
    fn different_integers_in_any_order_are_unique() {
        let ids = |values: Vec<i64>| Arc::new(Int64Array::from(values)) as ArrayRef;
        assert!(is_unique(SqlType::Int64, vec![ids(vec![7, -3, 5]), ids(vec![6, 1])], &[]));
        assert!(!is_unique(SqlType::Int64, vec![ids(vec![7, -3, 5]), ids(vec![6, 5])], &[]));
        assert!(is_unique(SqlType::Int64, vec![ids(vec![5, -3, 5])], &[0]), "a deleted row does not count");
        assert!(!is_unique(SqlType::Int64, vec![ids(vec![i64::MIN, i64::MAX])], &[]), "too sparse for a proof");
        let some = Arc::new(Int32Array::from(vec![Some(1), None])) as ArrayRef;
        assert!(!is_unique(SqlType::Int32, vec![some], &[]), "a NULL");
        let days = Arc::new(Date32Array::from(vec![3, 1, 2])) as ArrayRef;
        assert!(is_unique(SqlType::Date, vec![days], &[]));
        let texts = Arc::new(StringViewArray::from(vec!["a", "b"])) as ArrayRef;
        assert!(
            !is_unique(SqlType::from_arrow(&DataType::Utf8View).expect("texts"), vec![texts], &[]),
            "no proof for texts"
        );
    }
}
