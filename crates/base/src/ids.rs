//! Ids as types. An id is never reused, so that a stored reference cannot come to mean something else.

use std::fmt;

macro_rules! id {
    ($($(#[$doc:meta])* $name:ident($repr:ty);)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $repr);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

id! {
    /// A schema (namespace) of the catalog.
    SchemaId(u32);
    /// A table of the database.
    TableId(u32);
    /// A view of the database.
    ViewId(u32);
    /// A role: a user, a group of users, or both.
    RoleId(u32);
    /// The keys of a keyed table or of one of its indexes. A table gets new ones when it is emptied.
    IndexId(u32);
    /// A column of its table. Not its position, which may change.
    ColumnId(u32);
    /// A sealed block of its table.
    BlockId(u64);
    /// A commit. The last commit that a snapshot sees names the snapshot.
    CommitId(u64);
    /// A row of its table. Given at commit and never changed.
    RowNumber(u64);
}

/// Set in the ids that tables of attached databases have within a statement. No stored table has such an id, because
/// ids count from 1.
const ATTACHED: u32 = 1 << 31;

impl TableId {
    /// The id of a table of another database. `number` tells the tables of one statement apart.
    pub fn attached(number: u32) -> TableId {
        TableId(number | ATTACHED)
    }

    /// Whether the id is that of a table of another database, which no catalog knows.
    pub fn is_attached(self) -> bool {
        self.0 & ATTACHED != 0
    }
}
