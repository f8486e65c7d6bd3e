//! `product`.

use arrow::datatypes::DataType;
use rowmill_plan::AggregateSpec;

use super::cell::{CellResult, FoldCell};
use super::fold::{Fold, float_numbers};
use super::signature::double;
use super::{AggregateState, Aggregation, FoldState, shown};
use crate::group::{NumberForm, StateNumbers};

pub(super) static PRODUCTS: &[Aggregation] = &[Aggregation {
    spec: AggregateSpec {
        joins_parts: true,
        doc: "The product of the values, as a double.",
        example: ("product(x) FROM (VALUES (2), (3), (7)) AS t(x)", "42.0"),
        ..AggregateSpec::new("product", double)
    },
    state: AggregateState::Fold(FoldState {
        fold: &FoldCell::<Product>::NEW,
        result: CellResult::Float(|words| Some(shown(Product::load(words).0))),
        needs_count: true,
    }),
}];

/// A product of floats.
#[derive(Clone, Copy)]
struct Product(f64);

impl Fold for Product {
    type Number = f64;
    const INITIAL: &'static [u64] = &[1.0_f64.to_bits()];

    fn form(_: &DataType) -> Option<NumberForm> {
        Some(NumberForm::Float)
    }

    fn numbers(numbers: &StateNumbers) -> Option<&[f64]> {
        float_numbers(numbers)
    }

    #[inline(always)]
    fn load(words: &[u64]) -> Product {
        Product(f64::from_bits(words[0]))
    }

    #[inline(always)]
    fn store(self, words: &mut [u64]) {
        words[0] = self.0.to_bits();
    }

    #[inline(always)]
    fn take(&mut self, number: f64) -> bool {
        self.0 *= number;
        false
    }

    #[inline(always)]
    fn take_times(&mut self, number: f64, rows: u64) -> bool {
        // The power as a float: more rows than a double counts exactly make a product of 0, 1 or infinity anyway.
        self.take(number.powf(rows as f64))
    }

    #[inline(always)]
    fn join(&mut self, other: Product) -> bool {
        self.take(other.0)
    }
}
