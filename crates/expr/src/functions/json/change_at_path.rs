//! Documents changed below a path: `json_insert`, `json_replace`, `json_remove`, `jsonb_insert` and `jsonb_set_lax`.
//!
//! The first three take paths such as `'$.a[0]'` or `'/a/0'` and any value, as SQLite and DuckDB have them. The others
//! take a list of keys and positions and a document, as PostgreSQL has them.

use std::borrow::Cow;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::DataType;
use rowmill_base::{Error, ErrorKind, Result, json_arrow};
use rowmill_plan::function::{ArgumentKind, CallKinds};
use rowmill_plan::{FunctionSpec, Operand};

use super::build::written;
use super::change::{changed, escaped_key, is_key_list, merged_text, place_of, remove_at, set_at};
use super::documents::{Documents, Paths, documents, is_document, path_kind, text_list, words_at};
use crate::functions::signatures::{BOOLEAN, TEXT, ordinary, stands_for};
use crate::json::path::{JsonPath, PathStep};
use crate::json::tree::{JsonNode, keys_are_equal};

/// `json_insert(document, path, value, ...)`
pub(super) const JSON_INSERT: FunctionSpec = FunctionSpec {
    name: "json_insert",
    strict: false,
    can_fail: true,
    signature: by_paths,
    kernel: |arguments, _, rows| change_places(arguments, rows, PlaceChange::Insert),
    doc: "A document with values at paths where it has none; a position at the end of an array appends.",
    example: ("json_insert('{\"a\": [1]}', '$.b', 'x', '$.a[1]', 2)", "{\"a\": [1, 2], \"b\": \"x\"}"),
    ..ordinary("json")
};

/// `json_replace(document, path, value, ...)`
pub(super) const JSON_REPLACE: FunctionSpec = FunctionSpec {
    name: "json_replace",
    strict: false,
    can_fail: true,
    signature: by_paths,
    kernel: |arguments, _, rows| change_places(arguments, rows, PlaceChange::Replace),
    doc: "A document with other values at paths where it has some.",
    example: ("json_replace('{\"a\": 1}', '$.a', 'x', '$.b', 2)", "{\"a\": \"x\"}"),
    ..ordinary("json")
};

/// `json_remove(document, path, ...)`
pub(super) const JSON_REMOVE: FunctionSpec = FunctionSpec {
    name: "json_remove",
    can_fail: true,
    signature: |arguments| {
        let (document, paths) = arguments.split_first()?;
        let is_path = |path: &ArgumentKind<'_>| path_kind(path).is_some_and(|kind| kind == TEXT);
        let is_taken = is_document(document) && !paths.is_empty() && paths.iter().all(is_path);
        let mut kinds = vec![json_arrow()];
        kinds.resize(arguments.len(), TEXT);
        is_taken.then(|| CallKinds { arguments: kinds, result: json_arrow() })
    },
    kernel: |arguments, _, rows| {
        let values = Documents::new(&arguments[0]);
        let paths = arguments[1..].iter().map(Paths::new).collect::<Result<Vec<_>>>()?;
        changed(arguments, rows, |row| {
            let mut node = JsonNode::of(values.at(row));
            for path in &paths {
                let path = path.at(row)?;
                let keys = path.steps.iter().map(key_of_step).collect::<Result<Vec<_>>>()?;
                let steps: Vec<_> = path.steps.iter().zip(keys.iter().map(String::as_str)).collect();
                remove_place(&mut node, &steps);
            }
            Ok(merged_text(&node))
        })
    },
    doc: "A document without the parts at paths.",
    example: ("json_remove('{\"a\": [1, 2], \"b\": 3}', '$.a[0]', '$.b')", "{\"a\": [2]}"),
    ..ordinary("json")
};

/// `jsonb_insert(document, path, value [, after])`
pub(super) const JSONB_INSERT: FunctionSpec = FunctionSpec {
    name: "jsonb_insert",
    can_fail: true,
    signature: |arguments| {
        let [document, path, value, after @ ..] = arguments else { return None };
        let is_taken = is_document(document)
            && is_key_list(path)
            && is_document(value)
            && after.len() <= 1
            && after.iter().all(|after| stands_for(after, &BOOLEAN));
        let mut kinds = vec![json_arrow(), text_list(), json_arrow()];
        kinds.extend(after.iter().map(|_| BOOLEAN));
        is_taken.then(|| CallKinds { arguments: kinds, result: json_arrow() })
    },
    kernel: |arguments, _, rows| {
        let (values, new) = (Documents::new(&arguments[0]), Documents::new(&arguments[2]));
        changed(arguments, rows, |row| {
            let after = arguments.get(3).is_some_and(|after| after.values.as_boolean().value(after.at(row)));
            let words = words_at(&arguments[1], row);
            let words: Vec<&str> = words.iter().flatten().collect();
            let keys: Vec<String> = words.iter().map(|word| escaped_key(word)).collect();
            let steps: Vec<(&str, &str)> = words.into_iter().zip(keys.iter().map(String::as_str)).collect();
            let mut node = JsonNode::of(values.at(row));
            insert_at(&mut node, &steps, JsonNode::of(new.at(row)), after)?;
            Ok(merged_text(&node))
        })
    },
    doc: "A document with one more value at a path: before the item of an array there, or after it, \
          or under a new key.",
    example: ("jsonb_insert('{\"a\": [1, 3]}', '{a,1}', '2')", "{\"a\": [1, 2, 3]}"),
    ..ordinary("json")
};

/// `jsonb_set_lax(document, path, value [, create [, treatment]])`
pub(super) const JSONB_SET_LAX: FunctionSpec = FunctionSpec {
    name: "jsonb_set_lax",
    strict: false,
    can_fail: true,
    signature: |arguments| {
        let [document, path, value, rest @ ..] = arguments else { return None };
        let kinds = [BOOLEAN, TEXT];
        let is_taken = is_document(document)
            && is_key_list(path)
            && is_document(value)
            && rest.len() <= kinds.len()
            && rest.iter().zip(&kinds).all(|(argument, kind)| stands_for(argument, kind));
        let mut all = vec![json_arrow(), text_list(), json_arrow()];
        all.extend_from_slice(&kinds[..rest.len().min(kinds.len())]);
        is_taken.then(|| CallKinds { arguments: all, result: json_arrow() })
    },
    kernel: |arguments, _, rows| set_lax(arguments, rows),
    doc: "As jsonb_set, but for the value NULL it sets null, or does what 'delete_key', 'return_target' or \
          'raise_exception' says.",
    example: ("jsonb_set_lax('{\"a\": 1, \"b\": 2}', '{a}', NULL, true, 'delete_key')", "{\"b\": 2}"),
    ..ordinary("json")
};

/// Which places of a document a value may go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PlaceChange {
    /// Those that do not exist yet.
    Insert,
    /// Those that exist.
    Replace,
}

/// Types a call with a document and pairs of paths and values.
fn by_paths(arguments: &[ArgumentKind<'_>]) -> Option<CallKinds> {
    let (document, pairs) = arguments.split_first()?;
    let is_path = |path: &ArgumentKind<'_>| path_kind(path).is_some_and(|kind| kind == TEXT);
    if !is_document(document) || pairs.is_empty() || !pairs.len().is_multiple_of(2) {
        return None;
    }
    let mut kinds = vec![json_arrow()];
    for pair in pairs.chunks(2) {
        if !is_path(&pair[0]) {
            return None;
        }
        let value = if *pair[1].kind == DataType::Null { TEXT } else { pair[1].kind.clone() };
        kinds.extend([TEXT, value]);
    }
    Some(CallKinds { arguments: kinds, result: json_arrow() })
}

fn change_places(arguments: &[Operand], rows: usize, change: PlaceChange) -> Result<ArrayRef> {
    let values = Documents::new(&arguments[0]);
    let paths = arguments[1..].iter().step_by(2).map(Paths::new).collect::<Result<Vec<_>>>()?;
    let new = arguments[2..].iter().step_by(2).map(written).collect::<Result<Vec<_>>>()?;
    documents(rows, |row| {
        // A path without a value has no place, so the result is NULL.
        let Some(value) = values.get(row).filter(|_| !paths.iter().any(|path| path.is_null(row))) else {
            return Ok(None);
        };
        // The texts of keys must live as long as the document that they go into.
        let all = paths.iter().map(|path| path.at(row).map(Cow::into_owned)).collect::<Result<Vec<JsonPath>>>()?;
        let keys: Vec<Vec<String>> =
            all.iter().map(|path| path.steps.iter().map(key_of_step).collect::<Result<_>>()).collect::<Result<_>>()?;
        let mut node = JsonNode::of(value);
        for ((path, keys), new) in all.iter().zip(&keys).zip(&new) {
            let steps: Vec<(&PathStep, &str)> = path.steps.iter().zip(keys.iter().map(String::as_str)).collect();
            change_at(&mut node, &steps, JsonNode::of(new.get(row).unwrap_or("null")), change);
        }
        Ok(Some(Cow::from(merged_text(&node))))
    })
}

/// Returns the key of a step as the inside of a string; empty for a position.
fn key_of_step(step: &PathStep) -> Result<String> {
    match step {
        PathStep::Key(key) | PathStep::KeyOrIndex(key) => Ok(escaped_key(key)),
        PathStep::Index(_) => Ok(String::new()),
        PathStep::Members | PathStep::Items | PathStep::Deep(_) => {
            let message = "a path that selects several values cannot be changed";
            Err(Error::new(ErrorKind::InvalidParameter, message).hint("name one place, for example '$.a[0]'"))
        }
    }
}

/// Changes the place below the steps, each with its key.
fn change_at<'a>(node: &mut JsonNode<'a>, steps: &[(&PathStep, &'a str)], new: JsonNode<'a>, change: PlaceChange) {
    let Some(((step, key), rest)) = steps.split_first() else {
        if change == PlaceChange::Replace {
            *node = new;
        }
        return;
    };
    match (node, index_of(step)) {
        (JsonNode::Object(members), _) if !matches!(step, PathStep::Index(_)) => {
            match members.iter_mut().find(|(own, _)| keys_are_equal(own, key)) {
                Some((_, value)) => change_at(value, rest, new, change),
                None if rest.is_empty() && change == PlaceChange::Insert => members.push((key, new)),
                None => {}
            }
        }
        (JsonNode::Array(items), Some(index)) => match place_of(index, items.len()) {
            Some(at) => change_at(&mut items[at], rest, new, change),
            None if rest.is_empty() && change == PlaceChange::Insert && index == items.len() as i64 => items.push(new),
            None => {}
        },
        _ => {}
    }
}

/// The position in an array that a step means.
fn index_of(step: &PathStep) -> Option<i64> {
    match step {
        PathStep::Index(index) => Some(*index),
        PathStep::KeyOrIndex(word) => word.parse().ok(),
        _ => None,
    }
}

/// Removes the place below the steps, each with its key. The document itself stays.
fn remove_place(node: &mut JsonNode<'_>, steps: &[(&PathStep, &str)]) {
    let Some(((step, key), rest)) = steps.split_first() else { return };
    match (node, index_of(step)) {
        (JsonNode::Object(members), _) if !matches!(step, PathStep::Index(_)) => {
            let found = members.iter().position(|(own, _)| keys_are_equal(own, key));
            match (found, rest) {
                (Some(at), []) => drop(members.remove(at)),
                (Some(at), rest) => remove_place(&mut members[at].1, rest),
                (None, _) => {}
            }
        }
        (JsonNode::Array(items), Some(index)) => match (place_of(index, items.len()), rest) {
            (Some(at), []) => drop(items.remove(at)),
            (Some(at), rest) => remove_place(&mut items[at], rest),
            (None, _) => {}
        },
        _ => {}
    }
}

/// Inserts a value below keys and positions, as PostgreSQL does. Each step is a word and the same word with the escapes
/// of a key.
fn insert_at<'a>(node: &mut JsonNode<'a>, steps: &[(&str, &'a str)], new: JsonNode<'a>, after: bool) -> Result<()> {
    let Some(((word, key), rest)) = steps.split_first() else { return Ok(()) };
    match node {
        JsonNode::Object(members) => match members.iter_mut().find(|(own, _)| keys_are_equal(own, key)) {
            Some(_) if rest.is_empty() => {
                let message = format!("the document has the key \"{word}\" already");
                Err(Error::new(ErrorKind::InvalidParameter, message).hint("jsonb_set replaces its value"))
            }
            Some((_, value)) => insert_at(value, rest, new, after),
            None => {
                if rest.is_empty() {
                    members.push((key, new));
                }
                Ok(())
            }
        },
        JsonNode::Array(items) => {
            let index: i64 = word.parse().map_err(|_| {
                let message = format!("\"{word}\" in the path is not a position in an array");
                Error::new(ErrorKind::InvalidText, message)
            })?;
            match (place_of(index, items.len()), rest) {
                (Some(at), []) => items.insert(at + usize::from(after), new),
                (Some(at), rest) => return insert_at(&mut items[at], rest, new, after),
                (None, []) if index < 0 => items.insert(0, new),
                (None, []) => items.push(new),
                (None, _) => {}
            }
            Ok(())
        }
        JsonNode::Scalar(_) => Ok(()),
    }
}

fn set_lax(arguments: &[Operand], rows: usize) -> Result<ArrayRef> {
    let (values, new) = (Documents::new(&arguments[0]), Documents::new(&arguments[2]));
    let path = &arguments[1];
    documents(rows, |row| {
        let Some(value) = values.get(row).filter(|_| path.values.is_valid(path.at(row))) else { return Ok(None) };
        let mut creates = true;
        if let Some(create) = arguments.get(3) {
            if create.values.is_null(create.at(row)) {
                return Ok(None);
            }
            creates = create.values.as_boolean().value(create.at(row));
        }
        let words = words_at(path, row);
        let words: Vec<&str> = words.iter().flatten().collect();
        let keys: Vec<String> = words.iter().map(|word| escaped_key(word)).collect();
        let steps: Vec<(&str, &str)> = words.iter().copied().zip(keys.iter().map(String::as_str)).collect();
        let mut node = JsonNode::of(value);
        match (new.get(row), treatment(arguments.get(4), row)?) {
            (Some(new), _) => set_at(&mut node, &steps, JsonNode::of(new), creates),
            (None, NullTreatment::UseJsonNull) => set_at(&mut node, &steps, JsonNode::Scalar("null"), creates),
            (None, NullTreatment::DeleteKey) => remove_at(&mut node, &words),
            (None, NullTreatment::ReturnTarget) => {}
            (None, NullTreatment::Raise) => {
                let message = "the new value of jsonb_set_lax is NULL, which 'raise_exception' forbids";
                return Err(Error::new(ErrorKind::InvalidParameter, message));
            }
        }
        Ok(Some(Cow::from(merged_text(&node))))
    })
}

/// What `jsonb_set_lax` does for the value NULL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NullTreatment {
    UseJsonNull,
    DeleteKey,
    ReturnTarget,
    Raise,
}

fn treatment(argument: Option<&Operand>, row: usize) -> Result<NullTreatment> {
    let Some(argument) = argument else { return Ok(NullTreatment::UseJsonNull) };
    let place = argument.at(row);
    let word = argument.values.is_valid(place).then(|| argument.values.as_string_view().value(place));
    match word {
        Some("use_json_null") => Ok(NullTreatment::UseJsonNull),
        Some("delete_key") => Ok(NullTreatment::DeleteKey),
        Some("return_target") => Ok(NullTreatment::ReturnTarget),
        Some("raise_exception") => Ok(NullTreatment::Raise),
        other => {
            let message = format!("'{}' is not a treatment of NULL in jsonb_set_lax", other.unwrap_or("NULL"));
            Err(Error::new(ErrorKind::InvalidParameter, message)
                .hint("the treatments are use_json_null, delete_key, return_target and raise_exception"))
        }
    }
}
