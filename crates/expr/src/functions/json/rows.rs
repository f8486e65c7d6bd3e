//! The items and members of documents as lists, which FROM and select lists turn into rows.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Builder, ListArray, StringViewBuilder, StructArray};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, Fields};
use rowmill_base::{Result, json_arrow};
use rowmill_plan::FunctionSpec;
use rowmill_plan::Operand;

use super::describe::{SelectedParts, type_of, with_path};
use super::documents::{Documents, ListRows, list_of};
use crate::functions::rowwise::too_long;
use crate::functions::signatures::{BIGINT, TEXT, ordinary};
use crate::functions::time::columns::failed;
use crate::json::parts::{items, members};
use crate::json::{of_texts, plain_string, scalar_text};
use crate::text::json::JsonKind;

/// The list of `json_array_elements(document)`.
pub(super) const JSON_ITEMS: FunctionSpec = FunctionSpec {
    name: "json_items",
    signature: |arguments| with_path(arguments, list_of(json_arrow())).filter(|_| arguments.len() == 1),
    kernel: |arguments, _, rows| item_lists(&arguments[0], rows, false),
    doc: "The items of an array as a list; `json_array_elements` gives them as rows.",
    example: ("json_items('[1, {\"a\": 2}]')", "[1, {\"a\": 2}]"),
    ..ordinary("json")
};

/// The list of `json_array_elements_text(document)`.
pub(super) const JSON_ITEM_TEXTS: FunctionSpec = FunctionSpec {
    name: "json_item_texts",
    signature: |arguments| with_path(arguments, list_of(TEXT)).filter(|_| arguments.len() == 1),
    kernel: |arguments, _, rows| item_lists(&arguments[0], rows, true),
    doc: "The items of an array as a list of texts; `json_array_elements_text` gives them as rows.",
    example: ("json_item_texts('[\"x\", 1]')", "[\"x\", \"1\"]"),
    ..ordinary("json")
};

/// The list of PostgreSQL's `json_each(document)`.
pub(super) const JSON_MEMBERS: FunctionSpec = FunctionSpec {
    name: "json_members",
    signature: |arguments| {
        with_path(arguments, list_of(DataType::Struct(pair(json_arrow())))).filter(|_| arguments.len() == 1)
    },
    kernel: |arguments, _, rows| member_lists(&arguments[0], rows, false),
    doc: "The members of an object as a list of structs of key and value.",
    example: ("json_members('{\"a\": 1}')", "[{\"key\": \"a\", \"value\": 1}]"),
    ..ordinary("json")
};

/// The list of PostgreSQL's `json_each_text(document)`.
pub(super) const JSON_MEMBER_TEXTS: FunctionSpec = FunctionSpec {
    name: "json_member_texts",
    signature: |arguments| with_path(arguments, list_of(DataType::Struct(pair(TEXT)))).filter(|_| arguments.len() == 1),
    kernel: |arguments, _, rows| member_lists(&arguments[0], rows, true),
    doc: "The members of an object as a list of structs of key and text; `json_each_text` gives them as rows.",
    example: ("json_member_texts('{\"a\": \"x\"}')", "[{\"key\": \"a\", \"value\": \"x\"}]"),
    ..ordinary("json")
};

/// `json_each(document [, path])`
pub(super) const JSON_EACH: FunctionSpec = FunctionSpec {
    name: "json_each",
    aliases: &["jsonb_each"],
    can_fail: true,
    signature: |arguments| with_path(arguments, list_of(DataType::Struct(node_fields()))),
    kernel: |arguments, _, rows| node_lists(arguments, rows, false),
    doc: "The members or items of a document as a list of structs; in FROM as rows.",
    example: ("json_each('[5]')[1].fullkey", "$[0]"),
    ..ordinary("json")
};

/// `json_tree(document [, path])`
pub(super) const JSON_TREE: FunctionSpec = FunctionSpec {
    name: "json_tree",
    can_fail: true,
    signature: |arguments| with_path(arguments, list_of(DataType::Struct(node_fields()))),
    kernel: |arguments, _, rows| node_lists(arguments, rows, true),
    doc: "A document and all values in it, at any depth, as a list of structs; in FROM as rows.",
    example: ("json_tree('{\"a\": [5]}')[3].fullkey", "$.a[0]"),
    ..ordinary("json")
};

fn pair(value: DataType) -> Fields {
    vec![Field::new("key", TEXT, true), Field::new("value", value, true)].into()
}

fn item_lists(operand: &Operand, rows: usize, as_text: bool) -> Result<ArrayRef> {
    let values = Documents::new(operand);
    let mut lists = ListRows::new(rows);
    let mut scratch = String::new();
    for row in 0..rows {
        let value = values.get(row);
        for item in value.into_iter().flat_map(items) {
            lists.push(if as_text { scalar_text(item, &mut scratch) } else { Some(item) })?;
        }
        lists.end(value.is_some())?;
    }
    lists.finish(&if as_text { TEXT } else { json_arrow() })
}

fn member_lists(operand: &Operand, rows: usize, as_text: bool) -> Result<ArrayRef> {
    let documents = Documents::new(operand);
    let (mut keys, mut values) = (StringViewBuilder::new(), StringViewBuilder::new());
    let mut ends = RowEnds::new(rows);
    let (mut scratch, mut count) = (String::new(), 0);
    for row in 0..rows {
        let document = documents.get(row);
        for (key, value) in document.into_iter().flat_map(members) {
            keys.try_append_value(plain_string(key, &mut scratch)).map_err(too_long)?;
            let text = if as_text { scalar_text(value, &mut scratch) } else { Some(value) };
            values.append_option(text);
            count += 1;
        }
        ends.push(count, document.is_some())?;
    }
    let values = values.finish();
    let values: ArrayRef = if as_text { Arc::new(values) } else { of_texts(values) };
    let fields = pair(if as_text { TEXT } else { json_arrow() });
    ends.lists(fields, vec![Arc::new(keys.finish()), values])
}

/// Where the list of each row ends.
struct RowEnds {
    offsets: Vec<i32>,
    valid: Vec<bool>,
}

impl RowEnds {
    fn new(rows: usize) -> RowEnds {
        let mut offsets = Vec::with_capacity(rows + 1);
        offsets.push(0);
        RowEnds { offsets, valid: Vec::with_capacity(rows) }
    }

    fn push(&mut self, end: usize, is_valid: bool) -> Result<()> {
        self.offsets.push(i32::try_from(end).map_err(failed)?);
        self.valid.push(is_valid);
        Ok(())
    }

    fn lists(self, fields: Fields, columns: Vec<ArrayRef>) -> Result<ArrayRef> {
        let structs = StructArray::try_new(fields, columns, None).map_err(failed)?;
        let field = Arc::new(Field::new("item", DataType::Struct(structs.fields().clone()), true));
        let offsets = OffsetBuffer::new(self.offsets.into());
        let nulls = Some(NullBuffer::from(self.valid));
        Ok(Arc::new(ListArray::try_new(field, offsets, Arc::new(structs), nulls).map_err(failed)?))
    }
}

/// The columns of `json_each` and `json_tree`, as DuckDB names them.
fn node_fields() -> Fields {
    vec![
        Field::new("key", TEXT, true),
        Field::new("value", json_arrow(), true),
        Field::new("type", TEXT, true),
        Field::new("atom", json_arrow(), true),
        Field::new("id", BIGINT, true),
        Field::new("parent", BIGINT, true),
        Field::new("fullkey", TEXT, true),
        Field::new("path", TEXT, true),
    ]
    .into()
}

fn node_lists(arguments: &[Operand], rows: usize, is_tree: bool) -> Result<ArrayRef> {
    let parts = SelectedParts::new(arguments)?;
    let mut nodes = Nodes { is_tree, ..Nodes::default() };
    let mut ends = RowEnds::new(rows);
    for row in 0..rows {
        let value = parts.get(row)?;
        if let Some(value) = value {
            nodes.document(value)?;
        }
        ends.push(nodes.count, value.is_some())?;
    }
    ends.lists(node_fields(), nodes.finish())
}

/// Collects the values of documents.
#[derive(Default)]
struct Nodes {
    is_tree: bool,
    keys: StringViewBuilder,
    values: StringViewBuilder,
    types: StringViewBuilder,
    atoms: StringViewBuilder,
    ids: Int64Builder,
    parents: Int64Builder,
    full_keys: StringViewBuilder,
    paths: StringViewBuilder,
    count: usize,
    /// The number of the next value or key of the document.
    next_id: i64,
}

/// A value and its place.
struct Node<'a> {
    key: Option<&'a str>,
    value: &'a str,
    id: i64,
    parent: Option<i64>,
    full_key: &'a str,
    path: &'a str,
}

impl Nodes {
    fn document(&mut self, value: &str) -> Result<()> {
        self.next_id = 1;
        let is_scalar = !matches!(JsonKind::of(value), JsonKind::Array | JsonKind::Object);
        if self.is_tree || is_scalar {
            self.push(&Node { key: None, value, id: 0, parent: None, full_key: "$", path: "$" })?;
        }
        self.children(value, 0, "$")
    }

    /// Adds the members or items of a value, and in a tree everything in them.
    fn children(&mut self, value: &str, parent: i64, path: &str) -> Result<()> {
        let mut scratch = String::new();
        let mut full_key = String::new();
        for (key, value) in members(value) {
            let key = plain_string(key, &mut scratch);
            full_key.clear();
            full_key.push_str(path);
            push_key(key, &mut full_key);
            // The key is a value of its own for DuckDB, and has a number.
            self.next_id += 1;
            self.child(Some(key), value, parent, &full_key, path)?;
        }
        for (at, value) in items(value).enumerate() {
            full_key.clear();
            full_key.push_str(path);
            full_key.push_str(&format!("[{at}]"));
            self.child(Some(&at.to_string()), value, parent, &full_key, path)?;
        }
        Ok(())
    }

    fn child(&mut self, key: Option<&str>, value: &str, parent: i64, full_key: &str, path: &str) -> Result<()> {
        let id = self.next_id;
        self.next_id += 1;
        self.push(&Node { key, value, id, parent: self.is_tree.then_some(parent), full_key, path })?;
        match self.is_tree {
            true => self.children(value, id, full_key),
            false => {
                self.next_id += count_of(value) - 1;
                Ok(())
            }
        }
    }

    fn push(&mut self, node: &Node<'_>) -> Result<()> {
        self.keys.append_option(node.key);
        self.values.try_append_value(node.value).map_err(too_long)?;
        self.types.append_value(type_of(node.value));
        let is_atom = !matches!(JsonKind::of(node.value), JsonKind::Array | JsonKind::Object);
        self.atoms.append_option(is_atom.then_some(node.value));
        self.ids.append_value(node.id);
        self.parents.append_option(node.parent);
        self.full_keys.append_value(node.full_key);
        self.paths.append_value(node.path);
        self.count += 1;
        Ok(())
    }

    fn finish(mut self) -> Vec<ArrayRef> {
        vec![
            Arc::new(self.keys.finish()),
            of_texts(self.values.finish()),
            Arc::new(self.types.finish()),
            of_texts(self.atoms.finish()),
            Arc::new(self.ids.finish()),
            Arc::new(self.parents.finish()),
            Arc::new(self.full_keys.finish()),
            Arc::new(self.paths.finish()),
        ]
    }
}

/// Returns the number of values and keys in a value, with itself.
fn count_of(value: &str) -> i64 {
    let in_members: i64 = members(value).map(|(_, value)| 1 + count_of(value)).sum();
    let in_items: i64 = items(value).map(count_of).sum();
    1 + in_members + in_items
}

/// Appends a key to a path, in quotes if it would be read otherwise.
fn push_key(key: &str, path: &mut String) {
    let is_word = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    path.push('.');
    match is_word {
        true => path.push_str(key),
        false => {
            path.push('"');
            path.push_str(key);
            path.push('"');
        }
    }
}
