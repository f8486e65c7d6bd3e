//! Refuses clauses that the parser reads but that we do not execute.
//!
//! The parser reads the clauses of a dozen databases. Every statement here must destructure its syntax tree field by
//! field, without `..`, so that a field that a new version of the parser adds does not compile until we decide what it
//! means. Clauses that we do not execute go through [`refuse`].

use rowmill_base::{Error, ErrorKind, Result};

/// Refuses the first clause that is present: each pair says whether a clause is present, and its name.
pub(super) fn refuse<const N: usize>(statement: &str, clauses: [(bool, &str); N]) -> Result<()> {
    match clauses.iter().find(|(written, _)| *written) {
        None => Ok(()),
        Some((_, clause)) => Err(unsupported(statement, clause)),
    }
}

/// Returns the error for one clause of one statement. If another statement does the job, the caller should add a hint
/// that names it.
pub(super) fn unsupported(statement: &str, clause: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("{statement}: {clause} is not supported"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuse_names_the_first_clause_that_is_present() {
        let error = refuse("DELETE", [(false, "USING"), (true, "RETURNING"), (true, "LIMIT")]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert_eq!(error.message(), "DELETE: RETURNING is not supported");
        assert!(refuse("DELETE", [(false, "USING")]).is_ok());
    }
}
