//! Signatures that functions of several families share.
//!
//! A signature tells which arguments a function takes and to which types they are cast. The rules are narrower than
//! those of CAST. An integer may replace a BIGINT, every number a DOUBLE, and a literal text any type that can be read
//! from it. A column of numbers must not become a text, so that `upper(price)` is an error rather than a surprise.

use crate::kinds::is_number;
use arrow::datatypes::DataType;
use rowmill_base::Error;
use rowmill_plan::FunctionSpec;
use rowmill_plan::function::{ArgumentKind, CallKinds, Volatility};

pub(super) const TEXT: DataType = DataType::Utf8View;
pub(super) const BLOB: DataType = DataType::BinaryView;
pub(super) const BOOLEAN: DataType = DataType::Boolean;
pub(super) const INTEGER: DataType = DataType::Int32;
pub(super) const BIGINT: DataType = DataType::Int64;
pub(super) const DOUBLE: DataType = DataType::Float64;

/// Returns the properties that most functions of a family share: immutable, strict, and never failing. The entries of a
/// family name only the differences. New entries should begin with it.
pub(super) const fn ordinary(family: &'static str) -> FunctionSpec {
    FunctionSpec {
        name: "",
        aliases: &[],
        family,
        volatility: Volatility::Immutable,
        can_fail: false,
        only_overflows: false,
        strict: true,
        associative: false,
        length_unit: None,
        ascending_argument: |_| None,
        signature: |_| None,
        kernel: |_, _, _| Err(Error::internal("a function without a kernel was called")),
        row: None,
        doc: "",
        example: ("", ""),
    }
}

/// Accepts parameters of fixed types, all required.
pub(super) fn exactly(arguments: &[ArgumentKind<'_>], parameters: &[DataType], result: DataType) -> Option<CallKinds> {
    optional(arguments, parameters.len(), parameters, result)
}

/// Accepts parameters of fixed types. The first `required` ones must be given.
pub(super) fn optional(
    arguments: &[ArgumentKind<'_>],
    required: usize,
    parameters: &[DataType],
    result: DataType,
) -> Option<CallKinds> {
    let is_taken = (required..=parameters.len()).contains(&arguments.len())
        && arguments.iter().zip(parameters).all(|(argument, parameter)| stands_for(argument, parameter));
    is_taken.then(|| CallKinds { arguments: parameters[..arguments.len()].to_vec(), result })
}

/// Accepts any number of arguments of one type, but at least `least`.
pub(super) fn variadic(
    arguments: &[ArgumentKind<'_>],
    least: usize,
    parameter: &DataType,
    result: DataType,
) -> Option<CallKinds> {
    let is_taken = arguments.len() >= least && arguments.iter().all(|argument| stands_for(argument, parameter));
    is_taken.then(|| CallKinds { arguments: vec![parameter.clone(); arguments.len()], result })
}

/// Accepts values of any type that has a text form, and casts them to text.
pub(super) fn any_as_text(arguments: &[ArgumentKind<'_>], least: usize) -> Option<CallKinds> {
    (arguments.len() >= least).then(|| CallKinds { arguments: vec![TEXT; arguments.len()], result: TEXT })
}

/// Accepts one TEXT or BLOB without a cast, and further parameters of fixed types.
pub(super) fn bytes(arguments: &[ArgumentKind<'_>], further: &[DataType], result: DataType) -> Option<CallKinds> {
    let (first, rest) = arguments.split_first()?;
    let first = match first.kind {
        DataType::Null => TEXT,
        kind if [TEXT, BLOB].contains(kind) => kind.clone(),
        _ => return None,
    };
    let rest = exactly(rest, further, result)?;
    Some(CallKinds { arguments: [vec![first], rest.arguments].concat(), result: rest.result })
}

/// Returns the type in which a function of any number sees `argument`. A literal text and NULL become DOUBLE.
pub(super) fn number(argument: &ArgumentKind<'_>) -> Option<DataType> {
    match argument.kind {
        DataType::Null => Some(DOUBLE),
        kind if is_number(kind) => Some(kind.clone()),
        _ if is_literal_text(argument) => Some(DOUBLE),
        _ => None,
    }
}

/// Accepts floats: REAL if all arguments are REAL, otherwise DOUBLE.
pub(super) fn floats(arguments: &[ArgumentKind<'_>], count: usize) -> Option<CallKinds> {
    let is_real = |argument: &ArgumentKind<'_>| *argument.kind == DataType::Float32;
    let kind = if count > 0 && arguments.iter().all(is_real) { DataType::Float32 } else { DOUBLE };
    exactly(arguments, &vec![kind.clone(); count], kind)
}

/// Accepts one number of any type.
pub(super) fn one_number(
    arguments: &[ArgumentKind<'_>],
    result: impl FnOnce(&DataType) -> DataType,
) -> Option<CallKinds> {
    let [argument] = arguments else { return None };
    let kind = number(argument)?;
    Some(CallKinds { result: result(&kind), arguments: vec![kind] })
}

/// Whether an argument is accepted where a function asks for `parameter`.
pub(super) fn stands_for(argument: &ArgumentKind<'_>, parameter: &DataType) -> bool {
    let kind = argument.kind;
    if kind == parameter || *kind == DataType::Null {
        return true;
    }
    match parameter {
        DataType::Int64 => kind.is_integer() || is_literal_text(argument),
        DataType::Float32 | DataType::Float64 => number(argument).is_some(),
        _ => false,
    }
}

fn is_literal_text(argument: &ArgumentKind<'_>) -> bool {
    *argument.kind == TEXT && argument.constant.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(kinds: &[DataType]) -> Vec<ArgumentKind<'_>> {
        kinds.iter().map(|kind| ArgumentKind { kind, constant: None }).collect()
    }

    #[test]
    fn integers_are_accepted_as_bigint_and_null_as_anything() {
        let kinds = [TEXT, DataType::UInt8, DataType::Null];
        let call = exactly(&arguments(&kinds), &[TEXT, BIGINT, TEXT], TEXT).unwrap();
        assert_eq!(call.arguments, [TEXT, BIGINT, TEXT]);
        assert!(exactly(&arguments(&[BIGINT]), &[TEXT], TEXT).is_none());
        assert!(exactly(&arguments(&[DOUBLE]), &[BIGINT], TEXT).is_none());
        assert!(exactly(&arguments(&[]), &[TEXT], TEXT).is_none());
        assert!(optional(&arguments(&[TEXT]), 1, &[TEXT, BIGINT], TEXT).is_some());
        assert!(optional(&arguments(&[TEXT, BIGINT, TEXT]), 1, &[TEXT, BIGINT], TEXT).is_none());
    }

    #[test]
    fn only_a_literal_text_is_accepted_as_a_number() {
        let five = rowmill_plan::Constant::from("5");
        assert!(!stands_for(&ArgumentKind { kind: &TEXT, constant: None }, &DOUBLE));
        assert!(stands_for(&ArgumentKind { kind: &TEXT, constant: Some(&five) }, &DOUBLE));
    }

    #[test]
    fn floats_are_real_only_if_all_are() {
        let real = DataType::Float32;
        assert_eq!(floats(&arguments(&[real.clone(), real.clone()]), 2).unwrap().result, real);
        assert_eq!(floats(&arguments(&[real.clone(), BIGINT]), 2).unwrap().result, DOUBLE);
        assert_eq!(floats(&[], 0).unwrap().result, DOUBLE);
    }
}
