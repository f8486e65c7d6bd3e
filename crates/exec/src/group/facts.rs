//! Facts about the values that aggregates read, known before any value is read.

use std::sync::Arc;

use arrow::array::Array;
use arrow::datatypes::DataType;
use rowmill_base::Result;
use rowmill_plan::Expr;
use rowmill_storage::{Block, OpenRun};

use super::{GroupSource, VectorFunction};
use crate::arithmetic::{Arithmetic, IntegerSpan};
use crate::column_bounds::column_bounds;

/// Bounds of integers or decimals; decimals are taken without their point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) least: i128,
    pub(super) greatest: i128,
    /// The number of rows, including NULLs.
    pub(super) rows: u64,
}

impl Bounds {
    /// Whether no total of these values, in any order, leaves 64 bits.
    pub(super) fn total_fits(self) -> bool {
        let most = self.least.unsigned_abs().max(self.greatest.unsigned_abs());
        most.checked_mul(self.rows.into()).is_some_and(|most| most <= i64::MAX as u128)
    }
}

/// The known facts about the rows of a source.
#[derive(Clone, Copy)]
pub(super) struct Facts<'a> {
    pub(super) source: Option<&'a GroupSource>,
    pub(super) functions: &'a [Arc<dyn VectorFunction>],
}

impl Facts<'_> {
    /// Whether an expression may be NULL.
    pub(super) fn is_nullable(&self, expr: Expr) -> bool {
        match (self.source, expr) {
            (Some(GroupSource::Table(_)), Expr::Column(column)) => !self.is_never_null(column),
            // An expression that is computed in words from columns without NULLs is never NULL.
            (Some(GroupSource::Table(_)), _) => !self.bounds_of_words(expr).is_ok_and(|bounds| bounds.is_some()),
            // Logs hold NULLs only if the aggregate takes them.
            (source, _) => source.is_some(),
        }
    }

    /// The column and the number of an expression that adds a number to a column.
    pub(super) fn shift(&self, expr: Expr) -> Option<(usize, i128)> {
        let Expr::Function(function) = expr else { return None };
        let function = self.functions.get(function)?;
        let (place, by) = function.arithmetic()?.shift()?;
        Some((*function.columns().get(place)?, by))
    }

    /// The bounds of an expression that is computed in 64 bits for every row and is never NULL. `None` if it may be
    /// anything else.
    pub(super) fn bounds_of_words(&self, expr: Expr) -> Result<Option<Bounds>> {
        let columns = match &expr {
            Expr::Column(column) => std::slice::from_ref(column),
            Expr::Function(function) => self.functions[*function].columns(),
        };
        let mut rows = 0;
        let mut spans = Vec::with_capacity(columns.len());
        for column in columns {
            let Some(bounds) = self.bounds(*column)?.filter(|_| self.is_never_null(*column)) else { return Ok(None) };
            spans.push(IntegerSpan { least: bounds.least, greatest: bounds.greatest });
            rows = bounds.rows;
        }
        let arithmetic = match expr {
            Expr::Column(_) => Some(&Arithmetic::Column(0)),
            Expr::Function(function) => self.functions[function].arithmetic(),
        };
        let span = arithmetic.and_then(|arithmetic| arithmetic.span(&mut |place| spans.get(place).copied()));
        Ok(span.map(|IntegerSpan { least, greatest }| Bounds { least, greatest, rows }))
    }

    /// Whether an expression surely has a value for every row.
    pub(super) fn never_fails(&self, expr: Expr) -> bool {
        match expr {
            Expr::Column(_) => true,
            Expr::Function(function) => {
                let fits = || self.bounds_of_words(expr).is_ok_and(|bounds| bounds.is_some());
                self.functions[function].never_fails() || fits()
            }
        }
    }

    /// Whether no row has NULL in a column.
    fn is_never_null(&self, column: usize) -> bool {
        let Some(GroupSource::Table(source)) = self.source else { return false };
        let table = source.table();
        let of_block = |block: &Arc<Block>| {
            block.chunk_head(table, column).is_ok_and(|head| head.is_some_and(|head| head.null_count() == 0))
        };
        let of_run = |run: &Arc<OpenRun>| run.values(table, column).is_ok_and(|values| values.null_count() == 0);
        !table.columns[column].nullable || source.blocks().iter().all(of_block) && source.runs().iter().all(of_run)
    }

    /// The type of a table's column.
    pub(super) fn kind(&self, column: usize) -> Option<DataType> {
        match self.source {
            Some(GroupSource::Table(source)) => Some(source.table().columns[column].kind.arrow()),
            _ => None,
        }
    }

    /// The bounds of a column's values, if all parts of the table know theirs.
    pub(super) fn bounds(&self, column: usize) -> Result<Option<Bounds>> {
        match self.source {
            Some(GroupSource::Table(source)) => Ok(column_bounds(&**source, column)?.map(|(least, greatest)| Bounds {
                least,
                greatest,
                rows: source.row_count(),
            })),
            _ => Ok(None),
        }
    }
}
