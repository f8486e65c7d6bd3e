//! The types that families of aggregates take and give.

use arrow::datatypes::DataType;
use rowmill_plan::aggregate::total_kind;

/// The casts of the arguments and the type of the result, if the arguments fit.
pub(super) type Kinds = Option<(Vec<DataType>, DataType)>;

/// `kind`, or `instead` for the literal `NULL`.
pub(super) fn known(kind: &DataType, instead: DataType) -> DataType {
    if *kind == DataType::Null { instead } else { kind.clone() }
}

/// One argument and the result, both of type `kind`.
pub(super) fn same(kind: DataType) -> Kinds {
    Some((vec![kind.clone()], kind))
}

/// DOUBLE if `kind` is numeric.
pub(super) fn double_of(kind: &DataType) -> Option<DataType> {
    (*kind == DataType::Null || total_kind(kind).is_some()).then_some(DataType::Float64)
}

/// REAL for a REAL, DOUBLE for any other number.
pub(super) fn float_of(kind: &DataType) -> Option<DataType> {
    if *kind == DataType::Float32 { Some(DataType::Float32) } else { double_of(kind) }
}

/// Any type, which is also that of the result.
pub(super) fn any(arguments: &[DataType]) -> Kinds {
    let [kind] = arguments else { return None };
    same(known(kind, DataType::Utf8View))
}

/// Any type, and a count.
pub(super) fn counted(arguments: &[DataType], result: DataType) -> Kinds {
    let [kind] = arguments else { return None };
    Some((vec![known(kind, DataType::Boolean)], result))
}

/// A number, cast to DOUBLE.
pub(super) fn double(arguments: &[DataType]) -> Kinds {
    let [kind] = arguments else { return None };
    same(double_of(kind)?)
}

/// A number, cast to REAL or DOUBLE.
pub(super) fn float(arguments: &[DataType]) -> Kinds {
    let [kind] = arguments else { return None };
    same(float_of(kind)?)
}

/// A boolean.
pub(super) fn boolean(arguments: &[DataType]) -> Kinds {
    matches!(arguments, [DataType::Boolean | DataType::Null]).then(|| same(DataType::Boolean))?
}

/// An integer.
pub(super) fn integer(arguments: &[DataType]) -> Kinds {
    let [kind] = arguments else { return None };
    let kind = known(kind, DataType::Int64);
    if kind.is_integer() { same(kind) } else { None }
}
