//! Containment and keys, as PostgreSQL's operators test them.

use arrow::array::ArrayRef;
use rowmill_base::{Result, json_arrow};
use rowmill_plan::function::{ArgumentKind, CallKinds};
use rowmill_plan::{FunctionSpec, Operand};

use super::documents::{Documents, is_document, path_kind, text_list, words_at};
use crate::functions::rowwise::{TextArgument, booleans};
use crate::functions::signatures::{BOOLEAN, TEXT, ordinary, stands_for};
use crate::json::parts::{items, member};
use crate::json::plain_string;
use crate::json::tree::JsonNode;
use crate::text::json::JsonKind;

/// `jsonb_contains(document, part)`
pub(super) const JSONB_CONTAINS: FunctionSpec = FunctionSpec {
    name: "jsonb_contains",
    signature: two_documents,
    kernel: |arguments, _, rows| {
        let (own, other) = (Documents::new(&arguments[0]), Documents::new(&arguments[1]));
        booleans(arguments, rows, |row| JsonNode::of(own.at(row)).contains(&JsonNode::of(other.at(row))))
    },
    doc: "Whether a document contains another one, as `@>` tests it: all members of objects, all items of arrays.",
    example: ("jsonb_contains('{\"a\": 1, \"b\": [2, 3]}', '{\"b\": [3]}')", "true"),
    ..ordinary("json")
};

/// `json_contains(document, part)`
pub(super) const JSON_CONTAINS: FunctionSpec = FunctionSpec {
    name: "json_contains",
    signature: two_documents,
    kernel: |arguments, _, rows| {
        let (own, other) = (Documents::new(&arguments[0]), Documents::new(&arguments[1]));
        booleans(arguments, rows, |row| contains_anywhere(&JsonNode::of(own.at(row)), &JsonNode::of(other.at(row))))
    },
    doc: "Whether a document, or a value at any depth of it, contains another one.",
    example: ("json_contains('{\"a\": [1, {\"b\": 2}]}', '{\"b\": 2}')", "true"),
    ..ordinary("json")
};

/// `jsonb_exists(document, key)`
pub(super) const JSONB_EXISTS: FunctionSpec = FunctionSpec {
    name: "jsonb_exists",
    signature: |arguments| {
        let [document, key] = arguments else { return None };
        let is_taken = is_document(document) && stands_for(key, &TEXT);
        is_taken.then(|| CallKinds { arguments: vec![json_arrow(), TEXT], result: BOOLEAN })
    },
    kernel: |arguments, _, rows| {
        let (own, key) = (Documents::new(&arguments[0]), TextArgument::new(&arguments[1]));
        booleans(arguments, rows, |row| key.get(row).is_some_and(|key| has_key(own.at(row), key)))
    },
    doc: "Whether a text is a key of an object or a string of an array, as the operator `?` tests it.",
    example: ("jsonb_exists('{\"a\": 1}', 'a')", "true"),
    ..ordinary("json")
};

/// `jsonb_exists_any(document, keys)`
pub(super) const JSONB_EXISTS_ANY: FunctionSpec = FunctionSpec {
    name: "jsonb_exists_any",
    signature: document_and_keys,
    kernel: |arguments, _, rows| {
        keys_of_rows(arguments, rows, |own, keys| keys.iter().flatten().any(|key| has_key(own, key)))
    },
    doc: "Whether one of several texts is a key of an object or a string of an array, as `?|` tests it.",
    example: ("jsonb_exists_any('{\"a\": 1}', ['a', 'b'])", "true"),
    ..ordinary("json")
};

/// `jsonb_exists_all(document, keys)`
pub(super) const JSONB_EXISTS_ALL: FunctionSpec = FunctionSpec {
    name: "jsonb_exists_all",
    signature: document_and_keys,
    kernel: |arguments, _, rows| {
        keys_of_rows(arguments, rows, |own, keys| keys.iter().flatten().all(|key| has_key(own, key)))
    },
    doc: "Whether all of several texts are keys of an object or strings of an array, as `?&` tests it.",
    example: ("jsonb_exists_all('{\"a\": 1}', ['a', 'b'])", "false"),
    ..ordinary("json")
};

fn two_documents(arguments: &[ArgumentKind<'_>]) -> Option<CallKinds> {
    let is_taken = arguments.len() == 2 && arguments.iter().all(is_document);
    is_taken.then(|| CallKinds { arguments: vec![json_arrow(); 2], result: BOOLEAN })
}

fn document_and_keys(arguments: &[ArgumentKind<'_>]) -> Option<CallKinds> {
    let [document, keys] = arguments else { return None };
    let is_list = path_kind(keys).is_some_and(|kind| kind.is_nested()) || keys.constant.is_some();
    let is_taken = is_document(document) && is_list;
    is_taken.then(|| CallKinds { arguments: vec![json_arrow(), text_list()], result: BOOLEAN })
}

fn keys_of_rows(
    arguments: &[Operand],
    rows: usize,
    test: fn(&str, &arrow::array::StringViewArray) -> bool,
) -> Result<ArrayRef> {
    let own = Documents::new(&arguments[0]);
    booleans(arguments, rows, |row| test(own.at(row), &words_at(&arguments[1], row)))
}

fn has_key(document: &str, key: &str) -> bool {
    let is_string = |value: &str| {
        JsonKind::of(value) == JsonKind::String && plain_string(&value[1..value.len() - 1], &mut String::new()) == key
    };
    match JsonKind::of(document) {
        JsonKind::Object => member(document, key).is_some(),
        JsonKind::Array => items(document).any(is_string),
        _ => !document.is_empty() && is_string(document),
    }
}

fn contains_anywhere(own: &JsonNode<'_>, other: &JsonNode<'_>) -> bool {
    own.contains(other)
        || match own {
            JsonNode::Scalar(_) => false,
            JsonNode::Array(items) => items.iter().any(|item| contains_anywhere(item, other)),
            JsonNode::Object(members) => members.iter().any(|(_, value)| contains_anywhere(value, other)),
        }
}
