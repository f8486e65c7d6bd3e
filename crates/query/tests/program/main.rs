//! Tests of programs: from SQL to the program of a statement on keyed tables.
#![allow(clippy::unwrap_used)]

mod catalog;

use arrow::datatypes::{DataType, TimeUnit};
use rowmill_plan::program::{Body, Update};
use rowmill_query::binder::target::{TargetRows, TargetValue, TargetValues, bind_target};
use rowmill_query::binder::{BoundQuery, bind};
use rowmill_query::optimizer::{Executor, optimize_until};
use rowmill_query::program::{DefinitionNames, changed_rows, read};
use sqlparser::ast;
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;

/// Parses a query. The names of its parameters `$i1`, `$t2`, `$T3`, `$d4`, `$f5` give their types: BIGINT, TEXT,
/// TIMESTAMP, DECIMAL(38,2), DOUBLE.
fn bound(sql: &str) -> BoundQuery {
    let mut parameters = Vec::new();
    let mut text = String::new();
    let mut rest = sql;
    while let Some((before, after)) = rest.split_once('$') {
        let kind = match &after[..1] {
            "i" => DataType::Int64,
            "t" => DataType::Utf8View,
            "T" => DataType::Timestamp(TimeUnit::Microsecond, None),
            "d" => DataType::Decimal128(38, 2),
            "f" => DataType::Float64,
            other => panic!("{other} is not a type"),
        };
        let digits = after[1..].find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len() - 1);
        let number: usize = after[1..=digits].parse().unwrap();
        if parameters.len() < number {
            parameters.resize(number, DataType::Null);
        }
        parameters[number - 1] = kind;
        text += &format!("{before}${number}");
        rest = &after[1 + digits..];
    }
    text += rest;
    let mut statements =
        Parser::parse_sql(&PostgreSqlDialect {}, &text).unwrap_or_else(|error| panic!("{sql}: {error}"));
    let ast::Statement::Query(query) = statements.remove(0) else { panic!("{sql} is not a query") };
    let catalog = catalog::ShopCatalog;
    bind(&query, &catalog, &|ident| ident.value.clone(), &parameters).unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// The program of a query as text.
fn program(sql: &str) -> Option<String> {
    let mut bound = bound(sql);
    optimize_until(&mut bound, Executor::Program, &|| Ok(())).unwrap_or_else(|error| panic!("{sql}: {error}"));
    let read = read(&bound)?;
    Some(Body::Read(read).text(&DefinitionNames(&catalog::tables())))
}

/// Compares the statements of `programs.txt`, each after `--- `, with their programs.
const PROGRAMS: &str = include_str!("programs.txt");

#[test]
fn statements_become_programs_by_keys() {
    let mut failed = String::new();
    for entry in PROGRAMS.split("--- ").skip(1) {
        let (sql, expected) = entry.split_once('\n').unwrap();
        let found = program(sql).unwrap_or_else(|| "NONE\n".into());
        if found.trim_end() != expected.trim_end() {
            failed += &format!("--- {sql}\n{found}\nexpected\n{expected}\n");
        }
    }
    assert!(failed.is_empty(), "{failed}");
}

/// A statement with too many alternatives to try must end without a program, and quickly.
#[test]
fn too_many_nested_reads_are_left_to_the_engine() {
    let mut sql = "SELECT id FROM users WHERE id = 1".to_owned();
    for _ in 0..9 {
        sql = format!("SELECT id FROM users WHERE id IN (SELECT max(id) FROM ({sql}) AS q GROUP BY id)");
    }
    program(&sql);
}

#[test]
fn only_a_result_column_may_be_volatile() {
    assert_eq!(program("SELECT random() FROM users WHERE id = 1").unwrap().lines().last(), Some("Give random()"));
    assert_eq!(program("SELECT id FROM users WHERE id < 9 AND random() > 0.5"), None);
    assert_eq!(program("SELECT id FROM users WHERE id < 9 ORDER BY random()"), None);
    assert_eq!(program("SELECT id FROM users WHERE id = 1 AND created > now()"), None);
}

/// The definitions of `users` and `orders`, and the rows that a change of one of them finds, as text.
fn changed(sql: &str) -> Option<String> {
    let mut bound = bound_change(sql);
    optimize_until(&mut bound, Executor::Program, &|| Ok(())).unwrap_or_else(|error| panic!("{sql}: {error}"));
    let changed = changed_rows(&bound)?;
    let assignments = changed.values.into_iter().enumerate().collect();
    let update = Update { target: changed.target, assignments, generated: vec![], checks: vec![], returning: vec![] };
    Some(Body::Update(update).text(&DefinitionNames(&catalog::tables())))
}

/// Binds `SELECT values FROM table WHERE condition` as a change of the rows of the table does.
fn bound_change(sql: &str) -> BoundQuery {
    let mut statements = Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap();
    let ast::Statement::Query(query) = statements.remove(0) else { panic!("{sql} is not a query") };
    let ast::SetExpr::Select(select) = &*query.body else { panic!("{sql} is not a SELECT") };
    let exprs: Vec<&ast::Expr> = select
        .projection
        .iter()
        .map(|item| match item {
            ast::SelectItem::UnnamedExpr(expr) => expr,
            other => panic!("{other}"),
        })
        .collect();
    let kind = DataType::Utf8View;
    let values: Vec<TargetValue<'_>> = exprs.iter().map(|expr| TargetValue::Expr { expr, kind: &kind }).collect();
    let rows = TargetRows {
        with: None,
        target: &select.from[0].relation,
        others: &[],
        condition: select.selection.as_ref(),
        values: TargetValues::Pairs(&values),
    };
    bind_target(&rows, "UPDATE", &catalog::ShopCatalog, &|ident| ident.value.clone(), &[]).unwrap()
}

#[test]
fn rows_that_change_are_found_by_keys() {
    let check = |sql: &str, expected: Option<&str>| assert_eq!(changed(sql).as_deref(), expected, "{sql}");
    check(
        "SELECT age + 1 FROM users WHERE id IN (5, 3) AND age > 9",
        Some(
            "Update rows of lookup 0\nRead users by primary key: id in [5, 3]\n  if 0.age > 9\n\
             Set id = CAST(0.age AS BIGINT) + 1\n",
        ),
    );
    check(
        "SELECT 'gone' FROM orders WHERE user_id IN (SELECT id FROM users WHERE name = 'Ada')",
        Some(
            "Update rows of lookup 1\nRead rows of\n  Read users by index by_name one row for each (name, id): \
             name = 'Ada'\n  Give 0.id\nRead orders by index by_user_id,created: user_id = 0.0\nSet id = 'gone'\n",
        ),
    );
    check("SELECT 1 FROM users WHERE city = 'Rome'", None);
}

/// Prints the programs of statements, one statement per line, in the format of `programs.txt`.
#[test]
#[ignore]
fn shows_the_programs() {
    let Ok(sql) = std::env::var("SQL") else { return };
    for sql in sql.lines().filter(|line| !line.trim().is_empty()) {
        println!("--- {sql}\n{}", program(sql).unwrap_or_else(|| "NONE\n".into()));
    }
}

/// Shows the optimized plans of statements, one a line:
/// `SQL='SELECT 1' cargo test shows_the_plans -- --ignored --nocapture`
#[test]
#[ignore]
fn shows_the_plans() {
    let Ok(sql) = std::env::var("SQL") else { return };
    for sql in sql.lines().filter(|line| !line.trim().is_empty()) {
        let mut bound = bound(sql);
        optimize_until(&mut bound, Executor::Program, &|| Ok(())).unwrap_or_else(|error| panic!("{sql}: {error}"));
        println!("--- {sql}\n{}", bound.query.text());
    }
}
