//! `SELECT *` over columns that USING merges.
//!
//! The planner shows one column of those that are merged, and takes the one of the table whose name comes first. It is
//! that of the first table that has it, so `*` becomes `a.*, b.* EXCLUDE (k)` before planning.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    ExcludeSelectItem, Ident, JoinConstraint, ObjectName, Select, SelectItem, SelectItemQualifiedWildcardKind,
    Statement, TableFactor, TableWithJoins, VisitorMut, WildcardAdditionalOptions,
};

use super::natural::constraint;
use crate::walk::walk_mut;

/// Writes the tables in front of such stars.
pub(super) fn spell_out(statement: &mut Statement) {
    let _ = walk_mut(statement, &mut Selects);
}

struct Selects;

impl VisitorMut for Selects {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let is_plain = |item: &SelectItem| match item {
            SelectItem::Wildcard(options) => {
                let WildcardAdditionalOptions { wildcard_token, .. } = options;
                *options == WildcardAdditionalOptions { wildcard_token: wildcard_token.clone(), ..Default::default() }
            }
            _ => false,
        };
        if !select.projection.iter().any(is_plain) {
            return ControlFlow::Continue(());
        }
        let Some(stars) = stars_of(&select.from) else { return ControlFlow::Continue(()) };
        let items = std::mem::take(&mut select.projection);
        for item in items {
            if is_plain(&item) {
                select.projection.extend(stars.iter().cloned());
            } else {
                select.projection.push(item);
            }
        }
        ControlFlow::Continue(())
    }
}

/// What `*` stands for, if USING merges columns and every table has a name.
fn stars_of(from: &[TableWithJoins]) -> Option<Vec<SelectItem>> {
    let (mut stars, mut names, mut merges) = (Vec::new(), HashSet::new(), false);
    for from in from {
        let name = name_of(&from.relation)?;
        names.insert(name.to_string());
        stars.push(star(name, Vec::new()));
        for join in &from.joins {
            let name = name_of(&join.relation)?;
            if !names.insert(name.to_string()) {
                return None;
            }
            let merged = match constraint(&mut join.join_operator.clone())? {
                JoinConstraint::Using(names) => names.clone(),
                JoinConstraint::Natural => return None,
                _ => Vec::new(),
            };
            merges |= !merged.is_empty();
            stars.push(star(name, merged));
        }
    }
    merges.then_some(stars)
}

fn star(table: ObjectName, without: Vec<ObjectName>) -> SelectItem {
    let opt_exclude = if without.is_empty() { None } else { Some(ExcludeSelectItem::Multiple(without)) };
    let options = WildcardAdditionalOptions { opt_exclude, ..Default::default() };
    SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(table), options)
}

/// The name in front of the columns of a table, whole.
fn name_of(relation: &TableFactor) -> Option<ObjectName> {
    match relation {
        TableFactor::Table { alias: Some(alias), .. } | TableFactor::Derived { alias: Some(alias), .. } => {
            Some(ObjectName::from(vec![Ident::with_quote('"', alias.name.value.as_str())]))
        }
        TableFactor::Table { name, args: None, .. } => Some(name.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::parsed;

    fn rewritten(sql: &str) -> String {
        let mut statement = parsed(sql);
        spell_out(&mut statement);
        statement.to_string()
    }

    #[test]
    fn a_star_over_merged_columns_names_its_tables() {
        assert_eq!(
            rewritten("SELECT *, 1 FROM b LEFT JOIN a AS x USING (k), c"),
            "SELECT b.*, \"x\".* EXCLUDE (k), c.*, 1 FROM b LEFT JOIN a AS x USING(k), c"
        );
    }

    #[test]
    fn others_stay() {
        for sql in [
            "SELECT * FROM b JOIN a ON a.k = b.k",
            "SELECT a.* FROM b JOIN a USING(k)",
            "SELECT * FROM b JOIN (SELECT 1 AS k) USING(k)",
        ] {
            assert_eq!(rewritten(sql), sql);
        }
    }
}
