//! DuckDB in a Python process, which we control through pipes.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::cell::{Answer, Cell};
use crate::engine::Oracle;
use crate::exists::with_exists;

/// A Python process with an empty database.
pub struct Duck {
    process: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Duck {
    /// Starts `python` with the script beside this crate.
    pub fn start(python: &str) -> Result<Duck, String> {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/duck.py");
        let started = Command::new(python).arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut process = started.map_err(|error| format!("{python}: {error}"))?;
        let requests = process.stdin.take();
        let answers = BufReader::new(process.stdout.take().expect("the process has a pipe for its output"));
        let mut duck = Duck { process, requests, answers };
        match duck.ask(&json!({"sql": "SELECT 1"})) {
            Some(_) => Ok(duck),
            None => Err(format!("{python} {script} does not answer: is the module duckdb installed?")),
        }
    }

    /// Returns the answer to `request`, or `None` if the process has ended.
    fn ask(&mut self, request: &Value) -> Option<Value> {
        let requests = self.requests.as_mut()?;
        writeln!(requests, "{request}").ok()?;
        let mut line = String::new();
        self.answers.read_line(&mut line).ok()?;
        serde_json::from_str(&line).ok()
    }
}

impl Oracle for Duck {
    fn name(&self) -> &'static str {
        "duckdb"
    }

    fn reset(&mut self) {
        self.ask(&json!({"reset": true})).expect("DuckDB's process answers");
    }

    fn run(&mut self, sql: &str) -> Answer {
        // This is the only type with different names in the two engines.
        let sql = sql.replace("INTEGER UNSIGNED", "UINTEGER");
        let answer = self.ask(&json!({"sql": sql})).unwrap_or_else(|| panic!("DuckDB's process ended at {sql}"));
        if let Some(class) = answer["error"].as_str() {
            let message = answer["message"].as_str().unwrap_or_default();
            return Answer::Failed { class: class.to_owned(), message: message.to_owned() };
        }
        let Some(rows) = answer["rows"].as_array() else { return Answer::TooMuch };
        let row = |row: &Value| row.as_array().into_iter().flatten().map(cell).collect();
        Answer::Rows(rows.iter().map(row).collect())
    }

    /// Runs a statement without the optimizer, with EXISTS in place of IN, ANY and ALL, or with both.
    fn run_otherwise(&mut self, way: usize, sql: &str) -> Option<Answer> {
        let sql = match way {
            0 => sql.to_owned(),
            1 | 2 => with_exists(sql)?,
            _ => return None,
        };
        // Way 0 only disables the optimizer, way 1 only rewrites, way 2 does both.
        if way != 1 {
            self.run("PRAGMA disable_optimizer");
        }
        let answer = self.run(&sql);
        // The setting belongs to the connection, so we must restore it for the next statement.
        self.run("PRAGMA enable_optimizer");
        Some(answer)
    }

    fn changes_rows(&self) -> bool {
        true
    }
}

fn cell(value: &Value) -> Cell {
    let Some(text) = value.as_str() else { return Cell::Null };
    let (class, text) = text.split_at(1);
    match class {
        "i" => Cell::exact(text),
        "d" => Cell::Double(text.parse().unwrap_or(f64::NAN)),
        "s" => Cell::time(text),
        _ => Cell::Text(text.to_owned()),
    }
}

impl Drop for Duck {
    fn drop(&mut self) {
        // The process ends when its input is closed.
        self.requests = None;
        self.process.wait().ok();
    }
}
