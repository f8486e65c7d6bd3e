//! Statements that the server answers itself: PostgreSQL's settings, prepared statements and cursors of SQL, and
//! requests for things that a database of ours does not have.

use std::sync::Arc;

use rowmill::arrow::array::{ArrayRef, RecordBatch, StringArray};
use rowmill::arrow::compute::concat_batches;
use rowmill::text::{Lexeme, LexemeKind};
use rowmill::{Outcome, RowStream};

use crate::client_settings::{ClientSettings, is_on};
use crate::copy::ClientCopy;
use crate::extended::{PreparedBody, PreparedOnWire};
use crate::portal::{OpenRows, Portal};
use crate::session::PgSession;
use crate::socket::ClientStream;
use crate::sql_words::{name_of, placed_words, value_of, words};
use crate::wire_error::{NO_PORTAL, NO_STATEMENT, StepResult, UNSUPPORTED, WireError};

/// The words that begin the statements of this file.
const FIRST_WORDS: [&str; 13] = [
    "SET",
    "SHOW",
    "RESET",
    "DISCARD",
    "PREPARE",
    "EXECUTE",
    "DEALLOCATE",
    "DECLARE",
    "FETCH",
    "MOVE",
    "CLOSE",
    "LISTEN",
    "NOTIFY",
];

/// Whether the server answers the statement itself. `first` is its first word.
pub(crate) fn is_own(first: &str, sql: &str) -> bool {
    match first {
        "SET" => SetStatement::of(sql).is_some(),
        "SHOW" => shown_name(sql).is_some(),
        "RESET" => words(sql).nth(1).is_some_and(|word| is_setting(&name_of(&word))),
        "COPY" => ClientCopy::of(sql).is_some(),
        "UNLISTEN" => true,
        first => FIRST_WORDS.contains(&first),
    }
}

fn is_setting(name: &str) -> bool {
    ClientSettings::is_known(name) || is_translated(name)
}

/// Settings of PostgreSQL that the engine has under other names.
fn is_translated(name: &str) -> bool {
    matches!(name, "statement_timeout" | "transaction_isolation" | "transaction_read_only")
}

/// `SET name = value` of a setting of PostgreSQL.
struct SetStatement {
    name: String,
    /// `None` for DEFAULT.
    value: Option<String>,
}

impl SetStatement {
    fn of(sql: &str) -> Option<SetStatement> {
        let all: Vec<Lexeme<'_>> = words(sql).skip(1).collect();
        let mut rest = all.as_slice();
        let starts =
            |rest: &[Lexeme<'_>], word: &str| rest.first().is_some_and(|at| at.text.eq_ignore_ascii_case(word));
        if starts(rest, "SESSION") || starts(rest, "LOCAL") {
            rest = &rest[1..];
        }
        let name = match rest {
            [time, zone, after @ ..]
                if time.text.eq_ignore_ascii_case("time") && zone.text.eq_ignore_ascii_case("zone") =>
            {
                rest = after;
                "timezone".to_owned()
            }
            [names, after @ ..] if names.text.eq_ignore_ascii_case("names") => {
                rest = after;
                "client_encoding".to_owned()
            }
            [name, sign, after @ ..] if sign.text == "=" || sign.text.eq_ignore_ascii_case("to") => {
                rest = after;
                name_of(name)
            }
            _ => return None,
        };
        if !is_setting(&name) || rest.is_empty() {
            return None;
        }
        let value: String = match rest {
            [value] if value.text.eq_ignore_ascii_case("default") => return Some(SetStatement { name, value: None }),
            [value] => value_of(value),
            values => {
                values.iter().map(|value| if value.text == "," { ", ".into() } else { value_of(value) }).collect()
            }
        };
        Some(SetStatement { name, value: Some(value) })
    }
}

/// The setting that a `SHOW` names, if it is one of PostgreSQL.
fn shown_name(sql: &str) -> Option<String> {
    let names: Vec<String> = words(sql).skip(1).map(|word| name_of(&word)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    match names.as_slice() {
        ["transaction", "isolation", "level"] => Some("transaction_isolation".to_owned()),
        ["time", "zone"] => Some("timezone".to_owned()),
        [name] if is_setting(name) => Some((*name).to_owned()),
        _ => None,
    }
}

/// Returns one row of one text.
fn one_text(name: &str, value: &str) -> Result<Outcome, WireError> {
    let column: ArrayRef = Arc::new(StringArray::from(vec![value]));
    let batch = RecordBatch::try_from_iter_with_nullable([(name, column, false)]);
    let batch = batch.map_err(|error| WireError::new("XX000", error.to_string()))?;
    Ok(Outcome::Rows(RowStream::ready(batch)))
}

impl PgSession {
    /// Runs a statement for which [`is_own`] holds.
    pub(crate) fn run_own(&mut self, first: &str, sql: &str, client: &mut ClientStream) -> StepResult<Outcome> {
        let tag = match first {
            "SET" => {
                let set = SetStatement::of(sql).ok_or_else(|| syntax("SET takes a name and a value"))?;
                self.set(&set.name, set.value.as_deref(), client)?;
                "SET"
            }
            "SHOW" => {
                let name = shown_name(sql).ok_or_else(|| syntax("SHOW takes the name of a setting"))?;
                return Ok(self.show(&name)?);
            }
            "RESET" => {
                let name = words(sql).nth(1).map(|word| name_of(&word)).unwrap_or_default();
                self.set(&name, None, client)?;
                "RESET"
            }
            "DISCARD" => {
                self.discard(sql, client)?;
                "DISCARD ALL"
            }
            "PREPARE" => {
                self.sql_prepare(sql)?;
                "PREPARE"
            }
            "COPY" => return self.run_copy(sql, client),
            "EXECUTE" => return self.sql_execute(sql),
            "DEALLOCATE" => {
                self.sql_deallocate(sql)?;
                "DEALLOCATE"
            }
            "DECLARE" => {
                self.declare_cursor(sql)?;
                "DECLARE CURSOR"
            }
            "FETCH" | "MOVE" => return self.fetch(first, sql, client),
            "CLOSE" => {
                self.close_cursor(sql)?;
                "CLOSE CURSOR"
            }
            // Nothing is ever listened to, so there is nothing to end.
            "UNLISTEN" => "UNLISTEN",
            _ => {
                let error = WireError::new(UNSUPPORTED, format!("{first} is not supported"));
                return Err(error.hint("there are no notifications; ask for changed rows with a query").into());
            }
        };
        Ok(Outcome::Done { tag })
    }

    /// Sets a setting of PostgreSQL, or gives it its first value again.
    pub(crate) fn set(&mut self, name: &str, value: Option<&str>, client: &mut ClientStream) -> StepResult {
        match name {
            "statement_timeout" => {
                let sql = match value {
                    Some(value) => format!("SET statement_timeout_ms = {}", milliseconds(value)?),
                    None => "RESET statement_timeout_ms".to_owned(),
                };
                self.connection.execute_batch(&sql)?;
            }
            "transaction_isolation" => {
                let default = self.connection.settings().show("default_transaction_isolation")?;
                let level = value.unwrap_or(&default);
                self.connection.execute_batch(&format!("SET TRANSACTION ISOLATION LEVEL {}", keyword(level)?))?;
            }
            "transaction_read_only" => {
                let mode = if value.map_or(self.reads_only(), is_on) { "READ ONLY" } else { "READ WRITE" };
                self.connection.execute_batch(&format!("SET TRANSACTION {mode}"))?;
            }
            name if name.eq_ignore_ascii_case("timezone") => {
                self.set_zone(value)?.iter().for_each(|setting| client.put(&setting.message()));
            }
            name => {
                let reported = self.settings.set(name, value)?;
                reported.iter().for_each(|setting| client.put(&setting.message()));
                self.note_application();
            }
        }
        Ok(())
    }

    fn show(&self, name: &str) -> Result<Outcome, WireError> {
        let engine = |name: &str| self.connection.settings().show(name).map_err(|error| WireError::of(&error));
        match name {
            "statement_timeout" => one_text(name, &engine("statement_timeout_ms")?),
            "transaction_isolation" => match self.connection.open_transaction() {
                Some(open) => one_text(name, open.isolation.name()),
                None => one_text(name, &engine("default_transaction_isolation")?),
            },
            "transaction_read_only" => {
                let reads_only = self.connection.open_transaction().map_or(self.reads_only(), |open| open.is_read_only);
                one_text(name, if reads_only { "on" } else { "off" })
            }
            name => match self.settings.show(name) {
                Some((name, value)) => one_text(name, &value),
                None => Err(WireError::new("42704", format!("unrecognized configuration parameter \"{name}\""))),
            },
        }
    }

    fn discard(&mut self, sql: &str, client: &mut ClientStream) -> StepResult {
        self.connection.execute_batch(sql)?;
        if !words(sql).nth(1).is_some_and(|word| word.text.eq_ignore_ascii_case("all")) {
            return Ok(());
        }
        self.statements.clear();
        self.portals.clear();
        self.settings.reset().iter().for_each(|setting| client.put(&setting.message()));
        self.note_application();
        Ok(())
    }

    /// Runs PREPARE. The engine keeps the statement for EXECUTE, and the session for messages of the protocol that name
    /// it.
    fn sql_prepare(&mut self, sql: &str) -> StepResult {
        let mut lexemes = placed_words(sql).skip(1);
        let name = lexemes.next().map(|(_, word)| name_of(&word)).ok_or_else(|| syntax("PREPARE takes a name"))?;
        if self.statements.contains_key(&name) {
            return Err(WireError::new("42P05", format!("prepared statement \"{name}\" already exists")).into());
        }
        self.run_by_engine(sql)?;
        let at = lexemes.find(|(_, word)| word.kind == LexemeKind::Word && word.text.eq_ignore_ascii_case("as"));
        let (at, word) = at.ok_or_else(|| syntax("PREPARE name AS is followed by a statement"))?;
        match self.prepare(sql[at + word.text.len()..].trim(), &[]) {
            Ok(prepared) => {
                self.statements.insert(name, Arc::new(prepared));
                Ok(())
            }
            Err(fault) => {
                self.connection.end_statement_name(&name);
                Err(fault)
            }
        }
    }

    /// Runs EXECUTE. The engine does it, also for a statement that the protocol has prepared.
    fn sql_execute(&mut self, sql: &str) -> StepResult<Outcome> {
        let name = words(sql).nth(1).map(|word| name_of(&word)).ok_or_else(|| syntax("EXECUTE takes a name"))?;
        let prepared = self.statement_named(&name)?;
        if self.connection.has_named_statement(&name) {
            return self.run_by_engine(sql);
        }
        let PreparedBody::Engine { statement, .. } = &prepared.body else {
            return Err(WireError::new(UNSUPPORTED, "EXECUTE takes a query or a change of rows").into());
        };
        statement.set_name(&mut self.connection, &name)?;
        let ran = self.run_by_engine(sql);
        self.connection.end_statement_name(&name);
        ran
    }

    fn sql_deallocate(&mut self, sql: &str) -> StepResult {
        let mut names = words(sql).skip(1).filter(|word| !word.text.eq_ignore_ascii_case("prepare"));
        match names.next() {
            Some(all) if all.kind == LexemeKind::Word && all.text.eq_ignore_ascii_case("all") => {
                self.statements.clear();
                self.run_by_engine("DEALLOCATE ALL")?;
                Ok(())
            }
            Some(name) => {
                let name = name_of(&name);
                self.statements.remove(&name).ok_or_else(|| no_statement(&name))?;
                self.connection.end_statement_name(&name);
                Ok(())
            }
            None => Err(syntax("DEALLOCATE takes a name").into()),
        }
    }

    fn run_by_engine(&mut self, sql: &str) -> StepResult<Outcome> {
        self.connection.run_one(sql, &[]).map_err(|error| WireError::in_text(&error, sql, 0).into())
    }

    fn declare_cursor(&mut self, sql: &str) -> StepResult {
        let mut lexemes = placed_words(sql).skip(1);
        let name = lexemes.next().map(|(_, word)| name_of(&word)).ok_or_else(|| syntax("DECLARE takes a name"))?;
        let mut query = None;
        for (at, word) in lexemes {
            if word.text.eq_ignore_ascii_case("scroll") || word.text.eq_ignore_ascii_case("hold") {
                // NO SCROLL and WITHOUT HOLD name what we do anyway, but the words before are already read.
                let before = sql[..at].trim_end().to_ascii_lowercase();
                if !before.ends_with("no") && !before.ends_with("without") {
                    let what = word.text.to_ascii_uppercase();
                    return Err(WireError::new(UNSUPPORTED, format!("{what} cursors are not supported")).into());
                }
            }
            if word.kind == LexemeKind::Word && word.text.eq_ignore_ascii_case("for") {
                query = Some(at + word.text.len());
                break;
            }
        }
        let start = query.ok_or_else(|| syntax("DECLARE name CURSOR FOR is followed by a query"))?;
        if self.block.is_idle() {
            return Err(WireError::new("25P01", "DECLARE CURSOR can only be used in transaction blocks").into());
        }
        if self.portals.contains_key(&name) {
            return Err(WireError::new("42P03", format!("cursor \"{name}\" already exists")).into());
        }
        let outcome = self.connection.run_one(&sql[start..], &[]);
        match outcome.map_err(|error| WireError::in_text(&error, sql, start))? {
            Outcome::Rows(rows) => {
                self.portals.insert(name, Portal::cursor(OpenRows::new(rows)));
                Ok(())
            }
            _ => Err(syntax("a cursor needs a query").into()),
        }
    }

    /// Runs `FETCH [NEXT | n | ALL | FORWARD [n | ALL]] [FROM | IN] name`, and `MOVE`, which returns no rows.
    /// A portal that was bound and did not run yet is started.
    fn fetch(&mut self, first: &str, sql: &str, client: &mut ClientStream) -> StepResult<Outcome> {
        let mut count = 1_usize;
        let mut name = None;
        for word in words(sql).skip(1) {
            match word.text.to_ascii_uppercase().as_str() {
                "NEXT" | "FORWARD" | "FROM" | "IN" => {}
                "ALL" => count = usize::MAX,
                "PRIOR" | "BACKWARD" | "FIRST" | "LAST" | "ABSOLUTE" | "RELATIVE" | "-" => {
                    return Err(WireError::new("55000", "cursors only go forward").into());
                }
                _ if word.kind == LexemeKind::Number => {
                    count = word.text.parse().map_err(|_| syntax("FETCH takes a number of rows"))?;
                }
                _ => name = Some(name_of(&word)),
            }
        }
        let name = name.ok_or_else(|| syntax("FETCH takes the name of a cursor"))?;
        if let Some(mut portal) = self.portals.remove(&name) {
            let started = self.start_rows(&mut portal, client);
            self.portals.insert(name.clone(), portal);
            started?;
        }
        let rows = self.portals.get_mut(&name).and_then(Portal::rows);
        let rows = rows.ok_or_else(|| no_cursor(&name))?;
        let mut batches = Vec::new();
        let mut taken = 0;
        while taken < count {
            let Some(batch) = rows.take(count - taken)? else { break };
            taken += batch.num_rows();
            if first == "FETCH" {
                batches.push(batch);
            }
        }
        if first == "MOVE" {
            return Ok(Outcome::Changed { tag: "MOVE", rows: taken as u64 });
        }
        let schema = batches.first().map_or_else(|| Arc::clone(rows.schema()), RecordBatch::schema);
        let batch = concat_batches(&schema, &batches).map_err(|error| WireError::new("XX000", error.to_string()))?;
        Ok(Outcome::Rows(RowStream::ready(batch)))
    }

    fn close_cursor(&mut self, sql: &str) -> StepResult {
        match words(sql).nth(1) {
            Some(all) if all.kind == LexemeKind::Word && all.text.eq_ignore_ascii_case("all") => self.portals.clear(),
            Some(name) => {
                let name = name_of(&name);
                self.portals.remove(&name).ok_or_else(|| no_cursor(&name))?;
            }
            None => return Err(syntax("CLOSE takes the name of a cursor").into()),
        }
        Ok(())
    }

    /// The prepared statement of this name.
    pub(crate) fn statement_named(&self, name: &str) -> Result<Arc<PreparedOnWire>, WireError> {
        self.statements.get(name).cloned().ok_or_else(|| no_statement(name))
    }
}

fn no_statement(name: &str) -> WireError {
    match name {
        "" => WireError::new(NO_STATEMENT, "unnamed prepared statement does not exist"),
        name => WireError::new(NO_STATEMENT, format!("prepared statement \"{name}\" does not exist")),
    }
}

fn no_cursor(name: &str) -> WireError {
    WireError::new(NO_PORTAL, format!("cursor \"{name}\" does not exist"))
}

fn syntax(message: &str) -> WireError {
    WireError::new("42601", message)
}

/// Reads a time as PostgreSQL writes it: a number of milliseconds, or a number with a unit.
pub(crate) fn milliseconds(text: &str) -> Result<u64, WireError> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let factor = match unit.trim() {
        "" | "ms" => 1,
        "s" => 1_000,
        "min" => 60_000,
        "h" => 3_600_000,
        _ => return Err(WireError::new("22023", format!("\"{text}\" is not a time: write 500, 500ms or 5s"))),
    };
    let number: Option<u64> = number.parse().ok();
    number
        .and_then(|number| number.checked_mul(factor))
        .ok_or_else(|| WireError::new("22023", format!("\"{text}\" is not a time: write 500, 500ms or 5s")))
}

/// Returns a name of an isolation level as it may be put into a statement.
fn keyword(level: &str) -> Result<&str, WireError> {
    match level.chars().all(|c| c.is_ascii_alphabetic() || c == ' ') {
        true => Ok(level),
        false => Err(WireError::new("22023", format!("\"{level}\" is not an isolation level"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_settings_of_postgresql_are_answered_here() {
        for (sql, name, value) in [
            ("SET client_encoding TO 'UTF8'", "client_encoding", Some("UTF8")),
            ("set session TIME ZONE 'UTC'", "timezone", Some("UTC")),
            ("SET LOCAL DateStyle = ISO, \"MDY\"", "datestyle", Some("ISO, MDY")),
            ("SET NAMES 'utf8'", "client_encoding", Some("utf8")),
            ("SET DateStyle TO DEFAULT", "datestyle", None),
        ] {
            let set = SetStatement::of(sql).expect("a setting of PostgreSQL");
            assert_eq!((set.name.as_str(), set.value.as_deref()), (name, value), "{sql}");
        }
        assert!(SetStatement::of("SET threads = 2").is_none());
        assert!(SetStatement::of("SET search_path = a, b").is_none());
        assert!(SetStatement::of("SET TRANSACTION READ ONLY").is_none());
        assert_eq!(shown_name("SHOW TRANSACTION ISOLATION LEVEL").as_deref(), Some("transaction_isolation"));
        assert_eq!(shown_name("SHOW TABLES"), None);
    }

    #[test]
    fn times_have_units() {
        assert_eq!((milliseconds("500"), milliseconds("2 s"), milliseconds("1min")), (Ok(500), Ok(2_000), Ok(60_000)));
        assert!(milliseconds("soon").is_err() && milliseconds("99999999999999999999").is_err());
    }
}
