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
