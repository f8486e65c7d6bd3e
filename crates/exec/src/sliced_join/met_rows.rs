//! The right rows that a group of left rows meets.

/// For each left row of a group a range of right rows.
#[derive(Debug, Default)]
pub(super) struct MetRows {
    /// Right rows, as places among the rows of the slice.
    pub(super) order: Vec<u32>,
    /// The rows that each left row meets, as a range of `order`. They are in the order of time.
    pub(super) starts: Vec<u32>,
    pub(super) ends: Vec<u32>,
}

impl MetRows {
    /// Removes all rows and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.order.clear();
        self.starts.clear();
        self.ends.clear();
    }

    /// Adds the range of a left row.
    #[inline(always)]
    pub(super) fn push(&mut self, start: u32, end: u32) {
        self.starts.push(start);
        self.ends.push(end);
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> u64 {
        let lists = [&self.order, &self.starts, &self.ends];
        lists.iter().map(|list| (list.capacity() * size_of::<u32>()) as u64).sum()
    }
}
