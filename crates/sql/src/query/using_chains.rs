//! Columns that USING clauses merge: `a JOIN b USING (k) JOIN c USING (k)`.
//!
//! The planner merges the columns of each join for itself and takes `k` for ambiguous where several do, and in a subquery
//! for a column of the query around it. In joins that keep no row of their right side alone the merged column is that of
//! the first table that has it, so `k` becomes `a.k` before planning. In others the column of that name is merged behind
//! planning ([`super::merged_columns`]).

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, Ident, JoinConstraint, JoinOperator, OrderByKind, Query, Select, SelectItem, SetExpr, Statement,
    TableWithJoins, VisitMut, VisitorMut,
};

use super::merged_columns::qualifier;
use crate::walk::walk_mut;

/// Writes the table in front of such columns.
pub(super) fn name_owners(statement: &mut Statement) {
    let _ = walk_mut(statement, &mut Selects);
}

struct Selects;

impl VisitorMut for Selects {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let SetExpr::Select(select) = query.body.as_mut() else { return ControlFlow::Continue(()) };
        let mut owners: HashMap<String, String> = select.from.iter().flat_map(owners_of).collect();
        if owners.is_empty() {
            return ControlFlow::Continue(());
        }
        qualify_select(select, &owners);
        // What a result column is called goes before the columns of tables.
        for item in &select.projection {
            if let SelectItem::ExprWithAlias { alias, .. } = item {
                owners.remove(&alias.value);
            }
        }
        if let Some(OrderByKind::Expressions(keys)) = query.order_by.as_mut().map(|order_by| &mut order_by.kind) {
            keys.iter_mut().for_each(|key| qualify(&mut key.expr, &owners));
        }
        ControlFlow::Continue(())
    }
}

fn qualify_select(select: &mut Select, owners: &HashMap<String, String>) {
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            qualify(expr, owners);
        }
    }
    if let GroupByExpr::Expressions(keys, _) = &mut select.group_by {
        keys.iter_mut().for_each(|key| qualify(key, owners));
    }
    let conditions = [&mut select.selection, &mut select.having, &mut select.qualify];
    conditions.into_iter().flatten().for_each(|condition| qualify(condition, owners));
}

/// The columns that joins merge, each with the table whose column it is.
fn owners_of(from: &TableWithJoins) -> HashMap<String, String> {
    let mut joins: HashMap<String, Vec<usize>> = HashMap::new();
    let mut keeps_right = false;
    for (at, join) in from.joins.iter().enumerate() {
        let constraint = match &join.join_operator {
            JoinOperator::Join(constraint)
            | JoinOperator::Inner(constraint)
            | JoinOperator::Left(constraint)
            | JoinOperator::LeftOuter(constraint) => constraint,
            JoinOperator::Right(constraint)
            | JoinOperator::RightOuter(constraint)
            | JoinOperator::FullOuter(constraint) => {
                keeps_right = true;
                constraint
            }
            JoinOperator::CrossJoin(_) => continue,
            _ => return HashMap::new(),
        };
        if let JoinConstraint::Using(names) = constraint {
            for name in names.iter().filter_map(|name| name.0.last()?.as_ident()) {
                joins.entry(name.value.clone()).or_default().push(at);
            }
        }
    }
    let owner = |(name, joins): (String, Vec<usize>)| {
        let owner = match (joins.as_slice(), &from.joins[joins[0]].join_operator) {
            // Behind a join that keeps rows of its right side alone a column that is merged again is nobody's.
            (several, _) if keeps_right && several.len() > 1 => None,
            ([0, ..], _) => qualifier(&from.relation),
            // Which of the tables before has the column is not known here, but its partner's is the same.
            (_, JoinOperator::Join(_) | JoinOperator::Inner(_)) if !keeps_right => {
                qualifier(&from.joins[joins[0]].relation)
            }
            _ => None,
        };
        Some((name, owner?))
    };
    joins.into_iter().filter_map(owner).collect()
}

/// Names the owners of columns in `expr`; those in its subqueries may be columns of theirs.
fn qualify(expr: &mut impl VisitMut, owners: &HashMap<String, String>) {
    let _ = walk_mut(expr, &mut Qualifier { owners, subqueries: 0 });
}

struct Qualifier<'a> {
    owners: &'a HashMap<String, String>,
    subqueries: usize,
}

impl VisitorMut for Qualifier<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.subqueries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.subqueries -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.subqueries == 0
            && let Expr::Identifier(name) = expr
            && let Some(owner) = self.owners.get(&name.value)
        {
            *expr = Expr::CompoundIdentifier(vec![Ident::new(owner), name.clone()]);
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
        name_owners(&mut statement);
        statement.to_string()
    }

    #[test]
    fn a_column_of_several_joins_gets_its_table() {
        assert_eq!(
            rewritten("SELECT k FROM a JOIN b USING (k) LEFT JOIN c USING (k) WHERE k > 1 ORDER BY k"),
            "SELECT a.k FROM a JOIN b USING(k) LEFT JOIN c USING(k) WHERE a.k > 1 ORDER BY a.k"
        );
        assert_eq!(
            rewritten("SELECT k FROM a JOIN b USING (i) JOIN c AS x USING (k) JOIN d USING (k)"),
            "SELECT x.k FROM a JOIN b USING(i) JOIN c AS x USING(k) JOIN d USING(k)"
        );
    }

    #[test]
    fn others_stay() {
        for sql in [
            "SELECT k FROM a JOIN b USING(k) FULL JOIN c USING(k)",
            "SELECT k FROM a JOIN b USING(i) LEFT JOIN c USING(k)",
            "SELECT 1 AS k FROM a JOIN b USING(k) JOIN c USING(k) ORDER BY k",
            "SELECT (SELECT k FROM d) FROM a JOIN b USING(k) JOIN c USING(k)",
        ] {
            assert_eq!(rewritten(sql), sql);
        }
    }
}
