//! Ordered joins that return aggregates.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Field, Int32Type};
use arrow::util::display::array_value_to_string;
use rowmill_base::{ErrorKind, Result};
use rowmill_plan::{Aggregate, AggregateOrder, Expr, OrderedChoice, OrderedResult};
use rowmill_storage::spill::TempSpace;

use super::case::{OrderedCase, RightRow, Run, column, text};
use crate::aggregate::named;
use crate::testing::seeds;

/// An aggregate, and its value by definition as text.
struct AggregateCase {
    aggregate: Aggregate,
    value: fn(&[&RightRow]) -> String,
    /// Whether the value depends on the order of the rows.
    needs_order: bool,
}

const NULL: &str = "NULL";

fn values(rows: &[&RightRow]) -> Vec<i64> {
    rows.iter().filter_map(|row| row.value).collect()
}

fn or_null<T: ToString>(value: Option<T>) -> String {
    value.map_or(NULL.to_owned(), |value| value.to_string())
}

fn list(items: impl Iterator<Item = Option<i64>>) -> String {
    let items: Vec<String> = items.map(or_null).collect();
    if items.is_empty() { NULL.to_owned() } else { format!("[{}]", items.join(", ")) }
}

fn float(value: Option<f64>) -> String {
    or_null(value.map(|value| format!("{value:.9}")))
}

/// Every way in which an aggregate of frames is computed.
fn calls(case: &OrderedCase) -> Vec<AggregateCase> {
    let width = case.keys.len();
    let expr = |column: usize| Expr::Column(width + column);
    let call = |name: &str, argument: Option<(usize, DataType)>, kind: DataType, value| {
        let argument = argument.map(|(column, kind)| (expr(column), kind));
        AggregateCase { aggregate: Aggregate::new(named(name), argument, kind), value, needs_order: false }
    };
    let (int, decimal, double) = (DataType::Int64, DataType::Decimal128(38, 0), DataType::Float64);
    let value = Some((column::VALUE, int.clone()));
    let of_text = Some((column::TEXT, DataType::Utf8View));
    let of_float = Some((column::FLOAT, double.clone()));
    let lists = DataType::List(Arc::new(Field::new("item", int.clone(), true)));
    let mut calls = vec![
        call("count", None, int.clone(), |rows| rows.len().to_string()),
        call("count", value.clone(), int.clone(), |rows| values(rows).len().to_string()),
        call("sum", value.clone(), decimal, |rows| {
            or_null(values(rows).into_iter().reduce(|left, right| left + right))
        }),
        call("avg", value.clone(), double.clone(), |rows| {
            let values = values(rows);
            float((!values.is_empty()).then(|| values.iter().sum::<i64>() as f64 / values.len() as f64))
        }),
        call("sum", of_float.clone(), double.clone(), |rows| {
            let values = values(rows);
            float((!values.is_empty()).then(|| values.iter().sum::<i64>() as f64 / 2.0))
        }),
        call("avg", of_float, double, |rows| {
            let values = values(rows);
            float((!values.is_empty()).then(|| values.iter().sum::<i64>() as f64 / 2.0 / values.len() as f64))
        }),
        call("min", value.clone(), int.clone(), |rows| or_null(values(rows).into_iter().min())),
        call("max", of_text.clone(), DataType::Utf8View, |rows| or_null(rows.iter().map(|row| text(row.id)).max())),
        call("bit_xor", value.clone(), int.clone(), |rows| {
            or_null(values(rows).into_iter().reduce(|left, right| left ^ right))
        }),
    ];
    let mut filtered = call("sum", value.clone(), DataType::Decimal128(38, 0), |rows| {
        let rows: Vec<&RightRow> = rows.iter().copied().filter(|row| row.flag == Some(true)).collect();
        or_null(values(&rows).into_iter().reduce(|left, right| left + right))
    });
    filtered.aggregate.filter = Some(expr(column::FLAG));
    calls.push(filtered);
    let mut distinct = call("count", value.clone(), int.clone(), |rows| {
        let mut values = values(rows);
        values.sort_unstable();
        values.dedup();
        values.len().to_string()
    });
    distinct.aggregate.distinct = true;
    calls.push(distinct);
    let mut ordered = call("array_agg", value.clone(), lists.clone(), |rows| {
        let mut rows = rows.to_vec();
        rows.sort_by_key(|row| std::cmp::Reverse(row.tie));
        list(rows.iter().map(|row| row.value))
    });
    let order = AggregateOrder { expr: expr(column::TIE), kind: DataType::UInt64, descending: true, nulls_first: true };
    ordered.aggregate.order = vec![order];
    calls.push(ordered);
    let of_order = [
        call("array_agg", value.clone(), lists, |rows| list(rows.iter().map(|row| row.value))),
        call("first_value", value.clone(), int.clone(), |rows| or_null(rows.first().and_then(|row| row.value))),
        call("last_value", of_text, DataType::Utf8View, |rows| or_null(rows.last().map(|row| text(row.id)))),
    ];
    calls.extend(of_order.into_iter().map(|call| AggregateCase { needs_order: true, ..call }));
    let mut skipping = call("last_value", value, int, |rows| or_null(rows.iter().rev().find_map(|row| row.value)));
    skipping.aggregate.skips_nulls = true;
    calls.push(AggregateCase { needs_order: true, ..skipping });
    calls.retain(|call| case.has_tie || !call.needs_order);
    calls
}

fn shown(values: &ArrayRef, row: usize) -> String {
    if values.is_null(row) {
        return NULL.to_owned();
    }
    match values.data_type() {
        DataType::List(_) => {
            let items = values.as_list::<i32>().value(row);
            format!("[{}]", (0..items.len()).map(|item| shown(&items, item)).collect::<Vec<_>>().join(", "))
        }
        DataType::Float64 => float(Some(values.as_primitive::<arrow::datatypes::Float64Type>().value(row))),
        _ => array_value_to_string(values, row).expect("a value with a text"),
    }
}

impl OrderedCase {
    /// A case whose choice allows aggregates.
    fn of_all(seed: u64, scale: usize) -> OrderedCase {
        let case = OrderedCase::random(seed, scale);
        let choice = [OrderedChoice::All, OrderedChoice::AllWithPrevailing][seed as usize % 2];
        // Without ties, any of several rows before the bound may prevail.
        let has_tie = case.has_tie || choice == OrderedChoice::AllWithPrevailing;
        OrderedCase { choice, has_tie, ..case }
    }

    /// The ids of the left rows with their aggregates, sorted.
    fn aggregated(&self, calls: &[AggregateCase], run: &Run<'_>) -> Result<Vec<(i32, Vec<String>)>> {
        let aggregates: Vec<Aggregate> = calls.iter().map(|call| call.aggregate.clone()).collect();
        let kinds = [DataType::Int32].into_iter().chain(aggregates.iter().map(|aggregate| aggregate.kind.clone()));
        let (kinds, output) = (kinds.collect(), vec![self.keys.len() + column::LEFT_ID]);
        let join = self.join(OrderedResult::Aggregates(aggregates), output, kinds, run)?;
        let mut rows = Vec::new();
        for batch in self.collect(join, run)? {
            let ids = batch.column(0).as_primitive::<Int32Type>();
            rows.extend(
                (0..batch.num_rows()).map(|row| {
                    (ids.value(row), batch.columns()[1..].iter().map(|column| shown(column, row)).collect())
                }),
            );
        }
        rows.sort();
        Ok(rows)
    }

    fn expected_aggregates(&self, calls: &[AggregateCase]) -> Vec<(i32, Vec<String>)> {
        let right = self.right.concat();
        let row = |left: &super::case::LeftRow| {
            let met = self.met(left, &right);
            (left.id, calls.iter().map(|call| (call.value)(&met)).collect())
        };
        let mut rows: Vec<_> = self.left.iter().flatten().map(row).collect();
        rows.sort();
        rows
    }
}

fn check(case: &OrderedCase, seed: u64) {
    let calls = calls(case);
    let expected = case.expected_aggregates(&calls);
    for spills in [false, true] {
        let temp = TempSpace::in_memory();
        let found = case.aggregated(&calls, &Run::new(&temp, spills)).expect("nothing fails");
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(found, expected, "seed {seed}, {spills}: {case:#?}");
        }
        assert_eq!(found.len(), expected.len(), "seed {seed}, {spills}");
    }
}

#[test]
fn aggregates_are_those_of_the_rows_that_meet() {
    for seed in seeds(600, 600) {
        check(&OrderedCase::of_all(seed, 1), seed);
    }
}

#[test]
fn aggregates_of_many_rows_are_those_of_the_rows_that_meet() {
    for seed in seeds(40, 40) {
        check(&OrderedCase::of_all(seed, 8), seed);
    }
}

#[test]
fn each_request_for_the_memory_of_aggregates_may_be_refused() {
    let mut refusals = 0;
    for seed in seeds(2, 8) {
        let case = OrderedCase::of_all(seed, 1);
        let calls = calls(&case);
        for request in 1.. {
            let temp = TempSpace::in_memory();
            let run = Run::new(&temp, seed % 2 == 0);
            run.broker.refuse_request(request);
            match case.aggregated(&calls, &run) {
                Ok(rows) => {
                    assert_eq!(rows, case.expected_aggregates(&calls), "seed {seed}");
                    if run.broker.refuse_request(0) > 0 {
                        break;
                    }
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::MemoryLimit, "seed {seed}: {error}");
                    refusals += 1;
                }
            }
        }
    }
    assert!(refusals > 50, "{refusals}");
}
