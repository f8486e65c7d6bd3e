//! Rows that may have a match as far as is known: `IN` and `NOT IN` with NULLs.
//!
//! `a IN (b, NULL)` is not false if `a` differs from `b`, for NULL may stand for `a`. So a row is uncertain if one of the
//! other side could have its key, with values for the NULLs of both, and the condition is true of the two. With one key
//! and no condition this is known of all rows at once. Otherwise the rows of the build side that come into question are
//! gone through: those with a NULL in their key, or for a row with one all. A condition that is NULL for a pair counts as
//! false, except for [`JoinKind::ProbeTruth`].

use std::sync::atomic::Ordering;

use arrow::array::Array;
use rowmill_base::Result;

use super::packing::NO_KEY;
use super::probe::{Candidates, Cursor, Pairs, Prober};
use super::{Join, JoinKind, JoinRequest};

impl JoinRequest {
    /// Whether keys that are not equal may be, as far as is known.
    pub(super) fn is_uncertain(&self) -> bool {
        let asks = matches!(self.kind, JoinKind::ProbeAnti | JoinKind::BuildAnti | JoinKind::ProbeMark);
        let is_asked = self.kind == JoinKind::ProbeTruth || self.null_aware && asks;
        is_asked && !self.nulls_equal && !self.on.is_empty()
    }
}

impl Join {
    /// Whether uncertain rows are found by going through pairs.
    pub(super) fn compares_uncertain_keys(&self) -> bool {
        self.request.is_uncertain() && (self.request.on.len() > 1 || self.request.residual.is_some())
    }
}

impl Prober {
    /// Finds the uncertain rows that the slice has, or those that the build side has because of it.
    pub(super) fn find_uncertain(&mut self) -> Result<()> {
        let request = &self.join.request;
        if !request.is_uncertain() || self.built.stored.rows == 0 {
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

    /// Whether the one key of a row of the slice is NULL.
    fn has_null(&self) -> impl Fn(usize) -> bool + use<> {
        let nulls = self.slice.columns[self.join.layout.probe_keys[0]].logical_nulls();
        move |row| nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    /// One key: a row without a match may have one if it is NULL, or if there is a NULL on the other side.
    fn tell_uncertain(&mut self) {
        let (has_null, any_may) = (self.has_null(), !self.built.stored.null_rows.is_empty());
        let slice = &mut self.slice;
        slice.uncertain.extend((0..slice.rows).map(|row| !slice.matched[row] && (any_may || has_null(row))));
    }

    /// The same for the rows of the build side.
    fn mark_uncertain(&self) {
        let Some(marks) = &self.built.marks else { return };
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
        let mut cursor = Cursor::default();
        loop {
            self.join.request.cancel.check()?;
            let slice = &self.slice;
            let (mut pairs, next) = cursor.list(slice.rows, self.join.batch_rows(), |row| {
                let is_known = slice.matched.get(row).is_some_and(|matched| *matched) || slice.uncertain[row];
                match slice.words[row] {
                    // What is known of a row does not matter to those of the build side.
                    _ if is_known && self.built.marks.is_none() => Candidates::Rows(&[]),
                    NO_KEY => Candidates::All(stored.rows),
                    _ => Candidates::Rows(&stored.null_rows),
                }
            });
            if pairs.build.is_empty() {
                return Ok(());
            }
            cursor = next;
            self.keep_uncertain(&mut pairs);
            let unknown = self.keep_true(&mut pairs)?;
            unknown.into_iter().for_each(|row| self.slice.uncertain[row as usize] = true);
            match &self.built.marks {
                Some(marks) => pairs.build.iter().for_each(|row| marks.set(*row)),
                None => pairs.probe.iter().for_each(|row| self.slice.uncertain[*row as usize] = true),
            }
        }
    }

    /// Leaves the pairs whose keys may be equal, and that may change what is known of a row.
    fn keep_uncertain(&self, pairs: &mut Pairs) {
        let (Some(keys), Some(stored)) = (&self.slice.keys, &self.built.stored.keys) else {
            unreachable!("keys that are compared column by column are long ones")
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
