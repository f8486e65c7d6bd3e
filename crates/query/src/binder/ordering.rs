//! ORDER BY and DISTINCT ON.
//!
//! A bare name refers to a column of the result first, then to a column of FROM. Within an expression, names of the
//! result come first as well, but not in the arguments of aggregates and windows, because those are computed before the
//! result.

use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::ScalarExpr;
use rowmill_plan::logical::LogicalSortKey;
use sqlparser::ast::{self, OrderByExpr, OrderByKind, OrderByOptions, Spanned};

use super::Binder;
use super::place::unsupported;
use super::projection::SelectedItem;
use super::scope::AliasUse;
use super::walk::free_columns;

impl Binder<'_> {
    /// The keys of an ORDER BY after a select list.
    pub(super) fn order_keys(&mut self, order: &ast::OrderBy, items: &[SelectedItem]) -> Result<Vec<LogicalSortKey>> {
        match &order.kind {
            OrderByKind::All(options) => Ok(items.iter().map(|item| sort_key(item.reference(), options)).collect()),
            OrderByKind::Expressions(exprs) => {
                let mut keys = Vec::with_capacity(exprs.len());
                for key in exprs {
                    let value = self.order_value(&key.expr, items)?;
                    // A constant does not order rows.
                    if value.as_constant().is_none() {
                        keys.push(sort_key(value, &key.options));
                    }
                }
                Ok(keys)
            }
        }
    }

    /// The values of `DISTINCT ON`.
    pub(super) fn distinct_on(&mut self, exprs: &[ast::Expr], items: &[SelectedItem]) -> Result<Vec<ScalarExpr>> {
        exprs.iter().map(|expr| self.order_value(expr, items)).collect()
    }

    fn order_value(&mut self, expr: &ast::Expr, items: &[SelectedItem]) -> Result<ScalarExpr> {
        if let Some(place) = self.position(expr, items.len())? {
            return Ok(items[place].reference());
        }
        if let ast::Expr::Identifier(ident) = expr
            && let Some(item) = self.item_of_name(ident, items, false)?
        {
            return Ok(item.reference());
        }
        let before = std::mem::replace(&mut self.level().alias_use, AliasUse::First);
        let bound = self.expr(expr);
        self.level().alias_use = before;
        if let (Err(error), ast::Expr::Identifier(ident)) = (&bound, expr)
            && error.kind() == ErrorKind::UndefinedColumn
            && let Some(item) = self.item_of_name(ident, items, true)?
        {
            // No column of FROM has the name, so it must mean the derived one: `SELECT place.x ... ORDER BY x`.
            return Ok(item.reference());
        }
        let bound = bound?;
        // A value that the select list computes need not be computed again.
        match items.iter().find(|item| item.expr == bound) {
            Some(item) => Ok(item.reference()),
            None => Ok(bound),
        }
    }

    /// Finds the column of the result with this name. A name that is derived from an expression, for example from a
    /// cast, does not hide a column of FROM, so it counts only if `derived` says so.
    fn item_of_name<'i>(
        &self,
        ident: &ast::Ident,
        items: &'i [SelectedItem],
        derived: bool,
    ) -> Result<Option<&'i SelectedItem>> {
        let counts = |item: &SelectedItem| derived || item.is_alias || item.made.is_none();
        let mut found = items.iter().filter(|item| counts(item) && *item.name == *ident.value);
        let Some(first) = found.next() else { return Ok(None) };
        if found.any(|other| other.expr != first.expr) {
            let message = format!("several columns of the result are called \"{}\"", ident.value);
            let error = Error::new(ErrorKind::AmbiguousColumn, message);
            return Err(self.at(error.hint("order by the number of the column, or by its table and name"), ident.span));
        }
        Ok(Some(first))
    }

    /// Checks the order of a SELECT DISTINCT, whose keys must be columns of the result.
    pub(super) fn check_distinct_order(&self, order: &[LogicalSortKey], items: &[SelectedItem]) -> Result<()> {
        let references: Vec<ScalarExpr> = items.iter().map(SelectedItem::reference).collect();
        let is_there = |column: &usize| references.iter().any(|one| one.as_column() == Some(*column));
        for key in order {
            let is_outer = |column: &usize| !self.is_own(*column);
            if !free_columns(&key.expr).iter().all(|column| is_there(column) || is_outer(column)) {
                let message = "with SELECT DISTINCT, the expressions of ORDER BY must appear in the select list";
                return Err(Error::new(ErrorKind::InvalidDefinition, message)
                    .hint("select the expression too, or order around a subquery"));
            }
        }
        Ok(())
    }

    /// Binds the keys of an ORDER BY inside of a call or a window: expressions over columns.
    pub(super) fn inner_order(&mut self, order: &[OrderByExpr]) -> Result<Vec<LogicalSortKey>> {
        let mut keys = Vec::with_capacity(order.len());
        for key in order {
            if key.with_fill.is_some() {
                return Err(self.at(unsupported("WITH FILL"), key.span()));
            }
            let value = self.expr(&key.expr)?;
            keys.push(sort_key(value, &key.options));
        }
        Ok(keys)
    }
}

/// NULL is the greatest value, unless the options say otherwise.
pub(super) fn sort_key(expr: ScalarExpr, options: &OrderByOptions) -> LogicalSortKey {
    let descending = options.asc == Some(false);
    LogicalSortKey { expr, descending, nulls_first: options.nulls_first.unwrap_or(descending) }
}
