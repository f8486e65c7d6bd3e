//! Keys of every type compared with values of every other type: a search by key must find the same rows as a full
//! comparison.

use rowmill_base::{ColumnId, ErrorKind, NUMBERED_TYPES, NumberedType, Settings, SqlType, TimeUnit};
use rowmill_plan::CompareOp;
use rowmill_plan::program::{Access, AccessBound, Body, Program, ReadOutput, ReadPlan, RowOutput, Scalar, ScalarValue};
use rowmill_program::{Compiled, ProgramScratch, ResultRows};
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
fn types() -> Vec<(SqlType, Vec<ScalarValue>)> {
    let ints = |values: &[i64]| values.iter().map(|value| ScalarValue::Int(*value)).collect::<Vec<_>>();
    let decimals = |values: &[i128]| values.iter().map(|value| ScalarValue::Decimal(*value)).collect::<Vec<_>>();
    let floats = |values: &[f64]| values.iter().map(|value| ScalarValue::Float(*value)).collect::<Vec<_>>();
    let uints = |values: &[u64]| values.iter().map(|value| ScalarValue::UInt(*value)).collect::<Vec<_>>();
    let most = 10_i128.pow(38) - 1;
    let (big, half) = (f64::from(i32::MAX), 0.5);
    let numbered = NUMBERED_TYPES.iter().map(|kind| {
        if kind.is_wide() {
            let values = [[0; 32], [1; 32], [u8::MAX; 32]].map(|bytes| ScalarValue::Bytes(bytes.to_vec()));
            return (SqlType::Numbered(kind), values.to_vec());
        }
        let values = [0, 1, u128::MAX >> (128 - 8 * kind.bytes)].map(NumberedType::native);
        (SqlType::Numbered(kind), decimals(&values))
    });
    let mut types = vec![
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
        (SqlType::Boolean, vec![ScalarValue::Bool(false), ScalarValue::Bool(true)]),
        (SqlType::Date, ints(&[-1, 0, 19_000])),
        (moment(TimeUnit::Microsecond), ints(&[-1, 0, 86_400_000_000])),
        (SqlType::TEXT, ["", "1970-01-01", "2022-01-08"].map(|text| ScalarValue::Text(text.into())).to_vec()),
        (SqlType::Blob, vec![ScalarValue::Bytes(vec![]), ScalarValue::Bytes(vec![0, 1])]),
    ];
    types.extend(numbered);
    types
}

fn borrowed(value: &ScalarValue) -> ValueRef<'_> {
    match value {
        ScalarValue::Bool(value) => ValueRef::Bool(*value),
        ScalarValue::Int(value) => ValueRef::Int(*value),
        ScalarValue::UInt(value) => ValueRef::UInt(*value),
        ScalarValue::Float(value) => ValueRef::Float(*value),
        ScalarValue::Decimal(value) => ValueRef::Decimal(*value),
        ScalarValue::Text(value) => ValueRef::Text(value),
        ScalarValue::Bytes(value) => ValueRef::Bytes(value),
        ScalarValue::Null | ScalarValue::Interval(_) => ValueRef::Null,
    }
}

/// Compares all pairs. Returns how many of them were found by key, and how many were left to the general engine.
fn compare_all(column: &SqlType, values: &[ScalarValue]) -> (usize, usize) {
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
    let (mut scratch, mut out) = (ProgramScratch::default(), ResultRows::default());
    let mut run = |access: Access, filter: Option<Scalar>, kind: &SqlType, value: &ScalarValue| {
        let columns = vec![Scalar::column(column.clone(), 0, 0)];
        let read = ReadPlan::of_table(access, filter, ReadOutput::Rows(RowOutput::all(columns)));
        let program = Program { parameters: vec![kind.clone()], body: Body::Read(read) };
        let compiled = Compiled::new(&program, transaction.catalog())?;
        compiled.run_read(&reader, &[borrowed(value)], &mut scratch, &mut out)?.rows()?;
        Ok::<_, rowmill_base::Error>(shown(&out))
    };
    let (mut by_key, mut left) = (0, 0);
    for (kind, others) in types() {
        for other in &others {
            let value = || Scalar::parameter(kind.clone(), 0);
            let bound = |inclusive| Some(AccessBound::new(value(), inclusive));
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
