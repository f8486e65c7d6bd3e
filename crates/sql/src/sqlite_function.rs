//! `sqlite_scan('file.db', 'table')`: a table of a database of SQLite as rows.

use std::sync::Arc;

use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::Constant;
use rowmill_query::catalog::RowSource;

use crate::catalog::StatementContext;
use crate::files::SqliteFile;

const NAME: &str = "sqlite_scan";

/// Returns the rows of the function `name`, or `None` if it is another one. A third argument that is true makes all
/// columns TEXT.
pub(crate) fn rows(
    context: &StatementContext,
    name: &str,
    arguments: &[Constant],
) -> Result<Option<Arc<dyn RowSource>>> {
    if name != NAME {
        return Ok(None);
    }
    let texts: Option<Vec<&str>> = arguments.iter().take(2).map(Constant::as_text).collect();
    let all_text = match arguments.get(2) {
        None => Some(false),
        Some(flag) => flag.as_bool(),
    };
    match (texts.as_deref(), all_text, arguments.len()) {
        (Some([path, table]), Some(all_text), 2 | 3) => {
            let file = SqliteFile::open(path, all_text, &context.folders())?;
            Ok(Some(file.require_table(table)?))
        }
        _ => Err(Error::new(ErrorKind::UndefinedFunction, "sqlite_scan takes a file, the name of a table and a flag")
            .hint("SELECT * FROM sqlite_scan('file.db', 'table'); a third argument true reads all columns as TEXT")),
    }
}
