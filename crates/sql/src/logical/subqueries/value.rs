//! What an expression with a subquery answers, from the rows that the subquery gives.
//!
//! ```text
//! (S)         the value of the one row; NULL without a row; an error with more
//! EXISTS (S)  whether there is a row
//! x IN (S)    false without rows; NULL if x is; true if x is among them; NULL if NULL is; false
//! x < ANY (S) false without rows; true if x < max; NULL if x or one of them is; false
//! x < ALL (S) true without rows; false unless x < min; NULL if x or one of them is; true
//! ```

use datafusion::common::{Column, JoinType, Result, ScalarValue};
use datafusion::functions_aggregate::expr_fn::{count, first_value, max, min};
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison, SetQuantifier};
use datafusion::logical_expr::logical_plan::Subquery;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Operator, binary_expr, lit, not, when};
use rowmill_base::{Error, ErrorKind};

use super::forms::as_in;
use super::one_row::one_row;
use super::{PerRow, Unnester};
use crate::errors::to_datafusion;

impl Unnester {
    /// The answer of `expr`, a subquery, over `input`, which gets the columns that it takes.
    pub(super) fn answer(&mut self, expr: Expr, input: &mut LogicalPlan) -> Result<Expr> {
        match expr {
            Expr::ScalarSubquery(subquery) => self.scalar(&subquery, input),
            Expr::Exists(Exists { subquery, negated }) => {
                let found = self.exists(&subquery, input)?;
                Ok(if negated { found.is_null() } else { found.is_not_null() })
            }
            Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
                let found = self.is_in(*expr, &subquery, input)?;
                Ok(if negated { not(found) } else { found })
            }
            Expr::SetComparison(_) => match as_in(expr) {
                Expr::SetComparison(SetComparison { expr, subquery, op, quantifier }) => {
                    self.compares(*expr, op, &quantifier, &subquery, input)
                }
                other => self.answer(other, input),
            },
            other => Ok(other),
        }
    }

    fn scalar(&mut self, subquery: &Subquery, input: &mut LogicalPlan) -> Result<Expr> {
        let name = self.next_name();
        let rows = self.values_of(subquery, input, &name)?;
        let column = |field: &str| Expr::Column(Column::new(Some(name.as_str()), field));
        if subquery.subquery.max_rows().is_some_and(|rows| rows <= 1) {
            rows.attach(input, None)?;
            return Ok(column("value"));
        }
        let aggregates = [("first", first_value(column("value"), Vec::new())), ("rows", count(lit(1)))];
        rows.aggregate(&aggregates, &name)?.attach(input, None)?;
        Ok(one_row(column("first"), column("rows")))
    }

    /// A column that is not NULL where the subquery has a row.
    fn exists(&mut self, subquery: &Subquery, input: &mut LogicalPlan) -> Result<Expr> {
        let name = self.next_name();
        let rows = self.rows_of(&subquery.subquery, input, &name)?;
        rows.select(Vec::new())?.found(&name)?.attach(input, None)?;
        Ok(Expr::Column(Column::new(Some(name), "found")))
    }

    fn is_in(&mut self, item: Expr, subquery: &Subquery, input: &mut LogicalPlan) -> Result<Expr> {
        let item = self.once(item, input)?;
        let counted = self.next_name();
        let rows = self.values_of(subquery, input, &counted)?;
        rows.aggregate(&counts(&counted), &counted)?.attach(input, None)?;
        let found = self.next_name();
        let rows = self.values_of(subquery, input, &found)?;
        let partner = item.clone().eq(Expr::Column(Column::new(Some(found.as_str()), "value")));
        rows.found(&found)?.attach(input, Some(partner))?;
        when(no_rows(&counted), lit(false))
            .when(item.is_null(), null())
            .when(Expr::Column(Column::new(Some(found), "found")).is_not_null(), lit(true))
            .when(has_null(&counted), null())
            .otherwise(lit(false))
    }

    fn compares(
        &mut self,
        item: Expr,
        op: Operator,
        quantifier: &SetQuantifier,
        subquery: &Subquery,
        input: &mut LogicalPlan,
    ) -> Result<Expr> {
        let item = self.once(item, input)?;
        let name = self.next_name();
        let rows = self.values_of(subquery, input, &name)?;
        let value = Expr::Column(Column::new(Some(name.as_str()), "value"));
        let mut aggregates = counts(&name);
        aggregates.extend([("min", min(value.clone())), ("max", max(value))]);
        rows.aggregate(&aggregates, &name)?.attach(input, None)?;
        let is_any = matches!(quantifier, SetQuantifier::Any);
        let against =
            |field: &str| binary_expr(item.clone(), op, Expr::Column(Column::new(Some(name.as_str()), field)));
        let holds = match (op, is_any) {
            (Operator::Lt | Operator::LtEq, true) | (Operator::Gt | Operator::GtEq, false) => against("max"),
            (Operator::Gt | Operator::GtEq, true) | (Operator::Lt | Operator::LtEq, false) => against("min"),
            (Operator::NotEq, true) => against("min").or(against("max")),
            (Operator::Eq, false) => against("min").and(against("max")),
            _ => {
                let error = Error::new(ErrorKind::Unsupported, format!("{op} is not supported with ANY and ALL"));
                return Err(to_datafusion(error.hint("EXISTS with the comparison in its WHERE does the same")));
            }
        };
        let settles = if is_any { holds } else { not(holds) };
        when(no_rows(&name), lit(!is_any))
            .when(settles, lit(is_any))
            .when(item.clone().is_null().or(has_null(&name)), null())
            .otherwise(lit(!is_any))
    }

    /// The keys and values of a subquery's rows; the values are called `name`.value.
    fn values_of(&mut self, subquery: &Subquery, input: &LogicalPlan, name: &str) -> Result<PerRow> {
        let rows = self.rows_of(&subquery.subquery, input, name)?;
        let value = Expr::Column(subquery.subquery.schema().columns().swap_remove(0));
        rows.select(vec![value.alias_qualified(Some(name), "value")])
    }

    /// `item`, computed once for each row if it has another value every time.
    fn once(&mut self, item: Expr, input: &mut LogicalPlan) -> Result<Expr> {
        if !item.is_volatile() {
            return Ok(item);
        }
        let column = Column::new(Some(self.next_name()), "item");
        let columns = input.schema().columns().into_iter().map(Expr::Column);
        let item = item.alias_qualified(column.relation.clone(), &column.name);
        *input = LogicalPlanBuilder::from(input.clone()).project(columns.chain([item]))?.build()?;
        Ok(Expr::Column(column))
    }
}

fn counts(name: &str) -> Vec<(&'static str, Expr)> {
    let value = Expr::Column(Column::new(Some(name), "value"));
    vec![("rows", count(lit(1))), ("values", count(value))]
}

fn no_rows(name: &str) -> Expr {
    let rows = Expr::Column(Column::new(Some(name), "rows"));
    rows.clone().is_null().or(rows.eq(lit(0_i64)))
}

fn has_null(name: &str) -> Expr {
    let column = |field: &str| Expr::Column(Column::new(Some(name), field));
    column("values").lt(column("rows"))
}

fn null() -> Expr {
    Expr::Literal(ScalarValue::Boolean(None), None)
}

impl PerRow {
    fn key_exprs(&self) -> Vec<Expr> {
        self.keys.iter().map(|(_, inside)| Expr::Column(inside.clone())).collect()
    }

    /// The keys and `exprs` of every row.
    fn select(self, exprs: Vec<Expr>) -> Result<PerRow> {
        let all = self.key_exprs().into_iter().chain(exprs);
        Ok(PerRow { plan: LogicalPlanBuilder::from(self.plan).project(all)?.build()?, keys: self.keys })
    }

    /// The keys, and `aggregates` of their rows, which are called after `name`.
    fn aggregate(self, aggregates: &[(&str, Expr)], name: &str) -> Result<PerRow> {
        let keys = self.key_exprs();
        let named: Vec<Expr> = aggregates
            .iter()
            .map(|(field, expr)| {
                let computed = Expr::Column(Column::new_unqualified(expr.schema_name().to_string()));
                computed.alias_qualified(Some(name), *field)
            })
            .collect();
        let computed = aggregates.iter().map(|(_, expr)| expr.clone());
        let plan = LogicalPlanBuilder::from(self.plan).aggregate(keys.clone(), computed)?;
        Ok(PerRow { plan: plan.project(keys.into_iter().chain(named))?.build()?, keys: self.keys })
    }

    /// The distinct rows, with a column `found`. Of rows without columns it is one, if there is any.
    fn found(self, name: &str) -> Result<PerRow> {
        let found = lit(true).alias_qualified(Some(name), "found");
        let columns = self.plan.schema().columns();
        let rows = LogicalPlanBuilder::from(self.plan);
        let rows = if columns.is_empty() { rows.limit(0, Some(1))? } else { rows.distinct()? };
        let plan = rows.project(columns.into_iter().map(Expr::Column).chain([found]))?.build()?;
        Ok(PerRow { plan, keys: self.keys })
    }

    /// Gives each row of `input` its columns, or NULL.
    fn attach(self, input: &mut LogicalPlan, condition: Option<Expr>) -> Result<()> {
        let always = if self.keys.is_empty() { Some(lit(true)) } else { None };
        let condition = condition.or(always);
        *input = self.joined_to(input.clone(), JoinType::Left, condition)?;
        Ok(())
    }
}
