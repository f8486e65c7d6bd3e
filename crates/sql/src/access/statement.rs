//! What a statement needs before it runs: ownership or a right on what it defines, or a superuser.
//!
//! Rows that a statement reads and writes are not checked here but where they are bound. A statement that is not in the
//! list needs a superuser, so that a new kind of statement is closed until someone opens it.

use rowmill_base::Result;
use rowmill_txn::Catalog;
use rowmill_txn::roles::{ObjectId, Rights};
use sqlparser::ast::{CommentObject, ObjectName, ObjectType, Statement as Sql, TableFactor};

use super::Access;
use crate::names::{QualifiedName, Spellings, qualified};
use crate::parse::{AccessStatement, AlteredSequence, Statement, StatementBody};
use crate::statement::{relation, schema_name};

/// Checks a statement for an actor that may not do everything.
pub(crate) fn check(access: &Access<'_>, statement: &Statement, catalog: &Catalog) -> Result<()> {
    let checker = StatementCheck { access, catalog, spellings: statement.spellings() };
    match statement.body() {
        StatementBody::Sql(sql) if statement.row_lock().is_some() => checker.locked_rows(sql),
        StatementBody::Sql(sql) => checker.sql(sql),
        // The prepared statement is checked whenever it runs.
        StatementBody::Prepare(_) | StatementBody::Execute(_) | StatementBody::Deallocate(_) => Ok(()),
        // Macros belong to no schema and have no owner.
        StatementBody::Macro(_) => access.require_superuser("a definition of a macro"),
        // The rows are checked when the statement is bound, the file when it is opened.
        StatementBody::Copy(_) | StatementBody::ExplainCopy(_) => Ok(()),
        StatementBody::AlterTimeTable(alter) => checker.owner_of(&alter.name),
        StatementBody::AlterSequence(alter) => match &alter.of {
            AlteredSequence::Named(name) | AlteredSequence::OfColumn { table: name, .. } => checker.owner_of(name),
        },
        StatementBody::Refresh(refresh) => checker.owner_of(&refresh.name),
        StatementBody::Vacuum(vacuum) if vacuum.tables.is_empty() => access.require_superuser("VACUUM of all tables"),
        StatementBody::Vacuum(vacuum) => vacuum.tables.iter().try_for_each(|table| checker.owner_of(&table.name)),
        // A role may change its own password, and an owner may grant rights, so these statements check themselves.
        StatementBody::Access(statement) => match &**statement {
            AccessStatement::AlterRole { .. } | AccessStatement::Grant(_) | AccessStatement::SetOwner { .. } => Ok(()),
            statement => access.require_superuser(statement.tag()),
        },
        StatementBody::Checkpoint => access.require_superuser("CHECKPOINT"),
        StatementBody::CheckDatabase => access.require_superuser("CHECK DATABASE"),
        StatementBody::Backup { .. } => access.require_superuser("BACKUP DATABASE"),
        StatementBody::Restore { .. } => access.require_superuser("RESTORE DATABASE"),
        StatementBody::Export(_) => access.require_superuser("EXPORT DATABASE"),
        StatementBody::Attach(_) => access.require_superuser("ATTACH"),
        StatementBody::Detach(_) => access.require_superuser("DETACH"),
        StatementBody::Import { .. } => access.require_superuser("IMPORT DATABASE"),
    }
}

/// Whether `COMMENT ON` means a relation, which has an owner. Types and macros have none.
pub(crate) fn is_relation(object: CommentObject) -> bool {
    use CommentObject::{MaterializedView, Sequence, Table, View};
    matches!(object, Table | View | MaterializedView | Sequence)
}

struct StatementCheck<'c> {
    access: &'c Access<'c>,
    catalog: &'c Catalog,
    spellings: &'c Spellings,
}

impl StatementCheck<'_> {
    fn sql(&self, sql: &Sql) -> Result<()> {
        match sql {
            Sql::Query(_) | Sql::Insert(_) | Sql::Update(_) | Sql::Delete(_) | Sql::Merge(_) => Ok(()),
            Sql::StartTransaction { .. }
            | Sql::Commit { .. }
            | Sql::Rollback { .. }
            | Sql::Savepoint { .. }
            | Sql::ReleaseSavepoint { .. } => Ok(()),
            // They show definitions, which every role may see, or a plan, which is bound like the statement.
            Sql::Explain { .. }
            | Sql::ExplainTable { .. }
            | Sql::ShowVariable { .. }
            | Sql::ShowTables { .. }
            | Sql::ShowViews { .. }
            | Sql::ShowSchemas { .. }
            | Sql::ShowColumns { .. }
            | Sql::ShowFunctions { .. }
            | Sql::ShowCreate { .. } => Ok(()),
            // A secret belongs to the connection. The files that it opens are checked.
            Sql::CreateSecret { .. } | Sql::DropSecret { .. } => Ok(()),
            // Settings of the database are checked where they are set.
            Sql::Set(_) | Sql::Reset(_) | Sql::Use(_) | Sql::Discard { .. } => Ok(()),
            Sql::Truncate(truncate) => truncate.table_names.iter().try_for_each(|table| {
                let object = self.find(&table.name)?;
                object.map_or(Ok(()), |object| self.access.require(Rights::TRUNCATE, object, None))
            }),
            // It goes to a schema of the connection's own.
            Sql::CreateTable(create) if create.temporary => Ok(()),
            Sql::CreateView(create) if create.temporary => Ok(()),
            Sql::CreateTable(create) => self.creation(&create.name, create.or_replace),
            Sql::CreateView(create) => self.creation(&create.name, create.or_replace),
            Sql::CreateSequence { name, .. } => self.creation(name, false),
            Sql::CreateIndex(create) => self.owner_of(&create.table_name),
            Sql::AlterTable(alter) => self.owner_of(&alter.name),
            Sql::Comment { object_type: CommentObject::Column, object_name, .. } => {
                let table = object_name.0[..object_name.0.len().saturating_sub(1)].to_vec();
                if table.is_empty() { Ok(()) } else { self.owner_of(&ObjectName(table)) }
            }
            Sql::Comment { object_type, object_name, .. } if is_relation(*object_type) => self.owner_of(object_name),
            Sql::Analyze(analyze) => match &analyze.table_name {
                Some(table) => self.owner_of(table),
                None => self.access.require_superuser("ANALYZE of all tables"),
            },
            Sql::Drop { object_type, names, .. } => names.iter().try_for_each(|name| self.drop(*object_type, name)),
            Sql::CreateSchema { .. } => self.access.require_superuser("CREATE SCHEMA"),
            other => {
                let text = other.to_string();
                let first: Vec<&str> = text.split_whitespace().take(1).collect();
                self.access.require_superuser(&first.join(" "))
            }
        }
    }

    /// The object of a name, if it exists. If not, the statement itself reports it.
    fn find(&self, name: &ObjectName) -> Result<Option<ObjectId>> {
        let name = qualified(name, self.spellings)?;
        Ok(relation::find(self.catalog, &name).map(|found| found.object()))
    }

    fn owner_of(&self, name: &ObjectName) -> Result<()> {
        let object = self.find(name)?;
        object.map_or(Ok(()), |object| self.access.require_owner(object))
    }

    /// A new object needs CREATE on its schema. One that is replaced must be the actor's own.
    fn creation(&self, name: &ObjectName, replaces: bool) -> Result<()> {
        let QualifiedName { schema, .. } = qualified(name, self.spellings)?;
        if let Some(schema) = self.catalog.schema(&schema) {
            self.access.require(Rights::CREATE, ObjectId::Schema(schema.id), None)?;
        }
        if replaces { self.owner_of(name) } else { Ok(()) }
    }

    fn drop(&self, kind: ObjectType, name: &ObjectName) -> Result<()> {
        match kind {
            ObjectType::Schema => {
                let schema = self.catalog.schema(schema_name(name)?);
                schema.map_or(Ok(()), |schema| self.access.require_owner(ObjectId::Schema(schema.id)))
            }
            ObjectType::Index => {
                let name = qualified(name, self.spellings)?;
                let Some(schema) = self.catalog.schema(&name.schema) else { return Ok(()) };
                let has_index = |table: &rowmill_storage::TableDef| {
                    table.named_indexes().any(|index| index.name.to_lowercase() == name.name)
                };
                let table = self.catalog.tables(schema.id).find(|table| has_index(table));
                table.map_or(Ok(()), |table| self.access.require_owner(ObjectId::Table(table.id)))
            }
            // Types belong to no schema and have no owner.
            ObjectType::Type => self.access.require_superuser("DROP TYPE"),
            _ => self.owner_of(name),
        }
    }

    /// `SELECT ... FOR UPDATE` needs UPDATE, too, because it makes others fail.
    fn locked_rows(&self, sql: &Sql) -> Result<()> {
        let Sql::Query(query) = sql else { return Ok(()) };
        let Some(select) = query.body.as_select() else { return Ok(()) };
        for from in &select.from {
            if let TableFactor::Table { name, .. } = &from.relation
                && let Some(object) = self.find(name)?
            {
                self.access.require(Rights::UPDATE, object, None)?;
            }
        }
        Ok(())
    }
}
