//! The query of `UPDATE` and `DELETE`: it finds the rows and computes their new values.
//!
//! Each stored table has a twin whose rows carry their row number. The query runs over the twin under the table's own
//! name. So every expression of the statement keeps its meaning, and everything that a `WHERE` can contain, including
//! subqueries, is planned as for `SELECT`:
//!
//! ```text
//! UPDATE t SET b = b + 1 WHERE a > 5   ->   SELECT row number, b + 1 FROM twin of t AS t WHERE a > 5
//! ```

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::UInt64Type;
use rowmill_base::{Error, Result};
use sqlparser::ast::{
    Expr, Ident, ObjectName, ObjectNamePart, Query, SelectItem, SetExpr, TableAlias, TableFactor, TableWithJoins,
};

use super::clause::{refuse, unsupported};
use super::sql_text;
use crate::catalog::{ROW_NUMBER_COLUMN, row_number_twin};
use crate::names::{CATALOG, QualifiedName, qualified};
use crate::session::Work;

/// The table that an `UPDATE` or `DELETE` changes.
pub(super) struct ChangedTable {
    pub(super) name: QualifiedName,
    /// The name that qualifies its columns.
    alias: Ident,
}

impl ChangedTable {
    /// Reads the target, which must be one table with or without an alias.
    pub(super) fn of(work: &Work<'_>, statement: &str, table: &TableWithJoins) -> Result<ChangedTable> {
        let TableWithJoins { relation, joins } = table;
        refuse(statement, [(!joins.is_empty(), "JOIN")])?;
        let TableFactor::Table {
            name,
            alias,
            args,
            with_hints,
            version,
            with_ordinality,
            partitions,
            json_path,
            sample,
            index_hints,
        } = relation
        else {
            return Err(unsupported(statement, "a target that is not a table"));
        };
        let clauses = [
            (args.is_some(), "a function as the target"),
            (!with_hints.is_empty() || !index_hints.is_empty(), "a hint"),
            (version.is_some(), "a table version"),
            (*with_ordinality, "WITH ORDINALITY"),
            (!partitions.is_empty(), "PARTITION"),
            (json_path.is_some(), "a JSON path"),
            (sample.is_some(), "TABLESAMPLE"),
        ];
        refuse(statement, clauses)?;
        let name = qualified(name, work.statement.spellings())?;
        let alias = match alias {
            None => Ident::with_quote('"', &name.name),
            Some(TableAlias { explicit: _, name, columns, at }) => {
                let clauses = [(!columns.is_empty(), "an alias for columns"), (at.is_some(), "AT")];
                refuse(statement, clauses)?;
                name.clone()
            }
        };
        Ok(ChangedTable { name, alias })
    }

    /// Makes the query `SELECT row number, items FROM target, others WHERE selection`.
    pub(super) fn query(
        &self,
        work: &Work<'_>,
        items: impl IntoIterator<Item = Expr>,
        others: &[TableWithJoins],
        selection: Option<&Expr>,
    ) -> Result<Query> {
        let mut query = sql_text::query("SELECT 1 FROM t AS t", work.settings())?;
        let SetExpr::Select(select) = &mut *query.body else { return Err(Error::internal("a SELECT is a SELECT")) };
        let items = items.into_iter().enumerate().map(|(position, expr)| SelectItem::ExprWithAlias {
            expr,
            // No column can have these names, so no item repeats the name of another.
            alias: Ident::with_quote('"', format!("\u{1}value{position}")),
        });
        select.projection = std::iter::once(SelectItem::UnnamedExpr(self.row_number())).chain(items).collect();
        select.from = std::iter::once(self.twin()).chain(others.iter().cloned()).collect();
        select.selection = selection.cloned();
        Ok(query)
    }

    /// Returns the twin of the target, whose rows have numbers, under the target's name.
    pub(super) fn twin(&self) -> TableWithJoins {
        twin(&self.name.schema, &row_number_twin(&self.name.name), self.alias.clone())
    }

    /// Returns the row number as an expression. For a keyed table it is the key.
    pub(super) fn row_number(&self) -> Expr {
        Expr::CompoundIdentifier(vec![self.alias.clone(), Ident::with_quote('"', ROW_NUMBER_COLUMN)])
    }

    /// Returns the name that qualifies the target's columns.
    pub(super) fn alias(&self) -> &Ident {
        &self.alias
    }

    /// Whether `qualifier` before a column means the target.
    pub(super) fn is_called(&self, qualifier: &Ident) -> bool {
        qualifier.value == self.alias.value
    }

    /// Returns a column of the target as an expression.
    pub(super) fn column(&self, lower_name: &str) -> Expr {
        Expr::CompoundIdentifier(vec![self.alias.clone(), Ident::with_quote('"', lower_name)])
    }
}

/// Returns the row numbers and the computed columns of a batch of a [`ChangedTable::query`].
pub(super) fn numbered(batch: &RecordBatch) -> (&[u64], &[ArrayRef]) {
    let (numbers, values) = batch.columns().split_first().expect("the query selects the row number first");
    (numbers.as_primitive::<UInt64Type>().values(), values)
}

/// Returns the number or the key that identifies the row at `row` of a [`ChangedTable::query`], or `None` if that row
/// has no row of the target.
pub(super) fn row_id(batch: &RecordBatch, row: usize) -> Option<Vec<u8>> {
    let ids = batch.column(0);
    ids.is_valid(row).then(|| match (ids.as_binary_opt::<i32>(), ids.as_binary_view_opt()) {
        (Some(keys), _) => keys.value(row).to_vec(),
        (_, Some(keys)) => keys.value(row).to_vec(),
        _ => numbered(batch).0[row].to_ne_bytes().to_vec(),
    })
}

/// Returns the twin `twin` of a table in `schema`, under the name that qualifies its columns.
pub(super) fn twin(schema: &str, twin: &str, alias: Ident) -> TableWithJoins {
    let parts = [CATALOG, schema, twin].map(|part| ObjectNamePart::Identifier(Ident::with_quote('"', part)));
    let relation = TableFactor::Table {
        name: ObjectName(parts.to_vec()),
        alias: Some(TableAlias { explicit: true, name: alias, columns: Vec::new(), at: None }),
        args: None,
        with_hints: Vec::new(),
        version: None,
        with_ordinality: false,
        partitions: Vec::new(),
        json_path: None,
        sample: None,
        index_hints: Vec::new(),
    };
    TableWithJoins { relation, joins: Vec::new() }
}
