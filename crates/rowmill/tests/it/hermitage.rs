//! The anomalies of the Hermitage list in SQL, each transaction on a connection of its own, and the outcome at each
//! isolation level: the table in `docs/sql-semantics.md`. No transaction waits for another here. Where the list has a
//! blocked transaction, ours goes on, and must fail at commit if it lost the race. `crates/txn/tests/it/isolation.rs`
//! tests the anomalies on the engine.

use rowmill::{Connection, Database, ErrorKind, Result, TransactionState};

/// An isolation level. The order is the order of the outcomes in [`at`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    ReadCommitted,
    RepeatableRead,
    Serializable,
}
use Level::{ReadCommitted, RepeatableRead, Serializable};

const LEVELS: [Level; 3] = [ReadCommitted, RepeatableRead, Serializable];

/// The table `test` with the rows (1, 10) and (2, 20).
struct World {
    database: Database,
    level: Level,
}

/// A connection with an open transaction.
struct Session {
    connection: Connection,
}

impl World {
    fn new(level: Level) -> World {
        let database = Database::memory().unwrap();
        let mut connection = database.connect().unwrap();
        connection.execute_batch("CREATE TABLE test (id INTEGER PRIMARY KEY, value INTEGER)").unwrap();
        connection.execute_batch("INSERT INTO test VALUES (1, 10), (2, 20)").unwrap();
        World { database, level }
    }

    fn begin(&self) -> Session {
        let mut connection = self.database.connect().unwrap();
        let level = match self.level {
            ReadCommitted => "READ COMMITTED",
            RepeatableRead => "REPEATABLE READ",
            Serializable => "SERIALIZABLE",
        };
        connection.execute_batch(&format!("BEGIN ISOLATION LEVEL {level}")).unwrap();
        Session { connection }
    }

    fn begin_two(&self) -> (Session, Session) {
        (self.begin(), self.begin())
    }

    fn begin_three(&self) -> (Session, Session, Session) {
        (self.begin(), self.begin(), self.begin())
    }

    /// The committed rows.
    fn rows(&self) -> String {
        self.begin().read("")
    }
}

impl Session {
    /// Returns the rows that meet a condition, in the order of their ids. For example: `1:10 2:20`.
    fn read(&mut self, condition: &str) -> String {
        let sql = format!("SELECT id, value FROM test {condition} ORDER BY id");
        let rows = self.connection.query(&sql).unwrap().rows().unwrap();
        let of_row = |row: &rowmill::Row| format!("{}:{}", row.get::<i64>(0).unwrap(), row.get::<i64>(1).unwrap());
        rows.iter().map(of_row).collect::<Vec<_>>().join(" ")
    }

    fn write(&mut self, sql: &str) -> u64 {
        self.connection.execute_batch(sql).unwrap()
    }

    fn set(&mut self, id: i64, value: i64) {
        assert_eq!(self.write(&format!("UPDATE test SET value = {value} WHERE id = {id}")), 1);
    }

    /// Commits, and returns whether that succeeded. The only allowed error is a lost race, and it must leave no
    /// transaction open.
    fn commit(mut self) -> bool {
        let done: Result<u64> = self.connection.execute_batch("COMMIT");
        assert_eq!(self.connection.transaction_state(), TransactionState::Idle);
        match done {
            Ok(_) => true,
            Err(error) => {
                assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::SerializationFailure, "40001"), "{error}");
                false
            }
        }
    }

    fn roll_back(mut self) {
        self.connection.execute_batch("ROLLBACK").unwrap();
    }
}

/// The expected outcome at a level.
fn at<T: Copy>(level: Level, outcomes: [T; 3]) -> T {
    outcomes[level as usize]
}

#[test]
fn g0_write_cycles() {
    for level in LEVELS {
        let world = World::new(level);
        let (mut first, mut second) = world.begin_two();
        first.set(1, 11);
        second.set(1, 12);
        first.set(2, 21);
        assert!(first.commit());
        assert_eq!(world.rows(), "1:11 2:21");
        second.set(2, 22);
        assert!(!second.commit(), "{level:?}");
        assert_eq!(world.rows(), "1:11 2:21");
    }
}

#[test]
fn g1a_aborted_reads() {
    for level in LEVELS {
        let world = World::new(level);
        let (mut first, mut second) = world.begin_two();
        first.set(1, 101);
        assert_eq!(second.read(""), "1:10 2:20");
        first.roll_back();
        assert_eq!(second.read(""), "1:10 2:20");
        assert!(second.commit());
    }
}

#[test]
fn g1b_intermediate_reads() {
    for level in LEVELS {
        let world = World::new(level);
        let (mut first, mut second) = world.begin_two();
        first.set(1, 101);
        assert_eq!(second.read(""), "1:10 2:20");
        first.set(1, 11);
        assert!(first.commit());
        let expected = at(level, ["1:11 2:20", "1:10 2:20", "1:10 2:20"]);
        assert_eq!(second.read(""), expected, "{level:?}");
        assert!(second.commit());
    }
}

#[test]
fn g1c_circular_information_flow() {
    for level in LEVELS {
        let world = World::new(level);
        let (mut first, mut second) = world.begin_two();
        first.set(1, 11);
        second.set(2, 22);
        assert_eq!(first.read("WHERE id = 2"), "2:20");
        assert_eq!(second.read("WHERE id = 1"), "1:10");
        assert!(first.commit());
        // Each reads the state before the other's write, so each must come before the other: no serial order exists.
        assert_eq!(second.commit(), at(level, [true, true, false]), "{level:?}");
    }
}

#[test]
fn otv_observed_transaction_vanishes() {
    for level in LEVELS {
        let world = World::new(level);
        let (mut first, mut second, mut third) = world.begin_three();
        first.set(1, 11);
        first.set(2, 19);
        second.set(1, 12);
        assert!(first.commit());
        assert_eq!(third.read("WHERE id = 1"), at(level, ["1:11", "1:10", "1:10"]), "{level:?}");
        second.set(2, 18);
        assert_eq!(third.read("WHERE id = 2"), at(level, ["2:19", "2:20", "2:20"]), "{level:?}");
        assert!(!second.commit(), "{level:?}");
        assert_eq!(third.read(""), at(level, ["1:11 2:19", "1:10 2:20", "1:10 2:20"]), "{level:?}");
        assert!(third.commit());
    }
}

#[test]
fn pmp_predicate_many_preceders() {
    for level in LEVELS {
        let world = World::new(level);
        let (mut first, mut second) = world.begin_two();
        assert_eq!(first.read("WHERE value = 30"), "");
        assert_eq!(second.write("INSERT INTO test VALUES (3, 30)"), 1);
        assert!(second.commit());
        assert_eq!(first.read("WHERE value % 3 = 0"), at(level, ["3:30", "", ""]), "{level:?}");
        assert!(first.commit());
    }
}

#[test]
fn pmp_for_writes() {
    for level in LEVELS {
        // The DELETE finds rows by their old values. A statement that sees the change finds another row.
        let world = World::new(level);
        let (mut first, mut second) = world.begin_two();
        assert_eq!(first.write("UPDATE test SET value = value + 10"), 2);
        assert_eq!(second.read("WHERE value = 20"), "2:20");
        assert_eq!(second.write("DELETE FROM test WHERE value = 20"), 1);
        assert!(first.commit());
        assert!(!second.commit(), "{level:?}");
        assert_eq!(world.rows(), "1:20 2:30");

        // Now the first transaction commits before the DELETE.
        let world = World::new(level);
        let (mut first, mut second) = world.begin_two();
        assert_eq!(first.write("UPDATE test SET value = value + 10"), 2);
        assert_eq!(second.read("WHERE value = 20"), "2:20");
        assert!(first.commit());
        assert_eq!(second.write("DELETE FROM test WHERE value = 20"), 1);
        assert_eq!(second.commit(), at(level, [true, false, false]), "{level:?}");
        assert_eq!(world.rows(), at(level, ["2:30", "1:20 2:30", "1:20 2:30"]), "{level:?}");
    }
}

#[test]
fn p4_lost_updates() {
    for level in LEVELS {
        // Both write before either commits.
        let world = World::new(level);
        let (mut first, mut second) = world.begin_two();
        assert_eq!((first.read("WHERE id = 1"), second.read("WHERE id = 1")), ("1:10".into(), "1:10".into()));
        first.set(1, 11);
        second.set(1, 11);
        assert!(first.commit());
        assert!(!second.commit(), "{level:?}");

        // The second transaction writes a value that it computed before the first committed.
        let world = World::new(level);
        let (mut first, mut second) = world.begin_two();
        assert_eq!((first.read("WHERE id = 1"), second.read("WHERE id = 1")), ("1:10".into(), "1:10".into()));
        first.set(1, 11);
        assert!(first.commit());
        second.set(1, 12);
        assert_eq!(second.commit(), at(level, [true, false, false]), "{level:?}");
        assert_eq!(world.rows(), at(level, ["1:12 2:20", "1:11 2:20", "1:11 2:20"]), "{level:?}");

        // A row that was read FOR UPDATE must be unchanged at commit, at every level.
        let world = World::new(level);
        let (mut first, mut second) = world.begin_two();
        first.read("WHERE id = 1");
        let rows = second.connection.query("SELECT value FROM test WHERE id = 1 FOR UPDATE").unwrap().rows().unwrap();
        assert_eq!(rows[0].get::<i64>(0).unwrap(), 10);
        first.set(1, 11);
        assert!(first.commit());
        second.set(1, 12);
        assert!(!second.commit(), "{level:?}");
        assert_eq!(world.rows(), "1:11 2:20");
    }
}

#[test]
fn g_single_read_skew() {
    for level in LEVELS {
        let world = World::new(level);
        let (mut first, mut second) = world.begin_two();
        assert_eq!(first.read("WHERE id = 1"), "1:10");
        assert_eq!(second.read(""), "1:10 2:20");
        second.set(1, 12);
        second.set(2, 18);
        assert!(second.commit());
        assert_eq!(first.read("WHERE id = 2"), at(level, ["2:18", "2:20", "2:20"]), "{level:?}");
        assert!(first.commit());
    }
}

#[test]
fn g_single_read_skew_by_conditions() {
    for level in LEVELS {
        let world = World::new(level);
        let (mut first, mut second) = world.begin_two();
        assert_eq!(first.read("WHERE value % 5 = 0"), "1:10 2:20");
        assert_eq!(second.write("UPDATE test SET value = 12 WHERE value = 10"), 1);
        assert!(second.commit());
        assert_eq!(first.read("WHERE value % 3 = 0"), at(level, ["1:12", "", ""]), "{level:?}");
        assert!(first.commit());
    }
}

#[test]
fn g_single_read_skew_in_a_write() {
    for level in LEVELS {
        let world = World::new(level);
        let (mut first, mut second) = world.begin_two();
        assert_eq!(first.read("WHERE id = 1"), "1:10");
        assert_eq!(second.read(""), "1:10 2:20");
        second.set(1, 12);
        second.set(2, 18);
        assert!(second.commit());
        // A transaction with a snapshot still sees 20.
        assert_eq!(first.write("DELETE FROM test WHERE value = 20"), at(level, [0, 1, 1]), "{level:?}");
        assert_eq!(first.commit(), at(level, [true, false, false]), "{level:?}");
        assert_eq!(world.rows(), "1:12 2:18");
    }
}

#[test]
fn g2_item_write_skew() {
    for level in LEVELS {
        let world = World::new(level);
        let (mut first, mut second) = world.begin_two();
        assert_eq!(first.read("WHERE id IN (1, 2)"), "1:10 2:20");
        assert_eq!(second.read("WHERE id IN (1, 2)"), "1:10 2:20");
        first.set(1, 11);
        second.set(2, 21);
        assert!(first.commit());
        assert_eq!(second.commit(), at(level, [true, true, false]), "{level:?}");
        assert_eq!(world.rows(), at(level, ["1:11 2:21", "1:11 2:21", "1:11 2:20"]), "{level:?}");
    }
}

#[test]
fn g2_write_skew_by_conditions() {
    for level in LEVELS {
        let world = World::new(level);
        let (mut first, mut second) = world.begin_two();
        assert_eq!(first.read("WHERE value % 3 = 0"), "");
        assert_eq!(second.read("WHERE value % 3 = 0"), "");
        first.write("INSERT INTO test VALUES (3, 30)");
        second.write("INSERT INTO test VALUES (4, 42)");
        assert!(first.commit());
        assert_eq!(second.commit(), at(level, [true, true, false]), "{level:?}");
        assert_eq!(
            world.begin().read("WHERE value % 3 = 0"),
            at(level, ["3:30 4:42", "3:30 4:42", "3:30"]),
            "{level:?}"
        );
    }
}

#[test]
fn g2_with_two_edges() {
    for level in LEVELS {
        for third_writes in [false, true] {
            let world = World::new(level);
            let mut first = world.begin();
            assert_eq!(first.read(""), "1:10 2:20");
            let mut second = world.begin();
            assert_eq!(second.write("UPDATE test SET value = value + 5 WHERE id = 2"), 1);
            assert!(second.commit());
            let mut third = world.begin();
            assert_eq!(third.read(""), "1:10 2:25");
            if third_writes {
                third.write("INSERT INTO test VALUES (3, 30)");
            }
            assert!(third.commit());
            // The third transaction saw the second's write but not the first's, and the first did not see the second's:
            // a cycle.
            first.set(1, 0);
            assert_eq!(first.commit(), at(level, [true, true, false]), "{level:?}");
        }
    }
}
