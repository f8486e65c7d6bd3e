//! Aggregates as data: names, types, and what the binder and the optimizer may rely on.
//!
//! The engine holds the registry of all aggregates (`rowmill_exec::aggregate`), because each of them says there how it
//! is computed. This module only defines the shape to which a call refers.

use std::fmt;

use arrow::datatypes::DataType;
use rowmill_base::{NARROW_DIGITS_MAX, WIDE_DIGITS_MAX};

/// A function that computes one value from the rows of a group. Two of them are equal if they have the same name.
pub struct AggregateSpec {
    /// The name in lower case, as EXPLAIN and the documentation show it.
    pub name: &'static str,
    /// Other names that mean the same.
    pub aliases: &'static [&'static str],
    /// The number of values that it takes per row, without the parameter. For `count` this is 1, although `count(*)`
    /// takes none.
    pub arguments: usize,
    /// The constant that it needs in addition.
    pub parameter: AggregateParameter,
    /// The types that it takes and gives.
    pub signature: AggregateSignature,
    /// What the optimizer knows about its value.
    pub role: AggregateRole,
    /// How it treats NULLs.
    pub nulls: AggregateNulls,
    /// How the order of the rows changes the result.
    pub ordering: AggregateOrdering,
    /// Whether `WITHIN GROUP (ORDER BY value)` may give its argument or its order.
    pub within_group: bool,
    /// Whether the result without any value is 0. It is NULL for all other aggregates.
    pub is_zero_of_nothing: bool,
    /// Whether repeated values do not change the result, so that DISTINCT has no effect.
    pub ignores_duplicates: bool,
    /// Whether the aggregate of a group can be computed from the aggregates of parts of the group.
    pub joins_parts: bool,
    /// The documentation, which should be one line.
    pub doc: &'static str,
    /// A query with its result, which the documentation shows without `SELECT`. A test runs it.
    pub example: (&'static str, &'static str),
}

/// Chooses the types to which the arguments without the parameter are cast, and the type of the result.
///
/// Returns `None` if the aggregate does not take such arguments. An argument of type `Null` is the literal `NULL`.
pub(crate) type AggregateSignature = fn(arguments: &[DataType]) -> Option<(Vec<DataType>, DataType)>;

/// The function of an aggregate. Compare functions by [`AggregateSpec::role`] where a rule needs to know one of them.
pub type AggregateFunction = &'static AggregateSpec;

/// What the optimizer knows about the value of an aggregate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AggregateRole {
    /// The number of rows, or of values that are not NULL.
    Count,
    /// The sum of the values.
    Sum,
    /// The sum of the values divided by their number.
    Average,
    /// The least value; of booleans, whether all are true.
    Min,
    /// The greatest value; of booleans, whether any is true.
    Max,
    /// The list of all values.
    List,
    /// No rule knows the value.
    Other,
}

/// How an aggregate treats NULLs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AggregateNulls {
    /// It never sees them.
    Skipped,
    /// It treats NULL like any other value, unless the call says `IGNORE NULLS`.
    Taken,
    /// It treats NULL like any other value only if the call says `RESPECT NULLS`.
    TakenOnDemand,
}

/// How the order of the rows changes the result of an aggregate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AggregateOrdering {
    /// The result does not depend on an order.
    Irrelevant,
    /// The result depends on the order of the rows: that of the ORDER BY of the call, or any.
    OfRows,
    /// The values are ordered by themselves. The ORDER BY of the call only says which end comes first.
    OfValues,
    /// The result does not depend on an order, but `DESC` means the share 1 - s instead of s.
    TurnsShare,
}

/// A parameter of an aggregate besides its arguments. It must be a constant of the statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AggregateParameter {
    /// No parameter.
    Nothing,
    /// A text that is the last argument: the separator of `string_agg`. NULL is the empty text.
    Separator,
    /// A BIGINT other than 0 that is the last argument: the place of `nth_value`.
    Nth,
    /// A DOUBLE from 0 to 1: the share of a quantile. The one argument in `percentile_cont(share) WITHIN GROUP (ORDER
    /// BY value)`, the last one in `percentile_cont(value, share)`. With `DESC` it counts from the greatest value: a
    /// continuous quantile then has 1 - share, a discrete one keeps its order.
    Share,
    /// A BIGINT within bounds that may be the last argument: the size of a sketch.
    Size(SizeBounds),
}

/// The sizes that an aggregate takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeBounds {
    /// The name of the parameter, for errors.
    pub name: &'static str,
    /// The least size.
    pub least: i64,
    /// The greatest size.
    pub most: i64,
    /// The size if a call gives none.
    pub default: i64,
}

impl AggregateParameter {
    /// The type that the parameter is cast to.
    pub fn kind(self) -> Option<DataType> {
        match self {
            AggregateParameter::Nothing => None,
            AggregateParameter::Separator => Some(DataType::Utf8View),
            AggregateParameter::Nth | AggregateParameter::Size(_) => Some(DataType::Int64),
            AggregateParameter::Share => Some(DataType::Float64),
        }
    }
}

impl AggregateSpec {
    /// An aggregate of one argument that skips NULLs, knows no order and gives NULL without values. Its documentation
    /// must be added.
    pub const fn new(name: &'static str, signature: AggregateSignature) -> AggregateSpec {
        AggregateSpec {
            name,
            aliases: &[],
            arguments: 1,
            parameter: AggregateParameter::Nothing,
            signature,
            role: AggregateRole::Other,
            nulls: AggregateNulls::Skipped,
            ordering: AggregateOrdering::Irrelevant,
            within_group: false,
            is_zero_of_nothing: false,
            ignores_duplicates: false,
            joins_parts: false,
            doc: "",
            example: ("", ""),
        }
    }

    /// The types to which the arguments, without the parameter, are cast, and the type of the result. Returns `None` if
    /// the aggregate does not take such arguments.
    pub fn kinds(&self, arguments: &[DataType]) -> Option<(Vec<DataType>, DataType)> {
        (self.signature)(arguments)
    }

    /// Whether the function is `count`.
    pub fn is_count(&self) -> bool {
        self.role == AggregateRole::Count
    }

    /// Whether it treats NULL like any other value, unless the call skips NULLs.
    pub fn takes_nulls(&self) -> bool {
        self.nulls != AggregateNulls::Skipped
    }
}

impl PartialEq for AggregateSpec {
    fn eq(&self, other: &AggregateSpec) -> bool {
        self.name == other.name
    }
}

impl Eq for AggregateSpec {}

impl fmt::Debug for AggregateSpec {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name)
    }
}

/// The type of the exact sum of values of `kind`, or `None` if such values cannot be added.
pub fn total_kind(kind: &DataType) -> Option<DataType> {
    use DataType::{
        Decimal128, Decimal256, Float32, Float64, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64,
    };
    Some(match kind {
        Int8 | Int16 | Int32 | UInt8 | UInt16 | UInt32 => Int64,
        Int64 | UInt64 => Decimal128(NARROW_DIGITS_MAX, 0),
        // A negative scale belongs to a numbered type, whose values are no quantities.
        Decimal128(_, scale @ 0..) => Decimal128(NARROW_DIGITS_MAX, *scale),
        Decimal256(_, scale @ 0..) => Decimal256(WIDE_DIGITS_MAX, *scale),
        Float32 | Float64 => Float64,
        _ => return None,
    })
}
