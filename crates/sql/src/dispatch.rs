//! Which code runs a statement.

use rowmill_base::{Error, ErrorKind, Result};

use datafusion::sql::sqlparser::ast::Statement as Sql;

use crate::outcome::Outcome;
use crate::parse::Body;
use crate::session::Work;
use crate::{explain, settings};

pub(crate) fn run(work: &mut Work<'_>) -> Result<Outcome> {
    match work.statement.body() {
        Body::Checkpoint => {
            work.engine().checkpoint()?;
            Ok(Outcome::Done { tag: "CHECKPOINT" })
        }
        Body::Copy(_) => Err(unsupported("COPY")),
        Body::Sql(sql) => run_sql(work, sql),
    }
}

fn run_sql(work: &mut Work<'_>, sql: &Sql) -> Result<Outcome> {
    match sql {
        Sql::Query(query) => {
            let view = work.view()?;
            Ok(Outcome::Rows(work.rows(view, query)?))
        }
        Sql::Explain { .. } => explain::run(work, sql),
        Sql::Set(set) => settings::set(work, set),
        Sql::ShowVariable { variable } => settings::show(work, variable),
        Sql::Reset(reset) => settings::reset(work, &reset.reset),
        other => Err(unsupported(&first_words(&other.to_string()))),
    }
}

/// The first words of a statement in upper case, which is what names it.
fn first_words(text: &str) -> String {
    let words: Vec<String> = text.split_whitespace().take(2).map(str::to_uppercase).collect();
    words.join(" ")
}

fn unsupported(what: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("{what} is not a statement that this version runs"))
}
