//! Whether a call can fail, given the literals among its arguments.
//!
//! Many functions fail only because of an argument that most statements write as a literal, for example an invalid
//! pattern or a negative length. `substring(phone, 1, 2)` never fails, although `substring(phone, a, b)` can. This
//! matters because the optimizer moves only expressions that cannot fail. To find out whether the literals are valid,
//! we call the function with an empty text.

use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryViewArray, StringViewArray};
use arrow::datatypes::DataType;
use rowmill_plan::function::ArgumentKind;
use rowmill_plan::{FunctionSpec, Operand, ScalarExpr};

use super::result_limit::with_result_limit;

/// Functions whose first argument, a text or a BLOB, never makes a call fail.
const FAIL_BY_LATER_ARGUMENTS: &[&str] = &[
    "substring",
    "split_part",
    "overlay",
    "lpad",
    "rpad",
    "replace",
    "regexp_like",
    "regexp_match",
    "regexp_replace",
    "regexp_count",
    "regexp_instr",
    "regexp_substr",
    "similar_to",
    "digest",
    "encode",
];

/// The most bytes that a trial may make of the empty text. A batch with this much in each row is far below the limit on
/// results.
const TRIAL_BYTES_MAX: u64 = 1 << 12;

/// Whether a call of `function` can fail for some values of the arguments that are not literals. We do not count a
/// result that exceeds the limit on results, because it needs arguments that are almost as large.
pub(crate) fn call_can_fail(function: &FunctionSpec, arguments: &[ScalarExpr]) -> bool {
    if !function.can_fail || !FAIL_BY_LATER_ARGUMENTS.contains(&function.name) {
        return function.can_fail;
    }
    // The text itself never makes these functions fail, so an empty one can replace it in the trial.
    let Some((first, later)) = arguments.split_first() else { return true };
    let empty: ArrayRef = match first.kind {
        DataType::Utf8View => Arc::new(StringViewArray::from(vec![""])),
        DataType::BinaryView => Arc::new(BinaryViewArray::from(vec![&[][..]])),
        _ => return true,
    };
    let literals = later.iter().map(|argument| argument.as_constant().map(|value| value.array().clone()));
    let Some(literals) = literals.collect::<Option<Vec<ArrayRef>>>() else { return true };
    let operands: Vec<Operand> = std::iter::once(empty).chain(literals).map(Operand::constant).collect();
    let Some(kind) = result_kind(function, &operands) else { return true };
    with_result_limit(TRIAL_BYTES_MAX, || (function.kernel)(&operands, &kind, 1)).is_err()
}

/// Returns the type of the result of a call.
fn result_kind(function: &FunctionSpec, operands: &[Operand]) -> Option<DataType> {
    let arguments: Vec<ArgumentKind<'_>> =
        operands.iter().map(|operand| ArgumentKind { kind: operand.values.data_type(), constant: None }).collect();
    (function.signature)(&arguments).map(|kinds| kinds.result)
}

#[cfg(test)]
mod tests {
    use rowmill_plan::Constant;

    use super::*;
    use crate::functions::find;
    use crate::functions::signatures::TEXT;
    use crate::typing;

    /// Whether the call with a column and literals can fail.
    fn fails<const N: usize>(name: &str, literals: [Constant; N]) -> bool {
        let literals = literals.into_iter().map(ScalarExpr::literal);
        let arguments = std::iter::once(ScalarExpr::column(0, TEXT)).chain(literals).collect();
        crate::fold::can_fail(&typing::call(find(name).unwrap(), arguments).unwrap())
    }

    #[test]
    fn calls_with_good_literals_cannot_fail() {
        assert!(!fails("substring", [1.into(), 2.into()]));
        assert!(fails("substring", [1.into(), (-1).into()]));
        assert!(!fails("regexp_like", ["^a+".into()]));
        assert!(fails("regexp_like", ["(".into()]));
        assert!(fails("regexp_like", ["a".into(), "zz".into()]));
        assert!(!fails("regexp_replace", [r"(\d)".into(), r"\1".into(), "g".into()]));
        assert!(fails("split_part", [",".into(), 0.into()]));
        assert!(!fails("split_part", [",".into(), 2.into()]));
        assert!(!fails("lpad", [10.into(), "0".into()]));
        assert!(fails("lpad", [1_000_000.into()]));
        assert!(fails("repeat", [2.into()]));
        assert!(!fails("upper", []));
        assert!(!fails("text_concat", ["!".into()]));
    }

    #[test]
    fn calls_without_literals_can_fail() {
        let columns = vec![ScalarExpr::column(0, TEXT), ScalarExpr::column(1, TEXT)];
        assert!(crate::fold::can_fail(&typing::call(find("regexp_like").unwrap(), columns).unwrap()));
    }
}
