//! Parts of documents by path.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, StringViewBuilder};
use arrow::datatypes::DataType;
use rowmill_base::{Error, ErrorKind, Result, json_arrow};
use rowmill_plan::function::{ArgumentKind, CallKinds};
use rowmill_plan::{FunctionSpec, Operand};

use super::documents::{Documents, ListRows, Paths, documents, is_document, list_of, path_kind, words_at};
use crate::functions::rowwise::too_long;
use crate::functions::signatures::{BOOLEAN, TEXT, ordinary};
use crate::json::parts::{part, parts};
use crate::json::path::JsonPath;
use crate::json::scalar_text;
use crate::text::json::JsonKind;

/// `json_extract(document, path)`
pub(super) const JSON_EXTRACT: FunctionSpec = FunctionSpec {
    name: "json_extract",
    can_fail: true,
    signature: |arguments| by_path(arguments, &json_arrow()),
    kernel: |arguments, kind, rows| extract(arguments, kind, rows, false),
    doc: "The part of a document that a path selects, as `->` gives it; a list of them for `$.a[*]` or several paths.",
    example: ("json_extract('{\"a\": [1, 2]}', '$.a[0]')", "1"),
    ..ordinary("json")
};

/// `json_extract_string(document, path)`
pub(super) const JSON_EXTRACT_STRING: FunctionSpec = FunctionSpec {
    name: "json_extract_string",
    can_fail: true,
    signature: |arguments| by_path(arguments, &TEXT),
    kernel: |arguments, kind, rows| extract(arguments, kind, rows, true),
    doc: "The part of a document that a path selects, as a text without quotes, as `->>` gives it; NULL for null.",
    example: ("json_extract_string('{\"a\": \"x\"}', '$.a')", "x"),
    ..ordinary("json")
};

/// `json_extract_path(document, key, ...)`
pub(super) const JSON_EXTRACT_PATH: FunctionSpec = FunctionSpec {
    name: "json_extract_path",
    aliases: &["jsonb_extract_path"],
    signature: |arguments| by_words(arguments, json_arrow()),
    kernel: |arguments, kind, rows| extract_words(arguments, kind, rows, false),
    doc: "The part of a document below keys and positions, as `#>` gives it.",
    example: ("json_extract_path('{\"a\": [1, 2]}', 'a', '1')", "2"),
    ..ordinary("json")
};

/// `json_extract_path_text(document, key, ...)`
pub(super) const JSON_EXTRACT_PATH_TEXT: FunctionSpec = FunctionSpec {
    name: "json_extract_path_text",
    aliases: &["jsonb_extract_path_text"],
    signature: |arguments| by_words(arguments, TEXT),
    kernel: |arguments, kind, rows| extract_words(arguments, kind, rows, true),
    doc: "The part of a document below keys and positions, as a text without quotes, as `#>>` gives it.",
    example: ("json_extract_path_text('{\"a\": {\"b\": \"x\"}}', 'a', 'b')", "x"),
    ..ordinary("json")
};

/// `json_value(document, path)`
pub(super) const JSON_VALUE: FunctionSpec = FunctionSpec {
    name: "json_value",
    can_fail: true,
    signature: |arguments| by_path(arguments, &json_arrow()).filter(|kinds| kinds.result == json_arrow()),
    kernel: |arguments, _, rows| {
        let (values, paths) = (Documents::new(&arguments[0]), Paths::new(&arguments[1])?);
        documents(rows, |row| {
            let Some(value) = values.get(row).filter(|_| !paths.is_null(row)) else { return Ok(None) };
            let found = part(value, &paths.at(row)?.steps);
            Ok(found.filter(|found| !matches!(JsonKind::of(found), JsonKind::Array | JsonKind::Object)).map(Cow::from))
        })
    },
    doc: "The string, number or truth value that a path selects, as JSON; NULL for arrays and objects.",
    example: ("json_value('{\"a\": 1}', '$.a')", "1"),
    ..ordinary("json")
};

/// `json_exists(document, path)`
pub(super) const JSON_EXISTS: FunctionSpec = FunctionSpec {
    name: "json_exists",
    can_fail: true,
    signature: |arguments| by_path(arguments, &json_arrow()).map(|kinds| CallKinds { result: BOOLEAN, ..kinds }),
    kernel: |arguments, _, rows| {
        let (values, paths) = (Documents::new(&arguments[0]), Paths::new(&arguments[1])?);
        let mut found: Vec<Option<bool>> = Vec::with_capacity(rows);
        for row in 0..rows {
            found.push(match values.get(row).filter(|_| !paths.is_null(row)) {
                Some(value) => Some(part(value, &paths.at(row)?.steps).is_some()),
                None => None,
            });
        }
        Ok(Arc::new(BooleanArray::from(found)))
    },
    doc: "Whether a path selects a part of a document.",
    example: ("json_exists('{\"a\": null}', '$.a')", "true"),
    ..ordinary("json")
};

/// Types a call with a document and a path.
fn by_path(arguments: &[ArgumentKind<'_>], part: &DataType) -> Option<CallKinds> {
    let [document, path] = arguments else { return None };
    let path_kind = is_document(document).then(|| path_kind(path))??;
    let constant = path.constant.and_then(|path| path.as_text());
    let selects_several =
        constant.and_then(|path| JsonPath::read(path).ok()).is_some_and(|path| path.selects_several());
    let is_list = selects_several || path_kind.is_nested();
    let result = if is_list { list_of(part.clone()) } else { part.clone() };
    Some(CallKinds { arguments: vec![json_arrow(), path_kind], result })
}

/// Types a call with a document and keys.
fn by_words(arguments: &[ArgumentKind<'_>], result: DataType) -> Option<CallKinds> {
    let (document, words) = arguments.split_first()?;
    let is_word = |word: &ArgumentKind<'_>| matches!(word.kind, DataType::Utf8View | DataType::Null);
    let has_list = matches!(words, [list] if path_kind(list).is_some_and(|kind| kind.is_nested()));
    if !is_document(document) || words.is_empty() || !has_list && !words.iter().all(is_word) {
        return None;
    }
    let word = if has_list { super::documents::text_list() } else { TEXT };
    let mut kinds = vec![json_arrow()];
    kinds.resize(arguments.len(), word);
    Some(CallKinds { arguments: kinds, result })
}

fn extract(arguments: &[Operand], kind: &DataType, rows: usize, as_text: bool) -> Result<ArrayRef> {
    let values = Documents::new(&arguments[0]);
    if arguments[1].values.data_type().is_nested() {
        return extract_several_paths(&values, &arguments[1], kind, rows, as_text);
    }
    let paths = Paths::new(&arguments[1])?;
    if let DataType::List(item) = kind {
        return extract_all(&values, &paths, item.data_type(), rows, as_text);
    }
    let selected = |row: usize| {
        let Some(value) = values.get(row).filter(|_| !paths.is_null(row)) else { return Ok(None) };
        let path = paths.at(row)?;
        if path.selects_several() {
            let message = "a path that selects several values must be a constant";
            return Err(Error::new(ErrorKind::InvalidParameter, message));
        }
        Ok(part(value, &path.steps))
    };
    parts_of_rows(rows, as_text, selected)
}

/// Makes documents or texts of the part that each row has.
fn parts_of_rows<'a>(
    rows: usize,
    as_text: bool,
    mut part: impl FnMut(usize) -> Result<Option<&'a str>>,
) -> Result<ArrayRef> {
    if !as_text {
        return documents(rows, |row| Ok(part(row)?.map(Cow::from)));
    }
    let mut made = StringViewBuilder::with_capacity(rows);
    let mut scratch = String::new();
    for row in 0..rows {
        match part(row)? {
            Some(found) => match scalar_text(found, &mut scratch) {
                Some(text) => made.try_append_value(text).map_err(too_long)?,
                None => made.append_null(),
            },
            None => made.append_null(),
        }
    }
    Ok(Arc::new(made.finish()))
}

/// Makes a list of all parts that the path of each row selects.
fn extract_all(values: &Documents, paths: &Paths<'_>, item: &DataType, rows: usize, as_text: bool) -> Result<ArrayRef> {
    let mut lists = ListRows::new(rows);
    let mut scratch = String::new();
    for row in 0..rows {
        let Some(value) = values.get(row).filter(|_| !paths.is_null(row)) else {
            lists.end(false)?;
            continue;
        };
        let mut found = Vec::new();
        parts(value, &paths.at(row)?.steps, &mut |part| found.push(part));
        for part in found {
            lists.push(if as_text { scalar_text(part, &mut scratch) } else { Some(part) })?;
        }
        lists.end(true)?;
    }
    lists.finish(item)
}

/// Makes a list of the parts that several paths select.
fn extract_several_paths(
    values: &Documents,
    paths: &Operand,
    kind: &DataType,
    rows: usize,
    as_text: bool,
) -> Result<ArrayRef> {
    let DataType::List(item) = kind else { return Err(Error::internal(format!("several paths give {kind}"))) };
    let mut lists = ListRows::new(rows);
    let mut scratch = String::new();
    for row in 0..rows {
        let Some(value) = values.get(row).filter(|_| paths.values.is_valid(paths.at(row))) else {
            lists.end(false)?;
            continue;
        };
        for path in &words_at(paths, row) {
            let found = match path {
                Some(path) => part(value, &JsonPath::read(path)?.steps),
                None => None,
            };
            lists.push(match found {
                Some(part) if as_text => scalar_text(part, &mut scratch),
                found => found,
            })?;
        }
        lists.end(true)?;
    }
    lists.finish(item.data_type())
}

fn extract_words(arguments: &[Operand], _: &DataType, rows: usize, as_text: bool) -> Result<ArrayRef> {
    let values = Documents::new(&arguments[0]);
    let words = &arguments[1..];
    parts_of_rows(rows, as_text, |row| {
        let Some(value) = values.get(row) else { return Ok(None) };
        if words.iter().any(|word| word.values.is_null(word.at(row))) {
            return Ok(None);
        }
        let path = match words {
            [list] if list.values.data_type().is_nested() => {
                JsonPath::of_words(words_at(list, row).iter().map(Option::unwrap_or_default))
            }
            words => JsonPath::of_words(words.iter().map(|word| word.values.as_string_view().value(word.at(row)))),
        };
        Ok(part(value, &path.steps))
    })
}
