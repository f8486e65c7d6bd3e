//! What a transaction may see and overlook of others.

/// What holds of transactions that run beside each other. At every level a transaction that has written a key which another one
/// has written and committed since fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// Each statement sees what was committed before it.
    ReadCommitted,
    /// All statements see what was committed before the transaction.
    #[default]
    Snapshot,
    /// The same, and a transaction that writes fails if anything that it has read was written since: as if transactions had
    /// run one after the other.
    Serializable,
}

impl Isolation {
    /// What may be written, of the setting and behind `ISOLATION LEVEL`; the first is the default.
    pub const NAMES: &'static [&'static str] = &["repeatable read", "read committed", "serializable"];

    /// The level called so, which is one of [`Isolation::NAMES`].
    pub fn of_name(name: &str) -> Isolation {
        let levels = [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable];
        levels.into_iter().find(|level| level.name() == name).expect("settings hold names that there are")
    }

    /// Its name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Isolation::ReadCommitted => "read committed",
            Isolation::Snapshot => "repeatable read",
            Isolation::Serializable => "serializable",
        }
    }
}
