//! The anomalies of transactions, by the names of the Hermitage suite, and what each level does about them.
//!
//! No transaction waits for another one here: where the suite has a transaction blocked, ours goes on and fails when it
//! commits, if it has to.

use std::sync::Arc;

use rowmill_base::{ColumnId, Error, ErrorKind, Isolation, TableId};
use rowmill_storage::keyed::KeyRange;
use rowmill_storage::keyed::ValueRef::{self, Int, Null, Text};
use rowmill_txn::keyed::{RangeScan, RowBatch, TableCodec};
use rowmill_txn::{Engine, IndexSpec, KeyColumn, TableSource, Transaction};

use crate::support::{create, create_keyed, insert, open, settings};

const LEVELS: [Isolation; 3] = [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable];

/// A table with the rows (1, 10) and (2, 20).
struct World {
    engine: Arc<Engine>,
    codec: Arc<TableCodec>,
    level: Isolation,
}

/// A transaction whose statements begin as those of SQL do.
struct Session {
    transaction: Transaction,
    codec: Arc<TableCodec>,
}

impl World {
    fn over(engine: Arc<Engine>, level: Isolation) -> World {
        let mut transaction = engine.begin().expect("a transaction");
        let table = create_keyed(&mut transaction, "Test").expect("a table");
        for (number, text) in [(1, "10"), (2, "20")] {
            transaction.insert_row(table, &[Int(number), Text(text)]).expect("inserted");
        }
        transaction.commit().expect("committed");
        let codec = engine.snapshot().expect("a snapshot").keyed_codec(table).expect("a codec");
        World { engine, codec, level }
    }

    fn new(level: Isolation) -> World {
        World::over(Engine::memory(settings(50)).expect("a database in memory"), level)
    }

    /// With another index, in which no two rows have one text.
    fn of_unique_texts(level: Isolation) -> World {
        let world = World::new(level);
        let mut transaction = world.engine.begin().expect("a transaction");
        let parts = vec![KeyColumn { column: ColumnId(1), descending: false }];
        let index = IndexSpec { name: "only".into(), parts, unique: true };
        transaction.create_index(world.codec.def().id, index).expect("an index");
        transaction.commit().expect("committed");
        let codec = world.engine.snapshot().expect("a snapshot").keyed_codec(world.codec.def().id);
        World { codec: codec.expect("a codec"), ..world }
    }

    fn begin(&self) -> Session {
        let mut transaction = self.engine.begin().expect("a transaction");
        transaction.set_isolation(self.level);
        Session { transaction, codec: Arc::clone(&self.codec) }
    }

    fn begin_two(&self) -> (Session, Session) {
        (self.begin(), self.begin())
    }

    /// The committed rows.
    fn rows(&self) -> Vec<(i64, String)> {
        self.begin().rows()
    }
}

impl Session {
    fn key(&self, number: i64) -> Vec<u8> {
        let mut key = Vec::new();
        self.codec.encode_key(None, &[Int(number)], &mut key).expect("a key");
        key
    }

    fn text(&self, key: &[u8], row: &[u8]) -> String {
        match self.codec.column(key, row, 1, &mut Vec::new()).expect("a value") {
            Text(text) => text.to_owned(),
            other => panic!("{other:?}"),
        }
    }

    fn get(&mut self, number: i64) -> Option<String> {
        self.transaction.refresh().expect("a snapshot");
        let (key, mut row) = (self.key(number), Vec::new());
        let found = self.transaction.reader().get(&key, &mut row).expect("read");
        found.then(|| self.text(&key, &row))
    }

    fn rows(&mut self) -> Vec<(i64, String)> {
        self.transaction.refresh().expect("a snapshot");
        let (head, mut scan, mut found) =
            (self.codec.keys(None).expect("its keys").0.to_vec(), RangeScan::default(), vec![]);
        let mut end = head.clone();
        *end.last_mut().expect("a head") += 1;
        let reader = self.transaction.reader();
        scan.start(&head, &end, false, 2);
        while let Some((key, row)) = scan.next(&reader).expect("read") {
            let Int(number) = self.codec.column(key, row, 0, &mut Vec::new()).expect("a value") else {
                panic!("a number")
            };
            found.push((number, self.text(key, row)));
        }
        found
    }

    fn set(&mut self, number: i64, text: &str) {
        self.transaction.refresh().expect("a snapshot");
        self.set_without_refresh(number, text);
    }

    /// Of a statement that began before.
    fn set_without_refresh(&mut self, number: i64, text: &str) {
        let (key, mut row) = (self.key(number), Vec::new());
        assert!(self.transaction.reader().get(&key, &mut row).expect("read"));
        let values = [Int(number), Text(text)];
        self.transaction.update_values(&Arc::clone(&self.codec), &key, &row, &values).expect("updated");
    }

    fn insert(&mut self, number: i64, text: &str) -> Result<(), Error> {
        self.transaction.refresh().expect("a snapshot");
        self.transaction.insert_values(&Arc::clone(&self.codec), &[Int(number), Text(text)])
    }

    fn delete(&mut self, number: i64) {
        self.transaction.refresh().expect("a snapshot");
        self.transaction.delete_by_key(self.codec.def().id, &[Int(number)]).expect("deleted");
    }

    /// Whether it was committed; what else is a lost race.
    fn commit(self) -> bool {
        match self.transaction.commit() {
            Ok(_) => true,
            Err(error) => {
                assert_eq!(error.sqlstate(), "40001", "{error}");
                assert!(error.message().contains("Test"), "{error}");
                false
            }
        }
    }
}

fn rows(rows: &[(i64, &str)]) -> Vec<(i64, String)> {
    rows.iter().map(|(number, text)| (*number, (*text).to_owned())).collect()
}

/// Whether something holds at [`LEVELS`].
fn at(level: Isolation, outcomes: [bool; 3]) -> bool {
    outcomes[LEVELS.iter().position(|known| *known == level).expect("a level")]
}

#[test]
fn g0_writes_do_not_mix() {
    for level in LEVELS {
        let world = World::new(level);
        let (mut first, mut second) = world.begin_two();
        first.set(1, "11");
        second.set(1, "12");
        first.set(2, "21");
        assert!(first.commit());
        second.set(2, "22");
        assert!(!second.commit(), "{level:?}");
        assert_eq!(world.rows(), rows(&[(1, "11"), (2, "21")]));
    }
}

#[test]
fn g1a_and_g1b_what_is_not_committed_or_not_the_last_is_not_read() {
    for level in LEVELS {
        let world = World::new(level);
        let (mut first, mut second) = world.begin_two();
        first.set(1, "101");
        assert_eq!(second.rows(), rows(&[(1, "10"), (2, "20")]));
        first.set(1, "11");
        assert_eq!(second.get(1).as_deref(), Some("10"));
        first.transaction.rollback();
        assert_eq!(second.rows(), rows(&[(1, "10"), (2, "20")]));
        assert!(second.commit());
    }
}

#[test]
fn g1c_information_does_not_flow_in_circles() {
    for level in LEVELS {
        let world = World::new(level);
        let (mut first, mut second) = world.begin_two();
        first.set(1, "11");
        second.set(2, "22");
        assert_eq!(first.get(2).as_deref(), Some("20"));
        assert_eq!(second.get(1).as_deref(), Some("10"));
        assert!(first.commit());
        assert_eq!(second.commit(), at(level, [true, true, false]), "{level:?}");
    }
}

#[test]
fn otv_what_was_observed_does_not_vanish() {
    for level in LEVELS {
        let world = World::new(level);
        let ((mut first, mut second), mut third) = (world.begin_two(), world.begin());
        first.set(1, "11");
        first.set(2, "19");
        second.set(1, "12");
        assert!(first.commit());
        let seen = third.get(1);
        second.set(2, "18");
        let rest = third.get(2);
        assert!(!second.commit(), "{level:?}");
        let both = (seen.as_deref(), rest.as_deref());
        let expected = if level == Isolation::ReadCommitted { ("11", "19") } else { ("10", "20") };
        assert_eq!(both, (Some(expected.0), Some(expected.1)), "{level:?}");
        assert!(third.commit());
    }
}

#[test]
fn pmp_rows_that_a_condition_asks_for() {
    for level in LEVELS {
        let world = World::new(level);
        let (mut first, mut second) = world.begin_two();
        assert_eq!(first.rows().len(), 2);
        second.insert(3, "30").expect("inserted");
        assert!(second.commit());
        // Later statements see more at read committed alone.
        assert_eq!(first.rows().len() == 3, at(level, [true, false, false]), "{level:?}");
        // A transaction that writes nothing ran at its snapshot.
        assert!(first.commit());

        // With a write by condition: all rows that are seen are deleted.
        let (mut first, mut second) = world.begin_two();
        first.set(1, "20");
        first.set(2, "30");
        let seen = second.rows();
        assert!(first.commit());
        seen.iter().for_each(|(number, _)| second.delete(*number));
        // At read committed each of these statements saw what the first had committed.
        assert_eq!(second.commit(), at(level, [true, false, false]), "{level:?}");
    }
}

#[test]
fn p4_updates_are_not_lost() {
    for level in LEVELS {
        let world = World::new(level);
        let (mut first, mut second) = world.begin_two();
        assert_eq!((first.get(1), second.get(1)), (Some("10".to_owned()), Some("10".to_owned())));
        first.set(1, "11");
        second.set(1, "12");
        assert!(first.commit());
        assert!(!second.commit(), "{level:?}");

        // At read committed a later statement writes over what was committed before it.
        let (mut first, mut second) = world.begin_two();
        assert_eq!((first.get(1), second.get(1)), (Some("11".to_owned()), Some("11".to_owned())));
        first.set(1, "13");
        assert!(first.commit());
        second.set(1, "14");
        assert_eq!(second.commit(), at(level, [true, false, false]), "{level:?}");

        // Not so one that had begun.
        let (mut first, mut second) = world.begin_two();
        second.get(1);
        first.set(1, "15");
        assert!(first.commit());
        second.set_without_refresh(1, "16");
        assert!(!second.commit(), "{level:?}");
    }
}

#[test]
fn g_single_reads_are_of_one_time() {
    for level in LEVELS {
        let world = World::new(level);
        let (mut first, mut second) = world.begin_two();
        assert_eq!(first.get(1).as_deref(), Some("10"));
        second.set(1, "12");
        second.set(2, "18");
        assert!(second.commit());
        let expected = if level == Isolation::ReadCommitted { "18" } else { "20" };
        assert_eq!(first.get(2).as_deref(), Some(expected), "{level:?}");
        first.insert(9, "90").expect("inserted");
        assert_eq!(first.commit(), at(level, [true, true, false]), "{level:?}");
    }
}

#[test]
fn g2_item_two_that_read_what_the_other_writes() {
    for level in LEVELS {
        for key_read in [1, 2] {
            let world = World::new(level);
            let (mut first, mut second) = world.begin_two();
            assert_eq!((first.get(1).is_some(), first.get(2).is_some()), (true, true));
            assert!(second.get(key_read).is_some());
            first.set(1, "11");
            second.set(2, "21");
            assert!(first.commit());
            // What the second has read is written by the first in one of the cases.
            assert_eq!(second.commit(), at(level, [true, true, key_read == 2]), "{level:?}");
        }
    }
}

#[test]
fn g2_two_that_insert_what_the_other_has_looked_for() {
    for level in LEVELS {
        let world = World::new(level);
        let (mut first, mut second) = world.begin_two();
        assert_eq!((first.rows().len(), second.rows().len()), (2, 2));
        first.insert(3, "30").expect("inserted");
        second.insert(4, "42").expect("inserted");
        assert!(first.commit());
        assert_eq!(second.commit(), at(level, [true, true, false]), "{level:?}");
    }
}

/// What a statement that fails has told is known too, and what was written and taken back again.
#[test]
fn g2_two_of_which_one_was_refused_or_took_back_what_the_other_writes() {
    for level in LEVELS {
        // It was told that the row is there.
        let world = World::new(level);
        let (mut first, mut second) = world.begin_two();
        assert_eq!(second.insert(1, "11").expect_err("it is there").kind(), ErrorKind::UniqueViolation);
        second.insert(4, "40").expect("inserted");
        assert_eq!(first.get(4), None);
        first.delete(1);
        assert!(first.commit());
        assert_eq!(second.commit(), at(level, [true, true, false]), "{level:?}");

        // It was told that the row is not there.
        let world = World::new(level);
        let (mut first, mut second) = world.begin_two();
        let savepoint = second.transaction.savepoint();
        second.insert(3, "30").expect("no row has one");
        second.transaction.rollback_to(&savepoint);
        second.insert(4, "40").expect("inserted");
        assert_eq!(first.get(4), None);
        first.insert(3, "31").expect("inserted");
        assert!(first.commit());
        assert_eq!(second.commit(), at(level, [true, true, false]), "{level:?}");
    }
}

#[test]
fn g2_values_of_a_unique_index_that_a_refused_statement_has_told_of() {
    for level in LEVELS {
        for is_taken_back in [false, true] {
            let world = World::of_unique_texts(level);
            let (mut first, mut second) = world.begin_two();
            let savepoint = second.transaction.savepoint();
            match is_taken_back {
                // No row has the text.
                true => {
                    second.insert(5, "30").expect("inserted");
                    second.transaction.rollback_to(&savepoint);
                }
                // A row has it.
                false => drop(second.insert(5, "10").expect_err("it is there")),
            }
            second.insert(4, "40").expect("inserted");
            assert_eq!(first.get(4), None);
            first.set(1, "30");
            assert!(first.commit());
            assert_eq!(second.commit(), at(level, [true, true, false]), "{level:?} {is_taken_back}");
        }
        // A text that was free is given up again.
        let world = World::of_unique_texts(level);
        let (mut first, mut second) = world.begin_two();
        second.set(2, "30");
        second.set(2, "40");
        assert_eq!(first.get(2).as_deref(), Some("20"));
        first.set(1, "30");
        assert!(first.commit());
        assert_eq!(second.commit(), at(level, [true, true, false]), "{level:?}");

        // Refused by its text, it has told that its key is free.
        let world = World::of_unique_texts(level);
        let (mut first, mut second) = world.begin_two();
        assert!(second.insert(5, "10").expect_err("the text is there").message().contains("only"));
        second.insert(4, "40").expect("inserted");
        assert_eq!(first.get(4), None);
        first.insert(5, "50").expect("inserted");
        assert!(first.commit());
        assert_eq!(second.commit(), at(level, [true, true, false]), "{level:?}");
    }
}

/// In the newest snapshot the index would have entries of what the transaction's own row, which it was written over,
/// hides.
#[test]
fn a_transaction_that_has_lost_a_row_reads_the_same_by_index_as_by_key() {
    for level in LEVELS {
        for deletes in [false, true] {
            let world = World::new(level);
            let (mut first, mut second) = world.begin_two();
            match deletes {
                true => second.delete(1),
                false => second.set(1, "mine"),
            }
            first.set(1, "other");
            assert!(first.commit());
            let by_key = second.rows();
            let index = world.codec.def().keyed.as_ref().expect("it has keys").indexes[0].id;
            let table = world.codec.def().id;
            let cursor = second.transaction.keyed_cursor(table, Some(index), KeyRange::default(), false);
            let (mut cursor, mut found) = (cursor.expect("a cursor"), RowBatch::default());
            second.transaction.next_rows(&mut cursor, 10, &mut found).expect("entries and rows agree");
            let mut by_index: Vec<(i64, String)> = Vec::new();
            for (key, row) in found.keys().iter().zip(found.rows().iter()) {
                let Int(number) = world.codec.column(key, row, 0, &mut Vec::new()).expect("a value") else {
                    panic!("a number")
                };
                by_index.push((number, second.text(key, row)));
            }
            by_index.sort();
            assert_eq!(by_index, by_key, "{level:?}, deletes: {deletes}");
            assert!(!second.commit());
        }
    }
}

#[test]
fn reads_are_validated_by_request_at_every_level() {
    for level in LEVELS {
        for writes in [false, true] {
            let world = World::new(level);
            // As a foreign key does: the row that is referred to must stay.
            let (mut first, mut second) = world.begin_two();
            assert!(second.get(1).is_some());
            let key = second.key(1);
            second.transaction.validate_read(&key);
            if writes {
                second.set(2, "refers to 1");
            }
            first.delete(1);
            assert!(first.commit());
            second.transaction.refresh().expect("a snapshot");
            // At serializable who writes nothing ran at its snapshot.
            assert_eq!(second.commit(), at(level, [false, false, !writes]), "{level:?} {writes}");

            // And a transaction that deletes it must find no row that refers to it.
            let (mut first, mut second) = world.begin_two();
            let (start, end) = (second.key(100), second.key(200));
            second.transaction.refresh().expect("a snapshot");
            second.transaction.validate_range(&start, &end);
            second.delete(2);
            first.insert(150, "refers to 2").expect("inserted");
            assert!(first.commit());
            assert!(!second.commit(), "{level:?}");

            // Rows after the range do not matter.
            let (mut first, mut second) = world.begin_two();
            second.transaction.validate_range(&start, &end);
            second.delete(2);
            first.insert(200, "else").expect("inserted");
            assert!(first.commit());
            assert!(second.commit(), "{level:?}");
        }
    }
}

#[test]
fn duplicates_are_said_as_what_they_are() {
    for level in LEVELS {
        let world = World::new(level);
        let (mut first, mut second) = world.begin_two();
        first.insert(3, "30").expect("inserted");
        second.insert(3, "31").expect("no transaction has committed one");
        assert!(first.commit());
        assert!(!second.commit(), "{level:?}");
        let mut third = world.begin();
        assert_eq!(third.insert(3, "32").expect_err("it is there").kind(), ErrorKind::UniqueViolation);
        // What was committed since is a duplicate for a statement that sees it, and a lost race for one that does not.
        let mut fourth = world.begin();
        fourth.insert(4, "40").expect("inserted");
        assert!(fourth.commit());
        match third.insert(4, "41") {
            Ok(()) => assert!(level != Isolation::ReadCommitted && !third.commit(), "{level:?}"),
            Err(error) => {
                assert_eq!((level, error.kind()), (Isolation::ReadCommitted, ErrorKind::UniqueViolation));
            }
        }
    }
}

#[test]
fn writes_of_earlier_statements_are_validated_behind_checkpoints_and_savepoints() {
    let folder = tempfile::tempdir().expect("a folder");
    let world = World::over(open(folder.path(), 50), Isolation::ReadCommitted);
    let (mut first, mut second) = world.begin_two();
    first.set(1, "first statement");
    second.set(1, "between");
    assert!(second.commit());
    // No statement reads the snapshot of the first statement now.
    world.engine.checkpoint().expect("a checkpoint");
    assert_eq!(first.get(2).as_deref(), Some("20"));
    world.engine.checkpoint().expect("a checkpoint");
    assert_eq!(first.get(1).as_deref(), Some("first statement"));
    assert!(!first.commit());

    // A statement that is taken back takes its write with it.
    let (mut first, mut second) = world.begin_two();
    let savepoint = first.transaction.savepoint();
    first.set(1, "taken back");
    second.set(1, "second");
    assert!(second.commit());
    assert_eq!(first.get(2).as_deref(), Some("20"));
    first.transaction.rollback_to(&savepoint);
    assert_eq!(first.get(1).as_deref(), Some("second"));
    first.set(1, "again");
    assert!(first.commit());
    assert_eq!(world.rows(), rows(&[(1, "again"), (2, "20")]));
}

fn numbers(transaction: &mut Transaction, table: TableId) -> u64 {
    transaction.view().expect("a view").table(table).expect("a table").row_count()
}

#[test]
fn columnar_tables_are_read_and_written_beside_others() {
    for level in LEVELS {
        let world = World::new(level);
        let table = create(&world.engine, "Test columns");
        let add = |count: i64| {
            let mut transaction = world.engine.begin().expect("a transaction");
            insert(&mut transaction, table, &(0..count).map(|n| (n, None)).collect::<Vec<_>>());
            transaction.commit().expect("committed");
        };
        add(10);
        let mut session = world.begin();
        assert_eq!(numbers(&mut session.transaction, table), 10);
        session.transaction.note_table_read(table);
        assert_eq!(session.transaction.delete(table, &[3]).expect("deleted"), 1);
        add(5);
        session.transaction.refresh().expect("a snapshot");
        let seen = numbers(&mut session.transaction, table);
        assert_eq!(seen, if level == Isolation::ReadCommitted { 14 } else { 9 }, "{level:?}");
        insert(&mut session.transaction, table, &[(77, None)]);
        assert_eq!(session.commit(), at(level, [true, true, false]), "{level:?}");

        // A row that another transaction deletes is lost as soon as we notice it.
        let mut session = world.begin();
        session.transaction.delete(table, &[5]).expect("deleted");
        let mut other = world.engine.begin().expect("a transaction");
        other.delete(table, &[5]).expect("deleted");
        other.commit().expect("committed");
        match session.transaction.refresh() {
            Ok(()) => assert!(level != Isolation::ReadCommitted && !session.commit(), "{level:?}"),
            Err(error) => assert_eq!((level, error.sqlstate()), (Isolation::ReadCommitted, "40001")),
        }
    }
}

#[test]
fn definitions_that_change_between_statements() {
    let world = World::new(Isolation::ReadCommitted);
    let table = world.codec.def().id;
    let alter = |name: &str| {
        let mut transaction = world.engine.begin().expect("a transaction");
        transaction.rename_table(table, name).expect("renamed");
        transaction.commit().expect("committed");
    };
    let mut writing = world.begin();
    writing.set(1, "11");
    let mut reading = world.begin();
    reading.rows();
    alter("Test, renamed");
    assert_eq!(writing.transaction.refresh().expect_err("its table was changed").sqlstate(), "40001");
    reading.transaction.refresh().expect("nothing was written");
    let old = Arc::clone(&world.codec);
    let refused = reading.transaction.insert_values(&old, &[Int(5), Null as ValueRef<'_>]);
    assert_eq!(refused.expect_err("a codec of the old definition").sqlstate(), "40001");
    let codec = reading.transaction.keyed_codec(table).expect("that of now");
    reading.transaction.insert_values(&codec, &[Int(5), Null]).expect("inserted");
    assert!(reading.commit());
}

/// Two accounts may be overdrawn by one, not together. Threads look at both and take from either.
#[test]
fn threads_that_only_serializable_keeps_from_taking_too_much() {
    const THREADS: i64 = 3;
    const ROUNDS: i64 = 60;
    let folder = tempfile::tempdir().expect("a folder");
    let engine = open(folder.path(), 50);
    engine.set("durability", "relaxed").expect("a word");
    let world = World::over(engine, Isolation::Serializable);
    let total = |session: &mut Session| {
        let amounts = session.rows().into_iter().map(|(_, text)| text.parse::<i64>().expect("a number"));
        amounts.sum::<i64>()
    };
    let taken: i64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (world, total) = (&world, &total);
                scope.spawn(move || {
                    let mut taken = 0;
                    for round in 0..ROUNDS {
                        let mut session = world.begin();
                        let (account, put_in) = (1 + (thread + round) % 2, round % 3 == 0);
                        let amount = session.get(account).expect("it is there").parse::<i64>().expect("a number");
                        let change = if put_in { 1 } else { -2 };
                        if total(&mut session) + change < 0 {
                            continue;
                        }
                        session.set(account, &(amount + change).to_string());
                        taken -= if session.commit() { change } else { 0 };
                        if round % 20 == thread {
                            world.engine.checkpoint().expect("a checkpoint");
                        }
                        assert!(total(&mut world.begin()) >= 0);
                    }
                    taken
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("it ends")).sum()
    });
    assert_eq!(total(&mut world.begin()), 30 - taken);
}
