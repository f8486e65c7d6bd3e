//! Keyed tables, one rule at a time: refusals and their messages, which writer wins, what old snapshots and other
//! processes see.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rowmill_base::{Cancel, ColumnId, Error, ErrorKind, SqlType, TableId};
use rowmill_io::MemoryDisk;
use rowmill_storage::keyed::{KeyRange, ValueRef};
use rowmill_txn::base::{MemoryBase, OrderedBase, TreeBase, WriteBatch};
use rowmill_txn::keyed::{KeyedReader, RangeScan, RowBatch, TableCodec};
use rowmill_txn::{ColumnSpec, Engine, IndexSpec, KeyColumn, OpenOptions, Transaction};

use crate::check::problems;
use crate::other_process::{Reader, digest};
use crate::support::{TestRow, batch, create, create_keyed, open, settings, values};

fn keyed(engine: &Arc<Engine>) -> TableId {
    let mut transaction = engine.begin().expect("a transaction");
    let table = create_keyed(&mut transaction, "K").expect("a keyed table");
    transaction.commit().expect("committed");
    table
}

fn put(transaction: &mut Transaction, table: TableId, number: i64, text: &str) -> rowmill_base::Result<()> {
    transaction.insert_row(table, &[ValueRef::Int(number), ValueRef::Text(text)])
}

fn write(engine: &Arc<Engine>, table: TableId, number: i64, text: &str) {
    let mut transaction = engine.begin().expect("a transaction");
    transaction.delete_by_key(table, &[ValueRef::Int(number)]).expect("deleted");
    put(&mut transaction, table, number, text).expect("put");
    transaction.commit().expect("committed");
}

fn unique_texts(engine: &Arc<Engine>, table: TableId) -> rowmill_base::Result<()> {
    let mut transaction = engine.begin()?;
    let parts = vec![KeyColumn { column: ColumnId(1), descending: true }];
    transaction.create_index(table, IndexSpec { name: "only".into(), parts, unique: true })?;
    transaction.commit().map(drop)
}

fn says(error: &Error, sqlstate: &str, words: &[&str]) {
    assert_eq!(error.sqlstate(), sqlstate, "{error}");
    words.iter().for_each(|word| assert!(error.message().contains(word), "{word}: {error}"));
}

#[test]
fn two_writers_of_one_key_or_one_unique_value_cannot_both_win() {
    for checkpoint in [false, true] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let engine = open(folder.path(), 50);
        let table = keyed(&engine);
        unique_texts(&engine, table).expect("an index");
        write(&engine, table, 1, "one");
        let begin = || engine.begin().expect("a transaction");
        let settle = || {
            if checkpoint {
                engine.checkpoint().expect("a checkpoint");
            }
        };

        let (mut first, mut second, mut third) = (begin(), begin(), begin());
        first.delete_by_key(table, &[ValueRef::Int(1)]).expect("deleted");
        put(&mut second, table, 2, "two").expect("put");
        put(&mut third, table, 2, "another").expect("put");
        first.commit().expect("committed");
        settle();
        second.commit().expect("another key");
        settle();
        says(&third.commit().expect_err("its key was written"), "40001", &["table K", "(2)"]);

        let (mut first, mut second) = (begin(), begin());
        put(&mut first, table, 3, "same").expect("put");
        put(&mut second, table, 4, "same").expect("put");
        first.commit().expect("committed");
        settle();
        settle();
        says(&second.commit().expect_err("the value was written"), "40001", &["table K", "'same'"]);

        // What the snapshot sees is a duplicate.
        let mut late = begin();
        says(
            &put(&mut late, table, 3, "x").expect_err("the key is there"),
            "23505",
            &["table K", "primary key", "(3)"],
        );
        says(&put(&mut late, table, 9, "same").expect_err("the text is there"), "23505", &["index only", "'same'"]);
        late.insert_row(table, &[ValueRef::Int(10), ValueRef::Null]).expect("put");
        late.insert_row(table, &[ValueRef::Int(11), ValueRef::Null]).expect("NULL is no value");
        // A value that is given up can be taken within the same transaction.
        late.delete_by_key(table, &[ValueRef::Int(3)]).expect("deleted");
        put(&mut late, table, 12, "same").expect("put");
        late.commit().expect("committed");
        let found = values(&engine.snapshot().expect("a snapshot"), table);
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(found, [(2, text("two")), (10, None), (11, None), (12, text("same"))]);
    }
}

#[test]
fn emptying_dropping_and_indexing_lose_against_rows_that_were_written_meanwhile() {
    let engine = Engine::memory(settings(50)).expect("a database in memory");
    let table = keyed(&engine);
    write(&engine, table, 1, "one");
    let begin = || engine.begin().expect("a transaction");
    let lost = |transaction: Transaction| {
        says(&transaction.commit().expect_err("rows were written"), "40001", &["\"K\"", "by another transaction"]);
    };

    let (mut emptying, mut indexing, mut writing) = (begin(), begin(), begin());
    assert_eq!(emptying.truncate(table).expect("emptied"), 1);
    let parts = vec![KeyColumn { column: ColumnId(1), descending: false }];
    indexing.create_index(table, IndexSpec { name: "more".into(), parts, unique: true }).expect("an index");
    put(&mut writing, table, 2, "two").expect("put");
    writing.commit().expect("committed");
    lost(emptying);
    lost(indexing);

    let (mut emptying, mut writing, mut dropping, mut late) = (begin(), begin(), begin(), begin());
    assert_eq!(emptying.truncate(table).expect("emptied"), 2);
    put(&mut emptying, table, 1, "again").expect("put");
    put(&mut writing, table, 3, "three").expect("put");
    emptying.commit().expect("committed");
    let error = writing.commit().expect_err("the table was emptied");
    assert_eq!(error.kind(), ErrorKind::SerializationFailure, "{error}");
    assert_eq!(values(&engine.snapshot().expect("a snapshot"), table), [(1, Some("again".to_owned()))]);
    dropping.drop_table(table).expect("dropped");
    says(&dropping.commit().expect_err("its definition was changed"), "40001", &["\"K\""]);
    late.drop_table(table).expect("dropped");
    drop(late);
    let (mut dropping, mut writing) = (begin(), begin());
    dropping.drop_table(table).expect("dropped");
    put(&mut writing, table, 3, "three").expect("put");
    dropping.commit().expect("committed");
    assert_eq!(writing.commit().expect_err("the table is gone").kind(), ErrorKind::SerializationFailure);
}

#[test]
fn what_cannot_be_kept_is_refused_and_changes_nothing() {
    let engine = Engine::memory(settings(50)).expect("a database in memory");
    let table = keyed(&engine);
    let mut transaction = engine.begin().expect("a transaction");
    put(&mut transaction, table, 1, "one").expect("put");
    transaction.insert_row(table, &[ValueRef::Null, ValueRef::Null]).expect_err("NULL in the key");
    let error = transaction.insert_row(table, &[ValueRef::Int(5)]).expect_err("one value");
    assert_eq!(error.kind(), ErrorKind::CardinalityViolation);
    // Of a batch with one row that is refused nothing is put.
    let rows: Vec<TestRow> = vec![(7, None), (8, None), (1, None)];
    says(&transaction.insert(table, &batch(&rows)).expect_err("a duplicate"), "23505", &["(1)"]);
    assert!(transaction.get(table, &[ValueRef::Int(7)]).expect("looked up").is_none());
    assert_eq!(transaction.delete(table, &[1]).expect_err("it has keys").kind(), ErrorKind::WrongObject);
    let column = ColumnId(1);
    assert_eq!(transaction.drop_column(table, column).expect_err("indexed").kind(), ErrorKind::DependentObjects);
    transaction.commit().expect("committed");
    // Equal texts.
    write(&engine, table, 3, "one");
    says(&unique_texts(&engine, table).expect_err("there are two"), "23505", &["only", "'one'"]);
    let interval = vec![ColumnSpec::new("a", SqlType::Interval)];
    let mut transaction = engine.begin().expect("a transaction");
    let schema = transaction.base().catalog().schema("main").expect("always there").id;
    let part = KeyColumn { column: ColumnId(0), descending: false };
    let unordered = transaction.create_keyed_table(schema, "X", interval, &[part]).expect_err("it has no order");
    assert_eq!(unordered.kind(), ErrorKind::Unsupported);
    for key in [vec![], vec![part, part]] {
        let columns = vec![ColumnSpec::new("a", SqlType::Int64)];
        let error = transaction.create_keyed_table(schema, "X", columns, &key).expect_err("no key");
        assert_eq!(error.kind(), ErrorKind::InvalidDefinition);
    }
}

#[test]
fn a_column_that_is_added_or_dropped_rewrites_no_row() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut engine = open(folder.path(), 50);
    let table = keyed(&engine);
    write(&engine, table, 1, "one");
    let mut transaction = engine.begin().expect("a transaction");
    let mut spec = ColumnSpec::new("more", SqlType::Int64);
    spec.missing = Some(Arc::new(arrow::array::Int64Array::from(vec![7])));
    let more = transaction.add_column(table, spec).expect("a column");
    let gone = transaction.add_column(table, ColumnSpec::new("gone", SqlType::TEXT)).expect("a column");
    let row = [ValueRef::Int(2), ValueRef::Text("two"), ValueRef::Int(8), ValueRef::Text("gone")];
    transaction.insert_row(table, &row).expect("put");
    transaction.drop_column(table, gone).expect("dropped");
    transaction.insert_row(table, &[ValueRef::Int(3), ValueRef::Text("three"), ValueRef::Null]).expect("put");
    transaction.commit().expect("committed");
    for round in 0..3 {
        let snapshot = engine.snapshot().expect("a snapshot");
        let codec = snapshot.keyed_codec(table).expect("a codec");
        let mut scratch = Vec::new();
        let mut found = |number: i64| {
            let row = snapshot.get(&codec, &[ValueRef::Int(number)]).expect("looked up").expect("it is there");
            let values = codec.values(&row.key, &row.row, &mut scratch).expect("decoded");
            assert_eq!(values.len(), 3);
            format!("{:?}", values[2])
        };
        assert_eq!([found(1), found(2), found(3)], ["Int(7)", "Int(8)", "Null"], "round {round}");
        assert_eq!(codec.def().column_by_id(more), Some(2));
        match round {
            0 => engine.checkpoint().expect("a checkpoint"),
            _ => {
                drop(snapshot);
                drop(engine);
                engine = open(folder.path(), 50);
            }
        }
    }
}

#[test]
fn an_old_snapshot_reads_on_through_checkpoints_and_holds_nothing_when_it_is_gone() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engine = open(folder.path(), 50);
    let table = keyed(&engine);
    let mut held = Vec::new();
    for round in 0..12 {
        for number in 0..40 {
            if (number + round) % 3 != 0 {
                write(&engine, table, number, &format!("{round}"));
            }
        }
        let snapshot = engine.snapshot().expect("a snapshot");
        held.push((values(&snapshot, table), snapshot));
        if round % 2 == 0 {
            engine.checkpoint().expect("a checkpoint");
        }
        held.iter().for_each(|(rows, snapshot)| assert_eq!(&values(snapshot, table), rows, "round {round}"));
        if round % 5 == 4 {
            held.drain(..3);
        }
    }
    held.clear();
    write(&engine, table, 1, "last");
    engine.checkpoint().expect("a checkpoint");
    let before = engine.broker().used_bytes();
    write(&engine, table, 1, "the very last");
    engine.checkpoint().expect("a checkpoint");
    assert!(engine.broker().used_bytes() <= before, "versions that no snapshot reads are forgotten");
}

#[test]
fn other_processes_see_keyed_rows_as_they_are_committed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engine = open(folder.path(), 50);
    let table = keyed(&engine);
    let mut reader = Reader::start(folder.path());
    let now = || digest(&values(&engine.snapshot().expect("a snapshot"), table));
    let mut old = String::new();
    for round in 0_i64..30 {
        (0..4).for_each(|number| write(&engine, table, number * 7 + round % 5, &format!("{round}")));
        if round % 4 != 1 {
            assert_eq!(reader.now(table), now(), "round {round}");
        }
        if round % 6 == 2 {
            engine.checkpoint().expect("a checkpoint");
        }
        if round == 5 {
            reader.hold("old");
            old = now();
        }
        if round > 5 {
            assert_eq!(reader.held("old", table), old, "round {round}");
        }
        if round % 10 == 7 {
            let mut transaction = engine.begin().expect("a transaction");
            transaction.truncate(table).expect("emptied");
            transaction.commit().expect("committed");
        }
    }
    assert_eq!(reader.now(table), now());
    assert_eq!(reader.check(), "");
    // And one that begins now, in this process.
    drop(engine);
    let options = OpenOptions { read_only: true, settings: settings(50), ..OpenOptions::default() };
    let follower = Engine::open(folder.path(), options).expect("opened");
    let snapshot = follower.snapshot().expect("a snapshot");
    assert_eq!(digest(&values(&snapshot, table)), reader.now(table));
}

#[test]
fn a_range_has_what_its_bounds_say_in_either_order() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engine = open(folder.path(), 50);
    let table = keyed(&engine);
    let mut transaction = engine.begin().expect("a transaction");
    let rows: Vec<TestRow> = (0..1_000).map(|number| (number, Some(format!("{:03}", number % 100)))).collect();
    transaction.insert(table, &batch(&rows)).expect("inserted");
    transaction.commit().expect("committed");
    engine.checkpoint().expect("a checkpoint");
    let mut transaction = engine.begin().expect("a transaction");
    (0..1_000).step_by(10).for_each(|number| {
        transaction.delete_by_key(table, &[ValueRef::Int(number)]).expect("deleted");
    });
    let codec = transaction.keyed_codec(table).expect("a codec");
    let (head, keys) = codec.keys(None).expect("its keys");
    use std::ops::Bound::{Excluded, Included};
    let mut range = KeyRange::default();
    keys.range(head, &[], Included(ValueRef::Int(95)), Excluded(ValueRef::Int(700)), &mut range).expect("a range");
    for backward in [false, true] {
        let mut cursor = transaction.keyed_cursor(table, None, range.clone(), backward).expect("a cursor");
        let (mut rows, mut found) = (RowBatch::default(), Vec::new());
        loop {
            transaction.next_rows(&mut cursor, 300, &mut rows).expect("read");
            if rows.is_empty() {
                break;
            }
            let batch = codec.record_batch(&rows).expect("arrays");
            let numbers = arrow::array::AsArray::as_primitive::<arrow::datatypes::Int64Type>(batch.column(0)).clone();
            found.extend(numbers.values().iter().copied());
        }
        let mut expected: Vec<i64> = (95..700).filter(|number| number % 10 > 0).collect();
        if backward {
            expected.reverse();
        }
        assert_eq!(found, expected);
    }
    transaction.commit().expect("committed");
    let checked = engine.check(&Cancel::new()).expect("a check");
    assert!(checked.iter().all(|found| found.problem.is_none()), "{checked:?}");
}

#[test]
fn an_index_that_does_not_agree_with_its_rows_is_found() {
    let base = Arc::new(MemoryBase::new());
    let engine = Engine::over(Arc::new(MemoryDisk::new()), Arc::clone(&base) as _, settings(50)).expect("opened");
    let table = keyed(&engine);
    (0..20).for_each(|number| write(&engine, table, number, &format!("text {}", number % 4)));
    unique_texts(&engine, table).expect_err("texts are there twice");
    engine.checkpoint().expect("a checkpoint");
    let entries = |head: &[u8]| {
        let mut found = Vec::new();
        base.read()
            .expect("a read")
            .scan(head, &mut |key, value| {
                found.push((key.to_vec(), value.to_vec()));
                Ok(true)
            })
            .expect("scanned");
        found
    };
    let snapshot = engine.snapshot().expect("a snapshot");
    let codec = snapshot.keyed_codec(table).expect("a codec");
    let index = codec.def().keyed.as_ref().expect("it is keyed").indexes[0].id;
    let rows = entries(codec.keys(None).expect("its keys").0);
    let of_index = entries(codec.keys(Some(index)).expect("its keys").0);
    assert_eq!((rows.len(), of_index.len()), (20, 20));
    let check = || problems(&engine.check(&Cancel::new()).expect("a check"));
    assert_eq!(check(), Vec::<String>::new());
    type Damage<'a> = &'a dyn Fn(&mut WriteBatch);
    let damages: [(&str, Damage<'_>); 4] = [
        ("is not in index texts", &|batch| batch.delete(of_index[3].0.clone())),
        ("there is no such row", &|batch| batch.delete(rows[5].0.clone())),
        ("a row", &|batch| batch.put(rows[7].0.clone(), vec![1, 2, 3])),
        ("key", &|batch| batch.put([&rows[9].0[..], b"x"].concat(), rows[9].1.clone())),
    ];
    let now = || base.read().expect("a read").commit_id().expect("its commit");
    for (problem, damage) in damages {
        let mut batch = WriteBatch::new();
        damage(&mut batch);
        base.write(&batch, now()).expect("written");
        let found = check();
        let is_found = |found: &String| found.contains("main.K, keys") && found.contains(problem);
        assert!(found.iter().any(is_found), "{problem}: {found:?}");
        let mut mended = WriteBatch::new();
        mended.delete([&rows[9].0[..], b"x"].concat());
        rows.iter().chain(&of_index).for_each(|(key, value)| mended.put(key.clone(), value.clone()));
        base.write(&mended, now()).expect("written");
        assert_eq!(check(), Vec::<String>::new());
    }
}

#[test]
fn accounts_keep_their_sum_while_writers_readers_and_checkpoints_run_at_once() {
    const ACCOUNTS: i64 = 12;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engine = open(folder.path(), 50);
    engine.set("durability", "relaxed").expect("a word");
    let table = keyed(&engine);
    (0..ACCOUNTS).for_each(|number| write(&engine, table, number, "100"));
    let transfer = |from: i64, to: i64| -> rowmill_base::Result<()> {
        let mut transaction = engine.begin()?;
        let codec = transaction.keyed_codec(table)?;
        for (number, change) in [(from, -1), (to, 1)] {
            let old = transaction.get(table, &[ValueRef::Int(number)])?.expect("an account");
            let mut scratch = Vec::new();
            let balance = match codec.values(&old.key, &old.row, &mut scratch)?[1] {
                ValueRef::Text(balance) => balance.parse::<i64>().expect("a number") + change,
                other => panic!("{other:?}"),
            };
            let text = balance.to_string();
            transaction.update_row(table, &old, &[ValueRef::Int(number), ValueRef::Text(&text)])?;
        }
        transaction.commit().map(drop)
    };
    let sum = |engine: &Engine| {
        let rows = values(&engine.snapshot().expect("a snapshot"), table);
        assert_eq!(rows.len() as i64, ACCOUNTS);
        rows.iter().map(|(_, text)| text.as_ref().expect("a balance").parse::<i64>().expect("a number")).sum::<i64>()
    };
    let running = AtomicUsize::new(2);
    std::thread::scope(|scope| {
        for writer in 0..2_i64 {
            let (transfer, running) = (&transfer, &running);
            scope.spawn(move || {
                let mut lost = 0;
                for round in 0..400_i64 {
                    let (from, to) = ((round * 7 + writer) % ACCOUNTS, (round * 5 + 1) % ACCOUNTS);
                    if from == to {
                        continue;
                    }
                    while let Err(error) = transfer(from, to) {
                        assert_eq!(error.kind(), ErrorKind::SerializationFailure, "{error}");
                        lost += 1;
                        assert!(lost < 100_000, "nobody wins");
                    }
                }
                running.fetch_sub(1, Ordering::Release);
            });
        }
        scope.spawn(|| {
            while running.load(Ordering::Acquire) > 0 {
                engine.checkpoint().expect("a checkpoint");
            }
        });
        while running.load(Ordering::Acquire) > 0 {
            assert_eq!(sum(&engine), ACCOUNTS * 100);
        }
    });
    assert_eq!(problems(&engine.check(&Cancel::new()).expect("a check")), Vec::<String>::new());
    drop(engine);
    assert_eq!(sum(&open(folder.path(), 50)), ACCOUNTS * 100);
}

#[test]
fn a_snapshot_that_is_kept_does_not_keep_its_database_open() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engine = open(folder.path(), 50);
    let table = keyed(&engine);
    write(&engine, table, 1, "one");
    let old = engine.snapshot().expect("a snapshot");
    write(&engine, table, 2, "two");
    engine.checkpoint().expect("a checkpoint");
    let recent = engine.snapshot().expect("a snapshot");
    drop(engine);
    let again = open(folder.path(), 50);
    assert_eq!(values(&again.snapshot().expect("a snapshot"), table).len(), 2);
    let codec = recent.keyed_codec(table).expect("a codec");
    for snapshot in [old, recent] {
        let error = snapshot.get(&codec, &[ValueRef::Int(7)]).expect_err("it is closed");
        assert!(error.message().contains("closed"), "{error}");
    }
}

#[test]
fn a_directory_of_the_version_before_is_read_and_made_one_of_this() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let rows: Vec<TestRow> = (0..70).map(|number| (number, None)).collect();
    let engine = open(folder.path(), 50);
    let columnar = create(&engine, "T");
    let mut transaction = engine.begin().expect("a transaction");
    transaction.insert(columnar, &batch(&rows)).expect("inserted");
    transaction.commit().expect("committed");
    drop(engine);
    let head = || {
        let base = TreeBase::open(folder.path(), false).expect("the base opens");
        let head = base.read().expect("a read").get(b"m").expect("read").expect("the head");
        (base, head)
    };
    let (base, of_this) = head();
    let mut older = of_this[..of_this.len() - 4].to_vec();
    older[..4].copy_from_slice(&2_u32.to_le_bytes());
    let mut batch = WriteBatch::new();
    batch.put(b"m".to_vec(), older);
    base.write(&batch, base.commit_id().expect("a commit")).expect("written");
    drop(base);
    for read_only in [true, false] {
        let engine =
            Engine::open(folder.path(), OpenOptions { read_only, settings: settings(50), ..OpenOptions::default() })
                .expect("opened");
        assert_eq!(values(&engine.snapshot().expect("a snapshot"), columnar), rows);
    }
    assert_eq!(head().1, of_this, "a version that knows no keyed tables must not write here");
    let engine = open(folder.path(), 50);
    let table = keyed(&engine);
    write(&engine, table, 1, "one");
    drop(engine);
    assert_eq!(values(&open(folder.path(), 50).snapshot().expect("a snapshot"), table).len(), 1);
}

#[test]
fn versions_that_take_much_memory_go_to_the_base() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engine = open(folder.path(), 50);
    engine.set("memory_limit", "64MiB").expect("a setting");
    let table = keyed(&engine);
    engine.checkpoint().expect("a checkpoint");
    let before = engine.broker().used_bytes();
    for part in 0..12_i64 {
        let text = |number: i64| (part * 1_000 + number, Some(format!("{number} {}", "x".repeat(1_000))));
        let rows: Vec<TestRow> = (0..1_000).map(text).collect();
        let mut transaction = engine.begin().expect("a transaction");
        transaction.insert(table, &batch(&rows)).expect("inserted");
        transaction.commit().expect("committed");
    }
    let until = Instant::now() + Duration::from_secs(20);
    while engine.broker().used_bytes() > before + (8 << 20) {
        assert!(Instant::now() < until, "{} bytes are used", engine.broker().used_bytes());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(values(&engine.snapshot().expect("a snapshot"), table).len(), 12_000);
}

/// A transaction that reads the base again and again does not hinder a checkpoint.
#[test]
fn the_base_grows_while_a_transaction_reads_it() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let base = TreeBase::open(folder.path(), false).expect("a base");
    let engine = Engine::over(Arc::new(MemoryDisk::new()), Arc::new(base), settings(50)).expect("opened");
    let table = keyed(&engine);
    write(&engine, table, 0, "the first");
    engine.checkpoint().expect("a checkpoint");
    let reading = engine.begin().expect("a transaction");
    let mut transaction = engine.begin().expect("a transaction");
    (1..4000).for_each(|n| put(&mut transaction, table, 1000 + n, &"long ".repeat(200)).expect("put"));
    transaction.commit().expect("committed");
    let stop = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while stop.load(Ordering::Relaxed) == 0 {
                assert!(reading.get(table, &[ValueRef::Int(0)]).expect("read").is_some());
                assert!(reading.get(table, &[ValueRef::Int(7)]).expect("read").is_none());
            }
        });
        let checkpoint = engine.checkpoint();
        stop.store(1, Ordering::Relaxed);
        checkpoint.expect("a checkpoint");
    });
    let found = engine.begin().expect("a transaction").get(table, &[ValueRef::Int(1500)]).expect("read");
    assert!(found.is_some());
}

/// The numbers of the next rows of a scan, the first few of them.
fn next_numbers(codec: &TableCodec, scan: &mut RangeScan, reader: &KeyedReader<'_>, rows_max: usize) -> Vec<i64> {
    let mut numbers = Vec::new();
    while numbers.len() < rows_max
        && let Some((key, row)) = scan.next(reader).expect("read")
    {
        let mut scratch = Vec::new();
        let Ok(ValueRef::Int(number)) = codec.column(key, row, 0, &mut scratch) else { panic!("a number") };
        numbers.push(number);
    }
    numbers
}

/// The numbers that a snapshot or transaction sees from `first` on, the first few of them.
fn numbers(transaction: &Transaction, table: TableId, first: i64, rows_max: usize) -> Vec<i64> {
    let codec = transaction.keyed_codec(table).expect("a codec");
    let (mut start, all) = (Vec::new(), KeyRange::of_prefix(codec.keys(None).expect("its keys").0));
    codec.encode_key(None, &[ValueRef::Int(first)], &mut start).expect("a key");
    let mut scan = RangeScan::default();
    scan.start(&start, &all.end, false, rows_max);
    next_numbers(&codec, &mut scan, &transaction.reader(), rows_max)
}

/// The numbers that a transaction sees after `skipped` others, in the order of the scan, the first few of them.
fn numbers_after(
    transaction: &Transaction,
    table: TableId,
    skipped: usize,
    backward: bool,
    rows_max: usize,
) -> Vec<i64> {
    let codec = transaction.keyed_codec(table).expect("a codec");
    let all = KeyRange::of_prefix(codec.keys(None).expect("its keys").0);
    let (mut scan, reader) = (RangeScan::default(), transaction.reader());
    scan.start(&all.start, &all.end, backward, rows_max);
    let mut left = skipped;
    while left > 0 {
        let passed = scan.pass(&reader, left).expect("skipped");
        assert!(passed <= left, "{passed} rows were skipped instead of {left}");
        if passed == 0 {
            break;
        }
        left -= passed;
    }
    next_numbers(&codec, &mut scan, &reader, rows_max)
}

/// A table that is used as a queue: rows are deleted at the front, and some come back, while older snapshots look on.
#[test]
fn scans_begin_behind_deleted_keys_and_miss_nothing() {
    let mut random = StdRng::seed_from_u64(11);
    for _ in 0..20 {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let engine = open(folder.path(), 50);
        let table = keyed(&engine);
        let mut known: BTreeSet<i64> = BTreeSet::new();
        let mut held: Vec<(Transaction, BTreeSet<i64>)> = Vec::new();
        let mut next = 0;
        for _ in 0..300 {
            let mut transaction = engine.begin().expect("a transaction");
            match random.random_range(0..12) {
                0..=2 => {
                    for _ in 0..random.random_range(1..40) {
                        put(&mut transaction, table, next, &format!("row {next}")).expect("put");
                        known.insert(next);
                        next += 1;
                    }
                }
                3..=8 => {
                    let from = random.random_range(0..=next.max(1));
                    let front: Vec<i64> = match random.random_range(0..4) {
                        0 => known.range(from..).take(50).copied().collect(),
                        _ => known.iter().take(random.random_range(1..50)).copied().collect(),
                    };
                    for number in front {
                        assert!(transaction.delete_by_key(table, &[ValueRef::Int(number)]).expect("deleted"));
                        known.remove(&number);
                    }
                }
                9 if next > 0 => {
                    let back = random.random_range(0..next);
                    if known.insert(back) {
                        put(&mut transaction, table, back, "back").expect("put");
                    }
                }
                10 => engine.checkpoint().expect("a checkpoint"),
                _ => held.push((engine.begin().expect("a transaction"), known.clone())),
            }
            let seen = |known: &BTreeSet<i64>, first| known.range(first..).take(3).copied().collect::<Vec<_>>();
            for first in [0, random.random_range(0..=next.max(1))] {
                assert_eq!(numbers(&transaction, table, first, 3), seen(&known, first), "with its own changes");
            }
            transaction.commit().expect("committed");
            if held.len() > 4 {
                held.remove(random.random_range(0..held.len()));
            }
            let now = engine.begin().expect("a transaction");
            let skipped = random.random_range(0..=known.len() + 1);
            for (transaction, known) in held.iter().map(|(then, known)| (then, known)).chain([(&now, &known)]) {
                let forward: Vec<i64> = known.iter().skip(skipped).take(3).copied().collect();
                let backward: Vec<i64> = known.iter().rev().skip(skipped).take(3).copied().collect();
                assert_eq!(numbers_after(transaction, table, skipped, false, 3), forward, "after {skipped} rows");
                assert_eq!(numbers_after(transaction, table, skipped, true, 3), backward, "after {skipped} rows");
            }
            for first in [0, random.random_range(0..=next.max(1))] {
                assert_eq!(numbers(&now, table, first, 3), seen(&known, first));
                held.iter().for_each(|(then, known)| assert_eq!(numbers(then, table, first, 3), seen(known, first)));
            }
        }
    }
}

/// The numbers that a transaction sees and that pass a test, in the order of the scan, the first few of them. The other
/// result says how often a row was tested.
fn passing(
    transaction: &Transaction,
    table: TableId,
    backward: bool,
    rows_max: usize,
    is_wanted: impl Fn(i64) -> bool,
) -> (Vec<i64>, usize) {
    let codec = transaction.keyed_codec(table).expect("a codec");
    let all = KeyRange::of_prefix(codec.keys(None).expect("its keys").0);
    let number = |key: &[u8], row: &[u8]| match codec.column(key, row, 0, &mut Vec::new()) {
        Ok(ValueRef::Int(number)) => number,
        other => panic!("{other:?} is not a number"),
    };
    let (mut scan, reader, mut tests, mut numbers) = (RangeScan::default(), transaction.reader(), 0, Vec::new());
    scan.start(&all.start, &all.end, backward, rows_max);
    let mut test = |key: &[u8], row: &[u8]| {
        tests += 1;
        Ok(is_wanted(number(key, row)))
    };
    while numbers.len() < rows_max
        && let Some((key, row)) = scan.next_passing(&reader, &mut test).expect("read")
    {
        numbers.push(number(key, row));
    }
    (numbers, tests)
}

/// The numbers of all rows, read in batches of `rows_max` rows.
fn numbers_by_batches(transaction: &Transaction, table: TableId, backward: bool, rows_max: usize) -> Vec<i64> {
    let codec = transaction.keyed_codec(table).expect("a codec");
    let mut cursor = transaction.keyed_cursor(table, None, KeyRange::default(), backward).expect("a cursor");
    let (mut rows, mut numbers) = (RowBatch::default(), Vec::new());
    loop {
        transaction.next_rows(&mut cursor, rows_max, &mut rows).expect("read");
        for (key, row) in rows.keys().iter().zip(rows.rows().iter()) {
            match codec.column(key, row, 0, &mut Vec::new()) {
                Ok(ValueRef::Int(number)) => numbers.push(number),
                other => panic!("{other:?} is not a number"),
            }
        }
        if rows.len() < rows_max {
            return numbers;
        }
    }
}

#[test]
fn a_scan_with_a_test_gives_the_rows_that_pass_of_all_sources() {
    let mut random = StdRng::seed_from_u64(17);
    for (rows, changes) in [(300, 0), (300, 5), (300, 200), (20_000, 0), (20_000, 3), (20_000, 900)] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let engine = open(folder.path(), 50);
        let table = keyed(&engine);
        let mut known: BTreeSet<i64> = (0..rows).collect();
        let mut transaction = engine.begin().expect("a transaction");
        known.iter().for_each(|number| put(&mut transaction, table, *number, "base").expect("put"));
        transaction.commit().expect("committed");
        engine.checkpoint().expect("a checkpoint");
        // First as versions of another transaction, then as own writes.
        let mut transaction = engine.begin().expect("a transaction");
        for turn in 0..2 {
            for _ in 0..changes {
                let number = random.random_range(0..rows + 50);
                transaction.delete_by_key(table, &[ValueRef::Int(number)]).expect("deleted");
                match random.random_range(0..2) {
                    0 => drop(known.remove(&number)),
                    _ => {
                        known.insert(number);
                        put(&mut transaction, table, number, "changed").expect("put");
                    }
                }
            }
            if turn == 0 {
                transaction.commit().expect("committed");
                transaction = engine.begin().expect("a transaction");
            }
            for step in [1, 2, 97, 9_999, i64::MAX] {
                for (backward, rows_max) in [(false, 1), (false, 7), (false, usize::MAX), (true, 3), (true, usize::MAX)]
                {
                    let is_wanted = |number: i64| number % step == step / 2;
                    let wanted = known.iter().copied().filter(|number| is_wanted(*number));
                    let wanted: Vec<i64> = match backward {
                        false => wanted.take(rows_max).collect(),
                        true => wanted.rev().take(rows_max).collect(),
                    };
                    let (found, tests) = passing(&transaction, table, backward, rows_max, is_wanted);
                    assert_eq!(found, wanted, "{rows} rows, {changes} changes, every {step}, backward {backward}");
                    assert!(tests <= known.len(), "a row was tested twice");
                }
            }
            for (backward, rows_max) in [(false, 100), (false, 1_024), (true, 3_000)] {
                let known = known.iter().copied();
                let expected: Vec<i64> = if backward { known.rev().collect() } else { known.collect() };
                assert!(numbers_by_batches(&transaction, table, backward, rows_max) == expected, "{rows}, {changes}");
            }
        }
    }
}
