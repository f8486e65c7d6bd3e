//! `IMPORT DATABASE`: runs the statements of an export, all of them or none.

use std::fs;
use std::path::Path;

use rowmill_base::{Error, ErrorKind, Result};

use super::export_database::{LOAD_FILE, SCHEMA_FILE, refuse_url};
use crate::dispatch;
use crate::outcome::Outcome;
use crate::parse::{CopyStatement, Statement, StatementBody};
use crate::session::{Session, Work};

const STATEMENT: &str = "IMPORT DATABASE";

pub(crate) fn run(work: &mut Work<'_>, from: &str) -> Result<Outcome> {
    if work.session.in_transaction() {
        let what = format!("{STATEMENT} has a transaction of its own, so it cannot run inside another one");
        return Err(Error::new(ErrorKind::ActiveTransaction, what).hint("end it with COMMIT or ROLLBACK"));
    }
    refuse_url(STATEMENT, from)?;
    let folder = Path::new(from);
    let mut statements = work.session.parse(&text_of(folder, SCHEMA_FILE)?)?;
    statements.extend(work.session.parse(&text_of(folder, LOAD_FILE)?)?);
    let session = &mut *work.session;
    session.begin(false)?;
    let done = run_all(session, folder, &statements);
    match done {
        Ok(rows) => {
            session.commit()?;
            Ok(Outcome::Changed { tag: STATEMENT, rows })
        }
        Err(error) => {
            session.rollback()?;
            Err(error)
        }
    }
}

/// Runs the statements. Returns the number of rows that were loaded.
fn run_all(session: &mut Session, folder: &Path, statements: &[Statement]) -> Result<u64> {
    let mut loaded = 0;
    for statement in statements {
        let located = in_folder(statement, folder);
        let statement = located.as_ref().unwrap_or(statement);
        let outcome = session
            .work_on(statement, &[], dispatch::run)
            .map_err(|error| error.context(format!("{STATEMENT}: {}", shortened(statement.text()))))?;
        match outcome {
            Outcome::Changed { rows, .. } => loaded += rows,
            Outcome::Rows(rows) => rows.into_iter().try_for_each(|batch| batch.map(drop))?,
            Outcome::Done { .. } => {}
        }
    }
    Ok(loaded)
}

/// Returns a `COPY` with the path of its file in the folder, if the file is there. Other programs write the path that
/// the folder had.
fn in_folder(statement: &Statement, folder: &Path) -> Option<Statement> {
    let StatementBody::Copy(copy) = statement.body() else { return None };
    let path = folder.join(Path::new(&copy.path).file_name()?);
    if !path.exists() {
        return None;
    }
    let path = path.to_string_lossy().into_owned();
    Some(statement.with_body(StatementBody::Copy(Box::new(CopyStatement { path, ..(**copy).clone() }))))
}

fn text_of(folder: &Path, file: &str) -> Result<String> {
    let path = folder.join(file);
    fs::read_to_string(&path).map_err(|error| {
        Error::io(format!("{STATEMENT}: cannot read {}", path.display()), &error)
            .hint("EXPORT DATABASE makes a folder with schema.sql and load.sql")
    })
}

/// The longest beginning of a statement that an error shows, in characters.
const SHOWN_CHARS_MAX: usize = 80;

fn shortened(text: &str) -> String {
    let mut shown: String = text.chars().take(SHOWN_CHARS_MAX).collect();
    if shown.len() < text.len() {
        shown.push_str("...");
    }
    shown
}
