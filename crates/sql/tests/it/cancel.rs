//! Cancelling statements, and deadlines.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rowmill_base::ErrorKind;

use crate::support::{error, rows, run, small};

/// A statement that would run for hours.
const ENDLESS: &str = "SELECT count(*) FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b \
                       WHERE (a.value * b.value) % 7 = 3";

#[test]
fn a_cancelled_statement_ends_soon_and_the_next_one_runs() {
    let (_, mut session) = small();
    let handle = session.cancel_handle();
    let cancelled = Arc::new(Mutex::new(None));
    let at = Arc::clone(&cancelled);
    let thread = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        *at.lock().unwrap() = Some(Instant::now());
        handle.cancel();
    });
    let error = error(&mut session, ENDLESS);
    let waited = cancelled.lock().unwrap().unwrap().elapsed();
    thread.join().unwrap();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    assert!(waited < Duration::from_millis(500), "{waited:?}");
    assert_eq!(rows(&mut session, "SELECT count(*) FROM t")[1], "5");
}

#[test]
fn cancelling_an_idle_session_does_not_affect_later_statements() {
    let (_, mut session) = small();
    session.cancel_handle().cancel();
    assert_eq!(rows(&mut session, "SELECT count(*) FROM t")[1], "5");
}

#[test]
fn a_deadline_ends_a_statement() {
    let (_, mut session) = small();
    run(&mut session, "SET statement_timeout_ms = 200").unwrap();
    let started = Instant::now();
    assert_eq!(error(&mut session, ENDLESS).kind(), ErrorKind::Deadline);
    assert!(started.elapsed() < Duration::from_secs(2));
}

#[test]
fn progress_is_reported_while_a_statement_runs() {
    let (_, mut session) = small();
    let seen = Arc::new(Mutex::new(0));
    let count = Arc::clone(&seen);
    session.set_progress(Some(Arc::new(move |_| *count.lock().unwrap() += 1)));
    run(&mut session, "SET statement_timeout_ms = 700").unwrap();
    error(&mut session, ENDLESS);
    let seen = *seen.lock().unwrap();
    assert!((2..=8).contains(&seen), "{seen} reports in 700 ms");
}
