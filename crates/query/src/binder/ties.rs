//! `FETCH FIRST n ROWS WITH TIES`: includes the rows that are equal to the last one in their ORDER BY values.
//!
//! `rank()` gives the number of rows before the first row of a group of equal rows, plus one. The rows with a rank of
//! at most `n` are therefore the first `n` rows and their ties. With an OFFSET we also number the rows and drop the
//! first ones by number.

use arrow::datatypes::DataType;
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::logical::{
    FrameUnit, LogicalWindow, LogicalWindowCall, LogicalWindowFunction, RankFunction, WindowFrame,
};
use rowmill_plan::program::ArithmeticOp;
use rowmill_plan::{CompareOp, ExprOp, Logical, ScalarExpr};

use super::Binder;

impl Binder<'_> {
    /// Keeps the rows of `plan` after the first `skip`, up to `rows` of them and their ties.
    pub(super) fn with_ties(&mut self, plan: Logical, rows: ScalarExpr, skip: Option<ScalarExpr>) -> Result<Logical> {
        let (input, keys) = match plan {
            Logical::Sort { input, keys } if !keys.is_empty() => (input, keys),
            // Columns that are computed after the order do not change it.
            Logical::Map { input, exprs } => {
                let input = Box::new(self.with_ties(*input, rows, skip)?);
                return Ok(Logical::Map { input, exprs });
            }
            _ => {
                return Err(Error::new(ErrorKind::InvalidDefinition, "WITH TIES needs an ORDER BY")
                    .hint("ties are rows with equal ORDER BY values"));
            }
        };
        let rank = self.add_column("rank", DataType::Int64);
        let mut calls = vec![(rank, call(RankFunction::Rank))];
        let column = |id| ScalarExpr::id(id, DataType::Int64);
        let (mut ranked, mut conditions) = (column(rank), Vec::new());
        if let Some(skip) = skip {
            let number = self.add_column("row_number", DataType::Int64);
            calls.push((number, call(RankFunction::RowNumber)));
            let skip = ScalarExpr::new(DataType::Int64, ExprOp::Coalesce(vec![skip, ScalarExpr::literal(0i64)]));
            conditions.push(ScalarExpr::compare(column(number), CompareOp::Greater, skip.clone()));
            // We subtract the skipped rows from the rank, because adding two large numbers could overflow.
            let rest = ExprOp::Arithmetic(ArithmeticOp::Minus, Box::new([ranked, skip]));
            ranked = ScalarExpr::new(DataType::Int64, rest);
        }
        let is_unlimited = rows.as_constant().is_some_and(|rows| rows.is_null());
        if !is_unlimited {
            let within = ScalarExpr::compare(ranked, CompareOp::LessOrEqual, rows.clone());
            conditions.push(match rows.as_constant() {
                Some(_) => within,
                // NULL means no limit.
                None => ScalarExpr::new(DataType::Boolean, ExprOp::Coalesce(vec![within, ScalarExpr::literal(true)])),
            });
        }
        let window = LogicalWindow { input, partition: Vec::new(), order: keys.clone(), calls, top: None };
        let filtered = Logical::filter(Logical::Window(window), conditions);
        Ok(Logical::Sort { input: Box::new(filtered), keys })
    }
}

fn call(function: RankFunction) -> LogicalWindowCall {
    let frame = WindowFrame::up_to_current(FrameUnit::Range);
    LogicalWindowCall { function: LogicalWindowFunction::Rank(function), frame }
}
