//! `TABLESAMPLE`: some of the rows of a table, chosen by chance.
//!
//! A share of the rows is a condition on `random()`, which each row meets or not by itself. A number of rows is the
//! first rows of a random order.

use std::sync::Arc;

use arrow::array::{AsArray, Float64Array};
use arrow::datatypes::{DataType, Float64Type};
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_expr::fold;
use rowmill_expr::typing;
use rowmill_plan::logical::LogicalSortKey;
use rowmill_plan::{CompareOp, Constant, Logical, ScalarExpr};
use sqlparser::ast::{TableFactor, TableSample, TableSampleKind, TableSampleQuantity, TableSampleUnit};

use super::Binder;
use super::from::FromPart;
use super::place::{start_of, unsupported};
use super::query::{filter, map};

impl Binder<'_> {
    /// Keeps the rows that the sample clause of `factor` chooses, if it has one.
    pub(super) fn sampled(&mut self, mut part: FromPart, factor: &TableFactor) -> Result<FromPart> {
        let sample = match factor {
            TableFactor::Table { sample, .. } | TableFactor::Derived { sample, .. } => sample.as_ref(),
            _ => None,
        };
        let Some(TableSampleKind::BeforeTableAlias(sample) | TableSampleKind::AfterTableAlias(sample)) = sample else {
            return Ok(part);
        };
        let quantity = quantity_of(sample)?;
        // A method without a unit chooses a share, as in PostgreSQL; a number alone is a number of rows.
        let is_rows = match &quantity.unit {
            Some(unit) => matches!(unit, TableSampleUnit::Rows),
            None => sample.name.is_none(),
        };
        let amount = self.sample_amount(quantity, is_rows)?;
        let random = self.call_named("random", Vec::new())?;
        if is_rows {
            let id = self.add_column("random", random.kind.clone());
            map(&mut part.plan, vec![(id, random)]);
            let key = LogicalSortKey { expr: self.columns.expr(id), descending: false, nulls_first: false };
            let sorted = Logical::Sort { input: Box::new(part.plan), keys: vec![key] };
            let rows = Some(ScalarExpr::literal(amount as i64));
            part.plan = Logical::Limit { input: Box::new(sorted), skip: None, rows };
            return Ok(part);
        }
        let share = ScalarExpr::literal(Constant::new(Arc::new(Float64Array::from(vec![amount / 100.0]))));
        filter(&mut part.plan, typing::compare(CompareOp::Less, random, share)?);
        Ok(part)
    }

    /// The number of rows, or of percent.
    fn sample_amount(&mut self, quantity: &TableSampleQuantity, is_rows: bool) -> Result<f64> {
        let value = self.expr(&quantity.value)?;
        let mut value = typing::cast(value, &DataType::Float64, false)?;
        fold::fold(&mut value);
        let amount = value
            .as_constant()
            .filter(|value| !value.is_null())
            .map(|value| value.array().as_primitive::<Float64Type>().value(0));
        match amount {
            Some(rows) if is_rows && rows >= 0.0 && rows.fract() == 0.0 => Ok(rows),
            Some(percent) if !is_rows && (0.0..=100.0).contains(&percent) => Ok(percent),
            _ => {
                let wanted = if is_rows { "a number of rows" } else { "a share from 0 to 100 percent" };
                let message = format!("TABLESAMPLE takes {wanted}, not {}", quantity.value);
                Err(self.at(Error::new(ErrorKind::InvalidParameter, message), start_of(&quantity.value)))
            }
        }
    }
}

fn quantity_of(sample: &TableSample) -> Result<&TableSampleQuantity> {
    if sample.seed.is_some() {
        return Err(unsupported("REPEATABLE after TABLESAMPLE")
            .hint("a condition on a column chooses the same rows again, for example id % 10 = 0"));
    }
    if sample.bucket.is_some() || sample.offset.is_some() {
        return Err(unsupported("BUCKET and OFFSET in TABLESAMPLE"));
    }
    sample.quantity.as_ref().ok_or_else(|| {
        Error::new(ErrorKind::Syntax, "TABLESAMPLE takes a share or a number of rows")
            .hint("for example TABLESAMPLE BERNOULLI (10), TABLESAMPLE 10% or TABLESAMPLE (100 ROWS)")
    })
}
