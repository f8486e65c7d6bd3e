//! Names of WITH clauses that an outer WITH clause gives too.
//!
//! The planner keeps one list of such names for a statement and takes the inner one for a repetition. SQL lets it hide
//! the outer one, so before planning it gets a name of its own: the name, a character that no one types, and the
//! depth. What is selected from it keeps the name that was written as its alias.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Ident, ObjectName, ObjectNamePart, Query, Statement, TableAlias, TableFactor, VisitorMut,
};

use super::select_list::MARK;
use crate::walk::walk_mut;

/// Gives names that hide others names of their own.
pub(super) fn tell_apart(statement: &mut Statement) {
    let _ = walk_mut(statement, &mut Scopes::default());
}

/// A name as written and as planned.
type Name = (String, String);

/// A query that is being read.
#[derive(Default)]
struct Level {
    /// The names of its WITH clause that can be used.
    known: Vec<Name>,
    /// The names whose queries are still to come, last one first.
    coming: Vec<Name>,
}

#[derive(Default)]
struct Scopes {
    levels: Vec<Level>,
}

impl Scopes {
    fn planned(&self, written: &str) -> Option<&str> {
        let mut names = self.levels.iter().rev().flat_map(|level| level.known.iter().rev());
        names.find(|(known, _)| known == written).map(|(_, planned)| planned.as_str())
    }
}

impl VisitorMut for Scopes {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let mut level = Level::default();
        let depth = self.levels.len();
        let recursive = query.with.as_ref().is_some_and(|with| with.recursive);
        for table in query.with.iter_mut().flat_map(|with| &mut with.cte_tables) {
            let written = table.alias.name.value.clone();
            if self.planned(&written).is_some() {
                table.alias.name.value = format!("{written}{MARK}{depth}");
            }
            level.coming.push((written, table.alias.name.value.clone()));
        }
        level.coming.reverse();
        if recursive {
            level.known = level.coming.clone();
        }
        self.levels.push(level);
        ControlFlow::Continue(())
    }

    /// The queries of a WITH clause are visited first and in order, so each that ends is the next name's.
    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.levels.pop();
        if let Some(level) = self.levels.last_mut()
            && let Some(name) = level.coming.pop()
        {
            level.known.push(name);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name: ObjectName(parts), alias, args: None, .. } = factor
            && let [ObjectNamePart::Identifier(ident)] = parts.as_mut_slice()
            && let Some(planned) = self.planned(&ident.value)
            && planned != ident.value
        {
            let written = ident.clone();
            *ident = Ident::with_quote('"', planned);
            alias.get_or_insert_with(|| TableAlias { explicit: true, name: written, columns: Vec::new(), at: None });
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::parsed;

    fn rewritten(sql: &str) -> String {
        let mut statement = parsed(sql);
        tell_apart(&mut statement);
        statement.to_string().replace(MARK, "#")
    }

    #[test]
    fn only_names_that_hide_others_are_changed() {
        let same = "WITH a AS (SELECT 1), b AS (SELECT 2 FROM a) SELECT 1 FROM a, b";
        assert_eq!(rewritten(same), same);
        assert_eq!(
            rewritten("WITH a AS (SELECT 1) SELECT 1 FROM (WITH a AS (SELECT 2 FROM a) SELECT 1 FROM a) AS s, a"),
            "WITH a AS (SELECT 1) \
             SELECT 1 FROM (WITH a#1 AS (SELECT 2 FROM a) SELECT 1 FROM \"a#1\" AS a) AS s, a"
        );
    }
}
