//! Some of the codes of one chunk: what a condition lets through, once it is settled for the chunk's values.

use super::borders::Borders;

/// Ranges that are compared one by one; more of them are a table.
const RANGES_MAX: usize = 2;

/// Some codes of one chunk, that of NULL perhaps among them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeSet {
    /// The chunk's codes: one for each value and, where rows are NULL, one more.
    codes: u32,
    members: Members,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Members {
    /// [`RANGES_MAX`] at most.
    Ranges(Borders<u32>),
    /// Whether each code is in.
    Table(Vec<bool>),
}

impl CodeSet {
    /// The codes whose truth is set. There is one for each of the chunk's values and, where rows are NULL, one for NULL.
    pub fn of_truth(truth: Vec<bool>) -> CodeSet {
        let changes = truth.iter().zip(truth.iter().skip(1)).filter(|(before, next)| before != next);
        // Most sets have more: that is known soon.
        let changes = changes.take(2 * RANGES_MAX + 1).count();
        if changes + usize::from(truth.first() == Some(&true)) > 2 * RANGES_MAX {
            return CodeSet { codes: truth.len() as u32, members: Members::Table(truth) };
        }
        let mut ranges = Borders::none();
        let mut start = 0;
        for run in truth.chunk_by(|before, next| before == next) {
            if run[0] {
                ranges = ranges.or(&Borders::between(start, Some(start + run.len() as u32)));
            }
            start += run.len() as u32;
        }
        CodeSet { codes: truth.len() as u32, members: Members::Ranges(ranges) }
    }

    /// The codes of a chunk of `values` values that lie in `ranges`, and with `null`, which is `None` in a chunk without
    /// NULL, that of NULL.
    pub(super) fn of_values(ranges: &Borders<u32>, values: u32, null: Option<bool>) -> CodeSet {
        let codes = values + u32::from(null.is_some());
        let values = Borders::before(Some(values));
        let null = match null {
            Some(true) => values.clone().not(),
            _ => Borders::none(),
        };
        CodeSet::of_ranges(codes, ranges.and(&values).or(&null))
    }

    fn of_ranges(codes: u32, ranges: Borders<u32>) -> CodeSet {
        if ranges.ranges().len() <= RANGES_MAX {
            return CodeSet { codes, members: Members::Ranges(ranges) };
        }
        let mut set = CodeSet { codes, members: Members::Ranges(ranges) };
        set.members = Members::Table(set.to_truth());
        set
    }

    /// Codes of the chunk.
    pub fn codes(&self) -> usize {
        self.codes as usize
    }

    /// Codes that are in.
    pub fn count(&self) -> usize {
        match &self.members {
            Members::Ranges(_) => self.ranges().map(|(low, high)| (high - low) as usize + 1).sum(),
            Members::Table(truth) => truth.iter().filter(|is_in| **is_in).count(),
        }
    }

    /// The codes that are in, ascending.
    pub fn to_codes(&self) -> Vec<u32> {
        match &self.members {
            Members::Ranges(_) => {
                let mut codes = Vec::with_capacity(self.count());
                self.ranges().for_each(|(low, high)| codes.extend(low..=high));
                codes
            }
            Members::Table(truth) => (0..).zip(truth).filter(|(_, is_in)| **is_in).map(|(code, _)| code).collect(),
        }
    }

    /// Whether no code is in.
    pub fn is_empty(&self) -> bool {
        matches!(&self.members, Members::Ranges(ranges) if *ranges == Borders::none())
    }

    /// Whether every code is in.
    pub fn is_full(&self) -> bool {
        let mut ranges = self.ranges();
        self.codes == 0 || ranges.next() == Some((0, self.codes - 1))
    }

    /// Whether `code` is in. A code that the chunk does not have never is.
    pub fn contains(&self, code: u32) -> bool {
        match &self.members {
            Members::Ranges(ranges) => code < self.codes && ranges.contains(&code),
            Members::Table(truth) => truth.get(code as usize).copied().unwrap_or(false),
        }
    }

    /// Whether each code is in.
    pub fn to_truth(&self) -> Vec<bool> {
        if let Members::Table(truth) = &self.members {
            return truth.clone();
        }
        let mut truth = vec![false; self.codes as usize];
        self.ranges().for_each(|(low, high)| truth[low as usize..=high as usize].fill(true));
        truth
    }

    /// The codes of the chunk that are not in.
    #[must_use]
    pub fn other_codes(&self) -> CodeSet {
        match &self.members {
            Members::Ranges(ranges) => {
                CodeSet::of_ranges(self.codes, ranges.clone().not().and(&Borders::before(Some(self.codes))))
            }
            Members::Table(truth) => CodeSet::of_truth(truth.iter().map(|is_in| !is_in).collect()),
        }
    }

    /// What is in both sets, which are of one chunk.
    #[must_use]
    pub fn and(&self, other: &CodeSet) -> CodeSet {
        self.with(other, Borders::and, |left, right| left & right)
    }

    /// What is in one of the sets, which are of one chunk.
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
        assert_eq!(self.codes, other.codes, "both sets are of one chunk");
        match (&self.members, &other.members) {
            (Members::Ranges(left), Members::Ranges(right)) => CodeSet::of_ranges(self.codes, of_ranges(left, right)),
            _ => {
                let (mut truth, other) = (self.to_truth(), other.to_truth());
                truth.iter_mut().zip(other).for_each(|(left, right)| *left = of_codes(*left, right));
                CodeSet::of_truth(truth)
            }
        }
    }

    /// The table, unless there are few ranges.
    pub(super) fn table(&self) -> Option<&[bool]> {
        match &self.members {
            Members::Ranges(_) => None,
            Members::Table(truth) => Some(truth),
        }
    }

    /// The ranges, each with its first and its last code; none of a table.
    pub(super) fn ranges(&self) -> impl Iterator<Item = (u32, u32)> {
        let ranges = match &self.members {
            Members::Ranges(ranges) => Some(ranges.ranges()),
            Members::Table(_) => None,
        };
        let last = self.codes.saturating_sub(1);
        ranges.into_iter().flatten().map(move |(low, end)| (*low, end.map_or(last, |end| (*end - 1).min(last))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_hold_what_they_were_made_of() {
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
    fn null_has_the_code_behind_the_values() {
        let from_seven = Borders::between(7, None);
        assert_eq!(CodeSet::of_values(&from_seven, 10, None).to_truth()[6..], [false, true, true, true]);
        assert_eq!(CodeSet::of_values(&from_seven, 10, Some(false)).to_truth()[6..], [false, true, true, true, false]);
        assert!(CodeSet::of_values(&Borders::all(), 10, Some(true)).is_full());
        assert!(CodeSet::of_values(&Borders::none(), 0, Some(true)).is_full());
        assert!(CodeSet::of_values(&Borders::all(), 0, Some(false)).is_empty());
    }
}
