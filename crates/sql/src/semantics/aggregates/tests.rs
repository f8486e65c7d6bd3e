#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array, Int32Array, Int64Array};
use arrow::datatypes::{DataType, Decimal128Type, Float64Type, Int32Type, Int64Type};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};

use super::distinct::Distinct;
use super::groups::Groups;
use super::single::{Moving, Single};
use super::total::Finish;

fn column<const N: usize>(values: [Option<i32>; N]) -> Vec<ArrayRef> {
    vec![Arc::new(Int32Array::from(values.to_vec()))]
}

#[test]
fn groups_add_up_in_parts_and_merge() {
    for finish in [Finish::Sum, Finish::Average] {
        let mut first = Groups::<Int32Type>::new(finish, DataType::Int32);
        let mut second = Groups::<Int32Type>::new(finish, DataType::Int32);
        first.update_batch(&column([Some(1), Some(2), None, Some(5)]), &[0, 1, 2, 0], None, 3).unwrap();
        let filter = BooleanArray::from(vec![Some(true), Some(false), None]);
        first.update_batch(&column([Some(10), Some(20), Some(30)]), &[1, 2, 2], Some(&filter), 3).unwrap();
        let state = first.state(EmitTo::All).unwrap();
        second.update_batch(&column([Some(100)]), &[0], None, 1).unwrap();
        second.merge_batch(&state, &[0, 1, 2], 3).unwrap();
        let found = second.evaluate(EmitTo::All).unwrap();
        match finish {
            Finish::Sum => {
                let found: Vec<_> = found.as_primitive::<Int64Type>().iter().collect();
                assert_eq!(found, [Some(106), Some(12), None]);
            }
            Finish::Average => {
                let found: Vec<_> = found.as_primitive::<Float64Type>().iter().collect();
                assert_eq!(found, [Some(106.0 / 3.0), Some(6.0), None]);
            }
        }
    }
}

#[test]
fn groups_leave_in_order_and_the_rest_stays() {
    let mut groups = Groups::<Int32Type>::new(Finish::Sum, DataType::Int32);
    groups.update_batch(&column([Some(1), None, Some(3)]), &[0, 1, 2], None, 3).unwrap();
    let first = groups.evaluate(EmitTo::First(2)).unwrap();
    assert_eq!(first.as_primitive::<Int64Type>().iter().collect::<Vec<_>>(), [Some(1), None]);
    groups.update_batch(&column([Some(4)]), &[1], None, 2).unwrap();
    let rest = groups.evaluate(EmitTo::All).unwrap();
    assert_eq!(rest.as_primitive::<Int64Type>().iter().collect::<Vec<_>>(), [Some(3), Some(4)]);
}

#[test]
fn rows_become_states_one_by_one() {
    let groups = Groups::<Int64Type>::new(Finish::Average, DataType::Int64);
    let values: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(vec![Some(7), None, Some(9)]))];
    let filter = BooleanArray::from(vec![true, true, false]);
    let state = groups.convert_to_state(&values, Some(&filter)).unwrap();
    let mut merged = Groups::<Int64Type>::new(Finish::Average, DataType::Int64);
    merged.merge_batch(&state, &[0, 1, 2], 3).unwrap();
    let found = merged.evaluate(EmitTo::All).unwrap();
    assert_eq!(found.as_primitive::<Float64Type>().iter().collect::<Vec<_>>(), [Some(7.0), None, None]);
}

#[test]
fn totals_of_bigints_do_not_wrap() {
    let mut single = Single::<Int64Type>::new(Finish::Sum, DataType::Int64);
    let values: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(vec![i64::MAX; 4]))];
    single.update_batch(&values).unwrap();
    assert_eq!(single.evaluate().unwrap(), ScalarValue::Decimal128(Some(4 * i128::from(i64::MAX)), 38, 0));
    let mut decimals = Single::<Decimal128Type>::new(Finish::Sum, DataType::Decimal128(38, 2));
    let large = ScalarValue::Decimal128(Some(10_i128.pow(38) - 1), 38, 2).to_array_of_size(2).unwrap();
    let added = decimals.update_batch(&[large]);
    assert!(added.is_err() || decimals.evaluate().is_err());
}

#[test]
fn a_moving_window_of_floats_loses_nothing() {
    let column = |values: &[f64]| -> Vec<ArrayRef> { vec![Arc::new(Float64Array::from(values.to_vec()))] };
    let mut window = Moving::<Float64Type>::new(Finish::Sum, DataType::Float64);
    window.update_batch(&column(&[1e20, 1.0])).unwrap();
    window.update_batch(&column(&[2.0, f64::INFINITY])).unwrap();
    window.retract_batch(&column(&[1e20])).unwrap();
    assert_eq!(window.evaluate().unwrap(), ScalarValue::Float64(Some(f64::INFINITY)));
    window.update_batch(&column(&[5.0])).unwrap();
    window.retract_batch(&column(&[1.0, 2.0, f64::INFINITY])).unwrap();
    assert_eq!(window.evaluate().unwrap(), ScalarValue::Float64(Some(5.0)));
    window.retract_batch(&column(&[5.0])).unwrap();
    assert_eq!(window.evaluate().unwrap(), ScalarValue::Float64(None));
}

#[test]
fn distinct_values_count_once_and_merge() {
    let mut first = Distinct::<Int32Type>::new(Finish::Average, DataType::Int32);
    first.update_batch(&column([Some(1), Some(1), None, Some(4)])).unwrap();
    let state: Vec<ArrayRef> = first.state().unwrap().iter().map(|value| value.to_array().unwrap()).collect();
    let mut second = Distinct::<Int32Type>::new(Finish::Average, DataType::Int32);
    second.update_batch(&column([Some(4), Some(7)])).unwrap();
    second.merge_batch(&state).unwrap();
    assert_eq!(second.evaluate().unwrap(), ScalarValue::Float64(Some(4.0)));
    let zeros: Vec<ArrayRef> = vec![Arc::new(Float64Array::from(vec![0.0, -0.0, f64::NAN, -f64::NAN]))];
    let mut floats = Distinct::<Float64Type>::new(Finish::Sum, DataType::Float64);
    floats.update_batch(&zeros).unwrap();
    floats.retract_batch(&[zeros[0].slice(2, 2)]).unwrap();
    assert_eq!(floats.evaluate().unwrap(), ScalarValue::Float64(Some(0.0)));
    assert_eq!(zeros[0].len(), 4);
}
