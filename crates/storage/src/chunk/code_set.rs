//! A set of the codes of one chunk: the answer to a condition, once it is decided for the chunk's values.

use super::borders::Borders;

/// Up to this many ranges, each code is compared with the ranges. With more, we use a table.
const RANGES_MAX: usize = 2;

/// Some codes of one chunk, optionally with the code of NULL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeSet {
    /// The number of codes of the chunk: one for each value, and one more if any row is NULL.
    codes: u32,
    members: CodeMembers,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum CodeMembers {
    /// At most [`RANGES_MAX`] ranges.
    Ranges(Borders<u32>),
    /// Whether each code is in the set.
    Table(Vec<bool>),
}

impl CodeSet {
    /// The set of the codes whose entry in `truth` is true. `truth` must have one entry for each of the chunk's values,
    /// and one more if any row is NULL.
    pub fn of_truth(truth: Vec<bool>) -> CodeSet {
        let changes = truth.iter().zip(truth.iter().skip(1)).filter(|(before, next)| before != next);
        // Most sets have more changes than fit, so we stop counting early.
        let changes = changes.take(2 * RANGES_MAX + 1).count();
        if changes + usize::from(truth.first() == Some(&true)) > 2 * RANGES_MAX {
            return CodeSet { codes: truth.len() as u32, members: CodeMembers::Table(truth) };
        }
        // Few changes, so the set is cheaper as ranges.
        let mut ranges = Borders::none();
        let mut start = 0;
        for run in truth.chunk_by(|before, next| before == next) {
            if run[0] {
                ranges = ranges.or(&Borders::between(start, Some(start + run.len() as u32)));
            }
            start += run.len() as u32;
        }
        CodeSet { codes: truth.len() as u32, members: CodeMembers::Ranges(ranges) }
    }

    /// The codes within `ranges` of a chunk of `values` values. `null` says whether the code of NULL is in the set. It
    /// must be `None` for a chunk without NULLs.
    pub(crate) fn of_values(ranges: &Borders<u32>, values: u32, null: Option<bool>) -> CodeSet {
        let codes = values + u32::from(null.is_some());
        // A range may have no end, so we cut the ranges off at the last value. NULL's code comes after it.
        let values = Borders::before(Some(values));
        let null = match null {
            Some(true) => values.clone().not(),
            _ => Borders::none(),
        };
        CodeSet::of_ranges(codes, ranges.and(&values).or(&null))
    }

    fn of_ranges(codes: u32, ranges: Borders<u32>) -> CodeSet {
        if ranges.ranges().len() <= RANGES_MAX {
            return CodeSet { codes, members: CodeMembers::Ranges(ranges) };
        }
        // Too many ranges: convert them to a table.
        let mut set = CodeSet { codes, members: CodeMembers::Ranges(ranges) };
        set.members = CodeMembers::Table(set.to_truth());
        set
    }

    /// The number of codes of the chunk.
    pub fn codes(&self) -> usize {
        self.codes as usize
    }

    /// The number of codes in the set.
    pub fn count(&self) -> usize {
        match &self.members {
            CodeMembers::Ranges(_) => self.ranges().map(|(low, high)| (high - low) as usize + 1).sum(),
            CodeMembers::Table(truth) => truth.iter().filter(|is_in| **is_in).count(),
        }
    }

    /// The codes in the set, ascending.
    pub fn to_codes(&self) -> Vec<u32> {
        match &self.members {
            CodeMembers::Ranges(_) => {
                let mut codes = Vec::with_capacity(self.count());
                self.ranges().for_each(|(low, high)| codes.extend(low..=high));
                codes
            }
            CodeMembers::Table(truth) => (0..).zip(truth).filter(|(_, is_in)| **is_in).map(|(code, _)| code).collect(),
        }
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        matches!(&self.members, CodeMembers::Ranges(ranges) if *ranges == Borders::none())
    }

    /// Whether the set has every code of the chunk.
    pub fn is_full(&self) -> bool {
        let mut ranges = self.ranges();
        self.codes == 0 || ranges.next() == Some((0, self.codes - 1))
    }

    /// Whether `code` is in the set. False for a code that the chunk does not have.
    pub fn contains(&self, code: u32) -> bool {
        match &self.members {
            CodeMembers::Ranges(ranges) => code < self.codes && ranges.contains(&code),
            CodeMembers::Table(truth) => truth.get(code as usize).copied().unwrap_or(false),
        }
    }

    /// For each code, whether it is in the set.
    pub(crate) fn to_truth(&self) -> Vec<bool> {
        if let CodeMembers::Table(truth) = &self.members {
            return truth.clone();
        }
        let mut truth = vec![false; self.codes as usize];
        self.ranges().for_each(|(low, high)| truth[low as usize..=high as usize].fill(true));
        truth
    }

    /// The complement among the codes of the chunk.
    #[must_use]
    pub(crate) fn other_codes(&self) -> CodeSet {
        match &self.members {
            CodeMembers::Ranges(ranges) => {
                CodeSet::of_ranges(self.codes, ranges.clone().not().and(&Borders::before(Some(self.codes))))
            }
            CodeMembers::Table(truth) => CodeSet::of_truth(truth.iter().map(|is_in| !is_in).collect()),
        }
    }

    /// The intersection of two sets, which must be of the same chunk.
    #[must_use]
    pub fn and(&self, other: &CodeSet) -> CodeSet {
        self.with(other, Borders::and, |left, right| left & right)
    }

    /// The union of two sets, which must be of the same chunk.
    #[must_use]
    pub fn or(&self, other: &CodeSet) -> CodeSet {
        self.with(other, Borders::or, |left, right| left | right)
    }

    fn with(
        &self,
        other: &CodeSet,
        of_ranges: impl Fn(&Borders<u32>, &Borders<u32>) -> Borders<u32>,
        of_codes: impl Fn(bool, bool) -> bool,
    ) -> CodeSet {
        assert_eq!(self.codes, other.codes, "both sets must be of the same chunk");
        match (&self.members, &other.members) {
            (CodeMembers::Ranges(left), CodeMembers::Ranges(right)) => {
                CodeSet::of_ranges(self.codes, of_ranges(left, right))
            }
            _ => {
                let (mut truth, other) = (self.to_truth(), other.to_truth());
                truth.iter_mut().zip(other).for_each(|(left, right)| *left = of_codes(*left, right));
                CodeSet::of_truth(truth)
            }
        }
    }

    /// The table, or `None` if the set has few ranges.
    pub(crate) fn table(&self) -> Option<&[bool]> {
        match &self.members {
            CodeMembers::Ranges(_) => None,
            CodeMembers::Table(truth) => Some(truth),
        }
    }

    /// The first and the last code of each range. Yields nothing for a table.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = (u32, u32)> {
        let ranges = match &self.members {
            CodeMembers::Ranges(ranges) => Some(ranges.ranges()),
            CodeMembers::Table(_) => None,
        };
        let last = self.codes.saturating_sub(1);
        ranges.into_iter().flatten().map(move |(low, end)| (*low, end.map_or(last, |end| (*end - 1).min(last))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_exactly_the_codes_it_was_made_of() {
        for pattern in 0..1 << 9 {
            let truth: Vec<bool> = (0..9).map(|code| pattern >> code & 1 == 1).collect();
            let set = CodeSet::of_truth(truth.clone());
            assert_eq!(set.to_truth(), truth);
            assert!((0..12).all(|code| set.contains(code) == truth.get(code as usize).copied().unwrap_or(false)));
            assert_eq!((set.is_empty(), set.is_full()), (pattern == 0, pattern == (1 << 9) - 1));
            assert!(set.to_codes().into_iter().eq((0..9).filter(|code| truth[*code as usize])));
            assert_eq!(set.count(), truth.iter().filter(|is_in| **is_in).count());
            assert!(set.other_codes().to_truth().iter().zip(&truth).all(|(other, is_in)| other != is_in));
            let other = CodeSet::of_truth((0..9).map(|code| code % 4 < 2).collect());
            let each =
                |f: fn(bool, bool) -> bool| (0..9).map(|code| f(truth[code], code % 4 < 2)).collect::<Vec<bool>>();
            assert_eq!(set.and(&other).to_truth(), each(|a, b| a && b));
            assert_eq!(set.or(&other).to_truth(), each(|a, b| a || b));
        }
    }

    #[test]
    fn the_code_of_null_follows_the_codes_of_the_values() {
        let from_seven = Borders::between(7, None);
        assert_eq!(CodeSet::of_values(&from_seven, 10, None).to_truth()[6..], [false, true, true, true]);
        assert_eq!(CodeSet::of_values(&from_seven, 10, Some(false)).to_truth()[6..], [false, true, true, true, false]);
        assert!(CodeSet::of_values(&Borders::all(), 10, Some(true)).is_full());
        assert!(CodeSet::of_values(&Borders::none(), 0, Some(true)).is_full());
        assert!(CodeSet::of_values(&Borders::all(), 0, Some(false)).is_empty());
    }
}
