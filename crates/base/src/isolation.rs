//! The isolation levels: what a transaction sees of others.

/// The isolation level of a transaction. At every level, a transaction fails if it writes a key that another
/// transaction has written and committed since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// Each statement sees the commits before the statement.
    ReadCommitted,
    /// All statements see the commits before the transaction.
    #[default]
    Snapshot,
    /// Like `Snapshot`. In addition, a transaction that writes fails if another one has since written anything that it
    /// has read. The result is as if transactions had run one after the other.
    Serializable,
}

impl Isolation {
    /// The names that the setting and `ISOLATION LEVEL` accept. The first one is the default.
    pub const NAMES: &'static [&'static str] = &["repeatable read", "read committed", "serializable"];

    /// Returns the level with this name, which must be in [`Isolation::NAMES`].
    pub fn of_name(name: &str) -> Isolation {
        let levels = [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable];
        levels.into_iter().find(|level| level.name() == name).expect("a setting must have a known name")
    }

    /// The name of the level in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Isolation::ReadCommitted => "read committed",
            Isolation::Snapshot => "repeatable read",
            Isolation::Serializable => "serializable",
        }
    }
}
