//! The table that a statement changes, as the statement names it.

use rowmill_base::Result;
use sqlparser::ast::{Ident, TableAlias, TableFactor, TableWithJoins};

use super::clause::{refuse, unsupported};
use crate::names::{QualifiedName, qualified};
use crate::session::Work;

/// The table that an `UPDATE`, `DELETE` or `MERGE` changes.
pub(super) struct TargetTable<'s> {
    pub(super) name: QualifiedName,
    pub(super) relation: &'s TableFactor,
    alias: Option<&'s Ident>,
}

impl<'s> TargetTable<'s> {
    /// Reads the target, which must be one table with or without an alias.
    pub(super) fn of(work: &Work<'_>, statement: &str, table: &'s TableWithJoins) -> Result<TargetTable<'s>> {
        let TableWithJoins { relation, joins } = table;
        refuse(statement, [(!joins.is_empty(), "JOIN")])?;
        TargetTable::of_relation(work, statement, relation)
    }

    pub(super) fn of_relation(work: &Work<'_>, statement: &str, relation: &'s TableFactor) -> Result<TargetTable<'s>> {
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
        let alias = match alias {
            None => None,
            Some(TableAlias { explicit: _, name, columns, at }) => {
                let clauses = [(!columns.is_empty(), "an alias for columns"), (at.is_some(), "AT")];
                refuse(statement, clauses)?;
                Some(name)
            }
        };
        Ok(TargetTable { name: qualified(name, work.statement.spellings())?, relation, alias })
    }

    /// Returns the name that qualifies the target's columns, in lower case.
    pub(super) fn alias(&self) -> &str {
        self.alias.map_or(&self.name.name, |alias| &alias.value)
    }
}
