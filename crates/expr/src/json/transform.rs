//! Documents read as values of another type, column by column.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, ListArray, StringViewArray, StringViewBuilder, StructArray};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, FieldRef, Fields};
use rowmill_base::{Error, ErrorKind, Result, is_json, map_kinds};

use super::parts::{items, member};
use super::{of_texts, scalar_text};
use crate::functions::too_long;
use crate::kernels::cast::cast;
use crate::kinds::{arrow_failed, type_name};
use crate::text::json::{JsonKind, members, unescape};

/// Reads values as a type. `null` and a missing member are NULL, and members without a field are left out. With
/// `or_null` a value of another type is NULL, too; otherwise it is an error.
pub(crate) fn transform(values: &[Option<&str>], kind: &DataType, or_null: bool) -> Result<ArrayRef> {
    match kind {
        kind if is_json(kind) => Ok(of_texts(texts(values, |value, _| Some(value))?)),
        DataType::Struct(fields) => structs(values, fields, kind, or_null),
        kind if let Some((key, value)) = map_kinds(kind) => maps(values, key, value, kind, or_null),
        DataType::List(item) => lists(values, item, kind, or_null),
        // A text takes every value; other types take no array or object.
        DataType::Utf8View => Ok(Arc::new(texts(values, scalar_text)?)),
        _ => {
            let scalars = texts(values, |value, scratch| match JsonKind::of(value) {
                JsonKind::Array | JsonKind::Object if or_null => None,
                _ => scalar_text(value, scratch),
            })?;
            cast(&(Arc::new(scalars) as ArrayRef), kind, or_null)
        }
    }
}

/// Makes a text of each value.
fn texts(
    values: &[Option<&str>],
    text: impl for<'a> Fn(&'a str, &'a mut String) -> Option<&'a str>,
) -> Result<StringViewArray> {
    let mut made = StringViewBuilder::with_capacity(values.len());
    let mut scratch = String::new();
    for value in values {
        match value {
            Some(value) => match text(value, &mut scratch) {
                Some(text) => made.try_append_value(text).map_err(too_long)?,
                None => made.append_null(),
            },
            None => made.append_null(),
        }
    }
    Ok(made.finish())
}

fn structs(values: &[Option<&str>], fields: &Fields, kind: &DataType, or_null: bool) -> Result<ArrayRef> {
    let valid = valid_rows(values, JsonKind::Object, kind, or_null)?;
    let mut columns = Vec::with_capacity(fields.len());
    for field in fields {
        let members: Vec<Option<&str>> = values.iter().map(|value| member((*value)?, field.name())).collect();
        columns.push(transform(&members, field.data_type(), or_null)?);
    }
    Ok(Arc::new(StructArray::try_new(fields.clone(), columns, Some(valid)).map_err(arrow_failed)?))
}

fn lists(values: &[Option<&str>], item: &FieldRef, kind: &DataType, or_null: bool) -> Result<ArrayRef> {
    let valid = valid_rows(values, JsonKind::Array, kind, or_null)?;
    let mut all = Vec::new();
    let mut offsets = vec![0_i32];
    for value in values {
        all.extend(value.iter().flat_map(|value| items(value)).map(Some));
        let end = i32::try_from(all.len());
        offsets.push(end.map_err(|_| Error::new(ErrorKind::ResultTooLarge, "arrays of JSON have too many items"))?);
    }
    let items = transform(&all, item.data_type(), or_null)?;
    let list = ListArray::try_new(FieldRef::clone(item), OffsetBuffer::new(offsets.into()), items, Some(valid));
    Ok(Arc::new(list.map_err(arrow_failed)?))
}

/// Reads objects as maps. Of a key that occurs twice, the last value counts, as in JSON.
fn maps(values: &[Option<&str>], key: &DataType, value: &DataType, kind: &DataType, or_null: bool) -> Result<ArrayRef> {
    let valid = valid_rows(values, JsonKind::Object, kind, or_null)?;
    let (mut keys, mut members_of_all, mut offsets) = (Vec::new(), Vec::new(), vec![0_i32]);
    for object in values.iter().zip(&valid).map(|(object, valid)| object.filter(|_| valid)) {
        let start = keys.len();
        let mut places: HashMap<String, usize> = HashMap::new();
        for (name, member) in object.into_iter().flat_map(|object| members(object).flatten()) {
            let mut text = String::new();
            unescape(name, &mut text).map_err(|_| Error::internal("a document is not JSON"))?;
            match places.get(&text) {
                Some(place) => members_of_all[start + place] = Some(member),
                None => {
                    places.insert(text.clone(), keys.len() - start);
                    keys.push(text);
                    members_of_all.push(Some(member));
                }
            }
        }
        let end = i32::try_from(keys.len());
        offsets.push(end.map_err(|_| Error::new(ErrorKind::ResultTooLarge, "objects of JSON have too many members"))?);
    }
    let keys: ArrayRef = Arc::new(StringViewArray::from_iter_values(keys));
    let columns = vec![cast(&keys, key, or_null)?, transform(&members_of_all, value, or_null)?];
    let DataType::List(item) = kind else { return Err(Error::internal("a map is a list")) };
    let DataType::Struct(fields) = item.data_type() else { return Err(Error::internal("an entry is a struct")) };
    let entries = StructArray::try_new(fields.clone(), columns, None).map_err(arrow_failed)?;
    let offsets = OffsetBuffer::new(offsets.into());
    let list = ListArray::try_new(FieldRef::clone(item), offsets, Arc::new(entries), Some(valid));
    Ok(Arc::new(list.map_err(arrow_failed)?))
}

/// Returns which values are of the kind `wanted`. Other values than `null` are errors, unless they become NULL.
fn valid_rows(values: &[Option<&str>], wanted: JsonKind, kind: &DataType, or_null: bool) -> Result<NullBuffer> {
    let mut valid = Vec::with_capacity(values.len());
    for value in values {
        let found = value.map_or(JsonKind::Null, JsonKind::of);
        if found != wanted && found != JsonKind::Null && !or_null {
            let shown: String = value.unwrap_or_default().chars().take(100).collect();
            let what = if wanted == JsonKind::Array { "array" } else { "object" };
            let message = format!("'{shown}' is not a value of type {}: it is no JSON {what}", type_name(kind));
            return Err(Error::new(ErrorKind::InvalidText, message));
        }
        valid.push(found == wanted);
    }
    Ok(NullBuffer::from(valid))
}

#[cfg(test)]
mod tests {
    use arrow::array::{Array, AsArray};
    use arrow::datatypes::Field;

    use super::*;
    use crate::text::format;

    #[test]
    fn members_become_fields_and_items_become_lists() {
        let ints = DataType::List(Arc::new(Field::new("item", DataType::Int32, true)));
        let fields = vec![Field::new("a", ints, true), Field::new("b", DataType::Utf8View, true)];
        let kind = DataType::Struct(fields.into());
        let values = [Some(r#"{"b": "x", "a": [1, null], "c": 1}"#), None, Some("null"), Some(r#"{"b": {}}"#)];
        let made = transform(&values, &kind, false).unwrap();
        let shown: Vec<Option<String>> = (0..4).map(|row| format(&made, row)).collect();
        let expected = [Some(r#"{"a": [1, null], "b": "x"}"#), None, None, Some(r#"{"a": null, "b": "{}"}"#)];
        assert_eq!(shown, expected.map(|text| text.map(str::to_owned)));
        assert_eq!(made.as_struct().column(0).as_list::<i32>().len(), 4);
    }

    #[test]
    fn values_of_other_types_fail_or_are_null() {
        for (value, kind) in
            [("[1]", DataType::Int32), ("\"x\"", DataType::Int32), ("1", DataType::Struct(Fields::empty()))]
        {
            if !kind.is_nested() {
                assert_eq!(transform(&[Some(value)], &kind, true).unwrap().null_count(), 1);
            }
            assert_eq!(transform(&[Some(value)], &kind, false).unwrap_err().kind(), ErrorKind::InvalidText);
        }
    }
}
