//! Queries without tables, through parser, binder and evaluator: the examples of the function documentation, and
//! queries of the SQL suite.

#[path = "../../../tests/each.rs"]
mod each;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::ArrayRef;
use regex::Regex;
use rowmill_base::{Error, Result, SqlType};
use rowmill_expr::evaluator::Evaluator;
use rowmill_expr::{fold, functions, text};
use rowmill_plan::expansion::{EXPANSIONS, ExpansionSpec};
use rowmill_plan::logical::Logical;
use rowmill_plan::{Constant, DynamicFunction, item_function};
use rowmill_query::binder::bind_items;
use rowmill_query::catalog::{CatalogRelation, QueryCatalog, RelationName, RowSource};
use sqlparser::ast::{SetExpr, Statement};
use sqlparser::dialect::{Dialect, DuckDbDialect, GenericDialect};
use sqlparser::parser::Parser;

/// An empty database.
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

/// The values of a `SELECT` without `FROM`, as text. Returns `None` for any other statement.
fn answer(sql: &str) -> Option<Result<Vec<String>>> {
    // The generic dialect has no lambdas.
    let dialect: &dyn Dialect = if sql.contains("->") { &DuckDbDialect {} } else { &GenericDialect {} };
    let Ok(mut statements) = Parser::parse_sql(dialect, sql) else { return None };
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
            // Folding must not change the result.
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

/// Whether a function stands for an expression with a subquery, an aggregate or a function of the session. Its example
/// is tested with a database (`crates/rowmill/tests/it/function_lists.rs`).
fn needs_engine(function: &ExpansionSpec) -> bool {
    function.is_aggregate || ["(SELECT", "pg_sleep("].iter().any(|part| function.body.contains(part))
}

#[test]
fn every_example_gives_its_result() {
    let mut wrong = Vec::new();
    let of_items = item_function::ITEM_FUNCTIONS.iter().map(|function| function.example);
    let scalar = functions::all().map(|function| function.example);
    let expansions = EXPANSIONS.iter().filter(|function| !needs_engine(function)).map(|function| function.example);
    for (call, result) in scalar.chain(of_items).chain(expansions) {
        match answer(&format!("SELECT {call}")) {
            Some(Ok(values)) if values == [result] => (),
            found => wrong.push(format!("{call}: {found:?} instead of {result}")),
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Expressions whose values were once wrong or inconsistent.
#[test]
fn values_that_were_wrong_are_right() {
    let mut wrong = Vec::new();
    for (expr, result) in [
        ("length(X'00ff')", "2"),
        (r"regexp_replace('abc', '(b)', '\\1')", r"a\1c"),
        (r"regexp_replace('abc', '(b)', '[\1]')", "a[b]c"),
        ("[NULL, 4] > [4]", "true"),
        ("(1, NULL) = (1, 2)", "NULL"),
        ("(1, NULL) = (2, 2)", "false"),
        ("array_remove([1, 2, 1], 1)", "[2]"),
        ("to_char(TIMESTAMP '2024-03-15 10:00:00', 'YYYY-MM-DD')", "2024-03-15"),
        ("extract(microsecond FROM TIMESTAMP '2024-03-15 10:00:01.5')", "1500000"),
        ("extract(epoch FROM INTERVAL '2 years')", "63115200.0"),
        ("'1'::interval", "00:00:01"),
        ("NULL NOT IN (1, 2)", "NULL"),
        ("3 NOT IN (1, NULL)", "NULL"),
        ("CASE WHEN 0 = 0 THEN false ELSE 6 / 0 > 2 END", "false"),
        ("TIMESTAMP '2024-03-15 10:00:00' >= '2024-03-15 09:30'", "true"),
        ("X'00ff' = '\\x00ff'", "true"),
        ("abs(-2147483648)", "2147483648"),
        ("CAST(1.5 AS TEXT) || 'x'", "1.5x"),
        ("5 & 3, 5 | 3, 5 << 2", "1 7 20"),
        ("typeof(length('a')), typeof(round(1.25, 1))", "INTEGER DECIMAL(3,1)"),
        ("round(-1250, -2), round(2.5e0), trunc(-2.567, 1), ceil(2.1), floor(-2.1)", "-1300 3.0 -2.5 3 -3"),
        ("greatest(1, 2.5, NULL), least('b', 'a'), nvl2(NULL, 1, 2), nullif(1, 1), ifnull(NULL, 3)", "2.5 a 2 NULL 3"),
        ("trim('  a '), trim(BOTH 'x' FROM 'xax'), trim(LEADING 'x' FROM 'xax')", "a a ax"),
        (
            "overlay('Txxxxas' PLACING 'hom' FROM 2 FOR 4), substring('rowmill' FROM 4), left('мир', -1)",
            "Thomas mill ми",
        ),
        ("encode(sha256('abc'), 'hex') = encode(digest('abc', 'sha256'), 'hex')", "true"),
    ] {
        match answer(&format!("SELECT {expr}")) {
            Some(Ok(values)) if values.join(" ") == result => (),
            found => wrong.push(format!("{expr}: {found:?} instead of {result}")),
        }
    }
    for expr in ["CAST('1e400' AS DOUBLE)", "'abc' BETWEEN 20 AND true", "'1234'::time", "regexp_like('a', '(')"] {
        match answer(&format!("SELECT {expr}")) {
            Some(Err(error)) if error.kind() != rowmill_base::ErrorKind::Internal => (),
            found => wrong.push(format!("{expr}: {found:?} instead of an error")),
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
        let text = std::fs::read_to_string(&file).unwrap();
        let script: Vec<String> = each::scripts(&text).into_iter().map(|(_, script)| script).collect();
        for record in script.iter().flat_map(|script| script.split("\n\n")) {
            let record: Vec<&str> = record.lines().filter(|line| !line.starts_with('#')).collect();
            let Some((head, body)) = record.split_first() else { continue };
            let end = body.iter().position(|line| *line == "----").unwrap_or(body.len());
            let sql = body[..end].join("\n");
            let (kind, rest) = head.split_once(' ').unwrap_or((head, ""));
            if !matches!(kind, "query" | "statement") || needs_database(&file, &sql) {
                continue;
            }
            // The parser of the sessions refuses these before they are bound.
            if rest.ends_with("neither a number nor a name") {
                continue;
            }
            let Some(found) = answer(&sql) else { continue };
            ran += 1;
            let is_right = match (rest.strip_prefix("error"), &found) {
                (None, Ok(values)) => same(values, &body[(end + 1).min(body.len())..]),
                (Some(pattern), Err(error)) => Regex::new(pattern.trim()).unwrap().is_match(&error.to_string()),
                _ => false,
            };
            if !is_right {
                let file = file.file_name().unwrap().to_string_lossy().into_owned();
                wrong.push(format!("{file}: {sql}\n  found {found:?}\n  instead of {rest} {:?}", &body[end..]));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {ran}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(ran > 100, "only {ran} queries could be read");
}

/// Whether a query reads tables, sequences, parameters or settings.
fn needs_database(file: &Path, sql: &str) -> bool {
    // Functions of sessions, too.
    let has_session = [
        "setting.slt",
        "alter_sequence.slt",
        "comment.slt",
        "dialect_forms.slt",
        "duckdb_statements.slt",
        "json_sql_path.slt",
        "postgresql_forms.slt",
        "postgresql_statements.slt",
        "role.slt",
        "keyed/lock.slt",
        "variables.slt",
        "macro.slt",
        // Arrows of JSON are read by the parser of sessions.
        "json.slt",
        "functions/rows.slt",
        "advisory_locks.slt",
        "attach.slt",
        "enum.slt",
        "search_path.slt",
        "session_zone.slt",
    ];
    let is_expanded = |function: &ExpansionSpec| {
        std::iter::once(&function.name).chain(function.aliases).any(|name| sql.contains(&format!("{name}(")))
    };
    let has_aggregate = ["list_aggr", "array_aggr"].iter().any(|name| sql.contains(name))
        || EXPANSIONS.iter().any(|function| needs_engine(function) && is_expanded(function));
    has_aggregate
        || has_session.iter().any(|name| file.ends_with(name))
        || ["(SELECT", "nextval", "setval", "$1", "formatReadable"].iter().any(|part| sql.contains(part))
}

/// Whether the values are those of the only line that a record expects.
fn same(values: &[String], expected: &[&str]) -> bool {
    let values: Vec<&str> = values.iter().map(|value| if value.is_empty() { "(empty)" } else { value }).collect();
    expected.concat() == values.join(" ")
}

fn slt_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("the folder of the suite exists") {
        let path = entry.expect("a folder can be read").path();
        match path.is_dir() {
            true => slt_files(&path, files),
            false if path.extension().is_some_and(|extension| extension == "slt") => files.push(path),
            false => (),
        }
    }
    files.sort();
}
