//! The durability levels: what a commit waits for.

/// The point at which a commit returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// When the commit is on disk.
    Full,
    /// When the log has the commit. It survives a crash of the process at once, and a power cut after a bounded time.
    Relaxed,
    /// At once, and there is no log. The commit survives a crash only after the next checkpoint.
    Off,
}

impl Durability {
    /// The names of the levels, in order.
    pub(crate) const NAMES: &[&str] = &["full", "relaxed", "off"];

    /// The name of the level.
    pub fn name(self) -> &'static str {
        Durability::NAMES[self as usize]
    }

    /// Returns the level with a name of [`Durability::NAMES`].
    pub(crate) fn named(word: &str) -> Durability {
        match Durability::NAMES.iter().position(|name| *name == word) {
            Some(0) => Durability::Full,
            Some(1) => Durability::Relaxed,
            _ => Durability::Off,
        }
    }
}
