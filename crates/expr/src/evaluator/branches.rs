//! CASE and COALESCE: choose one of several values for each row. Each value is computed only for the rows that take it.

use arrow::array::{Array, new_null_array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::interleave;
use arrow::datatypes::DataType;
use rowmill_base::Result;
use rowmill_plan::Operand;

use super::narrowed::InputRows;
use super::prepared::PreparedExpr;
use super::truth;
use crate::kernels::choose::choose;
use crate::kinds::arrow_failed;

/// Evaluates `CASE WHEN condition THEN value ... ELSE otherwise END`.
pub(super) fn case(
    whens: &[(PreparedExpr, PreparedExpr)],
    otherwise: Option<&PreparedExpr>,
    kind: &DataType,
    input: InputRows<'_>,
) -> Result<Operand> {
    let mut choice = BranchChoice::new(input);
    for (condition, value) in whens {
        if choice.is_done() {
            break;
        }
        let taken = choice.open_rows_where(condition)?;
        choice.take(taken, value)?;
    }
    if let Some(otherwise) = otherwise {
        choice.take(choice.open.clone(), otherwise)?;
    }
    choice.finish(kind)
}

/// Returns the first of `values` that is not NULL.
pub(super) fn coalesce(values: &[PreparedExpr], kind: &DataType, input: InputRows<'_>) -> Result<Operand> {
    let mut choice = BranchChoice::new(input);
    for value in values {
        if choice.is_done() {
            break;
        }
        choice.take_where_valid(value)?;
    }
    choice.finish(kind)
}

/// The branch that each row takes.
struct BranchChoice<'a> {
    input: InputRows<'a>,
    /// The rows that have taken no branch so far.
    open: BooleanBuffer,
    branches: Vec<BranchValues>,
}

/// The values of one branch.
struct BranchValues {
    /// The rows that take the branch.
    taken: BooleanBuffer,
    values: Operand,
    /// The rows that `values` were computed for, or `None` for all rows.
    computed: Option<BooleanBuffer>,
}

impl<'a> BranchChoice<'a> {
    fn new(input: InputRows<'a>) -> BranchChoice<'a> {
        BranchChoice { input, open: BooleanBuffer::new_set(input.rows), branches: Vec::new() }
    }

    fn is_done(&self) -> bool {
        self.open.count_set_bits() == 0
    }

    /// Returns the values of `expr` for at least the rows of `wanted`, and the rows that they were computed for.
    fn values(&self, expr: &PreparedExpr, wanted: &BooleanBuffer) -> Result<(Operand, Option<BooleanBuffer>)> {
        // A plain operand cannot fail and is cheap, so computing it for all rows is faster than narrowing the input.
        let is_plain = !expr.can_fail && !expr.is_costly;
        if is_plain || wanted.count_set_bits() == self.input.rows {
            return Ok((expr.evaluate(self.input)?, None));
        }
        let rows = self.input.narrowed(wanted, &expr.columns)?;
        Ok((expr.evaluate(rows.input())?, Some(wanted.clone())))
    }

    /// Returns the open rows for which a condition is true.
    fn open_rows_where(&self, condition: &PreparedExpr) -> Result<BooleanBuffer> {
        let (values, computed) = self.values(condition, &self.open)?;
        match computed {
            None => Ok(&truth(&values, self.input.rows)? & &self.open),
            Some(rows) => {
                let narrow = truth(&values, rows.count_set_bits())?;
                Ok(spread_bits(&narrow, &rows))
            }
        }
    }

    /// Lets the rows of `taken` take the value of `expr`.
    fn take(&mut self, taken: BooleanBuffer, expr: &PreparedExpr) -> Result<()> {
        if taken.count_set_bits() == 0 {
            return Ok(());
        }
        let (values, computed) = self.values(expr, &taken)?;
        self.open = &self.open & &!&taken;
        self.branches.push(BranchValues { taken, values, computed });
        Ok(())
    }

    /// Lets the open rows take the value of `expr` where it is not NULL.
    fn take_where_valid(&mut self, expr: &PreparedExpr) -> Result<()> {
        let (values, computed) = self.values(expr, &self.open)?;
        let valid = match (values.values.logical_nulls(), values.is_constant, &computed) {
            (None, ..) => self.open.clone(),
            (Some(nulls), true, _) if nulls.is_null(0) => return Ok(()),
            (Some(_), true, _) => self.open.clone(),
            (Some(nulls), false, None) => nulls.inner() & &self.open,
            (Some(nulls), false, Some(rows)) => spread_bits(nulls.inner(), rows),
        };
        if valid.count_set_bits() > 0 {
            self.open = &self.open & &!&valid;
            self.branches.push(BranchValues { taken: valid, values, computed });
        }
        Ok(())
    }

    fn finish(mut self, kind: &DataType) -> Result<Operand> {
        // Rows that took no branch are NULL.
        if !self.is_done() {
            let values = Operand::constant(new_null_array(kind, 1));
            self.branches.push(BranchValues { taken: self.open, values, computed: None });
        }
        if *kind == DataType::Null {
            return Ok(Operand::constant(new_null_array(kind, 1)));
        }
        // One branch took all rows. Its values are complete, because it was evaluated for all rows.
        if self.branches.len() == 1 {
            return Ok(self.branches.remove(0).values);
        }
        // Two branches over all rows are the frequent case, for which a mask is enough.
        if let [first, second] = &self.branches[..]
            && first.computed.is_none()
            && second.computed.is_none()
        {
            return choose(&first.taken, &first.values, &second.values).map(Operand::rows);
        }
        // `places[row]` is the branch of a row and the position of its value among the values of that branch. Narrowed
        // branches have a value only for the rows that they were computed for.
        let arrays: Vec<&dyn Array> = self.branches.iter().map(|branch| branch.values.values.as_ref()).collect();
        let mut places = vec![(0, 0); self.input.rows];
        for (number, branch) in self.branches.iter().enumerate() {
            match &branch.computed {
                None => branch.taken.set_indices().for_each(|row| places[row] = (number, branch.values.at(row))),
                Some(rows) => {
                    for (position, row) in rows.set_indices().enumerate() {
                        if branch.taken.value(row) {
                            places[row] = (number, branch.values.at(position));
                        }
                    }
                }
            }
        }
        interleave(&arrays, &places).map(Operand::rows).map_err(arrow_failed)
    }
}

/// Moves the bits of the rows of `mask` to their places among all rows.
fn spread_bits(narrow: &BooleanBuffer, mask: &BooleanBuffer) -> BooleanBuffer {
    let mut bits = arrow::array::BooleanBufferBuilder::new(mask.len());
    bits.append_n(mask.len(), false);
    for (position, row) in mask.set_indices().enumerate() {
        if narrow.value(position) {
            bits.set_bit(row, true);
        }
    }
    bits.finish()
}
