//! Reads a base's file with read calls. This is slow, but damage in the file can only cause an error, never a signal.

use std::ops::Bound;
use std::path::Path;

use rowmill_base::{CommitId, Error, Result};

use super::lmdb::{LAST_COMMIT_KEY, number, slices};
use super::lmdb_pages::{KeyRange, Meta, Pages};
use super::sealed_value::unseal;
use super::{BaseRead, Visitor, check_key, key_bounds, prefix_range};

/// A read of the state that the newest head names.
#[derive(Debug)]
pub(super) struct ReadByCalls {
    pages: Pages,
    meta: Meta,
}

impl ReadByCalls {
    pub(super) fn open(file: &Path) -> Result<ReadByCalls> {
        let (pages, meta) = Pages::open(file)?;
        Ok(ReadByCalls { pages, meta })
    }

    /// The value of `key` as stored, with its checksum.
    fn stored(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut found = None;
        // A walk over a range of one key reads only the pages on the path to it.
        let only: KeyRange<'_> = (Bound::Included(key), Bound::Included(key));
        self.pages.scan(&self.meta, only, &mut |_, stored| {
            found = Some(stored.to_vec());
            Ok(false)
        })?;
        Ok(found)
    }
}

impl BaseRead for ReadByCalls {
    fn append_value(&self, key: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        check_key(key)?;
        let Some(stored) = self.stored(key)? else { return Ok(false) };
        out.extend_from_slice(unseal(key, &stored, self.pages.path())?);
        Ok(true)
    }

    fn scan(&self, prefix: &[u8], visit: &mut Visitor<'_>) -> Result<()> {
        let range = prefix_range(prefix);
        self.pages
            .scan(&self.meta, slices(&range), &mut |key, stored| visit(key, unseal(key, stored, self.pages.path())?))
    }

    fn range(&self, start: &[u8], end: &[u8], backward: bool, visit: &mut Visitor<'_>) -> Result<()> {
        if backward {
            return Err(Error::internal("a read with read calls cannot go backward"));
        }
        let Some(range) = key_bounds(start, end)? else { return Ok(()) };
        self.pages
            .scan(&self.meta, slices(&range), &mut |key, stored| visit(key, unseal(key, stored, self.pages.path())?))
    }

    fn commit_id(&self) -> Result<CommitId> {
        let stored = self.stored(LAST_COMMIT_KEY)?;
        Ok(CommitId(number(LAST_COMMIT_KEY, stored.as_deref(), self.pages.path())?.map_or(0, u64::from_le_bytes)))
    }
}
