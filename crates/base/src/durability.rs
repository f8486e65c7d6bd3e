//! What a commit waits for.

/// When a commit is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// When it is on disk.
    Full,
    /// When the log has it: it outlives the process, and a power cut within a bounded time.
    Relaxed,
    /// At once, and there is no log: it outlives the process with the next checkpoint.
    Off,
}

impl Durability {
    /// The words for them, in order.
    pub(crate) const NAMES: &[&str] = &["full", "relaxed", "off"];

    /// Its word.
    pub fn name(self) -> &'static str {
        Durability::NAMES[self as usize]
    }

    /// The one of a word of [`Durability::NAMES`].
    pub(crate) fn named(word: &str) -> Durability {
        match Durability::NAMES.iter().position(|name| *name == word) {
            Some(0) => Durability::Full,
            Some(1) => Durability::Relaxed,
            _ => Durability::Off,
        }
    }
}
