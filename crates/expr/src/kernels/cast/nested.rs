//! Casts lists item by item, and structs field by field.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, ListArray, MapArray, StructArray, new_null_array};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, FieldRef, Fields};
use rowmill_base::{Error, ErrorKind, Result, map_entry_kinds};

use super::cast;
use crate::functions::keys_of;
use crate::kinds::arrow_failed;

/// Returns the positions in `from` of the fields of `to`, found by name. A field that `from` lacks becomes NULL.
/// Returns `None` if the cast would lose a field of `from`.
pub(crate) fn struct_places(from: &Fields, to: &Fields) -> Option<Vec<Option<usize>>> {
    let find = |name: &str, fields: &Fields| {
        let exact = fields.iter().position(|field| field.name() == name);
        exact.or_else(|| fields.iter().position(|field| field.name().to_lowercase() == name.to_lowercase()))
    };
    // A cast must not lose a field of the source silently.
    let is_kept = from.iter().all(|field| find(field.name(), to).is_some());
    is_kept.then(|| to.iter().map(|field| find(field.name(), from)).collect())
}

pub(super) fn cast_list(array: &ArrayRef, item: &FieldRef, or_null: bool) -> Result<ArrayRef> {
    let list = array.as_list::<i32>();
    // A slice of a list array keeps all items, so we cut out its own before the cast.
    let first = list.offsets().first().copied().unwrap_or_default();
    let last = list.offsets().last().copied().unwrap_or_default();
    let own = list.values().slice(first as usize, (last - first) as usize);
    let items = cast(&own, item.data_type(), or_null)?;
    let offsets: Vec<i32> = list.offsets().iter().map(|offset| offset - first).collect();
    let list = ListArray::try_new(Arc::clone(item), OffsetBuffer::new(offsets.into()), items, list.nulls().cloned());
    let list = list.map_err(arrow_failed)?;
    if map_entry_kinds(item.data_type()).is_some() {
        check_keys(&list)?;
    }
    Ok(Arc::new(list))
}

/// Gives maps the form that they have outside of the engine.
pub(super) fn to_arrow_map(array: &ArrayRef, entries: &FieldRef) -> Result<ArrayRef> {
    let DataType::Struct(fields) = entries.data_type() else {
        return Err(Error::internal("the entries of a map are structs"));
    };
    let list = array.as_list::<i32>();
    let first = list.offsets().first().copied().unwrap_or_default();
    let last = list.offsets().last().copied().unwrap_or_default();
    let own = list.values().slice(first as usize, (last - first) as usize);
    let columns = own.as_struct().columns().iter().zip(fields);
    let columns = columns.map(|(column, field)| cast(column, field.data_type(), false)).collect::<Result<Vec<_>>>()?;
    let structs = StructArray::try_new(fields.clone(), columns, None).map_err(arrow_failed)?;
    let offsets: Vec<i32> = list.offsets().iter().map(|offset| offset - first).collect();
    let offsets = OffsetBuffer::new(offsets.into());
    let map = MapArray::try_new(Arc::clone(entries), offsets, structs, list.nulls().cloned(), false);
    Ok(Arc::new(map.map_err(arrow_failed)?))
}

/// Returns an error if a map has a key twice, which happens if different keys become one in a cast.
fn check_keys(maps: &ListArray) -> Result<()> {
    let keys = maps.values().as_struct().column(0);
    let [rows] = keys_of([keys])?;
    for (row, range) in maps.offsets().windows(2).enumerate() {
        let mut known = HashSet::new();
        let range = range[0] as usize..range[1] as usize;
        if maps.is_valid(row) && range.clone().any(|entry| keys.is_null(entry) || !known.insert(rows.row(entry).data()))
        {
            return Err(Error::new(
                ErrorKind::InvalidParameter,
                "a key occurs twice in a map, or is NULL, after the cast",
            ));
        }
    }
    Ok(())
}

pub(super) fn cast_struct(array: &ArrayRef, fields: &Fields, or_null: bool) -> Result<ArrayRef> {
    let from = array.as_struct();
    let places = struct_places(from.fields(), fields)
        .ok_or_else(|| Error::internal("a cast of a struct that loses a field was not refused"))?;
    if fields.is_empty() {
        return Ok(Arc::new(StructArray::new_empty_fields(from.len(), from.nulls().cloned())));
    }
    let columns: Result<Vec<ArrayRef>> = fields
        .iter()
        .zip(places)
        .map(|(field, place)| match place {
            Some(place) => cast(&without_hidden(from.column(place), from.nulls())?, field.data_type(), or_null),
            None => Ok(new_null_array(field.data_type(), from.len())),
        })
        .collect();
    let array = StructArray::try_new(fields.clone(), columns?, from.nulls().cloned()).map_err(arrow_failed)?;
    Ok(Arc::new(array))
}

/// Returns a field with NULL where the struct is NULL, so that the hidden values cannot fail.
fn without_hidden(column: &ArrayRef, nulls: Option<&NullBuffer>) -> Result<ArrayRef> {
    let Some(nulls) = nulls.filter(|nulls| nulls.null_count() > 0) else { return Ok(Arc::clone(column)) };
    let hidden = BooleanArray::new(!nulls.inner(), None);
    arrow::compute::nullif(column, &hidden).map_err(arrow_failed)
}
