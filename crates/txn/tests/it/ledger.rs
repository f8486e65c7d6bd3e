//! Writers that move amounts between accounts, in keyed and columnar tables at once, so that every state of theirs, and
//! no mixture of two, adds up.
//!
//! Each writer has accounts of its own. A step moves an amount from one of them to another, notes both in the book and
//! counts itself;
//! now and then it takes its oldest notes out of the book again, both of a step.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rowmill_base::TableId;
use rowmill_storage::keyed::ValueRef;
use rowmill_txn::{Engine, Snapshot, Transaction};

use crate::support::{Dice, create, create_keyed, insert, read, values};

const ACCOUNTS: TableId = TableId(0);
const BOOK: TableId = TableId(1);

pub(crate) const WRITERS: i64 = 2;
const ACCOUNTS_EACH: i64 = 40;
const AT_FIRST: i64 = 1_000;
/// Steps behind which a writer's notes are taken out of the book.
const STEPS_KEPT: i64 = 150;

/// The account of a writer that counts its steps.
fn counter(writer: i64) -> i64 {
    writer * 1_000 + ACCOUNTS_EACH
}

fn set(transaction: &mut Transaction, account: i64, amount: i64) {
    transaction.delete_by_key(ACCOUNTS, &[ValueRef::Int(account)]).expect("deleted");
    let text = amount.to_string();
    transaction.insert_row(ACCOUNTS, &[ValueRef::Int(account), ValueRef::Text(&text)]).expect("inserted");
}

/// Makes the tables.
pub(crate) fn prepare(engine: &Arc<Engine>) {
    let mut transaction = engine.begin().expect("a transaction");
    assert_eq!(create_keyed(&mut transaction, "Accounts").expect("a keyed table"), ACCOUNTS);
    for writer in 0..WRITERS {
        (0..ACCOUNTS_EACH).for_each(|account| set(&mut transaction, writer * 1_000 + account, AT_FIRST));
        set(&mut transaction, counter(writer), 0);
    }
    transaction.commit().expect("committed");
    assert_eq!(create(engine, "Book"), BOOK);
}

/// The steps of each writer in a state, which has to add up.
pub(crate) fn steps_of(snapshot: &Snapshot) -> Vec<i64> {
    let accounts: BTreeMap<i64, i64> = values(snapshot, ACCOUNTS)
        .into_iter()
        .map(|(account, amount)| (account, amount.expect("an amount").parse().expect("a number")))
        .collect();
    let book = values(snapshot, BOOK);
    let steps: Vec<i64> = (0..WRITERS).map(|writer| accounts[&counter(writer)]).collect();
    for writer in 0..WRITERS {
        let own = writer * 1_000..writer * 1_000 + ACCOUNTS_EACH;
        let sum: i64 = accounts.range(own).map(|(_, amount)| *amount).sum();
        assert_eq!(sum, ACCOUNTS_EACH * AT_FIRST, "accounts of writer {writer}");
        let is_own = |text: &str| text.starts_with(&format!("{writer} "));
        let notes: Vec<i64> =
            book.iter().filter(|(_, text)| text.as_deref().is_some_and(is_own)).map(|(amount, _)| *amount).collect();
        let taken_out = steps[writer as usize] / STEPS_KEPT * STEPS_KEPT;
        assert_eq!(notes.len() as i64, 2 * (steps[writer as usize] - taken_out), "notes of writer {writer}");
        assert_eq!(notes.iter().sum::<i64>(), 0, "notes of writer {writer}");
    }
    steps
}

fn step(engine: &Arc<Engine>, writer: i64, step: i64, amounts: &mut [i64], dice: &mut Dice) {
    loop {
        let mut transaction = engine.begin().expect("a transaction");
        let (from, to) = (dice.place(amounts.len()), dice.place(amounts.len()));
        let amount = dice.roll(50) as i64;
        let mut after = amounts.to_vec();
        after[from] -= amount;
        after[to] += amount;
        set(&mut transaction, writer * 1_000 + from as i64, after[from]);
        set(&mut transaction, writer * 1_000 + to as i64, after[to]);
        set(&mut transaction, counter(writer), step);
        if step % STEPS_KEPT == 0 {
            let own = format!("{writer} ");
            let found = read(&transaction.view().expect("a view"), BOOK).expect("read");
            let is_own = |text: &Option<String>| text.as_deref().is_some_and(|text| text.starts_with(&own));
            let rows: Vec<u64> = found.iter().filter(|(_, row)| is_own(&row.1)).map(|(number, _)| *number).collect();
            transaction.delete(BOOK, &rows).expect("deleted");
        } else {
            let note = |amount| (amount, Some(format!("{writer} moved in step {step}")));
            insert(&mut transaction, BOOK, &[note(-amount), note(amount)]);
        }
        match transaction.commit() {
            Ok(_) => {
                amounts.copy_from_slice(&after);
                return;
            }
            // Notes that were merged meanwhile, or another one's delete.
            Err(error) => assert_eq!(error.sqlstate(), "40001", "{error}"),
        }
    }
}

/// Writers that go on until they are told to end.
pub(crate) struct Writers {
    is_over: Arc<AtomicBool>,
    steps: Arc<[AtomicI64]>,
    longest: Arc<Mutex<Duration>>,
    threads: Vec<JoinHandle<()>>,
}

impl Writers {
    /// Behind the steps that `engine` has.
    pub(crate) fn start(engine: &Arc<Engine>) -> Writers {
        let snapshot = engine.snapshot().expect("a snapshot");
        let begun = steps_of(&snapshot);
        let accounts: BTreeMap<i64, i64> = values(&snapshot, ACCOUNTS)
            .into_iter()
            .map(|(account, amount)| (account, amount.expect("an amount").parse().expect("a number")))
            .collect();
        let is_over = Arc::new(AtomicBool::new(false));
        let steps: Arc<[AtomicI64]> = begun.iter().map(|step| AtomicI64::new(*step)).collect();
        let longest = Arc::new(Mutex::new(Duration::ZERO));
        let start = |writer: i64| {
            let (engine, is_over, steps, longest) =
                (Arc::clone(engine), Arc::clone(&is_over), Arc::clone(&steps), Arc::clone(&longest));
            let own = writer * 1_000..writer * 1_000 + ACCOUNTS_EACH;
            let mut amounts: Vec<i64> = accounts.range(own).map(|(_, amount)| *amount).collect();
            let mut dice = Dice(writer as u64 + 77);
            std::thread::spawn(move || {
                let done = &steps[writer as usize];
                while !is_over.load(Ordering::Relaxed) {
                    let begun = Instant::now();
                    let next = done.load(Ordering::Relaxed) + 1;
                    step(&engine, writer, next, &mut amounts, &mut dice);
                    done.store(next, Ordering::Release);
                    let mut longest = longest.lock();
                    *longest = longest.max(begun.elapsed());
                }
            })
        };
        let threads = (0..WRITERS).map(start).collect();
        Writers { is_over, steps, longest, threads }
    }

    /// Steps that were acknowledged.
    pub(crate) fn steps(&self) -> Vec<i64> {
        self.steps.iter().map(|steps| steps.load(Ordering::Acquire)).collect()
    }

    /// Returns when each writer has made so many steps more.
    pub(crate) fn wait_for(&self, more: i64) {
        let until: Vec<i64> = self.steps().iter().map(|steps| steps + more).collect();
        let begun = Instant::now();
        while self.steps().iter().zip(&until).any(|(now, until)| now < until) {
            assert!(begun.elapsed() < Duration::from_secs(60), "writers stand still");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// The longest time that a step took since this was asked last.
    pub(crate) fn longest(&self) -> Duration {
        std::mem::take(&mut *self.longest.lock())
    }

    pub(crate) fn end(self) -> Vec<i64> {
        self.is_over.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|thread| thread.join().expect("a writer"));
        self.steps.iter().map(|steps| steps.load(Ordering::Acquire)).collect()
    }
}
