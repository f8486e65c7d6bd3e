//! Forces operators to take a certain way, for tests. Normally an operator chooses its way by the amount of data and
//! by the data itself. Tests with little data use this to cover every way.

use std::sync::OnceLock;

use crate::hash;

/// The choices that are forced for all operators of the process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Forced {
    /// Makes all hashes equal.
    pub equal_hashes: bool,
    /// The number of rows per partition of a grouping or join.
    pub rows_per_partition: Option<usize>,
    /// The way in which rows find their groups.
    pub group: Option<GroupWay>,
    /// The way in which the distinct values of an argument find their groups.
    pub distinct: Option<DistinctWay>,
    /// The way in which rows of a join's build side are found.
    pub join: Option<JoinWay>,
    /// Makes operators write their state to disk whenever they can.
    pub spills: bool,
    /// Makes groupings work by slices of time whenever they can.
    pub slices: bool,
    /// Makes sorts leave texts in their table whenever they can.
    pub late_sorts: bool,
}

/// The way in which rows find their groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupWay {
    /// Each row goes into the table of its worker, however many groups there are.
    Table,
    /// Each row goes into the table of its worker, but tables are full after a few groups.
    SmallTable,
    /// Rows are not looked up until all rows with the same key are together.
    PastTable,
}

/// The way in which the distinct values of an argument find their groups, if there is more than one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DistinctWay {
    /// Range by range of the values, even if there are many groups.
    Ranges,
    /// By a grouping over keys and values, below a grouping over the keys.
    Steps,
    /// Together with the other states of their group.
    Group,
}

/// The way in which rows of a join's build side are found. Only keys that are small numbers have more than one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinWay {
    /// Directly by the key.
    Direct,
    /// By the number of keys that are less than the key.
    Ranked,
    /// By the hash of the key.
    Hashed,
}

static FORCED: OnceLock<Forced> = OnceLock::new();

/// Sets the forced choices. Must be called at most once in a process, before its first query.
///
/// # Panics
///
/// If it was called before, or if a query has run: data that was made in one way cannot be read in the other.
pub fn force(forced: Forced) {
    assert!(FORCED.set(forced).is_ok(), "choices must be forced before the first query");
    if forced.equal_hashes {
        hash::make_all_equal();
    }
}

pub(crate) fn forced() -> &'static Forced {
    FORCED.get_or_init(Forced::default)
}

/// Returns the forced number of rows, or else `usual`.
pub(crate) fn rows_per_partition(usual: usize) -> usize {
    forced().rows_per_partition.unwrap_or(usual)
}
