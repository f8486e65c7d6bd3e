//! The values of CASE expressions for rows of a block. A condition or a branch is computed only for the rows that reach
//! it. That is cheaper if a branch reads an expensive column for few rows, and it raises no error of other rows.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use rowmill_base::Result;

use super::rows::{PartRows, PartValues, concat};
use super::state::true_rows;
use crate::case::{CaseBranch, CaseFunction};
use crate::function::VectorFunction;

impl PartRows<'_> {
    /// The values of `case` for the rows that are in. Its place `i` means column `columns[i]`.
    pub(super) fn chosen(&self, case: &CaseFunction, columns: &[usize]) -> Result<PartValues> {
        let mut chosen = Chosen { rows: self, columns, values: Vec::new(), len: 0, codes: vec![0; self.len()] };
        let mut left: Vec<u32> = (0..self.len() as u32).collect();
        // Conditions are tried in order; a row that one of them takes must not be seen by the next branch.
        for (condition, branch) in &case.arms {
            if left.is_empty() {
                break;
            }
            // All rows reach the first condition, so the columns that it reads are kept for other expressions.
            let truth = match left.len() == self.len() {
                true => true_rows(&self.of_places(&**condition, columns)?),
                false => true_rows(&self.only(&left).of_places(&**condition, columns)?),
            };
            // No branch depends on the truth of a row, because the processor could not predict it. So each row is
            // written to both lists, and the next one overwrites it in one of them.
            let (mut taken, mut others) = (vec![0; left.len()], vec![0; left.len()]);
            let (mut takes, mut leaves) = (0, 0);
            for (row, is_true) in left.into_iter().zip(&truth) {
                (taken[takes], others[leaves]) = (row, row);
                takes += usize::from(is_true);
                leaves += usize::from(!is_true);
            }
            taken.truncate(takes);
            others.truncate(leaves);
            left = others;
            chosen.add(branch, taken)?;
        }
        chosen.add(&case.otherwise, left)?;
        chosen.finish()
    }

    /// The values of a function whose column `i` is column `columns[i]` of these rows.
    fn of_places(&self, function: &dyn VectorFunction, columns: &[usize]) -> Result<PartValues> {
        let columns: Vec<usize> = function.columns().iter().map(|place| columns[*place]).collect();
        self.computed(function, &columns)
    }
}

/// The values that rows have chosen so far.
struct Chosen<'r> {
    rows: &'r PartRows<'r>,
    columns: &'r [usize],
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
        let PartValues { values, codes, .. } = match branch {
            CaseBranch::Column(place) => self.rows.only(&rows).column(self.columns[*place])?,
            CaseBranch::Computed(function) => self.rows.only(&rows).of_places(&**function, self.columns)?,
            CaseBranch::Constant(value) => {
                PartValues { values: Arc::clone(value), codes: Some(Arc::new(vec![0; rows.len()])), is_list: false }
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
