//! `bit_and`, `bit_or` and `bit_xor`.

use arrow::datatypes::DataType;
use rowmill_plan::AggregateSpec;

use super::cell::{CellFold, CellResult, FoldCell};
use super::fold::{Fold, Number};
use super::signature::integer;
use super::{AggregateState, Aggregation, FoldState};
use crate::group::{NumberForm, StateNumbers};

pub(super) static BITS: &[Aggregation] = &[
    Aggregation {
        spec: AggregateSpec {
            ignores_duplicates: true,
            joins_parts: true,
            doc: "The bits that all values have.",
            example: ("bit_and(x) FROM (VALUES (6), (3)) AS t(x)", "2"),
            ..AggregateSpec::new("bit_and", integer)
        },
        state: state(&FoldCell::<BitAnd>::NEW),
    },
    Aggregation {
        spec: AggregateSpec {
            ignores_duplicates: true,
            joins_parts: true,
            doc: "The bits that some value has.",
            example: ("bit_or(x) FROM (VALUES (6), (3)) AS t(x)", "7"),
            ..AggregateSpec::new("bit_or", integer)
        },
        state: state(&FoldCell::<BitOr>::NEW),
    },
    Aggregation {
        spec: AggregateSpec {
            joins_parts: true,
            doc: "The bits that an odd number of values have.",
            example: ("bit_xor(x) FROM (VALUES (6), (3)) AS t(x)", "5"),
            ..AggregateSpec::new("bit_xor", integer)
        },
        state: state(&FoldCell::<BitXor>::NEW),
    },
];

const fn state(fold: &'static dyn CellFold) -> AggregateState {
    AggregateState::Fold(FoldState { fold, result: CellResult::Bits, needs_count: true })
}

macro_rules! bits {
    ($(#[$doc:meta])* $name:ident, $initial:expr, $operator:tt, $times:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        struct $name(u64);

        impl Fold for $name {
            type Number = u64;
            const INITIAL: &'static [u64] = &[$initial];

            fn form(_: &DataType) -> Option<NumberForm> {
                Some(NumberForm::Unsigned)
            }

            fn numbers(numbers: &StateNumbers) -> Option<&[u64]> {
                u64::of(numbers)
            }

            #[inline(always)]
            fn load(words: &[u64]) -> Self {
                $name(words[0])
            }

            #[inline(always)]
            fn store(self, words: &mut [u64]) {
                words[0] = self.0;
            }

            #[inline(always)]
            fn take(&mut self, number: u64) -> bool {
                self.0 $operator number;
                false
            }

            #[inline(always)]
            fn take_times(&mut self, number: u64, rows: u64) -> bool {
                let times: fn(u64, u64) -> u64 = $times;
                self.take(times(number, rows))
            }

            #[inline(always)]
            fn join(&mut self, other: Self) -> bool {
                self.take(other.0)
            }
        }
    };
}

bits!(
    /// The bits that all numbers have.
    BitAnd, u64::MAX, &=, |number, _| number
);
bits!(
    /// The bits that at least one number has.
    BitOr, 0, |=, |number, _| number
);
bits!(
    /// The bits that an odd number of numbers have.
    BitXor, 0, ^=, |number, rows| number * (rows % 2)
);
