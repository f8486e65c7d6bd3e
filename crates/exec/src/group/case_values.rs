//! The values of CASE expressions for rows of a block. A branch that is a column is read only for the rows that choose
//! it.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::buffer::BooleanBuffer;
use rowmill_base::Result;

use super::rows::{PartRows, PartValues, by_row, concat, evaluate_in_pieces};
use super::state::true_rows;
use crate::case::{CaseBranch, CaseFunction};
use crate::function::VectorFunction;

impl PartRows<'_> {
    /// The values of `case` for the rows that are in; `function` is the expression that contains it.
    pub(super) fn chosen(&self, function: &dyn VectorFunction, case: &CaseFunction) -> Result<PartValues> {
        let mut chosen = Chosen { rows: self, function, values: Vec::new(), len: 0, codes: vec![0; self.len()] };
        let mut left: Vec<u32> = (0..self.len() as u32).collect();
        // Conditions are tried in order; a row that one of them takes must not be seen by the next branch.
        for (condition, branch) in &case.arms {
            if left.is_empty() {
                break;
            }
            let truth = self.truth(function, &**condition)?;
            let (taken, others): (Vec<u32>, _) = left.into_iter().partition(|row| truth.value(*row as usize));
            left = others;
            chosen.add(branch, taken)?;
        }
        chosen.add(&case.otherwise, left)?;
        chosen.finish()
    }

    /// The rows for which a condition on columns of `function` is true.
    fn truth(&self, function: &dyn VectorFunction, condition: &dyn VectorFunction) -> Result<BooleanBuffer> {
        let column = |place: &usize| self.column_once(function.columns()[*place]).and_then(by_row);
        let columns = condition.columns().iter().map(column).collect::<Result<Vec<_>>>()?;
        let values = evaluate_in_pieces(condition, &columns, self.len())?;
        Ok(true_rows(&PartValues { values, codes: None, is_list: false }))
    }
}

/// The values that rows have chosen so far.
struct Chosen<'r> {
    rows: &'r PartRows<'r>,
    function: &'r dyn VectorFunction,
    values: Vec<ArrayRef>,
    /// The number of values.
    len: u32,
    codes: Vec<u32>,
}

impl Chosen<'_> {
    /// Gives `rows` the value of a branch.
    fn add(&mut self, branch: &CaseBranch, rows: Vec<u32>) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let (values, codes) = match branch {
            CaseBranch::Constant(value) => (Arc::clone(value), Some(Arc::new(vec![0; rows.len()]))),
            CaseBranch::Column(place) => {
                let PartValues { values, codes, .. } = self.rows.only(&rows).column(self.function.columns()[*place])?;
                (values, codes)
            }
        };
        for (place, row) in rows.into_iter().enumerate() {
            let code = codes.as_ref().map_or(place as u32, |codes| codes[place]);
            self.codes[row as usize] = self.len + code;
        }
        self.len += values.len() as u32;
        self.values.push(values);
        Ok(())
    }

    fn finish(self) -> Result<PartValues> {
        Ok(PartValues { values: concat(&self.values)?, codes: Some(Arc::new(self.codes)), is_list: false })
    }
}
