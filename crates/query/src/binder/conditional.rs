//! CASE, COALESCE and the calls that become CASE or COALESCE; casts.

use arrow::datatypes::DataType;
use rowmill_base::{Error, ErrorKind, Result, SqlType};
use rowmill_expr::typing;
use rowmill_plan::{CompareOp, ExprOp, ScalarExpr};
use sqlparser::ast::{self, CaseWhen, CastKind, Expr};

use super::Binder;

impl Binder<'_> {
    /// `CASE ... END`
    pub(super) fn case(
        &mut self,
        operand: Option<&Expr>,
        conditions: &[CaseWhen],
        otherwise: Option<&Expr>,
    ) -> Result<ScalarExpr> {
        let mut whens = Vec::with_capacity(conditions.len());
        for when in conditions {
            let condition = match operand {
                None => self.condition(&when.condition)?,
                Some(operand) => self.binary(operand, &ast::BinaryOperator::Eq, &when.condition)?,
            };
            whens.push((condition, self.expr(&when.result)?));
        }
        let otherwise = otherwise.map(|otherwise| self.expr(otherwise)).transpose()?;
        self.case_of(whens, otherwise)
    }

    /// Builds CASE from bound parts, whose values are cast to their common type.
    fn case_of(
        &mut self,
        mut whens: Vec<(ScalarExpr, ScalarExpr)>,
        mut otherwise: Option<ScalarExpr>,
    ) -> Result<ScalarExpr> {
        let values = whens.iter_mut().map(|(_, value)| value).chain(&mut otherwise).collect();
        let kind = self.bring_together(values)?;
        Ok(ScalarExpr::new(kind, ExprOp::Case { whens, otherwise: otherwise.map(Box::new) }))
    }

    /// Binds a call of a function that evaluates an argument only if it is needed. Returns `None` for any other
    /// function.
    pub(super) fn conditional_call(&mut self, name: &str, arguments: &[&Expr]) -> Result<Option<ScalarExpr>> {
        let wrong = |takes: &str| {
            let message = format!("{name} takes {takes}, but {} were given", arguments.len());
            Err(Error::new(ErrorKind::UndefinedFunction, message))
        };
        Ok(Some(match (name, arguments) {
            ("coalesce" | "ifnull" | "nvl", []) => return wrong("at least one argument"),
            ("ifnull" | "nvl", [_] | [_, _, _, ..]) => return wrong("2 arguments"),
            ("coalesce" | "ifnull" | "nvl", values) => {
                let mut values = values.iter().map(|value| self.expr(value)).collect::<Result<Vec<_>>>()?;
                let kind = self.bring_together(values.iter_mut().collect())?;
                if values.len() == 1 {
                    return Ok(values.pop());
                }
                ScalarExpr::new(kind, ExprOp::Coalesce(values))
            }
            ("nullif", [value, other]) => {
                let equal = self.binary(value, &ast::BinaryOperator::Eq, other)?;
                let value = self.expr(value)?;
                let null = ScalarExpr::null(value.kind.clone());
                self.case_of(vec![(equal, null)], Some(value))?
            }
            ("nullif", _) => return wrong("2 arguments"),
            ("nvl2", [tested, then, otherwise]) => {
                let value = Box::new(self.expr(tested)?);
                let test = ScalarExpr::new(DataType::Boolean, ExprOp::IsNull { value, negated: true });
                let (then, otherwise) = (self.expr(then)?, self.expr(otherwise)?);
                self.case_of(vec![(test, then)], Some(otherwise))?
            }
            ("nvl2", _) => return wrong("3 arguments"),
            ("if" | "iff" | "iif", [condition, then, rest @ ..]) if rest.len() < 2 => {
                let condition = self.condition(condition)?;
                let then = self.expr(then)?;
                let otherwise = rest.first().map(|otherwise| self.expr(otherwise)).transpose()?;
                self.case_of(vec![(condition, then)], otherwise)?
            }
            ("if" | "iff" | "iif", _) => return wrong("a condition and two values"),
            _ => return Ok(None),
        }))
    }

    /// `CAST(expr AS kind)` and its other forms.
    pub(super) fn cast(&mut self, form: &CastKind, expr: &Expr, data_type: &ast::DataType) -> Result<ScalarExpr> {
        let kind = self.sql_type(data_type)?;
        let or_null = matches!(form, CastKind::TryCast | CastKind::SafeCast);
        let value = self.expr(expr)?;
        if let Some(text) = value.as_constant().and_then(|constant| constant.as_text())
            && let Some(time) = self.word_of_clock(text, &kind)?
        {
            return Ok(time);
        }
        self.cast_value(value, &kind, or_null)
    }

    /// A cast of a bound value.
    pub(super) fn cast_value(&mut self, value: ScalarExpr, kind: &SqlType, or_null: bool) -> Result<ScalarExpr> {
        let value = self.typed_parameter(value, &kind.arrow());
        typing::cast_to_sql_type(value, kind, or_null)
    }

    /// `(a, b) op (SELECT x, y ...)`
    pub(super) fn row_beside_subquery(
        &mut self,
        op: CompareOp,
        row: &[Expr],
        query: &ast::Query,
    ) -> Result<ScalarExpr> {
        // The query gives at most one row, so ANY means the comparison with that row.
        let left = self.exprs(row)?;
        self.quantified_row(left, op, query)
    }
}
