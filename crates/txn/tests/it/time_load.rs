//! What loading time tables takes: a measurement, to be run by itself.
//!
//! `cargo test --release -p rowmill-txn --test it time_load -- --ignored --nocapture --test-threads 1`

#![allow(clippy::print_stdout)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringViewArray, TimestampMicrosecondArray};
use rowmill_base::{ColumnId, SqlType, TableId, TimeUnit};
use rowmill_txn::{ColumnSpec, Engine, MAIN_SCHEMA, TimeTableDef};

use crate::support::{Dice, open, specs};
use crate::time_tables::{TIME, create_with};

const ROWS: i64 = 10_000_000;
const BATCH_ROWS: i64 = 10_000;
const COMMIT_ROWS: i64 = 100_000;
/// Ten rows in a second.
const STEP_US: i64 = 100_000;
const HOUR_US: u64 = 3_600_000_000;

/// The test table without a time column.
fn create_plain(engine: &Arc<Engine>) -> TableId {
    let mut transaction = engine.begin().expect("a transaction");
    let main = transaction.base().catalog().schema(MAIN_SCHEMA).expect("always there").id;
    let mut columns = specs();
    columns.push(ColumnSpec::new("At", SqlType::Timestamp { unit: TimeUnit::Microsecond, zoned: false }));
    let id = transaction.create_table(main, "T", columns).expect("a new table");
    transaction.commit().expect("committed");
    id
}

/// Rows with a number, one of a thousand texts, and a time. One row in `late` is up to one hour late.
fn batch(first: i64, late: Option<u64>, dice: &mut Dice) -> RecordBatch {
    let rows = first..first + BATCH_ROWS;
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.clone().map(|row| row * 7919 % 100_003)));
    let symbols: Vec<String> = rows.clone().map(|row| format!("symbol {}", row * 31 % 1_000)).collect();
    let symbols: ArrayRef = Arc::new(StringViewArray::from_iter_values(symbols));
    let time = |row: i64| match late {
        Some(late) if dice.roll(late) == 0 => row * STEP_US - dice.roll(HOUR_US) as i64,
        _ => row * STEP_US,
    };
    let times: ArrayRef = Arc::new(TimestampMicrosecondArray::from_iter_values(rows.map(time)));
    RecordBatch::try_from_iter([("Number", numbers), ("Text", symbols), ("At", times)]).expect("three columns")
}

fn load(what: &str, create: impl Fn(&Arc<Engine>) -> TableId, late: Option<u64>) {
    let folder = tempfile::tempdir_in("/tmp").expect("a temporary folder");
    let engine = open(folder.path(), 1 << 19);
    let table = create(&engine);
    let (mut dice, mut took) = (Dice(1), Duration::ZERO);
    for first in (0..ROWS).step_by(COMMIT_ROWS as usize) {
        let batches = (first..first + COMMIT_ROWS).step_by(BATCH_ROWS as usize);
        let batches: Vec<RecordBatch> = batches.map(|first| batch(first, late, &mut dice)).collect();
        let begun = Instant::now();
        let mut transaction = engine.begin().expect("a transaction");
        batches.iter().for_each(|batch| transaction.insert(table, batch).expect("inserted"));
        transaction.commit().expect("committed");
        took += begun.elapsed();
    }
    std::thread::sleep(Duration::from_secs(3));
    let snapshot = engine.snapshot().expect("a snapshot");
    let source = snapshot.table(table).expect("the table exists");
    let def = snapshot.catalog().table_by_id(table).expect("the table exists");
    let bytes = |block: &rowmill_txn::Block| def.columns.iter().map(|column| block.chunk_bytes(column.id)).sum::<u64>();
    let blocks = rowmill_txn::TableSource::blocks(&*source);
    let bytes: u64 = blocks.iter().map(|block| bytes(block)).sum();
    let order = source.time_order().expect("read");
    println!("{what}: {:.2} s, {} MB in {} blocks, {order:?}", took.as_secs_f64(), bytes >> 20, blocks.len());
}

#[test]
#[ignore = "a measurement"]
fn rows_are_loaded_in_order_and_late() {
    let time = || TimeTableDef::new(ColumnId(TIME as u32));
    let upserts = || TimeTableDef { dedup_keys: vec![ColumnId(TIME as u32), ColumnId(1)], ..time() };
    for round in 1..=2 {
        println!("round {round}");
        load("plain table, in order", create_plain, None);
        load("time table, in order", |engine| create_with(engine, time()), None);
        load("plain table, a tenth late", create_plain, Some(10));
        load("time table, a tenth late", |engine| create_with(engine, time()), Some(10));
        load("time table with DEDUP, in order", |engine| create_with(engine, upserts()), None);
        load("time table with DEDUP, a tenth late", |engine| create_with(engine, upserts()), Some(10));
    }
}
