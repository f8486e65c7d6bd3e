//! The interface to an oracle: an engine that shares no code with Rowmill and understands the same SQL.

use crate::cell::Answer;
use crate::world::{Setup, World};

/// A statement that runs for longer than this is cancelled.
pub const SECONDS_MAX: u64 = 8;
/// We do not compare answers with more rows than this.
pub const ROWS_MAX: usize = 50_000;

/// An engine with which we compare Rowmill.
pub trait Oracle {
    /// The name for reports.
    fn name(&self) -> &'static str;

    /// Removes all tables. The next statement should find an empty database.
    fn reset(&mut self);

    /// Runs one statement.
    fn run(&mut self, sql: &str) -> Answer;

    /// Runs one statement in the engine's other way number `way`, if it has that way. So we can tell whether the engine
    /// agrees with itself.
    fn run_otherwise(&mut self, _way: usize, _sql: &str) -> Option<Answer> {
        None
    }

    /// Whether the engine accepts statements that change rows.
    fn changes_rows(&self) -> bool;

    /// Makes the tables of `world`. Fails if the engine refuses one.
    fn build(&mut self, world: &World) -> Result<(), String> {
        self.reset();
        for setup in world.tables.iter().flat_map(|table| &table.statements) {
            let (Setup::Both(sql) | Setup::Oracle(sql)) = setup else { continue };
            if let Answer::Failed { message, .. } = self.run(sql) {
                return Err(format!("{}: {sql}: {message}", self.name()));
            }
        }
        Ok(())
    }
}
