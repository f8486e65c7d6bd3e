//! The rows of a columnar table that were inserted or deleted after a refresh point, for incremental refreshes.
//!
//! ```text
//! numbers of rows:   0 ........ point.next ........ now
//! inserted           numbers from point.next on, not deleted now
//! deleted            numbers below point.next, not deleted then, deleted or gone now
//! ```
//!
//! A row that came and went in between is in neither. A changed row is deleted and inserted.
//!
//! Rows of time tables get other numbers when they move (`renumbering.rs`), so their numbers do not tell when they
//! came. Then we compare the blocks and runs of both states. Rows of the same block or run are the same. All other rows
//! of the older state are looked up under their translated numbers. A row that is not found was deleted, and a row of
//! the newer state that no look-up found was inserted. Without translations, all rows of other blocks and runs count as
//! deleted and inserted. These are too many, which is harmless: their groups are computed again.
//!
//! If the older state is not known, for example after a restart, we take all rows that may be new, and all rows that
//! are marked as deleted now. These are too many too. The counts of the point show whether they are enough: if blocks
//! and runs hold as many rows as they then held plus those that came since, no row has left its block.

use std::sync::Arc;

use roaring::RoaringBitmap;
use rowmill_base::Result;
use rowmill_storage::{Block, OpenRun, TableSource};

use crate::deletes::{DeletesByHolder, Holder, RowFinder};
use crate::materialized::SourcePoint;
use crate::renumbering::RowTranslation;
use crate::snapshot::TableSnapshot;

/// The difference between two states of a columnar table.
#[derive(Clone, Debug)]
pub struct ChangedRows {
    /// Rows that were inserted, and possibly some that had been there before.
    pub inserted: Arc<TableSnapshot>,
    /// Rows that were deleted, and possibly some that had been deleted before, or that are still there.
    pub deleted: Arc<TableSnapshot>,
}

impl ChangedRows {
    /// Returns the rows of `now` that have changed since `point`. `before` is the table at that point, if it is still
    /// known. Returns `None` if the changed rows cannot be known.
    pub fn since(
        point: &SourcePoint,
        before: Option<&TableSnapshot>,
        now: &TableSnapshot,
    ) -> Result<Option<ChangedRows>> {
        let is_later = now.def.id == point.table && now.def.version == point.version && now.next_row.0 >= point.next;
        if !is_later || now.def.keyed.is_some() {
            return Ok(None);
        }
        let Some(before) = before else { return among_marked(point, now) };
        let (inserted, deleted) = match now.numbering.since_known(&before.numbering) {
            Some(moved) if moved.is_empty() => {
                let (_, live) = now.rows_below(point.next)?;
                let deleted = if live == point.live { Vec::new() } else { deleted_since(before, now)? };
                (inserted_since(point.next, now)?, deleted)
            }
            moved => moved_since(before, now, moved.as_ref())?,
        };
        Ok(Some(ChangedRows { inserted: table_of(now, inserted), deleted: table_of(now, deleted) }))
    }

    /// Returns the number of changed rows.
    pub fn rows(&self) -> u64 {
        self.inserted.row_count() + self.deleted.row_count()
    }
}

/// The changed rows if only the refresh point is known. `None` if rows have left their blocks.
fn among_marked(point: &SourcePoint, now: &TableSnapshot) -> Result<Option<ChangedRows>> {
    // Rows of a time table that were in open runs may have exchanged their numbers with newer ones.
    let (first_new, end) = match now.def.time {
        None => (point.next, point.next),
        Some(_) => (point.settled, now.next_row.0),
    };
    let (rows, live) = now.rows_below(end)?;
    let came = end - point.next;
    if rows != point.rows + came {
        return Ok(None);
    }
    let deleted = if live == point.live + came { Vec::new() } else { marked_below(end, now)? };
    let inserted = inserted_since(first_new, now)?;
    Ok(Some(ChangedRows { inserted: table_of(now, inserted), deleted: table_of(now, deleted) }))
}

/// The live rows with numbers from `first` on.
fn inserted_since(first: u64, now: &TableSnapshot) -> Result<Vec<Holder>> {
    let mut inserted = Vec::new();
    for holder in Holder::all(&now.blocks, &now.runs).into_iter().filter(|holder| holder.end_row().0 > first) {
        let below = match holder.first_row().0 < first {
            true => holder.positions_below(&now.def, first)?,
            false => 0,
        };
        let mut rest = live_positions(&holder);
        rest.remove_range(0..below);
        inserted.extend(only(&holder, &rest));
    }
    Ok(inserted)
}

/// The rows that were inserted and those that were deleted while rows got other numbers.
fn moved_since(
    before: &TableSnapshot,
    now: &TableSnapshot,
    moved: Option<&RowTranslation>,
) -> Result<(Vec<Holder>, Vec<Holder>)> {
    let mut finder = RowFinder::new(&now.def, &now.blocks, &now.runs);
    // The positions of rows of `now` that `before` has too.
    let mut known = DeletesByHolder::new();
    let mut deleted = Vec::new();
    for holder in Holder::all(&before.blocks, &before.runs) {
        let mut gone = live_positions(&holder);
        if let Some(same) = finder.holder_at(holder.first_row()).filter(|same| same.same_rows(&holder)) {
            gone &= same.deleted().unwrap_or(&RoaringBitmap::new());
            known.entry(same.first_row()).or_default().insert_range(0..same.rows() as u32);
        } else if let Some(moved) = moved {
            let numbers = holder.row_numbers(&before.def)?;
            let mut kept = RoaringBitmap::new();
            for position in &gone {
                let Some((place, at)) = finder.find(moved.translate(numbers.at(position as usize)))? else { continue };
                if place.deleted().is_none_or(|gone| !gone.contains(at)) {
                    known.entry(place.first_row()).or_default().insert(at);
                    kept.insert(position);
                }
            }
            gone -= kept;
        }
        deleted.extend(only(&holder, &gone));
    }
    let mut inserted = Vec::new();
    for holder in Holder::all(&now.blocks, &now.runs) {
        let mut rest = live_positions(&holder);
        if let Some(known) = known.get(&holder.first_row()) {
            rest -= known;
        }
        inserted.extend(only(&holder, &rest));
    }
    Ok((inserted, deleted))
}

/// The rows of `before` that are not deleted there, but are deleted or gone in `now`. No row has another number.
fn deleted_since(before: &TableSnapshot, now: &TableSnapshot) -> Result<Vec<Holder>> {
    let mut finder = RowFinder::new(&now.def, &now.blocks, &now.runs);
    let mut deleted = Vec::new();
    for holder in Holder::all(&before.blocks, &before.runs) {
        let mut gone = live_positions(&holder);
        // An unchanged block or run needs no look at its rows.
        if let Some(same) = finder.holder_at(holder.first_row()).filter(|same| same.same_rows(&holder)) {
            gone &= same.deleted().unwrap_or(&RoaringBitmap::new());
        } else {
            let numbers = holder.row_numbers(&before.def)?;
            let mut kept = RoaringBitmap::new();
            for position in &gone {
                let found = finder.find(numbers.at(position as usize))?;
                let is_live = |(holder, at): (&Holder, u32)| holder.deleted().is_none_or(|gone| !gone.contains(at));
                if found.is_some_and(is_live) {
                    kept.insert(position);
                }
            }
            gone -= kept;
        }
        deleted.extend(only(&holder, &gone));
    }
    Ok(deleted)
}

/// All rows with numbers below `next` that are marked as deleted.
fn marked_below(next: u64, now: &TableSnapshot) -> Result<Vec<Holder>> {
    let mut marked = Vec::new();
    for holder in Holder::all(&now.blocks, &now.runs).into_iter().filter(|holder| holder.first_row().0 < next) {
        let below = holder.positions_below(&now.def, next)?;
        let mut gone = holder.deleted().cloned().unwrap_or_default();
        gone.remove_range(below..);
        marked.extend(only(&holder, &gone));
    }
    Ok(marked)
}

fn live_positions(holder: &Holder) -> RoaringBitmap {
    let mut live = RoaringBitmap::new();
    live.insert_range(0..holder.rows() as u32);
    match holder.deleted() {
        Some(deleted) => live - deleted,
        None => live,
    }
}

/// The block or run with all rows deleted except those at `positions`. `None` if there are no such rows.
fn only(holder: &Holder, positions: &RoaringBitmap) -> Option<Holder> {
    if positions.is_empty() {
        return None;
    }
    let mut others = RoaringBitmap::new();
    others.insert_range(0..holder.rows() as u32);
    others -= positions;
    let others = (!others.is_empty()).then(|| Arc::new(others));
    Some(match holder {
        Holder::Block(block) => Holder::Block(Arc::new(block.with_all_deleted(others))),
        Holder::Run(run) => Holder::Run(Arc::new(run.with_all_deleted(others))),
    })
}

fn table_of(of: &TableSnapshot, holders: Vec<Holder>) -> Arc<TableSnapshot> {
    let (mut blocks, mut runs): (Vec<Arc<Block>>, Vec<Arc<OpenRun>>) = Default::default();
    for holder in holders {
        match holder {
            Holder::Block(block) => blocks.push(block),
            Holder::Run(run) => runs.push(run),
        }
    }
    Arc::new(TableSnapshot { blocks: blocks.into(), runs: runs.into(), ..of.clone() })
}
