//! Who a session acts for: the checks before each statement.

use rowmill_base::{ColumnId, Error, ErrorKind, Result, RoleId};
use rowmill_storage::spill::NamedTempFile;
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

    /// Makes a temporary file, from which the statements of the session may read whatever their role. `owner` names its
    /// purpose.
    pub fn temporary_file(&mut self, owner: &'static str) -> Result<NamedTempFile> {
        let file = self.engine.temp().named_file(owner)?;
        self.own_file = Some(file.path().to_owned());
        Ok(file)
    }

    /// Who the session acts for.
    pub(crate) fn authority(&self) -> &Authority {
        &self.authority
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

    pub(super) fn with_catalog<T>(&self, work: impl FnOnce(&Catalog) -> Result<T>) -> Result<T> {
        match &self.transaction {
            Some(open) => work(open.catalog()),
            None => work(self.engine.snapshot()?.catalog()),
        }
    }

    pub(crate) fn require_superuser(&self, what: &str) -> Result<()> {
        self.with_catalog(|catalog| Access::of(catalog, self.authority.actor).require_superuser(what))
    }

    /// Returns an error unless the session may add rows to a table without SQL. `columns` are the names of the columns
    /// that get values, an empty list for all columns. `None` asks for a right on any column: the columns are checked
    /// later. A table or column that does not exist is no error here.
    pub fn check_append(&self, schema: &str, table: &str, columns: Option<&[&str]>) -> Result<()> {
        self.check_login()?;
        self.with_catalog(|catalog| {
            let Some(table) = catalog.schema(schema).and_then(|schema| catalog.table(schema.id, table)) else {
                return Ok(());
            };
            let columns: Vec<ColumnId> = match columns {
                None => Vec::new(),
                Some([]) => table.columns.iter().map(|column| column.id).collect(),
                Some(names) => {
                    let places = names.iter().filter_map(|name| table.column_index(&name.to_lowercase()));
                    places.map(|place| table.columns[place].id).collect()
                }
            };
            let access = Access::of(catalog, self.authority.actor);
            access.require(Rights::INSERT, ObjectId::Table(table.id), Some(&columns))
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
        let folders = self.session.authority.folders.clone();
        match &self.session.own_file {
            _ if is_unlimited => FileFolders::default(),
            Some(file) => folders.with_file(file),
            None => folders,
        }
    }
}
