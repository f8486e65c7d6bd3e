//! Checks of space: each extent that a state names must be inside of its file, used once, and not free. Also looks for
//! files and folders that no definition names.

use std::collections::BTreeMap;
use std::sync::Arc;

use rowmill_base::Result;
use rowmill_storage::{ColumnFile, Extent};

use super::{Finding, RunningCheck};
use crate::snapshot::Snapshot;

/// The extents of each file, which must not overlap, and whether each of them waits to be freed.
type Extents = BTreeMap<String, (Arc<ColumnFile>, Vec<(Extent, bool)>)>;

impl RunningCheck<'_> {
    /// Checks the space that each of `states` names. Only the first state decides which files have no name.
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
            // Only the writing process knows which files are being written, read, or kept for readers.
            let strays = self.engine.files().strays(|what| states[0].names(what));
            let strays = space.take(strays)?.unwrap_or_default();
            strays.into_iter().for_each(|path| space.note(format!("no table names {path}: it can be removed")));
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
            // We look at waiting extents after the state. The state is held, so none of its own extents can be among
            // them.
            self.engine.freed().waiting().iter().for_each(|(file, extent)| put(file, *extent, true));
        }
        all
    }

    fn file(&self, path: &str, file: &ColumnFile, bytes: u64, extents: &[(Extent, bool)], space: &mut Finding) {
        for pair in extents.windows(2) {
            // Sorted extents overlap only with their neighbours. Two extents that both wait to be freed do no harm.
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
            space.problem(format!("{path}: the file ends at {bytes}, but {behind} pieces in use are after its end"));
        }
        for extent in in_use().filter(|extent| !self.engine.is_read_only() && !file.is_taken(**extent)) {
            let (start, end) = (extent.offset, extent.end());
            space.problem(format!("{path}: the bytes from {start} to {end} are in use and free"));
        }
    }
}
