//! Foreign keys: `FOREIGN KEY` after the columns of a table, and `REFERENCES` among the options of a column.
//!
//! ```text
//! customer BIGINT REFERENCES customers ON DELETE CASCADE
//! CONSTRAINT sold FOREIGN KEY (shop, customer) REFERENCES customers (shop, id) ON DELETE SET NULL
//! ```
//!
//! Without a list of columns, the other table's primary key is meant. We check a foreign key when the statement ends,
//! so RESTRICT and NO ACTION mean the same.

use rowmill_base::{ColumnId, Error, ErrorKind, Result, TableId};
use rowmill_query::syntax_walk::any_expr;
use rowmill_storage::TableDef;
use rowmill_txn::roles::{ObjectId, Rights};
use rowmill_txn::{Catalog, ForeignKeyDef, ReferentialAction, Transaction};
use sqlparser::ast::{
    ConstraintReferenceMatchKind, Expr, ForeignKeyConstraint, Ident, ObjectName, ReferentialAction as Written,
};

use super::clause::{refuse, unsupported};
use super::column_spec::check_name;
use super::key_clauses::{DEFERRED, def_of, free_name};
use super::relation;
use super::sql_text;
use crate::access::Access;
use crate::names::{lower, qualified};
use crate::session::Work;
use crate::session::temporary::is_temporary;

/// A foreign key as written.
#[derive(Debug)]
pub(super) struct ForeignKeyClause<'a> {
    name: Option<&'a Ident>,
    columns: Vec<&'a Ident>,
    parent: &'a ObjectName,
    parent_columns: &'a [Ident],
    on_delete: ReferentialAction,
    on_update: ReferentialAction,
}

impl<'a> ForeignKeyClause<'a> {
    /// Destructures the syntax tree of a constraint. `column` is set if it is an option of a column: the column and the
    /// option's name.
    pub(super) fn of(
        statement: &str,
        column: Option<(&'a Ident, Option<&'a Ident>)>,
        constraint: &'a ForeignKeyConstraint,
    ) -> Result<Self> {
        let ForeignKeyConstraint {
            name,
            index_name,
            columns,
            foreign_table,
            referred_columns,
            on_delete,
            on_update,
            match_kind,
            characteristics,
        } = constraint;
        let is_simple = matches!(match_kind, None | Some(ConstraintReferenceMatchKind::Simple));
        let clauses = [
            (index_name.is_some(), "the name of an index in FOREIGN KEY"),
            (!is_simple, "MATCH FULL or PARTIAL"),
            (characteristics.is_some(), DEFERRED),
        ];
        refuse(statement, clauses)?;
        let (columns, name) = match column {
            Some((column, name)) => (vec![column], name),
            None => (columns.iter().collect(), name.as_ref()),
        };
        let (on_delete, on_update) = (action(statement, *on_delete)?, action(statement, *on_update)?);
        Ok(ForeignKeyClause {
            name,
            columns,
            parent: foreign_table,
            parent_columns: referred_columns,
            on_delete,
            on_update,
        })
    }

    /// Adds the foreign key to the table.
    pub(super) fn apply(&self, work: &Work<'_>, transaction: &mut Transaction, table: TableId) -> Result<()> {
        let def = def_of(transaction, table)?;
        let name = match self.name {
            Some(name) => work.statement.spell(name).to_owned(),
            None => free_name(&def, &self.columns, "fkey"),
        };
        check_name(&name)?;
        let parent_name = qualified(self.parent, work.statement.spellings())?;
        let parent = relation::table(transaction.view()?.catalog(), &parent_name)?;
        check_lifetimes(transaction.catalog(), &name, &def, &parent)?;
        if parent.id != table {
            // A table that refers to another one keeps the owner of that one from deleting rows.
            let access = Access::of(transaction.catalog(), work.actor());
            access.require(Rights::REFERENCES, ObjectId::Table(parent.id), None)?;
        }
        let Some(parent_key) = parent.keyed.as_ref() else {
            let what = format!("foreign key {name} refers to table \"{}\", which has no primary key", parent.name);
            return Err(Error::new(ErrorKind::InvalidDefinition, what)
                .hint("rows of a table with a PRIMARY KEY can be referred to, by that or by a unique index"));
        };
        let of_table = |table: &TableDef, names: &[&Ident]| {
            let column = |name: &&Ident| Ok(table.columns[relation::column(table, work.statement.spell(name))?].id);
            names.iter().map(column).collect::<Result<Vec<ColumnId>>>()
        };
        let columns = of_table(&def, &self.columns)?;
        let parent_columns = match self.parent_columns {
            [] => parent_key.key.iter().map(|part| part.column).collect(),
            named => of_table(&parent, &named.iter().collect::<Vec<_>>())?,
        };
        // The transaction creates this index if no index serves the foreign key yet.
        let index_name = free_name(&def, &self.columns, "idx");
        let (on_delete, on_update) = (self.on_delete, self.on_update);
        let key = ForeignKeyDef { name, columns, parent: parent.id, parent_columns, on_delete, on_update };
        transaction.add_foreign_key(table, key, &index_name)
    }
}

const CHANGES_NOTHING: &str = "ON DELETE CASCADE, or RESTRICT, changes no columns";

/// Refuses a foreign key between a temporary table and another one, because the temporary one ends first.
fn check_lifetimes(catalog: &Catalog, name: &str, table: &TableDef, parent: &TableDef) -> Result<()> {
    let ends = |table: &TableDef| catalog.schema_by_id(table.schema).is_some_and(|schema| is_temporary(&schema.name));
    if ends(table) == ends(parent) {
        return Ok(());
    }
    let temporary = if ends(table) { table } else { parent };
    let what = format!("foreign key {name} is between a temporary table, \"{}\", and another one", temporary.name);
    Err(Error::new(ErrorKind::InvalidDefinition, what).hint("both tables must be temporary, or none"))
}

/// Refuses a table with a foreign key whose action would change columns that a CHECK or a generated column reads, or a
/// generated column itself. Actions write rows inside the transaction, where no expression is evaluated.
pub(super) fn check_actions(work: &Work<'_>, table: &TableDef) -> Result<()> {
    let Some(keyed) = &table.keyed else { return Ok(()) };
    // These actions write to the referring columns.
    let changes = |key: &&ForeignKeyDef| {
        key.on_delete == ReferentialAction::SetNull || key.on_update != ReferentialAction::Restrict
    };
    let changed: Vec<(&str, &str)> = keyed
        .foreign_keys
        .iter()
        .filter(changes)
        .flat_map(|key| {
            let named = |column: &ColumnId| table.column_by_id(*column).map(|at| table.columns[at].name.as_str());
            key.columns.iter().filter_map(named).map(|column| (key.name.as_str(), column))
        })
        .collect();
    if changed.is_empty() {
        return Ok(());
    }
    let generated = table.rules.generated.iter().filter_map(|def| {
        let column = &table.columns[table.column_by_id(def.column)?];
        Some((format!("the generated column \"{}\" reads", column.name), &def.sql))
    });
    if let Some((key, column)) = changed.iter().find(|(_, name)| {
        let column = table.column_index(name).map(|at| table.columns[at].id);
        column.is_some_and(|column| table.generated(column).is_some())
    }) {
        let what = format!("foreign key {key} would change column \"{column}\", which is generated");
        return Err(Error::new(ErrorKind::Unsupported, what).hint(CHANGES_NOTHING));
    }
    let checks = table.rules.checks.iter();
    let checks = checks.map(|check| (format!("the constraint \"{}\" reads", check.name), &check.sql));
    for (reader, sql) in checks.chain(generated) {
        let condition = sql_text::query(&format!("SELECT ({sql})"), work.settings())?;
        let names = |column: &str| {
            any_expr(&condition, |expr| match expr {
                Expr::Identifier(name) => lower(&name.value) == lower(column),
                Expr::CompoundIdentifier(names) => names.last().is_some_and(|name| lower(&name.value) == lower(column)),
                _ => false,
            })
        };
        if let Some((key, column)) = changed.iter().find(|(_, column)| names(column)) {
            let what = format!(
                "foreign key {key} would change column \"{column}\", which {reader}, without computing that again"
            );
            return Err(Error::new(ErrorKind::Unsupported, what).hint(CHANGES_NOTHING));
        }
    }
    Ok(())
}

fn action(statement: &str, action: Option<Written>) -> Result<ReferentialAction> {
    match action {
        None | Some(Written::NoAction | Written::Restrict) => Ok(ReferentialAction::Restrict),
        Some(Written::Cascade) => Ok(ReferentialAction::Cascade),
        Some(Written::SetNull) => Ok(ReferentialAction::SetNull),
        Some(Written::SetDefault) => {
            Err(unsupported(statement, "SET DEFAULT in a foreign key").hint("use RESTRICT, CASCADE or SET NULL"))
        }
    }
}
