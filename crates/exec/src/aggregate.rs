//! The aggregates of SQL: one file for each family.
//!
//! An [`Aggregation`] says under which names and for which types an aggregate can be called, and how it is computed.
//! There are three ways for a new one:
//!
//! * [`AggregateState::Fold`]: each group has a few words (`fold.rs`), which take one number at a time. Groupings,
//!   windows, value lists and orders by the aggregate work without further code. `spread.rs` is an example.
//! * [`AggregateState::Values`]: the values of each group are kept, and a function computes the result from them.
//!   `mode.rs` is an example.
//! * [`AggregateState::Sketch`]: each group has a sketch in a format of Apache DataSketches (`sketch.rs`).
//!
//! To add an aggregate, write an entry in the file of its family, or write a new file and name its list in
//! [`FAMILIES`]. The documentation and the example of the entry appear in `SHOW FUNCTIONS`, and a test runs the
//! example.

mod approximate;
mod bits;
mod cell;
mod count;
mod exact_sum;
mod extreme;
mod fold;
mod frequency;
mod list;
mod mode;
mod moments;
mod nth;
mod pairs;
mod product;
mod quantile;
mod signature;
mod sketch;
mod spread;
#[cfg(test)]
mod tests;
mod text;
mod total;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::LazyLock;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use rowmill_base::{Error, Reservation, Result};
use rowmill_expr::sketch::SketchFunction;
use rowmill_plan::{AggregateFunction, AggregateSpec};

pub(crate) use self::cell::{CellFold, CellResult, FoldCell, i128_of};
pub(crate) use self::extreme::extreme_fold;
pub(crate) use self::fold::{
    Count, Fold, SumFloat, SumNarrow, SumSigned, SumUnsigned, SumWide, add_to_many, add_to_one,
};
pub(crate) use self::pairs::{PAIR, pairs_of};
pub(crate) use self::total::SUM_FLOAT;

/// The families, in the order of the documentation.
static FAMILIES: &[&[Aggregation]] = &[
    count::COUNTS,
    total::TOTALS,
    extreme::EXTREMES,
    nth::NTHS,
    bits::BITS,
    exact_sum::EXACT_SUMS,
    spread::SPREADS,
    moments::MOMENTS,
    pairs::PAIRS,
    product::PRODUCTS,
    quantile::QUANTILES,
    mode::MODES,
    frequency::FREQUENCIES,
    list::LISTS,
    text::TEXTS,
    approximate::ESTIMATES,
    sketch::SKETCHES,
];

/// An aggregate and the way to compute it.
pub(crate) struct Aggregation {
    /// The facts for the binder, the optimizer and the documentation.
    pub spec: AggregateSpec,
    pub(crate) state: AggregateState,
}

/// The state that a group keeps for an aggregate.
pub(crate) enum AggregateState {
    /// The number of rows or values.
    Count,
    /// An exact total of integers or decimals, or a total of floats. An average divides it by a count.
    Total,
    /// The least value, or the greatest one.
    Extreme { is_greatest: bool },
    /// A few words of its own, into which numbers are folded.
    Fold(FoldState),
    /// The values themselves.
    Values(ValuesState),
    /// A sketch of the values.
    Sketch(&'static SketchFunction),
}

/// An aggregate that folds numbers into a few words.
#[derive(Clone, Copy)]
pub(crate) struct FoldState {
    /// The words, and how they take numbers. Aggregates with the same fold share it.
    pub(crate) fold: &'static dyn CellFold,
    /// How the result is read from the words.
    pub(crate) result: CellResult,
    /// Whether the words alone do not say if there was a value. The group then counts the values.
    pub(crate) needs_count: bool,
}

/// An aggregate that needs the values of a group.
pub(crate) struct ValuesState {
    pub(crate) kept: KeptValues,
    /// Computes the results of all groups.
    pub(crate) finish: fn(GroupValues<'_>) -> Result<ArrayRef>,
}

/// The values that a group keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeptValues {
    /// All of them, or with DISTINCT each once.
    All,
    /// As [`KeptValues::All`], but equal values may come as one value with its count.
    Counted,
    /// The first one in the order of the rows.
    First,
    /// The last one in the order of the rows.
    Last,
    /// None: only the registers that estimate the number of distinct values.
    Registers,
}

/// The values of some groups: those of group `i` are at `starts[i]..starts[i + 1]` of `column`.
pub(crate) struct GroupValues<'a> {
    /// The values. If the aggregate has an order, the values of each group are in this order.
    pub(crate) column: &'a ArrayRef,
    /// How often each value counts. `None` means once, and an aggregate of [`KeptValues::All`] always gets `None`.
    /// Equal values may still come more than once.
    pub(crate) counts: Option<&'a [u64]>,
    pub(crate) starts: &'a [usize],
    /// The constant of the call, as an array of one row.
    pub(crate) parameter: Option<&'a ArrayRef>,
    /// The type of the result.
    pub(crate) kind: &'a DataType,
    /// For memory beyond that of the values and of one value for each group.
    pub(crate) memory: &'a mut Reservation,
}

impl<'a> GroupValues<'a> {
    /// The constant of the call, which the binder has checked.
    fn parameter(&self) -> Result<&'a ArrayRef> {
        self.parameter.ok_or_else(|| Error::internal("an aggregate lacks its parameter"))
    }
}

/// The number of rows that the values at some places stand for. `counts` is [`GroupValues::counts`].
fn count_of(counts: Option<&[u64]>, places: Range<usize>) -> u64 {
    match counts {
        Some(counts) => counts[places].iter().sum(),
        None => places.len() as u64,
    }
}

static BY_NAME: LazyLock<HashMap<&'static str, &'static Aggregation>> = LazyLock::new(|| {
    let mut by_name = HashMap::new();
    for aggregation in FAMILIES.iter().copied().flatten() {
        for name in std::iter::once(&aggregation.spec.name).chain(aggregation.spec.aliases) {
            // Two aggregates with one name would hide each other, so this must fail at the first call.
            assert!(by_name.insert(*name, aggregation).is_none(), "the name of an aggregate is unique: {name}");
        }
    }
    by_name
});

/// All aggregates, in the order of the documentation.
pub fn all() -> impl Iterator<Item = AggregateFunction> {
    FAMILIES.iter().copied().flatten().map(|aggregation| &aggregation.spec)
}

/// The names and aliases of all aggregates, in no order.
pub fn names() -> impl Iterator<Item = &'static str> {
    BY_NAME.keys().copied()
}

/// Finds an aggregate by its name or alias in upper or lower case.
pub fn find(name: &str) -> Option<AggregateFunction> {
    match BY_NAME.get(name) {
        None if name.bytes().any(|byte| byte.is_ascii_uppercase()) => BY_NAME.get(&*name.to_ascii_lowercase()),
        found => found,
    }
    .map(|aggregation| &aggregation.spec)
}

/// The aggregate with this name.
///
/// # Panics
///
/// Panics if there is no such aggregate. The name must be one that the caller knows to be in the registry.
pub fn named(name: &str) -> AggregateFunction {
    find(name).unwrap_or_else(|| panic!("there is no aggregate {name}"))
}

/// The state of an aggregate of the registry.
pub(crate) fn state_of(function: AggregateFunction) -> Result<&'static AggregateState> {
    let aggregation = BY_NAME.get(function.name).copied();
    let aggregation =
        aggregation.ok_or_else(|| Error::internal(format!("no aggregate is called {}", function.name)))?;
    Ok(&aggregation.state)
}

/// Makes -0 to 0 and every NaN to the same one, so that equal results print alike.
pub(crate) fn shown(value: f64) -> f64 {
    if value.is_nan() { f64::NAN } else { value + 0.0 }
}
