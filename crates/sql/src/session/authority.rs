//! Who a session acts for: the checks before each statement.

use std::path::Path;

use rowmill_base::{Error, ErrorKind, Result, RoleId};
use rowmill_txn::Catalog;
use rowmill_txn::roles::{ObjectId, Rights};

use super::{Session, Work};
use crate::access::{self, Access, Actor, Authority};
use crate::files::FileFolders;
use crate::parse::Statement;

impl Session {
    /// Lets the session act for `authority`. Must be called before [`Session::reusing`] and the first statement.
    #[must_use]
    pub fn acting_for(mut self, authority: Authority) -> Session {
        self.authority = authority;
        self
    }

    /// Who the session acts for.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// Lets statements read one more file, for example one that the host has made of what a client sends. `None` ends
    /// it.
    pub fn allow_file(&mut self, file: Option<&Path>) -> Result<()> {
        if let Some(given) = self.given_folders.take() {
            self.authority.folders = given;
        }
        if let Some(file) = file {
            let with_file = self.authority.folders.with_file(file)?;
            self.given_folders = Some(std::mem::replace(&mut self.authority.folders, with_file));
        }
        Ok(())
    }

    /// Returns an error unless the session may run `statement`. What it reads and writes is checked when it is bound.
    pub(super) fn check_statement(&self, statement: &Statement) -> Result<()> {
        self.check_login()?;
        if matches!(self.authority.actor, Actor::Host | Actor::Guest) {
            return Ok(());
        }
        self.with_catalog(|catalog| {
            let access = Access::of(catalog, self.authority.actor);
            if access.is_unlimited() { Ok(()) } else { access::statement::check(&access, statement, catalog) }
        })
    }

    /// Returns an error if a guest must log in by now, or if the role of the session was dropped.
    fn check_login(&self) -> Result<()> {
        let refused = |what: &str| Err(Error::new(ErrorKind::InvalidAuthorization, what));
        match self.authority.actor {
            Actor::Host => Ok(()),
            // The last commit decides, so that one transaction can make several roles.
            Actor::Guest if self.engine.snapshot()?.catalog().requires_login() => {
                refused("the database has users by now: connect again and log in")
            }
            Actor::Role(role) if self.engine.snapshot()?.catalog().role_by_id(role).is_none() => {
                refused("the role of this connection was dropped")
            }
            Actor::Guest | Actor::Role(_) => Ok(()),
        }
    }

    fn with_catalog<T>(&self, work: impl FnOnce(&Catalog) -> Result<T>) -> Result<T> {
        match &self.transaction {
            Some(open) => work(open.catalog()),
            None => work(self.engine.snapshot()?.catalog()),
        }
    }

    pub(super) fn require_superuser(&self, what: &str) -> Result<()> {
        self.with_catalog(|catalog| Access::of(catalog, self.authority.actor).require_superuser(what))
    }

    /// Returns an error unless the session may add rows to a table without SQL. A table that does not exist is no error
    /// here.
    pub fn check_append(&self, schema: &str, table: &str) -> Result<()> {
        self.check_login()?;
        self.with_catalog(|catalog| {
            let found = catalog.schema(schema).and_then(|schema| catalog.table(schema.id, table));
            let access = Access::of(catalog, self.authority.actor);
            found.map_or(Ok(()), |table| access.require(Rights::INSERT, ObjectId::Table(table.id), None))
        })
    }
}

impl Work<'_> {
    /// Who runs the statement.
    pub(crate) fn actor(&self) -> Actor {
        self.session.authority.actor
    }

    /// The role that runs the statement, if it is one.
    pub(crate) fn owner(&self) -> Option<RoleId> {
        self.session.authority.owner()
    }

    /// The folders in which the files of the statement must lie.
    pub(crate) fn folders(&self) -> FileFolders {
        let is_unlimited = self.session.require_superuser("files of the server").is_ok();
        if is_unlimited { FileFolders::default() } else { self.session.authority.folders.clone() }
    }
}
