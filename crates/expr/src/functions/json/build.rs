//! Documents made of values.

use std::borrow::Cow;

use arrow::array::{Array, ArrayRef, AsArray, StringViewArray};
use arrow::datatypes::DataType;
use rowmill_base::{Error, ErrorKind, Result, json_arrow};
use rowmill_plan::function::CallKinds;
use rowmill_plan::{FunctionSpec, Operand};

use super::documents::{Documents, documents};
use crate::functions::signatures::{TEXT, ordinary};
use crate::functions::time::columns::unary;
use crate::json::{of_texts, texts_of};
use crate::kernels::cast::cast;
use crate::text::writer::write_json_string;

/// `to_json(value)`
pub(super) const TO_JSON: FunctionSpec = FunctionSpec {
    name: "to_json",
    aliases: &["to_jsonb", "row_to_json", "array_to_json", "json_quote"],
    signature: |arguments| {
        let [value] = arguments else { return None };
        let kind = if *value.kind == DataType::Null { TEXT } else { value.kind.clone() };
        Some(CallKinds { arguments: vec![kind], result: json_arrow() })
    },
    kernel: |arguments, _, rows| unary(&arguments[0], rows, documents_of),
    doc: "A value as JSON: a text becomes a string, a list an array, a struct an object.",
    example: ("to_json({'a': [1, NULL], 'b': 'x'})", "{\"a\": [1, null], \"b\": \"x\"}"),
    ..ordinary("json")
};

/// `json_object(key, value, ...)`
pub(super) const JSON_OBJECT: FunctionSpec = FunctionSpec {
    name: "json_object",
    aliases: &["json_build_object", "jsonb_build_object"],
    strict: false,
    can_fail: true,
    signature: |arguments| {
        let kind = |(at, kind): (usize, &DataType)| if at % 2 == 0 { TEXT } else { kind.clone() };
        let kinds = arguments.iter().map(|argument| argument.kind).enumerate().map(kind).collect();
        arguments.len().is_multiple_of(2).then(|| CallKinds { arguments: kinds, result: json_arrow() })
    },
    kernel: |arguments, _, rows| object(arguments, rows),
    doc: "An object of keys and values.",
    example: ("json_object('a', 1, 'b', 'x')", "{\"a\": 1, \"b\": \"x\"}"),
    ..ordinary("json")
};

/// `json_array(value, ...)`
pub(super) const JSON_ARRAY: FunctionSpec = FunctionSpec {
    name: "json_array",
    aliases: &["json_build_array", "jsonb_build_array"],
    strict: false,
    signature: |arguments| {
        let kinds = arguments.iter().map(|argument| argument.kind.clone()).collect();
        Some(CallKinds { arguments: kinds, result: json_arrow() })
    },
    kernel: |arguments, _, rows| {
        let values = arguments.iter().map(written).collect::<Result<Vec<_>>>()?;
        documents(rows, |row| {
            let mut text = String::from("[");
            for (at, value) in values.iter().enumerate() {
                text.push_str(if at > 0 { ", " } else { "" });
                text.push_str(value.get(row).unwrap_or("null"));
            }
            text.push(']');
            Ok(Some(Cow::from(text)))
        })
    },
    doc: "An array of values.",
    example: ("json_array(1, 'x', NULL)", "[1, \"x\", null]"),
    ..ordinary("json")
};

/// `json_object_of_entries(list)`
pub(super) const JSON_OBJECT_OF_ENTRIES: FunctionSpec = FunctionSpec {
    name: "json_object_of_entries",
    can_fail: true,
    signature: |arguments| {
        let [entries] = arguments else { return None };
        let DataType::List(item) = entries.kind else { return None };
        let is_pair = matches!(item.data_type(), DataType::Struct(fields) if fields.len() == 2);
        is_pair.then(|| CallKinds { arguments: vec![entries.kind.clone()], result: json_arrow() })
    },
    kernel: |arguments, _, rows| unary(&arguments[0], rows, objects_of_entries),
    doc: "An object of the keys and values of a list of structs with two fields.",
    example: ("json_object_of_entries([struct('a', 1), struct('b', 2)])", "{\"a\": 1, \"b\": 2}"),
    ..ordinary("json")
};

/// Writes values as documents. A text is a string here, not the text of a document.
fn documents_of(values: &ArrayRef) -> Result<ArrayRef> {
    match values.data_type() {
        DataType::Utf8View => {
            let mut quoted = String::new();
            let texts = values.as_string_view().iter().map(|text| {
                text.map(|text| {
                    quoted.clear();
                    write_json_string(text, &mut quoted);
                    quoted.clone()
                })
            });
            Ok(of_texts(StringViewArray::from_iter(texts)))
        }
        _ => cast(values, &json_arrow(), false),
    }
}

pub(super) fn written(value: &Operand) -> Result<Documents> {
    let values = documents_of(&value.values)?;
    Ok(Documents::new(&Operand { values, is_constant: value.is_constant }))
}

fn object(arguments: &[Operand], rows: usize) -> Result<ArrayRef> {
    let values = arguments.iter().skip(1).step_by(2).map(written).collect::<Result<Vec<_>>>()?;
    let keys: Vec<&Operand> = arguments.iter().step_by(2).collect();
    documents(rows, |row| {
        let mut text = String::from("{");
        for (at, (key, value)) in keys.iter().zip(&values).enumerate() {
            text.push_str(if at > 0 { ", " } else { "" });
            let place = key.at(row);
            let key = key.values.as_string_view();
            push_member(key.is_valid(place).then(|| key.value(place)), value.get(row), &mut text)?;
        }
        text.push('}');
        Ok(Some(Cow::from(text)))
    })
}

fn objects_of_entries(lists: &ArrayRef) -> Result<ArrayRef> {
    let lists = lists.as_list::<i32>();
    let entries = lists.values().as_struct();
    let keys = cast(entries.column(0), &TEXT, false)?;
    let values = texts_of(&documents_of(entries.column(1))?);
    let keys = keys.as_string_view();
    documents(lists.len(), |row| {
        if lists.is_null(row) {
            return Ok(None);
        }
        let mut text = String::from("{");
        let range = lists.value_offsets()[row] as usize..lists.value_offsets()[row + 1] as usize;
        for (at, entry) in range.enumerate() {
            text.push_str(if at > 0 { ", " } else { "" });
            let value = values.is_valid(entry).then(|| values.value(entry));
            push_member(keys.is_valid(entry).then(|| keys.value(entry)), value, &mut text)?;
        }
        text.push('}');
        Ok(Some(Cow::from(text)))
    })
}

/// Appends a member to the text of an object.
fn push_member(key: Option<&str>, value: Option<&str>, text: &mut String) -> Result<()> {
    let key = key.ok_or_else(|| Error::new(ErrorKind::InvalidParameter, "a key of a JSON object must not be NULL"))?;
    write_json_string(key, text);
    text.push_str(": ");
    text.push_str(value.unwrap_or("null"));
    Ok(())
}
