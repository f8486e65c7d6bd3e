//! `fsum` and `favg`: totals of floats that keep what rounding loses.

use arrow::datatypes::DataType;
use rowmill_plan::AggregateSpec;

use super::cell::{CellResult, FoldCell};
use super::fold::{Fold, float_numbers};
use super::signature::double;
use super::{AggregateState, Aggregation, FoldState, shown};
use crate::group::{NumberForm, StateNumbers};

pub(super) static EXACT_SUMS: &[Aggregation] = &[
    Aggregation {
        spec: AggregateSpec {
            aliases: &["sumkahan", "kahan_sum"],
            doc: "The sum of the values as a double, with the digits that rounding loses on the way.",
            example: ("fsum(x) FROM (VALUES (1e16), (1), (-1e16)) AS t(x)", "1.0"),
            ..AggregateSpec::new("fsum", double)
        },
        state: state(|words| {
            Some(CompensatedSum::load(words)).filter(|sum| sum.count > 0).map(|sum| shown(sum.total()))
        }),
    },
    Aggregation {
        spec: AggregateSpec {
            doc: "The mean of the values as a double, with the digits that rounding loses on the way.",
            example: ("favg(x) FROM (VALUES (1), (2)) AS t(x)", "1.5"),
            ..AggregateSpec::new("favg", double)
        },
        state: state(|words| {
            let sum = Some(CompensatedSum::load(words)).filter(|sum| sum.count > 0)?;
            Some(shown(sum.total() / sum.count as f64))
        }),
    },
];

const fn state(result: fn(&[u64]) -> Option<f64>) -> AggregateState {
    let fold = &FoldCell::<CompensatedSum>::NEW;
    AggregateState::Fold(FoldState { fold, result: CellResult::Float(result), needs_count: false })
}

/// A sum of floats and the sum of what its additions lost (Neumaier, 1974).
#[derive(Clone, Copy)]
struct CompensatedSum {
    count: u64,
    sum: f64,
    lost: f64,
}

impl CompensatedSum {
    fn total(&self) -> f64 {
        // An infinite sum has lost nothing, and its difference to a number would be NaN.
        if self.sum.is_finite() { self.sum + self.lost } else { self.sum }
    }

    #[inline(always)]
    fn add(&mut self, number: f64) {
        let sum = self.sum + number;
        self.lost += if self.sum.abs() >= number.abs() { (self.sum - sum) + number } else { (number - sum) + self.sum };
        self.sum = sum;
    }
}

impl Fold for CompensatedSum {
    type Number = f64;
    const INITIAL: &'static [u64] = &[0; 3];

    fn form(_: &DataType) -> Option<NumberForm> {
        Some(NumberForm::Float)
    }

    fn numbers(numbers: &StateNumbers) -> Option<&[f64]> {
        float_numbers(numbers)
    }

    #[inline(always)]
    fn load(words: &[u64]) -> CompensatedSum {
        CompensatedSum { count: words[0], sum: f64::from_bits(words[1]), lost: f64::from_bits(words[2]) }
    }

    #[inline(always)]
    fn store(self, words: &mut [u64]) {
        (words[0], words[1], words[2]) = (self.count, self.sum.to_bits(), self.lost.to_bits());
    }

    #[inline(always)]
    fn take(&mut self, number: f64) -> bool {
        self.count += 1;
        self.add(number);
        false
    }

    #[inline(always)]
    fn take_times(&mut self, number: f64, rows: u64) -> bool {
        self.count += rows;
        let product = number * rows as f64;
        self.add(product);
        if product.is_finite() {
            // The multiplication rounds, too.
            self.lost += number.mul_add(rows as f64, -product);
        }
        false
    }

    #[inline(always)]
    fn join(&mut self, other: CompensatedSum) -> bool {
        self.count += other.count;
        self.add(other.sum);
        self.lost += other.lost;
        false
    }
}
