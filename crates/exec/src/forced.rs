//! Ways that operators are made to take. Which one they would choose depends on how much data there is, and on what is in
//! it; tests that have little of it see to it here that each way is taken.

use std::sync::OnceLock;

use crate::hash;

/// What holds for all operators of the process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Forced {
    /// All hashes are equal.
    pub equal_hashes: bool,
    /// Rows for which another partition of a grouping or join is made.
    pub rows_per_partition: Option<usize>,
    /// How rows come to their groups.
    pub group: Option<GroupWay>,
    /// How the distinct values of an argument come to their groups.
    pub distinct: Option<DistinctWay>,
    /// How the rows of a join's build side are found.
    pub join: Option<JoinWay>,
}

/// How rows come to their groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupWay {
    /// Each is put into the table of its worker, however many groups there are.
    Table,
    /// Tables are full after a few groups.
    SmallTable,
    /// None is looked up before all that may have its key are there.
    PastTable,
}

/// How the distinct values of an argument come to their groups, where there is more than one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DistinctWay {
    /// Range by range of the values, however many groups there are.
    Ranges,
    /// By a grouping of keys and values below one of the keys.
    Steps,
    /// With the other states of their group.
    Group,
}

/// How the rows of a join's build side are found. Where keys are no small numbers there is only one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinWay {
    /// By the key.
    Direct,
    /// By the number of keys below the key.
    Ranked,
    /// By the hash of the key.
    Hashed,
}

static FORCED: OnceLock<Forced> = OnceLock::new();

/// Sets what is forced. To be called once in a process, before its first query.
///
/// # Panics
///
/// If it was called before, or a query was run: what was made one way cannot be read the other way.
pub fn force(forced: Forced) {
    assert!(FORCED.set(forced).is_ok(), "what is forced is set before the first query");
    if forced.equal_hashes {
        hash::make_all_equal();
    }
}

pub(crate) fn forced() -> &'static Forced {
    FORCED.get_or_init(Forced::default)
}

/// `usual`, or the number of rows that is forced.
pub(crate) fn rows_per_partition(usual: usize) -> usize {
    forced().rows_per_partition.unwrap_or(usual)
}
