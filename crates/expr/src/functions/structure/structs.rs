//! Functions that make structs and return their fields.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, StructArray, new_empty_array};
use arrow::compute::nullif;
use arrow::datatypes::{DataType, Field, Fields, Int64Type};
use rowmill_base::{Result, is_json};
use rowmill_plan::function::{ArgumentKind, CallKinds};
use rowmill_plan::{FunctionSpec, Operand};

use crate::functions::signatures::{BIGINT, ordinary};
use crate::functions::time::columns::{failed, repeated, unary};

/// The function of `{'name': value, ...}`.
pub(super) const NAMED_STRUCT: FunctionSpec = FunctionSpec {
    name: "named_struct",
    aliases: &["struct_pack"],
    strict: false,
    signature: |arguments| {
        if arguments.is_empty() || arguments.len() % 2 == 1 {
            return None;
        }
        let mut fields: Vec<Field> = Vec::with_capacity(arguments.len() / 2);
        let mut kinds = Vec::with_capacity(arguments.len());
        for pair in arguments.chunks_exact(2) {
            let name = pair[0].constant?.as_text()?;
            if fields.iter().any(|field| field.name().eq_ignore_ascii_case(name)) {
                return None;
            }
            fields.push(Field::new(name, pair[1].kind.clone(), true));
            kinds.extend([DataType::Utf8View, pair[1].kind.clone()]);
        }
        Some(CallKinds { arguments: kinds, result: DataType::Struct(fields.into()) })
    },
    kernel: |arguments, kind, rows| {
        let values: Vec<&Operand> = arguments.iter().skip(1).step_by(2).collect();
        struct_of(&values, kind, rows)
    },
    doc: "A struct of alternating names and values, as `{'a': 1, 'b': 2}` makes it. Names are literals.",
    example: ("named_struct('a', 1, 'b', 'x')", "{\"a\": 1, \"b\": \"x\"}"),
    ..ordinary("struct")
};

/// `struct(value, ...)`
pub(super) const STRUCT: FunctionSpec = FunctionSpec {
    name: "struct",
    aliases: &["row"],
    strict: false,
    signature: |arguments| {
        let fields: Vec<Field> = arguments
            .iter()
            .enumerate()
            .map(|(at, argument)| Field::new(format!("c{at}"), argument.kind.clone(), true))
            .collect();
        let arguments: Vec<DataType> = arguments.iter().map(|argument| argument.kind.clone()).collect();
        (!fields.is_empty()).then(|| CallKinds { arguments, result: DataType::Struct(fields.into()) })
    },
    kernel: |arguments, kind, rows| struct_of(&arguments.iter().collect::<Vec<_>>(), kind, rows),
    doc: "A struct of values, whose fields have the names c0, c1 and so on.",
    example: ("struct(1, 'x')", "{\"c0\": 1, \"c1\": \"x\"}"),
    ..ordinary("struct")
};

/// The function of `struct['name']`.
pub(super) const GET_FIELD: FunctionSpec = FunctionSpec {
    name: "get_field",
    aliases: &["struct_extract"],
    signature: |arguments| {
        let [value, names @ ..] = arguments else { return None };
        if names.is_empty() {
            return None;
        }
        let mut kind = value.kind.clone();
        for name in names {
            kind = field_kind(&kind, name)?;
        }
        let names = names.iter().map(|name| if name.kind.is_integer() { BIGINT } else { DataType::Utf8View });
        let kinds = std::iter::once(value.kind.clone()).chain(names).collect();
        Some(CallKinds { arguments: kinds, result: kind })
    },
    kernel: |arguments, kind, rows| {
        if rows == 0 {
            return Ok(new_empty_array(kind));
        }
        unary(&arguments[0], rows, |value| {
            let mut value = value.clone();
            for name in &arguments[1..] {
                value = match name.values.as_primitive_opt::<Int64Type>() {
                    Some(number) => column_at(&value, number.value(0) as usize - 1)?,
                    None => field_of(&value, name.values.as_string_view().value(0))?,
                };
            }
            Ok(value)
        })
    },
    doc: "A field of a struct by its name, as `s['name']` and `s.name` give it, or by its number from 1; more names \
        select nested fields.",
    example: ("get_field({'a': 1, 'b': 2}, 'b')", "2"),
    ..ordinary("struct")
};

/// Returns the position of a field by name: an exact match first, otherwise a match that ignores case.
pub(super) fn position_of(fields: &Fields, name: &str) -> Option<usize> {
    let exact = fields.iter().position(|field| field.name() == name);
    exact.or_else(|| fields.iter().position(|field| field.name().eq_ignore_ascii_case(name)))
}

fn field_kind(kind: &DataType, name: &ArgumentKind<'_>) -> Option<DataType> {
    let DataType::Struct(fields) = kind else { return None };
    if is_json(kind) {
        return None;
    }
    let constant = name.constant?;
    let at = match constant.as_bigint() {
        // Fields count from 1.
        Some(number) => usize::try_from(number).ok()?.checked_sub(1).filter(|at| *at < fields.len())?,
        None => position_of(fields, constant.as_text()?)?,
    };
    Some(fields[at].data_type().clone())
}

/// Returns the field of a struct. It is NULL where the struct is NULL.
fn field_of(value: &ArrayRef, name: &str) -> Result<ArrayRef> {
    let fields = value.as_struct().fields();
    let at = position_of(fields, name).ok_or_else(|| failed(format!("a field called {name}")))?;
    column_at(value, at)
}

/// Returns the field of a struct at a place. It is NULL where the struct is NULL.
pub(super) fn column_at(value: &ArrayRef, at: usize) -> Result<ArrayRef> {
    let structs = value.as_struct();
    let column = structs.column(at);
    match structs.nulls() {
        Some(nulls) if nulls.null_count() > 0 => {
            // A field may have a value under a NULL struct, which must not become visible.
            let is_null = BooleanArray::new(!nulls.inner(), None);
            nullif(column, &is_null).map_err(failed)
        }
        _ => Ok(column.clone()),
    }
}

fn struct_of(values: &[&Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let DataType::Struct(fields) = kind else { return Err(failed(format!("a struct of type {kind}"))) };
    let columns: Vec<ArrayRef> = values
        .iter()
        .map(|operand| if operand.is_constant { repeated(&operand.values, rows) } else { Ok(operand.values.clone()) })
        .collect::<Result<_>>()?;
    StructArray::try_new(fields.clone(), columns, None).map(|structs| Arc::new(structs) as ArrayRef).map_err(failed)
}
