//! What a document is: its type, its keys, its length.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, StringViewArray};
use arrow::datatypes::DataType;
use rowmill_base::{Result, is_json, json_arrow};
use rowmill_plan::function::{ArgumentKind, CallKinds};
use rowmill_plan::{FunctionSpec, Operand};

use super::documents::{Documents, ListRows, Paths, is_document, path_kind, text_list};
use crate::functions::signatures::{BIGINT, BOOLEAN, TEXT, ordinary};
use crate::json::parts::{items, members, part};
use crate::json::plain_string;
use crate::text::json::{JsonKind, checked};

/// `json_type(document [, path])`
pub(super) const JSON_TYPE: FunctionSpec = FunctionSpec {
    name: "json_type",
    can_fail: true,
    signature: |arguments| with_path(arguments, TEXT),
    kernel: |arguments, _, rows| names(arguments, rows, type_of),
    doc: "The type of a document or a part, as DuckDB names it: OBJECT, ARRAY, VARCHAR, UBIGINT, BIGINT, \
          DOUBLE, BOOLEAN or NULL.",
    example: ("json_type('{\"a\": -1}', '$.a')", "BIGINT"),
    ..ordinary("json")
};

/// `json_typeof(document)`
pub(super) const JSON_TYPEOF: FunctionSpec = FunctionSpec {
    name: "json_typeof",
    aliases: &["jsonb_typeof"],
    signature: |arguments| with_path(arguments, TEXT).filter(|_| arguments.len() == 1),
    kernel: |arguments, _, rows| names(arguments, rows, typeof_of),
    doc: "The type of a document, as PostgreSQL names it: object, array, string, number, boolean or null.",
    example: ("json_typeof('[1]')", "array"),
    ..ordinary("json")
};

/// `json_valid(text)`
pub(super) const JSON_VALID: FunctionSpec = FunctionSpec {
    name: "json_valid",
    signature: |arguments| {
        let [text] = arguments else { return None };
        let kind = if is_json(text.kind) { json_arrow() } else { TEXT };
        is_document(text).then(|| CallKinds { arguments: vec![kind], result: BOOLEAN })
    },
    kernel: |arguments, _, rows| {
        let text = &arguments[0];
        let is_valid = |row: usize| {
            let row = text.at(row);
            let is_text = *text.values.data_type() == DataType::Utf8View;
            text.values.is_valid(row).then(|| !is_text || checked(text.values.as_string_view().value(row)).is_ok())
        };
        Ok(Arc::new(BooleanArray::from_iter((0..rows).map(is_valid))))
    },
    doc: "Whether a text is a JSON document.",
    example: ("json_valid('{\"a\": }')", "false"),
    ..ordinary("json")
};

/// `json_keys(document [, path])`
pub(super) const JSON_KEYS: FunctionSpec = FunctionSpec {
    name: "json_keys",
    can_fail: true,
    signature: |arguments| with_path(arguments, text_list()),
    kernel: |arguments, _, rows| {
        let parts = SelectedParts::new(arguments)?;
        let mut lists = ListRows::new(rows);
        let mut scratch = String::new();
        for row in 0..rows {
            let value = parts.get(row)?;
            for (key, _) in value.into_iter().flat_map(members) {
                lists.push(Some(plain_string(key, &mut scratch)))?;
            }
            lists.end(value.is_some())?;
        }
        lists.finish(&TEXT)
    },
    doc: "The keys of an object; an empty list for other documents.",
    example: ("json_keys('{\"a\": 1, \"b\": 2}')", "[\"a\", \"b\"]"),
    ..ordinary("json")
};

/// `json_array_length(document [, path])`
pub(super) const JSON_ARRAY_LENGTH: FunctionSpec = FunctionSpec {
    name: "json_array_length",
    aliases: &["jsonb_array_length"],
    can_fail: true,
    signature: |arguments| with_path(arguments, BIGINT),
    kernel: |arguments, _, rows| {
        let parts = SelectedParts::new(arguments)?;
        let length = |row: usize| Ok(parts.get(row)?.map(|value| items(value).count() as i64));
        let lengths = (0..rows).map(length).collect::<Result<Vec<Option<i64>>>>()?;
        Ok(Arc::new(Int64Array::from(lengths)))
    },
    doc: "The number of items of an array; 0 for other documents.",
    example: ("json_array_length('[1, 2]')", "2"),
    ..ordinary("json")
};

/// Types a call with a document and optionally a path.
pub(super) fn with_path(arguments: &[ArgumentKind<'_>], result: DataType) -> Option<CallKinds> {
    let (document, path) = arguments.split_first()?;
    if !is_document(document) || path.len() > 1 {
        return None;
    }
    let mut kinds = vec![json_arrow()];
    for path in path {
        kinds.push(path_kind(path).filter(|kind| !kind.is_nested())?);
    }
    Some(CallKinds { arguments: kinds, result })
}

/// The documents, or the part that the path selects of each.
pub(super) struct SelectedParts<'a> {
    documents: Documents,
    paths: Option<Paths<'a>>,
}

impl<'a> SelectedParts<'a> {
    pub(super) fn new(arguments: &'a [Operand]) -> Result<SelectedParts<'a>> {
        let paths = arguments.get(1).map(Paths::new).transpose()?;
        Ok(SelectedParts { documents: Documents::new(&arguments[0]), paths })
    }

    /// Returns the value of a row, or `None` for NULL.
    pub(super) fn get(&self, row: usize) -> Result<Option<&str>> {
        let Some(document) = self.documents.get(row) else { return Ok(None) };
        match &self.paths {
            None => Ok(Some(document)),
            Some(paths) if paths.is_null(row) => Ok(None),
            Some(paths) => Ok(part(document, &paths.at(row)?.steps)),
        }
    }
}

fn names(arguments: &[Operand], rows: usize, name: fn(&str) -> &'static str) -> Result<ArrayRef> {
    let parts = SelectedParts::new(arguments)?;
    let names = (0..rows).map(|row| Ok(parts.get(row)?.map(name))).collect::<Result<Vec<Option<&str>>>>()?;
    Ok(Arc::new(StringViewArray::from(names)))
}

/// Returns DuckDB's name of a value's type.
pub(super) fn type_of(value: &str) -> &'static str {
    match JsonKind::of(value) {
        JsonKind::Null => "NULL",
        JsonKind::Boolean => "BOOLEAN",
        JsonKind::String => "VARCHAR",
        JsonKind::Array => "ARRAY",
        JsonKind::Object => "OBJECT",
        JsonKind::Number if value.parse::<u64>().is_ok() => "UBIGINT",
        JsonKind::Number if value.parse::<i64>().is_ok() => "BIGINT",
        JsonKind::Number => "DOUBLE",
    }
}

fn typeof_of(value: &str) -> &'static str {
    match JsonKind::of(value) {
        JsonKind::Null => "null",
        JsonKind::Boolean => "boolean",
        JsonKind::String => "string",
        JsonKind::Array => "array",
        JsonKind::Object => "object",
        JsonKind::Number => "number",
    }
}
