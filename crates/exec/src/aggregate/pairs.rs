//! Aggregates of pairs of doubles (y, x): covariance, correlation and the least-squares line.
//!
//! A cell keeps the number of pairs, both means, the sums of the squared distances from them, and the sum of their
//! products. Welford's method adds one pair and Chan's adds another cell, as for a variance. A pair travels as one
//! value of 128 bits with y in the low half.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};
use rowmill_base::{Error, Result};
use rowmill_plan::AggregateSpec;

use super::cell::{CellResult, FoldCell};
use super::fold::{Fold, Number};
use super::signature::{Kinds, double_of};
use super::{AggregateState, Aggregation, FoldState, shown};
use crate::group::{NumberForm, StateNumbers};

pub(super) static PAIRS: &[Aggregation] = &[
    Aggregation {
        spec: AggregateSpec {
            doc: "Pearson's correlation coefficient of the pairs (y, x); NULL if either has no spread.",
            example: ("corr(y, x) FROM (VALUES (1, 2), (2, 4), (3, 6)) AS t(y, x)", "1.0"),
            ..pair("corr", doubles)
        },
        state: float(|words| of(words, PairsCell::correlation)),
    },
    Aggregation {
        spec: AggregateSpec {
            doc: "The mean product of the distances of pairs (y, x) from their means.",
            example: ("covar_pop(y, x) FROM (VALUES (1, 2), (3, 6)) AS t(y, x)", "2.0"),
            ..pair("covar_pop", doubles)
        },
        state: float(|words| of(words, |cell| Some(cell.products / cell.count as f64))),
    },
    Aggregation {
        spec: AggregateSpec {
            aliases: &["covar"],
            doc: "The sum of the products of the distances of pairs (y, x) from their means, divided by the number of \
                  pairs minus one.",
            example: ("covar_samp(y, x) FROM (VALUES (1, 2), (3, 6)) AS t(y, x)", "4.0"),
            ..pair("covar_samp", doubles)
        },
        state: float(|words| of(words, |cell| (cell.count > 1).then(|| cell.products / (cell.count - 1) as f64))),
    },
    Aggregation {
        spec: AggregateSpec {
            doc: "The slope of the least-squares line through the pairs (y, x).",
            example: ("regr_slope(y, x) FROM (VALUES (1, 2), (2, 4)) AS t(y, x)", "0.5"),
            ..pair("regr_slope", doubles)
        },
        state: float(|words| of(words, PairsCell::slope)),
    },
    Aggregation {
        spec: AggregateSpec {
            doc: "The y at which the least-squares line through the pairs (y, x) crosses the y axis.",
            example: ("regr_intercept(y, x) FROM (VALUES (1, 0), (3, 1)) AS t(y, x)", "1.0"),
            ..pair("regr_intercept", doubles)
        },
        state: float(|words| of(words, |cell| cell.slope().map(|slope| cell.mean_y - slope * cell.mean_x))),
    },
    Aggregation {
        spec: AggregateSpec {
            doc: "The square of the correlation coefficient of the pairs (y, x); 1 if y has no spread.",
            example: ("regr_r2(y, x) FROM (VALUES (5, 1), (5, 2)) AS t(y, x)", "1.0"),
            ..pair("regr_r2", doubles)
        },
        state: float(|words| of(words, PairsCell::determination)),
    },
    Aggregation {
        spec: AggregateSpec {
            doc: "The mean of x over the pairs (y, x).",
            example: ("regr_avgx(y, x) FROM (VALUES (1, 2), (3, 6)) AS t(y, x)", "4.0"),
            ..pair("regr_avgx", doubles)
        },
        state: float(|words| of(words, |cell| Some(cell.mean_x))),
    },
    Aggregation {
        spec: AggregateSpec {
            doc: "The mean of y over the pairs (y, x).",
            example: ("regr_avgy(y, x) FROM (VALUES (1, 2), (3, 6)) AS t(y, x)", "2.0"),
            ..pair("regr_avgy", doubles)
        },
        state: float(|words| of(words, |cell| Some(cell.mean_y))),
    },
    Aggregation {
        spec: AggregateSpec {
            doc: "The sum of the squared distances of x from its mean.",
            example: ("regr_sxx(y, x) FROM (VALUES (1, 2), (3, 6)) AS t(y, x)", "8.0"),
            ..pair("regr_sxx", doubles)
        },
        state: float(|words| of(words, |cell| Some(cell.squares_x))),
    },
    Aggregation {
        spec: AggregateSpec {
            doc: "The sum of the squared distances of y from its mean.",
            example: ("regr_syy(y, x) FROM (VALUES (1, 2), (3, 6)) AS t(y, x)", "2.0"),
            ..pair("regr_syy", doubles)
        },
        state: float(|words| of(words, |cell| Some(cell.squares_y))),
    },
    Aggregation {
        spec: AggregateSpec {
            doc: "The sum of the products of the distances of x and y from their means.",
            example: ("regr_sxy(y, x) FROM (VALUES (1, 2), (3, 6)) AS t(y, x)", "4.0"),
            ..pair("regr_sxy", doubles)
        },
        state: float(|words| of(words, |cell| Some(cell.products))),
    },
    Aggregation {
        spec: AggregateSpec {
            is_zero_of_nothing: true,
            doc: "The number of pairs (y, x) in which neither value is NULL.",
            example: ("regr_count(y, x) FROM (VALUES (1, 2), (3, NULL)) AS t(y, x)", "1"),
            ..pair("regr_count", counted)
        },
        state: state(CellResult::Integer(|words| words[0] as i64)),
    },
];

const fn pair(name: &'static str, signature: fn(&[DataType]) -> Kinds) -> AggregateSpec {
    AggregateSpec { arguments: 2, ..AggregateSpec::new(name, signature) }
}

const fn state(result: CellResult) -> AggregateState {
    AggregateState::Fold(FoldState { fold: &FoldCell::<PairsCell>::NEW, result, needs_count: false })
}

const fn float(result: fn(&[u64]) -> Option<f64>) -> AggregateState {
    state(CellResult::Float(result))
}

/// Reads a result from the words of a cell that has taken a pair. `None` if a divisor is zero.
fn of(words: &[u64], result: impl Fn(&PairsCell) -> Option<f64>) -> Option<f64> {
    Some(PairsCell::load(words)).filter(|cell| cell.count > 0).and_then(|cell| result(&cell)).map(shown)
}

/// Two numbers. The aggregates compute in doubles, whatever the types are.
fn doubles(arguments: &[DataType]) -> Kinds {
    let [y, x] = arguments else { return None };
    Some((vec![double_of(y)?, double_of(x)?], DataType::Float64))
}

fn counted(arguments: &[DataType]) -> Kinds {
    doubles(arguments).map(|(casts, _)| (casts, DataType::Int64))
}

/// The cell of all aggregates of pairs.
#[derive(Clone, Copy)]
struct PairsCell {
    count: u64,
    mean_y: f64,
    mean_x: f64,
    squares_y: f64,
    squares_x: f64,
    products: f64,
}

impl PairsCell {
    fn slope(&self) -> Option<f64> {
        (self.squares_x != 0.0).then(|| self.products / self.squares_x)
    }

    fn correlation(&self) -> Option<f64> {
        (self.squares_x != 0.0 && self.squares_y != 0.0).then(|| {
            let product = self.squares_x * self.squares_y;
            // If the product overflows or underflows, take the roots first.
            let root = match product.is_normal() {
                true => product.sqrt(),
                false => self.squares_x.sqrt() * self.squares_y.sqrt(),
            };
            // Rounding must not leave the range of a correlation.
            (self.products / root).clamp(-1.0, 1.0)
        })
    }

    fn determination(&self) -> Option<f64> {
        match (self.squares_x != 0.0, self.squares_y != 0.0) {
            (false, _) => None,
            (true, false) => Some(1.0),
            (true, true) => Some((self.products / self.squares_x * (self.products / self.squares_y)).min(1.0)),
        }
    }
}

impl Fold for PairsCell {
    type Number = i128;
    const INITIAL: &'static [u64] = &[0; 6];

    fn form(_: &DataType) -> Option<NumberForm> {
        Some(NumberForm::Wide)
    }

    fn numbers(numbers: &StateNumbers) -> Option<&[i128]> {
        i128::of(numbers)
    }

    #[inline(always)]
    fn load(words: &[u64]) -> PairsCell {
        let float = |word: usize| f64::from_bits(words[word]);
        PairsCell {
            count: words[0],
            mean_y: float(1),
            mean_x: float(2),
            squares_y: float(3),
            squares_x: float(4),
            products: float(5),
        }
    }

    #[inline(always)]
    fn store(self, words: &mut [u64]) {
        let floats = [self.mean_y, self.mean_x, self.squares_y, self.squares_x, self.products];
        words[0] = self.count;
        words[1..6].iter_mut().zip(floats).for_each(|(word, float)| *word = float.to_bits());
    }

    #[inline(always)]
    fn take(&mut self, number: i128) -> bool {
        let (y, x) = pair_of(number);
        self.count += 1;
        let (before_y, before_x) = (y - self.mean_y, x - self.mean_x);
        self.mean_y += before_y / self.count as f64;
        self.mean_x += before_x / self.count as f64;
        self.squares_y += before_y * (y - self.mean_y);
        self.squares_x += before_x * (x - self.mean_x);
        self.products += before_x * (y - self.mean_y);
        false
    }

    #[inline(always)]
    fn take_times(&mut self, number: i128, rows: u64) -> bool {
        let (mean_y, mean_x) = pair_of(number);
        self.join(PairsCell { count: rows, mean_y, mean_x, squares_y: 0.0, squares_x: 0.0, products: 0.0 })
    }

    #[inline(always)]
    fn join(&mut self, other: PairsCell) -> bool {
        if other.count == 0 {
            return false;
        }
        if self.count == 0 {
            *self = other;
            return false;
        }
        let count = self.count + other.count;
        let (left, right, both) = (self.count as f64, other.count as f64, count as f64);
        let (distance_y, distance_x) = (self.mean_y - other.mean_y, self.mean_x - other.mean_x);
        // The distance of the means adds to the squares and products, as for a variance.
        let weight = left * right / both;
        self.squares_y += other.squares_y + distance_y * distance_y * weight;
        self.squares_x += other.squares_x + distance_x * distance_x * weight;
        self.products += other.products + distance_y * distance_x * weight;
        self.mean_y = (left * self.mean_y + right * other.mean_y) / both;
        self.mean_x = (left * self.mean_x + right * other.mean_x) / both;
        self.count = count;
        false
    }
}

/// The type that carries pairs of doubles. No code calculates with it.
pub(crate) const PAIR: DataType = DataType::Decimal128(38, 0);

/// Puts two columns of numbers side by side. A pair is NULL if either number is.
pub(crate) fn pairs_of(first: &ArrayRef, second: &ArrayRef) -> Result<ArrayRef> {
    let double =
        |values: &ArrayRef| cast(values, &DataType::Float64).map_err(|error| Error::internal(error.to_string()));
    let (first, second) = (double(first)?, double(second)?);
    let (first, second) = (first.as_primitive::<Float64Type>(), second.as_primitive::<Float64Type>());
    let nulls = NullBuffer::union(first.nulls(), second.nulls());
    // Equal pairs must have equal bits, so we use one zero and one NaN.
    let bits = |value: f64| u128::from(shown(value).to_bits());
    let pairs = first.values().iter().zip(second.values()).map(|(low, high)| (bits(*low) | bits(*high) << 64) as i128);
    Ok(Arc::new(Decimal128Array::new(pairs.collect::<Vec<_>>().into(), nulls)))
}

/// Both halves of a pair: y and x, or a value and its weight.
#[inline(always)]
pub(super) fn pair_of(number: i128) -> (f64, f64) {
    (f64::from_bits(number as u64), f64::from_bits((number as u128 >> 64) as u64))
}
