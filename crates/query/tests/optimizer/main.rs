//! Tests of the optimizer: from SQL to optimized logical plans.
#![allow(clippy::unwrap_used)]

mod catalog;
mod common;
mod estimates;
mod key_joins;
mod physical;
mod rules;
mod subqueries;

use rowmill_query::binder::{BoundQuery, bind};
use rowmill_query::optimizer::optimize;
use sqlparser::ast;
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;

fn bound(sql: &str, keyed: bool) -> BoundQuery {
    bound_in(sql, &catalog::TpchCatalog { keyed, sized: false })
}

fn bound_in(sql: &str, catalog: &catalog::TpchCatalog) -> BoundQuery {
    let mut statements = Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    let ast::Statement::Query(query) = statements.remove(0) else { panic!("{sql} is not a query") };
    bind(&query, catalog, &|ident| ident.value.clone(), &[]).unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// The optimized plan as text.
pub(crate) fn plan(sql: &str) -> String {
    let mut bound = bound(sql, true);
    optimize(&mut bound).unwrap_or_else(|error| panic!("{sql}: {error}"));
    bound.query.text()
}

/// Checks the optimized plan of a statement.
pub(crate) fn check(sql: &str, expected: &str) {
    let found = plan(sql);
    assert!(found == expected, "{sql}\nPLAN<<<\n{found}>>>PLAN\nexpected\n{expected}");
}

/// Prints the plan of a statement: `SQL='SELECT 1' cargo test shows_the_plan -- --ignored --nocapture`.
#[test]
#[ignore]
fn shows_the_plan() {
    let Ok(sql) = std::env::var("SQL") else { return };
    println!("{}", bound(&sql, true).query.text());
    println!("{}", plan(&sql));
    let bound = bound(&sql, true);
    let start = std::time::Instant::now();
    for _ in 0..100 {
        optimize(&mut bound.clone()).unwrap();
    }
    println!("{:?} for one", start.elapsed() / 100);
}
