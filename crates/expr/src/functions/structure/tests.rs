//! Tests of the kernels for structs and maps.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, ListArray, NullArray, StringViewArray, StructArray};
use arrow::datatypes::{DataType, Field, Fields, Int64Type};
use rowmill_base::{ErrorKind, Result};
use rowmill_plan::function::{ArgumentKind, CallKinds};
use rowmill_plan::{Constant, Operand};

use crate::functions::find;

fn kinds_of(name: &str, arguments: &[Operand]) -> Option<CallKinds> {
    let constants: Vec<Option<Constant>> =
        arguments.iter().map(|operand| operand.is_constant.then(|| Constant::new(operand.values.clone()))).collect();
    let kinds: Vec<ArgumentKind<'_>> = arguments
        .iter()
        .zip(&constants)
        .map(|(operand, constant)| ArgumentKind { kind: operand.values.data_type(), constant: constant.as_ref() })
        .collect();
    (find(name).unwrap_or_else(|| panic!("no function {name}")).signature)(&kinds)
}

fn call(name: &str, arguments: &[Operand], rows: usize) -> Result<ArrayRef> {
    let kinds = kinds_of(name, arguments).unwrap_or_else(|| panic!("{name} does not take {arguments:?}"));
    let made = (find(name).unwrap().kernel)(arguments, &kinds.result, rows)?;
    assert_eq!((made.data_type(), made.len()), (&kinds.result, rows), "{name}");
    Ok(made)
}

fn text(value: &str) -> Operand {
    Operand::constant(Arc::new(StringViewArray::from(vec![value])))
}

fn numbers(values: Vec<Option<i64>>) -> Operand {
    Operand::rows(Arc::new(Int64Array::from(values)))
}

fn list(values: Vec<Option<i64>>) -> Operand {
    Operand::constant(Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(vec![Some(values)])))
}

#[test]
fn structs_and_their_fields() {
    let made = call("named_struct", &[text("a"), numbers(vec![Some(1), None]), text("B"), text("x")], 2).unwrap();
    let structs = Operand::rows(made);
    let a = call("get_field", &[structs.clone(), text("a")], 2).unwrap();
    assert_eq!(a.as_primitive::<Int64Type>().iter().collect::<Vec<_>>(), [Some(1), None]);
    let b = call("get_field", &[structs.clone(), text("b")], 2).unwrap();
    assert_eq!(b.as_string_view().value(1), "x");
    assert!(kinds_of("get_field", &[structs.clone(), text("c")]).is_none());
    assert!(kinds_of("named_struct", &[text("a")]).is_none());
    assert!(kinds_of("named_struct", &[text("a"), text("x"), text("A"), text("y")]).is_none());
    let outer = call("struct", &[structs, text("y")], 2).unwrap();
    let inner = call("get_field", &[Operand::rows(outer), text("c0"), text("a")], 2).unwrap();
    assert_eq!(inner.as_primitive::<Int64Type>().value(0), 1);
}

#[test]
fn a_field_of_null_is_null() {
    let fields: Fields = vec![Field::new("a", DataType::Int64, true)].into();
    let column: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
    let structs = StructArray::new(fields, vec![column], Some(vec![true, false, true].into()));
    let structs: ArrayRef = Arc::new(structs);
    let made = call("get_field", &[Operand::rows(structs.slice(1, 2)), text("a")], 2).unwrap();
    assert_eq!(made.as_primitive::<Int64Type>().iter().collect::<Vec<_>>(), [None, Some(3)]);
}

#[test]
fn a_text_of_null_is_null() {
    let fields: Fields = vec![Field::new("a", DataType::Utf8View, true), Field::new("n", DataType::Null, true)].into();
    let columns: Vec<ArrayRef> = vec![Arc::new(StringViewArray::from(vec!["x", "y"])), Arc::new(NullArray::new(2))];
    let structs: ArrayRef = Arc::new(StructArray::new(fields, columns, Some(vec![false, true].into())));
    let made = call("get_field", &[Operand::rows(structs.clone()), text("a")], 2).unwrap();
    assert_eq!(made.as_string_view().iter().collect::<Vec<_>>(), [None, Some("y")]);
    assert_eq!(call("get_field", &[Operand::rows(structs.clone()), text("n")], 2).unwrap().logical_null_count(), 2);
    assert_eq!(call("get_field", &[Operand::rows(structs.slice(0, 0)), text("a")], 0).unwrap().len(), 0);
}

#[test]
fn maps_are_made_and_searched() {
    let some = |values: &[i64]| list(values.iter().copied().map(Some).collect());
    let map = call("map", &[some(&[10, 20]), list(vec![Some(1), None])], 2).unwrap();
    let map = Operand::rows(map);
    let keys = call("map_keys", std::slice::from_ref(&map), 2).unwrap();
    assert_eq!(keys.as_list::<i32>().value(1).as_primitive::<Int64Type>().values(), &[10, 20]);
    let values = call("map_values", std::slice::from_ref(&map), 2).unwrap();
    assert_eq!(
        values.as_list::<i32>().value(0).as_primitive::<Int64Type>().iter().collect::<Vec<_>>(),
        [Some(1), None]
    );
    let found = call("map_extract", &[map.clone(), numbers(vec![Some(10), Some(7)])], 2).unwrap();
    assert_eq!((found.as_list::<i32>().value_length(0), found.as_list::<i32>().value_length(1)), (1, 0));
    let entries = call("map_entries", std::slice::from_ref(&map), 2).unwrap();
    assert_eq!(entries.as_list::<i32>().value(0).as_struct().column_names(), ["key", "value"]);
    for (keys, values) in [(some(&[1, 1]), some(&[1, 2])), (some(&[1]), some(&[1, 2])), (list(vec![None]), some(&[1]))]
    {
        assert_eq!(call("map", &[keys, values], 1).unwrap_err().kind(), ErrorKind::InvalidParameter);
    }
}
