//! Keys of every type compared with values of every other type: a search by key must find the same rows as a full
//! comparison.

use rowmill_base::{ColumnId, ErrorKind, Settings, SqlType, TimeUnit};
use rowmill_plan::CompareOp;
use rowmill_plan::program::{Access, Body, Bound, Output, Program, Read, Rows, Scalar, Value};
use rowmill_program::{Compiled, ResultRows, Scratch};
use rowmill_storage::keyed::ValueRef;
use rowmill_txn::{ColumnSpec, Engine, IndexSpec, KeyColumn, MAIN_SCHEMA};

use crate::support::shown;

fn decimal(precision: u8, scale: u8) -> SqlType {
    SqlType::Decimal { precision, scale }
}

fn moment(unit: TimeUnit) -> SqlType {
    SqlType::Timestamp { unit, zoned: false }
}

/// All types, each with some of its values, including the least and the greatest.
fn types() -> Vec<(SqlType, Vec<Value>)> {
    let ints = |values: &[i64]| values.iter().map(|value| Value::Int(*value)).collect::<Vec<_>>();
    let decimals = |values: &[i128]| values.iter().map(|value| Value::Decimal(*value)).collect::<Vec<_>>();
    let floats = |values: &[f64]| values.iter().map(|value| Value::Float(*value)).collect::<Vec<_>>();
    let uints = |values: &[u64]| values.iter().map(|value| Value::UInt(*value)).collect::<Vec<_>>();
    let most = 10_i128.pow(38) - 1;
    let (big, half) = (f64::from(i32::MAX), 0.5);
    vec![
        (SqlType::Int8, ints(&[-128, -1, 0, 1, 2, 127])),
        (SqlType::Int32, ints(&[i32::MIN.into(), -128, 0, 2, i32::MAX.into()])),
        (SqlType::Int64, ints(&[i64::MIN, -129, -1, 0, 1, 127, 128, i64::MAX])),
        (SqlType::UInt8, uints(&[0, 1, 127, 255])),
        (SqlType::UInt64, uints(&[0, 1, 2, u64::MAX])),
        (decimal(3, 0), decimals(&[-999, -1, 0, 2, 127, 999])),
        (decimal(5, 2), decimals(&[-99_999, -100, -50, 0, 1, 100, 150, 200, 99_999])),
        (decimal(38, 10), decimals(&[-most, -1, 0, 10_i128.pow(10), 15 * 10_i128.pow(9), most])),
        (SqlType::Float32, floats(&[f64::NEG_INFINITY, -1.0, 0.0, half, 2.0, f64::INFINITY, f64::NAN])),
        (
            SqlType::Float64,
            floats(&[
                f64::NEG_INFINITY,
                -big - 1.5,
                -128.5,
                -1.0,
                0.0,
                half,
                1.5,
                127.5,
                big,
                big + half,
                f64::INFINITY,
                f64::NAN,
            ]),
        ),
        (SqlType::Boolean, vec![Value::Bool(false), Value::Bool(true)]),
        (SqlType::Date, ints(&[-1, 0, 19_000])),
        (moment(TimeUnit::Microsecond), ints(&[-1, 0, 86_400_000_000])),
        (SqlType::TEXT, ["", "1970-01-01", "2022-01-08"].map(|text| Value::Text(text.into())).to_vec()),
        (SqlType::Blob, vec![Value::Bytes(vec![]), Value::Bytes(vec![0, 1])]),
    ]
}

fn borrowed(value: &Value) -> ValueRef<'_> {
    match value {
        Value::Bool(value) => ValueRef::Bool(*value),
        Value::Int(value) => ValueRef::Int(*value),
        Value::UInt(value) => ValueRef::UInt(*value),
        Value::Float(value) => ValueRef::Float(*value),
        Value::Decimal(value) => ValueRef::Decimal(*value),
        Value::Text(value) => ValueRef::Text(value),
        Value::Bytes(value) => ValueRef::Bytes(value),
        Value::Null | Value::Interval(_) => ValueRef::Null,
    }
}

/// Compares all pairs. Returns how many of them were found by key, and how many were left to the general engine.
fn compare_all(column: &SqlType, values: &[Value]) -> (usize, usize) {
    let engine = Engine::memory(Settings::default()).expect("a database in memory");
    let mut transaction = engine.begin().expect("a transaction");
    let main = transaction.base().catalog().schema(MAIN_SCHEMA).expect("always there").id;
    let part = |column, descending| KeyColumn { column: ColumnId(column), descending };
    let columns = vec![ColumnSpec::new("k", column.clone()), ColumnSpec::new("v", column.clone())];
    let table = transaction.create_keyed_table(main, "t", columns, &[part(0, false)]).expect("a table");
    let spec = IndexSpec { name: "down".into(), parts: vec![part(1, true)], unique: false };
    let down = transaction.create_index(table, spec).expect("an index");
    for value in values {
        transaction.insert_row(table, &[borrowed(value), borrowed(value)]).expect("put");
    }
    let reader = transaction.reader();
    let (mut scratch, mut out) = (Scratch::default(), ResultRows::default());
    let mut run = |access: Access, filter: Option<Scalar>, kind: &SqlType, value: &Value| {
        let columns = vec![Scalar::column(column.clone(), 0, 0)];
        let read = Read::of_table(access, filter, Output::Rows(Rows::all(columns)));
        let program = Program { parameters: vec![kind.clone()], body: Body::Read(read) };
        let compiled = Compiled::new(&program, transaction.catalog())?;
        compiled.run_read(&reader, &[borrowed(value)], &mut scratch, &mut out)?;
        Ok::<_, rowmill_base::Error>(shown(&out))
    };
    let (mut by_key, mut left) = (0, 0);
    for (kind, others) in types() {
        for other in &others {
            let value = || Scalar::parameter(kind.clone(), 0);
            let bound = |inclusive| Some(Bound::new(value(), inclusive));
            for index in [None, Some(down)] {
                let all = Access { index, ..Access::all(table) };
                let accesses = [
                    (CompareOp::Equal, Access { equal: vec![value()], ..all.clone() }),
                    (CompareOp::Less, Access { to: bound(false), ..all.clone() }),
                    (CompareOp::LessOrEqual, Access { to: bound(true), ..all.clone() }),
                    (CompareOp::Greater, Access { from: bound(false), ..all.clone() }),
                    (CompareOp::GreaterOrEqual, Access { from: bound(true), ..all.clone() }),
                ];
                for (op, access) in accesses {
                    let condition = Scalar::compare(Scalar::column(column.clone(), 0, 0), op, value());
                    match run(access, None, &kind, other) {
                        Ok(found) => {
                            let expected = run(all.clone(), Some(condition), &kind, other).expect("rows");
                            assert_eq!(found, expected, "{column} {op} {other:?} of {kind}");
                            by_key += 1;
                        }
                        Err(error) if error.kind() == ErrorKind::Unsupported => left += 1,
                        // The text is not a date.
                        Err(error) => {
                            assert_eq!(error.kind(), ErrorKind::InvalidDatetime, "{column} {op} {other:?}: {error}");
                        }
                    }
                }
            }
        }
    }
    (by_key, left)
}

#[test]
fn a_key_finds_what_comparing_finds() {
    let (mut by_key, mut left) = (0, 0);
    for (column, values) in types() {
        let (more_by_key, more_left) = compare_all(&column, &values);
        by_key += more_by_key;
        left += more_left;
    }
    assert!(by_key > 3_000, "{by_key} by key, {left} left to the general engine");
}
