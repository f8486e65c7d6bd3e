//! Queries without tables, through parser, binder and evaluator: the examples of the functions' documentation, and those of
//! the SQL suite.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::ArrayRef;
use regex::Regex;
use rowmill_base::{Error, ErrorKind, Result, SqlType};
use rowmill_expr::evaluator::Evaluator;
use rowmill_expr::{fold, functions, text};
use rowmill_plan::logical::Logical;
use rowmill_plan::{Constant, DynamicFunction};
use rowmill_query::binder::bind_items;
use rowmill_query::catalog::{CatalogRelation, QueryCatalog, RelationName, RowSource};
use sqlparser::ast::{SetExpr, Statement};
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::Parser;

/// A database without anything in it.
struct NoTables;

impl QueryCatalog for NoTables {
    fn relation(&self, _name: &RelationName) -> Result<Option<CatalogRelation>> {
        Ok(None)
    }

    fn relation_names(&self) -> Vec<String> {
        Vec::new()
    }

    fn table_function(&self, _name: &str, _arguments: &[Constant]) -> Result<Option<Arc<dyn RowSource>>> {
        Ok(None)
    }

    fn dynamic_function(
        &self,
        _name: &str,
        _arguments: &[Option<Constant>],
    ) -> Result<Option<(Arc<dyn DynamicFunction>, SqlType)>> {
        Ok(None)
    }

    fn now_us(&self) -> i64 {
        1_700_000_000_000_000
    }
}

/// The values of `SELECT` without `FROM`, as text; `None` if `sql` is something else.
fn answer(sql: &str) -> Option<Result<Vec<String>>> {
    let Ok(mut statements) = Parser::parse_sql(&GenericDialect {}, sql) else { return None };
    let Some(Statement::Query(query)) = statements.pop() else { return None };
    let is_plain = query.with.is_none() && query.order_by.is_none() && query.limit_clause.is_none();
    let SetExpr::Select(select) = *query.body else { return None };
    if !is_plain || !select.from.is_empty() || select.selection.is_some() || select.distinct.is_some() {
        return None;
    }
    let spelling = |name: &sqlparser::ast::Ident| name.value.clone();
    let values = bind_items(&select.projection, &[], "SELECT", &NoTables, &spelling, &[]).and_then(|bound| {
        let Logical::Map { exprs, .. } = bound.query.root else { return Err(Error::internal("no Map")) };
        let value = |mut expr: rowmill_plan::ScalarExpr| {
            // Folding must not change anything.
            let plain = shown(&Evaluator::new(&expr)?.evaluate(&[], 1)?);
            fold::fold(&mut expr);
            let folded = shown(&Evaluator::new(&expr)?.evaluate(&[], 1)?);
            assert!(plain == folded || expr.volatility() != rowmill_plan::Volatility::Immutable, "{plain} {folded}");
            Ok(folded)
        };
        exprs.into_iter().map(|(_, expr)| value(expr)).collect()
    });
    Some(values)
}

fn shown(values: &ArrayRef) -> String {
    text::format(values, 0).unwrap_or_else(|| "NULL".to_owned())
}

#[test]
fn every_example_gives_its_result() {
    let mut wrong = Vec::new();
    for function in functions::all() {
        let (call, result) = function.example;
        match answer(&format!("SELECT {call}")) {
            Some(Ok(values)) if values == [result] => (),
            found => wrong.push(format!("{call}: {found:?} instead of {result}")),
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn queries_of_the_suite_without_tables_give_their_rows() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/slt");
    let mut files = Vec::new();
    slt_files(&folder, &mut files);
    let mut wrong = Vec::new();
    let mut ran = 0;
    for file in files {
        let script = std::fs::read_to_string(&file).unwrap();
        for record in script.split("\n\n") {
            let record: Vec<&str> = record.lines().filter(|line| !line.starts_with('#')).collect();
            let Some((head, body)) = record.split_first() else { continue };
            let end = body.iter().position(|line| *line == "----").unwrap_or(body.len());
            let sql = body[..end].join("\n");
            let (kind, rest) = head.split_once(' ').unwrap_or((head, ""));
            let found = match (kind, rest) {
                ("query", _) | ("statement", _) => answer(&sql),
                _ => None,
            };
            let Some(found) = found else { continue };
            ran += 1;
            let is_right = match (rest.strip_prefix("error"), &found) {
                (None, Ok(values)) => same(values, &body[(end + 1).min(body.len())..]),
                (Some(pattern), Err(error)) => Regex::new(pattern.trim()).unwrap().is_match(error.message()),
                _ => false,
            };
            if !is_right {
                let file = file.file_name().unwrap().to_string_lossy().into_owned();
                wrong.push(format!("{file}: {sql}\n  found {found:?}\n  instead of {rest} {:?}", &body[end..]));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {ran}:\n{}", wrong.len(), wrong.join("\n"));
    assert_ne!(ErrorKind::Internal.sqlstate(), "");
}

/// Whether values are those of the one line that a record expects.
fn same(values: &[String], expected: &[&str]) -> bool {
    let values: Vec<&str> = values.iter().map(|value| if value.is_empty() { "(empty)" } else { value }).collect();
    expected.concat() == values.join(" ")
}

fn slt_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => slt_files(&path, files),
            false if path.extension().is_some_and(|extension| extension == "slt") => files.push(path),
            false => (),
        }
    }
    files.sort();
}
