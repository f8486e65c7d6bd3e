//! Random histories of transactions that run at once, and whether what they have seen is what their levels promise.
//!
//! Sessions read rows by key, by range and by index, write, insert, delete and move them, and go back to savepoints,
//! beside checkpoints; every write has an id of its own, so that each read tells whose it is. Of that the dependencies
//! between transactions follow (`histories/dependencies.rs`), in which there must be no circle that the level does not
//! allow, and what is wrong without one (`histories/faults.rs`).
//!
//! Half of the histories are of one thread that goes from session to session, and so the same each time; the others are
//! of threads. A failure names the seed: `ROWMILL_SEED=7 ROWMILL_HISTORIES=1` runs that alone. `ROWMILL_SECONDS=3600`
//! goes on from seed to seed for an hour.

mod anomalies;
mod dependencies;
mod faults;
mod record;
mod session;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rowmill_base::{Durability, Isolation};

use crate::support::{Dice, open, times};
use dependencies::{Versions, find_circle};
use faults::find_faults;
use record::Record;
use session::{Session, World};

/// What a history is of.
#[derive(Clone, Copy, Debug)]
struct Shape {
    seed: u64,
    /// Of all transactions, or each has one of its own.
    level: Option<Isolation>,
    of_lists: bool,
    has_threads: bool,
    keys: i64,
    sessions: usize,
    /// Whether ranges and groups are read. A transaction that reads them conflicts with many others, so that other
    /// reasons for conflicts are rarely the only ones.
    reads_wide: bool,
}

impl Shape {
    /// Neighbours differ in all that can be told apart.
    fn of_seed(seed: u64) -> Shape {
        let levels = [Some(Isolation::Serializable), Some(Isolation::Snapshot), Some(Isolation::ReadCommitted), None];
        Shape {
            seed,
            level: levels[seed as usize % 4],
            of_lists: (seed / 4).is_multiple_of(2),
            has_threads: seed / 8 % 2 == 1,
            keys: [4, 8, 20][(seed / 16 % 3) as usize],
            sessions: [3, 2, 6][(seed / 4 % 3) as usize],
            reads_wide: seed / 4 % 5 > 1,
        }
    }

    /// The numbers of one of its threads, or of its only one.
    fn dice(&self, thread: usize) -> Dice {
        let mut dice = Dice(self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ ((thread as u64) << 17));
        dice.roll(2);
        dice
    }

    fn begin<'w>(&self, world: &'w World, name: String, dice: &mut Dice) -> Session<'w> {
        let levels = [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable];
        let level = self.level.unwrap_or(levels[dice.place(3)]);
        let mut session = Session::begin(world, name, level);
        match dice.roll(16) {
            0 => session.set_durability(Durability::Full),
            _ => session.set_durability(Durability::Relaxed),
        }
        session
    }

    /// One thread goes from session to session.
    fn alternate(&self, world: &World, steps: usize) -> Vec<Record> {
        let mut dice = self.dice(0);
        let (mut open, mut history) = (Vec::<Session<'_>>::new(), Vec::new());
        let mut begun = 0;
        for _ in 0..steps {
            if open.is_empty() || open.len() < self.sessions && dice.roll(3) == 0 {
                begun += 1;
                open.push(self.begin(world, format!("T{begun}"), &mut dice));
            }
            let at = dice.place(open.len());
            match dice.roll(40) {
                0..6 => history.push(open.swap_remove(at).commit()),
                6 => history.push(open.swap_remove(at).roll_back()),
                7 => world.engine.checkpoint().expect("a checkpoint"),
                _ => open[at].step(&mut dice),
            }
        }
        history.extend(open.into_iter().map(Session::commit));
        history
    }

    /// Each session has a thread.
    fn run_threads(&self, world: &World, transactions: usize) -> Vec<Record> {
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let checkpoints = scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    world.engine.checkpoint().expect("a checkpoint");
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
            let run = |thread: usize| {
                let mut dice = self.dice(thread + 1);
                let one = |at: usize| {
                    let mut session = self.begin(world, format!("T{}.{at}", thread + 1), &mut dice);
                    for _ in 0..1 + dice.roll(9) {
                        session.step(&mut dice);
                        match dice.roll(16) {
                            0..4 => std::thread::yield_now(),
                            4 => std::thread::sleep(Duration::from_micros(100)),
                            _ => {}
                        }
                    }
                    if dice.roll(12) == 0 { session.roll_back() } else { session.commit() }
                };
                (0..transactions).map(one).collect::<Vec<_>>()
            };
            let threads: Vec<_> = (0..self.sessions).map(|thread| scope.spawn(move || run(thread))).collect();
            let ended: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
            is_over.store(true, Ordering::Relaxed);
            checkpoints.join().expect("checkpoints are made");
            ended.into_iter().flat_map(|ended| ended.expect("a thread that ends")).collect()
        })
    }

    /// Runs it in `folder` and opens that again.
    fn run(&self, folder: &Path) -> Vec<Record> {
        let world = World::over(open(folder, 50), self.keys, self.of_lists, self.reads_wide).expect("a table");
        let mut history = match self.has_threads {
            true => self.run_threads(&world, 24),
            false => self.alternate(&world, 500),
        };
        let read_all =
            |world: &World, name: &str| Session::begin(world, name.to_owned(), Isolation::Serializable).read_all();
        history.push(read_all(&world, "the final reader"));
        let world = world.reopened(|| open(folder, 50));
        history.push(read_all(&world, "the process that opens it again"));
        history.sort_by_key(|record| record.began);
        history
    }
}

/// The first error of a history, if it has one.
fn complaint(history: &[Record]) -> Option<String> {
    let versions = Versions::of(history);
    let circle = find_circle(history, &versions).map(|circle| circle.said);
    let faults = find_faults(history, &versions);
    let rest = (faults.len() > 5).then(|| format!("and {} more", faults.len() - 5));
    let all: Vec<String> = circle.into_iter().chain(faults.into_iter().take(5)).chain(rest).collect();
    (!all.is_empty()).then(|| all.join("\n"))
}

#[test]
fn histories_of_transactions_at_once_are_what_their_levels_promise() {
    let first = times("ROWMILL_SEED", 1, 1) as u64;
    let (count, seconds) = (times("ROWMILL_HISTORIES", 16, 4_000), times("ROWMILL_SECONDS", 0, 0) as u64);
    let begun = Instant::now();
    let (mut seed, mut ended, mut committed) = (first, 0, 0);
    while if seconds > 0 { begun.elapsed().as_secs() < seconds } else { seed < first + count as u64 } {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let shape = Shape::of_seed(seed);
        let history = shape.run(folder.path());
        ended += history.len();
        committed += history.iter().filter(|record| record.commit.is_some()).count();
        if let Some(complaint) = complaint(&history) {
            panic!("{shape:?}, ROWMILL_SEED={seed} ROWMILL_HISTORIES=1:\n{complaint}");
        }
        seed += 1;
    }
    println!("{} histories, {ended} transactions, {committed} of them committed", seed - first);
    assert!(committed * 4 > ended && committed < ended, "{committed} of {ended} transactions have committed");
}

/// Otherwise the levels would have had nothing to do.
#[test]
fn the_histories_of_each_level_would_be_wrong_at_a_higher_one() {
    let found = |level, claimed: Isolation| {
        let shapes = (1..).map(Shape::of_seed).filter(|shape| shape.level == Some(level) && !shape.has_threads);
        let circles = shapes.take(6).filter_map(|shape| {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let mut history = shape.run(folder.path());
            history.iter_mut().for_each(|record| record.level = claimed);
            find_circle(&history, &Versions::of(&history)).map(|circle| circle.name)
        });
        circles.collect::<Vec<_>>()
    };
    let is_plain = |name: &&str| ["G0", "G1c", "G-single", "G-nonadjacent"].contains(name);
    let of_snapshots = found(Isolation::Snapshot, Isolation::Serializable);
    assert!(of_snapshots.len() > 3 && !of_snapshots.iter().any(is_plain), "{of_snapshots:?}");
    let of_statements = found(Isolation::ReadCommitted, Isolation::Snapshot);
    assert!(of_statements.len() > 3 && of_statements.contains(&"G-single"), "{of_statements:?}");
}
