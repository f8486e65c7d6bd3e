//! The entry points of the binder for statements other than queries.

use arrow::datatypes::DataType;
use rowmill_base::{ErrorKind, Result};
use rowmill_query::binder::target::{MergeClause, MergeRows, TargetRows, TargetValue, TargetValues, bind_target};
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
    let column =
        |table: &str, name: &str, kind| ExprColumn { schema: None, table: Some(table.into()), name: name.into(), kind };
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
    // A name that the existing row and the new one of ON CONFLICT have is that of the existing row.
    let bound = bind_expr(&expr("a > 1"), &columns(), "SET", &TestCatalog, &spelling, &[]).unwrap();
    assert_eq!(bound.exprs[0].text(&bound.columns), "A#0 > 1");
    let fails = |text: &str| bind_expr(&expr(text), &columns(), "CHECK", &TestCatalog, &spelling, &[]).unwrap_err();
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

fn target(sql: &str, values: TargetValues<'_>) -> Result<BoundQuery> {
    let mut select = select(sql);
    let others = select.from.split_off(1);
    let factor: TableFactor = select.from.remove(0).relation;
    let condition = select.selection.as_ref();
    let rows = TargetRows { with: None, target: &factor, others: &others, condition, values };
    bind_target(&rows, "UPDATE", &TestCatalog, &spelling, &[])
}

#[test]
fn changed_rows_have_row_numbers_and_values() {
    let expr = expr("u.a + t.a");
    let values = [TargetValue::Column(1), TargetValue::Expr { expr: &expr, kind: &DataType::Int32 }];
    let bound = target("SELECT 1 FROM t, u WHERE t.a = u.a", TargetValues::Pairs(&values)).unwrap();
    assert_eq!(
        bound.query.text(),
        "Output: row number#3 AS row number, b#1 AS value, value#6 AS value\n\
         Map: value#6 = a#4 + CAST(A#0 AS BIGINT)\n  \
           Filter: CAST(A#0 AS BIGINT) = a#4\n    \
             Inner join: every pair\n      \
               Scan: table 0 [A#0, b#1, D#2], row number row number#3\n      \
               Scan: table 1 [a#4, c#5]\n"
    );
}

#[test]
fn null_gets_the_type_of_its_column() {
    let expr = expr("NULL");
    let values = [TargetValue::Expr { expr: &expr, kind: &DataType::Int32 }];
    let bound = target("SELECT 1 FROM t", TargetValues::Pairs(&values)).unwrap();
    let (id, _) = &bound.query.output[1];
    assert_eq!(bound.query.columns.get(*id).kind, DataType::Int32);
}

#[test]
fn a_subquery_gives_the_values_of_several_columns() {
    let Expr::Subquery(query) = expr("(SELECT c, a FROM u WHERE u.a = t.a)") else { panic!("a subquery") };
    let value = |column| TargetValue::Subquery { query: &query, column, of: 2 };
    let bound = target("SELECT 1 FROM t", TargetValues::Pairs(&[value(1), value(0)])).unwrap();
    let text = bound.query.text();
    assert!(text.starts_with("Output: row number#3 AS row number, a#4 AS value, c#5 AS value\nLeft join"), "{text}");
    let value = TargetValue::Subquery { query: &query, column: 0, of: 1 };
    let error = target("SELECT 1 FROM t", TargetValues::Pairs(&[value])).unwrap_err();
    assert_eq!(error.message(), "SET has 1 columns, but its subquery gives 2");
}

#[test]
fn a_clause_of_merge_names_only_the_tables_whose_rows_it_has() {
    let (on, value) = (expr("t.a = u.a"), expr("t.a"));
    let clause = |rows, condition| MergeClause {
        rows,
        condition,
        action: "UPDATE",
        values: vec![TargetValue::Expr { expr: &value, kind: &DataType::Int32 }],
    };
    let merge = |clauses: &[MergeClause<'_>]| target("SELECT 1 FROM t, u", TargetValues::Merge { on: &on, clauses });
    let text = merge(&[clause(MergeRows::Partners, None)]).unwrap().query.text();
    assert!(text.contains("Inner join: CAST(A#0 AS BIGINT) = a#4\n"), "{text}");
    let text = merge(&[clause(MergeRows::Target, None)]).unwrap().query.text();
    assert!(text.contains("Left join: CAST(A#0 AS BIGINT) = a#4\n"), "{text}");
    assert!(text.contains("source#6 = true"), "{text}");
    let error = merge(&[clause(MergeRows::Source, None)]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UndefinedTable);
    let condition = expr("u.a > 1");
    let error = merge(&[clause(MergeRows::Target, Some(&condition))]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UndefinedTable);
}
