//! Keys and constraints of `CREATE TABLE`, after its columns and among their options.
//!
//! ```text
//! id BIGINT PRIMARY KEY, code TEXT UNIQUE, price DECIMAL(9, 2) CHECK (price > 0)
//! id BIGINT, ..., PRIMARY KEY (id), CONSTRAINT codes UNIQUE (code), CHECK (price > 0)
//! ```
//!
//! A table with a primary key is a keyed table. Only a keyed table can have `UNIQUE` and foreign keys, because they
//! need an index that finds a row by its values. Both kinds of tables can have `CHECK`. A constraint without a name
//! gets one from its table and columns.

use std::sync::Arc;

use rowmill_base::{ColumnId, Error, ErrorKind, Result, TableId};
use rowmill_storage::TableDef;
use rowmill_txn::{CheckDef, ColumnSpec, IndexSpec, KeyColumn, Transaction};
use sqlparser::ast::{
    CheckConstraint, ColumnDef, ColumnOption, ColumnOptionDef, Expr, Ident, IndexColumn, OrderByExpr, OrderByOptions,
    PrimaryKeyConstraint, TableConstraint, UniqueConstraint,
};

use super::check_clause;
use super::clause::{refuse, unsupported};
use super::column_spec::check_name;
use super::foreign_key_clause::{ForeignKeyClause, check_actions};
use super::relation;
use crate::names::lower;
use crate::session::Work;

/// All key and constraint clauses of a `CREATE TABLE`.
#[derive(Debug, Default)]
pub(super) struct KeyClauses<'a> {
    primary: Option<KeyColumns<'a>>,
    unique: Vec<KeyColumns<'a>>,
    checks: Vec<CheckClause<'a>>,
    foreign: Vec<ForeignKeyClause<'a>>,
}

/// Columns in the order of a key.
#[derive(Debug)]
struct KeyColumns<'a> {
    name: Option<&'a Ident>,
    columns: Vec<(&'a Ident, bool)>,
}

#[derive(Debug)]
struct CheckClause<'a> {
    name: Option<&'a Ident>,
    /// The column, for a constraint among a column's options.
    column: Option<&'a Ident>,
    condition: &'a Expr,
}

/// Whether an option of a column is a key or a constraint.
pub(super) fn is_key_clause(option: &ColumnOption) -> bool {
    matches!(
        option,
        ColumnOption::PrimaryKey(_) | ColumnOption::Unique(_) | ColumnOption::Check(_) | ColumnOption::ForeignKey(_)
    )
}

impl<'a> KeyClauses<'a> {
    /// Collects the clauses of the columns and of the table.
    pub(super) fn of(statement: &str, columns: &'a [ColumnDef], constraints: &'a [TableConstraint]) -> Result<Self> {
        let mut clauses = KeyClauses::default();
        for column in columns {
            for option in &column.options {
                clauses.add_option(statement, &column.name, option)?;
            }
        }
        for constraint in constraints {
            clauses.add_constraint(statement, constraint)?;
        }
        match clauses.first_indexed() {
            Some(clause) if clauses.primary.is_none() => Err(needs_key(statement, clause)),
            _ => Ok(clauses),
        }
    }

    /// Reads the constraint that `ALTER TABLE` adds. For a primary key it has only that.
    pub(super) fn of_addition(statement: &str, constraint: &'a TableConstraint, table: &TableDef) -> Result<Self> {
        let mut clauses = KeyClauses::default();
        clauses.add_constraint(statement, constraint)?;
        match clauses.first_indexed() {
            Some(clause) if table.keyed.is_none() => Err(needs_key(statement, clause)),
            _ => Ok(clauses),
        }
    }

    /// Returns the name of the first clause that needs a primary key.
    fn first_indexed(&self) -> Option<&'static str> {
        let clauses = [(self.unique.is_empty(), "UNIQUE"), (self.foreign.is_empty(), "FOREIGN KEY")];
        clauses.into_iter().find(|(is_empty, _)| !is_empty).map(|(_, clause)| clause)
    }

    fn add_option(&mut self, statement: &str, column: &'a Ident, option: &'a ColumnOptionDef) -> Result<()> {
        let ColumnOptionDef { name, option } = option;
        match option {
            ColumnOption::PrimaryKey(PrimaryKeyConstraint { characteristics, .. }) => {
                refuse(statement, [(characteristics.is_some(), DEFERRED)])?;
                self.set_primary(KeyColumns { name: name.as_ref(), columns: vec![(column, false)] })
            }
            ColumnOption::Unique(UniqueConstraint { characteristics, .. }) => {
                refuse(statement, [(characteristics.is_some(), DEFERRED)])?;
                self.unique.push(KeyColumns { name: name.as_ref(), columns: vec![(column, false)] });
                Ok(())
            }
            ColumnOption::Check(CheckConstraint { name: _, expr, enforced }) => {
                refuse(statement, [(enforced.is_some(), "ENFORCED")])?;
                self.checks.push(CheckClause { name: name.as_ref(), column: Some(column), condition: expr });
                Ok(())
            }
            ColumnOption::ForeignKey(constraint) => {
                self.foreign.push(ForeignKeyClause::of(statement, Some((column, name.as_ref())), constraint)?);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn add_constraint(&mut self, statement: &str, constraint: &'a TableConstraint) -> Result<()> {
        match constraint {
            TableConstraint::PrimaryKey(PrimaryKeyConstraint {
                name,
                index_name,
                index_type,
                columns,
                index_options,
                characteristics,
            }) => {
                let clauses = [
                    (index_name.is_some(), "the name of an index in PRIMARY KEY"),
                    (index_type.is_some(), "USING"),
                    (!index_options.is_empty(), "options of an index"),
                    (characteristics.is_some(), DEFERRED),
                ];
                refuse(statement, clauses)?;
                self.set_primary(KeyColumns { name: name.as_ref(), columns: key_columns(statement, columns)? })
            }
            TableConstraint::Unique(UniqueConstraint {
                name,
                index_name,
                index_type_display: _,
                index_type,
                columns,
                index_options,
                characteristics,
                nulls_distinct: _,
            }) => {
                let clauses = [
                    (index_type.is_some(), "USING"),
                    (!index_options.is_empty(), "options of an index"),
                    (characteristics.is_some(), DEFERRED),
                ];
                refuse(statement, clauses)?;
                let name = name.as_ref().or(index_name.as_ref());
                self.unique.push(KeyColumns { name, columns: key_columns(statement, columns)? });
                Ok(())
            }
            TableConstraint::Check(CheckConstraint { name, expr, enforced }) => {
                refuse(statement, [(enforced.is_some(), "ENFORCED")])?;
                self.checks.push(CheckClause { name: name.as_ref(), column: None, condition: expr });
                Ok(())
            }
            TableConstraint::ForeignKey(constraint) => {
                self.foreign.push(ForeignKeyClause::of(statement, None, constraint)?);
                Ok(())
            }
            TableConstraint::Index(_) => {
                Err(unsupported(statement, "INDEX").hint("CREATE INDEX makes one when the table is there"))
            }
            TableConstraint::FulltextOrSpatial(_) => Err(unsupported(statement, "FULLTEXT or SPATIAL")),
            TableConstraint::PrimaryKeyUsingIndex(_) | TableConstraint::UniqueUsingIndex(_) => {
                Err(unsupported(statement, "USING INDEX"))
            }
        }
    }

    fn set_primary(&mut self, key: KeyColumns<'a>) -> Result<()> {
        match self.primary.replace(key) {
            None => Ok(()),
            Some(_) => Err(Error::new(ErrorKind::InvalidDefinition, "a table has one PRIMARY KEY, this one has two")
                .hint("declare a key of several columns after the columns: PRIMARY KEY (a, b)")),
        }
    }

    /// Returns the places of the primary key's columns among `columns`, or `None` for a columnar table.
    pub(super) fn primary_key(&self, work: &Work<'_>, columns: &[ColumnSpec]) -> Result<Option<Vec<KeyColumn>>> {
        let Some(key) = &self.primary else { return Ok(None) };
        let place = |name: &Ident| {
            let name = work.statement.spell(name);
            let found = columns.iter().position(|column| lower(&column.name) == lower(name));
            found.ok_or_else(|| {
                Error::new(ErrorKind::UndefinedColumn, format!("PRIMARY KEY names \"{name}\", which is not a column"))
            })
        };
        let part = |(name, descending): &(&Ident, bool)| {
            Ok(KeyColumn { column: ColumnId(place(name)? as u32), descending: *descending })
        };
        key.columns.iter().map(part).collect::<Result<_>>().map(Some)
    }

    /// Returns the columns of the primary key that `ALTER TABLE` adds.
    pub(super) fn added_primary_key(&self, work: &Work<'_>, table: &TableDef) -> Result<Vec<KeyColumn>> {
        let key = self.primary.as_ref().ok_or_else(|| Error::internal("a primary key was read"))?;
        key_parts(work, table, &key.columns)
    }

    /// Gives the primary key of the table its name, if the clause has one.
    pub(super) fn name_primary_key(
        &self,
        work: &Work<'_>,
        transaction: &mut Transaction,
        table: TableId,
    ) -> Result<()> {
        let Some(name) = self.primary.as_ref().and_then(|key| key.name) else { return Ok(()) };
        let name = work.statement.spell(name);
        check_name(name)?;
        transaction.name_primary_key(table, name)
    }

    /// Names the primary key, and creates the indexes, conditions and foreign keys of the table.
    pub(super) fn apply(&self, work: &Work<'_>, transaction: &mut Transaction, table: TableId) -> Result<()> {
        self.name_primary_key(work, transaction, table)?;
        // Each step reads the definition again, because the one before it has changed it.
        for key in &self.unique {
            let def = def_of(transaction, table)?;
            let name = match key.name {
                Some(name) => work.statement.spell(name).to_owned(),
                None => free_name(&def, &key.columns.iter().map(|(name, _)| *name).collect::<Vec<_>>(), "key"),
            };
            check_name(&name)?;
            let parts = key_parts(work, &def, &key.columns)?;
            transaction.add_unique(table, IndexSpec { name, parts, unique: true })?;
        }
        for CheckClause { name, column, condition } in &self.checks {
            let def = def_of(transaction, table)?;
            let name = match name {
                Some(name) => work.statement.spell(name).to_owned(),
                None => free_name(&def, &column.iter().copied().collect::<Vec<_>>(), "check"),
            };
            check_name(&name)?;
            let sql = check_clause::check(work, transaction, &def, condition)?;
            transaction.add_check(table, CheckDef { name, sql })?;
        }
        // Foreign keys come last: a table may refer to its own unique index.
        self.foreign.iter().try_for_each(|key| key.apply(work, transaction, table))?;
        check_actions(work, &*def_of(transaction, table)?)
    }
}

fn needs_key(statement: &str, clause: &str) -> Error {
    unsupported(statement, &format!("{clause} on a table without a primary key")).hint(
        "declare a PRIMARY KEY for rows that are looked up and changed one by one; a table without one is for rows \
         that are appended and read in bulk, and it can have CHECK and NOT NULL",
    )
}

pub(super) const DEFERRED: &str = "DEFERRABLE or another characteristic of a constraint";

/// Reads the columns of a key: `a, b DESC`.
pub(super) fn key_columns<'a>(statement: &str, columns: &'a [IndexColumn]) -> Result<Vec<(&'a Ident, bool)>> {
    let column = |column: &'a IndexColumn| {
        let IndexColumn { column, operator_class } = column;
        let OrderByExpr { expr, options: OrderByOptions { asc, nulls_first }, with_fill } = column;
        let clauses = [
            (operator_class.is_some(), "an operator class"),
            (nulls_first.is_some(), "NULLS FIRST or LAST in a key"),
            (with_fill.is_some(), "WITH FILL"),
        ];
        refuse(statement, clauses)?;
        match expr {
            Expr::Identifier(name) => Ok((name, *asc == Some(false))),
            other => Err(unsupported(statement, &format!("{other} in a key, which is not a column,"))),
        }
    };
    columns.iter().map(column).collect()
}

/// Returns columns of a table in the order of a key.
pub(super) fn key_parts(work: &Work<'_>, table: &TableDef, columns: &[(&Ident, bool)]) -> Result<Vec<KeyColumn>> {
    let part = |(name, descending): &(&Ident, bool)| {
        let column = relation::column(table, work.statement.spell(name))?;
        Ok(KeyColumn { column: table.columns[column].id, descending: *descending })
    };
    columns.iter().map(part).collect()
}

/// Returns a name that no index or constraint of the table has yet.
pub(super) fn free_name(table: &TableDef, columns: &[&Ident], ending: &str) -> String {
    let parts: Vec<&str> = std::iter::once(&table.name[..])
        .chain(columns.iter().map(|column| &column.value[..]))
        .chain(std::iter::once(ending))
        .collect();
    let name = parts.join("_");
    let is_free = |name: &str| {
        !table.named_indexes().any(|index| lower(&index.name) == lower(name)) && !table.has_constraint(name)
    };
    if is_free(&name) {
        return name;
    }
    let numbered = (1..).map(|number| format!("{name}{number}"));
    numbered.into_iter().find(|name| is_free(name)).expect("there are more numbers than names")
}

/// Returns the definition of a table as the transaction sees it now.
pub(super) fn def_of(transaction: &mut Transaction, table: TableId) -> Result<Arc<TableDef>> {
    let view = transaction.view()?;
    view.catalog().table_by_id(table).cloned().ok_or_else(|| Error::internal("a table that was just made is not there"))
}
