//! Messages that are the only place where a name, a value or a type stands, taken apart.
//!
//! Each function takes what one layer writes and returns a kind, a sentence and what helps. A message that matches
//! nothing keeps its text (without the layer's prefixes) and the kind that fits the layer.

use rowmill_base::{Error, ErrorKind, nearest};

use super::NameCandidates;
use super::wording::plain;

/// The part of `text` behind `before` and in front of the next `after`.
fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let start = text.find(before)? + before.len();
    let rest = &text[start..];
    Some(&rest[..rest.find(after)?])
}

fn error(kind: ErrorKind, message: impl Into<String>) -> Error {
    Error::new(kind, message)
}

fn did_you_mean(error: Error, near: &[&str]) -> Error {
    if near.is_empty() { error } else { error.hint(format!("did you mean {}?", near.join(", "))) }
}

/// Words that a statement is made of, for slips of the hand.
const KEYWORDS: &[&str] = &[
    "SELECT",
    "FROM",
    "WHERE",
    "GROUP",
    "ORDER",
    "HAVING",
    "LIMIT",
    "OFFSET",
    "JOIN",
    "LEFT",
    "RIGHT",
    "FULL",
    "INNER",
    "CROSS",
    "UNION",
    "INTERSECT",
    "EXCEPT",
    "DISTINCT",
    "BETWEEN",
    "VALUES",
    "INSERT",
    "UPDATE",
    "DELETE",
    "CREATE",
    "DROP",
    "ALTER",
    "TABLE",
    "VIEW",
    "SCHEMA",
    "INTO",
    "COPY",
    "EXPLAIN",
    "DESCRIBE",
    "SHOW",
    "TRUNCATE",
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
    "WITH",
    "CAST",
    "WINDOW",
    "PARTITION",
    "USING",
];

/// What the parser says: `Expected: identifier, found: FORM at Line: 1, Column: 10`.
pub(super) fn syntax(text: &str) -> Error {
    let (text, place) = match text.rsplit_once(" at Line: ") {
        Some((before, place)) => {
            let (line, column) = place.split_once(", Column: ").unwrap_or((place, "?"));
            (before, format!(" at line {line}, column {column}"))
        }
        None => (text, String::new()),
    };
    let text = text.strip_prefix("sql parser error: ").unwrap_or(text);
    let Some((expected, found)) = text
        .strip_prefix("Expected: ")
        .or(text.strip_prefix("Expected "))
        .and_then(|rest| rest.rsplit_once(", found: "))
    else {
        let text = text.trim_end_matches('.').trim_end();
        return error(ErrorKind::Syntax, format!("syntax error{place}: {}", lower_first(&plain(text))));
    };
    if found == "EOF" {
        return error(ErrorKind::Syntax, format!("syntax error at the end of the statement: {expected} is missing"));
    }
    let message = format!("syntax error{place}: found \"{found}\" where {expected} was expected");
    did_you_mean(error(ErrorKind::Syntax, message), &near_keywords(found))
}

fn near_keywords(found: &str) -> Vec<&'static str> {
    if found.len() < 3 || KEYWORDS.contains(&found.to_ascii_uppercase().as_str()) {
        return Vec::new();
    }
    let mut near = nearest(found, KEYWORDS.iter().copied());
    near.retain(|keyword| keyword.len().abs_diff(found.len()) <= 2);
    near
}

fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first.to_lowercase().chain(chars).collect(),
        None => String::new(),
    }
}

/// What the planner says about a statement that parses.
pub(super) fn planning(text: &str, names: &dyn NameCandidates) -> Error {
    if let Some(name) = between(text, "table '", "' not found") {
        return undefined_table(name, names);
    }
    if let Some(name) = between(text, "table function '", "' not found") {
        return error(ErrorKind::UndefinedFunction, format!("there is no table function \"{name}\""));
    }
    if let Some(name) = between(text, "Invalid function '", "'") {
        return undefined_function(name, names);
    }
    if let Some(failed) = wrong_arguments(text) {
        return failed;
    }
    if let Some(failed) = wrong_types(text) {
        return failed;
    }
    if let Some(failed) = wrong_counts(text) {
        return failed;
    }
    if let Some(failed) = wrong_grouping(text) {
        return failed;
    }
    if let Some(name) = between(text, "WITH query name \"", "\"") {
        return error(ErrorKind::DuplicateTable, format!("the WITH clause names \"{name}\" twice"));
    }
    if text.contains("require unique expression names") {
        let name = between(text, "the expression \"", "\" at").unwrap_or("?");
        let alias = name.rsplit_once(" AS ").map(|(_, alias)| alias).filter(|alias| !alias.contains(')'));
        let name = alias.unwrap_or(name);
        return error(ErrorKind::DuplicateColumn, format!("two columns of the result are called \"{}\"", plain(name)))
            .hint("give one of them another name with AS");
    }
    if let Some(name) = between(text, "The window ", " is not defined") {
        return error(ErrorKind::UndefinedObject, format!("the window \"{name}\" is not defined"))
            .hint("WINDOW name AS (...) behind the query defines it");
    }
    if text.contains("Correlated scalar subquery can only be used in") {
        return error(ErrorKind::Unsupported, "a subquery in ORDER BY cannot refer to the tables of its query")
            .hint("select it under a name, and order by that name");
    }
    if text.contains("must be an INTEGER or NULL, got Column(") {
        return error(ErrorKind::Unsupported, "the arguments of a table function must be constants")
            .hint("unnest(range(...)) in a select list takes columns");
    }
    if text.contains("must be >= 0") {
        return error(ErrorKind::InvalidParameter, plain(text));
    }
    if text.contains("Percentile value must be") || text.starts_with("There is no built-in") {
        return error(ErrorKind::InvalidParameter, plain(text));
    }
    error(ErrorKind::Syntax, plain(text))
}

fn undefined_table(name: &str, names: &dyn NameCandidates) -> Error {
    let (catalog, schema) = names.default_schema();
    let short = name
        .strip_prefix(&format!("{catalog}.{schema}."))
        .or(name.strip_prefix(&format!("{catalog}.")))
        .unwrap_or(name);
    let extension = short.rsplit_once('.').map_or("", |(_, extension)| extension).to_ascii_lowercase();
    if short.contains('/') || ["parquet", "csv", "tsv", "json", "ndjson", "jsonl", "arrow", "gz"].contains(&&*extension)
    {
        return error(ErrorKind::UndefinedFile, format!("there is no file \"{short}\""));
    }
    let tables = names.tables();
    let bare = short.rsplit('.').next().unwrap_or(short);
    let near = nearest(bare, tables.iter().map(String::as_str));
    did_you_mean(error(ErrorKind::UndefinedTable, format!("there is no table or view \"{short}\"")), &near)
}

fn undefined_function(name: &str, names: &dyn NameCandidates) -> Error {
    let functions = names.functions();
    if functions.iter().any(|known| known.eq_ignore_ascii_case(name)) || WINDOW_ONLY.contains(&name) {
        return error(ErrorKind::UndefinedFunction, format!("{name} is a window function and needs OVER (...)"));
    }
    let near = nearest(name, functions.iter().map(String::as_str));
    did_you_mean(error(ErrorKind::UndefinedFunction, format!("there is no function \"{name}\"")), &near)
}

const WINDOW_ONLY: &[&str] = &["row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile", "lag", "lead"];

/// A function that exists, called with what it does not take.
fn wrong_arguments(text: &str) -> Option<Error> {
    if !text.contains("No function matches") && !text.contains("failed to match any signature") {
        return None;
    }
    if let Some(name) = between(text, "Function '", "' expects ")
        && let Some(takes) = between(text, "' expects ", " arguments but received ")
        && takes.parse::<usize>().is_ok()
    {
        let given = text.split("arguments but received ").nth(1).unwrap_or("");
        let given: String = given.chars().take_while(char::is_ascii_digit).collect();
        return Some(error(
            ErrorKind::UndefinedFunction,
            format!("{name} takes {takes} {}, {given} were given", if takes == "1" { "argument" } else { "arguments" }),
        ));
    }
    if let Some(call) = between(text, "argument types '", "'.") {
        return Some(error(ErrorKind::UndefinedFunction, format!("there is no {}", plain(call))).hint(CAST_HINT));
    }
    let name = between(text, "Function '", "'")?;
    let given = between(text, "(DataType: ", ")").map(plain);
    let message = match given {
        Some(given) => format!("there is no {name}({given})"),
        None => format!("{name} does not take these arguments"),
    };
    Some(error(ErrorKind::UndefinedFunction, message).hint(CAST_HINT))
}

const CAST_HINT: &str = "check the order and the types of the arguments; CAST(... AS type) makes another type of one";

/// Types that do not go together.
fn wrong_types(text: &str) -> Option<Error> {
    let mismatch = |message: String| Some(error(ErrorKind::DatatypeMismatch, message));
    if let Some(pair) = between(text, "Cannot coerce arithmetic expression ", " to valid types") {
        return mismatch(format!("there is no {}", plain(pair))).map(|error| error.hint("CAST one side to a number"));
    }
    if let Some(pair) = between(text, "Cannot get result type for temporal operation ", ": ") {
        return mismatch(format!("there is no {}", plain(pair)));
    }
    if let Some(rest) = text.split("Cannot infer common ").nth(1) {
        let pair = rest.rsplit_once(" operation ").map_or(rest, |(_, pair)| pair);
        return mismatch(format!("the two sides of {} do not go together", plain(pair)));
    }
    if text.contains("Cannot create filter with non-boolean predicate") {
        let predicate = between(text, "predicate '", "' returning").unwrap_or("the condition");
        let kind = text.rsplit_once(" returning ").map_or("another type", |(_, kind)| kind);
        return mismatch(format!("a condition must be BOOLEAN, but {} is {}", plain(predicate), plain(kind)));
    }
    if let Some((_, kind)) = text.split_once("Join condition must be boolean type, but got ") {
        return mismatch(format!("a condition must be BOOLEAN, but the one of a JOIN is {}", plain(kind)));
    }
    let known = [
        "Incompatible inputs for Union",
        "Failed to coerce",
        "must be boolean type",
        "requires a boolean expression",
        "to be an integer or null",
        "does not support type",
        "Cannot access field at argument",
        "Unsupported CAST",
        "Cannot cast",
    ];
    if !known.iter().any(|part| text.contains(part)) {
        return None;
    }
    let text = text.split(" No function matches").next().unwrap_or(text);
    let text = match text.split_once("Incompatible inputs for Union: ") {
        Some((_, rest)) => format!("the columns of a UNION do not match: {}", lower_first(rest)),
        None => text.to_string(),
    };
    mismatch(plain(&text))
}

/// Numbers of columns or values that do not match.
fn wrong_counts(text: &str) -> Option<Error> {
    let mismatch = |message: String| Some(error(ErrorKind::CardinalityViolation, message));
    if text.contains("Inconsistent data length across values list") {
        let got = between(text, "got ", " values in row ").unwrap_or("?");
        let row = between(text, " values in row ", " but").and_then(|row| row.parse::<usize>().ok()).unwrap_or(0);
        let wanted = text.rsplit_once("but expected ").map_or("?", |(_, wanted)| wanted);
        return mismatch(format!("row {} of VALUES has {got} values where {wanted} are needed", row + 1));
    }
    if text.contains("different number of columns") {
        return mismatch("the queries of a UNION, INTERSECT or EXCEPT must have the same number of columns".into());
    }
    if text.contains("Too many columns!") {
        return mismatch("a subquery that stands for a value must have one column".into());
    }
    if text.contains("names given as column alias") {
        let has = between(text, "contains ", " columns").unwrap_or("?");
        let named = between(text, "but only ", " names").or(between(text, "but ", " names")).unwrap_or("?");
        return mismatch(format!("{named} columns are named, but the query or table has {has}"));
    }
    if text.contains("Order by index starts at 1") {
        let error = error(ErrorKind::UndefinedColumn, "there is no column number 0: the first one is 1");
        return Some(error);
    }
    if text.contains("column out of bounds") || text.contains("Cannot find column with position") {
        let asked = between(text, "specified: ", ",").or(between(text, "with position ", " in")).unwrap_or("?");
        let columns = text.rsplit_once("max: ").or(text.rsplit_once(" to ")).map_or("?", |(_, columns)| columns);
        return Some(error(
            ErrorKind::UndefinedColumn,
            format!("there is no column number {asked}: the result has {columns}"),
        ));
    }
    None
}

/// Columns and aggregates where GROUP BY does not allow them.
fn wrong_grouping(text: &str) -> Option<Error> {
    let grouping = |message: String| Some(error(ErrorKind::Grouping, message));
    if text.contains("must be in GROUP BY or an aggregate function")
        || text.contains("must appear in the GROUP BY clause")
    {
        let column = between(text, "column \"", "\" must").or(between(text, "references: ", " must")).map(plain);
        let column = column.map_or("a column".into(), |column| format!("\"{column}\""));
        return grouping(format!("{column} is neither in GROUP BY nor inside an aggregate function"))
            .map(|error| error.hint("add it to GROUP BY, or use min, max or any other aggregate of it"));
    }
    if text.contains("Aggregate functions are not allowed in the WHERE clause") {
        return grouping("aggregate functions are not allowed in WHERE".into())
            .map(|error| error.hint("conditions on groups stand in HAVING"));
    }
    if text.contains("Aggregate function calls cannot be nested") {
        return grouping("aggregate functions cannot be nested".into())
            .map(|error| error.hint("compute the inner one in a subquery"));
    }
    None
}

/// What an operator or a function says about a value.
pub(super) fn execution(text: &str, names: &dyn NameCandidates) -> Error {
    if let Some(message) = text.strip_prefix("Error during planning: ") {
        return planning(message, names);
    }
    if text.contains("was not provided a value") {
        let name = between(text, "Placeholder '", "'").unwrap_or("?");
        return error(ErrorKind::UndefinedObject, format!("the parameter {name} has no value"));
    }
    if text.contains("Scalar subquery returned more than one row") {
        return error(ErrorKind::CardinalityViolation, "a subquery that stands for a value returned more than one row");
    }
    if text.contains("too large to store in a Decimal") || text.contains("too small to store in a Decimal") {
        return decimal_out_of_range(text);
    }
    if text.contains("ivide by zero") || text.contains("ivision by zero") {
        return division_by_zero();
    }
    let lower = text.to_ascii_lowercase();
    if lower.contains("overflow") {
        return overflow(text);
    }
    if text.contains("Error parsing timestamp") {
        return bad_text(text);
    }
    if text.contains("Table '") && text.contains("doesn't exist") {
        return undefined_table(between(text, "Table '", "'").unwrap_or("?"), names);
    }
    if let Some(failed) = wrong_types(text) {
        return failed;
    }
    if lower.contains("value '") && lower.contains("is out of range") {
        return error(ErrorKind::InvalidDatetime, plain(text));
    }
    if text.contains("regex parse error") {
        return bad_regex(text);
    }
    error(ErrorKind::InvalidParameter, plain(text))
}

/// What this engine would have to learn first.
pub(super) fn unsupported(text: &str, names: &dyn NameCandidates) -> Error {
    if text.contains("Unsupported CAST") {
        return planning(text, names);
    }
    if text.contains("Unsupported ast node") {
        // The rest is a syntax tree; its first word names the construct.
        let node = text.rsplit_once("sqltorel: ").map_or(text, |(_, node)| node);
        let node: String = node.chars().take_while(|c| c.is_alphanumeric()).collect();
        return error(ErrorKind::Unsupported, format!("{} is not supported", node.to_uppercase()));
    }
    if let Some(name) = text.split("Unsupported SQL type ").nth(1) {
        return error(ErrorKind::UndefinedObject, format!("there is no type {name}"));
    }
    if text.contains("physical plan does not support logical expression") {
        return error(
            ErrorKind::Unsupported,
            "a subquery or a reference to an outer query is not supported in this place",
        )
        .hint("compute it in a subquery of FROM, and join that");
    }
    let text = plain(text);
    if text.contains("support") || text.contains("implemented") {
        error(ErrorKind::Unsupported, lower_first(&text))
    } else {
        error(ErrorKind::Unsupported, format!("not supported: {text}"))
    }
}

/// A broken invariant of the planner or an operator.
pub(super) fn internal(text: &str, names: &dyn NameCandidates) -> Error {
    if text.contains("failed to match any signature") {
        return planning(text, names);
    }
    Error::internal(format!("the statement failed with a bug: {}", plain(text)))
        .hint("the database stays usable; please report the statement")
}

/// Memory or disk for temporary files that an operator did not get.
pub(super) fn exhausted(text: &str) -> Error {
    if text.contains("disk space") {
        return error(ErrorKind::DiskFull, plain(text));
    }
    error(ErrorKind::MemoryLimit, plain(text)).hint("raise it with SET memory_limit = '...'")
}

pub(super) fn division_by_zero() -> Error {
    error(ErrorKind::DivisionByZero, "division by zero")
}

/// A batch that outgrew the two gigabytes that 32-bit offsets reach.
pub(super) fn batch_too_large(bytes: u64) -> Error {
    error(ErrorKind::ResultTooLarge, format!("a batch of text would take {bytes} bytes, more than 2147483647"))
        .hint("fewer rows per batch help: SET batch_rows = ...")
}

/// `Overflow happened on: 9223372036854775807 + 1`, `Int64Array overflow on abs(-9223372036854775808)`.
pub(super) fn overflow(text: &str) -> Error {
    let what = ["Overflow happened on: ", "Overflow happened on ", "overflow on ", "overflow in "]
        .iter()
        .find_map(|before| text.split_once(before).map(|(_, what)| what));
    let message = match what {
        Some(what) => format!("number out of range: the result of {} does not fit", plain(what)),
        None => format!("number out of range: {}", lower_first(&plain(text))),
    };
    error(ErrorKind::NumericOutOfRange, message)
}

/// `123.45 is too large to store in a Decimal128 of precision 4. Max is 99.99`
fn decimal_out_of_range(text: &str) -> Error {
    let text = plain(text);
    let value = text.split(" is too ").next().unwrap_or("a value");
    let precision = between(&text, "of precision ", ".").unwrap_or("38");
    let scale = value.split_once('.').map_or(0, |(_, digits)| digits.len());
    error(
        ErrorKind::NumericOutOfRange,
        format!("number out of range: {value} does not fit DECIMAL({precision},{scale})"),
    )
}

/// `Cannot cast string 'abc' to value of Int32 type`, `Can't cast value 300 to type Int8`.
pub(super) fn bad_cast(text: &str) -> Error {
    if let Some((value, kind)) = text.strip_prefix("Cannot cast string '").and_then(|rest| rest.rsplit_once("' to ")) {
        let kind = kind.trim_start_matches("value of ").trim_end_matches(" type");
        return not_a_value(value, kind);
    }
    if let Some((value, kind)) = text.strip_prefix("Cannot cast value '").and_then(|rest| rest.rsplit_once("' to ")) {
        let kind = kind.trim_start_matches("value of ").trim_end_matches(" type");
        return not_a_value(value, kind);
    }
    if let Some((value, kind)) = text.strip_prefix("Can't cast value ").and_then(|rest| rest.rsplit_once(" to type ")) {
        return error(
            ErrorKind::NumericOutOfRange,
            format!("number out of range: {} does not fit {}", plain(value), plain(kind)),
        );
    }
    if text.contains("too large to store") || text.contains("too small to store") {
        return decimal_out_of_range(text);
    }
    if text.to_ascii_lowercase().contains("overflow") {
        return error(ErrorKind::NumericOutOfRange, format!("number out of range: {}", lower_first(&plain(text))));
    }
    if text.contains("not supported") || text.starts_with("Casting from") {
        return error(ErrorKind::DatatypeMismatch, plain(text));
    }
    error(ErrorKind::InvalidText, plain(text))
}

/// A text that is not a value of the Arrow type `kind`.
pub(super) fn not_a_value(value: &str, kind: &str) -> Error {
    // Reading a decimal goes through the widest one; its digits are not what was asked for.
    let sql = if kind.starts_with("Decimal") { "DECIMAL".to_string() } else { plain(kind) };
    let number = ["INT", "DECIMAL", "REAL", "DOUBLE"].iter().any(|part| sql.contains(part)) && sql != "INTERVAL";
    if number && is_number(value) && (is_integer(value) || !sql.contains("INT")) {
        return error(ErrorKind::NumericOutOfRange, format!("number out of range: '{value}' does not fit {sql}"));
    }
    let kind = match sql.as_str() {
        "DATE" | "TIME" => ErrorKind::InvalidDatetime,
        text if text.starts_with("TIMESTAMP") => ErrorKind::InvalidDatetime,
        _ => ErrorKind::InvalidText,
    };
    error(kind, format!("'{}' is not a value of type {sql}", clip(value)))
}

/// A long text is named by its beginning.
fn clip(text: &str) -> String {
    const CHARS_MAX: usize = 100;
    match text.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_string(),
    }
}

fn is_integer(text: &str) -> bool {
    let digits = text.trim().trim_start_matches(['+', '-']);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_number(text: &str) -> bool {
    let text = text.trim();
    text.bytes().any(|byte| byte.is_ascii_digit()) && text.parse::<f64>().is_ok()
}

/// `Error parsing timestamp from 'xx': timestamp must contain at least 10 characters`
pub(super) fn bad_text(text: &str) -> Error {
    if let Some((value, why)) =
        text.split_once("Error parsing timestamp from '").and_then(|(_, rest)| rest.rsplit_once("': "))
    {
        return error(ErrorKind::InvalidDatetime, format!("'{}' is not a value of type TIMESTAMP: {why}", clip(value)));
    }
    if let Some(value) = between(text, "Invalid input syntax for type interval: \"", "\"") {
        return error(ErrorKind::InvalidDatetime, format!("'{}' is not a value of type INTERVAL", clip(value)));
    }
    let text = plain(text);
    let kind =
        if text.to_ascii_lowercase().contains("time") { ErrorKind::InvalidDatetime } else { ErrorKind::InvalidText };
    error(kind, text)
}

/// A pattern that is no regular expression. The library draws it over several lines; the last one says why.
pub(super) fn bad_regex(text: &str) -> Error {
    if text.contains("exceeds size limit") {
        return error(ErrorKind::ResultTooLarge, "the regular expression is too large once compiled")
            .hint("smaller counts in {n,m} help");
    }
    let why = text.lines().rev().find_map(|line| line.trim().strip_prefix("error: ")).unwrap_or("it does not parse");
    let is_drawn = |line: &&str| !line.is_empty() && !line.trim_matches(['~', '^', ' ']).is_empty();
    let pattern = text.lines().skip(1).map(str::trim).find(is_drawn).unwrap_or("");
    error(ErrorKind::InvalidParameter, format!("'{}' is not a regular expression: {why}", clip(pattern)))
}
