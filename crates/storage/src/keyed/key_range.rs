//! Ranges of keys: what a condition on the first parts of a key asks for.

use std::ops::Bound;

use rowmill_base::Result;

use super::ValueRef;
use super::key::KeyCodec;

/// The keys from `start` on that are below `end`. Made to be cleared and filled again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyRange {
    /// The least key that is in the range.
    pub start: Vec<u8>,
    /// The least key that is above it; empty if there is none.
    pub end: Vec<u8>,
}

impl KeyRange {
    /// All keys that begin with `prefix`.
    pub fn of_prefix(prefix: &[u8]) -> Self {
        let mut range = KeyRange::default();
        range.set_prefix(prefix);
        range
    }

    /// Makes it all keys that begin with `prefix`.
    pub fn set_prefix(&mut self, prefix: &[u8]) {
        self.start.clear();
        self.start.extend_from_slice(prefix);
        self.end.clone_from(&self.start);
        key_behind_prefix(&mut self.end);
    }

    /// Whether no key can be in it.
    pub fn is_empty(&self) -> bool {
        !self.end.is_empty() && self.start >= self.end
    }

    /// Whether `key` is in it.
    pub fn contains(&self, key: &[u8]) -> bool {
        key >= &self.start[..] && (self.end.is_empty() || key < &self.end[..])
    }

    /// Makes it the part of `whole` that was passed by who went up to `last`, which is in it, from the start or from the end; all
    /// of it without one.
    pub fn set_passed(&mut self, whole: &KeyRange, last: Option<&[u8]>, backward: bool) {
        let last_key = last.unwrap_or_default();
        self.start.clear();
        self.start.extend_from_slice(if backward && last.is_some() { last_key } else { &whole.start });
        self.end.clear();
        self.end.extend_from_slice(if !backward && last.is_some() { last_key } else { &whole.end });
        if !backward && last.is_some() {
            // The least key above.
            self.end.push(0);
        }
    }

    fn set_empty(&mut self) {
        self.start.clear();
        self.end.clear();
        self.start.push(1);
        self.end.push(0);
    }
}

/// Makes of `prefix` the least key above all that begin with it: nothing if there is none.
pub(super) fn key_behind_prefix(prefix: &mut Vec<u8>) {
    while let Some(last) = prefix.pop() {
        if last < u8::MAX {
            prefix.push(last + 1);
            return;
        }
    }
}

impl KeyCodec {
    /// Sets `range` to the keys behind `head` whose first parts are `equal` (NULLs among them mean NULL) and whose next
    /// part is within the bounds of SQL: `lower` is what it is at least or more than, `upper` what it is at most or less
    /// than, whichever way the part is ordered. With a bound there are no NULLs in it; a bound that is NULL leaves no
    /// key. Without bounds all keys that begin with `equal`. Errors are those of [`KeyCodec::encode`].
    pub fn range(
        &self,
        head: &[u8],
        equal: &[ValueRef<'_>],
        lower: Bound<ValueRef<'_>>,
        upper: Bound<ValueRef<'_>>,
        range: &mut KeyRange,
    ) -> Result<()> {
        let KeyRange { start, end } = range;
        start.clear();
        start.extend_from_slice(head);
        self.encode(equal, start)?;
        end.clear();
        end.extend_from_slice(start);
        if (lower, upper) == (Bound::Unbounded, Bound::Unbounded) {
            key_behind_prefix(end);
            return Ok(());
        }
        let is_null = |bound: Bound<ValueRef<'_>>| {
            matches!(bound, Bound::Included(ValueRef::Null) | Bound::Excluded(ValueRef::Null))
        };
        if is_null(lower) || is_null(upper) {
            range.set_empty();
            return Ok(());
        }
        let part = equal.len();
        let (first, last) = if self.parts[part].descending { (upper, lower) } else { (lower, upper) };
        // NULLs lie behind all values, or before them, where the part is descending.
        let nulls_first = self.parts[part].nullable && self.parts[part].descending;
        let nulls_last = self.parts[part].nullable && !self.parts[part].descending;
        match first {
            Bound::Included(value) => self.encode_part(part, value, start)?,
            Bound::Excluded(value) => {
                self.encode_part(part, value, start)?;
                key_behind_prefix(start);
            }
            Bound::Unbounded if nulls_first => {
                self.encode_part(part, ValueRef::Null, start)?;
                key_behind_prefix(start);
            }
            Bound::Unbounded => {}
        }
        if start.is_empty() && matches!(first, Bound::Excluded(_)) {
            // Above the greatest of all keys, which only a key without a head can be.
            range.set_empty();
            return Ok(());
        }
        match last {
            Bound::Included(value) => {
                self.encode_part(part, value, end)?;
                key_behind_prefix(end);
            }
            Bound::Excluded(value) => self.encode_part(part, value, end)?,
            Bound::Unbounded if nulls_last => self.encode_part(part, ValueRef::Null, end)?,
            Bound::Unbounded => key_behind_prefix(end),
        }
        Ok(())
    }
}
