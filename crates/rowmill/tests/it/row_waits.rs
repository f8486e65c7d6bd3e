//! Transactions that wait for rows: READ COMMITTED with the setting `wait_for_rows`, as connections of the server have
//! it.

use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use rowmill::{Connection, Database, ErrorKind, Result};

/// Long enough for a statement to run unless it waits.
const SOON: Duration = Duration::from_millis(100);

fn database() -> Database {
    let database = Database::memory().unwrap();
    let mut connection = connect(&database);
    connection
        .execute_batch("CREATE TABLE accounts (id INTEGER PRIMARY KEY, owner TEXT UNIQUE, balance INTEGER)")
        .unwrap();
    connection.execute_batch("INSERT INTO accounts VALUES (1, 'ann', 10), (2, 'bob', 20)").unwrap();
    database
}

fn connect(database: &Database) -> Connection {
    let mut connection = database.connect().unwrap();
    connection.execute_batch("SET default_transaction_isolation = 'read committed'").unwrap();
    connection.execute_batch("SET wait_for_rows = true").unwrap();
    connection
}

fn begin(database: &Database) -> Connection {
    let mut connection = connect(database);
    connection.execute_batch("BEGIN").unwrap();
    connection
}

/// Runs statements on a thread of their own, and returns where its end is told.
fn start(mut connection: Connection, statements: &'static [&'static str]) -> Receiver<Result<()>> {
    let (tell, told) = channel();
    thread::spawn(move || {
        let ran = statements.iter().try_for_each(|sql| connection.execute_batch(sql).map(drop));
        tell.send(ran).unwrap();
    });
    told
}

fn balances(database: &Database) -> Vec<i64> {
    let mut connection = connect(database);
    let rows = connection.query("SELECT balance FROM accounts ORDER BY id").unwrap();
    rows.rows().unwrap().iter().map(|row| row.get::<i64>(0).unwrap()).collect()
}

#[test]
fn an_update_waits_and_sees_the_row_of_the_other_transaction() {
    // The first run of a text is not compiled, and a statement with a subquery never is.
    let statements: [&[&str]; 3] = [
        &["UPDATE accounts SET balance = balance * 2 WHERE id = 1", "COMMIT"],
        &["UPDATE accounts SET balance = balance * 2 WHERE id = (SELECT min(id) FROM accounts)", "COMMIT"],
        &["COMMIT", "UPDATE accounts SET balance = balance * 2 WHERE id = 1"],
    ];
    for second_statements in statements {
        for end in ["COMMIT", "ROLLBACK"] {
            let database = database();
            let (mut first, second) = (begin(&database), begin(&database));
            first.execute_batch("UPDATE accounts SET balance = balance + 1 WHERE id = 1").unwrap();
            let told = start(second, second_statements);
            told.recv_timeout(SOON).expect_err("the second transaction waits");
            first.execute_batch(end).unwrap();
            told.recv().unwrap().unwrap();
            assert_eq!(balances(&database), [if end == "COMMIT" { 22 } else { 20 }, 20], "{second_statements:?}");
        }
    }
}

#[test]
fn increments_of_many_transactions_are_all_kept() {
    const THREADS: usize = 6;
    const EACH: usize = 60;
    let database = database();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let mut connection = connect(&database);
            scope.spawn(move || {
                for round in 0..EACH {
                    let is_alone = (thread + round).is_multiple_of(3);
                    if !is_alone {
                        connection.execute_batch("BEGIN").unwrap();
                    }
                    connection.execute_batch("UPDATE accounts SET balance = balance + 1 WHERE id = 1").unwrap();
                    if !is_alone {
                        connection.execute_batch("UPDATE accounts SET balance = balance - 1 WHERE id = 2").unwrap();
                        connection.execute_batch("COMMIT").unwrap();
                    }
                }
            });
        }
    });
    let in_transactions = (0..THREADS * EACH).filter(|at| !(at / EACH + at % EACH).is_multiple_of(3)).count() as i64;
    assert_eq!(balances(&database), [10 + (THREADS * EACH) as i64, 20 - in_transactions]);
}

#[test]
fn an_insert_of_the_same_key_waits_for_the_other_one() {
    let inserts: [&[&str]; 2] = [
        &["INSERT INTO accounts VALUES (3, 'eve', 5)"],
        // Another key, and the same unique value.
        &["INSERT INTO accounts VALUES (4, 'cid', 5)"],
    ];
    for insert in inserts {
        for end in ["COMMIT", "ROLLBACK"] {
            let database = database();
            let (mut first, second) = (begin(&database), begin(&database));
            first.execute_batch("INSERT INTO accounts VALUES (3, 'cid', 1)").unwrap();
            let told = start(second, insert);
            told.recv_timeout(SOON).expect_err("the second transaction waits");
            first.execute_batch(end).unwrap();
            let ran = told.recv().unwrap().map_err(|error| error.kind());
            assert_eq!(ran, if end == "COMMIT" { Err(ErrorKind::UniqueViolation) } else { Ok(()) }, "{insert:?} {end}");
        }
    }
}

#[test]
fn a_locked_row_is_waited_for() {
    const LOCK: &str = "SELECT balance FROM accounts WHERE id = 1 FOR UPDATE";
    // The engine runs a text at first, and a program runs it later.
    for runs_before in [0, 3] {
        let database = database();
        let (mut first, mut second) = (begin(&database), connect(&database));
        for _ in 0..runs_before {
            second.execute_batch("BEGIN").unwrap();
            second.execute_batch(LOCK).unwrap();
            second.execute_batch("COMMIT").unwrap();
        }
        second.execute_batch("BEGIN").unwrap();
        first.execute_batch(LOCK).unwrap();
        let told = start(second, &[LOCK, "UPDATE accounts SET balance = balance * 2 WHERE id = 1", "COMMIT"]);
        told.recv_timeout(SOON).expect_err("the second transaction waits");
        first.execute_batch("UPDATE accounts SET balance = 11 WHERE id = 1").unwrap();
        first.execute_batch("COMMIT").unwrap();
        told.recv().unwrap().unwrap();
        assert_eq!(balances(&database), [22, 20]);
    }
}

#[test]
fn transactions_that_wait_for_each_other_end_with_an_error() {
    let database = database();
    let (mut first, mut second) = (begin(&database), begin(&database));
    first.execute_batch("UPDATE accounts SET balance = 1 WHERE id = 1").unwrap();
    second.execute_batch("UPDATE accounts SET balance = 2 WHERE id = 2").unwrap();
    let told = start(second, &["UPDATE accounts SET balance = 2 WHERE id = 1", "COMMIT"]);
    told.recv_timeout(SOON).expect_err("the second transaction waits");
    let error = first.execute_batch("UPDATE accounts SET balance = 1 WHERE id = 2").unwrap_err();
    assert_eq!((error.kind(), error.kind().sqlstate()), (ErrorKind::Deadlock, "40P01"));
    first.execute_batch("ROLLBACK").unwrap();
    told.recv().unwrap().unwrap();
    assert_eq!(balances(&database), [2, 2]);
}

#[test]
fn a_wait_ends_at_the_deadline_of_the_statement() {
    let database = database();
    let (mut first, mut second) = (begin(&database), begin(&database));
    first.execute_batch("DELETE FROM accounts WHERE id = 1").unwrap();
    second.execute_batch("UPDATE accounts SET balance = 3 WHERE id = 2").unwrap();
    second.execute_batch("SET statement_timeout_ms = 50").unwrap();
    let error = second.execute_batch("UPDATE accounts SET balance = 3 WHERE id = 1").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Deadline);
    // The statement left no trace, and the transaction goes on.
    second.execute_batch("COMMIT").unwrap();
    first.execute_batch("COMMIT").unwrap();
    assert_eq!(balances(&database), [3]);
}

#[test]
fn a_row_that_a_transaction_without_claims_has_written_fails_at_commit() {
    let database = database();
    let mut other = database.connect().unwrap();
    let mut waiting = begin(&database);
    waiting.execute_batch("UPDATE accounts SET balance = balance + 1 WHERE id = 1").unwrap();
    other.execute_batch("UPDATE accounts SET balance = 100 WHERE id = 1").unwrap();
    let error = waiting.execute_batch("UPDATE accounts SET balance = balance + 1 WHERE id = 1").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SerializationFailure);
    assert_eq!(waiting.execute_batch("COMMIT").unwrap_err().kind(), ErrorKind::SerializationFailure);
    assert_eq!(balances(&database), [100, 20]);
}

/// The ids that a query returns.
fn ids(connection: &mut Connection, sql: &str) -> Vec<i64> {
    let rows = connection.query(sql).unwrap();
    rows.rows().unwrap().iter().map(|row| row.get::<i64>(0).unwrap()).collect()
}

#[test]
fn nowait_fails_at_once_on_a_row_that_another_transaction_has() {
    let database = database();
    let (mut first, mut second) = (begin(&database), begin(&database));
    first.execute_batch("UPDATE accounts SET balance = 11 WHERE id = 1").unwrap();
    let error = second.query("SELECT id FROM accounts ORDER BY id FOR UPDATE NOWAIT").map(drop).unwrap_err();
    assert_eq!((error.kind(), error.kind().sqlstate()), (ErrorKind::NotAvailable, "55P03"));
    assert_eq!(ids(&mut second, "SELECT id FROM accounts WHERE id = 2 FOR UPDATE NOWAIT"), [2]);
    let mut alone = connect(&database);
    let error = alone.query("SELECT id FROM accounts WHERE id = 2 FOR SHARE NOWAIT").map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotAvailable);
    first.execute_batch("COMMIT").unwrap();
    second.execute_batch("COMMIT").unwrap();
    assert_eq!(ids(&mut alone, "SELECT id FROM accounts ORDER BY id FOR UPDATE NOWAIT"), [1, 2]);
}

#[test]
fn skip_locked_leaves_out_the_rows_of_other_transactions_before_the_limit() {
    const NEXT: &str = "SELECT id FROM accounts ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED";
    let database = database();
    let mut transactions = [(); 3].map(|()| begin(&database));
    let taken = transactions.each_mut().map(|transaction| ids(transaction, NEXT));
    assert_eq!(taken, [vec![1], vec![2], vec![]]);
    let [first, second, third] = &mut transactions;
    // A transaction does not skip its own rows, and OFFSET counts the rows that are left.
    assert_eq!(ids(first, "SELECT id FROM accounts ORDER BY id FOR UPDATE SKIP LOCKED"), [1]);
    second.execute_batch("ROLLBACK").unwrap();
    assert_eq!(ids(third, "SELECT id FROM accounts a ORDER BY id OFFSET 1 FOR UPDATE OF a SKIP LOCKED"), [0_i64; 0]);
    assert_eq!(ids(third, NEXT), [2]);
    // The commit fails if a transaction without claims writes a row that was locked.
    let mut other = database.connect().unwrap();
    other.execute_batch("UPDATE accounts SET balance = 0 WHERE id = 2").unwrap();
    assert_eq!(third.execute_batch("COMMIT").unwrap_err().kind(), ErrorKind::SerializationFailure);
}

#[test]
fn a_queue_gives_each_job_to_one_worker() {
    const WORKERS: usize = 4;
    const JOBS: i64 = 200;
    let takes = [
        "DELETE FROM jobs WHERE id = (SELECT id FROM jobs ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id",
        "DELETE FROM jobs WHERE id IN (SELECT id FROM jobs ORDER BY id LIMIT 2 FOR UPDATE SKIP LOCKED) RETURNING id",
        "WITH next AS (SELECT id FROM jobs WHERE state = 'new' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) \
         UPDATE jobs SET state = 'done' FROM next WHERE jobs.id = next.id RETURNING jobs.id",
        "WITH next AS (UPDATE jobs SET state = 'done' WHERE id = (SELECT id FROM jobs WHERE state = 'new' \
         ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id) SELECT id FROM next",
    ];
    for (take, in_transaction) in takes.into_iter().flat_map(|take| [(take, false), (take, true)]) {
        let database = Database::memory().unwrap();
        connect(&database).execute_batch("CREATE TABLE jobs (id INTEGER PRIMARY KEY, state TEXT)").unwrap();
        let jobs = format!("INSERT INTO jobs SELECT n, 'new' FROM range({JOBS}) AS r(n)");
        connect(&database).execute_batch(&jobs).unwrap();
        let work = || {
            let mut connection = connect(&database);
            let mut taken = Vec::new();
            loop {
                if in_transaction {
                    connection.execute_batch("BEGIN").unwrap();
                }
                let found = ids(&mut connection, take);
                if in_transaction {
                    connection.execute_batch("COMMIT").unwrap();
                }
                if found.is_empty() {
                    return taken;
                }
                taken.extend(found);
            }
        };
        let mut taken: Vec<i64> = thread::scope(|scope| {
            let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(work)).collect();
            workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
        });
        taken.sort_unstable();
        assert_eq!(taken, (0..JOBS).collect::<Vec<i64>>(), "{take} {in_transaction}");
    }
}
