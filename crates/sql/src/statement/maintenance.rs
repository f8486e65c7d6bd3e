//! Statements that other databases need and this one does by itself.

use datafusion::sql::sqlparser::ast::{Analyze, VacuumStatement};
use rowmill_base::{Error, ErrorKind};

/// `VACUUM`: blocks with many deleted rows are rewritten in the background.
pub(crate) fn vacuum(_: &VacuumStatement) -> Error {
    Error::new(ErrorKind::Unsupported, "VACUUM is not supported: deleted rows are cleared away in the background")
        .hint("CHECKPOINT writes what is pending and gives space back")
}

/// `ANALYZE`: statistics are part of every block.
pub(crate) fn analyze(_: &Analyze) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        "ANALYZE is not supported: statistics are kept with every block as it is written",
    )
    .hint("leave it out")
}
