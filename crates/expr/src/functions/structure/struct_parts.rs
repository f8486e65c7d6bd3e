//! Functions that make structs of structs, and look into them.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int32Array, ListArray, StringViewArray, StructArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, FieldRef};
use rowmill_base::Result;
use rowmill_plan::function::{ArgumentKind, CallKinds};
use rowmill_plan::{FunctionSpec, Operand};

use super::structs::{column_at, position_of};
use crate::functions::list::keys::equality_of;
use crate::functions::list::maker::list_of;
use crate::functions::signatures::{BOOLEAN, INTEGER, TEXT, ordinary};
use crate::functions::time::columns::{failed, repeated, strict_nulls, unary};
use crate::typing::common_kind;

/// The functions of this file.
pub(in crate::functions) static STRUCTS: &[FunctionSpec] = &[
    FunctionSpec {
        name: "struct_concat",
        strict: false,
        signature: |arguments| {
            let mut fields: Vec<FieldRef> = Vec::new();
            for argument in arguments {
                let DataType::Struct(more) = argument.kind else { return None };
                // Two fields of one name could not be told apart.
                if more.iter().any(|one| fields.iter().any(|field| field.name().eq_ignore_ascii_case(one.name()))) {
                    return None;
                }
                fields.extend(more.iter().cloned());
            }
            let kinds = arguments.iter().map(|argument| argument.kind.clone()).collect();
            (!fields.is_empty()).then(|| CallKinds { arguments: kinds, result: DataType::Struct(fields.into()) })
        },
        kernel: |arguments, kind, rows| joined(arguments, kind, rows),
        doc: "A struct with the fields of all structs, whose names must differ.",
        example: ("struct_concat({'a': 1}, {'b': 2})", "{\"a\": 1, \"b\": 2}"),
        ..ordinary("struct")
    },
    FunctionSpec {
        name: "struct_update",
        aliases: &["struct_insert"],
        strict: false,
        signature: |arguments| {
            let [value, changes @ ..] = arguments else { return None };
            let DataType::Struct(fields) = value.kind else { return None };
            let mut fields: Vec<FieldRef> = fields.iter().cloned().collect();
            let mut kinds = vec![value.kind.clone()];
            if changes.is_empty() || changes.len() % 2 == 1 {
                return None;
            }
            for pair in changes.chunks_exact(2) {
                let name = pair[0].constant?.as_text()?;
                let field = Arc::new(Field::new(name, pair[1].kind.clone(), true));
                match fields.iter().position(|field| field.name().eq_ignore_ascii_case(name)) {
                    Some(at) => fields[at] = field,
                    None => fields.push(field),
                }
                kinds.extend([TEXT, pair[1].kind.clone()]);
            }
            Some(CallKinds { arguments: kinds, result: DataType::Struct(fields.into()) })
        },
        kernel: update,
        doc: "The struct with fields replaced or added: struct_update(s, a := 1), or alternating names and values.",
        example: ("struct_update({'a': 1}, 'a', 5, 'b', 2)", "{\"a\": 5, \"b\": 2}"),
        ..ordinary("struct")
    },
    FunctionSpec {
        name: "struct_keys",
        signature: |arguments| match arguments {
            [value] if matches!(value.kind, DataType::Struct(_)) => {
                Some(CallKinds { arguments: vec![value.kind.clone()], result: list_of(TEXT) })
            }
            _ => None,
        },
        kernel: keys,
        doc: "The names of the fields of a struct.",
        example: ("struct_keys({'a': 1, 'b': 2})", "[\"a\", \"b\"]"),
        ..ordinary("struct")
    },
    FunctionSpec {
        name: "struct_values",
        signature: |arguments| match arguments {
            [value] => {
                let DataType::Struct(fields) = value.kind else { return None };
                let fields: Vec<Field> = fields
                    .iter()
                    .enumerate()
                    .map(|(at, field)| Field::new(format!("c{at}"), field.data_type().clone(), true))
                    .collect();
                Some(CallKinds { arguments: vec![value.kind.clone()], result: DataType::Struct(fields.into()) })
            }
            _ => None,
        },
        kernel: |arguments, kind, rows| {
            unary(&arguments[0], rows, |value| {
                let value = value.as_struct();
                let DataType::Struct(fields) = kind else { return Err(failed(format!("a struct of type {kind}"))) };
                let made = StructArray::try_new(fields.clone(), value.columns().to_vec(), value.nulls().cloned());
                made.map(|made| Arc::new(made) as ArrayRef).map_err(failed)
            })
        },
        doc: "The values of a struct as a struct whose fields have the names c0, c1 and so on.",
        example: ("struct_values({'a': 1, 'b': 'x'})", "{\"c0\": 1, \"c1\": \"x\"}"),
        ..ordinary("struct")
    },
    FunctionSpec {
        name: "struct_extract_at",
        signature: |arguments| {
            let [value, position] = arguments else { return None };
            let DataType::Struct(fields) = value.kind else { return None };
            let position = usize::try_from(position.constant?.as_bigint()?).ok()?;
            let field = fields.get(position.checked_sub(1)?)?;
            Some(CallKinds { arguments: vec![value.kind.clone(), DataType::Int64], result: field.data_type().clone() })
        },
        kernel: |arguments, kind, rows| {
            if rows == 0 {
                return Ok(arrow::array::new_empty_array(kind));
            }
            let position = arguments[1].values.as_primitive::<arrow::datatypes::Int64Type>().value(0);
            unary(&arguments[0], rows, |value| column_at(value, position as usize - 1))
        },
        doc: "The field of a struct at a position, which is a literal and counts from 1.",
        example: ("struct_extract_at({'a': 1, 'b': 2}, 2)", "2"),
        ..ordinary("struct")
    },
    FunctionSpec {
        name: "struct_contains",
        aliases: &["struct_has"],
        signature: |arguments| value_beside_fields(arguments, BOOLEAN),
        kernel: |arguments, _, rows| {
            let nulls = strict_nulls(arguments, rows);
            let found = positions(arguments, rows)?.iter().map(|position| position.is_some()).collect();
            Ok(Arc::new(BooleanArray::new(found, nulls)))
        },
        doc: "Whether a field of a struct has a value.",
        example: ("struct_contains(row(10, 20), 20)", "true"),
        ..ordinary("struct")
    },
    FunctionSpec {
        name: "struct_position",
        aliases: &["struct_indexof"],
        signature: |arguments| value_beside_fields(arguments, INTEGER),
        kernel: |arguments, _, rows| Ok(Arc::new(Int32Array::from(positions(arguments, rows)?))),
        doc: "The position of the first field of a struct that has a value, counted from 1; NULL if none has it.",
        example: ("struct_position(row(10, 20), 20)", "2"),
        ..ordinary("struct")
    },
];

/// Accepts a struct whose fields have one type, and a value that is compared with them.
fn value_beside_fields(arguments: &[ArgumentKind<'_>], result: DataType) -> Option<CallKinds> {
    let [of, value] = arguments else { return None };
    let DataType::Struct(fields) = of.kind else { return None };
    let kinds = fields.iter().map(|field| field.data_type()).chain(std::iter::once(value.kind));
    let common = common_kind(kinds)?;
    let fields: Vec<Field> = fields.iter().map(|field| Field::new(field.name(), common.clone(), true)).collect();
    Some(CallKinds { arguments: vec![DataType::Struct(fields.into()), common], result })
}

/// Returns the position of the first field of each row that equals the value.
fn positions(arguments: &[Operand], rows: usize) -> Result<Vec<Option<i32>>> {
    let nulls = strict_nulls(arguments, rows);
    let value = &arguments[1];
    let tests = arguments[0].values.as_struct().columns().iter().map(|column| equality_of(column, &value.values));
    let tests: Vec<_> = tests.collect::<Result<_>>()?;
    let found = (0..rows).map(|row| {
        if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return None;
        }
        let place = tests.iter().position(|test| test(arguments[0].at(row), value.at(row)));
        place.map(|place| place as i32 + 1)
    });
    Ok(found.collect())
}

/// Returns an operand as a column of `rows` rows.
fn column_of(operand: &Operand, rows: usize) -> Result<ArrayRef> {
    if operand.is_constant { repeated(&operand.values, rows) } else { Ok(operand.values.clone()) }
}

fn joined(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let DataType::Struct(fields) = kind else { return Err(failed(format!("a struct of type {kind}"))) };
    let mut columns = Vec::with_capacity(fields.len());
    for argument in arguments {
        let value = column_of(argument, rows)?;
        for at in 0..value.as_struct().num_columns() {
            columns.push(column_at(&value, at)?);
        }
    }
    StructArray::try_new(fields.clone(), columns, None).map(|made| Arc::new(made) as ArrayRef).map_err(failed)
}

fn update(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let DataType::Struct(fields) = kind else { return Err(failed(format!("a struct of type {kind}"))) };
    let value = column_of(&arguments[0], rows)?;
    let mut columns: Vec<Option<ArrayRef>> = vec![None; fields.len()];
    for (at, column) in columns.iter_mut().enumerate().take(value.as_struct().num_columns()) {
        *column = Some(column_at(&value, at)?);
    }
    for pair in arguments[1..].chunks_exact(2) {
        if rows > 0 {
            let name = pair[0].values.as_string_view().value(0);
            let at = position_of(fields, name).ok_or_else(|| failed(format!("a field called {name}")))?;
            columns[at] = Some(column_of(&pair[1], rows)?);
        }
    }
    if rows == 0 {
        return Ok(arrow::array::new_empty_array(kind));
    }
    let columns = columns.into_iter().map(|column| column.ok_or_else(|| failed("a field without values")));
    let columns: Vec<ArrayRef> = columns.collect::<Result<_>>()?;
    // A NULL struct stays NULL, as in DuckDB.
    StructArray::try_new(fields.clone(), columns, value.nulls().cloned())
        .map(|made| Arc::new(made) as ArrayRef)
        .map_err(failed)
}

fn keys(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let names: Vec<&str> = arguments[0].values.as_struct().fields().iter().map(|field| field.name().as_str()).collect();
    let DataType::List(field) = kind else { return Err(failed(format!("a list of type {kind}"))) };
    let items = StringViewArray::from_iter_values((0..rows).flat_map(|_| names.iter().copied()));
    let offsets = OffsetBuffer::from_lengths(std::iter::repeat_n(names.len(), rows));
    let lists = ListArray::try_new(field.clone(), offsets, Arc::new(items), strict_nulls(arguments, rows));
    lists.map(|lists| Arc::new(lists) as ArrayRef).map_err(failed)
}
