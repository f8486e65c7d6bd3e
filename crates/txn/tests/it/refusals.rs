//! What keyed tables refuse: rows that break a rule, keys that are too long, work that has come to its deadline or to a
//! limit of memory, disks and mappings that are full. Each says why, undoes what it was about and nothing else, and
//! once there is room again all goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rowmill_base::{Cancel, ColumnId, CommitId, Error, ErrorKind, Result, SqlType, TableId};
use rowmill_io::{Call, Disk, Fault, FaultyDisk, MemoryDisk};
use rowmill_storage::keyed::ValueRef;
use rowmill_txn::base::{BaseChecked, BaseRead, BatchParts, MemoryBase, OrderedBase, Reader};
use rowmill_txn::{ColumnSpec, Engine, IndexSpec, KeyColumn, MAIN_SCHEMA, Transaction};

use crate::support::{TestRow, create_keyed, settings, values};

fn says(error: &Error, sqlstate: &str, words: &[&str]) {
    assert_eq!(error.sqlstate(), sqlstate, "{error}");
    words.iter().for_each(|word| assert!(error.message().contains(word), "{word}: {error}"));
}

fn keyed(engine: &Arc<Engine>) -> TableId {
    let mut transaction = engine.begin().expect("a transaction");
    let table = create_keyed(&mut transaction, "K").expect("a keyed table");
    transaction.commit().expect("committed");
    table
}

fn put(transaction: &mut Transaction, table: TableId, number: i64, text: &str) -> Result<()> {
    transaction.insert_row(table, &[ValueRef::Int(number), ValueRef::Text(text)])
}

fn commit(engine: &Arc<Engine>, table: TableId, number: i64, text: &str) -> Result<CommitId> {
    let mut transaction = engine.begin()?;
    put(&mut transaction, table, number, text)?;
    transaction.commit()
}

fn found(engine: &Engine, table: TableId) -> Vec<TestRow> {
    values(&engine.snapshot().expect("a snapshot"), table)
}

fn part(column: u32) -> KeyColumn {
    KeyColumn { column: ColumnId(column), descending: false }
}

/// A text under its own key: a code that no two rows share, and a word of three characters at most.
fn texts(engine: &Arc<Engine>) -> TableId {
    let mut transaction = engine.begin().expect("a transaction");
    let main = transaction.base().catalog().schema(MAIN_SCHEMA).expect("always there").id;
    let mut code = ColumnSpec::new("code", SqlType::Int64);
    code.nullable = false;
    let word = ColumnSpec::new("word", SqlType::Text { chars_max: Some(3) });
    let columns = vec![ColumnSpec::new("name", SqlType::TEXT), code, word, ColumnSpec::new("note", SqlType::TEXT)];
    let table = transaction.create_keyed_table(main, "Texts", columns, &[part(0)]).expect("a table");
    let codes = IndexSpec { name: "codes".into(), parts: vec![part(1)], unique: true };
    transaction.create_index(table, codes).expect("an index");
    transaction.commit().expect("committed");
    table
}

fn text_row<'a>(name: &'a str, code: i64, word: &'a str, note: &'a str) -> [ValueRef<'a>; 4] {
    [ValueRef::Text(name), ValueRef::Int(code), ValueRef::Text(word), ValueRef::Text(note)]
}

/// Whether the transaction sees a row, with its note.
fn note_of(transaction: &Transaction, table: TableId, name: &str) -> Option<String> {
    let found = transaction.get(table, &[ValueRef::Text(name)]).expect("read")?;
    let codec = transaction.keyed_codec(table).expect("a codec");
    match codec.column(&found.key, &found.row, 3, &mut Vec::new()).expect("a value") {
        ValueRef::Text(note) => Some(note.to_owned()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_row_that_breaks_a_rule_is_refused_and_its_transaction_goes_on() {
    let engine = Engine::memory(settings(50)).expect("a database in memory");
    let table = texts(&engine);
    let mut transaction = engine.begin().expect("a transaction");
    for (name, code) in [("a", 1), ("b", 2)] {
        transaction.insert_row(table, &text_row(name, code, "abc", "first")).expect("inserted");
    }
    let long = "x".repeat(1_901);
    let null_name = [ValueRef::Null, ValueRef::Int(3), ValueRef::Null, ValueRef::Null];
    let null_code = [ValueRef::Text("c"), ValueRef::Null, ValueRef::Null, ValueRef::Null];
    let refusals: [(&[ValueRef<'_>], &str, &[&str]); 6] = [
        (&text_row("a", 3, "abc", "second"), "23505", &["Texts", "primary key", "'a'"]),
        (&text_row("c", 2, "abc", "second"), "23505", &["Texts", "codes", "2"]),
        (&null_name, "23502", &["name", "Texts"]),
        (&null_code, "23502", &["code", "Texts"]),
        (&text_row("c", 3, "abcd", "second"), "22001", &["word", "Texts", "4 characters"]),
        (&text_row(&long, 3, "abc", "second"), "54000", &["Texts", "1900"]),
    ];
    for (values, sqlstate, words) in refusals {
        says(&transaction.insert_row(table, values).expect_err("a rule is broken"), sqlstate, words);
        // The same where the row was there before: under another key, or under its own.
        let old = transaction.get(table, &[ValueRef::Text("b")]).expect("read").expect("it is there");
        let is_own_code = values[1] == ValueRef::Int(2);
        let updated = transaction.update_row(table, &old, values);
        match is_own_code {
            true => {
                updated.expect("its own code is in no other row's way");
                let moved = transaction.get(table, &[ValueRef::Text("c")]).expect("read").expect("it was moved");
                transaction.update_row(table, &moved, &text_row("b", 2, "abc", "first")).expect("moved back");
            }
            false => says(&updated.expect_err("a rule is broken"), sqlstate, words),
        }
        assert_eq!(note_of(&transaction, table, "a").as_deref(), Some("first"));
        assert_eq!(note_of(&transaction, table, "b").as_deref(), Some("first"));
        assert_eq!(note_of(&transaction, table, "c"), None);
    }
    transaction.insert_row(table, &text_row("c", 3, "abc", "last")).expect("the code is free");
    transaction.commit().expect("committed");
    let after = engine.begin().expect("a transaction");
    let notes = ["a", "b", "c"].map(|name| note_of(&after, table, name));
    assert_eq!(notes.map(|note| note.unwrap_or_default()), ["first", "first", "last"]);
}

#[test]
fn keys_are_as_long_as_the_base_keeps_them_and_no_longer() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engine = crate::support::open(folder.path(), 50);
    let table = texts(&engine);
    let mut transaction = engine.begin().expect("a transaction");
    let longest = (1_800..1_901).rev().map(|length| "x".repeat(length)).find(|name| {
        let inserted = transaction.insert_row(table, &text_row(name, 1, "abc", "long"));
        inserted.map_err(|error| says(&error, "54000", &["Texts", "1900"])).is_ok()
    });
    let longest = longest.expect("one is short enough");
    transaction.commit().expect("committed");
    // Accepted rows are kept.
    engine.checkpoint().expect("a checkpoint");
    drop(engine);
    let engine = crate::support::open(folder.path(), 50);
    let mut transaction = engine.begin().expect("a transaction");
    assert_eq!(note_of(&transaction, table, &longest).as_deref(), Some("long"));

    // An index in which what a row has is too long, shortened and beside its primary key, is not made, and the
    // transaction has what it had.
    let (b, c, long) = ("b".repeat(1_000), "c".repeat(1_000), "y".repeat(3_000));
    transaction.insert_row(table, &text_row(&b, 2, "abc", &long)).expect("a note is no key");
    let notes = || IndexSpec { name: "notes".into(), parts: vec![part(3)], unique: false };
    says(&transaction.create_index(table, notes()).expect_err("a note is too long"), "54000", &["notes", "1900"]);
    transaction.insert_row(table, &text_row(&c, 3, "abc", "short")).expect("inserted");
    assert_eq!(note_of(&transaction, table, &c).as_deref(), Some("short"));
    transaction.delete_by_key(table, &[ValueRef::Text(&b)]).expect("deleted");
    transaction.create_index(table, notes()).expect("now it can be made");
    let old = transaction.get(table, &[ValueRef::Text(&c)]).expect("read").expect("it is there");
    let refused = transaction.update_row(table, &old, &text_row(&c, 3, "abc", &long)).expect_err("it is indexed now");
    says(&refused, "54000", &["notes", "1900"]);
    transaction.insert_row(table, &text_row("d", 4, "abc", &long)).expect("it is shortened, and the key is short");
    transaction.commit().expect("committed");
    engine.checkpoint().expect("a checkpoint");
    drop(engine);
    let engine = crate::support::open(folder.path(), 50);
    let after = engine.begin().expect("a transaction");
    let notes = [&longest[..], &b, &c, "d"].map(|name| note_of(&after, table, name).unwrap_or_default());
    assert_eq!(notes, ["long", "", "short", &long]);
    let checked = engine.check(&Cancel::new()).expect("a check");
    assert!(checked.iter().all(|found| found.problem.is_none()), "{checked:?}");
}

#[test]
fn long_work_on_a_table_ends_at_its_deadline_and_leaves_the_table_as_it_was() {
    let engine = Engine::memory(settings(50)).expect("a database in memory");
    let table = keyed(&engine);
    let mut transaction = engine.begin().expect("a transaction");
    (0..3_000).for_each(|n| put(&mut transaction, table, n, &format!("{n}")).expect("inserted"));
    transaction.commit().expect("committed");

    let cancelled = Cancel::new();
    cancelled.cancel();
    let late = Cancel::new();
    late.set_deadline(Duration::from_millis(1));
    std::thread::sleep(Duration::from_millis(5));
    for (cancel, kind, sqlstate) in [(cancelled, ErrorKind::Cancelled, "57014"), (late, ErrorKind::Deadline, "57P05")] {
        let before = engine.broker().used_bytes();
        let mut transaction = engine.begin().expect("a transaction");
        put(&mut transaction, table, 5_000, "kept").expect("inserted");
        let over = cancel.clone();
        transaction.set_cancel(cancel);
        let index = || IndexSpec { name: "more".into(), parts: vec![part(1)], unique: true };
        let refused = [transaction.create_index(table, index()).map(drop), transaction.truncate(table).map(drop)];
        for refused in refused {
            let error = refused.expect_err("it is to end");
            assert_eq!((error.kind(), error.sqlstate()), (kind, sqlstate), "{error}");
        }
        // The next statement has time again.
        transaction.set_cancel(Cancel::new());
        put(&mut transaction, table, 5_001, "0").expect("no index of that name was made");
        transaction.create_index(table, index()).expect_err("two rows have the text 0 now");
        transaction.delete_by_key(table, &[ValueRef::Int(5_001)]).expect("deleted");
        transaction.create_index(table, index()).expect("the name is free");
        transaction.rollback();
        assert_eq!(engine.broker().used_bytes(), before);
        // A commit is made, or not, as a whole: a caller must never learn of a deadline and then have to ask whether it
        // committed.
        let mut transaction = engine.begin().expect("a transaction");
        put(&mut transaction, table, 9_000, "committed").expect("inserted");
        transaction.set_cancel(over);
        transaction.commit().expect("committed");
        assert!(engine.begin().expect("a transaction").get(table, &[ValueRef::Int(9_000)]).expect("read").is_some());
        let mut transaction = engine.begin().expect("a transaction");
        transaction.delete_by_key(table, &[ValueRef::Int(9_000)]).expect("deleted");
        transaction.commit().expect("committed");
        assert_eq!(found(&engine, table).len(), 3_000);
    }
}

#[test]
fn rows_beyond_memory_and_its_files_are_refused_and_the_rest_is_committed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engine = crate::support::open(folder.path(), 50);
    engine.set("memory_limit", "16MiB").expect("the least");
    engine.set("temp_disk_limit", "40MiB").expect("a limit");
    let table = keyed(&engine);
    let before = engine.broker().used_bytes();
    let mut transaction = engine.begin().expect("a transaction");
    let text = "a text of some length ".repeat(40);
    let mut inserted = 0;
    let error = loop {
        assert!(inserted < 100_000, "the limit holds");
        match put(&mut transaction, table, inserted, &text) {
            Ok(()) => inserted += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::DiskFull);
    says(&error, "53100", &["do not fit memory", "keyed rows of an open transaction"]);
    assert!(error.hint_text().is_some_and(|hint| hint.contains("temp_disk_limit")), "{error}");
    assert!(engine.temp().quota().used_bytes() > 32 << 20, "most rows are in a file by then");
    assert!(transaction.get(table, &[ValueRef::Int(inserted)]).expect("read").is_none(), "it was refused whole");
    drop(transaction);
    assert_eq!(engine.broker().used_bytes(), before);
    assert_eq!((engine.temp().quota().used_bytes(), engine.temp().files().len()), (0, 0));

    let mut transaction = engine.begin().expect("a transaction");
    (0..inserted / 4).for_each(|n| put(&mut transaction, table, n, &text).expect("it is less"));
    transaction.commit().expect("committed");
    engine.checkpoint().expect("a checkpoint");
    assert_eq!(found(&engine, table).len() as i64, inserted / 4);
}

/// A base whose disk may be full.
#[derive(Debug, Default)]
struct FullBase {
    base: MemoryBase,
    is_full: AtomicBool,
}

impl OrderedBase for FullBase {
    fn read(&self) -> Result<Box<dyn BaseRead>> {
        self.base.read()
    }

    fn write_parts(&self, parts: &mut BatchParts<'_>, at: CommitId) -> Result<()> {
        if self.is_full.load(Ordering::Relaxed) {
            return Err(Error::io("write base", &std::io::Error::from_raw_os_error(libc::ENOSPC)));
        }
        self.base.write_parts(parts, at)
    }

    fn commit_id(&self) -> Result<CommitId> {
        self.base.commit_id()
    }

    fn oldest_reader(&self) -> Result<Option<CommitId>> {
        self.base.oldest_reader()
    }

    fn readers(&self) -> Result<Vec<Reader>> {
        self.base.readers()
    }

    fn check(&self, cancel: &Cancel) -> Result<BaseChecked> {
        self.base.check(cancel)
    }

    fn read_again(&self) -> Result<Box<dyn BaseRead>> {
        self.base.read_again()
    }
}

#[test]
fn a_full_disk_refuses_commits_and_checkpoints_of_keyed_rows_and_heals() {
    let faulty = FaultyDisk::new(Arc::new(MemoryDisk::new()));
    let plan = faulty.plan().clone();
    let (disk, base): (Arc<dyn Disk>, _) = (Arc::new(faulty), Arc::new(FullBase::default()));
    let open = || Engine::over(Arc::clone(&disk), Arc::clone(&base) as _, settings(50)).expect("opened");
    let mut engine = open();
    let table = keyed(&engine);
    let text = "a text that fills the log ".repeat(40);
    let mut there: Vec<TestRow> = Vec::new();
    // Whether the log has what the base has not.
    let mut is_behind = true;
    for round in 0..4 {
        // No further file can be made, and segments of the log are short.
        plan.fail_from(Call::Open, 1, Fault::NoSpace);
        base.is_full.store(true, Ordering::Relaxed);
        let mut refused = 0;
        while refused < 3 {
            assert!(there.len() < 1_000, "the log is not full");
            let next = there.len() as i64;
            let mut reading = engine.begin().expect("a transaction");
            match commit(&engine, table, next, &text) {
                Ok(_) => {
                    there.push((next, Some(text.clone())));
                    is_behind = true;
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::DiskFull, "{error}");
                    says(&error, "53100", &["log/"]);
                    refused += 1;
                }
            }
            // Nothing of a commit that was refused is left, for those before it neither.
            assert!(reading.get(table, &[ValueRef::Int(next)]).expect("read").is_none());
            assert_eq!(found(&engine, table), there, "round {round}");
            match engine.checkpoint() {
                Ok(()) => assert!(!is_behind, "the base is full too"),
                Err(error) => says(&error, "53100", &["base"]),
            }
            put(&mut reading, table, -1, "never committed").expect("there is nothing in the way");
        }
        plan.clear();
        if round % 2 == 0 {
            base.is_full.store(false, Ordering::Relaxed);
            engine.checkpoint().expect("there is room again");
        }
        let next = there.len() as i64;
        commit(&engine, table, next, &text).expect("there is room again");
        there.push((next, Some(text.clone())));
        // The log has what the base has no room for.
        drop(std::mem::replace(&mut engine, Engine::memory(settings(50)).expect("a stand-in")));
        base.is_full.store(false, Ordering::Relaxed);
        engine = open();
        is_behind = false;
        assert_eq!(found(&engine, table), there, "round {round}, opened again");
    }
}
