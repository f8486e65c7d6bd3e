//! Advisory locks of two connections.

use std::time::Duration;

use rowmill::{Connection, Database, ErrorKind};

fn take(connection: &mut Connection, call: &str) -> bool {
    connection.query_as::<bool>(&format!("SELECT {call}"), ()).unwrap()[0]
}

#[test]
fn a_lock_excludes_the_other_connection_until_it_ends() {
    let database = Database::memory().unwrap();
    let mut a = database.connect().unwrap();
    let mut b = database.connect().unwrap();
    assert!(take(&mut a, "pg_try_advisory_lock(1)"));
    assert!(!take(&mut b, "pg_try_advisory_lock(1)"));
    assert!(!take(&mut b, "pg_try_advisory_lock_shared(1)"));
    assert!(take(&mut b, "pg_try_advisory_lock(0, 1)"));
    drop(a);
    assert!(take(&mut b, "pg_try_advisory_lock(1)"));
}

#[test]
fn a_lock_is_given_up_as_often_as_it_was_taken() {
    let mut a = Connection::open_in_memory().unwrap();
    assert!(take(&mut a, "pg_try_advisory_lock(1)") && take(&mut a, "pg_try_advisory_lock(1)"));
    let given_up = |a: &mut Connection| take(a, "pg_advisory_unlock(1)");
    assert_eq!([given_up(&mut a), given_up(&mut a), given_up(&mut a)], [true, true, false]);
    assert!(take(&mut a, "pg_try_advisory_lock_shared(5)"));
    assert!(!take(&mut a, "pg_advisory_unlock(5)") && take(&mut a, "pg_advisory_unlock_shared(5)"));
}

#[test]
fn a_lock_of_a_transaction_ends_with_it_and_a_waiting_statement_goes_on() {
    let database = Database::memory().unwrap();
    let mut a = database.connect().unwrap();
    let mut b = database.connect().unwrap();
    a.execute_batch("BEGIN").unwrap();
    a.execute_batch("SELECT pg_advisory_xact_lock(7)").unwrap();
    assert!(!take(&mut b, "pg_try_advisory_lock(7)"));
    let waits = std::thread::spawn(move || {
        b.execute_batch("SELECT pg_advisory_lock(7)").unwrap();
        b
    });
    std::thread::sleep(Duration::from_millis(50));
    a.execute_batch("COMMIT").unwrap();
    let mut b = waits.join().unwrap();
    assert!(!take(&mut a, "pg_try_advisory_lock(7)"));
    assert!(take(&mut b, "pg_advisory_unlock(7)"));
}

#[test]
fn waiting_for_a_lock_ends_at_the_timeout() {
    let database = Database::memory().unwrap();
    let mut a = database.connect().unwrap();
    let mut b = database.connect().unwrap();
    assert!(take(&mut a, "pg_try_advisory_lock(1)"));
    b.execute_batch("SET statement_timeout_ms = 50").unwrap();
    assert_eq!(b.execute_batch("SELECT pg_advisory_lock(1)").unwrap_err().kind(), ErrorKind::Deadline);
}
