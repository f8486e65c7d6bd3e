//! Finds the other database that a statement must run in: the one that it writes to, or whose definitions it shows.

use std::ops::ControlFlow;

use rowmill_base::{Error, ErrorKind, Result};
use rowmill_query::syntax_walk::SyntaxTree as _;
use sqlparser::ast::{
    FromTable, ObjectName, SchemaName, ShowStatementOptions, Statement as Sql, TableFactor, TableObject, Visitor,
};

use super::Session;
use crate::names::identifiers;
use crate::parse::{AlteredSequence, CopySource, Statement, StatementBody};

impl Session {
    /// Returns the other database that `statement` must run in. `None` for the one that the session works in.
    pub(super) fn write_target(&self, statement: &Statement) -> Result<Option<String>> {
        let databases = self.other_databases();
        if databases.is_empty() {
            return Ok(None);
        }
        let mut targets = Targets::default();
        targets.of_body(statement.body());
        let Targets { names, schemas } = targets;
        let (bare, qualified): (Vec<_>, Vec<_>) = names.into_iter().partition(|parts| parts.len() == 1);
        let mut found: Option<String> = None;
        let mut has_own = !bare.is_empty();
        for parts in schemas.into_iter().chain(qualified) {
            let first = parts.first().filter(|first| databases.contains(first));
            let hidden = match parts.len() {
                // `a.t` may name a schema of this database.
                1 | 2 => self.has_schema(parts.first())?,
                _ => false,
            };
            match (first.filter(|_| !hidden), &found) {
                (None, _) => has_own = true,
                (Some(name), Some(other)) if name != other => return Err(several(name, other)),
                (Some(name), _) => found = Some(name.clone()),
            }
        }
        match found {
            Some(name) if has_own => Err(several(&name, self.database_name())),
            found => Ok(found),
        }
    }

    /// Whether a statement runs in another database, so that no program or plan of this one can be meant.
    #[inline]
    pub(super) fn runs_elsewhere(&self, statement: &Statement) -> Result<bool> {
        // A program writes without asking for the other databases.
        Ok(self.changed_elsewhere().is_some() || self.write_target(statement)?.is_some())
    }

    fn has_schema(&self, name: Option<&String>) -> Result<bool> {
        self.with_catalog(|catalog| Ok(name.is_some_and(|name| catalog.schema(name).is_some())))
    }
}

fn several(one: &str, other: &str) -> Error {
    let what = format!("the statement is about the databases \"{one}\" and \"{other}\" at once");
    Error::new(ErrorKind::Unsupported, what).hint("write one database with each statement")
}

/// The names of the relations that a statement writes or shows, and of such schemas.
#[derive(Default)]
struct Targets {
    names: Vec<Vec<String>>,
    schemas: Vec<Vec<String>>,
}

impl Targets {
    fn of_body(&mut self, body: &StatementBody) {
        match body {
            StatementBody::Sql(sql) => drop(sql.walk(self)),
            StatementBody::Copy(copy) | StatementBody::ExplainCopy(copy) => {
                if let CopySource::Table { name, .. } = &copy.source {
                    self.add(name);
                }
            }
            StatementBody::Vacuum(vacuum) => vacuum.tables.iter().for_each(|table| self.add(&table.name)),
            StatementBody::Refresh(refresh) => self.add(&refresh.name),
            StatementBody::AlterSequence(alter) => match &alter.of {
                AlteredSequence::Named(name) | AlteredSequence::OfColumn { table: name, .. } => self.add(name),
            },
            _ => {}
        }
    }

    fn add(&mut self, name: &ObjectName) {
        self.names.extend(parts_of(name));
    }

    fn add_factor(&mut self, factor: &TableFactor) {
        if let TableFactor::Table { name, .. } = factor {
            self.add(name);
        }
    }

    fn add_within(&mut self, options: &ShowStatementOptions) {
        let within = options.show_in.as_ref().and_then(|within| within.parent_name.as_ref());
        self.schemas.extend(within.and_then(parts_of));
    }
}

fn parts_of(name: &ObjectName) -> Option<Vec<String>> {
    Some(identifiers(name).ok()?.iter().map(|part| part.value.clone()).collect())
}

impl Visitor for Targets {
    type Break = ();

    fn pre_visit_statement(&mut self, statement: &Sql) -> ControlFlow<()> {
        match statement {
            Sql::Insert(insert) => {
                if let TableObject::TableName(name) = &insert.table {
                    self.add(name);
                }
            }
            Sql::Update(update) => self.add_factor(&update.table.relation),
            Sql::Delete(delete) => {
                let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
                from.iter().for_each(|table| self.add_factor(&table.relation));
            }
            Sql::Merge(merge) => self.add_factor(&merge.table),
            Sql::Truncate(truncate) => truncate.table_names.iter().for_each(|table| self.add(&table.name)),
            Sql::CreateTable(create) => self.add(&create.name),
            Sql::CreateView(create) => self.add(&create.name),
            Sql::CreateIndex(create) => self.add(&create.table_name),
            Sql::CreateSequence { name, .. } => self.add(name),
            Sql::CreateSchema { schema_name: SchemaName::Simple(name), .. } => {
                // The name of a new schema alone is no database.
                self.add(name);
            }
            Sql::AlterTable(alter) => self.add(&alter.name),
            Sql::Drop { names, .. } => names.iter().for_each(|name| self.add(name)),
            Sql::Comment { object_name, .. } => self.add(object_name),
            Sql::Analyze(analyze) => analyze.table_name.iter().for_each(|name| self.add(name)),
            Sql::ExplainTable { table_name, .. } => self.add(table_name),
            Sql::ShowCreate { obj_name, .. } => self.add(obj_name),
            Sql::ShowTables { show_options, .. } | Sql::ShowViews { show_options, .. } => self.add_within(show_options),
            Sql::ShowColumns { show_options, .. } => {
                let within = show_options.show_in.as_ref().and_then(|within| within.parent_name.as_ref());
                within.into_iter().for_each(|name| self.add(name));
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}
