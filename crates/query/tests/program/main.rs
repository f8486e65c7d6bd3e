//! Programs: from SQL to what a statement on keyed tables does.
#![allow(clippy::unwrap_used)]

mod catalog;

use arrow::datatypes::{DataType, TimeUnit};
use rowmill_query::binder::{BoundQuery, bind};
use rowmill_plan::program::Body;
use rowmill_query::optimizer::optimize;
use rowmill_query::program::{DefinitionNames, read};
use sqlparser::ast;
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;

/// A query whose parameters `$i1`, `$t2`, `$T3` say their types: BIGINT, TEXT, TIMESTAMP, and `$d4` DECIMAL(38,2), `$f5`
/// DOUBLE.
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
            other => panic!("{other} is no type"),
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
    let mut statements = Parser::parse_sql(&PostgreSqlDialect {}, &text).unwrap_or_else(|error| panic!("{sql}: {error}"));
    let ast::Statement::Query(query) = statements.remove(0) else { panic!("{sql} is no query") };
    let catalog = catalog::ShopCatalog;
    bind(&query, &catalog, &|ident| ident.value.clone(), &parameters).unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// The program of a query as text.
fn program(sql: &str) -> Option<String> {
    let mut bound = bound(sql);
    optimize(&mut bound).unwrap_or_else(|error| panic!("{sql}: {error}"));
    let read = read(&bound)?;
    Some(Body::Read(read).text(&DefinitionNames(&catalog::tables())))
}

/// Shows the programs of statements, one a line.
#[test]
#[ignore]
fn shows_the_programs() {
    let Ok(sql) = std::env::var("SQL") else { return };
    for sql in sql.lines().filter(|line| !line.trim().is_empty()) {
        println!("--- {sql}\n{}", program(sql).unwrap_or_else(|| "NONE\n".into()));
    }
}

/// Shows the optimized plans of statements, one a line: `SQL='SELECT 1' cargo test shows_the_plans -- --ignored --nocapture`
#[test]
#[ignore]
fn shows_the_plans() {
    let Ok(sql) = std::env::var("SQL") else { return };
    for sql in sql.lines().filter(|line| !line.trim().is_empty()) {
        let mut bound = bound(sql);
        optimize(&mut bound).unwrap_or_else(|error| panic!("{sql}: {error}"));
        println!("--- {sql}\n{}", bound.query.text());
    }
}
