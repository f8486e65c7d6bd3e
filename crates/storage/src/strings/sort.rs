//! Sorts distinct byte strings with a radix sort on words of eight bytes.
//!
//! Page addresses share long prefixes. Comparing them in pairs reads these prefixes again and again from scattered
//! memory. So we sort the values by their first eight bytes, which are kept as one integer next to the value's number.
//! Then we sort each run of equal words by the next eight bytes, and so on. Every byte that matters is read about once,
//! short runs are finished by comparing the rest, and a prefix that a whole run shares is skipped at once.

use std::ops::Range;

/// Runs of up to this length are finished by comparisons.
const COMPARED_RUN_MAX: usize = 12;

/// A value and its current word.
#[derive(Clone, Copy)]
struct SortedValue {
    /// Eight bytes at the run's depth, the first in the highest bits, with zeros after the value's end.
    word: u64,
    /// The index of the value.
    number: u32,
}

/// Returns the indexes of `values` in ascending order of their bytes. The values must be distinct.
pub(super) fn order(values: &[&[u8]]) -> Vec<u32> {
    let mut entries: Vec<SortedValue> =
        (0..values.len() as u32).map(|number| SortedValue { word: 0, number }).collect();
    // A work list instead of recursion, because prefixes may be very long.
    let mut runs = vec![(0..values.len(), 0)];
    while let Some((run, depth)) = runs.pop() {
        order_run(values, &mut entries[run.clone()], depth, |within, depth| {
            runs.push((run.start + within.start..run.start + within.end, depth));
        });
    }
    entries.iter().map(|entry| entry.number).collect()
}

/// Sorts values that share their first `depth` bytes. Runs that also share the next eight are passed to `again`.
fn order_run(values: &[&[u8]], run: &mut [SortedValue], depth: usize, mut again: impl FnMut(Range<usize>, usize)) {
    let rest = |entry: &SortedValue| &values[entry.number as usize][depth..];
    if run.len() <= COMPARED_RUN_MAX {
        run.sort_unstable_by(|left, right| rest(left).cmp(rest(right)));
        return;
    }
    for entry in run.iter_mut() {
        entry.word = word(rest(entry));
    }
    run.sort_unstable_by_key(|entry| entry.word);
    let mut start = 0;
    while start < run.len() {
        let same = run[start..].iter().take_while(|entry| entry.word == run[start].word).count();
        let end = start + same;
        if same > 1 {
            let ended = ended_first(values, &mut run[start..end], depth + 8);
            if end - start - ended > 1 {
                // Long common prefixes are skipped at once instead of eight bytes per pass.
                let agree = shared_prefix(values, &run[start + ended..end], depth + 8);
                again(start + ended..end, agree);
            }
        }
        start = end;
    }
}

/// Moves the values that end at `depth` or before to the front, the shortest first, and returns their number. The zeros
/// after their end made them equal to longer values with real zeros there, which must come later.
fn ended_first(values: &[&[u8]], run: &mut [SortedValue], depth: usize) -> usize {
    let len = |entry: &SortedValue| values[entry.number as usize].len();
    if !run.iter().any(|entry| len(entry) <= depth) {
        return 0;
    }
    run.sort_unstable_by_key(|entry| len(entry).min(depth + 1));
    run.iter().take_while(|entry| len(entry) <= depth).count()
}

/// The length that all values of the run share. They must share `depth` bytes, and a whole number of words is added.
fn shared_prefix(values: &[&[u8]], run: &[SortedValue], depth: usize) -> usize {
    let value = |entry: &SortedValue| &values[entry.number as usize][depth..];
    let (first, mut agree) = (value(&run[0]), usize::MAX);
    for entry in &run[1..] {
        let other = value(entry);
        let words = first.chunks_exact(8).zip(other.chunks_exact(8)).take(agree);
        agree = words.take_while(|(left, right)| left == right).count();
        if agree == 0 {
            break;
        }
    }
    depth + agree * 8
}

#[inline]
fn word(bytes: &[u8]) -> u64 {
    match bytes.first_chunk::<8>() {
        Some(eight) => u64::from_be_bytes(*eight),
        None => {
            let mut eight = [0; 8];
            eight[..bytes.len()].copy_from_slice(bytes);
            u64::from_be_bytes(eight)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ordered_like_the_standard_sort(mut values: Vec<Vec<u8>>) {
        values.sort();
        values.dedup();
        let mut shuffled: Vec<&[u8]> = values.iter().map(|value| &value[..]).collect();
        shuffled.sort_by_key(|value| rapidhash::v3::rapidhash_v3(value));
        let order: Vec<&[u8]> = order(&shuffled).iter().map(|&number| shuffled[number as usize]).collect();
        assert_eq!(order, values);
    }

    proptest! {
        /// Few letters, zeros among them, and common prefixes produce every kind of tie.
        #[test]
        fn values_sort_by_bytes(values in prop::collection::vec(prop::collection::vec(0u8..3, 0..30), 0..200)) {
            ordered_like_the_standard_sort(values);
        }
    }

    #[test]
    fn a_long_common_prefix_is_skipped() {
        let prefix = vec![b'x'; 100_003];
        let value = |number: u32| [&prefix[..], &number.to_be_bytes()[..]].concat();
        ordered_like_the_standard_sort((0..100).map(value).collect());
    }

    #[test]
    fn a_value_comes_before_the_same_value_with_zeros_appended() {
        ordered_like_the_standard_sort((0..40).map(|len| vec![0; len]).collect());
    }
}
