//! Materialized views: the result of a query, stored as a columnar table, with what is needed to bring it up to date.
//!
//! The rows are those of the table. The definition lies beside the table's, so that a refresh, which moves the refresh
//! point, changes no table. A refresh point says which state of the base tables the rows show. A columnar table only
//! gets rows with higher numbers and only loses rows, so three numbers tell whether it has changed since.

use rowmill_base::{CommitId, Result, TableId};
use rowmill_storage::TableSource;

use crate::deletes::Holder;
use crate::snapshot::{Snapshot, TableSnapshot};

/// The definition of a materialized view, beside the definition of the table with its rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaterializedView {
    /// The table with the rows.
    pub table: TableId,
    /// The query.
    pub sql: String,
    /// When the view is refreshed.
    pub refresh: RefreshRule,
    /// Why each refresh computes all rows. `None` if a refresh computes only the groups that have changed.
    pub full_because: Option<String>,
    /// The state that the rows show. `None` if it is not known: then the next refresh computes all rows.
    pub refreshed: Option<RefreshPoint>,
}

/// When a materialized view is refreshed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefreshRule {
    /// After each commit that changes a base table.
    Immediate,
    /// At intervals of this many milliseconds, if a base table has changed.
    Every(u64),
    /// Only by REFRESH MATERIALIZED VIEW.
    Manual,
}

impl RefreshRule {
    /// The longest interval: 366 days.
    pub const EVERY_MS_MAX: u64 = 366 * 86_400_000;
}

/// The state of the base tables that the rows of a materialized view show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefreshPoint {
    /// When the refresh began, in microseconds since 1970-01-01 UTC.
    pub at_us: i64,
    /// The commit whose state the refresh has read.
    pub commit: CommitId,
    /// Whether the query depends on more than rows of tables: on files, functions of the database, the time or chance.
    pub reads_more: bool,
    /// The base tables.
    pub sources: Vec<SourcePoint>,
}

/// The state of one base table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourcePoint {
    /// The table.
    pub table: TableId,
    /// The version of its definition.
    pub version: u32,
    /// The number of the next row. For a keyed table, the last commit that has changed keyed rows.
    pub next: u64,
    /// Rows that blocks and runs hold, deleted ones included. 0 for a keyed table.
    pub rows: u64,
    /// Those of them that are not deleted. 0 for a keyed table.
    pub live: u64,
    /// The number of the first row that is in no block yet. Rows before it get another number only when their block is
    /// rewritten. 0 for a keyed table.
    pub settled: u64,
    /// How many numbers below `next` were given to rows that moved, and not to new ones. 0 for a keyed table.
    pub moved: u64,
}

/// How far a base table is ahead of a refresh point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceLag {
    /// The number of rows inserted and deleted since; 0 if there are none.
    Rows(u64),
    /// The table has changed, but rows cannot be counted: it is keyed, was dropped, or has another definition.
    Unknown,
}

impl RefreshPoint {
    /// Returns how far the tables of `now` are ahead: the sum over all tables.
    pub fn lag(&self, now: &Snapshot) -> SourceLag {
        let mut rows = 0;
        for source in &self.sources {
            match source.lag(now) {
                SourceLag::Rows(more) => rows += more,
                SourceLag::Unknown => return SourceLag::Unknown,
            }
        }
        SourceLag::Rows(rows)
    }
}

impl SourcePoint {
    /// Returns the point of `table` in `snapshot`, or `None` if the table does not exist there.
    pub fn of(snapshot: &Snapshot, table: TableId) -> Option<SourcePoint> {
        let source = snapshot.tables.get(&table)?;
        let version = source.def.version;
        if source.def.keyed.is_some() {
            let next = snapshot.keyed.commit().0;
            return Some(SourcePoint { table, version, next, rows: 0, live: 0, settled: 0, moved: 0 });
        }
        let rows = source.blocks.iter().map(|block| block.rows() as u64).sum::<u64>();
        let rows = rows + source.runs.iter().map(|run| run.rows() as u64).sum::<u64>();
        let next = source.next_row.0;
        let settled = source.runs.first().map_or(next, |run| run.first_row().0);
        Some(SourcePoint { table, version, next, rows, live: source.row_count(), settled, moved: source.moved_rows })
    }

    /// Returns how far the table is ahead in `now`.
    fn lag(&self, now: &Snapshot) -> SourceLag {
        let Some(after) = SourcePoint::of(now, self.table) else { return SourceLag::Unknown };
        let is_columnar = now.tables.get(&self.table).is_some_and(|table| table.def.keyed.is_none());
        if after.version != self.version || after.next < self.next || after.moved < self.moved {
            return SourceLag::Unknown;
        }
        if !is_columnar {
            return if after.next == self.next { SourceLag::Rows(0) } else { SourceLag::Unknown };
        }
        // Every new row has a number, also one that is deleted again by now. So the deletes are at least this many.
        let inserted = (after.next - self.next).saturating_sub(after.moved - self.moved);
        SourceLag::Rows(inserted + (self.live + inserted).saturating_sub(after.live))
    }
}

impl TableSnapshot {
    /// Returns the rows with numbers below `next` that blocks and runs hold: all of them, and those that are not
    /// deleted.
    pub(crate) fn rows_below(&self, next: u64) -> Result<(u64, u64)> {
        let (mut rows, mut live) = (0, 0);
        for holder in Holder::all(&self.blocks, &self.runs) {
            if holder.end_row().0 <= next {
                rows += holder.rows() as u64;
                live += holder.rows() as u64 - holder.deleted().map_or(0, |deleted| deleted.len());
            } else if holder.first_row().0 < next {
                let below = holder.positions_below(&self.def, next)?;
                rows += u64::from(below);
                live += u64::from(below) - holder.deleted().map_or(0, |deleted| deleted.range_cardinality(0..below));
            }
        }
        Ok((rows, live))
    }
}
