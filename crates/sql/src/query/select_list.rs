//! Lists behind `SELECT` whose columns share a name.
//!
//! The planner tells columns apart by name and refuses `SELECT a, a` or `SELECT *, a`. SQL allows both, so before
//! planning a later column of the same name gets an alias: the name, a character that no one types, and a number.
//! [`shown`] cuts it off again where names leave the engine.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Ident, Select, SelectItem, SetExpr, Statement, Value, VisitorMut,
};
use datafusion::sql::sqlparser::tokenizer::Span;

use crate::walk::{any_expr, each_expr_mut, walk_mut};

pub(super) const MARK: char = '\u{1}';

/// The name of a column without what was added to tell it apart.
pub(crate) fn shown(name: &str) -> &str {
    match name.split_once(MARK) {
        Some((name, _)) if !name.is_empty() => name,
        _ => name,
    }
}

/// Gives the columns of every `SELECT` of `statement` distinct names.
pub(super) fn make_distinct(statement: &mut Statement) {
    let _ = walk_mut(statement, &mut Lists);
}

struct Lists;

impl VisitorMut for Lists {
    type Break = ();

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let stars = select.projection.iter().any(is_star);
        let mut taken = Taken { stars, ..Taken::default() };
        for (position, item) in select.projection.iter_mut().enumerate() {
            taken.tell_apart(item, position);
        }
        ControlFlow::Continue(())
    }
}

fn is_star(item: &SelectItem) -> bool {
    matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..))
}

/// The names that the earlier columns of a list have.
#[derive(Default)]
struct Taken {
    /// The list has a star, which may stand for a column of any name.
    stars: bool,
    /// Aliases and columns without a table.
    bare: HashSet<String>,
    /// Columns with a table, whole.
    qualified: HashSet<String>,
    /// Columns with a table, their last part.
    last_parts: HashSet<String>,
    /// Everything else, as text.
    computed: HashSet<String>,
}

impl Taken {
    fn tell_apart(&mut self, item: &mut SelectItem, position: usize) {
        match item {
            SelectItem::ExprWithAlias { alias, .. }
                if self.last_parts.contains(&alias.value) || !self.bare.insert(alias.value.clone()) =>
            {
                alias.value = marked(&alias.value, position);
            }
            SelectItem::UnnamedExpr(expr) => {
                let (name, again) = self.unnamed(expr);
                if again {
                    let alias = Ident { value: marked(&name, position), quote_style: Some('"'), span: Span::empty() };
                    *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
                }
            }
            _ => {}
        }
    }

    /// The name of a column without an alias, and whether an earlier one has it.
    fn unnamed(&mut self, expr: &Expr) -> (String, bool) {
        match expr {
            Expr::Identifier(ident) => {
                let again = self.last_parts.contains(&ident.value) || !self.bare.insert(ident.value.clone());
                (ident.value.clone(), again || self.stars)
            }
            Expr::CompoundIdentifier(parts) => {
                let name = parts.last().map_or_else(String::new, |part| part.value.clone());
                let again = self.bare.contains(&name) || !self.qualified.insert(expr.to_string());
                self.last_parts.insert(name.clone());
                (name, again || self.stars)
            }
            // The planner calls a cast by what is cast, which it may need beside it for ORDER BY.
            Expr::Cast { expr: inner, .. } => (name_of_cast(inner), true),
            Expr::Subquery(_) if let Some(name) = name_of_value(expr) => {
                let again = self.last_parts.contains(&name) || !self.bare.insert(name.clone());
                (name, again || self.stars || !self.computed.insert("(<subquery>)".into()))
            }
            _ => {
                let name = expr.to_string();
                // Two that differ may have one name for the planner.
                let planned = if is_named_otherwise(expr) { planned_name(expr) } else { name.clone() };
                let again = !self.computed.insert(planned);
                (name, again)
            }
        }
    }
}

fn is_named_otherwise(expr: &Expr) -> bool {
    any_expr(expr, |part| {
        is_null_text(part)
            || matches!(part, Expr::Cast { .. } | Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. })
    })
}

fn name_of_cast(inner: &Expr) -> String {
    match inner {
        Expr::Cast { expr, .. } | Expr::Nested(expr) => name_of_cast(expr),
        Expr::Identifier(ident) => ident.value.clone(),
        Expr::CompoundIdentifier(parts) => parts.last().map_or_else(String::new, |part| part.value.clone()),
        other => other.to_string(),
    }
}

/// The name of a subquery that stands for a value: that of its column.
fn name_of_value(expr: &Expr) -> Option<String> {
    let Expr::Subquery(query) = expr else { return None };
    let SetExpr::Select(select) = &*query.body else { return None };
    Some(match select.projection.first()? {
        SelectItem::ExprWithAlias { alias, .. } | SelectItem::UnnamedExpr(Expr::Identifier(alias)) => {
            alias.value.clone()
        }
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => parts.last()?.value.clone(),
        SelectItem::UnnamedExpr(expr) => name_of_value(expr).unwrap_or_else(|| expr.to_string()),
        _ => return None,
    })
}

fn is_null(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(value) if value.value == Value::Null)
}

/// `x || NULL`, which is NULL when it is bound.
fn is_null_text(expr: &Expr) -> bool {
    matches!(expr, Expr::BinaryOp { left, op: BinaryOperator::StringConcat, right } if is_null(left) || is_null(right))
}

/// What the planner calls `expr`: casts by what is cast, and all subqueries by the same name.
fn planned_name(expr: &Expr) -> String {
    let name = || Expr::Identifier(Ident::new("(<subquery>)"));
    let mut expr = expr.clone();
    each_expr_mut(&mut expr, |part| {
        if is_null_text(part) {
            *part = Expr::value(Value::Null);
        }
        match part {
            Expr::Cast { expr, .. } => *part = expr.as_ref().clone(),
            Expr::Subquery(_) => *part = name(),
            Expr::Exists { negated: false, .. } => *part = Expr::Identifier(Ident::new("EXISTS (<subquery>)")),
            Expr::Exists { negated: true, .. } => *part = Expr::Identifier(Ident::new("NOT EXISTS (<subquery>)")),
            Expr::InSubquery { expr, negated, .. } => {
                let list = vec![Expr::Identifier(Ident::new("<subquery>"))];
                *part = Expr::InList { expr: expr.clone(), list, negated: *negated };
            }
            _ => {}
        }
    });
    expr.to_string()
}

pub(super) fn marked(name: &str, position: usize) -> String {
    format!("{name}{MARK}{position}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::parsed;

    fn rewritten(sql: &str) -> String {
        let mut statement = parsed(sql);
        make_distinct(&mut statement);
        statement.to_string().replace(MARK, "#")
    }

    #[test]
    fn only_names_that_meet_are_changed() {
        assert_eq!(rewritten("SELECT a, b, a + 1, t.a FROM t"), "SELECT a, b, a + 1, t.a AS \"a#3\" FROM t");
        assert_eq!(rewritten("SELECT a, a FROM t"), "SELECT a, a AS \"a#1\" FROM t");
        assert_eq!(rewritten("SELECT t.a, u.a FROM t, u"), "SELECT t.a, u.a FROM t, u");
        assert_eq!(rewritten("SELECT a AS x, b AS x FROM t"), "SELECT a AS x, b AS x#1 FROM t");
        assert_eq!(rewritten("SELECT *, a FROM t"), "SELECT *, a AS \"a#1\" FROM t");
        assert_eq!(rewritten("SELECT (SELECT 1), (SELECT 2)"), "SELECT (SELECT 1), (SELECT 2) AS \"2#1\"");
        assert_eq!(rewritten("SELECT CAST(t.a AS INT) FROM t"), "SELECT CAST(t.a AS INT) AS \"a#0\" FROM t");
        assert_eq!(rewritten("SELECT a, (SELECT a FROM u) FROM t"), "SELECT a, (SELECT a FROM u) AS \"a#1\" FROM t");
        assert_eq!(rewritten("SELECT 1, 1"), "SELECT 1, 1 AS \"1#1\"");
        assert_eq!(rewritten("SELECT * FROM (SELECT a, a FROM t)"), "SELECT * FROM (SELECT a, a AS \"a#1\" FROM t)");
    }

    #[test]
    fn the_mark_is_not_shown() {
        assert_eq!(shown("a\u{1}3"), "a");
        assert_eq!(shown("a"), "a");
    }
}
