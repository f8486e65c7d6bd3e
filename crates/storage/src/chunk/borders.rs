//! Sets of ordered things, stored as the borders between the things in the set and the things outside.
//!
//! ```text
//!   x < 3 OR x BETWEEN 7 AND 9     0 3 7 10     in from 0, out from 3, in from 7, out from 10
//!   x >= 7                         7            in from 7 to the end, whatever that is
//! ```
//!
//! The least thing is the default of its type. So the complement of a set has the same borders, with or without that
//! default in front. A border is before a thing: "up to and including `x`" has its border before the successor of `x`,
//! and no border if `x` has no successor.

/// A set of `T`, as ascending borders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Borders<T>(Vec<T>);

/// How many of some things are in a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    None,
    Some,
    All,
}

impl<T: Ord + Clone + Default> Borders<T> {
    pub(crate) fn none() -> Self {
        Borders(Vec::new())
    }

    pub(crate) fn all() -> Self {
        Borders(vec![T::default()])
    }

    /// The set from `low` to the last thing before `end`.
    pub(crate) fn between(low: T, end: Option<T>) -> Self {
        match end {
            Some(end) if end <= low => Borders::none(),
            end => Borders(std::iter::once(low).chain(end).collect()),
        }
    }

    /// The set of everything before `end`.
    pub(crate) fn before(end: Option<T>) -> Self {
        Borders::between(T::default(), end)
    }

    /// The complement.
    #[must_use]
    pub(crate) fn not(mut self) -> Self {
        match self.0.first() {
            Some(first) if *first == T::default() => {
                self.0.remove(0);
            }
            _ => self.0.insert(0, T::default()),
        }
        self
    }

    /// The intersection.
    pub(crate) fn and(&self, other: &Self) -> Self {
        self.merged(other, 2)
    }

    /// The union.
    pub(crate) fn or(&self, other: &Self) -> Self {
        self.merged(other, 1)
    }

    /// The things that are in at least `least` of the two sets.
    fn merged(&self, other: &Self, least: usize) -> Self {
        let (mut left, mut right) = (self.0.as_slice(), other.0.as_slice());
        let (mut in_left, mut in_right) = (false, false);
        let mut merged = Vec::with_capacity(left.len() + right.len());
        // Visit the borders of both sets in ascending order.
        while let Some(next) = left.first().into_iter().chain(right.first()).min() {
            in_left ^= step(&mut left, next);
            in_right ^= step(&mut right, next);
            let is_in = usize::from(in_left) + usize::from(in_right) >= least;
            // A border is needed only if membership changes. An even number of borders so far means that the last
            // stretch is outside.
            if is_in == merged.len().is_multiple_of(2) {
                merged.push(next.clone());
            }
        }
        Borders(merged)
    }

    pub(crate) fn contains(&self, value: &T) -> bool {
        self.0.partition_point(|border| border <= value) % 2 == 1
    }

    /// Whether all, some or none of the things from `min` to `max`, both inclusive, are in the set. Without `max`, the
    /// range has no end.
    pub(crate) fn share(&self, min: &T, max: Option<&T>) -> Share {
        // An odd number of borders at or before `min` means that `min` is in. If no border follows up to `max`, the
        // answer holds for the whole range.
        let before = self.0.partition_point(|border| border <= min);
        let behind = max.map_or(self.0.len(), |max| self.0.partition_point(|border| border <= max));
        match (before >= behind, before % 2 == 1) {
            (true, true) => Share::All,
            (true, false) => Share::None,
            (false, _) => Share::Some,
        }
    }

    /// The set with each thing mapped to another one. `map` must keep the order. Things at or above `end` do not exist
    /// in the result.
    pub(crate) fn try_map<U: Ord, E>(&self, end: &U, mut map: impl FnMut(&T) -> Result<U, E>) -> Result<Borders<U>, E> {
        // Borders keep alternating between in and out, because they are dropped only in pairs or at the end.
        let mut mapped: Vec<U> = Vec::with_capacity(self.0.len());
        for border in &self.0 {
            let border = map(border)?;
            if border >= *end {
                break;
            }
            // If two borders map to the same thing, the stretch between them is empty, so both go.
            match mapped.last() {
                Some(last) if *last >= border => {
                    mapped.pop();
                }
                _ => mapped.push(border),
            }
        }
        Ok(Borders(mapped))
    }

    /// The ranges of the set: the first thing of each, and the thing after its last one if the range has an end.
    pub(crate) fn ranges(&self) -> impl ExactSizeIterator<Item = (&T, Option<&T>)> {
        self.0.chunks(2).map(|range| (&range[0], range.get(1)))
    }
}

impl Borders<Vec<u8>> {
    pub(crate) fn contains_bytes(&self, value: &[u8]) -> bool {
        self.0.partition_point(|border| border.as_slice() <= value) % 2 == 1
    }
}

/// Takes `border` from the front of `borders` if it is there. Returns whether it was.
fn step<T: Ord>(borders: &mut &[T], border: &T) -> bool {
    match borders.split_first() {
        Some((first, rest)) if first == border => {
            *borders = rest;
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn borders() -> impl Strategy<Value = Borders<u8>> {
        proptest::collection::btree_set(0u8..20, 0..6).prop_map(|set| Borders(set.into_iter().collect()))
    }

    fn members(set: &Borders<u8>) -> Vec<bool> {
        (0..24).map(|value| set.contains(&value)).collect()
    }

    proptest! {
        #[test]
        fn set_operations_agree_with_members(left in borders(), right in borders(), low in 0u8..22, more in 0u8..22) {
            let (a, b) = (members(&left), members(&right));
            let each = |f: fn(bool, bool) -> bool| a.iter().zip(&b).map(|(a, b)| f(*a, *b)).collect::<Vec<_>>();
            prop_assert_eq!(members(&left.and(&right)), each(|a, b| a && b));
            prop_assert_eq!(members(&left.or(&right)), each(|a, b| a || b));
            prop_assert_eq!(members(&left.clone().not()), each(|a, _| !a));
            let high = (low + more).min(23);
            let within = &a[low as usize..=high as usize];
            let share = match (within.contains(&true), within.contains(&false)) {
                (true, true) => Share::Some,
                (true, false) => Share::All,
                _ => Share::None,
            };
            prop_assert_eq!(left.share(&low, Some(&high)), share);
            let halves = left.try_map(&9, |border| Ok::<u8, ()>(border.div_ceil(2))).unwrap();
            prop_assert!((0..9).all(|half| halves.contains(&half) == left.contains(&(half * 2))));
            let has = |low: u8, end: Option<&u8>, value| low <= value && end.is_none_or(|end| value < *end);
            let listed = |value: u8| left.ranges().any(|(low, end)| has(*low, end, value));
            prop_assert!((0..24).all(|value| left.contains(&value) == listed(value)));
        }
    }

    #[test]
    fn empty_ranges_have_no_borders() {
        assert_eq!(Borders::between(5, Some(5)), Borders::none());
        assert_eq!(Borders::<u8>::before(Some(0)), Borders::none());
        assert_eq!(Borders::<u8>::before(None), Borders::all());
        assert_eq!(Borders::<u8>::all().not(), Borders::none());
    }
}
