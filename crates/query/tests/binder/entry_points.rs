//! The entry points of the binder for statements other than queries.

use arrow::datatypes::DataType;
use rowmill_base::{ErrorKind, Result};
use rowmill_query::binder::target::{TargetJoin, TargetNames, TargetRows, TargetValue, bind_target};
use rowmill_query::binder::{BoundQuery, ExprColumn, bind_expr, bind_exprs, bind_items};
use sqlparser::ast::{self, Expr, Ident, SelectItem, SetExpr, TableFactor};

use crate::catalog::TestCatalog;
use crate::parse;

fn spelling(ident: &Ident) -> String {
    ident.value.clone()
}

fn select(sql: &str) -> ast::Select {
    match *parse(sql).0.body {
        SetExpr::Select(select) => *select,
        other => panic!("{other} is not a SELECT"),
    }
}

fn expr(text: &str) -> Expr {
    match select(&format!("SELECT {text}")).projection.remove(0) {
        SelectItem::UnnamedExpr(expr) => expr,
        other => panic!("{other} is not an expression"),
    }
}

fn columns() -> Vec<ExprColumn> {
    let column = |table: &str, name: &str, kind| ExprColumn { table: Some(table.into()), name: name.into(), kind };
    vec![
        column("t", "A", DataType::Int32),
        column("t", "b", DataType::Utf8View),
        column("excluded", "A", DataType::Int32),
    ]
}

#[test]
fn an_expression_is_bound_over_given_columns() {
    let bound = bind_expr(&expr("t.a + excluded.a > 1"), &columns(), "CHECK", &TestCatalog, &spelling, &[]).unwrap();
    assert_eq!(
        bound.exprs[0].text(&bound.columns),
        "(A#0 + A#2) > CAST(1 AS INTEGER)".replace("CAST(1 AS INTEGER)", "1")
    );
    let fails = |text: &str| bind_expr(&expr(text), &columns(), "CHECK", &TestCatalog, &spelling, &[]).unwrap_err();
    assert_eq!(fails("a > 1").kind(), ErrorKind::AmbiguousColumn);
    assert_eq!(fails("nope > 1").kind(), ErrorKind::UndefinedColumn);
    assert!(fails("sum(b) > 1").message().contains("there is no sum(TEXT)"));
    assert!(fails("count(*) > 1").message().contains("aggregate functions are not allowed in CHECK"));
    assert!(fails("rank() OVER () > 1").message().contains("window functions are not allowed in CHECK"));
}

#[test]
fn values_get_the_wanted_types() {
    let (value, other) = (expr("'2013-07-01'"), expr("$1"));
    let wanted = [(&value, Some(&DataType::Date32)), (&other, Some(&DataType::Int16))];
    let bound = bind_exprs(&wanted, &[], "SET", &TestCatalog, &spelling, &[]).unwrap();
    let kinds: Vec<&DataType> = bound.exprs.iter().map(|expr| &expr.kind).collect();
    assert_eq!(kinds, [&DataType::Date32, &DataType::Int16]);
    assert_eq!(bound.parameters, [Some(DataType::Int16)]);
}

#[test]
fn returning_takes_stars_and_names() {
    let items = select("SELECT t.*, length(b) AS chars, excluded.a FROM t").projection;
    let bound = bind_items(&items, &columns(), "RETURNING", &TestCatalog, &spelling, &[]).unwrap();
    let names: Vec<&str> = bound.query.output.iter().map(|(_, name)| name.as_str()).collect();
    assert_eq!(names, ["A", "b", "chars", "A"]);
    let items = select("SELECT count(*)").projection;
    let error = bind_items(&items, &columns(), "RETURNING", &TestCatalog, &spelling, &[]).unwrap_err();
    assert!(error.message().contains("aggregate functions are not allowed in RETURNING"), "{error}");
}

fn target(sql: &str, join: TargetJoin<'_>, values: &[TargetValue<'_>]) -> Result<BoundQuery> {
    let mut select = select(sql);
    let others = select.from.split_off(1);
    let factor: TableFactor = select.from.remove(0).relation;
    let rows = TargetRows {
        with: None,
        target: &factor,
        row_number: true,
        others: &others,
        join,
        condition: select.selection.as_ref(),
        values,
    };
    bind_target(&rows, "UPDATE", &TestCatalog, &spelling, &[])
}

#[test]
fn changed_rows_have_row_numbers_columns_and_values() {
    let value = expr("u.a + t.a");
    let values = [TargetValue { expr: &value, kind: Some(&DataType::Int32), sees: TargetNames::All }];
    let bound = target("SELECT 1 FROM t, u WHERE t.a = u.a", TargetJoin::Pairs, &values).unwrap();
    assert_eq!(
        bound.query.text(),
        "Output: row number#3 AS row number, A#0 AS A, b#1 AS b, D#2 AS D, value#6 AS value\n\
         Map: value#6 = CAST(a#4 + CAST(A#0 AS BIGINT) AS INTEGER)\n  \
           Filter: CAST(A#0 AS BIGINT) = a#4\n    \
             Inner join: every pair\n      \
               Scan: table 0 [A#0, b#1, D#2], row number row number#3\n      \
               Scan: table 1 [a#4, c#5]\n"
    );
}

#[test]
fn merge_keeps_rows_without_partners_and_hides_their_columns() {
    let on = expr("t.a = u.a");
    let join = TargetJoin::Merge { on: &on, keeps_source: true, keeps_target: false };
    let value = expr("t.a");
    let values = |sees| [TargetValue { expr: &value, kind: None, sees }];
    let bound = target("SELECT 1 FROM t, u", join, &values(TargetNames::All)).unwrap();
    assert!(bound.query.text().contains("Left join: CAST(A#0 AS BIGINT) = a#4\n    Scan: table 1"));
    let error = target("SELECT 1 FROM t, u", join, &values(TargetNames::Others)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UndefinedTable);
}
