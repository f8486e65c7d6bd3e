//! What a history says: transactions, what each of their statements has seen of which key, and what they have written.

use std::collections::BTreeMap;
use std::fmt;

use rowmill_base::Isolation;

/// What a row has beside its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    /// Of an index.
    pub(super) group: i64,
    /// Of a unique index.
    pub(super) slot: Option<i64>,
    /// Of the writes that have made it, each of which has an id of its own: all since the row came into being in a
    /// history of lists, the last in one of registers.
    pub(super) ids: Vec<u64>,
}

impl Row {
    /// The write that has made it what it is.
    pub(super) fn id(&self) -> u64 {
        *self.ids.last().expect("every write has an id")
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The last ones tell lists apart.
        let from = self.ids.len().saturating_sub(6);
        let cut = if from > 0 { ".. " } else { "" };
        write!(f, "{cut}{:?} in group {}", &self.ids[from..], self.group)?;
        self.slot.map_or(Ok(()), |slot| write!(f, ", slot {slot}"))
    }
}

/// A row, or that there is none.
pub(super) fn say(row: Option<&Row>) -> String {
    row.map_or_else(|| "absent".to_owned(), Row::to_string)
}

/// What a statement has learnt of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Sight {
    Row(Row),
    Absent,
    /// There is some row.
    Present,
    /// There is none in the group.
    OutOfGroup(i64),
    /// There is none in the slot.
    OutOfSlot(i64),
    /// There is one in the slot.
    InSlot(i64),
}

impl Sight {
    /// Whether it is what a key with this row shows.
    pub(super) fn is_of(&self, row: Option<&Row>) -> bool {
        let slot = |wanted: i64| row.is_some_and(|row| row.slot == Some(wanted));
        match self {
            Sight::Row(seen) => row.is_some_and(|row| row.id() == seen.id()),
            Sight::Absent => row.is_none(),
            Sight::Present => row.is_some(),
            Sight::OutOfGroup(group) => row.is_none_or(|row| row.group != *group),
            Sight::OutOfSlot(wanted) => !slot(*wanted),
            Sight::InSlot(wanted) => slot(*wanted),
        }
    }

    /// Whether a condition was asked rather than a row read.
    pub(super) fn is_condition(&self) -> bool {
        !matches!(self, Sight::Row(_))
    }
}

impl fmt::Display for Sight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Sight::Row(row) => write!(f, "{row}"),
            Sight::Absent => write!(f, "absent"),
            Sight::Present => write!(f, "present"),
            Sight::OutOfGroup(group) => write!(f, "not in group {group}"),
            Sight::OutOfSlot(slot) => write!(f, "not in slot {slot}"),
            Sight::InSlot(slot) => write!(f, "in slot {slot}"),
        }
    }
}

/// A place that a transaction writes to: of two that write to one only the first commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Entry {
    Key(i64),
    /// That a slot is a key's. That of another session is in the way too.
    Slot(i64, i64),
}

/// What a transaction has done to an entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Touched {
    /// The snapshot over which it was written first.
    pub(super) since: u64,
    /// Whether it was written last, rather than taken out.
    pub(super) is_there: bool,
}

pub(super) type Entries = BTreeMap<Entry, Touched>;

/// A statement.
#[derive(Clone, Debug, Default)]
pub(super) struct Operation {
    pub(super) said: String,
    /// When it began, and when it had its snapshot.
    pub(super) at: u64,
    pub(super) stood_at: u64,
    /// The last commit that it is to see.
    pub(super) snapshot: u64,
    /// The same of the transaction before.
    pub(super) before: u64,
    /// Of keys that the transaction has not written itself.
    pub(super) sights: Vec<(i64, Sight)>,
    /// A slot that some key has, other than those named.
    pub(super) taken: Option<(i64, Vec<i64>)>,
    /// What the transaction had written itself by then.
    pub(super) own: Entries,
    /// The commit must fail if another transaction has written a row that was seen, at every level.
    pub(super) is_locking: bool,
}

/// What a transaction leaves at a key.
#[derive(Clone, Debug)]
pub(super) struct Written {
    pub(super) row: Option<Row>,
    /// What it has found there.
    pub(super) over: Option<Row>,
}

/// One transaction.
#[derive(Clone, Debug)]
pub(super) struct Record {
    pub(super) name: String,
    pub(super) level: Isolation,
    /// By a clock that all share, before it was begun and after its end was known.
    pub(super) began: u64,
    pub(super) ended: u64,
    /// When its commit was begun, if it was.
    pub(super) asked: Option<u64>,
    pub(super) operations: Vec<Operation>,
    pub(super) written: BTreeMap<i64, Written>,
    pub(super) entries: Entries,
    /// All that it has written at some time, and whether it took that back.
    pub(super) ids: BTreeMap<u64, (Row, bool)>,
    /// What it saw of its own writes that it should not have.
    pub(super) complaints: Vec<String>,
    /// The number of its commit, without writes that of its snapshot; or that it has none.
    pub(super) commit: Option<u64>,
}

impl Record {
    pub(super) fn new(name: String, level: Isolation, began: u64) -> Record {
        Record {
            name,
            level,
            began,
            ended: 0,
            asked: None,
            operations: Vec::new(),
            written: BTreeMap::new(),
            entries: Entries::new(),
            ids: BTreeMap::new(),
            complaints: Vec::new(),
            commit: None,
        }
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = match self.commit {
            None => "did not commit".to_owned(),
            Some(commit) if self.written.is_empty() => format!("has read commit {commit}"),
            Some(commit) => format!("is commit {commit}"),
        };
        writeln!(f, "{} at {:?}, from {} to {}, {end}", self.name, self.level, self.began, self.ended)?;
        for operation in &self.operations {
            write!(f, "    {} over commit {}", operation.said, operation.snapshot)?;
            for (key, sight) in &operation.sights {
                write!(f, "; {key} is {sight}")?;
            }
            if let Some((slot, but)) = &operation.taken {
                write!(f, "; slot {slot} is taken by another than {but:?}")?;
            }
            writeln!(f)?;
        }
        for (key, written) in &self.written {
            writeln!(f, "    leaves {key} {}, over {}", say(written.row.as_ref()), say(written.over.as_ref()))?;
        }
        for (entry, touched) in &self.entries {
            let how = if touched.is_there { "written" } else { "written and taken out" };
            writeln!(f, "    {entry:?} is {how} since commit {}", touched.since)?;
        }
        Ok(())
    }
}
