//! Variances and standard deviations.

use rowmill_plan::AggregateSpec;

use super::cell::{CellResult, FoldCell};
use super::fold::{Fold, float_numbers};
use super::signature::double;
use super::{AggregateState, Aggregation, FoldState, shown};
use crate::group::{NumberForm, StateNumbers};

pub(super) static SPREADS: &[Aggregation] = &[
    Aggregation {
        spec: AggregateSpec {
            aliases: &["var_population"],
            doc: "The mean of the squared distances of the values from their mean.",
            example: ("var_pop(x) FROM (VALUES (1), (3)) AS t(x)", "1.0"),
            ..AggregateSpec::new("var_pop", double)
        },
        state: state(|words| SpreadCell::load(words).variance(false).map(shown)),
    },
    Aggregation {
        spec: AggregateSpec {
            aliases: &["var", "var_sample", "variance"],
            doc: "The sum of the squared distances of the values from their mean, divided by their number minus one.",
            example: ("var_samp(x) FROM (VALUES (1), (3)) AS t(x)", "2.0"),
            ..AggregateSpec::new("var_samp", double)
        },
        state: state(|words| SpreadCell::load(words).variance(true).map(shown)),
    },
    Aggregation {
        spec: AggregateSpec {
            doc: "The square root of `var_pop`.",
            example: ("stddev_pop(x) FROM (VALUES (1), (3)) AS t(x)", "1.0"),
            ..AggregateSpec::new("stddev_pop", double)
        },
        state: state(|words| SpreadCell::load(words).variance(false).map(|variance| shown(variance.sqrt()))),
    },
    Aggregation {
        spec: AggregateSpec {
            aliases: &["stddev"],
            doc: "The square root of `var_samp`.",
            example: ("stddev_samp(x) FROM (VALUES (1), (5), (9)) AS t(x)", "4.0"),
            ..AggregateSpec::new("stddev_samp", double)
        },
        state: state(|words| SpreadCell::load(words).variance(true).map(|variance| shown(variance.sqrt()))),
    },
    Aggregation {
        spec: AggregateSpec {
            doc: "The standard error of the mean: `stddev_pop` divided by the square root of the number of values.",
            example: ("sem(x) FROM (VALUES (1), (3), (1), (3)) AS t(x)", "0.5"),
            ..AggregateSpec::new("sem", double)
        },
        state: state(|words| {
            let spread = SpreadCell::load(words);
            spread.variance(false).map(|variance| shown((variance / spread.count as f64).sqrt()))
        }),
    },
];

const fn state(result: fn(&[u64]) -> Option<f64>) -> AggregateState {
    let fold = &FoldCell::<SpreadCell>::NEW;
    AggregateState::Fold(FoldState { fold, result: CellResult::Float(result), needs_count: false })
}

/// The spread of floats around their mean: their number, the mean, and the sum of the squared distances. Welford's
/// method adds one number, Chan's adds another spread.
#[derive(Clone, Copy)]
struct SpreadCell {
    count: u64,
    mean: f64,
    squares: f64,
}

impl SpreadCell {
    /// The variance: the squares divided by the count, or by one less if `is_sample`. `None` for too few numbers.
    fn variance(&self, is_sample: bool) -> Option<f64> {
        let divisor = self.count.checked_sub(u64::from(is_sample)).filter(|divisor| *divisor > 0)?;
        Some(self.squares / divisor as f64)
    }
}

impl Fold for SpreadCell {
    type Number = f64;
    const INITIAL: &'static [u64] = &[0, 0, 0];

    fn form(_: &arrow::datatypes::DataType) -> Option<NumberForm> {
        Some(NumberForm::Float)
    }

    fn numbers(numbers: &StateNumbers) -> Option<&[f64]> {
        float_numbers(numbers)
    }

    #[inline(always)]
    fn load(words: &[u64]) -> SpreadCell {
        SpreadCell { count: words[0], mean: f64::from_bits(words[1]), squares: f64::from_bits(words[2]) }
    }

    #[inline(always)]
    fn store(self, words: &mut [u64]) {
        (words[0], words[1], words[2]) = (self.count, self.mean.to_bits(), self.squares.to_bits());
    }

    #[inline(always)]
    fn take(&mut self, number: f64) -> bool {
        self.count += 1;
        let before = number - self.mean;
        self.mean += before / self.count as f64;
        self.squares += before * (number - self.mean);
        false
    }

    #[inline(always)]
    fn take_times(&mut self, number: f64, rows: u64) -> bool {
        self.join(SpreadCell { count: rows, mean: number, squares: 0.0 })
    }

    #[inline(always)]
    fn join(&mut self, other: SpreadCell) -> bool {
        let count = self.count + other.count;
        if count == 0 {
            return false;
        }
        let (left, right) = (self.count as f64, other.count as f64);
        // The squares of two parts also differ by the distance of their means.
        let distance = self.mean - other.mean;
        self.squares += other.squares + distance * distance * left * right / count as f64;
        self.mean = (left * self.mean + right * other.mean) / count as f64;
        self.count = count;
        false
    }
}
