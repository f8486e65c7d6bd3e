//! Clauses that are parsed and not executed are errors.
//!
//! The parser reads the clauses of a dozen databases. Every statement here takes its syntax tree apart field by field,
//! without `..`, so that a field that a new version of the parser adds does not compile until somebody decides what it
//! means; what is not executed goes through [`refuse`].

use rowmill_base::{Error, ErrorKind, Result};

/// Refuses the first clause that is written: `clauses` pairs whether one is with its name.
pub(super) fn refuse<const N: usize>(statement: &str, clauses: [(bool, &str); N]) -> Result<()> {
    match clauses.iter().find(|(written, _)| *written) {
        None => Ok(()),
        Some((_, clause)) => Err(unsupported(statement, clause)),
    }
}

/// The error for one clause of one statement.
pub(super) fn unsupported(statement: &str, clause: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("{statement}: {clause} is not supported"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_written_clause_is_named() {
        let error = refuse("DELETE", [(false, "USING"), (true, "RETURNING"), (true, "LIMIT")]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert_eq!(error.message(), "DELETE: RETURNING is not supported");
        assert!(refuse("DELETE", [(false, "USING")]).is_ok());
    }
}
