//! Variables of Python as tables: `SELECT * FROM frame` finds the variable `frame` of the caller.
//!
//! A statement runs as it is. If it fails because there is no table of a name that its text has, the variables of the
//! caller are searched for that name: the local ones, then the global ones. Data that is found becomes a table of the
//! connection for this one statement, and the statement runs again. A statement that uses no such name pays nothing,
//! and a variable never hides a table.

use arrow_array::RecordBatch;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rowmill::text::{LexemeKind, lexemes};
use rowmill::{ErrorKind, TextPosition};

use crate::capsule::{arrow_source, batches_of};
use crate::errors::raised_with_hint;
use crate::shared::SharedConnection;

/// Where names that are no tables are searched.
pub(crate) enum Variables<'v, 'py> {
    /// Nowhere.
    Off,
    /// In the variables of the function that called this module.
    OfCaller,
    /// In a dict.
    Given(&'v Bound<'py, PyDict>),
}

/// The variables that are tables of the connection for one statement.
pub(crate) struct FoundFrames<'v, 'py> {
    py: Python<'py>,
    shared: &'v SharedConnection,
    variables: Variables<'v, 'py>,
    found: Vec<(String, Bound<'py, PyAny>)>,
}

impl<'v, 'py> FoundFrames<'v, 'py> {
    pub(crate) fn new(py: Python<'py>, shared: &'v SharedConnection, variables: Variables<'v, 'py>) -> Self {
        FoundFrames { py, shared, variables, found: Vec::new() }
    }

    /// Runs `work`, which runs the statement `sql`, and again whenever a name that it lacks is found.
    pub(crate) fn run<T: Send>(
        &mut self,
        sql: &str,
        work: impl Fn(&mut rowmill::Connection) -> rowmill::Result<T> + Send + Sync,
    ) -> PyResult<T> {
        loop {
            let error = match self.shared.attempt(self.py, &work)? {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            if !self.find(sql, &error)? {
                return Err(self.shared.exception(self.py, &error));
            }
        }
    }

    /// The variables that were found, by name.
    pub(crate) fn found(&self) -> &[(String, Bound<'py, PyAny>)] {
        &self.found
    }

    /// Looks for the table that the statement lacks. Returns whether it is there now.
    fn find(&mut self, sql: &str, error: &rowmill::Error) -> PyResult<bool> {
        let Some(name) = missing_table(sql, error) else { return Ok(false) };
        if self.found.iter().any(|(found, _)| *found == name) {
            return Ok(false);
        }
        let value = match &self.variables {
            Variables::Off => None,
            Variables::OfCaller => variable_of_caller(self.py, &name)?,
            Variables::Given(variables) => variables.get_item(&name)?,
        };
        let Some(value) = value else { return Ok(false) };
        let Some(source) = arrow_source(&value)? else {
            let hint =
                format!("the variable {name} is no table either: a {} has no Arrow data", value.get_type().name()?);
            return Err(raised_with_hint(self.py, error, &hint));
        };
        let batches: Vec<RecordBatch> = batches_of(&source)?;
        self.shared.run(self.py, |connection| connection.register(&name, &batches))?;
        self.found.push((name, value));
        Ok(true)
    }
}

impl Drop for FoundFrames<'_, '_> {
    fn drop(&mut self) {
        if self.found.is_empty() {
            return;
        }
        let names: Vec<&str> = self.found.iter().map(|(name, _)| name.as_str()).collect();
        // This can only fail if the connection was closed, and then it has no tables left.
        let _ = self.shared.run(self.py, |connection| {
            for name in &names {
                connection.unregister(name);
            }
            Ok(())
        });
    }
}

/// The name of the table that a statement lacks, if its text has the name at the place of the error.
fn missing_table(sql: &str, error: &rowmill::Error) -> Option<String> {
    if error.kind() != ErrorKind::UndefinedTable {
        return None;
    }
    let mut code = lexemes(&sql[offset_of(sql, error.position()?)?..]).filter(|lexeme| lexeme.is_code());
    let name = code.next()?;
    // `schema.table` is no variable.
    if code.next().is_some_and(|next| next.text == ".") {
        return None;
    }
    match name.kind {
        LexemeKind::Word => Some(name.text.to_owned()),
        LexemeKind::QuotedName if name.is_closed => {
            Some(name.text[1..name.text.len() - 1].replace("\"\"", "\"")).filter(|name| !name.is_empty())
        }
        _ => None,
    }
}

/// The offset of a place in a text.
fn offset_of(text: &str, position: TextPosition) -> Option<usize> {
    let lines_before = usize::try_from(position.line).ok()?.checked_sub(1)?;
    let columns_before = usize::try_from(position.column).ok()?.checked_sub(1)?;
    let line_start = match lines_before {
        0 => 0,
        lines => text.match_indices('\n').nth(lines - 1)?.0 + 1,
    };
    text[line_start..].char_indices().nth(columns_before).map(|(offset, _)| line_start + offset)
}

/// A variable of the first function on the stack that is not part of this package.
fn variable_of_caller<'py>(py: Python<'py>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    let mut frame = py.import("sys")?.call_method0("_getframe")?;
    loop {
        let globals = frame.getattr("f_globals")?;
        let module = globals.call_method1("get", ("__name__", ""))?;
        let is_own =
            module.extract::<String>().is_ok_and(|module| module == "rowmill" || module.starts_with("rowmill."));
        if !is_own {
            let local = frame.getattr("f_locals")?.call_method1("get", (name,))?;
            let found = if local.is_none() { globals.call_method1("get", (name,))? } else { local };
            return Ok((!found.is_none()).then_some(found));
        }
        frame = frame.getattr("f_back")?;
        if frame.is_none() {
            return Ok(None);
        }
    }
}
