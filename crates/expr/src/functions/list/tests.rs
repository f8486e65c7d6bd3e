//! Tests of the kernels of list functions.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Date32Array, Float64Array, Int64Array, IntervalMonthDayNanoArray, ListArray,
    StringViewArray, TimestampMicrosecondArray, new_null_array,
};
use arrow::datatypes::{DataType, Date32Type, Float64Type, Int64Type, IntervalMonthDayNano, TimestampMicrosecondType};
use rowmill_base::{ErrorKind, Result};
use rowmill_plan::function::{ArgumentKind, CallKinds};
use rowmill_plan::{Constant, Operand};

use super::maker::{item_kind, list_of, lists_of};
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

/// Calls a function with arguments that need no cast.
fn call(name: &str, arguments: &[Operand], rows: usize) -> Result<ArrayRef> {
    let kinds = kinds_of(name, arguments).unwrap_or_else(|| panic!("{name} does not take {arguments:?}"));
    for (given, asked) in arguments.iter().zip(&kinds.arguments) {
        assert_eq!(given.values.data_type(), asked, "{name}");
    }
    let made = (find(name).unwrap().kernel)(arguments, &kinds.result, rows)?;
    assert_eq!(made.data_type(), &kinds.result, "{name}");
    assert_eq!(made.len(), rows, "{name}");
    Ok(made)
}

type Row = Option<Vec<Option<i64>>>;

fn lists(values: Vec<Row>) -> Operand {
    Operand::rows(Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(values)))
}

fn list(values: &[i64]) -> Operand {
    let values: Row = Some(values.iter().copied().map(Some).collect());
    Operand::constant(lists(vec![values]).values)
}

fn number(value: i64) -> Operand {
    Operand::constant(Arc::new(Int64Array::from(vec![value])))
}

fn numbers(values: Vec<Option<i64>>) -> Operand {
    Operand::rows(Arc::new(Int64Array::from(values)))
}

fn null(kind: DataType) -> Operand {
    Operand::constant(new_null_array(&kind, 1))
}

fn text(value: &str) -> Operand {
    Operand::constant(Arc::new(StringViewArray::from(vec![value])))
}

fn read(array: &ArrayRef) -> Vec<Row> {
    let lists = array.as_list::<i32>();
    lists.iter().map(|list| list.map(|list| list.as_primitive::<Int64Type>().iter().collect())).collect()
}

fn read_numbers(array: &ArrayRef) -> Vec<Option<i64>> {
    array.as_primitive::<Int64Type>().iter().collect()
}

fn some(values: &[i64]) -> Row {
    Some(values.iter().copied().map(Some).collect())
}

/// Returns `[1, 2, 2, 3]`, `[]`, NULL, `[NULL, 5]`, as a slice that begins after the first row of its array.
fn sample() -> Operand {
    let all = lists(vec![some(&[9, 9]), some(&[1, 2, 2, 3]), some(&[]), None, Some(vec![None, Some(5)]), some(&[8])]);
    Operand::rows(all.values.slice(1, 4))
}

#[test]
fn lists_are_concatenated() {
    let made = call("list_concat", &[sample(), list(&[7])], 4).unwrap();
    assert_eq!(read(&made), [some(&[1, 2, 2, 3, 7]), some(&[7]), some(&[7]), Some(vec![None, Some(5), Some(7)])]);
    let made = call("list_concat", &[sample(), null(list_of(DataType::Int64))], 4).unwrap();
    assert_eq!(read(&made)[2], None);
    let made = call("list_append", &[sample(), numbers(vec![Some(1), None, Some(3), Some(4)])], 4).unwrap();
    assert_eq!(read(&made)[1..3], [Some(vec![None]), some(&[3])]);
    let made = call("list_prepend", &[number(0), sample()], 4).unwrap();
    assert_eq!(read(&made)[0], some(&[0, 1, 2, 2, 3]));
    let made = call("make_array", &[numbers(vec![Some(1), None]), number(7)], 2).unwrap();
    assert_eq!(read(&made), [some(&[1, 7]), Some(vec![None, Some(7)])]);
    let made = call("make_array", &[], 2).unwrap();
    assert_eq!((made.len(), made.data_type()), (2, &list_of(DataType::Null)));
    let null = DataType::Null;
    let kinds = (find("make_array").unwrap().signature)(&[
        ArgumentKind { kind: &null, constant: None },
        ArgumentKind { kind: &DataType::Date32, constant: None },
    ]);
    assert_eq!(kinds.unwrap().result, list_of(DataType::Date32));
}

#[test]
fn items_are_taken_by_position() {
    for (position, expected) in [(1, Some(1)), (-1, Some(3)), (4, Some(3)), (0, None), (5, None), (-5, None)] {
        let made = call("array_element", &[sample(), number(position)], 4).unwrap();
        assert_eq!(read_numbers(&made)[..3], [expected, None, None], "{position}");
    }
    let made = call("array_element", &[sample(), null(DataType::Int64)], 4).unwrap();
    assert_eq!(made.null_count(), 4);
    let made = call("array_element", &[list(&[10, 20]), numbers(vec![Some(2), Some(i64::MIN), None])], 3).unwrap();
    assert_eq!(read_numbers(&made), [Some(20), None, None]);
    assert_eq!(read_numbers(&call("array_any_value", &[sample()], 4).unwrap()), [Some(1), None, None, Some(5)]);
}

#[test]
fn slices_take_ranges_and_strides() {
    for (begin, end, stride, expected) in [
        (2, 3, 1, vec![2, 2]),
        (0, 2, 1, vec![1, 2]),
        (-2, -1, 1, vec![2, 3]),
        (-9, 9, 1, vec![1, 2, 2, 3]),
        (3, 2, 1, vec![]),
        (1, 0, 1, vec![]),
        (5, 9, 1, vec![]),
        (1, 4, 2, vec![1, 2]),
        (4, 1, -1, vec![3, 2, 2, 1]),
        (4, 1, i64::MIN, vec![3]),
        (i64::MIN, i64::MAX, i64::MAX, vec![1]),
    ] {
        let made = call("array_slice", &[sample(), number(begin), number(end), number(stride)], 4).unwrap();
        assert_eq!(read(&made)[..3], [some(&expected), some(&[]), None], "{begin}:{end}:{stride}");
    }
    let error = call("array_slice", &[sample(), number(1), number(2), number(0)], 4).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidParameter);
    let made = call("array_slice", &[sample(), number(1), null(DataType::Int64)], 4).unwrap();
    assert_eq!(made.null_count(), 4);
}

#[test]
fn lists_are_cut_resized_and_reversed() {
    let one = |name: &str| read(&call(name, &[sample()], 4).unwrap());
    assert_eq!(one("array_pop_front"), [some(&[2, 2, 3]), some(&[]), None, some(&[5])]);
    assert_eq!(one("array_pop_back"), [some(&[1, 2, 2]), some(&[]), None, Some(vec![None])]);
    assert_eq!(one("array_reverse"), [some(&[3, 2, 2, 1]), some(&[]), None, Some(vec![Some(5), None])]);
    assert_eq!(one("array_compact"), [some(&[1, 2, 2, 3]), some(&[]), None, some(&[5])]);
    let made = call("array_resize", &[sample(), number(3), number(7)], 4).unwrap();
    assert_eq!(read(&made), [some(&[1, 2, 2]), some(&[7, 7, 7]), None, Some(vec![None, Some(5), Some(7)])]);
    let made = call("array_resize", &[sample(), number(1)], 4).unwrap();
    assert_eq!(read(&made)[1], Some(vec![None]));
    assert!(call("array_resize", &[sample(), number(-1)], 4).is_err());
    let made = call("array_repeat", &[null(DataType::Int64), numbers(vec![Some(2), Some(-1), None])], 3).unwrap();
    assert_eq!(read(&made), [Some(vec![None, None]), some(&[]), None]);
    for (name, arguments) in [
        ("array_repeat", [number(1), number(9_000_000_000_000_000_000)]),
        ("array_resize", [list(&[1]), number(i64::MAX)]),
        ("range", [number(i64::MIN), number(i64::MAX)]),
    ] {
        assert_eq!(call(name, &arguments, 1).unwrap_err().kind(), ErrorKind::ResultTooLarge, "{name}");
    }
}

fn nested() -> Operand {
    let kind = list_of(list_of(DataType::Int64));
    // [[1, 2, 2, 3], []], [NULL], [[NULL, 5]], NULL
    let made = lists_of(&kind, vec![0, 2, 3, 4, 4], sample().values, Some(vec![true, true, true, false].into()));
    Operand::rows(made.unwrap())
}

#[test]
fn nested_lists_are_measured_searched_and_flattened() {
    assert_eq!(
        read(&call("flatten", &[nested()], 4).unwrap()),
        [some(&[1, 2, 2, 3]), some(&[]), Some(vec![None, Some(5)]), None]
    );
    assert_eq!(read(&call("flatten", &[sample()], 4).unwrap())[0], some(&[1, 2, 2, 3]));
    assert_eq!(read_numbers(&call("cardinality", &[nested()], 4).unwrap()), [Some(4), Some(0), Some(2), None]);
    assert_eq!(read_numbers(&call("array_ndims", &[nested()], 4).unwrap()), [Some(2), Some(2), Some(2), None]);
    assert_eq!(read(&call("array_dims", &[nested()], 4).unwrap()), [some(&[2, 4]), some(&[1]), some(&[1, 2]), None]);
    let lengths = call("array_length", &[nested(), number(2)], 4).unwrap();
    assert_eq!(read_numbers(&lengths), [Some(4), None, Some(2), None]);
    let empty = call("empty", &[sample()], 4).unwrap();
    assert_eq!(empty.as_boolean().iter().collect::<Vec<_>>(), [Some(false), Some(true), None, Some(false)]);
    let found = call("array_has", &[nested(), list(&[1, 2, 2, 3])], 4).unwrap();
    assert_eq!(found.as_boolean().iter().collect::<Vec<_>>(), [Some(true), Some(false), Some(false), None]);
    let distinct = call("array_distinct", &[nested()], 4).unwrap();
    assert_eq!(distinct.as_list::<i32>().value(0).len(), 2);
    let element = call("array_element", &[nested(), number(1)], 4).unwrap();
    assert_eq!(read(&element), [some(&[1, 2, 2, 3]), None, Some(vec![None, Some(5)]), None]);
}

#[test]
fn searches_find_values_and_nulls() {
    let booleans = |array: ArrayRef| array.as_boolean().iter().collect::<Vec<_>>();
    assert_eq!(
        booleans(call("array_has", &[sample(), number(2)], 4).unwrap()),
        [Some(true), Some(false), None, Some(false)]
    );
    assert_eq!(booleans(call("array_has", &[sample(), null(DataType::Int64)], 4).unwrap()), [None; 4]);
    assert_eq!(
        booleans(call("array_has_all", &[sample(), list(&[3, 1])], 4).unwrap()),
        [Some(true), Some(false), None, Some(false)]
    );
    assert_eq!(
        booleans(call("array_has_any", &[sample(), list(&[5, 3])], 4).unwrap()),
        [Some(true), Some(false), None, Some(true)]
    );
    let many: Vec<i64> = (0..100).collect();
    assert_eq!(booleans(call("array_has_all", &[list(&many), list(&many[50..])], 1).unwrap()), [Some(true)]);
    assert_eq!(booleans(call("array_has_all", &[list(&many[50..]), list(&many)], 1).unwrap()), [Some(false)]);
    assert_eq!(read_numbers(&call("array_position", &[sample(), number(2)], 4).unwrap()), [Some(2), None, None, None]);
    let made = call("array_position", &[sample(), number(2), number(3)], 4).unwrap();
    assert_eq!(read_numbers(&made)[0], Some(3));
    let made = call("array_position", &[sample(), null(DataType::Int64)], 4).unwrap();
    assert_eq!(read_numbers(&made), [None, None, None, Some(1)]);
    let made = call("array_positions", &[sample(), number(2)], 4).unwrap();
    assert_eq!(read(&made), [some(&[2, 3]), some(&[]), None, some(&[])]);
}

#[test]
fn a_literal_integer_takes_the_type_of_the_items() {
    let items = list_of(DataType::Int16);
    let list = Operand::rows(new_null_array(&items, 1));
    let kinds = kinds_of("array_append", &[list.clone(), number(7)]).unwrap();
    assert_eq!((kinds.arguments[1].clone(), kinds.result), (DataType::Int16, items));
    let kinds = kinds_of("array_append", &[list.clone(), number(70_000)]).unwrap();
    assert_eq!(kinds.result, list_of(DataType::Int64));
    let kinds = kinds_of("array_replace", &[list, number(1), numbers(vec![])]).unwrap();
    assert_eq!(kinds.result, list_of(DataType::Int64));
}

#[test]
fn searches_find_texts() {
    let words = Operand::constant(call("string_to_array", &[text("mill,row"), text(",")], 1).unwrap());
    let sought: ArrayRef = Arc::new(StringViewArray::from(vec![Some("row"), Some("x"), None]));
    let made = call("array_position", &[words, Operand::rows(sought)], 3).unwrap();
    assert_eq!(read_numbers(&made), [Some(2), None, None]);
}

#[test]
fn items_are_removed_and_replaced() {
    let made = call("array_remove", &[list(&[1, 2, 1]), number(1)], 1).unwrap();
    assert_eq!(read(&made), [some(&[2])]);
    let made = call("array_remove", &[sample(), null(DataType::Int64)], 4).unwrap();
    assert_eq!(read(&made), [some(&[1, 2, 2, 3]), some(&[]), None, some(&[5])]);
    let made = call("array_remove_n", &[sample(), number(2), number(1)], 4).unwrap();
    assert_eq!(read(&made)[0], some(&[1, 2, 3]));
    let made = call("array_replace", &[sample(), number(2), number(7)], 4).unwrap();
    assert_eq!(read(&made)[0], some(&[1, 7, 7, 3]));
    let made = call("array_replace_n", &[sample(), number(2), null(DataType::Int64), number(1)], 4).unwrap();
    assert_eq!(read(&made)[0], Some(vec![Some(1), None, Some(2), Some(3)]));
}

#[test]
fn sets_are_combined_and_lists_sorted() {
    assert_eq!(read(&call("array_distinct", &[list(&[2, 1, 2, 3, 1])], 1).unwrap()), [some(&[2, 1, 3])]);
    let with = |name: &str| read(&call(name, &[sample(), list(&[5, 2, 7, 7])], 4).unwrap());
    assert_eq!(with("array_union")[..3], [some(&[1, 2, 3, 5, 7]), some(&[5, 2, 7]), None]);
    assert_eq!(with("array_intersect")[..3], [some(&[2]), some(&[]), None]);
    assert_eq!(with("array_except"), [some(&[1, 3]), some(&[]), None, Some(vec![None])]);
    let made = call("array_intersect", &[sample(), null(list_of(DataType::Int64))], 4).unwrap();
    assert_eq!(made.null_count(), 4);
    assert_eq!(read_numbers(&call("array_min", &[sample()], 4).unwrap()), [Some(1), None, None, Some(5)]);
    assert_eq!(read_numbers(&call("array_max", &[sample()], 4).unwrap()), [Some(3), None, None, Some(5)]);
    let floats = vec![Some(vec![Some(f64::NAN), Some(-0.0), None, Some(0.0), Some(f64::INFINITY)])];
    let floats = Operand::rows(Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(floats)) as ArrayRef);
    assert!(
        call("array_max", std::slice::from_ref(&floats), 1).unwrap().as_primitive::<Float64Type>().value(0).is_nan()
    );
    assert_eq!(call("array_distinct", std::slice::from_ref(&floats), 1).unwrap().as_list::<i32>().value(0).len(), 4);
    let made =
        call("array_position", &[floats, Operand::constant(Arc::new(Float64Array::from(vec![0.0])))], 1).unwrap();
    assert_eq!(read_numbers(&made), [Some(2)]);
    let mixed = lists(vec![Some(vec![Some(3), Some(1), None, Some(2)])]);
    for (options, expected) in [
        (vec![], [None, Some(1), Some(2), Some(3)]),
        (vec!["DESC"], [None, Some(3), Some(2), Some(1)]),
        (vec!["asc", "nulls  last"], [Some(1), Some(2), Some(3), None]),
        (vec!["desc", "NULLS LAST"], [Some(3), Some(2), Some(1), None]),
    ] {
        let mut arguments = vec![mixed.clone()];
        arguments.extend(options.iter().map(|option| text(option)));
        assert_eq!(read(&call("array_sort", &arguments, 1).unwrap()), [Some(expected.to_vec())]);
    }
    assert!(call("array_sort", &[mixed, text("up")], 1).is_err());
}

#[test]
fn lists_are_joined_and_texts_are_split() {
    let words = Operand::constant(call("string_to_array", &[text("a,,b"), text(",")], 1).unwrap());
    let joined = |arguments: &[Operand]| {
        let made = call("array_to_string", arguments, 1).unwrap();
        made.is_valid(0).then(|| made.as_string_view().value(0).to_owned())
    };
    assert_eq!(joined(&[words.clone(), text("-")]).unwrap(), "a--b");
    let with_null = Operand::constant(call("string_to_array", &[text("a,,b"), text(","), text("")], 1).unwrap());
    assert_eq!(joined(&[with_null.clone(), text("-")]).unwrap(), "a-b");
    assert_eq!(joined(&[with_null, text("-"), text("*")]).unwrap(), "a-*-b");
    assert_eq!(joined(&[words, null(DataType::Utf8View)]), None);
    let parts = |value: Operand, separator: Operand| {
        let made = call("string_to_array", &[value, separator], 1).unwrap();
        let list = made.is_valid(0).then(|| made.as_list::<i32>().value(0))?;
        Some(list.as_string_view().iter().map(|part| part.unwrap().to_owned()).collect::<Vec<_>>())
    };
    assert_eq!(parts(text("größe"), null(DataType::Utf8View)).unwrap(), ["g", "r", "ö", "ß", "e"]);
    assert_eq!(parts(text("abc"), text("")).unwrap(), ["abc"]);
    assert_eq!(parts(text(""), text(",")).unwrap(), Vec::<String>::new());
    assert_eq!(parts(null(DataType::Utf8View), text(",")), None);
    let kinds = kinds_of("array_to_string", &[nested(), text(",")]).unwrap();
    assert_eq!(kinds.arguments[0], list_of(list_of(DataType::Utf8View)));
}

#[test]
fn series_step_from_start_to_stop() {
    let of = |name: &str, arguments: &[i64]| {
        let arguments: Vec<Operand> = arguments.iter().copied().map(number).collect();
        read(&call(name, &arguments, 1).unwrap()).remove(0).unwrap().into_iter().flatten().collect::<Vec<_>>()
    };
    assert_eq!(of("range", &[3]), [0, 1, 2]);
    assert_eq!(of("range", &[2, 10, 3]), [2, 5, 8]);
    assert_eq!(of("range", &[5, 1, -2]), [5, 3]);
    assert_eq!(of("range", &[5, 1]), [0_i64; 0]);
    assert_eq!(of("range", &[1, 1]), [0_i64; 0]);
    assert_eq!(of("generate_series", &[5, 1, -2]), [5, 3, 1]);
    assert_eq!(of("generate_series", &[1, 1]), [1]);
    assert_eq!(of("generate_series", &[1, 0]), [0_i64; 0]);
    assert_eq!(of("generate_series", &[i64::MAX - 1, i64::MAX]), [i64::MAX - 1, i64::MAX]);
    assert!(call("range", &[number(1), number(2), number(0)], 1).is_err());
    let made = call("range", &[numbers(vec![Some(2), None])], 2).unwrap();
    assert_eq!(read(&made), [some(&[0, 1]), None]);

    let step = |months: i32, days: i32, nanos: i64| {
        let step = IntervalMonthDayNano::new(months, days, nanos);
        Operand::constant(Arc::new(IntervalMonthDayNanoArray::from(vec![step])) as ArrayRef)
    };
    let date = |day: i32| Operand::constant(Arc::new(Date32Array::from(vec![day])) as ArrayRef);
    let made = call("generate_series", &[date(0), date(90), step(1, 0, 0)], 1).unwrap();
    assert_eq!(made.as_list::<i32>().value(0).as_primitive::<Date32Type>().values(), &[0, 31, 59, 90]);
    let made = call("range", &[date(3), date(0), step(0, -1, 0)], 1).unwrap();
    assert_eq!(made.as_list::<i32>().value(0).as_primitive::<Date32Type>().values(), &[3, 2, 1]);
    for wrong in [step(0, 0, 1), step(0, 0, 0), step(1, -30, 0)] {
        let error = call("range", &[date(0), date(9), wrong], 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidParameter);
    }
    let stamp = |at: i64| Operand::constant(Arc::new(TimestampMicrosecondArray::from(vec![at])) as ArrayRef);
    let hour = 3_600_000_000;
    let made = call("generate_series", &[stamp(-hour), stamp(hour), step(0, 0, hour * 1_000)], 1).unwrap();
    assert_eq!(made.as_list::<i32>().value(0).as_primitive::<TimestampMicrosecondType>().values(), &[-hour, 0, hour]);
    let endless = call("range", &[stamp(0), stamp(i64::MAX), step(0, 0, 1_000)], 1).unwrap_err();
    assert_eq!(endless.kind(), ErrorKind::ResultTooLarge);
}

#[test]
fn vector_functions_ignore_or_propagate_null() {
    let vectors = |values: Vec<Option<Vec<Option<f64>>>>| {
        Operand::rows(Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(values)) as ArrayRef)
    };
    let some = |values: &[f64]| Some(values.iter().copied().map(Some).collect::<Vec<_>>());
    let sample = || vectors(vec![some(&[3.0, 4.0]), some(&[]), None, Some(vec![None, None]), some(&[0.0, 0.0])]);
    let one = |name: &str, arguments: &[Operand]| {
        call(name, arguments, 5).unwrap().as_primitive::<Float64Type>().iter().collect::<Vec<_>>()
    };
    assert_eq!(one("array_sum", &[sample()]), [Some(7.0), None, None, None, Some(0.0)]);
    assert_eq!(one("array_avg", &[sample()]), [Some(3.5), None, None, None, Some(0.0)]);
    assert_eq!(one("array_product", &[sample()]), [Some(12.0), None, None, None, Some(0.0)]);
    assert_eq!(one("inner_product", &[sample(), sample()]), [Some(25.0), Some(0.0), None, None, Some(0.0)]);
    assert_eq!(one("array_distance", &[sample(), sample()])[0], Some(0.0));
    assert_eq!(one("cosine_distance", &[sample(), sample()]), [Some(0.0), None, None, None, None]);
    let list_of_one = |array: &ArrayRef, row: usize| {
        let lists = array.as_list::<i32>();
        lists.is_valid(row).then(|| lists.value(row).as_primitive::<Float64Type>().iter().collect::<Vec<_>>())
    };
    let made = call("array_normalize", &[sample()], 5).unwrap();
    assert_eq!(list_of_one(&made, 0), Some(vec![Some(0.6), Some(0.8)]));
    assert_eq!([1, 2, 3, 4].map(|row| list_of_one(&made, row)), [Some(vec![]), None, None, None]);
    let made = call("array_add", &[sample(), sample()], 5).unwrap();
    assert_eq!(list_of_one(&made, 0), Some(vec![Some(6.0), Some(8.0)]));
    assert_eq!(list_of_one(&made, 3), Some(vec![None, None]));
    let factor = Operand::constant(Arc::new(Float64Array::from(vec![2.0])) as ArrayRef);
    let made = call("array_scale", &[sample(), factor], 5).unwrap();
    assert_eq!(list_of_one(&made, 0), Some(vec![Some(6.0), Some(8.0)]));
    let short = vectors(vec![some(&[1.0])]);
    let long = vectors(vec![some(&[1.0, 2.0])]);
    let error = call("array_subtract", &[short, long], 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidParameter);
}

#[test]
fn zip_fills_shorter_lists_with_null() {
    let made = call("arrays_zip", &[sample(), list(&[7, 8])], 4).unwrap();
    let lists = made.as_list::<i32>();
    assert_eq!((0..4).map(|row| lists.value_length(row)).collect::<Vec<_>>(), [4, 2, 2, 2]);
    let structs = lists.values().as_struct();
    assert_eq!(structs.column(0).as_primitive::<Int64Type>().iter().nth(4), Some(None));
    assert_eq!(item_kind(made.data_type()), Some(structs.data_type().clone()));
}

#[test]
fn functions_of_lists_accept_no_rows() {
    let nothing = Operand::rows(sample().values.slice(0, 0));
    for name in ["array_distinct", "array_reverse", "array_min", "cardinality", "array_dims", "flatten", "empty"] {
        assert_eq!(call(name, std::slice::from_ref(&nothing), 0).unwrap().len(), 0, "{name}");
    }
}

#[test]
fn a_constant_list_gives_a_value_for_every_row() {
    let made = call("array_distinct", &[list(&[1, 1])], 3).unwrap();
    assert_eq!(read(&made), [some(&[1]), some(&[1]), some(&[1])]);
    assert_eq!(read_numbers(&call("array_length", &[list(&[1, 1])], 2).unwrap()), [Some(2), Some(2)]);
}
