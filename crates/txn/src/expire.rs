//! Rows of time tables that are older than the table's time to live: a background job deletes them.
//!
//! The job deletes whole blocks by their zone maps. Only in a block or a run that the limit divides, it reads the
//! times. A deleted block gives its space back; a block that has lost a part of its rows is rewritten by the
//! background merge once enough of it is.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use roaring::RoaringBitmap;
use rowmill_base::{Cancel, Result, SqlType, TableId};
use rowmill_storage::{Block, TableDef, times_of};

use crate::bell::Background;
use crate::change::{CommitChange, TableChange};
use crate::commit::publish;
use crate::deletes::DeletesByHolder;
use crate::engine::Core;
use crate::job::Job;
use crate::snapshot::TableSnapshot;
use crate::time_merge::TimeRange;

/// The pause between two searches for expired rows. So a row may be this much older than its time to live.
const PAUSE: Duration = Duration::from_secs(60);

/// So often we look for expired rows of a table without the commit lock.
const UNLOCKED_ATTEMPTS: u32 = 3;

/// The most reports that are kept.
const REPORTS_MAX: usize = 1_000;

/// Rows that were deleted because they were older than the time to live of their table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpiredRows {
    /// The id of the table.
    pub table: TableId,
    /// The name of the table at that time.
    pub name: String,
    /// When they were deleted, in microseconds since 1970-01-01 UTC.
    pub at_us: i64,
    /// Rows before this moment were deleted, in microseconds since 1970-01-01 UTC.
    pub before_us: i64,
    /// The number of rows.
    pub rows: u64,
    /// How many blocks were deleted as a whole.
    pub blocks: u64,
}

/// The last reports of the job, oldest first.
#[derive(Debug, Default)]
pub(crate) struct ExpiryReports(parking_lot::Mutex<VecDeque<ExpiredRows>>);

impl ExpiryReports {
    fn add(&self, report: ExpiredRows) {
        let mut reports = self.0.lock();
        if reports.len() == REPORTS_MAX {
            reports.pop_front();
        }
        reports.push_back(report);
    }

    pub(crate) fn all(&self) -> Vec<ExpiredRows> {
        self.0.lock().iter().cloned().collect()
    }
}

/// Starts the thread that deletes expired rows.
pub(crate) fn start(expirer: &Background, engine: &Arc<Core>) -> Result<()> {
    let engine = Arc::clone(engine);
    // A failed search leaves everything as it was, and the next one tries again.
    expirer.start_every(Job::Expire, PAUSE, move |stop| drop(expire_all(&engine, now_us(), stop)))
}

fn now_us() -> i64 {
    // A clock before 1970 makes nothing expire.
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_epoch.as_micros()).unwrap_or(i64::MAX)
}

/// Deletes the rows of all tables that are expired at `now_us`.
pub(crate) fn expire_all(engine: &Core, now_us: i64, stop: &Cancel) -> Result<()> {
    let tables: Vec<TableId> = engine.latest().tables.keys().copied().collect();
    for id in tables {
        stop.check()?;
        expire(engine, id, now_us)?;
    }
    Ok(())
}

fn expire(engine: &Core, id: TableId, now_us: i64) -> Result<()> {
    for attempt in 0.. {
        // We look for the rows without the lock, so that commits go on. If the table has changed since, we look again,
        // and at last with the lock, because a table may change all the time.
        let locked = (attempt == UNLOCKED_ATTEMPTS).then(|| engine.lock_commit());
        let found = engine.latest();
        let Some(table) = found.tables.get(&id) else { return Ok(()) };
        let Some(life) = table.def.time.as_ref().and_then(|time| time.time_to_live) else { return Ok(()) };
        let before_us = life.unit.add(now_us.into(), -i64::from(life.count));
        let deleted = older_rows(table, before_us)?;
        if deleted.is_empty() {
            return Ok(());
        }
        let committing = locked.unwrap_or_else(|| engine.lock_commit());
        let current = engine.latest();
        if !current.tables.get(&id).is_some_and(|now| Arc::ptr_eq(now, table)) {
            continue;
        }
        let whole = |block: &&Arc<Block>| {
            let rows = deleted.get(&block.first_row()).map_or(0, RoaringBitmap::len);
            rows > 0 && rows == block.live_rows() as u64
        };
        let report = ExpiredRows {
            table: id,
            name: table.def.name.clone(),
            at_us: now_us,
            before_us: i64::try_from(before_us).unwrap_or(i64::MIN),
            rows: deleted.values().map(RoaringBitmap::len).sum(),
            blocks: table.blocks.iter().filter(whole).count() as u64,
        };
        let change = TableChange { deleted, next_row: table.next_row, ..TableChange::default() };
        let published = publish(engine, &current, CommitChange::of_table(&current, id, change))?;
        drop(committing);
        engine.journal().wait_for(&published)?;
        engine.expiry_reports().add(report);
        engine.reap();
        break;
    }
    Ok(())
}

/// The live rows of a time table before a moment.
fn older_rows(table: &TableSnapshot, before_us: i128) -> Result<DeletesByHolder> {
    let mut older = DeletesByHolder::new();
    let Some(column) = table.def.time_column() else { return Ok(older) };
    let Some(limit) = first_time_from(&table.def, column, before_us) else { return Ok(older) };
    for block in &*table.blocks {
        let range = TimeRange::of(&table.def, column, block)?;
        let rows = block.rows() as u32;
        let mut positions: RoaringBitmap = if range.last < limit {
            (0..rows).collect()
        } else if range.first >= limit {
            continue;
        } else if let Some(chunk) = block.chunk(&table.def, column)? {
            before(&times_of(&chunk.read(0..block.rows())?)?, limit)
        } else {
            continue;
        };
        positions -= block.deleted().unwrap_or(&RoaringBitmap::new());
        older.insert(block.first_row(), positions);
    }
    for run in &*table.runs {
        if run.time_range(&table.def)?.is_none_or(|(first, _)| first >= limit) {
            continue;
        }
        let mut positions = before(&times_of(&run.values(&table.def, column)?)?, limit);
        positions -= run.deleted().unwrap_or(&RoaringBitmap::new());
        older.insert(run.first_row(), positions);
    }
    older.retain(|_, positions| !positions.is_empty());
    Ok(older)
}

/// The positions of times before `limit`.
fn before(times: &[i64], limit: i64) -> RoaringBitmap {
    times.iter().zip(0..).filter(|(time, _)| **time < limit).map(|(_, position)| position).collect()
}

/// The first value of a time column that is not before a moment. `None` if all values are at or after it.
fn first_time_from(def: &TableDef, column: usize, moment_us: i128) -> Option<i64> {
    const SECOND_US: i128 = 1_000_000;
    let value = match &def.columns[column].kind {
        SqlType::Date => divide_up(moment_us, 86_400 * SECOND_US),
        SqlType::Timestamp { unit, .. } => {
            let per_second = 10_i128.pow(unit.digits());
            divide_up(moment_us * per_second, SECOND_US)
        }
        _ => return None,
    };
    // A limit below all values leaves all rows; one above all values cannot be, because it is before now.
    i64::try_from(value).ok()
}

fn divide_up(number: i128, divisor: i128) -> i128 {
    -(-number).div_euclid(divisor)
}

#[cfg(test)]
mod tests {
    use rowmill_base::{ColumnId, SchemaId, TimeUnit};
    use rowmill_storage::ColumnDef;

    use super::*;

    #[test]
    fn the_limit_of_a_column_is_its_first_value_that_stays() {
        let limit = |kind: SqlType, moment_us| {
            let name = "at".to_owned();
            let column =
                ColumnDef { id: ColumnId(0), name, kind, nullable: false, default: None, missing: None, part: None };
            let def = TableDef {
                id: TableId(1),
                schema: SchemaId(0),
                name: "t".into(),
                version: 1,
                columns: vec![column],
                next_column: ColumnId(1),
                keyed: None,
                time: None,
                rules: Default::default(),
            };
            first_time_from(&def, 0, moment_us)
        };
        let of_unit = |unit| SqlType::Timestamp { unit, zoned: false };
        assert_eq!(limit(SqlType::Date, 1), Some(1));
        assert_eq!(limit(SqlType::Date, 0), Some(0));
        assert_eq!(limit(SqlType::Date, -1), Some(0));
        assert_eq!(limit(of_unit(TimeUnit::Second), 1_500_000), Some(2));
        assert_eq!(limit(of_unit(TimeUnit::Second), -1_500_000), Some(-1));
        assert_eq!(limit(of_unit(TimeUnit::Millisecond), 1_500), Some(2));
        assert_eq!(limit(of_unit(TimeUnit::Microsecond), 7), Some(7));
        assert_eq!(limit(of_unit(TimeUnit::Nanosecond), 7), Some(7_000));
        assert_eq!(limit(of_unit(TimeUnit::Nanosecond), i128::from(i64::MIN)), None);
    }
}
