//! Runs random histories against a model: steps of transactions, checkpoints, merges in the background, old snapshots, reopening, and what a
//! process would leave that is killed.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rowmill_txn::Engine;

use crate::durability::killed;
use crate::support::{Dice, open, settings, times};

/// A database and the model of what it has to show.
pub(crate) trait World {
    /// One transaction, by the database and by the model.
    fn step(&mut self, dice: &mut Dice);

    /// Compares the database and all snapshots that are held with the model.
    fn check(&self);

    /// Holds a snapshot from now on, and what it has to show.
    fn hold(&mut self);

    /// Lets go of all snapshots.
    fn release(&mut self);

    fn engine(&mut self) -> &mut Arc<Engine>;
}

/// Has `world` live through `steps`; `path` is where its database lies, if not in memory.
pub(crate) fn live(world: &mut impl World, dice: &mut Dice, steps: usize, rows_per_block: usize, path: Option<&Path>) {
    for step in 0..steps {
        world.step(dice);
        world.check();
        match (dice.roll(12), path) {
            (0, _) => world.hold(),
            (1, _) => world.release(),
            (2, _) => world.engine().checkpoint().expect("a checkpoint"),
            (3, Some(path)) => {
                world.release();
                drop(std::mem::replace(world.engine(), Engine::memory(settings(3)).expect("a stand-in")));
                *world.engine() = open(path, rows_per_block);
                world.check();
            }
            (4, Some(_)) => {
                let folder = tempfile::tempdir().expect("a temporary folder");
                let mut other = killed(world.engine(), folder.path(), rows_per_block);
                std::mem::swap(world.engine(), &mut other);
                world.check();
                std::mem::swap(world.engine(), &mut other);
            }
            _ if step % 10 == 9 => std::thread::sleep(Duration::from_millis(30)),
            _ => {}
        }
    }
}

/// Runs `history` with seeds from `first` on, in a folder each and with blocks of few rows or many. From another seed on with
/// `ROWMILL_SEED=1`, as many as `ROWMILL_HISTORIES` says.
pub(crate) fn of_seeds(first: usize, usual: usize, history: impl Fn(u64, usize, &Path)) {
    let first = times("ROWMILL_SEED", first, first) as u64;
    for seed in first..first + times("ROWMILL_HISTORIES", usual, 4_000) as u64 {
        let folder = tempfile::tempdir().expect("a temporary folder");
        history(seed, [3, 50, 300][seed as usize % 3], folder.path());
    }
}
