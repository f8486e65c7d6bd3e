//! Reads single values of a stored list, from the head of their group instead of the start of the list.

use rowmill_base::{Error, Result};

use super::StringList;

/// Reads the values of a list in ascending order and can skip ahead.
#[derive(Debug)]
pub(super) struct ListCursor<'l, 'a> {
    list: &'l StringList<'a>,
    /// The group of the fields below. `None` before the first value.
    group: Option<usize>,
    /// The own and shared lengths of the group's values.
    lengths: Vec<u32>,
    shared: Vec<u32>,
    /// The rest of the group's payload.
    payload: &'a [u8],
    /// The index of the next value in the group.
    next: usize,
    /// The value that was read last.
    value: Vec<u8>,
}

impl<'l, 'a> ListCursor<'l, 'a> {
    pub(super) fn new(list: &'l StringList<'a>) -> ListCursor<'l, 'a> {
        ListCursor { list, group: None, lengths: vec![], shared: vec![], payload: &[], next: 0, value: vec![] }
    }

    /// Reads value `index` of the list. Panics if the list is shorter.
    pub(super) fn value(&mut self, index: usize) -> Result<&[u8]> {
        assert!(index < self.list.len(), "value {index} of {}", self.list.len());
        let group = index >> self.list.group_log2;
        let within = index - (group << self.list.group_log2);
        // The value is in another group, or already passed.
        if self.group != Some(group) || within < self.next {
            self.enter(group)?;
        }
        while self.next < within {
            self.pass()?;
        }
        self.read()?;
        Ok(&self.value)
    }

    /// Moves to the head of a group.
    fn enter(&mut self, group: usize) -> Result<()> {
        let values = self.list.values_of(group..group + 1);
        self.payload = self.list.payload_of(group..group + 1)?;
        self.lengths.clear();
        self.list.lengths.unpack(values.clone(), &mut self.lengths);
        self.shared.clear();
        if let Some(shared) = &self.list.shared {
            shared.unpack(values, &mut self.shared);
        }
        self.value.clear();
        self.next = 0;
        self.group = Some(group);
        Ok(())
    }

    /// Skips the next value. If values share bytes it must be read, because a later value may share them.
    fn pass(&mut self) -> Result<()> {
        if !self.shared.is_empty() {
            return self.read();
        }
        let length = self.lengths[self.next] as usize;
        let stored = match &self.list.symbols {
            Some(symbols) => symbols.skip(self.payload, length),
            None => Some(length),
        };
        self.advance(stored)
    }

    /// Reads the next value.
    fn read(&mut self) -> Result<()> {
        let shared = self.shared.get(self.next).map_or(0, |&shared| shared as usize);
        if shared > self.value.len() {
            return Err(Error::corrupt(format!("a value shares {shared} bytes of only {}", self.value.len())));
        }
        self.value.truncate(shared);
        let length = self.lengths[self.next] as usize;
        if shared + length > self.list.decoded_bytes() {
            return Err(Error::corrupt(format!("a value has {} bytes, more than its whole list", shared + length)));
        }
        let stored = match &self.list.symbols {
            Some(symbols) => symbols.decode_value(self.payload, length, &mut self.value),
            None => self.payload.get(..length).map(|suffix| {
                self.value.extend_from_slice(suffix);
                length
            }),
        };
        self.advance(stored)
    }

    fn advance(&mut self, stored: Option<usize>) -> Result<()> {
        let Some(rest) = stored.and_then(|stored| self.payload.get(stored..)) else {
            return Err(Error::corrupt(format!("value {} of a group ends too early", self.next)));
        };
        self.payload = rest;
        self.next += 1;
        Ok(())
    }
}

impl StringList<'_> {
    /// Appends the bytes of one value to `out`. Panics if the list is shorter.
    pub fn get(&self, index: usize, out: &mut Vec<u8>) -> Result<()> {
        out.extend_from_slice(ListCursor::new(self).value(index)?);
        Ok(())
    }

    /// The index of the first value that is not less than `bytes`, or the number of values if all are less.
    pub(crate) fn lower_bound(&self, bytes: &[u8]) -> Result<usize> {
        let mut cursor = ListCursor::new(self);
        // The border is in the last group whose head is less, unless even the first head is not less.
        let mut groups = 0..self.groups();
        while !groups.is_empty() {
            let middle = groups.start + groups.len() / 2;
            match cursor.value(middle << self.group_log2)? < bytes {
                true => groups.start = middle + 1,
                false => groups.end = middle,
            }
        }
        let Some(group) = groups.start.checked_sub(1) else { return Ok(0) };
        for index in self.values_of(group..group + 1) {
            if cursor.value(index)? >= bytes {
                return Ok(index);
            }
        }
        Ok(self.values_of(group..group + 1).end)
    }
}
