//! Subqueries in expressions: values, EXISTS, IN, ANY, ALL.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_expr::typing;
use rowmill_plan::logical::{Subquery, SubqueryKind};
use rowmill_plan::{CompareOp, ExprOp, Logical, ScalarExpr};
use sqlparser::ast::{BinaryOperator, Expr, Query};

use super::from::{ids, item_kind};
use super::operator::{compare_op, row_of};
use super::place::{type_name, unsupported};
use super::scope::NamedColumn;
use super::{Binder, BoundRows};

impl Binder<'_> {
    /// Binds an expression that contains a subquery.
    pub(super) fn subquery_form(&mut self, expr: &Expr) -> Result<ScalarExpr> {
        match expr {
            Expr::Subquery(query) => self.scalar_subquery(query),
            Expr::Exists { subquery, negated } => {
                let exists = self.exists(subquery)?;
                Ok(if *negated { exists.negated() } else { exists })
            }
            Expr::InSubquery { expr, subquery, negated } => {
                let op = if *negated { CompareOp::NotEqual } else { CompareOp::Equal };
                let rows = self.query(subquery)?;
                self.quantified(expr, op, *negated, rows)
            }
            Expr::AnyOp { left, compare_op: op, right, .. } => self.any_or_all(left, op, right, false),
            Expr::AllOp { left, compare_op: op, right } => self.any_or_all(left, op, right, true),
            Expr::InUnnest { expr, array_expr, negated } => {
                let op = if *negated { BinaryOperator::NotEq } else { BinaryOperator::Eq };
                self.any_or_all(expr, &op, array_expr, *negated)
            }
            other => Err(unsupported(format!("{other}"))),
        }
    }

    fn scalar_subquery(&mut self, query: &Query) -> Result<ScalarExpr> {
        let rows = self.query(query)?;
        let kind = self.single_kind(&rows)?;
        Ok(subquery(kind, rows, SubqueryKind::Scalar, Vec::new()))
    }

    /// `EXISTS (query)`
    pub(super) fn exists(&mut self, query: &Query) -> Result<ScalarExpr> {
        let rows = self.query(query)?;
        Ok(subquery(DataType::Boolean, rows, SubqueryKind::Exists, Vec::new()))
    }

    /// `ARRAY(query)`
    pub(super) fn array_subquery(&mut self, query: &Query) -> Result<ScalarExpr> {
        let rows = self.query(query)?;
        let item = self.single_kind(&rows)?;
        let kind = DataType::List(Arc::new(Field::new("item", item, true)));
        Ok(subquery(kind, rows, SubqueryKind::Array, Vec::new()))
    }

    /// The type of the only column of a subquery.
    fn single_kind(&self, rows: &BoundRows) -> Result<DataType> {
        match rows.columns.as_slice() {
            [column] => Ok(self.kind(column.id).clone()),
            columns => {
                let message = format!("a subquery that stands for a value must have one column, not {}", columns.len());
                Err(Error::new(ErrorKind::CardinalityViolation, message))
            }
        }
    }

    /// Binds `left op ANY (right)` and `left op ALL (right)` over a subquery or a list.
    fn any_or_all(&mut self, left: &Expr, op: &BinaryOperator, right: &Expr, all: bool) -> Result<ScalarExpr> {
        let Some(compare) = compare_op(op) else {
            let quantifier = if all { "ALL" } else { "ANY" };
            return Err(unsupported(format!("{op} {quantifier}")));
        };
        let mut right = right;
        while let Expr::Nested(inner) = right {
            right = inner;
        }
        match right {
            Expr::Subquery(query) => {
                let rows = self.query(query)?;
                self.quantified(left, compare, all, rows)
            }
            Expr::Array(items) if !items.elem.is_empty() && row_of(left).is_none() => {
                let value = self.expr(left)?;
                let items = self.exprs(&items.elem)?;
                match (compare, all) {
                    (CompareOp::Equal, false) => self.in_values(value, items, false),
                    (CompareOp::NotEqual, true) => self.in_values(value, items, true),
                    _ => {
                        let mut parts = Vec::with_capacity(items.len());
                        for item in items {
                            parts.push(typing::compare(compare, value.clone(), item)?);
                        }
                        Ok(if all { ScalarExpr::and(parts) } else { ScalarExpr::or(parts) })
                    }
                }
            }
            list => {
                let list = self.expr(list)?;
                let list = self.typed_list(list, left)?;
                let Some(kind) = item_kind(&list.kind) else {
                    let message = format!("ANY and ALL take a subquery or a list, not {}", type_name(&list.kind));
                    return Err(Error::new(ErrorKind::DatatypeMismatch, message));
                };
                if list.as_constant().is_some_and(|list| list.is_null()) {
                    return Ok(ScalarExpr::null(DataType::Boolean));
                }
                let list_or_null = is_null_seen(&list, compare, all).then(|| list.clone());
                let id = self.add_column("item", kind);
                let plan = Logical::Unnest {
                    input: Box::new(Logical::one_row()),
                    lists: vec![(id, list)],
                    ordinality: None,
                    outer: false,
                };
                let rows = BoundRows { plan, columns: vec![NamedColumn::new(id, "item")] };
                let found = self.quantified(left, compare, all, rows)?;
                Ok(match list_or_null {
                    Some(list) => null_for_null(found, list, all),
                    None => found,
                })
            }
        }
    }

    /// Binds a list. If it is a parameter without a type, its items get the type of the left side.
    fn typed_list(&mut self, list: ScalarExpr, left: &Expr) -> Result<ScalarExpr> {
        match (&list.op, &list.kind) {
            (ExprOp::Parameter(_), DataType::Null) => {
                let item = self.expr(left)?.kind;
                let kind = DataType::List(Arc::new(Field::new("item", item, true)));
                Ok(self.typed_parameter(list, &kind))
            }
            (_, DataType::Null | DataType::Utf8View) => {
                let item = self.expr(left)?.kind;
                let kind = DataType::List(Arc::new(Field::new("item", item, true)));
                self.coerce(list, &kind)
            }
            _ => Ok(list),
        }
    }

    /// Binds `left op ANY (rows)`, or ALL.
    fn quantified(&mut self, left: &Expr, op: CompareOp, all: bool, rows: BoundRows) -> Result<ScalarExpr> {
        let left = match row_of(left) {
            Some(row) => self.exprs(row)?,
            None => vec![self.expr(left)?],
        };
        self.quantified_values(left, op, all, rows)
    }

    /// Binds `(left) op (query)`, where the query gives one row.
    pub(super) fn quantified_row(&mut self, left: Vec<ScalarExpr>, op: CompareOp, query: &Query) -> Result<ScalarExpr> {
        let mut rows = self.query(query)?;
        rows.plan = Logical::SingleRow { input: Box::new(rows.plan), by: Vec::new() };
        self.quantified_values(left, op, false, rows)
    }

    fn quantified_values(
        &mut self,
        left: Vec<ScalarExpr>,
        op: CompareOp,
        all: bool,
        mut rows: BoundRows,
    ) -> Result<ScalarExpr> {
        if left.len() != rows.columns.len() {
            let message = match left.len() {
                1 => format!("the subquery must have one column, not {}", rows.columns.len()),
                values => {
                    format!("the subquery must have one column per value, that is {values}, not {}", rows.columns.len())
                }
            };
            return Err(Error::new(ErrorKind::CardinalityViolation, message));
        }
        let mut values = Vec::with_capacity(left.len());
        let mut kinds = Vec::with_capacity(left.len());
        for (value, column) in left.into_iter().zip(&rows.columns) {
            let other = self.columns.expr(column.id);
            let value = self.typed_parameter(value, &other.kind);
            match typing::comparison_kind(&[&value, &other]) {
                Some(kind) => {
                    values.push(self.coerce(value, &kind)?);
                    kinds.push(kind);
                }
                None => return typing::compare(op, value, other),
            }
        }
        self.cast_columns(&mut rows, &kinds)?;
        Ok(subquery(DataType::Boolean, rows, SubqueryKind::Quantified { op, all }, values))
    }
}

/// Whether it must be checked that the list of `ANY` or `ALL` is NULL. `x = ANY (list)` without a column in the list is
/// left out, because it finds rows by a key, and a condition treats false and NULL alike.
fn is_null_seen(list: &ScalarExpr, op: CompareOp, all: bool) -> bool {
    let has_column = list.any(&|part| matches!(part.op, ExprOp::Column(_)));
    list.as_constant().is_none() && (has_column || all || op != CompareOp::Equal)
}

/// Makes the result of `ANY` or `ALL` NULL where its list is NULL. Without a list there are no items, for which `ANY`
/// is false and `ALL` is true.
fn null_for_null(found: ScalarExpr, list: ScalarExpr, all: bool) -> ScalarExpr {
    let is_null = ExprOp::IsNull { value: Box::new(list), negated: all };
    let is_null = ScalarExpr::new(DataType::Boolean, is_null);
    let unknown = ScalarExpr::null(DataType::Boolean);
    match all {
        true => ScalarExpr::and(vec![found, ScalarExpr::or(vec![is_null, unknown])]),
        false => ScalarExpr::or(vec![found, ScalarExpr::and(vec![is_null, unknown])]),
    }
}

fn subquery(kind: DataType, rows: BoundRows, asked: SubqueryKind, left: Vec<ScalarExpr>) -> ScalarExpr {
    let columns = ids(&rows.columns);
    let subquery = Subquery { plan: rows.plan, columns, kind: asked, left };
    ScalarExpr::new(kind, ExprOp::Subquery(Box::new(subquery)))
}
