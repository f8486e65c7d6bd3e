//! Resolves the names of a statement before it runs, so that all later code needs to know one rule only: a bare name
//! means the schema `main` of the database that the statement runs in.
//!
//! Bare names may mean a temporary table, or a relation in another schema of the search path. Names may begin with a
//! database, and the statement may run in another database than the one whose names it was written with:
//!
//! ```text
//! t is temporary          SELECT * FROM t                     ->  SELECT * FROM pg_temp_1.t
//! search_path = a, main   SELECT * FROM t                     ->  SELECT * FROM a.t
//! sales is attached       SELECT * FROM sales.t JOIN u        ->  SELECT * FROM sales.main.t JOIN u
//! it runs in sales        INSERT INTO sales.t SELECT * FROM u ->  INSERT INTO main.t SELECT * FROM rowmill.main.u
//! ```
//!
//! Names of `WITH` and of registered tables hide all of them and stay as they are. Texts of views and macros are not
//! resolved here: their names always mean the database that has the view.

use std::mem;
use std::ops::ControlFlow;

use rowmill_base::{Error, ErrorKind, Result, SchemaId};
use rowmill_query::syntax_walk::SyntaxTree as _;
use rowmill_txn::{Catalog, SchemaDef};
use sqlparser::ast::{
    AlterTableOperation, ColumnOption, CommentObject, Ident, ObjectName, ObjectNamePart, ObjectType, Query, SchemaName,
    Statement as Sql, TableConstraint, VisitorMut, With,
};
use sqlparser::tokenizer::Location;

use super::Session;
use super::temporary::{OWN, is_temporary};
use crate::access::Access;
use crate::access::statement::is_relation;
use crate::deep::with_room;
use crate::information_schema::INFORMATION_SCHEMA;
use crate::names::{DEFAULT_SCHEMA, identifiers, lower};
use crate::parse::{self, AlteredSequence, CopySource, SequenceChange, Statement, StatementBody};
use crate::pg_catalog::PG_CATALOG;

/// Where a name was found.
enum Found {
    /// In the schema with this name of the database that bare names mean.
    Here(String),
    /// In another database: its name, and the schema.
    Elsewhere(String, String),
}

impl Found {
    fn here(schema: &SchemaDef) -> Found {
        Found::Here(lower(&schema.name))
    }
}

impl Session {
    /// Returns `statement` with its names resolved, or `None` if they mean what they say. `target` is the other
    /// database that the statement will run in.
    pub(super) fn with_resolved_names(&self, statement: &Statement, target: Option<&str>) -> Result<Option<Statement>> {
        let databases = self.other_databases();
        if self.temporary.is_none() && self.path.is_default() && databases.is_empty() {
            return Ok(None);
        }
        self.with_catalog(|catalog| {
            let temporary = self.temporary.as_deref().and_then(|name| catalog.schema(name));
            if temporary.is_none() && self.path.is_default() && databases.is_empty() {
                return Ok(None);
            }
            with_room(statement.room_bytes(), || {
                let mut names = NameResolver {
                    session: self,
                    catalog,
                    temporary: temporary.map(|schema| &**schema),
                    path: (!self.path.is_default()).then(|| self.path.schemas(catalog)),
                    databases: &databases,
                    target,
                    with: Vec::new(),
                    left_out: Vec::new(),
                    temporary_table: None,
                    own_schema_table: None,
                    elsewhere: None,
                    foreign: None,
                    keeps_names: false,
                    added: Vec::new(),
                    is_changed: false,
                };
                let mut body = statement.body().clone();
                names.resolve(&mut body)?;
                names.check_rights(self)?;
                if is_view(&body) && !names.added.is_empty() {
                    let text = statement.text_with(&names.added);
                    return self.with_resolved_view(&text, target).map(Some);
                }
                Ok(names.is_changed.then(|| statement.with_body(body)))
            })
        })
    }

    /// Resolves a CREATE VIEW whose query names its schemas. The text of the query is stored, and the search path of a
    /// later session must not change its meaning.
    fn with_resolved_view(&self, text: &str, target: Option<&str>) -> Result<Statement> {
        let mut statements = parse::parse(text, &self.settings)?;
        let statement = statements.pop().ok_or_else(|| Error::internal("a CREATE VIEW is a statement"))?;
        Ok(self.with_resolved_names(&statement, target)?.unwrap_or(statement))
    }
}

fn is_view(body: &StatementBody) -> bool {
    matches!(body, StatementBody::Sql(sql) if matches!(**sql, Sql::CreateView(_)))
}

struct NameResolver<'s> {
    session: &'s Session,
    catalog: &'s Catalog,
    /// The schema of the temporary tables and views.
    temporary: Option<&'s SchemaDef>,
    /// The schemas of the search path, unless it is the default one.
    path: Option<Vec<&'s SchemaDef>>,
    /// The names of the other databases.
    databases: &'s [String],
    /// The other database that the statement will run in.
    target: Option<&'s str>,
    /// The `WITH` names that hide tables at the visitor's place.
    with: Vec<String>,
    /// For each query that the visitor is in: its `WITH` clause, which was visited before the query, and how many names
    /// hid tables before it.
    left_out: Vec<(Option<With>, usize)>,
    /// A temporary table or view that the statement names.
    temporary_table: Option<String>,
    /// A temporary table or view that the statement names with the schema `pg_temp`.
    own_schema_table: Option<String>,
    /// Another database that the statement names.
    elsewhere: Option<String>,
    /// A database that the statement names and that is not the one that it runs in.
    foreign: Option<String>,
    /// Whether names stay as they are, because they mean the database that the statement runs in: those in the query of
    /// a view of another database.
    keeps_names: bool,
    /// The schemas that the search path gave to bare names, and the places of these names.
    added: Vec<(Location, String)>,
    is_changed: bool,
}

impl NameResolver<'_> {
    fn resolve(&mut self, body: &mut StatementBody) -> Result<()> {
        match body {
            StatementBody::Sql(sql) => self.resolve_in(sql),
            StatementBody::Copy(copy) | StatementBody::ExplainCopy(copy) => {
                match &mut copy.source {
                    CopySource::Table { name, .. } => self.qualify(name),
                    CopySource::Query(query) => drop(query.walk_mut(self)),
                }
                Ok(())
            }
            StatementBody::Vacuum(vacuum) => {
                vacuum.tables.iter_mut().for_each(|table| self.qualify(&mut table.name));
                Ok(())
            }
            StatementBody::Refresh(refresh) => {
                self.qualify(&mut refresh.name);
                Ok(())
            }
            StatementBody::AlterSequence(alter) => {
                let (AlteredSequence::Named(name) | AlteredSequence::OfColumn { table: name, .. }) = &mut alter.of;
                self.qualify(name);
                if let SequenceChange::Options(changes) = &mut alter.change
                    && let Some(Some(owner)) = &mut changes.owner
                    && let Some(column) = owner.0.pop()
                {
                    self.qualify(owner);
                    owner.0.push(column);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn resolve_in(&mut self, sql: &mut Sql) -> Result<()> {
        match sql {
            Sql::CreateTable(create) => {
                // The name of a new table is not looked up, so no table may hide it.
                let mut name = mem::replace(&mut create.name, ObjectName::from(Vec::<Ident>::new()));
                let _ = create.walk_mut(self);
                if !create.temporary {
                    self.place_new(&mut name)?;
                }
                create.name = name;
                // The visitor does not come to the tables that foreign keys name.
                let options = create.columns.iter_mut().flat_map(|column| &mut column.options);
                for option in options {
                    if let ColumnOption::ForeignKey(key) = &mut option.option {
                        self.qualify(&mut key.foreign_table);
                    }
                }
                create.constraints.iter_mut().for_each(|constraint| self.qualify_parent(constraint));
                self.check_elsewhere("a foreign key cannot refer to", create.query.is_none())
            }
            Sql::CreateView(create) => {
                self.keeps_names = self.target.is_some();
                let _ = create.query.walk_mut(self);
                self.keeps_names = false;
                self.check_view(create.temporary)?;
                match create.temporary {
                    true => Ok(()),
                    false => self.place_new(&mut create.name),
                }
            }
            Sql::CreateSequence { name, .. } => self.place_new(name),
            Sql::CreateSchema { schema_name: SchemaName::Simple(name), .. } => {
                self.strip_database(name);
                Ok(())
            }
            Sql::Drop { object_type, names, .. } => {
                names.iter_mut().for_each(|name| self.qualify_dropped(*object_type, name));
                Ok(())
            }
            Sql::Comment { object_type: CommentObject::Column, object_name, .. } => {
                if let Some(column) = object_name.0.pop() {
                    self.qualify(object_name);
                    object_name.0.push(column);
                }
                Ok(())
            }
            Sql::Comment { object_type, object_name, .. } if is_relation(*object_type) => {
                self.qualify(object_name);
                Ok(())
            }
            Sql::ShowCreate { obj_name, .. } => {
                self.qualify(obj_name);
                Ok(())
            }
            Sql::ShowTables { show_options, .. } | Sql::ShowViews { show_options, .. } => {
                let within = show_options.show_in.as_mut().and_then(|within| within.parent_name.as_mut());
                if within.is_some_and(|name| self.strip_database(name)) {
                    show_options.show_in = None;
                }
                Ok(())
            }
            Sql::AlterTable(alter) => {
                let _ = alter.walk_mut(self);
                for operation in &mut alter.operations {
                    if let AlterTableOperation::AddConstraint { constraint, .. } = operation {
                        self.qualify_parent(constraint);
                    }
                }
                self.check_elsewhere("a foreign key cannot refer to", true)
            }
            other => {
                let _ = other.walk_mut(self);
                Ok(())
            }
        }
    }

    /// Refuses a name of another database than the one that the statement runs in, if `applies`.
    fn check_elsewhere(&self, what: &str, applies: bool) -> Result<()> {
        match &self.foreign {
            Some(database) if applies => {
                Err(Error::new(ErrorKind::Unsupported, format!("{what} the database \"{database}\" from another one")))
            }
            _ => Ok(()),
        }
    }

    /// Refuses the query of a view that reads tables which the view cannot find later.
    fn check_view(&self, is_temporary: bool) -> Result<()> {
        let refused = |what: String, help: &str| Err(Error::new(ErrorKind::InvalidDefinition, what).hint(help));
        if let Some(table) = &self.own_schema_table
            && is_temporary
        {
            let what = format!("the query of a temporary view cannot name the schema of \"{OWN}.{table}\"");
            return refused(what, "write the name without the schema");
        }
        if let Some(table) = &self.temporary_table
            && !is_temporary
        {
            let what = format!("a view cannot read the temporary table \"{table}\", which ends with its connection");
            let help = "make the view temporary, too: CREATE TEMP VIEW; or copy the rows into a table: \
                CREATE TABLE ... AS SELECT * FROM ...";
            return refused(what, help);
        }
        if let Some(database) = &self.foreign {
            let what = format!("the query of a view cannot name the database \"{database}\"");
            let help =
                "its names mean the database of the view; CREATE TABLE ... AS SELECT ... copies rows of another one";
            return refused(what, help);
        }
        Ok(())
    }

    fn check_rights(&self, session: &Session) -> Result<()> {
        match &self.elsewhere {
            None => Ok(()),
            Some(name) => Access::of(self.catalog, session.authority.actor)
                .require_superuser(&format!("the attached database \"{name}\"")),
        }
    }

    /// Qualifies the name of a relation.
    fn qualify(&mut self, name: &mut ObjectName) {
        let Ok(parts) = identifiers(name) else { return };
        let parts: Vec<&str> = parts.iter().map(|part| part.value.as_str()).collect();
        if self.keeps_names {
            if let [first, _, ..] = parts.as_slice()
                && self.database_named(first, DEFAULT_SCHEMA).is_some()
            {
                self.foreign = Some((*first).to_owned());
            }
            return;
        }
        let found = match parts.as_slice() {
            [relation] => self.find_bare(relation),
            [schema, relation] => self.find_in(schema, relation),
            [database, schema, _] => self.database_named(database, schema),
            _ => None,
        };
        if let Some(found) = found {
            if let (Found::Here(schema), [ObjectNamePart::Identifier(bare)]) = (&found, name.0.as_slice())
                && *schema != DEFAULT_SCHEMA
            {
                self.added.push((bare.span.start, schema.clone()));
            }
            self.put(name, found);
        }
    }

    fn find_bare(&mut self, relation: &str) -> Option<Found> {
        if self.with.iter().any(|name| name == relation) {
            return None;
        }
        if let Some(temporary) = self.temporary
            && self.has_in(temporary.id, relation)
        {
            self.temporary_table = Some(relation.to_owned());
            return Some(Found::here(temporary));
        }
        if matches!(self.session.objects.table(relation), Ok(Some(_)) | Err(_)) {
            return None;
        }
        // These are looked up after all other names.
        let is_last = relation.starts_with("pg_") || relation.contains(['.', '/', '*', '?', '[']);
        let Some(path) = &self.path else {
            let is_known = self.has(DEFAULT_SCHEMA, relation);
            return (self.target.is_some() && (is_known || !is_last)).then(|| Found::Here(DEFAULT_SCHEMA.to_owned()));
        };
        let in_path = path.iter().find(|schema| self.has_in(schema.id, relation));
        // A name that is not in the path must not be found in the default schema.
        if in_path.is_none() && is_last && !self.has(DEFAULT_SCHEMA, relation) {
            return None;
        }
        let schema = in_path.or(path.first());
        Some(schema.map_or_else(|| Found::Here(PG_CATALOG.to_owned()), |schema| Found::here(schema)))
    }

    fn find_in(&mut self, schema: &str, relation: &str) -> Option<Found> {
        if schema == OWN {
            self.temporary_table = Some(relation.to_owned());
            self.own_schema_table = Some(relation.to_owned());
            return self.temporary.map(Found::here);
        }
        if self.catalog.schema(schema).is_some() || [INFORMATION_SCHEMA, PG_CATALOG].contains(&schema) {
            return Some(Found::Here(schema.to_owned()));
        }
        // A schema comes before a database of the same name.
        self.database_named(schema, DEFAULT_SCHEMA)
    }

    /// The place that a database and a schema name.
    fn database_named(&self, database: &str, schema: &str) -> Option<Found> {
        if self.databases.is_empty() {
            return None;
        }
        if database == self.session.database_name() {
            return Some(Found::Here(schema.to_owned()));
        }
        let is_known = self.databases.iter().any(|name| name == database);
        is_known.then(|| Found::Elsewhere(database.to_owned(), schema.to_owned()))
    }

    /// Writes the place of a relation before its name, as the database that the statement runs in sees it.
    fn put(&mut self, name: &mut ObjectName, found: Found) {
        let Some(last) = name.0.pop() else { return };
        let was_bare = name.0.is_empty();
        let place = match found {
            Found::Here(schema) if self.target.is_none() => match was_bare && schema == DEFAULT_SCHEMA {
                true => Vec::new(),
                false => vec![schema],
            },
            Found::Here(schema) => {
                let own = self.session.database_name().to_owned();
                self.foreign = Some(own.clone());
                vec![own, schema]
            }
            Found::Elsewhere(database, schema) => {
                let place = match self.target == Some(&database) {
                    true => vec![schema],
                    false => {
                        self.foreign = Some(database.clone());
                        vec![database.clone(), schema]
                    }
                };
                self.elsewhere = Some(database);
                place
            }
        };
        let is_same = name.0.len() == place.len()
            && name
                .0
                .iter()
                .zip(&place)
                .all(|(old, new)| matches!(old, ObjectNamePart::Identifier(old) if old.value == *new));
        self.is_changed |= !is_same;
        if !is_same {
            name.0 = place.into_iter().map(|part| ObjectNamePart::Identifier(Ident::new(part))).collect();
        }
        name.0.push(last);
    }

    /// Writes the schema of a new object before its name.
    fn place_new(&mut self, name: &mut ObjectName) -> Result<()> {
        let parts: Vec<String> = identifiers(name)?.iter().map(|part| part.value.clone()).collect();
        let found = match parts.as_slice() {
            [_] => match &self.path {
                None => return Ok(()),
                Some(path) => match path.first() {
                    Some(schema) => Found::here(schema),
                    None => {
                        let what = format!("no schema of the search path exists, so \"{name}\" has no place");
                        return Err(Error::new(ErrorKind::UndefinedSchema, what).hint("write the schema: schema.name"));
                    }
                },
            },
            [schema, _] => {
                if schema == OWN || is_temporary(schema) || self.catalog.schema(schema).is_some() {
                    return Ok(());
                }
                match self.database_named(schema, DEFAULT_SCHEMA) {
                    Some(found) => found,
                    None => return Ok(()),
                }
            }
            [database, schema, _] => match self.database_named(database, schema) {
                Some(found) => found,
                None => return Ok(()),
            },
            _ => return Ok(()),
        };
        self.put(name, found);
        Ok(())
    }

    /// Takes the database off the name of a schema. Returns whether the name is that of a database alone.
    fn strip_database(&mut self, name: &mut ObjectName) -> bool {
        let parts: Vec<String> = match identifiers(name) {
            Ok(parts) => parts.iter().map(|part| part.value.clone()).collect(),
            Err(_) => return false,
        };
        let (first, rest) = match parts.as_slice() {
            [first] if self.catalog.schema(first).is_none() => (first, 0),
            [first, _] => (first, 1),
            _ => return false,
        };
        let Some(found) = self.database_named(first, DEFAULT_SCHEMA) else { return false };
        if let Found::Elsewhere(database, _) = found {
            self.elsewhere = Some(database);
        }
        name.0.remove(0);
        self.is_changed = true;
        rest == 0
    }

    fn qualify_dropped(&mut self, kind: ObjectType, name: &mut ObjectName) {
        match kind {
            ObjectType::Table | ObjectType::View | ObjectType::MaterializedView | ObjectType::Sequence => {
                self.qualify(name);
            }
            ObjectType::Index => self.qualify_index(name),
            ObjectType::Schema => drop(self.strip_database(name)),
            _ => {}
        }
    }

    /// Qualifies the name of the table that a foreign key refers to.
    fn qualify_parent(&mut self, constraint: &mut TableConstraint) {
        if let TableConstraint::ForeignKey(key) = constraint {
            self.qualify(&mut key.foreign_table);
        }
    }

    /// Qualifies the name of an index by the schema of its table.
    fn qualify_index(&mut self, name: &mut ObjectName) {
        let Ok(parts) = identifiers(name) else { return };
        let parts: Vec<String> = parts.iter().map(|part| part.value.clone()).collect();
        let found = match parts.as_slice() {
            [index] => {
                let schemas = self.temporary.into_iter().chain(self.path.iter().flatten().copied());
                let mut schemas: Vec<&SchemaDef> = schemas.collect();
                schemas.retain(|schema| self.has_index(schema.id, index));
                schemas.first().map(|schema| Found::here(schema))
            }
            [schema, _] if self.catalog.schema(schema).is_none() => self.database_named(schema, DEFAULT_SCHEMA),
            [database, schema, _] => self.database_named(database, schema),
            _ => None,
        };
        if let Some(found) = found {
            self.put(name, found);
        }
    }

    fn has_index(&self, schema: SchemaId, index: &str) -> bool {
        let is_it = |other: &rowmill_storage::IndexDef| other.name.to_lowercase() == index;
        self.catalog.tables(schema).any(|table| table.named_indexes().any(is_it))
    }

    fn has_in(&self, schema: SchemaId, relation: &str) -> bool {
        self.catalog.table(schema, relation).is_some() || self.catalog.view(schema, relation).is_some()
    }

    fn has(&self, schema: &str, relation: &str) -> bool {
        self.catalog.schema(schema).is_some_and(|schema| self.has_in(schema.id, relation))
    }
}

impl VisitorMut for NameResolver<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let before = self.with.len();
        let mut with = query.with.take();
        if let Some(With { recursive, cte_tables, .. }) = &mut with {
            if *recursive {
                self.with.extend(cte_tables.iter().map(|part| part.alias.name.value.clone()));
            }
            for part in cte_tables {
                // Without RECURSIVE, a query of the clause sees only the names before its own.
                part.query.walk_mut(self)?;
                self.with.push(part.alias.name.value.clone());
            }
        }
        // The clause is taken out, so that the visitor does not come to it again under the names that it declares.
        self.left_out.push((with, before));
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let Some((with, before)) = self.left_out.pop() {
            query.with = with;
            self.with.truncate(before);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &mut ObjectName) -> ControlFlow<()> {
        self.qualify(relation);
        ControlFlow::Continue(())
    }
}
