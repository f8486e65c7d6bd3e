//! What an oracle is: an engine that shares no code with Rowmill and takes the same SQL.

use crate::cell::Answer;
use crate::world::{Setup, World};

/// A statement that runs for longer is cancelled.
pub const SECONDS_MAX: u64 = 8;
/// Answers with more rows are not compared.
pub const ROWS_MAX: usize = 50_000;

/// An engine that Rowmill is compared with.
pub trait Oracle {
    /// The name that reports use.
    fn name(&self) -> &'static str;

    /// Forgets all tables.
    fn reset(&mut self);

    /// Runs one statement.
    fn run(&mut self, sql: &str) -> Answer;

    /// Runs one statement in its other way of number `way`, where the engine has that: to tell whether it agrees with
    /// itself.
    fn run_otherwise(&mut self, _way: usize, _sql: &str) -> Option<Answer> {
        None
    }

    /// Whether the engine takes statements that change rows.
    fn changes_rows(&self) -> bool;

    /// Makes the tables of `world`. Fails where the engine refuses one.
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
