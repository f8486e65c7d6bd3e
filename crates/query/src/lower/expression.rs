//! Turns expressions into functions of the engine.

use std::sync::Arc;

use rowmill_base::{Error, Result};
use rowmill_exec::expression::ExpressionFunction;
use rowmill_expr::fold::is_nullable;
use rowmill_plan::{self as plan, ColumnId, ExprOp, Names, ScalarExpr};
use rowmill_storage::TableSource;

use super::Lowerer;
use super::relation::LoweredRelation;

/// Characters of an expression that EXPLAIN shows at most.
const TEXT_CHARS_MAX: usize = 1_000;

impl Lowerer<'_> {
    /// `expr` over the columns of `relation`.
    pub(super) fn expr(&mut self, expr: &ScalarExpr, relation: &LoweredRelation) -> Result<plan::Expr> {
        let resolved = relation.resolve(expr);
        self.resolved_expr(&resolved, relation)
    }

    /// Lowers an expression over the columns of the source of `relation`.
    pub(super) fn resolved_expr(&mut self, expr: &ScalarExpr, relation: &LoweredRelation) -> Result<plan::Expr> {
        self.positioned(expr, &relation.ids, &[relation])
    }

    /// Lowers an expression over columns in the order of `ids`: those of `relations`, one relation after another.
    pub(super) fn positioned(
        &mut self,
        expr: &ScalarExpr,
        ids: &[ColumnId],
        relations: &[&LoweredRelation],
    ) -> Result<plan::Expr> {
        let mut expr = expr.clone();
        let mut missing = None;
        expr.rewrite(&mut |part| match &mut part.op {
            ExprOp::Column(column) => match ids.iter().position(|id| id.0 == *column) {
                Some(position) => *column = position,
                None => missing = Some(*column),
            },
            ExprOp::Subquery(_) => missing = Some(usize::MAX),
            _ => {}
        });
        if let Some(column) = missing {
            return Err(Error::internal(format!("an operator reads column {column}, which its input does not have")));
        }
        if let ExprOp::Column(position) = expr.op {
            return Ok(plan::Expr::Column(position));
        }
        let text = self.shown(&expr, relations);
        // Operators that read the same value share one function.
        let function = ExpressionFunction::new(&expr)?;
        self.functions.push(Arc::new(function));
        self.texts.push(text);
        Ok(plan::Expr::Function(self.functions.len() - 1))
    }

    /// The text of an expression over positions, for EXPLAIN.
    fn shown(&self, expr: &ScalarExpr, relations: &[&LoweredRelation]) -> String {
        let names: Vec<String> = relations
            .iter()
            .flat_map(|relation| relation.node().column_names(self).into_iter().map(|name| name.into_owned()))
            .collect();
        let mut text = rowmill_expr::display::sql_text(expr, &|column| {
            names.get(column).cloned().unwrap_or_else(|| format!("#{column}"))
        });
        // An expression that names a column twice contains its text twice. Over several levels the text would grow
        // exponentially.
        if let Some((end, _)) = text.char_indices().nth(TEXT_CHARS_MAX) {
            text.truncate(end);
            text.push('…');
        }
        text
    }

    /// Whether a column of `relation` can be NULL, as far as the plan shows.
    pub(super) fn is_nullable(&self, id: ColumnId, relation: &LoweredRelation) -> bool {
        let of_source = |column: usize| {
            let position = relation.position(ColumnId(column));
            position.is_none_or(|position| relation.node().is_nullable(position))
        };
        is_nullable(&relation.resolve(&self.columns.expr(id)), &of_source)
    }
}

impl Names for Lowerer<'_> {
    fn table(&self, table: usize) -> &str {
        &self.tables[table].table().name
    }

    fn column(&self, table: usize, column: usize) -> &str {
        &self.tables[table].table().columns[column].name
    }

    fn size(&self, table: usize) -> (usize, u64) {
        let table: &Arc<dyn TableSource> = &self.tables[table];
        (table.blocks().len(), table.row_count())
    }

    fn function(&self, function: usize) -> &str {
        &self.texts[function]
    }
}
