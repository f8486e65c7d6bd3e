//! Runs random histories against a model: steps of transactions, checkpoints, merges in the background, old snapshots,
//! reopening, and what a process would leave that is killed.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rowmill_txn::{Engine, Snapshot};

use crate::durability::killed;
use crate::support::{Dice, open, settings, times};

/// A database and the model of what it has to show.
pub(crate) trait World {
    /// All that a snapshot shows.
    type State: Clone;

    /// One transaction, by the database and by the model.
    fn step(&mut self, dice: &mut Dice);

    /// What the model says that the database has.
    fn model(&self) -> &Self::State;

    /// Compares all that `snapshot` shows with what it has to.
    fn check(&self, snapshot: &Snapshot, expected: &Self::State);

    fn engine(&mut self) -> &mut Arc<Engine>;
}

/// A world, and old snapshots of it with what they have to show.
struct Life<'w, W: World> {
    world: &'w mut W,
    held: Vec<(Arc<Snapshot>, W::State)>,
}

impl<W: World> Life<'_, W> {
    fn snapshot(&mut self) -> Arc<Snapshot> {
        self.world.engine().snapshot().expect("a snapshot")
    }

    fn check(&mut self) {
        let snapshot = self.snapshot();
        self.world.check(&snapshot, self.world.model());
        // Old ones show what they always did.
        self.held.iter().for_each(|(snapshot, expected)| self.world.check(snapshot, expected));
    }
}

/// Has `world` live through `steps`; `path` is where its database lies, if not in memory.
pub(crate) fn live(world: &mut impl World, dice: &mut Dice, steps: usize, rows_per_block: usize, path: Option<&Path>) {
    let mut life = Life { world, held: Vec::new() };
    for step in 0..steps {
        life.world.step(dice);
        life.check();
        match (dice.roll(12), path) {
            (0, _) => {
                let held = (life.snapshot(), life.world.model().clone());
                life.held.push(held);
            }
            (1, _) => life.held.clear(),
            (2, _) => life.world.engine().checkpoint().expect("a checkpoint"),
            (3, Some(path)) => {
                life.held.clear();
                drop(std::mem::replace(life.world.engine(), Engine::memory(settings(3)).expect("a stand-in")));
                *life.world.engine() = open(path, rows_per_block);
                life.check();
            }
            (4, Some(_)) => {
                let folder = tempfile::tempdir().expect("a temporary folder");
                let mut other = killed(life.world.engine(), folder.path(), rows_per_block);
                std::mem::swap(life.world.engine(), &mut other);
                life.check();
                std::mem::swap(life.world.engine(), &mut other);
            }
            _ if step % 10 == 9 => std::thread::sleep(Duration::from_millis(30)),
            _ => {}
        }
    }
}

/// Runs `history` with seeds from `first` on, in a folder each and with blocks of few rows or many. From another seed
/// on with `ROWMILL_SEED=1`, as many as `ROWMILL_HISTORIES` says.
pub(crate) fn of_seeds(first: usize, usual: usize, history: impl Fn(u64, usize, &Path)) {
    let first = times("ROWMILL_SEED", first, first) as u64;
    for seed in first..first + times("ROWMILL_HISTORIES", usual, 4_000) as u64 {
        let folder = tempfile::tempdir().expect("a temporary folder");
        history(seed, [3, 50, 300][seed as usize % 3], folder.path());
    }
}
