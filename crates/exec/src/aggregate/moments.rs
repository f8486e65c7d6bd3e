//! The shape of a distribution: its skewness and kurtosis.

use arrow::datatypes::DataType;
use rowmill_plan::AggregateSpec;

use super::cell::{CellResult, FoldCell};
use super::fold::{Fold, float_numbers};
use super::signature::double;
use super::{AggregateState, Aggregation, FoldState, shown};
use crate::group::{NumberForm, StateNumbers};

pub(super) static MOMENTS: &[Aggregation] = &[
    Aggregation {
        spec: AggregateSpec {
            doc: "How far the values lean to one side of their mean, for a sample; NULL for fewer than three values.",
            example: ("round(skewness(x), 4) FROM (VALUES (1), (2), (9)) AS t(x)", "1.6301"),
            ..AggregateSpec::new("skewness", double)
        },
        state: state(|words| MomentsCell::load(words).skewness().map(shown)),
    },
    Aggregation {
        spec: AggregateSpec {
            doc: "How heavy the tails of the values are, for a sample; 0 for a normal distribution, NULL for fewer \
                  than four values.",
            example: ("round(kurtosis(x), 4) FROM (VALUES (1), (2), (3), (9)) AS t(x)", "3.0144"),
            ..AggregateSpec::new("kurtosis", double)
        },
        state: state(|words| MomentsCell::load(words).kurtosis(true).map(shown)),
    },
    Aggregation {
        spec: AggregateSpec {
            doc: "How heavy the tails of the values are; 0 for a normal distribution.",
            example: ("round(kurtosis_pop(x), 4) FROM (VALUES (1), (2), (3), (9)) AS t(x)", "-0.7981"),
            ..AggregateSpec::new("kurtosis_pop", double)
        },
        state: state(|words| MomentsCell::load(words).kurtosis(false).map(shown)),
    },
];

const fn state(result: fn(&[u64]) -> Option<f64>) -> AggregateState {
    let fold = &FoldCell::<MomentsCell>::NEW;
    AggregateState::Fold(FoldState { fold, result: CellResult::Float(result), needs_count: false })
}

/// The number of floats, their mean, and the sums of the second to fourth powers of the distances from it. The formulas
/// that join two parts are those of Pébay (Sandia report SAND2008-6212).
#[derive(Clone, Copy)]
struct MomentsCell {
    count: u64,
    mean: f64,
    squares: f64,
    cubes: f64,
    fourths: f64,
}

impl MomentsCell {
    fn skewness(&self) -> Option<f64> {
        let count = self.count as f64;
        // Equal values have no shape.
        if self.count < 3 || self.squares == 0.0 {
            return None;
        }
        let population = count.sqrt() * self.cubes / self.squares.powf(1.5);
        Some(population * (count * (count - 1.0)).sqrt() / (count - 2.0))
    }

    fn kurtosis(&self, is_sample: bool) -> Option<f64> {
        let count = self.count as f64;
        if self.count < if is_sample { 4 } else { 2 } || self.squares == 0.0 {
            return None;
        }
        let excess = count * self.fourths / (self.squares * self.squares) - 3.0;
        match is_sample {
            false => Some(excess),
            true => Some((count - 1.0) / ((count - 2.0) * (count - 3.0)) * ((count + 1.0) * excess + 6.0)),
        }
    }
}

impl Fold for MomentsCell {
    type Number = f64;
    const INITIAL: &'static [u64] = &[0; 5];

    fn form(_: &DataType) -> Option<NumberForm> {
        Some(NumberForm::Float)
    }

    fn numbers(numbers: &StateNumbers) -> Option<&[f64]> {
        float_numbers(numbers)
    }

    #[inline(always)]
    fn load(words: &[u64]) -> MomentsCell {
        let float = |word: usize| f64::from_bits(words[word]);
        MomentsCell { count: words[0], mean: float(1), squares: float(2), cubes: float(3), fourths: float(4) }
    }

    #[inline(always)]
    fn store(self, words: &mut [u64]) {
        words[0] = self.count;
        let floats = [self.mean, self.squares, self.cubes, self.fourths];
        words[1..5].iter_mut().zip(floats).for_each(|(word, float)| *word = float.to_bits());
    }

    #[inline(always)]
    fn take(&mut self, number: f64) -> bool {
        self.join(MomentsCell { count: 1, mean: number, squares: 0.0, cubes: 0.0, fourths: 0.0 })
    }

    #[inline(always)]
    fn take_times(&mut self, number: f64, rows: u64) -> bool {
        self.join(MomentsCell { count: rows, mean: number, squares: 0.0, cubes: 0.0, fourths: 0.0 })
    }

    #[inline(always)]
    fn join(&mut self, other: MomentsCell) -> bool {
        if other.count == 0 {
            return false;
        }
        if self.count == 0 {
            *self = other;
            return false;
        }
        let (left, right) = (self.count as f64, other.count as f64);
        let both = left + right;
        let distance = other.mean - self.mean;
        let step = distance / both;
        let product = distance * step * left * right;
        self.fourths += other.fourths
            + product * step * step * (left * left - left * right + right * right)
            + 6.0 * step * step * (left * left * other.squares + right * right * self.squares)
            + 4.0 * step * (left * other.cubes - right * self.cubes);
        self.cubes +=
            other.cubes + product * step * (left - right) + 3.0 * step * (left * other.squares - right * self.squares);
        self.squares += other.squares + product;
        self.mean += step * right;
        self.count += other.count;
        false
    }
}
