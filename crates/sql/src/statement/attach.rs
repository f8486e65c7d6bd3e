//! `ATTACH` and `DETACH`: other databases under a name. See [`crate::databases`].

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use rowmill_base::{Error, ErrorKind, Result};
use rowmill_txn::base::BaseKind;
use rowmill_txn::{Engine, OpenOptions};

use super::clause::unsupported;
use super::copy::{check_once, option_text};
use super::text_rows::TextRows;
use crate::databases::{AttachedContent, AttachedDatabase, name_is_taken, no_database};
#[cfg(feature = "sqlite")]
use crate::files::{FileFolders, SqliteFile};
use crate::files::{switch, unknown_option};
use crate::names::{CATALOG, lower};
use crate::outcome::Outcome;
use crate::parse::{AttachStatement, DetachStatement};
use crate::session::Work;

const ATTACH: &str = "ATTACH";
const DETACH: &str = "DETACH";

/// The path that means a new database in memory.
pub const MEMORY_PATH: &str = ":memory:";

/// The kinds of databases that can be attached.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AttachType {
    Rowmill,
    Sqlite,
}

/// The options after the name.
struct AttachOptions {
    read_only: bool,
    kind: Option<AttachType>,
    /// Whether all columns of an SQLite database are TEXT.
    all_text: bool,
}

impl AttachOptions {
    const NAMES: &[&str] = &["read_only", "type", "all_text"];

    fn of(attach: &AttachStatement) -> Result<AttachOptions> {
        check_once(&attach.options)?;
        let mut options = AttachOptions { read_only: false, kind: None, all_text: false };
        for option in &attach.options {
            match option_text(option)? {
                ("read_only", value) => options.read_only = switch("read_only", value)?,
                ("all_text", value) => options.all_text = switch("all_text", value)?,
                ("type", kind) => {
                    options.kind = Some(match lower(kind).as_str() {
                        "rowmill" => AttachType::Rowmill,
                        "sqlite" => AttachType::Sqlite,
                        other => {
                            let error = unsupported(ATTACH, &format!("TYPE {other}"));
                            return Err(error.hint("the types are rowmill and sqlite"));
                        }
                    });
                }
                (name, _) => return Err(unknown_option(name, AttachOptions::NAMES)),
            }
        }
        if options.all_text && options.kind != Some(AttachType::Sqlite) {
            return Err(unsupported(ATTACH, "all_text without TYPE sqlite"));
        }
        Ok(options)
    }
}

/// Runs `ATTACH`.
pub(crate) fn attach(work: &mut Work<'_>, attach: &AttachStatement) -> Result<Outcome> {
    work.session.require_superuser(ATTACH)?;
    let options = AttachOptions::of(attach)?;
    let name = database_name(attach)?;
    if name == CATALOG || work.session.attached().named(&name).is_some() {
        if attach.if_not_exists {
            work.notice(format!("there is a database \"{name}\" already"));
            return Ok(Outcome::Done { tag: ATTACH });
        }
        return Err(name_is_taken(&name));
    }
    let content = match options.kind {
        Some(AttachType::Sqlite) => sqlite(&attach.path, options.all_text)?,
        _ => {
            let engine = open(work, &attach.path, options.read_only)?;
            AttachedContent::stored(engine, &work.session.workers)?
        }
    };
    work.session.attached().attach(AttachedDatabase { name, path: attach.path.clone().into(), content })?;
    Ok(Outcome::Done { tag: ATTACH })
}

/// The error for a new database in memory that is opened only for reading.
pub fn no_memory_to_read() -> Error {
    Error::new(ErrorKind::InvalidParameter, "a new database in memory has nothing to read")
}

/// Opens a database that shares the account of memory of this one.
fn open(work: &Work<'_>, path: &str, read_only: bool) -> Result<Arc<Engine>> {
    let own = work.engine();
    let broker = Some(own.broker().clone());
    let options = OpenOptions { read_only, settings: own.settings(), base: BaseKind::default(), broker };
    match (path, read_only) {
        (MEMORY_PATH, true) => Err(no_memory_to_read().hint("attach it without READ_ONLY")),
        (MEMORY_PATH, false) => Engine::memory_with(options),
        _ if is_sqlite(Path::new(path)) => {
            let what = format!("'{path}' is a database of SQLite");
            Err(Error::new(ErrorKind::WrongObject, what).hint("ATTACH 'path' AS name (TYPE sqlite)"))
        }
        _ => Engine::open(Path::new(path), options),
    }
}

/// Whether a file begins as databases of SQLite do.
fn is_sqlite(path: &Path) -> bool {
    let mut begin = [0; 16];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut begin));
    read.is_ok() && begin == *b"SQLite format 3\0"
}

#[cfg(feature = "sqlite")]
fn sqlite(path: &str, all_text: bool) -> Result<AttachedContent> {
    SqliteFile::open(path, all_text, &FileFolders::default()).map(AttachedContent::Sqlite)
}

#[cfg(not(feature = "sqlite"))]
fn sqlite(_path: &str, _all_text: bool) -> Result<AttachedContent> {
    Err(unsupported(ATTACH, "TYPE sqlite in this build").hint("build with the feature sqlite, as the shell is built"))
}

/// The name of the database: the one after AS, or that of its directory.
fn database_name(attach: &AttachStatement) -> Result<String> {
    if let Some(name) = &attach.name {
        return Ok(name.clone());
    }
    let stem = Path::new(&attach.path).file_stem().and_then(|stem| stem.to_str());
    match stem {
        Some(stem) if attach.path != MEMORY_PATH => Ok(lower(stem)),
        _ => Err(Error::new(ErrorKind::Syntax, format!("the path '{}' gives the database no name", attach.path))
            .hint("name it: ATTACH 'path' AS name")),
    }
}

/// Runs `DETACH`.
pub(crate) fn detach(work: &mut Work<'_>, detach: &DetachStatement) -> Result<Outcome> {
    work.session.require_superuser(DETACH)?;
    let name = &detach.name;
    if name == CATALOG {
        let what = "the database of the connection cannot be detached";
        return Err(Error::new(ErrorKind::DependentObjects, what).hint("close the connection"));
    }
    work.session.check_not_used(name)?;
    if work.session.attached().detach(name).is_some() {
        work.session.leave_detached(name);
        return Ok(Outcome::Done { tag: DETACH });
    }
    if detach.if_exists {
        work.notice(format!("there is no database \"{name}\""));
        return Ok(Outcome::Done { tag: DETACH });
    }
    Err(no_database(name, work.databases.names()))
}

/// Runs `SHOW DATABASES`.
pub(crate) fn show_databases(work: &mut Work<'_>) -> Result<Outcome> {
    let mut rows = TextRows::new(["name", "path", "access"]);
    let access = |read_only: bool| if read_only { "read only" } else { "read and write" }.to_owned();
    let own = work.session.own_engine();
    let path = own.path().map(|path| path.display().to_string());
    rows.push([Some(CATALOG.to_owned()), path, Some(access(own.is_read_only()))]);
    for database in work.session.attached().list() {
        let path = database.path.display().to_string();
        rows.push([Some(database.name.clone()), Some(path), Some(access(database.is_read_only()))]);
    }
    rows.outcome()
}
