//! Helpers for tests: call functions by name over columns and constants, without binder and evaluator.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Decimal128Type, Decimal256Type};
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::function::{ArgumentKind, CallKinds};
use rowmill_plan::{Constant, Operand};

use super::find;

/// Makes a column of texts.
pub(super) fn text<const N: usize>(values: [Option<&str>; N]) -> Operand {
    Operand::rows(Arc::new(StringViewArray::from_iter(values)))
}

/// Makes a column of BIGINTs.
pub(super) fn bigint<const N: usize>(values: [Option<i64>; N]) -> Operand {
    Operand::rows(Arc::new(Int64Array::from_iter(values)))
}

/// Makes a column of DOUBLEs.
pub(super) fn double<const N: usize>(values: [Option<f64>; N]) -> Operand {
    Operand::rows(Arc::new(Float64Array::from_iter(values)))
}

/// Makes a column of any type.
pub(super) fn column(values: impl Array + 'static) -> Operand {
    Operand::rows(Arc::new(values))
}

/// Makes a constant.
pub(super) fn constant(value: impl Into<Constant>) -> Operand {
    Operand::constant(value.into().array().clone())
}

/// Makes a constant DOUBLE.
pub(super) fn number(value: f64) -> Operand {
    Operand::constant(Arc::new(Float64Array::from(vec![value])))
}

/// Makes a constant NULL of a type.
pub(super) fn null(kind: &DataType) -> Operand {
    Operand::constant(Constant::null(kind).array().clone())
}

/// Returns the types of a call.
pub(super) fn kinds(name: &str, arguments: &[Operand]) -> Option<CallKinds> {
    let constants: Vec<Option<Constant>> =
        arguments.iter().map(|argument| argument.is_constant.then(|| Constant::new(argument.values.clone()))).collect();
    let arguments: Vec<ArgumentKind<'_>> = arguments
        .iter()
        .zip(&constants)
        .map(|(argument, constant)| ArgumentKind { kind: argument.values.data_type(), constant: constant.as_ref() })
        .collect();
    (find(name).unwrap_or_else(|| panic!("no function {name}")).signature)(&arguments)
}

/// Returns the result of a call for the rows of its columns, or for one row if all arguments are constant.
pub(super) fn call(name: &str, arguments: &[Operand]) -> Result<ArrayRef> {
    let rows = arguments.iter().find(|argument| !argument.is_constant).map_or(1, |argument| argument.values.len());
    call_rows(name, arguments, rows)
}

/// Returns the result of a call for `rows` rows.
pub(super) fn call_rows(name: &str, arguments: &[Operand], rows: usize) -> Result<ArrayRef> {
    let kinds = kinds(name, arguments).unwrap_or_else(|| panic!("{name} does not take {arguments:?}"));
    let arguments: Vec<Operand> = arguments
        .iter()
        .zip(&kinds.arguments)
        .map(|(argument, kind)| Operand { values: cast(&argument.values, kind).unwrap(), ..argument.clone() })
        .collect();
    let function = find(name).unwrap();
    let made = (function.kernel)(&arguments, &kinds.result, rows);
    match &made {
        Ok(made) => {
            assert_eq!(*made.data_type(), kinds.result, "the type that the signature of {name} says");
            assert_eq!(made.len(), rows);
        }
        Err(error) if error.kind() == ErrorKind::ResultTooLarge => (),
        Err(error) => assert!(function.can_fail, "{name} must not fail: {error}"),
    }
    made
}

/// Returns the result of a call as text, one entry per row.
pub(super) fn shown(name: &str, arguments: &[Operand]) -> Vec<String> {
    show(&call(name, arguments).unwrap())
}

/// Returns the values of a column as text.
pub(super) fn show(values: &ArrayRef) -> Vec<String> {
    let shown = |row: usize| match values.data_type() {
        _ if values.is_null(row) => "NULL".to_owned(),
        DataType::Decimal128(..) => values.as_primitive::<Decimal128Type>().value_as_string(row),
        DataType::Decimal256(..) => values.as_primitive::<Decimal256Type>().value_as_string(row),
        DataType::BinaryView => values.as_binary_view().value(row).iter().map(|byte| format!("{byte:02x}")).collect(),
        _ => arrow::util::display::array_value_to_string(values, row).unwrap(),
    };
    (0..values.len()).map(shown).collect()
}

/// Returns the error of a call.
pub(super) fn refused(name: &str, arguments: &[Operand]) -> Error {
    match call(name, arguments) {
        Ok(made) => panic!("{name} gave {:?}", show(&made)),
        Err(error) => error,
    }
}
