//! Binds every query of the SQL suite whose tables are known from the suite itself.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rowmill_base::{Result, SqlType};
use rowmill_plan::{Constant, DynamicFunction};
use rowmill_query::binder::BoundQuery;
use rowmill_query::binder::type_name::built_in_type;
use rowmill_query::catalog::{CatalogRelation, CatalogView, QueryCatalog, RelationName, RowSource, ViewSpelling};
use sqlparser::ast::{ObjectName, Query, SetExpr, Statement};

use crate::{Spelled, bound_over, catalog, parse_statement};

/// The tables and views of one file.
#[derive(Default)]
struct SuiteCatalog {
    tables: RefCell<HashMap<String, Vec<(String, SqlType)>>>,
    views: RefCell<HashMap<String, CatalogView>>,
}

impl QueryCatalog for SuiteCatalog {
    fn relation(&self, name: &RelationName) -> Result<Option<CatalogRelation>> {
        if let Some(view) = self.views.borrow().get(&name.name) {
            return Ok(Some(CatalogRelation::View(view.clone())));
        }
        let tables = self.tables.borrow();
        let Some(columns) = tables.get(&name.name) else { return Ok(None) };
        let columns: Vec<(&str, SqlType)> = columns.iter().map(|(name, kind)| (name.as_str(), kind.clone())).collect();
        Ok(Some(catalog::table(&name.name, &columns)))
    }

    fn relation_names(&self) -> Vec<String> {
        self.tables.borrow().keys().cloned().collect()
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
        0
    }
}

fn last_name(name: &ObjectName) -> String {
    name.0.last().and_then(|part| part.as_ident()).map_or_else(String::new, |ident| ident.value.clone())
}

impl SuiteCatalog {
    /// Applies a statement that creates or changes tables.
    fn follow(&self, statement: Statement, spellings: &Spelled) {
        match statement {
            Statement::CreateTable(create) => {
                let name = last_name(&create.name);
                let columns = match &create.query {
                    Some(query) => match bound_over(query, spellings, self) {
                        Ok(bound) => columns_of(&bound),
                        Err(_) => return,
                    },
                    None => create
                        .columns
                        .iter()
                        .filter_map(|column| Some((column.name.value.clone(), built_in_type(&column.data_type).ok()?)))
                        .collect(),
                };
                self.tables.borrow_mut().insert(name, columns);
            }
            Statement::CreateView(create) => {
                let name = last_name(&create.name);
                let Ok(bound) = bound_over(&create.query, spellings, self) else { return };
                let mut columns: Vec<String> = bound.query.output.into_iter().map(|(_, name)| name).collect();
                for (column, written) in columns.iter_mut().zip(&create.columns) {
                    column.clone_from(&written.name.value);
                }
                self.views.borrow_mut().insert(
                    name.clone(),
                    CatalogView {
                        id: rowmill_base::ViewId(1),
                        name,
                        query: create.query,
                        columns,
                        spelling: ViewSpelling::new(|ident| ident.value.clone()),
                    },
                );
            }
            Statement::Drop { names, .. } => {
                for name in &names {
                    self.tables.borrow_mut().remove(&last_name(name));
                    self.views.borrow_mut().remove(&last_name(name));
                }
            }
            _ => {}
        }
    }
}

fn columns_of(bound: &BoundQuery) -> Vec<(String, SqlType)> {
    let columns = &bound.query.columns;
    let kind = |id| SqlType::from_arrow(&columns.get(id).kind).unwrap_or(SqlType::TEXT);
    bound.query.output.iter().map(|(id, name)| (name.clone(), kind(*id))).collect()
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "slt") {
            found.push(path);
        }
    }
}

/// Parts of queries that read objects which only a real database has.
const ELSEWHERE: &[&str] = &[
    "information_schema",
    "rowmill_",
    "$__TEST_DIR__",
    "pg_",
    "nextval",
    "setval",
    "currval",
    "lastval",
    "setseed",
    "FOR UPDATE",
];

/// Files whose statements change tables in ways that this test does not support.
const CHANGING: &[&str] = &[
    "alter_sequence",
    "alter_table",
    "analyze",
    "attach",
    "changes",
    "changing_with",
    "columnar_rules",
    "computed_conditions_of_added_columns",
    "copy",
    "copy_csv",
    "copy_json",
    "copy_types",
    "enum",
    "export_database",
    "generated_columns",
    "generated_columns_of_sessions",
    "index_lists",
    "late_sorts",
    "map",
    "materialized",
    "materialized_view",
    "primary_key",
    "returning_others",
    "schema",
    "search_path",
    "sequence",
    "temporary_table",
    "temporary_view",
    "time_table_clauses",
    "transaction",
    "view",
    "wide_decimal",
];

/// Files whose queries have clauses of time. The parser of the sessions turns these into calls; the parser of this test
/// does not know them.
const WITH_TIME_CLAUSES: &[&str] = &["joins", "latest", "sample_by", "wide_decimal_rows", "zones"];

/// Files whose queries call functions that only sessions have, or that only the parser of sessions reads.
const WITH_SESSION_FUNCTIONS: &[&str] = &[
    "comment",
    "dialect_forms",
    "duckdb_statements",
    "json",
    "json_parts",
    "json_sql_path",
    "lock",
    "macro",
    "pivot",
    "postgresql_forms",
    "postgresql_statements",
    "role",
    "rows",
    "short_forms",
    "variables",
];

/// The result that a file expects for a statement.
enum Expected {
    Success,
    Failure,
}

/// Whether it is `WITH ...` before a change of rows, which another entry point binds.
fn changes_rows(query: &Query) -> bool {
    matches!(*query.body, SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_))
}

/// Binds the queries of a file. Adds each unexpected result to `report`.
fn check_file(path: &Path, report: &mut String, count: &mut usize) {
    let text = std::fs::read_to_string(path).unwrap();
    for (_, script) in crate::each::scripts(&text) {
        check_script(path, &script, report, count);
    }
}

fn check_script(path: &Path, text: &str, report: &mut String, count: &mut usize) {
    let catalog = SuiteCatalog::default();
    let name = path.file_stem().unwrap().to_string_lossy().to_string();
    if [CHANGING, WITH_TIME_CLAUSES, WITH_SESSION_FUNCTIONS].concat().contains(&name.as_str()) {
        return;
    }
    for record in text.split("\n\n") {
        let lines: Vec<&str> = record.lines().skip_while(|line| line.starts_with('#') || line.is_empty()).collect();
        let Some((head, rest)) = lines.split_first() else { continue };
        let expected = match head {
            head if head.starts_with("statement error") || head.starts_with("query error") => Expected::Failure,
            head if head.starts_with("statement") || head.starts_with("query") => Expected::Success,
            _ => continue,
        };
        let sql = rest.iter().take_while(|line| **line != "----").copied().collect::<Vec<_>>().join("\n");
        let is_elsewhere = ELSEWHERE.iter().any(|part| sql.contains(part));
        let Ok((statement, spellings)) = parse_statement(&sql) else { continue };
        match statement {
            Statement::Query(query) if changes_rows(&query) => {}
            Statement::Query(query) if !is_elsewhere => {
                *count += 1;
                match (bound_over(&query, &spellings, &catalog), expected) {
                    (Err(error), Expected::Success) => report.push_str(&format!("{name}: {sql}\n    {error:?}\n")),
                    (Err(error), Expected::Failure) if std::env::var_os("SHOW_ERRORS").is_some() => {
                        report.push_str(&format!("{name}: {head}\n    {sql}\n    {error:?}\n"));
                    }
                    _ => {}
                }
            }
            other => {
                if let Expected::Success = expected {
                    catalog.follow(other, &spellings);
                }
            }
        }
    }
}

#[test]
fn every_query_of_the_suite_is_bound() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/slt");
    let mut paths = Vec::new();
    files(&folder, &mut paths);
    paths.sort();
    let (mut report, mut count) = (String::new(), 0);
    for path in &paths {
        check_file(path, &mut report, &mut count);
    }
    assert!(count > 1_000, "only {count} queries were found");
    assert!(report.is_empty(), "{report}");
}
