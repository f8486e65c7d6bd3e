//! Brings rows into the order of their partitions, so that each partition gets its rows at once.

/// The order of some rows by the numbers of their partitions. Its memory can be reused.
#[derive(Debug, Default)]
pub(crate) struct PartitionOrder {
    rows: Vec<u32>,
    /// Where each partition's rows end.
    ends: Vec<u32>,
}

impl PartitionOrder {
    /// Sorts rows by the numbers of their partitions: a counting sort.
    pub(crate) fn sort(&mut self, numbers: &[u32], partitions: usize) {
        self.ends.clear();
        self.ends.resize(partitions, 0);
        numbers.iter().for_each(|number| self.ends[*number as usize] += 1);
        let mut start = 0;
        for end in &mut self.ends {
            // Until the rows are placed, this is the index of the partition's next row.
            start += std::mem::replace(end, start);
        }
        self.rows.resize(numbers.len(), 0);
        for (row, number) in numbers.iter().enumerate() {
            let place = &mut self.ends[*number as usize];
            self.rows[*place as usize] = row as u32;
            *place += 1;
        }
    }

    /// The rows of each partition.
    pub(crate) fn runs(&self) -> impl Iterator<Item = &[u32]> {
        let mut start = 0;
        self.ends.iter().map(move |end| {
            let rows = &self.rows[start as usize..*end as usize];
            start = *end;
            rows
        })
    }
}
