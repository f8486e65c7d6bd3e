//! The rows that are there after a process was killed, by the durability of its commits, and definitions that only the
//! log has.

use std::path::Path;
use std::sync::Arc;

use rowmill_base::{Cancel, Durability, ErrorKind, SqlType, TableId};
use rowmill_txn::{ColumnSpec, Engine, MAIN_SCHEMA, OpenOptions, TableSource, Transaction};

use crate::space::copy;
use crate::support::{TestRow, create, insert, open, settings, values};

fn rows(first: i64, count: i64) -> Vec<TestRow> {
    (first..first + count).map(|n| (n, (n % 3 > 0).then(|| format!("text {n}")))).collect()
}

fn add(engine: &Arc<Engine>, table: TableId, first: i64, count: i64) {
    let mut transaction = engine.begin().expect("a transaction");
    insert(&mut transaction, table, &rows(first, count));
    transaction.commit().expect("committed");
}

/// The directory of `engine` as it would be if the process had been killed now, opened.
pub(crate) fn killed(engine: &Engine, to: &Path, rows_per_block: usize) -> Arc<Engine> {
    let state = || {
        let status = engine.log_status();
        (status.commit, status.stored, status.work.map(|work| work.records))
    };
    // Copies of files that were made while something was committed or stored do not belong together.
    loop {
        let before = state();
        copy(engine.path().expect("a directory"), to);
        if state() == before {
            return open(to, rows_per_block);
        }
    }
}

fn found(engine: &Engine, table: TableId) -> Vec<TestRow> {
    let mut found = values(&engine.snapshot().expect("a snapshot"), table);
    found.sort();
    found
}

#[test]
fn a_killed_process_loses_what_its_durability_says() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (path, copied) = (folder.path().join("open"), folder.path().join("killed"));
    let engine = open(&path, 50);
    let table = create(&engine, "T");
    let set = |durability: &str| engine.set("durability", durability).expect("a word");
    let mut rows_now = 0;
    let mut add = |count: i64| {
        add(&engine, table, rows_now, count);
        rows_now += count;
        rows_now
    };
    for durability in ["full", "relaxed"] {
        set(durability);
        for _ in 0..7 {
            add(1);
        }
        let there = add(120);
        assert_eq!(found(&killed(&engine, &copied, 50), table), rows(0, there), "{durability}");
    }
    set("off");
    let stored = add(0);
    add(30);
    let all = add(1);
    assert_eq!(found(&killed(&engine, &copied, 50), table), rows(0, stored), "off, and no checkpoint");
    engine.checkpoint().expect("a checkpoint");
    assert_eq!(found(&killed(&engine, &copied, 50), table), rows(0, all), "off, behind a checkpoint");
    add(60);
    // The log goes on where it was, with commits in between that it never had.
    set("full");
    let all = add(3);
    assert_eq!(found(&killed(&engine, &copied, 50), table), rows(0, all), "full again");
    set("off");
    add(2);
    set("relaxed");
    let all = add(70);
    let reader = killed(&engine, &copied, 50);
    assert_eq!(found(&reader, table), rows(0, all), "relaxed again");
    assert_eq!(found(&engine, table), rows(0, all));
    assert!(engine.set("durability", "perhaps").is_err());
    assert_eq!(engine.settings().show("durability"), Ok("relaxed".to_owned()));
}

#[test]
fn a_transaction_may_be_more_or_less_durable_than_the_database() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (path, copied) = (folder.path().join("open"), folder.path().join("killed"));
    let mut settings = settings(50);
    // So that only a commit that waits for a sync causes one.
    settings.set("relaxed_sync_ms", "60000").expect("a number");
    let engine = Engine::open(&path, OpenOptions { settings, ..OpenOptions::default() }).expect("opened");
    let table = create(&engine, "T");
    let syncs = || engine.log_status().work.expect("a log").syncs;
    let mut next = 0;
    let mut add = |durability: Durability| {
        let mut transaction = engine.begin().expect("a transaction");
        transaction.set_durability(durability).expect("one for a transaction");
        insert(&mut transaction, table, &rows(next, 1));
        let before = syncs();
        transaction.commit().expect("committed");
        next += 1;
        assert_eq!(found(&engine, table), rows(0, next), "{durability:?}");
        syncs() - before
    };
    engine.set("durability", "full").expect("a word");
    assert_eq!((add(Durability::Full), add(Durability::Relaxed), add(Durability::Full)), (1, 0, 1));
    engine.set("durability", "relaxed").expect("a word");
    assert_eq!(add(Durability::Full), 1);
    add(Durability::Relaxed);
    assert_eq!(found(&killed(&engine, &copied, 50), table), rows(0, 5));
    let mut transaction = engine.begin().expect("a transaction");
    let refused = transaction.set_durability(Durability::Off).expect_err("that is for a whole database");
    assert_eq!(refused.kind(), ErrorKind::InvalidParameter);
}

#[test]
fn definitions_come_back_from_the_log() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (path, copied) = (folder.path().join("open"), folder.path().join("killed"));
    let engine = open(&path, 50);
    let (one, other) = (create(&engine, "One"), create(&engine, "Other"));
    add(&engine, one, 0, 130);
    engine.checkpoint().expect("a checkpoint");
    let change = |change: &dyn Fn(&mut Transaction)| {
        let mut transaction = engine.begin().expect("a transaction");
        change(&mut transaction);
        transaction.commit().expect("committed");
    };
    add(&engine, one, 130, 5);
    // Names change places, in one commit.
    change(&|transaction| {
        transaction.rename_table(one, "Between").expect("renamed");
        transaction.rename_table(other, "One").expect("renamed");
        transaction.rename_table(one, "Other").expect("renamed");
    });
    change(&|transaction| {
        insert(transaction, one, &rows(135, 2));
        let column = transaction.add_column(one, ColumnSpec::new("More", SqlType::Int64)).expect("a column");
        transaction.rename_column(one, column, "Much").expect("renamed");
        let main = transaction.base().catalog().schema(MAIN_SCHEMA).expect("always there").id;
        transaction.create_view(main, "V", "SELECT 1", vec!["x".to_owned()], false).expect("a view");
        transaction.create_schema("s").expect("a schema");
    });
    let text = |engine: &Engine| {
        let snapshot = engine.snapshot().expect("a snapshot");
        let tables: Vec<String> = snapshot.catalog().all_tables().map(|table| format!("{table:?}")).collect();
        let schemas: Vec<String> = snapshot.catalog().schemas().map(|schema| format!("{schema:?}")).collect();
        let main = snapshot.catalog().schema(MAIN_SCHEMA).expect("always there").id;
        format!("{tables:?} {schemas:?} {:?}", snapshot.catalog().views(main).collect::<Vec<_>>())
    };
    let replayed = killed(&engine, &copied, 50);
    assert_eq!(text(&replayed), text(&engine));
    assert_eq!(found(&replayed, one), rows(0, 137));
    drop(replayed);
    change(&|transaction| {
        let column = transaction.base().catalog().table_by_id(one).expect("it is there").columns[1].id;
        transaction.drop_column(one, column).expect("dropped");
        transaction.drop_table(other).expect("dropped");
    });
    change(&|transaction| {
        let main = transaction.base().catalog().schema(MAIN_SCHEMA).expect("always there").id;
        let view = transaction.base().catalog().view(main, "V").expect("it is there").id;
        transaction.drop_view(view).expect("dropped");
        let schema = transaction.base().catalog().schema("s").expect("it is there").id;
        transaction.drop_schema(schema).expect("dropped");
    });
    let replayed = killed(&engine, &copied, 50);
    assert_eq!(text(&replayed), text(&engine));
    let live = |engine: &Engine| {
        let table = engine.snapshot().expect("a snapshot").table(one).expect("it is there");
        table.row_count()
    };
    assert_eq!((live(&replayed), live(&engine)), (137, 137));
}

#[test]
fn rows_of_the_log_and_the_blocks_that_were_made_of_them_are_there_once() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (path, copied) = (folder.path().join("open"), folder.path().join("killed"));
    let engine = open(&path, 50);
    let tables = ["One", "Other"].map(|name| create(&engine, name));
    let mut next = 0;
    for round in 0..60 {
        // Of both tables, so that blocks are made of some of what the log has between them.
        for (table, count) in [(tables[0], round % 7 + 1), (tables[1], round % 4), (tables[0], 3)] {
            add(&engine, table, next, count);
            next += count;
        }
        if round % 5 == 4 {
            // The last rows, the whole run of them, and none that a block has.
            let mut transaction = engine.begin().expect("a transaction");
            let recent =
                transaction.base().table(tables[0]).expect("it is there").runs().last().map(|run| run.first_row());
            let rows: Vec<u64> = recent.into_iter().flat_map(|first| first.0..first.0 + 3).collect();
            transaction.delete(tables[0], &rows).expect("deleted");
            transaction.commit().expect("committed");
        }
        if round % 9 == 8 {
            let replayed = killed(&engine, &copied, 50);
            for table in tables {
                assert_eq!(found(&replayed, table), found(&engine, table), "round {round}");
            }
            let checked = replayed.check(&Cancel::new()).expect("a check");
            assert!(checked.iter().all(|found| found.problem.is_none()), "{checked:?}");
        }
    }
    let blocks = engine.snapshot().expect("a snapshot").table(tables[0]).expect("it is there").blocks().len();
    assert!(blocks > 5, "{blocks} blocks were made");
}

#[test]
fn long_rows_go_to_a_block_and_not_through_the_log() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engine = open(folder.path(), 1_000);
    let table = create(&engine, "T");
    let row = |number: i64| (number, Some(number.to_string().repeat(1 << 20)));
    let rows: Vec<TestRow> = (10..60).map(row).collect();
    let bytes = || engine.log_status().work.expect("a log").bytes;
    for part in [&rows[..5], &rows[5..]] {
        let before = bytes();
        let mut transaction = engine.begin().expect("a transaction");
        insert(&mut transaction, table, part);
        transaction.commit().expect("committed");
        let is_short = bytes() - before < 1 << 20;
        assert_eq!(is_short, part.len() > 5, "{} rows of 2 MiB", part.len());
    }
    // A view of them in the transaction is such a block too; where that cannot be made they wait on.
    let mut transaction = engine.begin().expect("a transaction");
    insert(&mut transaction, table, &rows);
    let cancel = Cancel::new();
    cancel.cancel();
    transaction.set_cancel(cancel);
    assert_eq!(transaction.view().expect_err("it was cancelled").kind(), ErrorKind::Cancelled);
    transaction.set_cancel(Cancel::new());
    assert_eq!(values(&transaction.view().expect("a view"), table).len(), 2 * rows.len());
    transaction.rollback();
    drop(engine);
    let engine = open(folder.path(), 1_000);
    assert_eq!(values(&engine.snapshot().expect("a snapshot"), table), rows);
}
