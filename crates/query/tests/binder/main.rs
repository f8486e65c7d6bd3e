//! Tests of the binder: from SQL to logical plans, over a catalog in memory.
#![allow(clippy::unwrap_used)]

mod catalog;
mod dialect;
#[path = "../../../../tests/each.rs"]
mod each;
mod entry_points;
mod suite;

use std::collections::HashMap;

use rowmill_base::{ErrorKind, Result};
use rowmill_query::binder::{BoundQuery, bind};
use rowmill_query::catalog::QueryCatalog;
use sqlparser::ast::{self, Ident};
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, Tokenizer};

/// Parses a query as the product does: names become lower case, and their spellings are kept by position.
pub(crate) fn parse(sql: &str) -> (Box<ast::Query>, Spelled) {
    match parse_statement(sql) {
        Ok((ast::Statement::Query(query), spellings)) => (query, spellings),
        Ok((other, _)) => panic!("{other} is not a query"),
        Err(error) => panic!("{sql}: {error}"),
    }
}

/// The names of a statement as spelled, by line and column.
pub(crate) type Spelled = HashMap<(u64, u64), String>;

/// Parses a statement. Names become lower case, and their spellings are kept by position.
pub(crate) fn parse_statement(sql: &str) -> Result<(ast::Statement, Spelled), ParserError> {
    let dialect = dialect::RowmillDialect::new(false, 0);
    let mut tokens = Tokenizer::new(&dialect, sql).tokenize_with_location()?;
    let mut spellings = HashMap::new();
    let mut marks = 0;
    for token in &mut tokens {
        match &mut token.token {
            Token::Word(word) => {
                spellings.insert((token.span.start.line, token.span.start.column), word.value.clone());
                word.value = word.value.to_lowercase();
            }
            Token::Placeholder(text) if text == "?" => {
                marks += 1;
                *text = format!("${marks}");
            }
            _ => {}
        }
    }
    let words = sql.to_uppercase();
    let dialect = dialect::RowmillDialect::new(words.contains("STRUCT("), tokens.len());
    let mut parser = Parser::new(&dialect).with_recursion_limit(20_000).with_tokens_with_locations(tokens);
    Ok((parser.parse_statement()?, spellings))
}

/// Binds a query over `catalog`.
pub(crate) fn bound_over(query: &ast::Query, spellings: &Spelled, catalog: &dyn QueryCatalog) -> Result<BoundQuery> {
    let spelling = |ident: &Ident| {
        let spelled = spellings.get(&(ident.span.start.line, ident.span.start.column));
        spelled.filter(|spelled| spelled.to_lowercase() == ident.value).unwrap_or(&ident.value).clone()
    };
    bind(query, catalog, &spelling, &[])
}

pub(crate) fn bound(sql: &str) -> Result<BoundQuery> {
    let (query, spellings) = parse(sql);
    bound_over(&query, &spellings, &catalog::TestCatalog)
}

/// The plan of a statement of a file of expected plans, or its error.
fn outcome(sql: &str) -> String {
    match bound(sql) {
        Ok(bound) => bound.query.text().trim_end().to_string(),
        Err(error) => format!("ERROR {}: {error}", error.sqlstate()),
    }
}

/// Compares the plans of a file with those that are bound now. In a file, each statement ends with `;` and its plan
/// follows. `BLESS=1 cargo test` writes the current plans to the file.
fn check_file(name: &str) {
    let path = format!("{}/tests/binder/plans/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap();
    let mut written = String::new();
    let mut differences = Vec::new();
    for section in text.split("\n\n").map(str::trim).filter(|section| !section.is_empty()) {
        if section.starts_with("# ") {
            written.push_str(&format!("{section}\n\n"));
            continue;
        }
        let (sql, expected) = section.split_once(";\n").unwrap_or((section.trim_end_matches(';'), ""));
        let found = outcome(sql);
        if found != expected.trim() {
            differences.push(format!("{sql};\n--- expected\n{}\n--- found\n{found}\n", expected.trim()));
        }
        written.push_str(&format!("{sql};\n{found}\n\n"));
    }
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, written.trim_end().to_string() + "\n").unwrap();
    } else {
        assert!(differences.is_empty(), "{name}:\n{}", differences.join("\n"));
    }
}

/// Parses on a large stack and binds on a stack of `stack_bytes`.
fn bound_within(sql: &str, stack_bytes: usize) -> Result<BoundQuery> {
    let sql = sql.to_string();
    let large = std::thread::Builder::new().stack_size(1 << 30);
    let parsed = large.spawn(move || {
        let (query, spellings) = parse(&sql);
        let small = std::thread::Builder::new().stack_size(stack_bytes);
        std::thread::scope(|scope| {
            let bind = || bound_over(&query, &spellings, &catalog::TestCatalog);
            small.spawn_scoped(scope, bind).unwrap().join().unwrap()
        })
    });
    parsed.unwrap().join().unwrap()
}

#[test]
fn statements_that_nest_too_deep_are_refused() {
    // Frames are several times smaller in an optimized build.
    let is_refused =
        |sql: &str| bound_within(sql, STACK_BYTES).is_err_and(|error| error.kind() == ErrorKind::StatementTooComplex);
    let nested = |depth: usize| format!("SELECT {}1{}", "abs(".repeat(depth), ")".repeat(depth));
    assert!(!is_refused(&nested(300)));
    assert!(is_refused(&nested(450)));
    let queries = |depth: usize| format!("SELECT {}1{}", "(SELECT ".repeat(depth), ")".repeat(depth));
    assert!(!is_refused(&queries(60)));
    assert!(is_refused(&queries(120)));
    let derived = |depth: usize| format!("{}SELECT 1 AS a{}", "SELECT a FROM (".repeat(depth), ") AS t".repeat(depth));
    assert!(!is_refused(&derived(60)));
    assert!(is_refused(&derived(120)));
    let chain = |count: usize| format!("SELECT 1{}", " + 1".repeat(count));
    assert!(!is_refused(&chain(900)));
    assert!(is_refused(&chain(3_000)));
    assert!(!is_refused(&format!("SELECT a = 1{} FROM t", " OR a = 2".repeat(3_000))));
    assert!(!is_refused(&format!("SELECT {}1{}", "(".repeat(500), ")".repeat(500))));
}

/// The stack that binding may use without optimization.
const STACK_BYTES: usize = 8 << 20;

#[test]
fn with_queries_that_use_each_other_twice_do_not_double_the_work() {
    let mut sql = "WITH x0 AS (SELECT 1 AS n)".to_string();
    for level in 1..40 {
        let before = level - 1;
        sql.push_str(&format!(", x{level} AS (SELECT a.n FROM x{before} AS a JOIN x{before} AS b ON a.n = b.n)"));
    }
    let bound = bound_within(&format!("{sql} SELECT count(*) FROM x39"), STACK_BYTES).unwrap();
    assert_eq!(bound.query.output.len(), 1);
}

#[test]
fn selects_are_bound() {
    check_file("select");
}

#[test]
fn joins_are_bound() {
    check_file("join");
}

#[test]
fn groups_are_bound() {
    check_file("group");
}

#[test]
fn windows_are_bound() {
    check_file("window");
}

#[test]
fn subqueries_are_bound() {
    check_file("subquery");
}

#[test]
fn set_operations_and_with_are_bound() {
    check_file("with");
}

#[test]
fn expressions_are_typed() {
    check_file("expression");
}

#[test]
fn mistakes_are_reported() {
    check_file("error");
}
