//! The last step of a join: rows of the build side that have a match, or that have none.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::{RecordBatch, UInt32Array};
use rowmill_base::Result;

use super::emit::{BuildSide, ProbeSide};
use super::marks::Marks;
use super::prepare::Built;
use super::{HashJoin, JoinKind};
use crate::scan::FRAME_ROWS_MAX;

/// Rows of the build side in a piece of work: at most a page frame, so that workers end at about the same time.
const ROWS_PER_PIECE: usize = if cfg!(test) { 1 << 3 } else { FRAME_ROWS_MAX };

/// A worker's pieces of the build side.
#[derive(Debug)]
pub(super) struct BuildRest {
    built: Arc<Built>,
    /// Rows of the piece that are returned. Those before `next` already were.
    rows: Vec<u32>,
    next: usize,
}

impl BuildRest {
    pub(super) fn new(built: Arc<Built>) -> BuildRest {
        BuildRest { built, rows: Vec::new(), next: 0 }
    }

    /// The next batch; `None` when no piece is left.
    pub(super) fn next_batch(&mut self, join: &HashJoin) -> Result<Option<RecordBatch>> {
        let Some(marks) = &self.built.marks else { return Ok(None) };
        while self.next == self.rows.len() {
            join.request.cancel.check()?;
            let start = join.next_rest.fetch_add(1, Ordering::Relaxed) * ROWS_PER_PIECE;
            if start >= self.built.stored.rows {
                return Ok(None);
            }
            let end = (start + ROWS_PER_PIECE).min(self.built.stored.rows);
            // No worker probes any longer, so the marks are final.
            self.rows = wanted(marks, join.request.kind, start as u32..end as u32);
            self.next = 0;
        }
        let end = (self.next + join.batch_rows()).min(self.rows.len());
        let rows = UInt32Array::from(self.rows[self.next..end].to_vec());
        self.next = end;
        join.emit(&self.built.stored, BuildSide::Rows(&rows), ProbeSide::Null, None, rows.len()).map(Some)
    }
}

fn wanted(marks: &Marks, kind: JoinKind, rows: std::ops::Range<u32>) -> Vec<u32> {
    let with_match = kind == JoinKind::BuildSemi;
    rows.filter(|row| marks.is_set(*row) == with_match).collect()
}
