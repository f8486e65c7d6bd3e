//! Columns of a result that are evaluated for all rows at once.
//!
//! A function without a step of its own is evaluated as a batch ([`Evaluated`]). A batch of one row costs about a
//! microsecond, mostly for its arrays. So the rows first keep the operands of such columns. When all rows of the result
//! are known, each function runs once. Rows that a LIMIT drops are not evaluated.
//!
//! ```text
//! SELECT id, least(balance, 1000)      kept: id, balance      given: id, least(...)
//! ```

use rowmill_base::{Result, SqlType};
use rowmill_expr::evaluator::Evaluator;
use rowmill_storage::keyed::ColumnValues;

use crate::arrays::array_of;
use crate::expr::Expr;
use crate::result_rows::ResultRows;

/// The columns of a result, if some of them are evaluated late.
#[derive(Debug)]
pub(crate) struct LateColumns(Box<[LateColumn]>);

#[derive(Debug)]
enum LateColumn {
    /// The kept value at this position.
    Kept(usize),
    /// A value of type `kind` that is evaluated over the kept values at `operands`.
    Evaluated { evaluator: Evaluator, operands: Box<[usize]>, kind: SqlType },
}

/// A column whose values are known for all rows of the result.
enum GivenColumn {
    Kept(usize),
    Evaluated(ColumnValues),
}

impl LateColumns {
    /// Splits the columns of a result into values that each row keeps, with their types, and the columns that are made
    /// of them. The columns are `None` if no column is evaluated late.
    pub(crate) fn split(columns: Box<[Expr]>, kinds: Vec<SqlType>) -> (Box<[Expr]>, Vec<SqlType>, Option<LateColumns>) {
        let is_late = |column: &Expr| matches!(column, Expr::Evaluated(evaluated) if evaluated.is_late());
        if !columns.iter().any(is_late) {
            return (columns, kinds, None);
        }
        let (mut kept, mut kept_kinds) = (Vec::new(), Vec::new());
        let mut keep = |expr: Expr, kind: SqlType| {
            kept.push(expr);
            kept_kinds.push(kind);
            kept.len() - 1
        };
        let columns = columns.into_iter().zip(kinds).map(|(column, kind)| match column {
            Expr::Evaluated(evaluated) if evaluated.is_late() => {
                let (evaluator, operands) = evaluated.into_parts();
                let operands = operands.into_iter().map(|(operand, kind)| keep(operand, kind)).collect();
                LateColumn::Evaluated { evaluator, operands, kind }
            }
            column => LateColumn::Kept(keep(column, kind)),
        });
        let late = LateColumns(columns.collect());
        (kept.into(), kept_kinds, Some(late))
    }

    /// Appends the columns of the rows of `kept` at `places` to `out`.
    pub(crate) fn give(
        &self,
        kept: &ResultRows,
        places: impl ExactSizeIterator<Item = usize> + Clone,
        out: &mut ResultRows,
    ) -> Result<()> {
        let columns = self.0.iter().map(|column| match column {
            LateColumn::Kept(at) => Ok(GivenColumn::Kept(*at)),
            LateColumn::Evaluated { evaluator, operands, kind } => {
                let operands = operands.iter().map(|operand| {
                    array_of(&kept.kinds()[*operand], places.clone().map(|place| kept.get(place, *operand)))
                });
                let array = evaluator.evaluate(&operands.collect::<Result<Vec<_>>>()?, places.len())?;
                ColumnValues::new(&array, kind).map(GivenColumn::Evaluated)
            }
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        for (row, place) in places.enumerate() {
            for column in &columns {
                out.push(match column {
                    GivenColumn::Kept(at) => kept.get(place, *at),
                    GivenColumn::Evaluated(values) => values.get(row),
                });
            }
            out.end_row();
        }
        Ok(())
    }
}
