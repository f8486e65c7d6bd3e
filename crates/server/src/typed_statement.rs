//! The types of a statement's parameters: those that the client gives, those of their places, and text for the rest.
//!
//! The engine gets most values as texts or numbers, and the place of a parameter decides its type. For example,
//! `WHERE day = $1` makes `$1` a date. Where the place decides nothing, as in `SELECT $1` or `$1 - $2`, the type that
//! the client gives must decide. So the statement that the engine prepares has a cast there: `SELECT CAST($1 AS DATE)`.

use rowmill::arrow::datatypes::SchemaRef;
use rowmill::pg_types::{PgScalar, PgType};
use rowmill::text::{LexemeKind, lexemes};
use rowmill::{Error, Result, SqlType, Statement, StatementShape};

use crate::session::PgSession;
use crate::wire_error::WireError;

/// A statement whose parameters all have types.
pub(crate) struct TypedStatement {
    pub(crate) statement: Statement,
    /// The types by which the client sends values.
    pub(crate) parameters: Vec<PgType>,
    /// The numbers of these types, as the client gave them or will be told.
    pub(crate) oids: Vec<u32>,
    /// The columns of the result, if it has one.
    pub(crate) columns: Option<SchemaRef>,
}

impl PgSession {
    /// Prepares a statement. `oids` are the types that the client gives to parameters, by number; 0 gives none.
    pub(crate) fn typed_statement(
        &mut self,
        sql: &str,
        oids: &[u32],
        placed: &dyn Fn(Error) -> WireError,
    ) -> Result<TypedStatement, WireError> {
        let statement = self.connection.parse(sql).map_err(placed)?;
        let mut given: Vec<Option<PgType>> = oids.iter().map(|oid| given_type(*oid)).collect::<Result<_, _>>()?;
        given.resize(statement.parameter_count(), None);
        let (statement, shape) = self.with_types(sql, statement, &given).map_err(placed)?;
        let declared = |place| shape.declared.iter().find(|(number, _)| *number == place);
        let kind_of = |(place, inferred): (usize, &Option<SqlType>)| {
            let declared = || declared(place).and_then(|(_, name)| PgType::of_declared(name));
            given[place].or_else(declared).or_else(|| inferred.as_ref().map(PgType::of)).unwrap_or(PgType::TEXT)
        };
        let parameters: Vec<PgType> = shape.parameters.iter().enumerate().map(kind_of).collect();
        let told = |(place, kind): (usize, &PgType)| match oids.get(place) {
            Some(oid) if given[place].is_some() => *oid,
            _ => kind.oid(),
        };
        let oids = parameters.iter().enumerate().map(told).collect();
        Ok(TypedStatement { statement, parameters, oids, columns: shape.columns })
    }

    /// Returns the statement with the casts that it needs, and its shape.
    fn with_types(
        &mut self,
        sql: &str,
        statement: Statement,
        given: &[Option<PgType>],
    ) -> Result<(Statement, StatementShape)> {
        let known: Vec<_> = given.iter().map(|kind| kind.filter(|kind| !is_sent_as_text(*kind))).collect();
        let known: Vec<Option<SqlType>> = known.into_iter().map(|kind| kind.map(PgType::sql_type)).collect();
        let shape = self.connection.shape(&statement, &known);
        // If the types of places do not even suffice to bind the statement, those of the client must.
        let is_open =
            |place: usize| shape.as_ref().map_or(known[place].is_none(), |shape| shape.parameters[place].is_none());
        let open: Vec<usize> = (0..given.len()).filter(|place| is_open(*place)).collect();
        if open.is_empty() {
            return Ok((statement, shape?));
        }
        let mut known = known;
        let mut casts: Vec<Option<SqlType>> = vec![None; given.len()];
        for place in open {
            match given[place] {
                // The digits of a value are not known before it comes, and a cast would change them.
                Some(kind) if kind == PgType::scalar(PgScalar::Numeric) => known[place] = Some(kind.sql_type()),
                Some(kind) => casts[place] = Some(kind.sql_type()),
                None => known[place] = shape.is_ok().then_some(SqlType::TEXT),
            }
        }
        let statement = match casts.iter().all(Option::is_none) {
            true => statement,
            false => self.connection.parse(&with_casts(sql, &casts))?,
        };
        match (self.connection.shape(&statement, &known), shape) {
            (Ok(typed), _) => Ok((statement, typed)),
            // The first error is that of the text as the client wrote it.
            (Err(_), Err(error)) | (Err(error), Ok(_)) => Err(error),
        }
    }
}

/// Whether values of this type go to the engine as texts or in a form that does not tell the type.
fn is_sent_as_text(kind: PgType) -> bool {
    kind.is_array
        || matches!(
            kind.scalar,
            PgScalar::Date
                | PgScalar::Time
                | PgScalar::Timestamptz
                | PgScalar::Interval
                | PgScalar::Uuid
                | PgScalar::Numeric
                | PgScalar::Int2vector
                | PgScalar::Oidvector
        )
}

/// Puts casts around the parameters that have one.
fn with_casts(sql: &str, casts: &[Option<SqlType>]) -> String {
    let mut text = String::with_capacity(sql.len() + 32);
    for lexeme in lexemes(sql) {
        let number = match lexeme.kind {
            LexemeKind::Parameter => lexeme.text[1..].parse::<usize>().ok(),
            _ => None,
        };
        let cast = number.and_then(|number| casts.get(number.checked_sub(1)?)?.as_ref());
        match cast {
            Some(kind) => text.push_str(&format!("CAST({} AS {kind})", lexeme.text)),
            None => text.push_str(lexeme.text),
        }
    }
    text
}

/// The type of PostgreSQL that a client gives to a parameter; `None` if it leaves it to the statement.
fn given_type(oid: u32) -> Result<Option<PgType>, WireError> {
    /// The type `unknown`, by which some clients say that they do not know.
    const UNKNOWN: u32 = 705;
    /// The type `void`, by which JDBC marks what a call returns.
    const VOID: u32 = 2278;
    if matches!(oid, 0 | UNKNOWN | VOID) {
        return Ok(None);
    }
    let known = PgType::of_oid(oid);
    known.map(Some).ok_or_else(|| WireError::new("42704", format!("type with OID {oid} does not exist")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_parameters_outside_of_texts_get_casts() {
        let casts = [Some(SqlType::Date), None];
        let sql = with_casts("SELECT $1, $2, '$1', \"$1\" -- $1", &casts);
        assert_eq!(sql, "SELECT CAST($1 AS DATE), $2, '$1', \"$1\" -- $1");
    }
}
