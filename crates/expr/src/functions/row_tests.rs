//! Compares what functions give for one row without arrays with what their kernels give.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, IntervalMonthDayNanoArray, StringViewArray, make_array};
use arrow::buffer::Buffer;
use arrow::datatypes::{
    DataType, Date32Type, Float64Type, Int32Type, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType,
    IntervalUnit, TimeUnit,
};
use rowmill_plan::function::{ArgumentKind, RowValue};
use rowmill_plan::{Constant, FunctionSpec, Operand};

use super::all;
use super::time::columns::instant_kind;

const FIELDS: [&str; 24] = [
    "year",
    "quarter",
    "month",
    "week",
    "day",
    "hour",
    "minute",
    "second",
    "ms",
    "us",
    "ns",
    "dow",
    "isodow",
    "doy",
    "decade",
    "century",
    "millennium",
    "isoyear",
    "epoch",
    "julian",
    "era",
    "yearweek",
    "timezone",
    "none",
];

/// Values of the types that functions for rows take.
fn values_of(kind: &DataType) -> Vec<ArrayRef> {
    let day = 86_400_i64;
    let integers = [0, 1, -1, 59, 60, 3_661, day, -day, 400 * day, 1_700_000_000, -62_135_596_801, i64::MAX, i64::MIN];
    match kind {
        DataType::Utf8View => {
            FIELDS.iter().map(|field| Arc::new(StringViewArray::from_iter_values([field])) as ArrayRef).collect()
        }
        DataType::Float64 => {
            let floats = [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 1e300, f64::NAN, f64::INFINITY];
            floats.iter().map(|value| Arc::new(Float64Array::from(vec![*value])) as ArrayRef).collect()
        }
        DataType::Interval(_) => {
            let parts =
                [(0, 0, 0), (1, 0, 0), (-13, 2, -5), (0, 30, 86_400_000_000_000), (i32::MAX, i32::MIN, i64::MAX)];
            let interval = |(months, days, nanos): &(i32, i32, i64)| IntervalMonthDayNano::new(*months, *days, *nanos);
            let array = |parts| Arc::new(IntervalMonthDayNanoArray::from(vec![interval(parts)])) as ArrayRef;
            parts.iter().map(array).collect()
        }
        DataType::Date32 => {
            let days = [0, 1, -1, 59, 15_000, -719_529, i32::MAX, i32::MIN];
            days.iter().map(|day| Arc::new(arrow::array::Date32Array::from(vec![*day])) as ArrayRef).collect()
        }
        kind => {
            let array = |value: &i64| {
                let data = arrow::array::ArrayData::builder(kind.clone()).len(1);
                make_array(data.add_buffer(Buffer::from_slice_ref([*value])).build().expect("one value"))
            };
            integers.iter().map(array).collect()
        }
    }
}

fn row_value(array: &ArrayRef) -> Option<RowValue<'_>> {
    Some(match array.data_type() {
        _ if array.is_null(0) => return None,
        DataType::Utf8View => RowValue::Text(array.as_string_view().value(0)),
        DataType::Float64 => RowValue::Float(array.as_primitive::<Float64Type>().value(0)),
        DataType::Interval(_) => RowValue::Interval(array.as_primitive::<IntervalMonthDayNanoType>().value(0)),
        DataType::Date32 => RowValue::Int(array.as_primitive::<Date32Type>().value(0).into()),
        DataType::Int32 => RowValue::Int(array.as_primitive::<Int32Type>().value(0).into()),
        DataType::Int64 => RowValue::Int(array.as_primitive::<Int64Type>().value(0)),
        _ => {
            RowValue::Int(i64::from_ne_bytes(array.to_data().buffers()[0].as_slice()[..8].try_into().expect("8 bytes")))
        }
    })
}

/// Compares all calls of a function with arguments of these types. Returns how many calls had a value for a row.
fn compare(function: &FunctionSpec, kinds: &[DataType]) -> usize {
    let row = function.row.expect("the function has a kernel for rows");
    let mut calls: Vec<Vec<ArrayRef>> = vec![Vec::new()];
    for kind in kinds {
        let values = values_of(kind);
        let with = |call: &Vec<ArrayRef>| {
            values.iter().map(|value| [call.clone(), vec![Arc::clone(value)]].concat()).collect::<Vec<_>>()
        };
        calls = calls.iter().flat_map(with).collect();
    }
    let mut compared = 0;
    for arguments in calls {
        let constants: Vec<Constant> = arguments.iter().map(|value| Constant::new(Arc::clone(value))).collect();
        let given: Vec<ArgumentKind<'_>> =
            constants.iter().map(|value| ArgumentKind { kind: value.kind(), constant: Some(value) }).collect();
        let Some(call) = (function.signature)(&given).filter(|call| call.arguments == kinds) else { continue };
        // A text is the name of a field, which must be constant.
        let operand = |value: &ArrayRef| match value.data_type() {
            DataType::Utf8View => Operand::constant(Arc::clone(value)),
            _ => Operand::rows(Arc::clone(value)),
        };
        let operands: Vec<Operand> = arguments.iter().map(operand).collect();
        let values: Vec<RowValue<'_>> = arguments.iter().map(|value| row_value(value).expect("no NULL")).collect();
        let Some(of_row) = row(&values, kinds, &call.result) else { continue };
        let array = (function.kernel)(&operands, &call.result, 1);
        let array = array.unwrap_or_else(|error| panic!("{}({arguments:?}): {error}, not {of_row:?}", function.name));
        assert_eq!(array.data_type(), &call.result);
        let is_same = match (of_row, row_value(&array)) {
            (RowValue::Float(left), Some(RowValue::Float(right))) => left.to_bits() == right.to_bits(),
            (left, right) => Some(left) == right,
        };
        assert!(is_same, "{}({arguments:?}): {of_row:?}, not {array:?}", function.name);
        compared += 1;
    }
    compared
}

#[test]
fn a_row_has_the_value_that_it_has_in_an_array() {
    let stamps = [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond];
    let mut kinds: Vec<DataType> = stamps.into_iter().map(|unit| DataType::Timestamp(unit, None)).collect();
    let interval = DataType::Interval(IntervalUnit::MonthDayNano);
    kinds.push(instant_kind(TimeUnit::Microsecond));
    kinds.extend([
        DataType::Utf8View,
        DataType::Date32,
        DataType::Time64(TimeUnit::Microsecond),
        interval,
        DataType::Float64,
    ]);
    let mut functions = 0;
    for function in all().filter(|function| function.row.is_some()) {
        assert!(function.strict, "{}", function.name);
        let one = kinds.iter().map(|kind| compare(function, std::slice::from_ref(kind))).sum::<usize>();
        let pairs = kinds.iter().flat_map(|left| kinds.iter().map(move |right| [left.clone(), right.clone()]));
        let compared = one + pairs.map(|pair| compare(function, &pair)).sum::<usize>();
        assert!(compared > 0, "no call of {} was compared", function.name);
        functions += 1;
    }
    assert!(functions > 10);
}
