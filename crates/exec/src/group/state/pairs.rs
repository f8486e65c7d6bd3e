//! Aggregates of pairs of doubles (y, x): covariance, correlation and the least-squares line.
//!
//! A cell keeps the number of pairs, both means, the sums of the squared distances from them, and the sum of their
//! products. Welford's method adds one pair and Chan's adds another cell, as for a variance. A pair travels as one
//! value of 128 bits (see pair.rs of the operator) with y in the low half.

use rowmill_plan::AggregateFunction;

use super::fold::{Fold, Number};
use super::numbers::StateNumbers;

/// The cell of all aggregates of pairs.
pub(super) struct PairsCell {
    count: u64,
    mean_y: f64,
    mean_x: f64,
    squares_y: f64,
    squares_x: f64,
    products: f64,
}

impl PairsCell {
    /// The aggregate of the pairs. `None` if there are too few pairs or a divisor is zero, and for the count of pairs.
    pub(super) fn value(&self, function: AggregateFunction) -> Option<f64> {
        use AggregateFunction as Function;
        if self.count == 0 {
            return None;
        }
        let has_spread = |squares: f64| squares != 0.0;
        let slope = || has_spread(self.squares_x).then(|| self.products / self.squares_x);
        match function {
            Function::CovariancePopulation => Some(self.products / self.count as f64),
            Function::CovarianceSample => (self.count > 1).then(|| self.products / (self.count - 1) as f64),
            Function::Correlation => (has_spread(self.squares_x) && has_spread(self.squares_y)).then(|| {
                let product = self.squares_x * self.squares_y;
                // If the product overflows or underflows, take the roots first.
                let root = match product.is_normal() {
                    true => product.sqrt(),
                    false => self.squares_x.sqrt() * self.squares_y.sqrt(),
                };
                // Rounding must not leave the range of a correlation.
                let of_both = self.products / root;
                of_both.clamp(-1.0, 1.0)
            }),
            Function::RegressionSlope => slope(),
            Function::RegressionIntercept => slope().map(|slope| self.mean_y - slope * self.mean_x),
            Function::RegressionR2 if !has_spread(self.squares_x) => None,
            Function::RegressionR2 if !has_spread(self.squares_y) => Some(1.0),
            Function::RegressionR2 => {
                Some((self.products / self.squares_x * (self.products / self.squares_y)).min(1.0))
            }
            Function::RegressionAverageX => Some(self.mean_x),
            Function::RegressionAverageY => Some(self.mean_y),
            Function::RegressionSumXX => Some(self.squares_x),
            Function::RegressionSumYY => Some(self.squares_y),
            Function::RegressionSumXY => Some(self.products),
            _ => None,
        }
    }
}

impl Fold for PairsCell {
    type Number = i128;
    const INITIAL: &'static [u64] = &[0; 6];

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

/// Both halves of a pair: y and x, or a value and its weight.
#[inline(always)]
pub(super) fn pair_of(number: i128) -> (f64, f64) {
    (f64::from_bits(number as u64), f64::from_bits((number as u128 >> 64) as u64))
}
