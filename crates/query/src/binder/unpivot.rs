//! `UNPIVOT`: columns become rows.
//!
//! ```text
//! t UNPIVOT (v FOR n IN (a, b))  ->  FROM t, unnest(['a', 'b'], [a, b]) AS u(n, v) WHERE v IS NOT NULL
//! ```

use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::{ColumnId, ExprOp, Logical, ScalarExpr};
use sqlparser::ast::{Expr, ExprWithAlias, NullInclusion, TableFactor};

use super::Binder;
use super::built_query::{as_call, column};
use super::from::{FromPart, item_kind};
use super::place::start_of;
use super::query::filter;
use super::scope::{Clause, FromNames, NamedColumn, ScopeRelation, SelectLevel};

/// The values that become one row: the name that tells where they were, and one value for each new column.
struct UnpivotedRow {
    label: String,
    values: Vec<Expr>,
}

impl Binder<'_> {
    /// Binds `table UNPIVOT (...)`.
    pub(super) fn unpivot(&mut self, factor: &TableFactor) -> Result<FromPart> {
        let TableFactor::Unpivot { table, value, name, columns, null_inclusion, alias } = factor else {
            return Err(Error::internal("an UNPIVOT is bound"));
        };
        let part = self.deeper(1, |binder| binder.table_factor(table))?;
        let value_names = self.names_of_values(value)?;
        let rows = self.unpivoted_rows(columns, &part.names, value_names.len())?;
        let bound = self.unpivoted_values(&rows, &part.names)?;
        let used: Vec<usize> = bound.iter().flatten().filter_map(ScalarExpr::as_column).collect();
        let mut remaining: Vec<NamedColumn> =
            part.names.visible.iter().filter(|column| !used.contains(&column.id.0)).cloned().collect();
        let labels = rows.iter().map(|row| ScalarExpr::literal(row.label.as_str())).collect();
        let mut lists = vec![self.unnested(self.spelled(name), labels, &mut remaining)?];
        let mut made = Vec::with_capacity(value_names.len());
        for (place, name) in value_names.into_iter().enumerate() {
            let values = bound.iter().map(|row| row[place].clone()).collect();
            let list = self.unnested(name, values, &mut remaining)?;
            made.push(list.0);
            lists.push(list);
        }
        let mut plan = Logical::Unnest { input: Box::new(part.plan), lists, ordinality: None, outer: false };
        if !matches!(null_inclusion, Some(NullInclusion::IncludeNulls)) {
            // A row is left out if all of its values are NULL.
            let is_there = |id| {
                let is_not_null = ExprOp::IsNull { value: Box::new(self.columns.expr(id)), negated: true };
                ScalarExpr::new(arrow::datatypes::DataType::Boolean, is_not_null)
            };
            let condition = ScalarExpr::or(made.into_iter().map(is_there).collect());
            filter(&mut plan, condition);
        }
        self.aliased(plan, ScopeRelation::new(None, remaining), alias.as_ref())
    }

    /// The names of the new columns with values: one, or those of a list in parentheses.
    fn names_of_values(&self, value: &Expr) -> Result<Vec<String>> {
        let parts = match value {
            Expr::Tuple(parts) => parts.as_slice(),
            one => std::slice::from_ref(one),
        };
        let names = parts.iter().map(|part| match part {
            Expr::Identifier(ident) => Ok(self.spelled(ident)),
            other => {
                let error =
                    Error::new(ErrorKind::Syntax, format!("UNPIVOT takes the name of a new column, not {other}"));
                Err(self.at(error, start_of(other)))
            }
        });
        names.collect()
    }

    fn unpivoted_rows(
        &mut self,
        columns: &[ExprWithAlias],
        names: &FromNames,
        width: usize,
    ) -> Result<Vec<UnpivotedRow>> {
        let mut rows = Vec::with_capacity(columns.len());
        for ExprWithAlias { expr, alias } in columns {
            if let Some(call) = as_call(expr, "columns") {
                for one in self.matching_columns(call, names)? {
                    rows.push(UnpivotedRow { label: one.spelled.to_string(), values: vec![column(&one.name)] });
                }
                continue;
            }
            let values = match expr {
                Expr::Tuple(parts) => parts.clone(),
                Expr::Nested(inner) if width == 1 => vec![(**inner).clone()],
                one => vec![one.clone()],
            };
            let label = match (alias, expr) {
                (Some(alias), _) => self.spelled(alias),
                (None, Expr::Identifier(ident)) => {
                    let known = names.visible.iter().find(|column| *column.name == *ident.value);
                    known.map_or_else(|| self.spelled(ident), |column| column.spelled.to_string())
                }
                (None, other) => other.to_string(),
            };
            rows.push(UnpivotedRow { label, values });
        }
        if let Some(row) = rows.iter().find(|row| row.values.len() != width) {
            let message =
                format!("UNPIVOT makes {width} columns of values, but {} gives {} values", row.label, row.values.len());
            return Err(Error::new(ErrorKind::CardinalityViolation, message)
                .hint("write UNPIVOT t ON (a, b) AS x, (c, d) AS y INTO NAME n VALUE v, w"));
        }
        Ok(rows)
    }

    /// Binds the values of all rows. The values of a column get one type.
    fn unpivoted_values(&mut self, rows: &[UnpivotedRow], names: &FromNames) -> Result<Vec<Vec<ScalarExpr>>> {
        let mut level = SelectLevel::new(0);
        level.names.push(names.clone());
        level.end = Some(self.columns_end());
        level.clause = Clause::Other("UNPIVOT");
        self.levels.push(level);
        let mut bound = Vec::with_capacity(rows.len());
        for row in rows {
            bound.push(self.exprs(&row.values)?);
        }
        self.levels.pop();
        Ok(bound)
    }

    /// A list that is unnested into a new column.
    fn unnested(
        &mut self,
        name: String,
        mut values: Vec<ScalarExpr>,
        columns: &mut Vec<NamedColumn>,
    ) -> Result<(ColumnId, ScalarExpr)> {
        if !values.is_empty() {
            self.bring_together(values.iter_mut().collect())
                .map_err(|error| error.context("the columns of UNPIVOT"))?;
        }
        let list = self.call_named("make_array", values)?;
        let kind = item_kind(&list.kind).ok_or_else(|| Error::internal("make_array makes a list"))?;
        let id = self.add_column(&name, kind);
        columns.push(NamedColumn::new(id, &name));
        Ok((id, list))
    }
}
