//! Value lists whose values are evenly spaced: days without a gap, small counts, percentages. The value of a code is
//! then computed instead of loaded. A loop of loads takes several times as long, because processors add and multiply
//! several numbers at once but load single ones.

/// A list of integers: `first`, `first + step`, `first + 2 * step`, and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EvenSteps {
    first: i64,
    /// At most 32 bits, because codes have 32 bits and processors multiply such numbers at once.
    step: u32,
}

impl EvenSteps {
    /// The steps of a list. `None` if the list is empty or its values are not evenly spaced. Differences wrap around,
    /// as the sums of [`EvenSteps::append`] do.
    pub(crate) fn of(mut values: impl Iterator<Item = i64>) -> Option<EvenSteps> {
        let first = values.next()?;
        let Some(second) = values.next() else { return Some(EvenSteps { first, step: 0 }) };
        let step = u32::try_from(second.wrapping_sub(first)).ok()?;
        let mut expected = second;
        let is_even = values.all(|value| {
            expected = expected.wrapping_add(step.into());
            value == expected
        });
        is_even.then_some(EvenSteps { first, step })
    }

    /// Appends the value of each code. The value of a code above the list is arbitrary.
    pub(crate) fn append(self, codes: &[u32], out: &mut Vec<i64>) {
        let EvenSteps { first, step } = self;
        out.extend(codes.iter().map(|code| first.wrapping_add((u64::from(step) * u64::from(*code)) as i64)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_evenly_spaced_values_give_these_values() {
        let far = i64::from(u32::MAX);
        for values in [vec![7], vec![-9, 3], vec![5, 6, 7, 8], vec![-200, -100, 0, 100], vec![i64::MAX - far, i64::MAX]]
        {
            let steps = EvenSteps::of(values.iter().copied()).expect("the values are evenly spaced");
            let mut found = Vec::new();
            steps.append(&(0..values.len() as u32).rev().collect::<Vec<u32>>(), &mut found);
            assert!(found.iter().rev().eq(&values), "{found:?}");
        }
    }

    #[test]
    fn other_lists_have_no_steps() {
        for values in [vec![], vec![1, 2, 4], vec![4, 2], vec![0, 1 << 32], vec![i64::MIN, i64::MAX], vec![1, 2, 3, 3]]
        {
            assert_eq!(EvenSteps::of(values.iter().copied()), None, "{values:?}");
        }
    }

    /// Damaged codes may be above the list.
    #[test]
    fn codes_above_the_list_do_no_harm() {
        let steps = EvenSteps::of([i64::MAX - 1, i64::MAX].into_iter()).expect("two values are evenly spaced");
        steps.append(&[u32::MAX, 2], &mut Vec::new());
    }
}
