//! Foreign keys of keyed tables: how a transaction adds and drops them, and which definitions they protect.
//!
//! A foreign key is part of the definition of its own table, and the parent table lists its referrers. So a change of a
//! foreign key changes both definitions, and a transaction that writes to either table notices it. The definition of a
//! row's own table also tells whether other rows may refer to it.

use std::sync::Arc;

use rowmill_base::{ColumnId, Error, ErrorKind, Result, SqlType, TableId};
use rowmill_storage::keyed::KeyRange;
use rowmill_storage::{ForeignKeyDef, KeyColumn, KeyedDef, Referrer, TableDef};

use crate::keyed::{REFERENCE_COLUMNS_MAX, RowBatch, TableCodec};
use crate::keyed_tables::IndexSpec;
use crate::transaction::Transaction;

/// Rows read at a time when a new foreign key is checked. A column of numbers then takes 8 KiB, so that a hundred
/// columns fit the second-level cache, and the cost of a call is shared by a thousand rows.
const ROWS_AT_ONCE: usize = 1024;

impl Transaction {
    /// Adds a foreign key to a keyed table. Existing rows must meet it, and later rows too. If no index begins with its
    /// columns, we create one called `index_name`.
    ///
    /// Returns `InvalidDefinition` if it does not refer to the columns of the primary key or of a unique index,
    /// `DatatypeMismatch` if the types of columns do not fit, `DuplicateObject` if the table has a constraint of that
    /// name, and `ForeignKeyViolation` if a row has no parent.
    pub fn add_foreign_key(&mut self, table: TableId, key: ForeignKeyDef, index_name: &str) -> Result<()> {
        let before = self.savepoint();
        let added = self.try_add_foreign_key(table, key, index_name);
        if added.is_err() {
            self.rollback_to(&before);
        }
        added
    }

    fn try_add_foreign_key(&mut self, table: TableId, key: ForeignKeyDef, index_name: &str) -> Result<()> {
        let codec = self.keyed_codec(table)?;
        let parents = self.keyed_codec(key.parent)?;
        check_key(&key, &codec, &parents)?;
        if codec.key_path(&key.columns, false).is_none() {
            let parts = key.columns.iter().map(|column| KeyColumn { column: *column, descending: false }).collect();
            self.create_index(table, IndexSpec { name: index_name.to_owned(), parts, unique: false })?;
        }
        let (parent, referrer) = (key.parent, Referrer { table, columns: key.parent_columns.clone() });
        self.redefine_with(table, |keyed| keyed.foreign_keys.push(key))?;
        self.redefine_with(parent, |keyed| keyed.referrers.push(referrer))?;
        self.check_references(table)
    }

    /// Drops the foreign key called `name`. Returns whether there was one.
    pub fn drop_foreign_key(&mut self, table: TableId, name: &str) -> Result<bool> {
        let def = self.table_def(table)?;
        let is_named = |key: &ForeignKeyDef| key.name.to_lowercase() == name.to_lowercase();
        let Some(key) = def.keyed.iter().flat_map(|keyed| &keyed.foreign_keys).find(|key| is_named(key)) else {
            return Ok(false);
        };
        self.redefine_with(table, |keyed| keyed.foreign_keys.retain(|key| !is_named(key)))?;
        self.drop_referrer(table, key)?;
        Ok(true)
    }

    fn drop_referrer(&mut self, table: TableId, key: &ForeignKeyDef) -> Result<()> {
        let is_it = |referrer: &Referrer| referrer.table == table && referrer.columns == key.parent_columns;
        self.redefine_with(key.parent, |keyed| {
            if let Some(at) = keyed.referrers.iter().position(is_it) {
                keyed.referrers.remove(at);
            }
        })
    }

    /// Removes a table that is being dropped from the referrers of its parents. Returns `DependentObjects` if other
    /// tables refer to it.
    pub(crate) fn drop_references_of(&mut self, def: &TableDef) -> Result<()> {
        let Some(keyed) = &def.keyed else { return Ok(()) };
        if let Some(other) = keyed.referrers.iter().find(|referrer| referrer.table != def.id) {
            let name = self.table_def(other.table)?.name.clone();
            let what = format!("table \"{}\" is referred to by a foreign key of table \"{name}\"", def.name);
            return Err(
                Error::new(ErrorKind::DependentObjects, what).hint("DROP TABLE ... CASCADE drops the foreign key too")
            );
        }
        for key in keyed.foreign_keys.iter().filter(|key| key.parent != def.id) {
            self.drop_referrer(def.id, key)?;
        }
        Ok(())
    }

    /// Returns `DependentObjects` if a table must not be emptied because another table that refers to it has rows.
    pub(crate) fn check_emptied(&self, def: &TableDef, keyed: &KeyedDef) -> Result<()> {
        for referrer in keyed.referrers.iter().filter(|referrer| referrer.table != def.id) {
            let codec = self.keyed_codec(referrer.table)?;
            let mut cursor = self.keyed_cursor(referrer.table, None, KeyRange::default(), false)?;
            let mut rows = RowBatch::default();
            self.next_rows(&mut cursor, 1, &mut rows)?;
            if !rows.is_empty() {
                let (name, other) = (&def.name, &codec.def().name);
                let what =
                    format!("table \"{name}\" is referred to by a foreign key of table \"{other}\", which has rows");
                return Err(Error::new(ErrorKind::DependentObjects, what).hint("empty that table first, or use DELETE"));
            }
        }
        Ok(())
    }

    /// Returns `DependentObjects` if a foreign key of the table, or one that refers to it, needs an index that
    /// `without` does not have.
    pub(crate) fn check_references_without(&self, def: &TableDef, without: &KeyedDef) -> Result<()> {
        let mut changed = def.clone();
        changed.keyed = Some(Arc::new(without.clone()));
        let codec = TableCodec::new(&Arc::new(changed))?;
        let needed =
            |what: String| Err(Error::new(ErrorKind::DependentObjects, what).hint("drop the foreign key first"));
        for key in &without.foreign_keys {
            if codec.key_path(&key.columns, false).is_none() {
                return needed(format!("foreign key {} of table \"{}\" needs it", key.name, def.name));
            }
        }
        for referrer in &without.referrers {
            if codec.key_path(&referrer.columns, true).is_none() {
                let other = self.table_def(referrer.table)?.name.clone();
                return needed(format!("a foreign key of table \"{other}\" refers to it"));
            }
        }
        Ok(())
    }

    /// Checks that all rows of a table have their parents. The commit fails if another transaction writes rows of the
    /// table before it.
    fn check_references(&mut self, table: TableId) -> Result<()> {
        let codec = self.keyed_codec(table)?;
        let mut cursor = self.keyed_cursor(table, None, KeyRange::default(), false)?;
        let mut rows = RowBatch::default();
        self.next_rows(&mut cursor, ROWS_AT_ONCE, &mut rows)?;
        // Rows that other transactions write before our commit are not checked here, so they must make it fail.
        self.validate_rows(table)?;
        while !rows.is_empty() {
            self.cancel.check()?;
            for (key, row) in rows.keys().iter().zip(rows.rows().iter()) {
                self.check_row(&codec, key, row)?;
            }
            self.next_rows(&mut cursor, ROWS_AT_ONCE, &mut rows)?;
        }
        Ok(())
    }
}

fn check_key(key: &ForeignKeyDef, codec: &TableCodec, parents: &TableCodec) -> Result<()> {
    let (def, parent) = (codec.def(), parents.def());
    let invalid = |what: String| Error::new(ErrorKind::InvalidDefinition, what);
    if def.has_constraint(&key.name) {
        let what = format!("table \"{}\" has a constraint \"{}\" already", def.name, key.name);
        return Err(Error::new(ErrorKind::DuplicateObject, what));
    }
    let (columns, parent_columns) = (key.columns.len(), key.parent_columns.len());
    if columns != parent_columns {
        return Err(invalid(format!("foreign key {} has {columns} columns and refers to {parent_columns}", key.name)));
    }
    if columns == 0 || columns > REFERENCE_COLUMNS_MAX {
        return Err(invalid(format!(
            "foreign key {} has {columns} columns, but must have 1 to {REFERENCE_COLUMNS_MAX}",
            key.name
        )));
    }
    let is_twice = |columns: &[ColumnId]| (1..columns.len()).any(|at| columns[..at].contains(&columns[at]));
    if is_twice(&key.columns) || is_twice(&key.parent_columns) {
        return Err(invalid(format!("foreign key {} has a column twice", key.name)));
    }
    let column = |def: &'_ Arc<TableDef>, id: ColumnId| {
        let at = def.column_by_id(id);
        at.map(|at| def.columns[at].clone()).ok_or_else(|| {
            Error::new(ErrorKind::UndefinedColumn, format!("foreign key {} has a column that does not exist", key.name))
        })
    };
    for (own, of_parent) in key.columns.iter().zip(&key.parent_columns) {
        let (own, of_parent) = (column(def, *own)?, column(parent, *of_parent)?);
        if !fit(&own.kind, &of_parent.kind) {
            let what = format!(
                "column {} of table \"{}\" is {}, and {} of table \"{}\", which it refers to, is {}",
                own.name, def.name, own.kind, of_parent.name, parent.name, of_parent.kind
            );
            return Err(Error::new(ErrorKind::DatatypeMismatch, what));
        }
    }
    if parents.key_path(&key.parent_columns, true).is_none() {
        let names: Result<Vec<_>> = key.parent_columns.iter().map(|id| Ok(column(parent, *id)?.name)).collect();
        let what = format!(
            "foreign key {} refers to ({}) of table \"{}\", which may have the same values in several rows",
            key.name,
            names?.join(", "),
            parent.name
        );
        return Err(invalid(what).hint("it must refer to the primary key or to the columns of a unique index"));
    }
    Ok(())
}

/// Whether equal values of two types have equal keys, so that we can look a value of one up in a column of the other. A
/// value that the other type cannot hold has no key there.
fn fit(own: &SqlType, of_parent: &SqlType) -> bool {
    use SqlType::{Int8, Int16, Int32, Int64, Text, UInt8, UInt16, UInt32, UInt64};
    let is_signed = |kind: &SqlType| matches!(kind, Int8 | Int16 | Int32 | Int64);
    let is_unsigned = |kind: &SqlType| matches!(kind, UInt8 | UInt16 | UInt32 | UInt64);
    own == of_parent
        || (is_signed(own) && is_signed(of_parent))
        || (is_unsigned(own) && is_unsigned(of_parent))
        || matches!((own, of_parent), (Text { .. }, Text { .. }))
}
