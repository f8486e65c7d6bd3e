//! Prepared statements.

use std::sync::Arc;

use arrow::array::UInt8Array;
use arrow::datatypes::DataType;
use rowmill_base::ErrorKind;
use rowmill_sql::Constant;

use crate::support::{small, text};

#[test]
fn a_query_tells_its_parameters_and_columns() {
    let (_, mut session) = small();
    let prepared = session.prepare("SELECT a, COUNT(*) AS N FROM t WHERE a > $1 AND \"b b\" = $2 GROUP BY a").unwrap();
    assert_eq!(prepared.parameter_types(), [Some(DataType::Int32), Some(DataType::Utf8View)]);
    let names: Vec<String> = prepared.schema().unwrap().fields().iter().map(|field| field.name().clone()).collect();
    assert_eq!(names, ["A", "N"]);
    for (from, expected) in [(0, "1|1"), (1, "3|1")] {
        let values = [Constant::from(i64::from(from)), Constant::from("x")];
        let rows = text(session.run_prepared(&prepared, &values).unwrap());
        assert!(rows.contains(&expected.to_string()), "{rows:?}");
    }
}

#[test]
fn values_of_another_type_are_converted() {
    let (_, mut session) = small();
    let prepared = session.prepare("SELECT a FROM t WHERE a = ?").unwrap();
    for value in [Constant::from(3_i64), Constant::new(Arc::new(UInt8Array::from(vec![3]))), Constant::from("3")] {
        assert_eq!(text(session.run_prepared(&prepared, &[value]).unwrap()), ["A", "3"]);
    }
}

#[test]
fn one_statement_is_prepared_with_all_its_values() {
    let (_, mut session) = small();
    assert_eq!(session.prepare("SELECT 1; SELECT 2").unwrap_err().kind(), ErrorKind::Syntax);
    assert_eq!(session.prepare(";").unwrap_err().kind(), ErrorKind::Syntax);
    let prepared = session.prepare("SELECT ?").unwrap();
    assert_eq!(session.run_prepared(&prepared, &[]).unwrap_err().kind(), ErrorKind::CardinalityViolation);
    assert_eq!(text(session.run_prepared(&prepared, &[Constant::from(7_i64)]).unwrap())[1], "7");
}

#[test]
fn a_change_of_rows_tells_its_parameters_and_the_columns_of_returning() {
    let (_, mut session) = small();
    for (sql, parameters, columns) in [
        ("INSERT INTO t (a) VALUES ($1), ($2) RETURNING a, a + 1 AS b", vec![DataType::Int32; 2], vec!["A", "b"]),
        ("UPDATE t SET a = $1 WHERE \"b b\" = $2", vec![DataType::Int32, DataType::Utf8View], vec![]),
        ("DELETE FROM t WHERE a < $1 RETURNING *", vec![DataType::Int32], vec!["A", "B b"]),
        ("INSERT INTO t (a) SELECT a FROM t WHERE a > $1", vec![DataType::Int32], vec![]),
    ] {
        let prepared = session.prepare(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        let known: Vec<DataType> = prepared.parameter_types().iter().flatten().cloned().collect();
        assert_eq!(known, parameters, "{sql}");
        let schema = prepared.schema();
        let fields = schema.iter().flat_map(|schema| schema.fields().iter());
        let names: Vec<String> = fields.map(|field| field.name().clone()).collect();
        assert_eq!(names, columns, "{sql}");
    }
}
