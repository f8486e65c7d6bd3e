//! Declared types of computed columns: see [`ColumnInfo::declared`](rowmill_plan::logical::ColumnInfo::declared).

use rowmill_plan::{ExprOp, ScalarExpr};

use super::Binder;

impl Binder<'_> {
    /// The declared type of a value, if the columns that it is made of give it one.
    pub(super) fn declared_of(&self, expr: &ScalarExpr) -> Option<&'static str> {
        match &expr.op {
            ExprOp::Column(id) => self.columns.get(rowmill_plan::ColumnId(*id)).declared,
            ExprOp::Subquery(subquery) => match subquery.columns.as_slice() {
                [id] if self.columns.get(*id).kind == expr.kind => self.columns.get(*id).declared,
                _ => None,
            },
            ExprOp::Case { whens, otherwise } => {
                let values = whens.iter().map(|(_, value)| value);
                self.declared_of_all(values.chain(otherwise.as_deref()))
            }
            ExprOp::Coalesce(values) => self.declared_of_all(values.iter()),
            _ => None,
        }
    }

    /// The declared type that all of these values have. NULL has every type.
    fn declared_of_all<'e>(&self, values: impl Iterator<Item = &'e ScalarExpr>) -> Option<&'static str> {
        let is_null = |value: &&ScalarExpr| value.as_constant().is_some_and(|constant| constant.is_null());
        let mut declared = values.filter(|value| !is_null(value)).map(|value| self.declared_of(value));
        let first = declared.next()??;
        declared.all(|other| other == Some(first)).then_some(first)
    }

    /// The declared type of the result of an aggregate of `argument`.
    pub(super) fn declared_of_aggregate(&self, name: &str, argument: &ScalarExpr) -> Option<&'static str> {
        match (name, self.declared_of(argument)?) {
            ("array_agg", "oid") => Some("oid[]"),
            ("min" | "max" | "any_value" | "first" | "last", own) => Some(own),
            _ => None,
        }
    }
}
