//! Scalar functions as data: a name, a signature, what the optimizer may rely on, and a kernel.
//!
//! The crate `expr` holds the registry of all functions. This module only defines the shape to which an expression
//! refers. To add a function, write one [`FunctionSpec`] in the file of its family and add it to that family's list.

use std::fmt;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, IntervalMonthDayNano};
use rowmill_base::{LengthUnit, Result};

use crate::{Constant, ScalarExpr};

/// A scalar function.
pub struct FunctionSpec {
    /// The name in lower case, as EXPLAIN and the documentation show it.
    pub name: &'static str,
    /// Other names that mean the same.
    pub aliases: &'static [&'static str],
    /// The family that the documentation lists it under, such as `text`.
    pub family: &'static str,
    /// For how long the function gives the same value for the same arguments.
    pub volatility: Volatility,
    /// Whether a call can fail for some arguments of the right types. The optimizer evaluates a function that can fail
    /// only for rows that need it.
    pub can_fail: bool,
    /// Whether a call that fails has a result that does not fit its type, and nothing else. No condition is written to
    /// guard against such a failure, so joins may compute the function for rows that have no partner.
    pub only_overflows: bool,
    /// Whether the result is NULL as soon as one argument is NULL. The kernel still sees the NULLs.
    pub strict: bool,
    /// Whether `f(f(a, b), c)` is `f(a, b, c)`. The optimizer makes one call of a chain of them, because each call
    /// copies the result of the call within it.
    pub associative: bool,
    /// If the result for a text is its length as an INTEGER, the unit. Storage knows lengths without decoding texts, so
    /// the engine need not call the kernel for stored texts.
    pub length_unit: Option<LengthUnit>,
    /// Returns the place of the argument with which the result never falls, as long as the other arguments are constant
    /// and the argument is a timestamp or date. For example, it is the place of `t` in `date_trunc('day', t)`.
    pub ascending_argument: fn(arguments: &[ScalarExpr]) -> Option<usize>,
    /// The types that the function takes and gives.
    pub signature: Signature,
    /// Computes the values.
    pub kernel: Kernel,
    /// Computes one value without arrays, for programs, which call a function for one row at a time. Only a strict
    /// function may have it.
    pub row: Option<RowKernel>,
    /// The documentation, which should be one line.
    pub doc: &'static str,
    /// A call that the documentation shows, with its result, such as `upper('mill')` and `MILL`. A test runs it.
    pub example: (&'static str, &'static str),
}

/// Chooses the types of a call from the types of its arguments.
///
/// Returns `None` if the function does not take such arguments. An argument of type `Null` is the literal `NULL`: the
/// signature chooses the type that it is cast to.
pub(crate) type Signature = fn(arguments: &[ArgumentKind<'_>]) -> Option<CallKinds>;

/// Computes a function for a batch. `rows` is the number of rows of the result. Every operand that is not constant must
/// have this number of rows.
pub type Kernel = fn(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef>;

/// Computes a function for one row. The arguments are not NULL and have the types `kinds`; the result has the type
/// `kind`. Returns `None` if the [`Kernel`] must compute the value, for example because it is an error.
pub type RowKernel =
    for<'a> fn(arguments: &[RowValue<'a>], kinds: &[DataType], kind: &DataType) -> Option<RowValue<'a>>;

/// A value of one row that is not NULL.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RowValue<'a> {
    /// A signed integer; a date in days, a time in microseconds, a timestamp in its unit.
    Int(i64),
    /// A DOUBLE.
    Float(f64),
    /// An interval.
    Interval(IntervalMonthDayNano),
    /// A text.
    Text(&'a str),
}

/// The facts about an argument that the binder of a call can use.
#[derive(Clone, Copy, Debug)]
pub struct ArgumentKind<'a> {
    /// Its type.
    pub kind: &'a DataType,
    /// Its value, if it is a literal.
    pub constant: Option<&'a Constant>,
}

/// The types of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct CallKinds {
    /// The types that the arguments are cast to, one for each argument.
    pub arguments: Vec<DataType>,
    /// The type of the result.
    pub result: DataType,
}

/// For how long a function gives the same value for the same arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Volatility {
    /// Forever. A call with constant arguments is a constant, and plans that contain it may be cached.
    Immutable,
    /// Within a statement. For example, `now()`.
    Stable,
    /// Not even within a statement. For example, `random()`. It must be evaluated exactly once per row.
    Volatile,
}

/// An argument of a call: a value for each row, or one value for all rows.
#[derive(Clone, Debug)]
pub struct Operand {
    /// The values; a single one if the operand is constant.
    pub values: ArrayRef,
    /// Whether the single value applies to every row.
    pub is_constant: bool,
}

impl Operand {
    /// A value for each row.
    pub fn rows(values: ArrayRef) -> Operand {
        Operand { values, is_constant: false }
    }

    /// One value for all rows.
    pub fn constant(values: ArrayRef) -> Operand {
        assert_eq!(values.len(), 1, "a constant is an array of one row");
        Operand { values, is_constant: true }
    }

    /// The index in `values` of the value of a row.
    #[inline]
    pub fn at(&self, row: usize) -> usize {
        if self.is_constant { 0 } else { row }
    }
}

impl fmt::Debug for FunctionSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for FunctionSpec {
    /// Every function is a static, so equal functions have equal addresses.
    fn eq(&self, other: &FunctionSpec) -> bool {
        std::ptr::eq(self, other)
    }
}
