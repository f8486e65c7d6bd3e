#![allow(clippy::unwrap_used)]

use datafusion::prelude::{SessionConfig, SessionContext};

use super::*;

struct Names;

impl NameCandidates for Names {
    fn tables(&self) -> Vec<String> {
        vec!["hits".into(), "Users".into()]
    }

    fn functions(&self) -> Vec<String> {
        ["length", "sum", "count", "avg", "row_number", "regexp_replace"].map(String::from).to_vec()
    }

    fn column(&self, _relation: Option<&str>, name: &str) -> String {
        if name == "userid" { "UserID".into() } else { name.into() }
    }
}

async fn context() -> SessionContext {
    let config = SessionConfig::new()
        .set_bool("datafusion.sql_parser.parse_float_as_decimal", true)
        .set_bool("datafusion.sql_parser.collect_spans", true);
    let context = SessionContext::new_with_config(config);
    for sql in [
        "CREATE TABLE hits (userid BIGINT, url TEXT, eventtime TIMESTAMP, d DATE, b BOOLEAN, l INT[])",
        "INSERT INTO hits VALUES (1, 'x', TIMESTAMP '2020-01-01', DATE '2020-01-01', true, [1, 2])",
        "CREATE TABLE users (id BIGINT, name TEXT, userid BIGINT)",
    ] {
        context.sql(sql).await.unwrap().collect().await.unwrap();
    }
    context
}

async fn run(context: &SessionContext, sql: &str) -> Result<(), Error> {
    let frame = context.sql(sql).await.map_err(|error| from_datafusion(error, &Names))?;
    frame.collect().await.map(drop).map_err(|error| from_datafusion(error, &Names))
}

/// Statement, kind, a part of the message, a part of the hint.
const MISTAKES: &[(&str, ErrorKind, &str, &str)] = {
    use ErrorKind::*;
    &[
        ("SELEC 1", Syntax, "at line 1, column 1: found \"SELEC\"", "SELECT"),
        ("SELECT * FORM hits", Syntax, "line 1, column 10: found \"FORM\"", "FROM"),
        ("SELECT 1 +", Syntax, "at the end of the statement", ""),
        ("SELECT 'abc", Syntax, "unterminated string literal", ""),
        ("SELECT (1", Syntax, "at the end of the statement: ) is missing", ""),
        ("SELECT 1)", Syntax, "line 1, column 9: found \")\"", ""),
        ("SELECT usrid FROM hits", UndefinedColumn, "there is no column \"usrid\"", "UserID"),
        ("SELECT hits.usrid FROM hits", UndefinedColumn, "\"hits.usrid\"", "UserID"),
        ("SELECT nothing FROM users", UndefinedColumn, "\"nothing\"", "the columns are UserID, id, name"),
        ("SELECT x.userid FROM hits h", UndefinedTable, "\"x\" is not a table or alias", "h.userid"),
        ("SELECT userid FROM hits, users", AmbiguousColumn, "\"UserID\" is in more than one table", "table.UserID"),
        ("SELECT * FROM hit", UndefinedTable, "there is no table or view \"hit\"", "did you mean hits?"),
        ("SELECT * FROM usres", UndefinedTable, "\"usres\"", "did you mean Users?"),
        ("SELECT * FROM other.hits", UndefinedTable, "\"other.hits\"", "hits"),
        ("SELECT * FROM 'none.parquet'", UndefinedFile, "none.parquet", ""),
        ("SELECT lenght(url) FROM hits", UndefinedFunction, "\"lenght\"", "did you mean length?"),
        ("SELECT row_number() FROM hits", UndefinedFunction, "needs OVER", ""),
        ("SELECT * FROM nosuch(1)", UndefinedFunction, "table function \"nosuch\"", ""),
        ("SELECT length(1, 2)", UndefinedFunction, "takes 1 argument, 2 were given", ""),
        ("SELECT sum(url) FROM hits", UndefinedFunction, "there is no sum(TEXT)", "CAST"),
        ("SELECT abs('x')", UndefinedFunction, "there is no abs(TEXT)", ""),
        ("SELECT url + 1 FROM hits", DatatypeMismatch, "there is no TEXT + BIGINT", ""),
        ("SELECT b + 1 FROM hits", DatatypeMismatch, "there is no BOOLEAN + BIGINT", ""),
        ("SELECT 1 FROM hits WHERE url", DatatypeMismatch, "must be BOOLEAN, but hits.url is TEXT", ""),
        ("SELECT userid AND b FROM hits", DatatypeMismatch, "BIGINT AND BOOLEAN", ""),
        ("SELECT userid FROM hits UNION SELECT b FROM hits", DatatypeMismatch, "UNION", ""),
        ("SELECT userid, count(*) FROM hits", Grouping, "\"hits.userid\" is neither in GROUP BY", "add it to GROUP BY"),
        ("SELECT 1 FROM hits WHERE count(*) > 1", Grouping, "not allowed in WHERE", "HAVING"),
        ("SELECT sum(count(*)) FROM hits", Grouping, "nested", "subquery"),
        ("SELECT userid FROM hits ORDER BY 5", UndefinedColumn, "no column number 5: the result has 1", ""),
        ("SELECT userid FROM hits UNION SELECT 1, 2", CardinalityViolation, "number of columns", ""),
        ("SELECT (SELECT x FROM (VALUES (1), (2)) t(x))", CardinalityViolation, "more than one row", ""),
        ("SELECT x FROM (VALUES (1, 2), (3)) t(x)", CardinalityViolation, "row 2 of VALUES has 1 values", ""),
        ("SELECT CAST('abc' AS INT)", InvalidText, "'abc' is not a value of type INTEGER", ""),
        ("SELECT CAST(url AS INT) FROM hits", InvalidText, "'x' is not a value of type INTEGER", ""),
        (
            "SELECT CAST('99999999999' AS INT)",
            NumericOutOfRange,
            "out of range: '99999999999' does not fit INTEGER",
            "",
        ),
        ("SELECT CAST(300 AS TINYINT)", NumericOutOfRange, "out of range: 300 does not fit TINYINT", ""),
        ("SELECT CAST('xx' AS BOOLEAN)", InvalidText, "'xx' is not a value of type BOOLEAN", ""),
        ("SELECT CAST('xx' AS DECIMAL(10,2))", InvalidText, "'xx' is not a value of type DECIMAL", ""),
        ("SELECT CAST(123.45 AS DECIMAL(4,2))", NumericOutOfRange, "123.45 does not fit DECIMAL(4,2)", ""),
        ("SELECT DATE '2020-02-30'", InvalidDatetime, "'2020-02-30' is not a value of type DATE", ""),
        ("SELECT TIMESTAMP 'x'", InvalidDatetime, "'x' is not a value of type TIMESTAMP", ""),
        ("SELECT INTERVAL 'x'", InvalidDatetime, "'x' is not a value of type INTERVAL", ""),
        ("SELECT 1 / 0", DivisionByZero, "division by zero", ""),
        ("SELECT url ~ '(' FROM hits", InvalidParameter, "'(' is not a regular expression: unclosed group", ""),
        ("SELECT sqrt(-1)", InvalidParameter, "cannot take square root of a negative number", ""),
        ("SELECT 1, 1", DuplicateColumn, "called \"1\"", "AS"),
        ("SELECT $1", UndefinedObject, "the parameter $1 has no value", ""),
        ("SELECT userid FROM hits LIMIT -1", InvalidParameter, "LIMIT must be >= 0", ""),
        ("SELECT chr(-1)", InvalidParameter, "invalid Unicode", ""),
    ]
};

#[tokio::test]
async fn mistakes_are_named_in_our_words() {
    let context = context().await;
    let jargon = ["DataFusion", "Arrow", "Schema error", "caused by", "bug in", "Int64", "Utf8", "Error during"];
    let mut failures = Vec::new();
    for (sql, kind, message, hint) in MISTAKES {
        let Err(error) = run(&context, sql).await else {
            failures.push(format!("{sql}: no error"));
            continue;
        };
        let as_wanted = error.kind() == *kind
            && error.message().contains(message)
            && error.hint_text().unwrap_or("").contains(hint)
            && !jargon.iter().any(|word| error.message().contains(word));
        if !as_wanted {
            failures.push(format!("{sql}: {error:?}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn our_own_errors_come_back_unchanged() {
    let ours = Error::new(ErrorKind::ResultTooLarge, "repeat asked for too much").hint("SET");
    let wrapped = DataFusionError::from(ArrowError::ExternalError(Box::new(ours.clone()))).context("while running");
    let shared = DataFusionError::Shared(std::sync::Arc::new(wrapped));
    assert_eq!(from_datafusion(shared, &NoCandidates), ours);
    assert_eq!(from_datafusion(to_datafusion(ours.clone()), &NoCandidates), ours);
}

#[test]
fn a_panic_is_a_bug_with_its_message() {
    let payload = std::panic::catch_unwind(|| std::panic::resume_unwind(Box::new("index 3 of 2"))).unwrap_err();
    let error = from_panic(payload.as_ref());
    assert_eq!(error.kind(), ErrorKind::Internal);
    assert!(error.message().contains("index 3 of 2"));
}
