//! Values at which ranges of values end.

use std::cmp::Ordering;

use arrow::array::{Array, ArrayRef, BinaryViewArray};
use arrow::compute::SortOptions;
use rowmill_base::{Error, Result, SqlType};
use rowmill_storage::chunk::ValueSet;

use super::bits::{Bits, bits_of};
use super::rank::text_rank;
use super::rows::take;
use super::state::{BitOrder, wide_number};
use super::texts::texts_of;

/// Ascending values. The number of a value's range is the count of borders that are not greater than the value. For
/// example, with the borders 10 and 20, the value 5 is in range 0 and the value 10 is in range 1.
pub(super) struct Borders {
    /// For each border, the set of values that are less.
    below: Vec<ValueSet>,
    /// Numbers in the order of the values.
    ranks: Vec<i128>,
    /// Texts with the same first bytes may have the same rank, so they must be compared themselves.
    texts: Option<TextBorders>,
}

struct TextBorders {
    texts: BinaryViewArray,
    /// The number of bytes that all borders begin with. The ranks are of the bytes that follow.
    shared: usize,
}

impl Borders {
    /// No border, and therefore one range.
    pub(super) fn none() -> Borders {
        Borders { below: Vec::new(), ranks: Vec::new(), texts: None }
    }

    /// Takes as borders the values in the order of `sample` that follow each `values` other values. They must be of
    /// type `kind`. NULL is never a border.
    pub(super) fn of_sample(sample: &ArrayRef, kind: &SqlType, values: usize) -> Result<Borders> {
        let no_order = || Error::internal(format!("values of {kind} have no order"));
        let options = SortOptions { descending: false, nulls_first: true };
        let order = arrow::compute::sort_to_indices(sample, Some(options), None).map_err(|_| no_order())?;
        // NULLs come first in this order and are skipped.
        let places = order.values()[sample.null_count()..].iter().skip(values).step_by(values);
        let borders = take(sample, &places.copied().collect::<Vec<_>>())?;
        let below = (0..borders.len()).map(|place| ValueSet::less_than(kind, &borders.slice(place, 1), false));
        let below = below.collect::<Option<_>>().ok_or_else(no_order)?;
        let texts = texts_of(&borders).map(TextBorders::new);
        let ranks = match &texts {
            Some(TextBorders { texts, shared }) => {
                (0..texts.len()).map(|place| text_rank(&texts.value(place)[*shared..])).collect()
            }
            None => ranks_of(&borders)?,
        };
        Ok(Borders { below, ranks, texts })
    }

    /// The number of borders.
    pub(super) fn len(&self) -> usize {
        self.below.len()
    }

    /// The values less than a border; `None` if no border has this number.
    pub(super) fn below(&self, number: usize) -> Option<&ValueSet> {
        self.below.get(number)
    }

    /// The range of each of `values`. NULL is in the last range.
    pub(super) fn ranges_of(&self, values: &ArrayRef) -> Result<Vec<u32>> {
        if self.len() == 0 {
            return Ok(vec![0; values.len()]);
        }
        let nulls = values.logical_nulls().filter(|nulls| nulls.null_count() > 0);
        let range_of = |row: usize, range: &dyn Fn(usize) -> usize| match &nulls {
            Some(nulls) if nulls.is_null(row) => self.len() as u32,
            _ => range(row) as u32,
        };
        let Some(borders) = self.texts.as_ref() else {
            let ranks = ranks_of(values)?;
            let range = |row: usize| self.ranks.partition_point(|border| *border <= ranks[row]);
            return Ok((0..values.len()).map(|row| range_of(row, &range)).collect());
        };
        let texts = texts_of(values).ok_or_else(|| Error::internal("borders of texts got other values"))?;
        let range = |row: usize| borders.range_of(&self.ranks, texts.value(row));
        Ok((0..values.len()).map(|row| range_of(row, &range)).collect())
    }
}

impl TextBorders {
    fn new(texts: BinaryViewArray) -> TextBorders {
        let shared = match texts.len() {
            0 => 0,
            len => {
                let (first, last) = (texts.value(0), texts.value(len - 1));
                first.iter().zip(last).take_while(|(first, last)| first == last).count()
            }
        };
        TextBorders { texts, shared }
    }

    fn range_of(&self, ranks: &[i128], text: &[u8]) -> usize {
        if ranks.is_empty() {
            return 0;
        }
        let shared = &self.texts.value(0)[..self.shared];
        let (start, rest) = text.split_at(text.len().min(self.shared));
        match start.cmp(shared) {
            Ordering::Less => return 0,
            Ordering::Greater => return ranks.len(),
            Ordering::Equal => {}
        }
        let rank = text_rank(rest);
        // Several borders may have this rank: compare their texts.
        let first = ranks.partition_point(|border| *border < rank);
        let alike = ranks[first..].iter().take_while(|border| **border == rank);
        first + alike.zip(first..).take_while(|(_, border)| self.texts.value(*border) <= text).count()
    }
}

/// Numbers in the order of values of a fixed size.
fn ranks_of(values: &ArrayRef) -> Result<Vec<i128>> {
    let kind = values.data_type();
    Ok(match bits_of(values)? {
        Bits::Narrow { numbers, width } => {
            let order = BitOrder::of(kind, width);
            numbers.iter().map(|bits| order.number(*bits).into()).collect()
        }
        Bits::Wide(numbers) => numbers.iter().map(|bits| wide_number(kind, *bits)).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Float64Array, Int64Array, StringViewArray};
    use std::sync::Arc;

    fn check(sample: ArrayRef, kind: &SqlType, values: &ArrayRef, is_not_greater: impl Fn(usize, usize) -> bool) {
        let borders = Borders::of_sample(&sample, kind, 1).expect("borders");
        assert_eq!(borders.len(), sample.len() - sample.null_count() - 1);
        for (row, range) in borders.ranges_of(values).expect("ranges").into_iter().enumerate() {
            let expected = match values.is_null(row) {
                true => borders.len(),
                // The least value of the sample is no border.
                false => (1..=borders.len()).filter(|border| is_not_greater(*border, row)).count(),
            };
            assert_eq!(range as usize, expected, "row {row}");
            let is_below =
                |number: usize| borders.below(number).expect("a border").contains(kind, &values.slice(row, 1));
            assert!(values.is_null(row) || (0..borders.len()).all(|number| is_below(number) == (number >= expected)));
        }
    }

    #[test]
    fn without_borders_all_values_are_in_one_range() {
        let texts: ArrayRef = Arc::new(StringViewArray::from_iter([Some("a"), None]));
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(7), None]));
        for values in [texts, numbers] {
            assert_eq!(Borders::none().ranges_of(&values).expect("ranges"), [0, 0]);
        }
    }

    #[test]
    fn the_range_of_a_value_counts_the_borders_that_are_not_greater() {
        let numbers = [i64::MIN, -5, 0, 7, i64::MAX];
        let values: Vec<i64> = numbers.iter().flat_map(|n| [n.saturating_sub(1), *n, n.saturating_add(1)]).collect();
        let (sample, rows) = (Int64Array::from(numbers.to_vec()), Int64Array::from(values.clone()));
        check(Arc::new(sample), &SqlType::Int64, &(Arc::new(rows) as ArrayRef), |border, row| {
            numbers[border] <= values[row]
        });
        let floats = [f64::NEG_INFINITY, -1.5, 0.0, 2.0, f64::INFINITY];
        let values = [-2.0, -1.5, -1.0, -0.0, 0.0, 1.0, 2.0, 3.0, f64::INFINITY];
        let (sample, rows) = (Float64Array::from(floats.to_vec()), Float64Array::from(values.to_vec()));
        check(Arc::new(sample), &SqlType::Float64, &(Arc::new(rows) as ArrayRef), |border, row| {
            floats[border] <= values[row]
        });
        for start in ["", "http://", "a text that is longer than any rank "] {
            let texts = ["a", "b", "b with something behind", "b with something else", "c", "c\u{0}"];
            let texts: Vec<String> = texts.iter().map(|text| format!("{start}{text}")).collect();
            let mut values: Vec<Option<String>> =
                texts.iter().flat_map(|t| [t.clone(), format!("{t} more")]).map(Some).collect();
            values.extend(["", "a", "http", "zebra", "http://b with something"].map(|text| Some(text.to_owned())));
            values.push(None);
            let mut sorted = texts.clone();
            sorted.sort();
            let (sample, rows) =
                (StringViewArray::from_iter_values(&texts), StringViewArray::from_iter(values.clone()));
            check(Arc::new(sample), &SqlType::TEXT, &(Arc::new(rows) as ArrayRef), |border, row| {
                values[row].as_ref().is_some_and(|value| sorted[border] <= *value)
            });
        }
    }
}
