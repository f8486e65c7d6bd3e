//! Functions that choose among values, and facts about a value and about the program.
//!
//! `coalesce`, `nvl`, `ifnull` and `nullif` are not here. The binder makes them expressions, because a later operand
//! must be evaluated only for the rows that need it.

mod choice;
mod extreme;

use arrow::datatypes::DataType;
use rowmill_plan::FunctionSpec;
use rowmill_plan::function::{ArgumentKind, CallKinds};

use super::signatures::{TEXT, exactly, ordinary};
use crate::typing::common_kind;

/// The functions of the family.
pub(super) static CONDITIONAL: &[FunctionSpec] = &[
    FunctionSpec {
        name: "greatest",
        strict: false,
        signature: of_one_kind,
        kernel: extreme::greatest,
        doc: "The greatest of the values that are not NULL.",
        example: ("greatest(4, NULL, 7, 5)", "7"),
        ..ordinary("conditional")
    },
    FunctionSpec {
        name: "least",
        strict: false,
        signature: of_one_kind,
        kernel: extreme::least,
        doc: "The least of the values that are not NULL.",
        example: ("least(4, NULL, 7, 5)", "4"),
        ..ordinary("conditional")
    },
    FunctionSpec {
        name: "nvl2",
        strict: false,
        signature: |arguments| {
            let [tested, rest @ ..] = arguments else { return None };
            if rest.len() != 2 {
                return None;
            }
            let rest = of_one_kind(rest)?;
            let arguments = [vec![tested.kind.clone()], rest.arguments].concat();
            Some(CallKinds { arguments, result: rest.result })
        },
        kernel: choice::nvl2,
        doc: "The second value where the first one is not NULL, else the third one.",
        example: ("nvl2(NULL, 'known', 'unknown')", "unknown"),
        ..ordinary("conditional")
    },
    FunctionSpec {
        name: "typeof",
        aliases: &["pg_typeof"],
        strict: false,
        signature: any_kind,
        kernel: choice::type_of,
        doc: "The SQL type of the value.",
        example: ("typeof(1.50)", "DECIMAL(3,2)"),
        ..ordinary("conditional")
    },
    FunctionSpec {
        name: "arrow_typeof",
        strict: false,
        signature: any_kind,
        kernel: choice::arrow_type_of,
        doc: "The Arrow type of the value.",
        example: ("arrow_typeof('mill')", "Utf8View"),
        ..ordinary("conditional")
    },
    FunctionSpec {
        name: "num_nulls",
        strict: false,
        signature: counted_kinds,
        kernel: |arguments, _, rows| Ok(choice::count(arguments, rows, false)),
        doc: "The number of arguments that are NULL.",
        example: ("num_nulls(1, NULL, 'x')", "1"),
        ..ordinary("conditional")
    },
    FunctionSpec {
        name: "num_nonnulls",
        strict: false,
        signature: counted_kinds,
        kernel: |arguments, _, rows| Ok(choice::count(arguments, rows, true)),
        doc: "The number of arguments that are not NULL.",
        example: ("num_nonnulls(1, NULL, 'x')", "2"),
        ..ordinary("conditional")
    },
    FunctionSpec {
        name: "pg_collation_for",
        strict: false,
        signature: |arguments| exactly(arguments, &[TEXT], TEXT),
        kernel: choice::collation,
        doc: "The collation of a text, which is always the default one: texts compare by their bytes.",
        example: ("pg_collation_for('mill')", "\"default\""),
        ..ordinary("conditional")
    },
    FunctionSpec {
        name: "error",
        can_fail: true,
        signature: |arguments| exactly(arguments, &[TEXT], TEXT),
        kernel: choice::error,
        doc: "Ends the statement with an error that has this text, if a row needs the value.",
        example: ("coalesce('fine', error('no value'))", "fine"),
        ..ordinary("conditional")
    },
    FunctionSpec {
        name: "pg_column_size",
        signature: |arguments| any_kind(arguments).map(|kinds| CallKinds { result: DataType::Int32, ..kinds }),
        kernel: choice::column_size,
        doc: "The bytes of a value in memory, without those of its row.",
        example: ("pg_column_size(CAST(1 AS BIGINT))", "8"),
        ..ordinary("conditional")
    },
    FunctionSpec {
        name: "version",
        signature: |arguments| exactly(arguments, &[], TEXT),
        kernel: choice::version,
        doc: "The name and the version of the program.",
        example: ("starts_with(version(), 'Rowmill')", "true"),
        ..ordinary("conditional")
    },
];

/// Accepts values that have a common type.
fn of_one_kind(arguments: &[ArgumentKind<'_>]) -> Option<CallKinds> {
    if arguments.is_empty() {
        return None;
    }
    let result = common_kind(arguments.iter().map(|argument| argument.kind))?;
    Some(CallKinds { arguments: vec![result.clone(); arguments.len()], result })
}

/// Accepts values of any types without casts.
fn counted_kinds(arguments: &[ArgumentKind<'_>]) -> Option<CallKinds> {
    let kinds: Vec<DataType> = arguments.iter().map(|argument| argument.kind.clone()).collect();
    (!kinds.is_empty()).then_some(CallKinds { arguments: kinds, result: DataType::Int32 })
}

/// Accepts one value of any type without a cast.
fn any_kind(arguments: &[ArgumentKind<'_>]) -> Option<CallKinds> {
    let [argument] = arguments else { return None };
    Some(CallKinds { arguments: vec![argument.kind.clone()], result: TEXT })
}
