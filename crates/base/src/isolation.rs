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
    /// Its name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Isolation::ReadCommitted => "read committed",
            Isolation::Snapshot => "repeatable read",
            Isolation::Serializable => "serializable",
        }
    }
}
