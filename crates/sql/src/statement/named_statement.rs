//! `PREPARE`, `EXECUTE` and `DEALLOCATE`: prepared statements with names, which belong to the connection.

use std::collections::HashMap;

use rowmill_base::{Error, ErrorKind, Result, SqlType};
use rowmill_expr::kernels::cast::cast;
use rowmill_plan::Constant;

use super::named_type::sql_type;
use crate::outcome::Outcome;
use crate::parse::{NamedStatement, Statement};
use crate::session::{Session, Work};

/// The most prepared statements that a connection keeps by name.
const NAMED_MAX: usize = 10_000;

/// The prepared statements of a connection by name.
pub(crate) type NamedStatements = HashMap<String, KeptStatement>;

/// A prepared statement, and the types that PREPARE gives its parameters.
#[derive(Clone, Debug)]
pub(crate) struct KeptStatement {
    statement: Statement,
    types: Vec<SqlType>,
}

/// Runs the statement.
pub(crate) fn run(work: &mut Work<'_>, statement: &NamedStatement) -> Result<Outcome> {
    match statement {
        NamedStatement::Prepare { name, types, text } => {
            let view = work.view()?;
            let types = types.iter().map(|kind| sql_type(view.catalog(), kind)).collect::<Result<_>>()?;
            prepare(work, name, types, text)
        }
        NamedStatement::Execute { name, values } => execute(work, name, values.as_deref()),
        NamedStatement::Deallocate { name } => {
            let named = &mut work.session.named_statements;
            match name {
                None => named.clear(),
                Some(name) => drop(named.remove(name).ok_or_else(|| unknown(name))?),
            }
            Ok(Outcome::Done { tag: "DEALLOCATE" })
        }
    }
}

impl Session {
    /// Gives a prepared statement a name, by which `EXECUTE` and `DEALLOCATE` find it.
    pub fn name_statement(&mut self, name: &str, statement: &Statement) -> Result<()> {
        self.check_new_name(name)?;
        let kept = KeptStatement { statement: statement.clone(), types: Vec::new() };
        self.named_statements.insert(name.to_owned(), kept);
        Ok(())
    }

    /// Ends a name of a prepared statement. Returns whether there was one.
    pub fn end_statement_name(&mut self, name: &str) -> bool {
        self.named_statements.remove(name).is_some()
    }

    /// Whether a prepared statement has a name.
    pub fn has_named_statement(&self, name: &str) -> bool {
        self.named_statements.contains_key(name)
    }

    fn check_new_name(&self, name: &str) -> Result<()> {
        if self.has_named_statement(name) {
            let message = format!("there is a prepared statement \"{name}\" already");
            return Err(Error::new(ErrorKind::DuplicateObject, message).hint(format!("DEALLOCATE {name} ends it")));
        }
        if self.named_statements.len() >= NAMED_MAX {
            let message = format!("the connection has {NAMED_MAX} prepared statements");
            return Err(Error::new(ErrorKind::StatementTooComplex, message).hint("DEALLOCATE ALL ends them"));
        }
        Ok(())
    }
}

fn prepare(work: &mut Work<'_>, name: &str, types: Vec<SqlType>, text: &str) -> Result<Outcome> {
    work.session.check_new_name(name)?;
    let statement = work.session.parse_one(text)?;
    if !statement.is_repeated() {
        let message = "PREPARE takes a query or a change of rows";
        return Err(Error::new(ErrorKind::Unsupported, message).hint("run any other statement as it is"));
    }
    if types.len() > statement.parameter_count() {
        let message = format!(
            "PREPARE gives {} types, but the statement has {} parameters",
            types.len(),
            statement.parameter_count()
        );
        return Err(Error::new(ErrorKind::CardinalityViolation, message));
    }
    // A name that does not exist should be an error of PREPARE and not of EXECUTE.
    let known: Vec<Option<SqlType>> = types.iter().cloned().map(Some).collect();
    work.session.shape(&statement, &known)?;
    work.session.named_statements.insert(name.to_owned(), KeptStatement { statement, types });
    Ok(Outcome::Done { tag: "PREPARE" })
}

fn execute(work: &mut Work<'_>, name: &str, values: Option<&str>) -> Result<Outcome> {
    let KeptStatement { statement, types } =
        work.session.named_statements.get(name).cloned().ok_or_else(|| unknown(name))?;
    let mut constants = values.map_or_else(|| Ok(Vec::new()), |values| constants_of(work, values))?;
    if constants.len() != statement.parameter_count() {
        let message = format!(
            "the prepared statement \"{name}\" takes {} values, but EXECUTE gives {}",
            statement.parameter_count(),
            constants.len()
        );
        return Err(Error::new(ErrorKind::CardinalityViolation, message));
    }
    for (constant, kind) in constants.iter_mut().zip(&types) {
        *constant = Constant::new(cast(constant.array(), &kind.arrow(), false)?);
    }
    work.session.run_in_engine(&statement, &constants)
}

/// Computes the values of EXECUTE.
fn constants_of(work: &mut Work<'_>, values: &str) -> Result<Vec<Constant>> {
    let select = work.session.parse_one(values)?;
    let Outcome::Rows(rows) = work.session.run_in_engine(&select, work.params)? else {
        return Err(Error::internal("a SELECT gives rows"));
    };
    let batches = rows.collect::<Result<Vec<_>>>()?;
    let row = batches
        .iter()
        .find(|batch| batch.num_rows() > 0)
        .ok_or_else(|| Error::new(ErrorKind::CardinalityViolation, "the values of EXECUTE must be one row"))?;
    Ok(row.columns().iter().map(|column| Constant::new(column.slice(0, 1))).collect())
}

fn unknown(name: &str) -> Error {
    Error::new(ErrorKind::UndefinedObject, format!("there is no prepared statement \"{name}\""))
        .hint("PREPARE name AS ... makes one, for this connection")
}
