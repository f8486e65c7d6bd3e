//! Space: what states name lies in the files, once, and is not given to anybody else; what else lies there.

use std::collections::BTreeMap;
use std::sync::Arc;

use rowmill_base::Result;
use rowmill_storage::{ColumnFile, Extent};

use super::{Check, Finding};
use crate::snapshot::Snapshot;

/// The extents of one file that must not overlap, and whether they wait to be freed.
type Extents = BTreeMap<String, (Arc<ColumnFile>, Vec<(Extent, bool)>)>;

impl Check<'_> {
    /// Looks at the space that each of `states` names. The first is the one of which no file may be without a name.
    pub(super) fn space(&mut self, states: &[&Arc<Snapshot>]) -> Result<()> {
        let mut space = Finding::new("space");
        for (number, state) in states.iter().enumerate() {
            for (path, (file, mut extents)) in self.extents(state) {
                self.cancel.check()?;
                let bytes = space.take(file.file_bytes())?.unwrap_or_default();
                space.bytes += if number == 0 { bytes } else { 0 };
                extents.sort();
                self.file(&path, &file, bytes, &extents, &mut space);
            }
        }
        if !self.engine.is_read_only() {
            // What somebody writes or reads, or waits for that, only the writing process knows.
            let strays = self.engine.files().strays(|what| states[0].names(what));
            let strays = space.take(strays)?.unwrap_or_default();
            strays.into_iter().for_each(|path| space.note(format!("no table names {path}: it may be removed")));
        }
        self.finish(space);
        Ok(())
    }

    fn extents(&self, state: &Snapshot) -> Extents {
        let mut all = Extents::new();
        let mut put = |file: &Arc<ColumnFile>, extent, waits| {
            let of_file = all.entry(file.path().to_owned()).or_insert_with(|| (Arc::clone(file), Vec::new()));
            of_file.1.push((extent, waits));
        };
        let blocks = state.tables.values().flat_map(|table| table.blocks.iter());
        blocks.flat_map(|block| block.chunks()).for_each(|chunk| put(chunk.file(), chunk.extent(), false));
        if !self.engine.is_read_only() {
            // Behind the state, whose extents come to wait when nobody holds it any more.
            self.engine.freed().waiting().iter().for_each(|(file, extent)| put(file, *extent, true));
        }
        all
    }

    fn file(&self, path: &str, file: &ColumnFile, bytes: u64, extents: &[(Extent, bool)], space: &mut Finding) {
        for pair in extents.windows(2) {
            let ((one, one_waits), (other, other_waits)) = (pair[0], pair[1]);
            if one.end() > other.offset && !(one_waits && other_waits) {
                let (start, end) = (other.offset, one.end().min(other.end()));
                let what = if one_waits || other_waits { "in use and to be freed" } else { "in use twice" };
                space.problem(format!("{path}: the bytes from {start} to {end} are {what}"));
            }
        }
        let in_use = || extents.iter().filter(|(_, waits)| !waits).map(|(extent, _)| extent);
        let behind = in_use().filter(|extent| extent.end() > bytes).count();
        if behind > 0 {
            space.problem(format!("{path}: the file ends at {bytes}, and {behind} pieces in use lie behind that"));
        }
        for extent in in_use().filter(|extent| !self.engine.is_read_only() && !file.is_taken(**extent)) {
            let (start, end) = (extent.offset, extent.end());
            space.problem(format!("{path}: the bytes from {start} to {end} are in use and free"));
        }
    }
}
