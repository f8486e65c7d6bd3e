//! ANALYZE: its results are part of the committed state, and it and writers do not wait for each other.

use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rowmill_base::{Cancel, ColumnId, ErrorKind, Isolation, SqlType, TableId};
use rowmill_storage::TableStatistics;
use rowmill_storage::keyed::ValueRef;
use rowmill_txn::{ColumnSpec, Engine, OpenOptions, Snapshot, TableSource, restore};

use crate::check::problems;
use crate::other_process::Reader;
use crate::space::copy;
use crate::support::{TestRow, create, create_keyed, insert, open, settings};

fn go_on() -> Cancel {
    Cancel::new()
}

/// Nine texts of ten are the same, and one of twenty is NULL.
fn rows(first: i64, count: i64) -> Vec<TestRow> {
    let text = |number: i64| match number % 20 {
        0 => None,
        1 => Some(format!("text {number}")),
        _ => Some("usual".to_owned()),
    };
    (first..first + count).map(|number| (number, text(number))).collect()
}

fn add(engine: &Arc<Engine>, table: TableId, first: i64, count: i64) {
    let mut transaction = engine.begin().expect("a transaction");
    insert(&mut transaction, table, &rows(first, count));
    transaction.commit().expect("committed");
}

fn keyed(engine: &Arc<Engine>, count: i64) -> TableId {
    let mut transaction = engine.begin().expect("a transaction");
    let table = create_keyed(&mut transaction, "K").expect("a keyed table");
    transaction.commit().expect("committed");
    add(engine, table, 0, count);
    table
}

fn analyze(engine: &Arc<Engine>, table: TableId, columns: &[ColumnId]) {
    let mut transaction = engine.begin().expect("a transaction");
    transaction.analyze(table, columns).expect("analyzed");
    transaction.commit().expect("committed");
}

fn known_by(snapshot: &Snapshot, table: TableId) -> Option<TableStatistics> {
    let of_catalog = snapshot.catalog().statistics(table).map(|statistics| (**statistics).clone());
    // A scan has them from its table.
    let of_source = snapshot.table(table).and_then(|table| table.statistics().cloned());
    assert_eq!(of_catalog, of_source);
    of_catalog
}

fn known(engine: &Engine, table: TableId) -> Option<TableStatistics> {
    known_by(&engine.snapshot().expect("a snapshot"), table)
}

fn read_only(path: &Path) -> Arc<Engine> {
    Engine::open(path, OpenOptions { read_only: true, settings: settings(50), ..OpenOptions::default() })
        .expect("it opens for reading")
}

fn assert_whole(engine: &Engine) {
    assert_eq!(problems(&engine.check(&go_on()).expect("a check")), Vec::<String>::new());
}

#[test]
fn statistics_tell_what_rows_there_are() {
    let engine = Engine::memory(settings(50)).expect("a database in memory");
    let table = keyed(&engine, 2_000);
    assert_eq!(known(&engine, table), None);
    analyze(&engine, table, &[]);
    let found = known(&engine, table).expect("known");
    let snapshot = engine.snapshot().expect("a snapshot");
    let source = snapshot.table(table).expect("the table");
    let (numbers, texts) = (&source.table().columns[0], &source.table().columns[1]);
    assert_eq!(found.rows, 2_000);
    assert_eq!(found.column(numbers.id).expect("known").distinct, 2_000);
    assert_eq!(found.column(texts.id).expect("known").null_share, 0.05);
    assert_eq!(found.column(texts.id).expect("known").distinct, 101);
    let usual = found.share_equal(texts, ValueRef::Text("usual")).expect("known");
    assert!((usual - 0.9).abs() < 1e-9, "{usual}");
    assert!(found.share_equal(texts, ValueRef::Text("text 21")).expect("known") < 0.001);
    let half = found.share_within(numbers, Bound::Unbounded, Bound::Excluded(ValueRef::Int(1_000)));
    assert!((0.48..0.52).contains(&half.expect("known")), "{half:?}");
}

#[test]
fn a_table_that_changes_by_a_tenth_is_analyzed_by_itself() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engine = open(folder.path(), 50);
    let table = keyed(&engine, 999);
    let job = engine.analyze_in_background().expect("a thread");
    let rows_known = || known(&engine, table).map_or(0, |known| known.rows);
    let wait_for = |rows: u64| {
        let begun = Instant::now();
        while rows_known() != rows {
            assert!(begun.elapsed() < Duration::from_secs(60), "{} rows are known, and not {rows}", rows_known());
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    assert_eq!(rows_known(), 0, "too few rows to read them all");
    add(&engine, table, 999, 19_001);
    wait_for(20_000);
    add(&engine, table, 20_000, 1_900);
    std::thread::sleep(Duration::from_secs(4));
    assert_eq!(rows_known(), 20_000, "less than a tenth has changed");
    engine.set("auto_analyze", "off").expect("a setting");
    add(&engine, table, 21_900, 100);
    std::thread::sleep(Duration::from_secs(4));
    assert_eq!(rows_known(), 20_000, "the setting turns it off");
    engine.set("auto_analyze", "on").expect("a setting");
    add(&engine, table, 22_000, 1);
    wait_for(22_001);
    drop(job);
    assert_whole(&engine);
}

#[test]
fn they_are_there_after_whatever_happens_to_a_database() {
    for checkpoint in [false, true] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = |name: &str| folder.path().join(name);
        let engine = open(&path("database"), 50);
        let table = keyed(&engine, 500);
        let mut reader = Reader::start(&path("database"));
        reader.now(table);
        analyze(&engine, table, &[]);
        if checkpoint {
            engine.checkpoint().expect("a checkpoint");
        }
        let found = known(&engine, table);
        assert!(found.is_some());
        // One that follows, and has the same state as base and log.
        reader.now(table);
        assert_eq!(reader.check(), "");
        engine.backup(&path("backup"), &go_on()).expect("a backup");
        copy(&path("database"), &path("killed"));
        assert_eq!(known(&read_only(&path("killed")), table), found);
        let recovered = open(&path("killed"), 50);
        assert_eq!(known(&recovered, table), found);
        assert_whole(&recovered);
        assert_whole(&engine);
        drop((reader, engine));
        assert_eq!(known(&open(&path("database"), 50), table), found);
        restore(&path("backup"), &path("restored"), &go_on()).expect("restored");
        assert_eq!(known(&open(&path("restored"), 50), table), found);
    }
}

#[test]
fn they_go_with_the_rows() {
    for checkpoint in [false, true] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let engine = open(folder.path(), 50);
        let [emptied, dropped] = ["emptied", "dropped"].map(|name| {
            let mut transaction = engine.begin().expect("a transaction");
            let table = create_keyed(&mut transaction, name).expect("a keyed table");
            insert(&mut transaction, table, &rows(0, 100));
            transaction.analyze(table, &[]).expect("its own rows");
            transaction.commit().expect("committed");
            assert_eq!(known(&engine, table).expect("known").rows, 100);
            table
        });
        if checkpoint {
            engine.checkpoint().expect("a checkpoint");
        }
        let mut transaction = engine.begin().expect("a transaction");
        transaction.truncate(emptied).expect("emptied");
        assert!(transaction.catalog().statistics(emptied).is_none());
        transaction.drop_table(dropped).expect("dropped");
        transaction.commit().expect("committed");
        if checkpoint {
            engine.checkpoint().expect("a checkpoint");
        }
        let snapshot = engine.snapshot().expect("a snapshot");
        assert_eq!(known_by(&snapshot, emptied), None);
        assert!(snapshot.catalog().statistics(dropped).is_none());
        assert_whole(&engine);
        // Of no rows there is nothing to know.
        analyze(&engine, emptied, &[]);
        assert_eq!(known(&engine, emptied), None);
        drop((snapshot, engine));
        let engine = open(folder.path(), 50);
        assert_eq!(known(&engine, emptied), None);
        add(&engine, emptied, 0, 10);
        analyze(&engine, emptied, &[]);
        assert_eq!(known(&engine, emptied).expect("known").rows, 10);
    }
}

#[test]
fn other_definitions_keep_them() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engine = open(folder.path(), 50);
    let table = keyed(&engine, 300);
    analyze(&engine, table, &[]);
    let found = known(&engine, table);
    let mut transaction = engine.begin().expect("a transaction");
    transaction.rename_table(table, "Other").expect("renamed");
    let later = transaction.add_column(table, ColumnSpec::new("Later", SqlType::Int32)).expect("a column");
    let index =
        transaction.keyed_codec(table).expect("a keyed table").def().keyed.as_ref().expect("keyed").indexes[0].id;
    transaction.drop_index(table, index).expect("dropped");
    transaction.commit().expect("committed");
    assert_eq!(known(&engine, table), found);
    assert!(found.as_ref().is_some_and(|found| found.column(later).is_none()));
    assert_whole(&engine);
    drop(engine);
    let engine = open(folder.path(), 50);
    assert_eq!(known(&engine, table), found);
    // A column that is there no more is forgotten.
    let mut transaction = engine.begin().expect("a transaction");
    transaction.drop_column(table, ColumnId(1)).expect("dropped");
    transaction.commit().expect("committed");
    analyze(&engine, table, &[]);
    let ids: Vec<ColumnId> = known(&engine, table).expect("known").columns.iter().map(|column| column.column).collect();
    assert_eq!(ids, [ColumnId(0), later]);
}

#[test]
fn some_columns_are_looked_at_and_the_others_stay_known() {
    let engine = Engine::memory(settings(50)).expect("a database in memory");
    let table = keyed(&engine, 100);
    analyze(&engine, table, &[ColumnId(1)]);
    let found = known(&engine, table).expect("known");
    assert!(found.column(ColumnId(0)).is_none() && found.column(ColumnId(1)).is_some());
    analyze(&engine, table, &[ColumnId(0)]);
    add(&engine, table, 100, 100);
    analyze(&engine, table, &[ColumnId(0)]);
    let more = known(&engine, table).expect("known");
    assert_eq!(more.rows, 200);
    assert_eq!(more.column(ColumnId(0)).expect("known").distinct, 200);
    assert_eq!(more.column(ColumnId(1)), found.column(ColumnId(1)));
    let unknown = engine.begin().expect("a transaction").analyze(table, &[ColumnId(9)]);
    assert_eq!(unknown.expect_err("no such column").kind(), ErrorKind::UndefinedColumn);
}

#[test]
fn nobody_is_in_the_way_of_it() {
    for level in [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable] {
        let engine = Engine::memory(settings(50)).expect("a database in memory");
        let table = keyed(&engine, 100);
        let begin = || {
            let mut transaction = engine.begin().expect("a transaction");
            transaction.set_isolation(level);
            transaction
        };
        let (mut first, mut second, mut writing) = (begin(), begin(), begin());
        first.analyze(table, &[]).expect("analyzed");
        writing.insert_row(table, &[ValueRef::Int(1_000), ValueRef::Text("x")]).expect("inserted");
        add(&engine, table, 100, 50);
        first.commit().expect("beside a writer");
        assert_eq!(known(&engine, table).expect("known").rows, 100);
        second.analyze(table, &[]).expect("analyzed");
        let mut third = begin();
        third.analyze(table, &[]).expect("analyzed");
        writing.commit().expect("beside statistics");
        third.commit().expect("committed");
        assert_eq!(known(&engine, table).expect("known").rows, 150);
        second.commit().expect("the last one wins");
        assert_eq!(known(&engine, table).expect("known").rows, 100);

        // Beside other definitions.
        let (mut analyzing, mut altering, mut renaming) = (begin(), begin(), begin());
        analyzing.analyze(table, &[]).expect("analyzed");
        altering.rename_table(table, "Between").expect("renamed");
        altering.commit().expect("committed");
        analyzing.commit().expect("beside another definition");
        assert_eq!(known(&engine, table).expect("known").rows, 151);
        renaming.analyze(table, &[]).expect("analyzed");
        renaming.rename_table(table, "Renamed").expect("renamed");
        assert_eq!(renaming.commit().expect_err("two definitions").kind(), ErrorKind::SerializationFailure);

        // Other definitions do not bring older ones back.
        let mut altering = begin();
        altering.rename_table(table, "Renamed").expect("renamed");
        add(&engine, table, 150, 50);
        analyze(&engine, table, &[]);
        altering.commit().expect("committed");
        assert_eq!(known(&engine, table).expect("known").rows, 201);

        // Of rows that are gone.
        let (mut analyzing, mut emptying) = (begin(), begin());
        analyzing.analyze(table, &[]).expect("analyzed");
        emptying.truncate(table).expect("emptied");
        emptying.commit().expect("committed");
        analyzing.commit().expect("beside TRUNCATE");
        assert_eq!(known(&engine, table), None);
        add(&engine, table, 0, 20);
        let (mut emptying, mut dropping) = (begin(), begin());
        emptying.truncate(table).expect("emptied");
        dropping.drop_table(table).expect("dropped");
        analyze(&engine, table, &[]);
        emptying.commit().expect("beside statistics");
        assert_eq!(known(&engine, table), None);
        assert_eq!(dropping.commit().expect_err("two definitions").kind(), ErrorKind::SerializationFailure);
        let (mut analyzing, mut dropping) = (begin(), begin());
        analyzing.analyze(table, &[]).expect("analyzed");
        dropping.drop_table(table).expect("dropped");
        dropping.commit().expect("committed");
        analyzing.commit().expect("beside DROP TABLE");
        assert!(engine.snapshot().expect("a snapshot").catalog().statistics(table).is_none());
    }
}

#[test]
fn it_is_undone_as_other_changes_are_and_refused_where_they_are() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engine = open(folder.path(), 50);
    let table = keyed(&engine, 100);
    let columnar = create(&engine, "Columnar");
    let mut transaction = engine.begin().expect("a transaction");
    transaction.analyze(columnar, &[]).expect("nothing to do");
    assert!(transaction.is_empty());
    let before = transaction.savepoint();
    transaction.analyze(table, &[]).expect("analyzed");
    assert!(known_by(&transaction.view().expect("a view"), table).is_some());
    transaction.rollback_to(&before);
    assert!(known_by(&transaction.view().expect("a view"), table).is_none());
    let cancelled = Cancel::new();
    cancelled.cancel();
    transaction.set_cancel(cancelled);
    assert_eq!(transaction.analyze(table, &[]).expect_err("cancelled").kind(), ErrorKind::Cancelled);
    transaction.set_cancel(go_on());
    let refused = transaction.analyze(TableId(77), &[]).expect_err("no table");
    assert_eq!(refused.kind(), ErrorKind::UndefinedTable);
    transaction.analyze(table, &[]).expect("analyzed");
    transaction.rollback();
    assert_eq!(known(&engine, table), None);
    drop(engine);
    let reader = read_only(folder.path());
    let refused = reader.begin().and_then(|mut transaction| transaction.analyze(table, &[]));
    assert_eq!(refused.expect_err("it only reads").kind(), ErrorKind::ReadOnly);
}

#[test]
fn the_sample_is_granted_or_refused() {
    let mut short = settings(50);
    short.set("memory_limit", "16MiB").expect("the least limit");
    let engine = Engine::memory(short).expect("a database in memory");
    let table = keyed(&engine, 2_000);
    let mut taken = engine.broker().reservation("the rest of the memory");
    let free = engine.broker().limit_bytes() - engine.broker().used_bytes();
    taken.grow(free - (64 << 10)).expect("it is free");
    let refused = engine.begin().expect("a transaction").analyze(table, &[]).expect_err("it is too much");
    assert_eq!(refused.kind(), ErrorKind::MemoryLimit);
    assert!(refused.message().contains("ANALYZE"), "{refused}");
    drop(taken);
    let before = engine.broker().used_bytes();
    let mut transaction = engine.begin().expect("a transaction");
    transaction.analyze(table, &[]).expect("there is enough");
    assert_eq!(engine.broker().used_bytes(), before);
}

#[test]
fn large_tables_are_as_large_as_they_were_found_to_be() {
    let engine = Engine::memory(settings(50)).expect("a database in memory");
    let table = keyed(&engine, 130_000);
    let about = || engine.snapshot().expect("a snapshot").table(table).expect("the table").row_count();
    // By where the last of those lies that are counted.
    assert!((128_000..133_000).contains(&about()), "{}", about());
    analyze(&engine, table, &[ColumnId(0)]);
    assert_eq!(about(), 130_000);
}

/// Who asks how many rows there are has read none of them.
#[test]
fn rows_that_are_counted_for_a_plan_are_not_validated() {
    let engine = Engine::memory(settings(50)).expect("a database in memory");
    let (table, written) = (keyed(&engine, 1_000), {
        let mut transaction = engine.begin().expect("a transaction");
        let table = create_keyed(&mut transaction, "Written").expect("a keyed table");
        transaction.commit().expect("committed");
        table
    });
    let mut planning = engine.begin().expect("a transaction");
    planning.set_isolation(Isolation::Serializable);
    let view = planning.view().expect("a view");
    assert_eq!(view.table(table).expect("the table").row_count(), 1_000);
    planning.insert_row(written, &[ValueRef::Int(1), ValueRef::Text("x")]).expect("inserted");
    add(&engine, table, 1_000, 10);
    planning.commit().expect("nothing that it has read was written");
}
