//! Rows of time tables that are older than their time to live.

use std::sync::Arc;

use rowmill_base::{ColumnId, ErrorKind, TableId};
use rowmill_txn::{CalendarUnit, Engine, TimeTableDef, TimeToLive};

use crate::support::{TestRow, open, open_at, read, values};
use crate::time_tables::{TIME, create, create_with, insert};

const HOUR_US: i64 = 3_600_000_000;

fn create_for_two_hours(engine: &Arc<Engine>) -> TableId {
    let life = TimeToLive { count: 2, unit: CalendarUnit::Hour };
    create_with(engine, TimeTableDef { time_to_live: Some(life), ..TimeTableDef::new(ColumnId(TIME as u32)) })
}

/// Commits one row for each of the hours, whose number is the hour.
fn fill(engine: &Arc<Engine>, table: TableId, hours: impl Iterator<Item = i64>) {
    let mut transaction = engine.begin().expect("a transaction");
    let rows: Vec<(TestRow, i64)> = hours.map(|hour| ((hour, None), hour * HOUR_US)).collect();
    insert(&mut transaction, table, &rows);
    transaction.commit().expect("committed");
}

fn hours(engine: &Arc<Engine>, table: TableId) -> Vec<i64> {
    let mut hours: Vec<i64> =
        values(&engine.snapshot().expect("a snapshot"), table).into_iter().map(|row| row.0).collect();
    hours.sort_unstable();
    hours
}

#[test]
fn whole_blocks_and_parts_of_blocks_and_runs_expire() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engine = open(folder.path(), 10);
    let (table, other) = (create_for_two_hours(&engine), {
        let mut transaction = engine.begin().expect("a transaction");
        let main = transaction.base().catalog().schema("main").expect("always there").id;
        let id = transaction.create_table(main, "Other", crate::support::specs()).expect("a new table");
        transaction.commit().expect("committed");
        id
    });
    let mut transaction = engine.begin().expect("a transaction");
    crate::support::insert(&mut transaction, other, &[(1, None)]);
    transaction.commit().expect("committed");
    fill(&engine, table, 0..10);
    fill(&engine, table, 10..20);
    fill(&engine, table, 17..20);
    let old = engine.snapshot().expect("a snapshot");
    engine.expire_rows(2 * HOUR_US).expect("nothing is old enough");
    assert_eq!(engine.expired_rows(), []);

    engine.expire_rows(20 * HOUR_US + 1).expect("expired");
    assert_eq!(hours(&engine, table), [19, 19]);
    let reports = engine.expired_rows();
    let [report] = &reports[..] else { panic!("one report, not {reports:?}") };
    assert_eq!((report.table, report.name.as_str(), report.rows), (table, "T", 21));
    assert_eq!((report.at_us, report.before_us), (20 * HOUR_US + 1, 18 * HOUR_US + 1));
    assert!(report.blocks >= 1, "{report:?}");
    assert_eq!(values(&old, table).len(), 23, "an older state keeps its rows");
    assert_eq!(values(&engine.snapshot().expect("a snapshot"), other).len(), 1);
    drop((old, engine));
    let engine = open(folder.path(), 10);
    assert_eq!(hours(&engine, table), [19, 19]);
    engine.expire_rows(100 * HOUR_US).expect("expired");
    assert_eq!(hours(&engine, table), []);
    fill(&engine, table, 1..2);
    assert_eq!(hours(&engine, table), [1]);
}

#[test]
fn rows_without_a_time_to_live_stay() {
    let engine = open_at(None, 10);
    let table = create(&engine);
    fill(&engine, table, 0..3);
    engine.expire_rows(i64::MAX).expect("nothing expires");
    assert_eq!(hours(&engine, table), [0, 1, 2]);
}

#[test]
fn deleting_a_row_that_has_expired_since_is_a_conflict() {
    let engine = open_at(None, 10);
    let table = create_for_two_hours(&engine);
    fill(&engine, table, 0..4);
    let mut transaction = engine.begin().expect("a transaction");
    let rows = read(&transaction.view().expect("a view"), table).expect("read");
    let first = rows.iter().find(|(_, row)| row.0 == 0).expect("it is there").0;
    transaction.delete(table, &[first]).expect("deleted");
    engine.expire_rows(3 * HOUR_US).expect("expired");
    assert_eq!(transaction.commit().expect_err("a conflict").kind(), ErrorKind::SerializationFailure);
    assert_eq!(hours(&engine, table), [1, 2, 3]);
}
