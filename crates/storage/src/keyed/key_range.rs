//! Ranges of keys, for conditions on the first parts of a key.

use std::ops::Bound;

use rowmill_base::Result;

use super::ValueRef;
use super::key::KeyCodec;

/// The keys from `start` up to but not including `end`. Callers should clear and refill it instead of making a new one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyRange {
    /// The least key in the range.
    pub start: Vec<u8>,
    /// The least key above the range. Empty if the range has no upper end.
    pub end: Vec<u8>,
}

impl KeyRange {
    /// All keys that begin with `prefix`.
    pub fn of_prefix(prefix: &[u8]) -> Self {
        let mut range = KeyRange::default();
        range.set_prefix(prefix);
        range
    }

    /// Sets the range to all keys that begin with `prefix`.
    pub fn set_prefix(&mut self, prefix: &[u8]) {
        self.start.clear();
        self.start.extend_from_slice(prefix);
        self.end.clone_from(&self.start);
        key_behind_prefix(&mut self.end);
    }

    /// Whether the range cannot contain any key.
    pub fn is_empty(&self) -> bool {
        !self.end.is_empty() && self.start >= self.end
    }

    /// Whether the range contains `key`.
    pub fn contains(&self, key: &[u8]) -> bool {
        key >= &self.start[..] && (self.end.is_empty() || key < &self.end[..])
    }

    /// Sets the range to the part of `whole` that a scan has passed when it reached `last`, including `last`, from the
    /// start or, with `backward`, from the end. Without `last` the scan has passed all of `whole`.
    pub fn set_passed(&mut self, whole: &KeyRange, last: Option<&[u8]>, backward: bool) {
        let last_key = last.unwrap_or_default();
        self.start.clear();
        self.start.extend_from_slice(if backward && last.is_some() { last_key } else { &whole.start });
        self.end.clear();
        self.end.extend_from_slice(if !backward && last.is_some() { last_key } else { &whole.end });
        if !backward && last.is_some() {
            // The least key above `last` is `last` with a zero appended.
            self.end.push(0);
        }
    }

    fn set_empty(&mut self) {
        // A start of 1 and an end of 0: no key is between them.
        self.start.clear();
        self.end.clear();
        self.start.push(1);
        self.end.push(0);
    }
}

/// Replaces `prefix` by the least key above all keys that begin with it. It becomes empty if there is no such key.
pub(super) fn key_behind_prefix(prefix: &mut Vec<u8>) {
    // Raise the last byte. A byte of 255 cannot be raised, so drop it and raise the one before.
    while let Some(last) = prefix.pop() {
        if last < u8::MAX {
            prefix.push(last + 1);
            return;
        }
    }
}

impl KeyCodec {
    /// Sets `range` to the keys after `head` whose first parts are `equal` (a NULL there means NULL) and whose next
    /// part is within the bounds. `lower` and `upper` are bounds in the SQL order of values, whether the part ascends
    /// or descends. With any bound, NULLs are not in the range, and a bound that is NULL makes the range empty. Without
    /// bounds, the range has all keys that begin with `equal`. Errors are those of [`KeyCodec::encode`].
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
        // From here on, one part has at least one bound, so NULLs are excluded.
        let part = equal.len();
        // In a descending part greater values come first, so the bounds change places.
        let (first, last) = if self.parts[part].descending { (upper, lower) } else { (lower, upper) };
        // NULLs sort after all values, or before them if the part is descending.
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
            // The bound is above every possible key, which can only happen without a head.
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
