//! Casts lists item by item, and structs field by field.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, ListArray, StructArray, new_null_array};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{FieldRef, Fields};
use rowmill_base::{Error, Result};

use super::cast;
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
    Ok(Arc::new(list.map_err(arrow_failed)?))
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
