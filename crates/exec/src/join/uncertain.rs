//! Rows that may have a match: `IN` and `NOT IN` with NULLs.
//!
//! `a IN (b, NULL)` is not false if `a` differs from `b`, because the NULL could be equal to `a`. So a row is uncertain
//! if a row of the other side could have the same key, with some values for the NULLs of both, and the condition is
//! true for the two rows. With one key and no condition, this is known of all rows at once. Otherwise we must go
//! through pairs: a row with a NULL in its key is compared with all rows of the build side, and any other row with the
//! rows that have a NULL in their key. A condition that is NULL for a pair counts as false, except for
//! [`JoinKind::ProbeTruth`].

use std::sync::atomic::Ordering;

use arrow::array::Array;
use rowmill_base::Result;

use super::marks::Marks;
use super::packing::NO_KEY;
use super::prepare::StoredBuild;
use super::probe::{Candidates, PairCursor, Prober, RowPairs};
use super::{HashJoin, JoinKind, JoinRequest};

impl JoinRequest {
    /// Whether the join must tell keys that differ from keys that may be equal.
    pub(super) fn is_uncertain(&self) -> bool {
        let asks = matches!(self.kind, JoinKind::ProbeAnti | JoinKind::BuildAnti | JoinKind::ProbeMark);
        let is_asked = self.kind == JoinKind::ProbeTruth || self.null_aware && asks;
        is_asked && !self.nulls_equal && !self.on.is_empty()
    }
}

impl HashJoin {
    /// Whether uncertain rows must be found by going through pairs.
    pub(super) fn compares_uncertain_keys(&self) -> bool {
        self.request.is_uncertain() && (self.request.on.len() > 1 || self.request.residual.is_some())
    }
}

impl HashJoin {
    /// Marks the rows of the build side that are uncertain because of probe rows that this join may not see, if it is
    /// part of a larger join.
    pub(super) fn mark_by_whole(&self, stored: &StoredBuild, marks: Option<&Marks>) {
        let is_asked = self.request.kind == JoinKind::BuildAnti && self.request.is_uncertain();
        let (Some(whole), Some(marks)) = (self.part.whole, marks) else { return };
        if !is_asked || self.compares_uncertain_keys() {
            return;
        }
        if whole.probe_has_rows {
            stored.null_rows.iter().for_each(|row| marks.set(*row));
        }
        if whole.probe_has_null {
            marks.set_all();
        }
    }

    /// Whether the build side of the whole join has no rows. `stored` is the build side of this join.
    fn build_is_empty(&self, stored: &StoredBuild) -> bool {
        // A join that was spilled has build rows.
        self.part.whole.is_none() && stored.rows == 0
    }

    /// Whether the build side of the whole join has a row with NULL in its key.
    fn build_has_null(&self, stored: &StoredBuild) -> bool {
        self.part.whole.map_or(!stored.null_rows.is_empty(), |whole| whole.build_has_null)
    }
}

impl Prober {
    /// Finds the uncertain rows of the slice, or marks the rows of the build side that are uncertain because of the
    /// slice.
    pub(super) fn find_uncertain(&mut self) -> Result<()> {
        let request = &self.join.request;
        if !request.is_uncertain() || self.join.build_is_empty(&self.built.stored) {
            return Ok(());
        }
        match (self.join.compares_uncertain_keys(), request.kind) {
            (true, _) => self.compare_uncertain(),
            (false, JoinKind::BuildAnti) => {
                self.mark_uncertain();
                Ok(())
            }
            (false, _) => {
                self.tell_uncertain();
                Ok(())
            }
        }
    }

    /// Says for a row of the slice whether its only key is NULL.
    fn has_null(&self) -> impl Fn(usize) -> bool + use<> {
        let nulls = self.slice.columns[self.join.layout.probe_keys[0]].logical_nulls();
        move |row| nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    /// With one key, a row without a match is uncertain if its key is NULL or the other side has a NULL.
    fn tell_uncertain(&mut self) {
        let (has_null, any_may) = (self.has_null(), self.join.build_has_null(&self.built.stored));
        let slice = &mut self.slice;
        // All build rows have a say in this, so each piece of them finds the same rows.
        slice.uncertain.clear();
        slice.uncertain.extend((0..slice.rows).map(|row| !slice.matched[row] && (any_may || has_null(row))));
    }

    /// With one key, marks the rows of the build side that are uncertain: those with NULL, and all if the slice has a
    /// NULL.
    fn mark_uncertain(&self) {
        let Some(marks) = &self.built.marks else { return };
        // Marks of rows with a NULL depend on no slice, so the first worker that comes here sets them.
        if !self.built.null_rows_marked.swap(true, Ordering::Relaxed) {
            self.built.stored.null_rows.iter().for_each(|row| marks.set(*row));
        }
        if (0..self.slice.rows).any(self.has_null()) {
            marks.set_all();
        }
    }

    /// Goes through all pairs of rows whose keys may be equal.
    fn compare_uncertain(&mut self) -> Result<()> {
        let stored = std::sync::Arc::clone(&self.built.stored);
        self.slice.uncertain.resize(self.slice.rows, false);
        let mut cursor = PairCursor::default();
        loop {
            self.join.request.cancel.check()?;
            let slice = &self.slice;
            let (mut pairs, next) = cursor.list(slice.rows, self.join.batch_rows(), |row| {
                let is_known = slice.matched.get(row).is_some_and(|matched| *matched) || slice.uncertain[row];
                match slice.words[row] {
                    // A known row needs no further pairs, unless these mark rows of the build side.
                    _ if is_known && self.built.marks.is_none() => Candidates::Rows(&[]),
                    // The row has a NULL itself, so it may be equal to any row of the build side.
                    NO_KEY => Candidates::All(stored.rows),
                    _ => Candidates::Rows(&stored.null_rows),
                }
            });
            if pairs.build.is_empty() {
                return Ok(());
            }
            cursor = next;
            // First drop pairs that surely differ, so that the condition is evaluated for fewer pairs.
            self.keep_uncertain(&mut pairs);
            let unknown = self.keep_true(&mut pairs)?;
            unknown.into_iter().for_each(|row| self.slice.uncertain[row as usize] = true);
            match &self.built.marks {
                Some(marks) => pairs.build.iter().for_each(|row| marks.set(*row)),
                None => pairs.probe.iter().for_each(|row| self.slice.uncertain[*row as usize] = true),
            }
        }
    }

    /// Keeps the pairs whose keys may be equal and that may change the result of a row.
    fn keep_uncertain(&self, pairs: &mut RowPairs) {
        let (Some(keys), Some(stored)) = (&self.slice.keys, &self.built.stored.keys) else {
            unreachable!("keys that are compared column by column must be long")
        };
        let may_match = |build: u32, probe: u32| {
            self.built.marks.as_ref().is_none_or(|marks| !marks.is_set(build))
                && keys.may_be_same(probe as usize, stored, build as usize)
        };
        let kept: Vec<bool> =
            pairs.build.iter().zip(&pairs.probe).map(|(build, probe)| may_match(*build, *probe)).collect();
        let mut is_kept = kept.iter();
        pairs.build.retain(|_| is_kept.next() == Some(&true));
        let mut is_kept = kept.iter();
        pairs.probe.retain(|_| is_kept.next() == Some(&true));
    }
}
