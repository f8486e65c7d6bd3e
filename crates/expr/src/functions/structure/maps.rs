//! Maps: lists of structs of a key and a value, which are marked as entries of a map.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StructArray, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field};
use rowmill_base::{Error, ErrorKind, Result, map_entry_arrow, map_kinds};
use rowmill_plan::function::{ArgumentKind, CallKinds};
use rowmill_plan::{FunctionSpec, Operand};

use crate::functions::list::keys::keys_of;
use crate::functions::list::maker::{ListMaker, ListRanges, common_item, item_kind, kind_beside, list_of, lists_of};
use crate::functions::signatures::ordinary;
use crate::functions::time::columns::failed;

/// `map(keys, values)`
pub(super) const MAP: FunctionSpec = FunctionSpec {
    name: "map",
    aliases: &["make_map"],
    can_fail: true,
    signature: |arguments| match arguments {
        [keys, values] => {
            let (key, value) = (item_kind(keys.kind)?, item_kind(values.kind)?);
            let result = list_of(entry_kind(key.clone(), value.clone()));
            Some(CallKinds { arguments: vec![list_of(key), list_of(value)], result })
        }
        _ => None,
    },
    kernel: make,
    doc: "A map of keys and their values, which are lists of one length. Keys must be distinct and not NULL.",
    example: ("map(['a', 'b'], [1, 2])", "{a=1, b=2}"),
    ..ordinary("struct")
};

/// `map_keys(map)`
pub(super) const MAP_KEYS: FunctionSpec = FunctionSpec {
    name: "map_keys",
    signature: |arguments| of_map(arguments, |key, _| list_of(key)),
    kernel: |arguments, kind, rows| column(&arguments[0], kind, rows, 0),
    doc: "The keys of a map.",
    example: ("map_keys(map(['a', 'b'], [1, 2]))", "[\"a\", \"b\"]"),
    ..ordinary("struct")
};

/// `map_values(map)`
pub(super) const MAP_VALUES: FunctionSpec = FunctionSpec {
    name: "map_values",
    signature: |arguments| of_map(arguments, |_, value| list_of(value)),
    kernel: |arguments, kind, rows| column(&arguments[0], kind, rows, 1),
    doc: "The values of a map.",
    example: ("map_values(map(['a', 'b'], [1, 2]))", "[1, 2]"),
    ..ordinary("struct")
};

/// `map_entries(map)`
pub(super) const MAP_ENTRIES: FunctionSpec = FunctionSpec {
    name: "map_entries",
    signature: |arguments| of_map(arguments, |key, value| list_of(pair_kind(key, value))),
    kernel: |arguments, kind, rows| pairs(&arguments[0], kind, rows),
    doc: "The entries of a map as structs of a key and a value.",
    example: ("map_entries(map(['a'], [1]))", "[{\"key\": \"a\", \"value\": 1}]"),
    ..ordinary("struct")
};

/// `map_extract(map, key)`
pub(super) const MAP_EXTRACT: FunctionSpec = FunctionSpec {
    name: "map_extract",
    aliases: &["element_at"],
    signature: |arguments| {
        let [map, key] = arguments else { return None };
        let (given, value) = entry_of(map.kind)?;
        let key = kind_beside(key, &given);
        let wanted = common_item(&[given, key])?;
        let map = list_of(entry_kind(wanted.clone(), value.clone()));
        Some(CallKinds { arguments: vec![map, wanted], result: list_of(value) })
    },
    kernel: extract,
    doc: "A list with the value of a key of a map, or without items if the map does not have the key.",
    example: ("map_extract(map(['a', 'b'], [1, 2]), 'b')", "[2]"),
    ..ordinary("struct")
};

pub(super) fn entry_kind(key: DataType, value: DataType) -> DataType {
    map_entry_arrow(key, value)
}

/// Returns the type of a struct of a key and a value.
fn pair_kind(key: DataType, value: DataType) -> DataType {
    DataType::Struct(vec![Field::new("key", key, true), Field::new("value", value, true)].into())
}

/// Returns the types of key and value if the type is that of a map.
pub(super) fn entry_of(kind: &DataType) -> Option<(DataType, DataType)> {
    let (key, value) = map_kinds(kind)?;
    Some((key.clone(), value.clone()))
}

fn of_map(arguments: &[ArgumentKind<'_>], result: impl Fn(DataType, DataType) -> DataType) -> Option<CallKinds> {
    let [map] = arguments else { return None };
    let (key, value) = entry_of(map.kind)?;
    Some(CallKinds { arguments: vec![map.kind.clone()], result: result(key, value) })
}

fn make(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let (keys, values) = (ListRanges::of(&arguments[0]), ListRanges::of(&arguments[1]));
    let [known] = keys_of([keys.items()])?;
    let nulls = keys.items().logical_nulls();
    let (mut key_picks, mut value_picks, mut offsets) = (Vec::new(), Vec::new(), vec![0]);
    let mut validity = Vec::with_capacity(rows);
    let mut given: HashSet<&[u8]> = HashSet::new();
    let wrong = |message: String| Err(Error::new(ErrorKind::InvalidParameter, message));
    for row in 0..rows {
        let both = keys.at(row).zip(values.at(row));
        validity.push(both.is_some());
        if let Some((of_keys, of_values)) = both {
            if of_keys.len() != of_values.len() {
                let (keys, values) = (of_keys.len(), of_values.len());
                return wrong(format!("a map needs one value per key, but there are {keys} keys and {values} values"));
            }
            // Each row has its own set of keys.
            given.clear();
            for key in of_keys.clone() {
                if nulls.as_ref().is_some_and(|nulls| nulls.is_null(key)) {
                    return wrong("a key of a map is NULL".to_owned());
                }
                if !given.insert(known.row(key).data()) {
                    return wrong("a key occurs twice in a map".to_owned());
                }
            }
            key_picks.extend(of_keys.map(|item| item as u32));
            value_picks.extend(of_values.map(|item| item as u32));
        }
        offsets.push(key_picks.len() as i32);
    }
    let Some(DataType::Struct(fields)) = item_kind(kind) else { return Err(failed(format!("a map of type {kind}"))) };
    let columns = vec![
        take(keys.items(), &UInt32Array::from(key_picks), None).map_err(failed)?,
        take(values.items(), &UInt32Array::from(value_picks), None).map_err(failed)?,
    ];
    let entries = StructArray::try_new(fields, columns, None).map_err(failed)?;
    lists_of(kind, offsets, Arc::new(entries), Some(validity.into()))
}

/// Returns the entries of maps as structs of a key and a value.
fn pairs(maps: &Operand, kind: &DataType, rows: usize) -> Result<ArrayRef> {
    crate::functions::time::columns::unary(maps, rows, |maps| {
        let lists = maps.as_list::<i32>();
        let entries = lists.values().as_struct();
        let Some(DataType::Struct(fields)) = item_kind(kind) else {
            return Err(failed(format!("pairs of type {kind}")));
        };
        let pairs =
            StructArray::try_new(fields, entries.columns().to_vec(), entries.nulls().cloned()).map_err(failed)?;
        lists_of(kind, lists.value_offsets().to_vec(), Arc::new(pairs), lists.nulls().cloned())
    })
}

/// Returns the keys (0) or the values (1) of maps.
fn column(maps: &Operand, kind: &DataType, rows: usize, at: usize) -> Result<ArrayRef> {
    crate::functions::time::columns::unary(maps, rows, |maps| {
        let lists = maps.as_list::<i32>();
        let items = lists.values().as_struct().column(at).clone();
        lists_of(kind, lists.value_offsets().to_vec(), items, lists.nulls().cloned())
    })
}

fn extract(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let maps = ListRanges::of(&arguments[0]);
    let wanted = &arguments[1];
    let entries = maps.items().as_struct();
    let [keys, sought] = keys_of([entries.column(0), &wanted.values])?;
    let mut maker = ListMaker::new("map_extract", &[entries.column(1)], rows);
    for row in 0..rows {
        let (Some(mut items), true) = (maps.at(row), wanted.values.is_valid(wanted.at(row))) else {
            maker.finish_null();
            continue;
        };
        if let Some(item) = items.find(|item| keys.row(*item) == sought.row(wanted.at(row))) {
            maker.push(0, item);
        }
        maker.finish_list();
    }
    maker.finish(kind)
}
