//! The binder: from SQL to logical plans, over a catalog in memory.
#![allow(clippy::unwrap_used)]

mod catalog;
mod dialect;

use std::collections::HashMap;

use rowmill_base::{Error, Result};
use rowmill_query::binder::{BoundQuery, bind};
use sqlparser::ast::{self, Ident};
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, Tokenizer};

/// Parses a query as the product does: names in lower case, with their spellings by place.
pub(crate) fn parse(sql: &str) -> (Box<ast::Query>, HashMap<(u64, u64), String>) {
    let dialect = dialect::RowmillDialect::new(false, 0);
    let mut tokens = Tokenizer::new(&dialect, sql).tokenize_with_location().unwrap();
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
    let dialect = dialect::RowmillDialect::new(false, tokens.len());
    let mut parser = Parser::new(&dialect).with_recursion_limit(20_000).with_tokens_with_locations(tokens);
    let statement = parser.parse_statement().unwrap_or_else(|error| panic!("{sql}: {error}"));
    match statement {
        ast::Statement::Query(query) => (query, spellings),
        other => panic!("{other} is no query"),
    }
}

pub(crate) fn bound(sql: &str) -> Result<BoundQuery> {
    let (query, spellings) = parse(sql);
    let spelling = |ident: &Ident| {
        let spelled = spellings.get(&(ident.span.start.line, ident.span.start.column));
        spelled.filter(|spelled| spelled.to_lowercase() == ident.value).unwrap_or(&ident.value).clone()
    };
    bind(&query, &catalog::TestCatalog, &spelling, &[])
}

/// The plan as text.
pub(crate) fn plan(sql: &str) -> String {
    bound(sql).unwrap_or_else(|error| panic!("{sql}: {error}")).query.text()
}

/// The names of the result's columns.
pub(crate) fn names(sql: &str) -> Vec<String> {
    let bound = bound(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    bound.query.output.into_iter().map(|(_, name)| name).collect()
}

/// The types of the result's columns.
pub(crate) fn kinds(sql: &str) -> String {
    let bound = bound(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    let columns = &bound.query.columns;
    let kinds: Vec<String> = bound.query.output.iter().map(|(id, _)| columns.get(*id).kind.to_string()).collect();
    kinds.join(", ")
}

pub(crate) fn error(sql: &str) -> Error {
    match bound(sql) {
        Ok(bound) => panic!("{sql} is bound:\n{}", bound.query.text()),
        Err(error) => error,
    }
}

/// What a statement of a file of expected plans gives: its plan, or its error.
fn outcome(sql: &str) -> String {
    match bound(sql) {
        Ok(bound) => bound.query.text().trim_end().to_string(),
        Err(error) => format!("ERROR {}: {error}", error.sqlstate()),
    }
}

/// Compares the plans of a file with those that are bound now. A file has statements, each with `;` at its end and the
/// plan below. `BLESS=1 cargo test` writes the plans that are bound now.
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
fn mistakes_are_told() {
    check_file("error");
}
