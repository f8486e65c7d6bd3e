//! A small table, and ways to write and read it.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::Int64Type;
use rowmill_base::{ColumnId, Result, Settings, SqlType, TableId};
use rowmill_storage::keyed::KeyRange;
use rowmill_storage::repeat_missing;
use rowmill_txn::keyed::RowBatch;
use rowmill_txn::{
    ColumnSpec, Engine, IndexSpec, KeyColumn, MAIN_SCHEMA, OpenOptions, Snapshot, TableDef, TableSource, Transaction,
};

/// A row of the test table: a number and perhaps a text.
pub(crate) type TestRow = (i64, Option<String>);

pub(crate) fn settings(rows_per_block: usize) -> Settings {
    let mut settings = Settings::default();
    settings.set("rows_per_block", &rows_per_block.to_string()).expect("a valid number");
    settings.set("small_block_rows", &(rows_per_block / 2).max(1).to_string()).expect("a valid number");
    settings
}

pub(crate) fn open(path: &Path, rows_per_block: usize) -> Arc<Engine> {
    Engine::open(path, OpenOptions { settings: settings(rows_per_block), ..OpenOptions::default() })
        .expect("the directory opens")
}

/// A database in the directory `path`, or in memory.
pub(crate) fn open_at(path: Option<&Path>, rows_per_block: usize) -> Arc<Engine> {
    match path {
        Some(path) => open(path, rows_per_block),
        None => Engine::memory(settings(rows_per_block)).expect("a database in memory"),
    }
}

pub(crate) fn specs() -> Vec<ColumnSpec> {
    let mut number = ColumnSpec::new("Number", SqlType::Int64);
    number.nullable = false;
    vec![number, ColumnSpec::new("Text", SqlType::TEXT)]
}

pub(crate) fn create(engine: &Arc<Engine>, name: &str) -> TableId {
    let mut transaction = engine.begin().expect("a transaction");
    let main = transaction.base().catalog().schema(MAIN_SCHEMA).expect("always there").id;
    let id = transaction.create_table(main, name, specs()).expect("a new table");
    transaction.commit().expect("committed");
    id
}

pub(crate) fn batch(rows: &[TestRow]) -> RecordBatch {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.0)));
    let texts: ArrayRef = Arc::new(rows.iter().map(|row| row.1.clone()).collect::<StringViewArray>());
    RecordBatch::try_from_iter([("Number", numbers), ("Text", texts)]).expect("two columns")
}

pub(crate) fn insert(transaction: &mut Transaction, table: TableId, rows: &[TestRow]) {
    transaction.insert(table, &batch(rows)).expect("inserted");
}

/// A live row: where it is in the columns of its block or run, and its number.
pub(crate) type LiveRow = (usize, u64);

/// Goes through the live rows of a table: `each` gets all columns of a block or run, and those of its rows that are
/// live.
pub(crate) fn walk(snapshot: &Snapshot, table: TableId, each: &mut dyn FnMut(&[ArrayRef], &[LiveRow])) -> Result<()> {
    walk_source(&*snapshot.table(table).expect("the table exists"), each)
}

/// Goes through the live rows of blocks and runs, as [`walk`] does.
pub(crate) fn walk_source(table: &dyn TableSource, each: &mut dyn FnMut(&[ArrayRef], &[LiveRow])) -> Result<()> {
    let def = Arc::clone(table.table());
    let mut count = 0;
    let mut part = |columns: Vec<ArrayRef>, number: &dyn Fn(usize) -> u64, deleted: &dyn Fn(u32) -> bool| {
        let live = (0..columns[0].len()).filter(|row| !deleted(*row as u32));
        let live: Vec<LiveRow> = live.map(|row| (row, number(row))).collect();
        count += live.len() as u64;
        each(&columns, &live);
    };
    for block in table.blocks() {
        let column = |index: usize| match block.chunk(&def, index)? {
            Some(chunk) => chunk.read(0..block.rows()),
            None => repeat_missing(def.columns[index].missing.as_ref(), &def.columns[index].kind.arrow(), block.rows()),
        };
        let columns = (0..def.columns.len()).map(column).collect::<Result<_>>()?;
        let (numbers, deleted) = (block.row_numbers(&def)?, block.deleted());
        part(columns, &|row| numbers.at(row), &|row| deleted.is_some_and(|gone| gone.contains(row)));
    }
    for run in table.runs() {
        let columns = (0..def.columns.len()).map(|index| run.values(&def, index)).collect::<Result<_>>()?;
        let (first, deleted) = (run.first_row().0, run.deleted());
        part(columns, &|row| first + row as u64, &|row| deleted.is_some_and(|gone| gone.contains(row)));
    }
    assert_eq!(count, table.row_count(), "the count of live rows is exact");
    Ok(())
}

/// The test table under its numbers, with an index of its texts.
pub(crate) fn create_keyed(transaction: &mut Transaction, name: &str) -> Result<TableId> {
    let main = transaction.base().catalog().schema(MAIN_SCHEMA).expect("always there").id;
    let part = |column| KeyColumn { column: ColumnId(column), descending: false };
    let table = transaction.create_keyed_table(main, name, specs(), &[part(0)])?;
    transaction.create_index(table, IndexSpec { name: "texts".into(), parts: vec![part(1)], unique: false })?;
    Ok(table)
}

/// The rows of a keyed table, counted, which its indexes have too.
fn read_keyed(snapshot: &Snapshot, def: &Arc<TableDef>) -> Result<Vec<(u64, TestRow)>> {
    let codec = snapshot.keyed_codec(def.id)?;
    let indexes = def.keyed.iter().flat_map(|keyed| &keyed.indexes);
    let mut found: Vec<TestRow> = Vec::new();
    for index in std::iter::once(None).chain(indexes.map(|index| Some(index.id))) {
        let mut cursor = snapshot.keyed_cursor(&codec, index, KeyRange::default(), index.is_some())?;
        let mut by_index = Vec::new();
        let mut rows = RowBatch::default();
        loop {
            snapshot.next_rows(&codec, &mut cursor, 100, &mut rows)?;
            if rows.is_empty() {
                break;
            }
            let batch = codec.record_batch(&rows)?;
            let (numbers, texts) = (batch.column(0).as_primitive::<Int64Type>(), batch.column(1).as_string_view());
            let text = |row| texts.is_valid(row).then(|| texts.value(row).to_owned());
            by_index.extend((0..batch.num_rows()).map(|row| (numbers.value(row), text(row))));
        }
        match index {
            None => found = by_index,
            Some(_) => {
                by_index.sort();
                assert_eq!(by_index, found, "an index has other rows");
            }
        }
    }
    Ok((0..).zip(found).collect())
}

/// All live rows with their numbers, in row-number order.
pub(crate) fn read(snapshot: &Snapshot, table: TableId) -> Result<Vec<(u64, TestRow)>> {
    let def = snapshot.catalog().table_by_id(table).expect("the table exists");
    if def.keyed.is_some() {
        return read_keyed(snapshot, def);
    }
    let mut rows = Vec::new();
    walk(snapshot, table, &mut |columns, live| {
        let (numbers, texts) = (columns[0].as_primitive::<Int64Type>(), columns[1].as_string_view());
        let text = |row| texts.is_valid(row).then(|| texts.value(row).to_owned());
        rows.extend(live.iter().map(|(row, number)| (*number, (numbers.value(*row), text(*row)))));
    })?;
    rows.sort();
    Ok(rows)
}

/// The rows without their numbers.
pub(crate) fn values(snapshot: &Snapshot, table: TableId) -> Vec<TestRow> {
    read(snapshot, table).expect("the table is read").into_iter().map(|(_, row)| row).collect()
}

/// How often a test samples: `usual` times, `long` times with `ROWMILL_LONG=1`, or as often as the variable `name`
/// says.
pub(crate) fn times(name: &str, usual: usize, long: usize) -> usize {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is a number, not {text}")),
        Err(_) if std::env::var_os("ROWMILL_LONG").is_some() => long,
        Err(_) => usual,
    }
}

/// Random numbers of a seed.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    /// One of so many places; the first of none.
    pub(crate) fn place(&mut self, places: usize) -> usize {
        self.roll(places.max(1) as u64) as usize
    }
}
