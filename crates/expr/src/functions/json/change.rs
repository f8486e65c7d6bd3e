//! Changed documents.

use std::borrow::Cow;

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{DataType, Int64Type};
use rowmill_base::{Result, json_arrow};
use rowmill_plan::function::{ArgumentKind, CallKinds};
use rowmill_plan::{FunctionSpec, Operand};

use super::documents::{Documents, documents, is_document, path_kind, text_list, words_at};
use crate::functions::rowwise::valid_rows;
use crate::functions::signatures::{BOOLEAN, TEXT, ordinary, stands_for};
use crate::json::plain_string;
use crate::json::tree::{JsonNode, keys_are_equal};
use crate::kernels::cast::cast;
use crate::text::writer::write_json_string;

/// `json_merge_patch(document, patch, ...)`
pub(super) const JSON_MERGE_PATCH: FunctionSpec = FunctionSpec {
    name: "json_merge_patch",
    signature: |arguments| {
        let is_taken = arguments.len() >= 2 && arguments.iter().all(is_document);
        is_taken.then(|| CallKinds { arguments: vec![json_arrow(); arguments.len()], result: json_arrow() })
    },
    kernel: |arguments, _, rows| {
        let values: Vec<Documents> = arguments.iter().map(Documents::new).collect();
        changed(arguments, rows, |row| {
            let mut merged = JsonNode::of(values[0].at(row));
            for patch in &values[1..] {
                merged = merge(merged, JsonNode::of(patch.at(row)));
            }
            Ok(merged_text(&merged))
        })
    },
    doc: "A document changed by patches (RFC 7396): members of a patch replace those of the document, \
          null removes them.",
    example: ("json_merge_patch('{\"a\": 1, \"b\": 2}', '{\"b\": null, \"c\": 3}')", "{\"a\": 1, \"c\": 3}"),
    ..ordinary("json")
};

/// `document || document`
pub(super) const JSON_CONCAT: FunctionSpec = FunctionSpec {
    name: "jsonb_concat",
    aliases: &["json_concat"],
    signature: |arguments| {
        let is_taken = arguments.len() == 2 && arguments.iter().all(is_document);
        is_taken.then(|| CallKinds { arguments: vec![json_arrow(); 2], result: json_arrow() })
    },
    kernel: |arguments, _, rows| {
        let (left, right) = (Documents::new(&arguments[0]), Documents::new(&arguments[1]));
        changed(arguments, rows, |row| {
            Ok(merged_text(&concat(JsonNode::of(left.at(row)), JsonNode::of(right.at(row)))))
        })
    },
    doc: "Both documents in one, as `||` gives it: the members of two objects, or the items of two arrays.",
    example: ("jsonb_concat('{\"a\": 1}', '{\"b\": 2}')", "{\"a\": 1, \"b\": 2}"),
    ..ordinary("json")
};

/// `document - key`
pub(super) const JSON_REMOVE: FunctionSpec = FunctionSpec {
    name: "jsonb_delete",
    signature: |arguments| {
        let [document, what] = arguments else { return None };
        let kind = is_document(document).then(|| path_kind(what))??;
        Some(CallKinds { arguments: vec![json_arrow(), kind], result: json_arrow() })
    },
    kernel: |arguments, _, rows| {
        let values = Documents::new(&arguments[0]);
        changed(arguments, rows, |row| {
            let mut node = JsonNode::of(values.at(row));
            remove(&mut node, &arguments[1], row);
            Ok(merged_text(&node))
        })
    },
    doc: "A document without a member, several members or an item, as `-` gives it.",
    example: ("jsonb_delete('{\"a\": 1, \"b\": 2}', 'a')", "{\"b\": 2}"),
    ..ordinary("json")
};

/// `document #- path`
pub(super) const JSON_REMOVE_PATH: FunctionSpec = FunctionSpec {
    name: "jsonb_delete_path",
    signature: |arguments| {
        let [document, path] = arguments else { return None };
        let is_list = is_key_list(path);
        (is_document(document) && is_list)
            .then(|| CallKinds { arguments: vec![json_arrow(), text_list()], result: json_arrow() })
    },
    kernel: |arguments, _, rows| {
        let values = Documents::new(&arguments[0]);
        changed(arguments, rows, |row| {
            let mut node = JsonNode::of(values.at(row));
            let words = words_at(&arguments[1], row);
            let words: Vec<&str> = words.iter().flatten().collect();
            remove_at(&mut node, &words);
            Ok(merged_text(&node))
        })
    },
    doc: "A document without the part below keys and positions, as `#-` gives it.",
    example: ("jsonb_delete_path('{\"a\": [1, 2]}', ['a', '0'])", "{\"a\": [2]}"),
    ..ordinary("json")
};

/// `jsonb_set(document, path, value [, create])`
pub(super) const JSONB_SET: FunctionSpec = FunctionSpec {
    name: "jsonb_set",
    aliases: &["json_set"],
    signature: |arguments| {
        let [document, path, value, create @ ..] = arguments else { return None };
        let is_list = is_key_list(path);
        let is_taken = is_document(document)
            && is_list
            && is_document(value)
            && create.len() <= 1
            && create.iter().all(|create| stands_for(create, &BOOLEAN));
        let mut kinds = vec![json_arrow(), text_list(), json_arrow()];
        kinds.extend(create.iter().map(|_| BOOLEAN));
        is_taken.then(|| CallKinds { arguments: kinds, result: json_arrow() })
    },
    kernel: |arguments, _, rows| {
        let (values, new) = (Documents::new(&arguments[0]), Documents::new(&arguments[2]));
        changed(arguments, rows, |row| {
            let creates = arguments.get(3).is_none_or(|create| create.values.as_boolean().value(create.at(row)));
            let words = words_at(&arguments[1], row);
            let words: Vec<&str> = words.iter().flatten().collect();
            let keys: Vec<String> = words.iter().map(|word| escaped_key(word)).collect();
            let steps: Vec<(&str, &str)> = words.into_iter().zip(keys.iter().map(String::as_str)).collect();
            let mut node = JsonNode::of(values.at(row));
            set_at(&mut node, &steps, JsonNode::of(new.at(row)), creates);
            Ok(merged_text(&node))
        })
    },
    doc: "A document with another value at a path of keys and positions, which is added if it is missing.",
    example: ("jsonb_set('{\"a\": [1, 2]}', ['a', '1'], '5')", "{\"a\": [1, 5]}"),
    ..ordinary("json")
};

/// `json_strip_nulls(document)`
pub(super) const JSON_STRIP_NULLS: FunctionSpec = FunctionSpec {
    name: "json_strip_nulls",
    aliases: &["jsonb_strip_nulls"],
    signature: |arguments| one_document(arguments, json_arrow()),
    kernel: |arguments, _, rows| {
        let values = Documents::new(&arguments[0]);
        changed(arguments, rows, |row| {
            let mut node = JsonNode::of(values.at(row));
            strip_nulls(&mut node);
            Ok(merged_text(&node))
        })
    },
    doc: "A document without the members that are null.",
    example: ("json_strip_nulls('{\"a\": null, \"b\": [null]}')", "{\"b\": [null]}"),
    ..ordinary("json")
};

/// `json_pretty(document)`
pub(super) const JSON_PRETTY: FunctionSpec = FunctionSpec {
    name: "json_pretty",
    aliases: &["jsonb_pretty"],
    signature: |arguments| one_document(arguments, TEXT),
    kernel: |arguments, _, rows| {
        let values = Documents::new(&arguments[0]);
        let made = changed(arguments, rows, |row| {
            let mut text = String::new();
            JsonNode::of(values.at(row)).write_lines(0, &mut text);
            Ok(text)
        })?;
        cast(&made, &TEXT, false)
    },
    doc: "The text of a document over several lines.",
    example: ("replace(json_pretty('{\"a\": 1}'), chr(10), '|')", "{|    \"a\": 1|}"),
    ..ordinary("json")
};

/// `json(document)`
pub(super) const JSON_COMPACT: FunctionSpec = FunctionSpec {
    name: "json",
    signature: |arguments| one_document(arguments, json_arrow()),
    kernel: |arguments, _, rows| {
        let values = Documents::new(&arguments[0]);
        changed(arguments, rows, |row| Ok(merged_text(&JsonNode::of(values.at(row)))))
    },
    doc: "A document with the white space that functions write: a space after each colon and comma.",
    example: ("json('{\"a\":1 ,\"b\":[ ]}')", "{\"a\": 1, \"b\": []}"),
    ..ordinary("json")
};

/// Whether an argument is accepted as a list of keys: a list, or a text such as `'{a,0}'` that is read as one.
pub(super) fn is_key_list(argument: &ArgumentKind<'_>) -> bool {
    path_kind(argument).is_some_and(|kind| kind.is_nested() || kind == TEXT)
}

fn one_document(arguments: &[ArgumentKind<'_>], result: DataType) -> Option<CallKinds> {
    let [document] = arguments else { return None };
    is_document(document).then(|| CallKinds { arguments: vec![json_arrow()], result })
}

/// Makes a document for each row in which no argument is NULL.
pub(super) fn changed(
    arguments: &[Operand],
    rows: usize,
    mut text: impl FnMut(usize) -> Result<String>,
) -> Result<ArrayRef> {
    let valid = valid_rows(arguments);
    documents(rows, |row| {
        let is_valid = valid.as_ref().is_some_and(|valid| valid.as_ref().is_none_or(|valid| valid.is_valid(row)));
        if is_valid { text(row).map(|text| Some(Cow::from(text))) } else { Ok(None) }
    })
}

pub(super) fn merged_text(node: &JsonNode<'_>) -> String {
    let mut text = String::new();
    node.write(&mut text);
    text
}

/// Merges a patch into a value, as RFC 7396 defines it.
fn merge<'a>(value: JsonNode<'a>, patch: JsonNode<'a>) -> JsonNode<'a> {
    let JsonNode::Object(changes) = patch else { return patch };
    let mut members = match value {
        JsonNode::Object(members) => members,
        _ => Vec::new(),
    };
    for (key, change) in changes {
        let place = members.iter().position(|(own, _)| keys_are_equal(own, key));
        match (place, change.is_null()) {
            (Some(place), true) => drop(members.remove(place)),
            (None, true) => {}
            (Some(place), false) => {
                let old = std::mem::replace(&mut members[place].1, JsonNode::Scalar("null"));
                members[place].1 = merge(old, change);
            }
            (None, false) => members.push((key, merge(JsonNode::Scalar("null"), change))),
        }
    }
    JsonNode::Object(members)
}

/// Puts two documents together. Anything but two objects is an array.
fn concat<'a>(left: JsonNode<'a>, right: JsonNode<'a>) -> JsonNode<'a> {
    let items = |node: JsonNode<'a>| match node {
        JsonNode::Array(items) => items,
        other => vec![other],
    };
    match (left, right) {
        (JsonNode::Object(mut members), JsonNode::Object(more)) => {
            for (key, value) in more {
                match members.iter_mut().find(|(own, _)| keys_are_equal(own, key)) {
                    Some((_, old)) => *old = value,
                    None => members.push((key, value)),
                }
            }
            JsonNode::Object(members)
        }
        (left, right) => {
            let mut all = items(left);
            all.extend(items(right));
            JsonNode::Array(all)
        }
    }
}

/// Removes what an operand names: a key or a string, several of them, or a position.
fn remove(node: &mut JsonNode<'_>, what: &Operand, row: usize) {
    match what.values.data_type() {
        DataType::Int64 => {
            let index = what.values.as_primitive::<Int64Type>().value(what.at(row));
            if let JsonNode::Array(items) = node
                && let Some(at) = place_of(index, items.len())
            {
                items.remove(at);
            }
        }
        DataType::List(_) => words_at(what, row).iter().flatten().for_each(|key| remove_key(node, key)),
        _ => remove_key(node, what.values.as_string_view().value(what.at(row))),
    }
}

fn remove_key(node: &mut JsonNode<'_>, key: &str) {
    let mut scratch = String::new();
    match node {
        JsonNode::Object(members) => members.retain(|(own, _)| plain_string(own, &mut scratch) != key),
        JsonNode::Array(items) => items.retain(|item| match item {
            JsonNode::Scalar(value) if value.starts_with('"') => {
                plain_string(&value[1..value.len() - 1], &mut scratch) != key
            }
            _ => true,
        }),
        JsonNode::Scalar(_) => {}
    }
}

/// Removes the part below keys and positions.
pub(super) fn remove_at(node: &mut JsonNode<'_>, words: &[&str]) {
    let Some((word, rest)) = words.split_first() else { return };
    let mut scratch = String::new();
    match node {
        JsonNode::Object(members) if rest.is_empty() => {
            members.retain(|(own, _)| plain_string(own, &mut scratch) != *word);
        }
        JsonNode::Object(members) => {
            if let Some((_, value)) = members.iter_mut().find(|(own, _)| plain_string(own, &mut scratch) == *word) {
                remove_at(value, rest);
            }
        }
        JsonNode::Array(items) => {
            if let Some(at) = word.parse().ok().and_then(|index| place_of(index, items.len())) {
                match rest {
                    [] => drop(items.remove(at)),
                    rest => remove_at(&mut items[at], rest),
                }
            }
        }
        JsonNode::Scalar(_) => {}
    }
}

/// Sets the value below keys and positions. Each step is a word and the same word with the escapes of a key. Only the
/// last step is added if it is missing.
pub(super) fn set_at<'a>(node: &mut JsonNode<'a>, steps: &[(&str, &'a str)], new: JsonNode<'a>, creates: bool) {
    let Some(((word, key), rest)) = steps.split_first() else { return };
    match node {
        JsonNode::Object(members) => match members.iter_mut().find(|(own, _)| keys_are_equal(own, key)) {
            Some((_, value)) if rest.is_empty() => *value = new,
            Some((_, value)) => set_at(value, rest, new, creates),
            None if rest.is_empty() && creates => members.push((key, new)),
            None => {}
        },
        JsonNode::Array(items) => {
            let Ok(index) = word.parse::<i64>() else { return };
            match (place_of(index, items.len()), rest) {
                (Some(at), []) => items[at] = new,
                (Some(at), rest) => set_at(&mut items[at], rest, new, creates),
                (None, []) if creates && index < 0 => items.insert(0, new),
                (None, []) if creates => items.push(new),
                (None, _) => {}
            }
        }
        JsonNode::Scalar(_) => {}
    }
}

/// Returns the place of a position from 0, or from the end if it is negative.
pub(super) fn place_of(index: i64, len: usize) -> Option<usize> {
    let at = if index < 0 { index.checked_add(i64::try_from(len).ok()?)? } else { index };
    usize::try_from(at).ok().filter(|at| *at < len)
}

fn strip_nulls(node: &mut JsonNode<'_>) {
    match node {
        JsonNode::Object(members) => {
            members.retain(|(_, value)| !value.is_null());
            members.iter_mut().for_each(|(_, value)| strip_nulls(value));
        }
        JsonNode::Array(items) => items.iter_mut().for_each(strip_nulls),
        JsonNode::Scalar(_) => {}
    }
}

/// Returns a text as the inside of a string, with escapes.
pub(super) fn escaped_key(word: &str) -> String {
    let mut quoted = String::new();
    write_json_string(word, &mut quoted);
    quoted[1..quoted.len() - 1].to_owned()
}
