//! The structure of documents, and documents read by a structure.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields};
use rowmill_base::{SqlType, json_arrow};
use rowmill_plan::function::{ArgumentKind, CallKinds};
use rowmill_plan::{FunctionSpec, Operand};

use super::describe::type_of;
use super::documents::{Documents, documents, is_document};
use crate::functions::signatures::{TEXT, ordinary};
use crate::json::parts::{items, members};
use crate::json::plain_string;
use crate::json::transform::transform;
use crate::text::json::{JsonKind, checked};

/// `json_structure(document)`
pub(super) const JSON_STRUCTURE: FunctionSpec = FunctionSpec {
    name: "json_structure",
    signature: |arguments| {
        let [document] = arguments else { return None };
        is_document(document).then(|| CallKinds { arguments: vec![json_arrow()], result: json_arrow() })
    },
    kernel: |arguments, _, rows| {
        let values = Documents::new(&arguments[0]);
        documents(rows, |row| {
            Ok(values.get(row).map(|value| {
                let mut text = String::new();
                Structure::of(value).write(&mut text);
                Cow::from(text)
            }))
        })
    },
    doc: "The structure of a document: the types of its members, and the common type of the items of its arrays.",
    example: ("json_structure('{\"a\": [1, 2.5]}')", "{\"a\": [\"DOUBLE\"]}"),
    ..ordinary("json")
};

/// `json_transform(document, structure)`
pub(super) const JSON_TRANSFORM: FunctionSpec = FunctionSpec {
    name: "json_transform",
    aliases: &["from_json"],
    signature: by_structure,
    kernel: |arguments, kind, rows| transformed(&arguments[0], kind, rows, true),
    doc: "A document as a value of a structure, whose texts name types. A value of another type is NULL.",
    example: (
        "json_transform('{\"a\": 1, \"b\": [2]}', '{\"a\": \"TEXT\", \"b\": [\"INTEGER\"]}')",
        "{\"a\": \"1\", \"b\": [2]}",
    ),
    ..ordinary("json")
};

/// `json_transform_strict(document, structure)`
pub(super) const JSON_TRANSFORM_STRICT: FunctionSpec = FunctionSpec {
    name: "json_transform_strict",
    aliases: &["from_json_strict"],
    can_fail: true,
    signature: by_structure,
    kernel: |arguments, kind, rows| transformed(&arguments[0], kind, rows, false),
    doc: "As json_transform, but a value of another type is an error.",
    example: ("json_transform_strict('[1, 2]', '[\"INTEGER\"]')", "[1, 2]"),
    ..ordinary("json")
};

fn by_structure(arguments: &[ArgumentKind<'_>]) -> Option<CallKinds> {
    let [document, structure] = arguments else { return None };
    let structure = checked(structure.constant?.as_text()?).ok()?;
    let result = kind_of(structure)?;
    is_document(document).then(|| CallKinds { arguments: vec![json_arrow(), TEXT], result })
}

/// Returns the type that a structure describes.
fn kind_of(structure: &str) -> Option<DataType> {
    match JsonKind::of(structure) {
        JsonKind::String => named_type(&structure[1..structure.len() - 1]),
        JsonKind::Array => {
            let mut all = items(structure);
            let item = kind_of(all.next()?)?;
            all.next().is_none().then(|| DataType::List(Arc::new(Field::new("item", item, true))))
        }
        JsonKind::Object => {
            let mut scratch = String::new();
            let field =
                |(key, value): (&str, &str)| Some(Field::new(plain_string(key, &mut scratch), kind_of(value)?, true));
            members(structure)
                .map(field)
                .collect::<Option<Fields>>()
                .filter(|all| !all.is_empty())
                .map(DataType::Struct)
        }
        _ => None,
    }
}

fn named_type(name: &str) -> Option<DataType> {
    match name.to_ascii_uppercase().as_str() {
        "VARCHAR" => Some(TEXT),
        "NULL" => Some(json_arrow()),
        "TIMESTAMP" => Some(SqlType::Timestamp { unit: rowmill_base::TimeUnit::Microsecond, zoned: false }.arrow()),
        _ => SqlType::of_name(name).map(|kind| kind.arrow()),
    }
}

fn transformed(
    documents: &Operand,
    kind: &DataType,
    rows: usize,
    or_null: bool,
) -> rowmill_base::Result<arrow::array::ArrayRef> {
    let values = Documents::new(documents);
    let values: Vec<Option<&str>> = (0..rows).map(|row| values.get(row)).collect();
    transform(&values, kind, or_null)
}

/// The structure of a value.
enum Structure {
    Scalar(&'static str),
    Array(Box<Structure>),
    Object(Vec<(String, Structure)>),
}

impl Structure {
    fn of(value: &str) -> Structure {
        match JsonKind::of(value) {
            JsonKind::Array => {
                let items = items(value).map(Structure::of);
                Structure::Array(Box::new(items.fold(Structure::Scalar("NULL"), Structure::merged)))
            }
            JsonKind::Object => {
                let mut all = Structure::Object(Vec::new());
                for (key, value) in members(value) {
                    all = all.merged(Structure::Object(vec![(key.to_owned(), Structure::of(value))]));
                }
                all
            }
            _ => Structure::Scalar(type_of(value)),
        }
    }

    /// Returns the structure that holds the values of both.
    fn merged(self, other: Structure) -> Structure {
        match (self, other) {
            (Structure::Scalar("NULL"), other) | (other, Structure::Scalar("NULL")) => other,
            (Structure::Scalar(a), Structure::Scalar(b)) => Structure::Scalar(match (a, b) {
                (a, b) if a == b => a,
                ("UBIGINT" | "BIGINT", "UBIGINT" | "BIGINT") => "BIGINT",
                ("UBIGINT" | "BIGINT" | "DOUBLE", "UBIGINT" | "BIGINT" | "DOUBLE") => "DOUBLE",
                _ => "VARCHAR",
            }),
            (Structure::Array(a), Structure::Array(b)) => Structure::Array(Box::new(a.merged(*b))),
            (Structure::Object(mut own), Structure::Object(more)) => {
                for (key, value) in more {
                    match own.iter_mut().find(|(name, _)| *name == key) {
                        Some((_, old)) => *old = std::mem::replace(old, Structure::Scalar("NULL")).merged(value),
                        None => own.push((key, value)),
                    }
                }
                Structure::Object(own)
            }
            _ => Structure::Scalar("JSON"),
        }
    }

    fn write(&self, out: &mut String) {
        match self {
            Structure::Scalar(name) => {
                out.push('"');
                out.push_str(name);
                out.push('"');
            }
            Structure::Array(item) => {
                out.push('[');
                item.write(out);
                out.push(']');
            }
            Structure::Object(members) => {
                out.push('{');
                for (at, (key, value)) in members.iter().enumerate() {
                    out.push_str(if at > 0 { ", \"" } else { "\"" });
                    out.push_str(key);
                    out.push_str("\": ");
                    value.write(out);
                }
                out.push('}');
            }
        }
    }
}
