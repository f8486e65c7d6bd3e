//! AND and OR of any number of operands.

use std::sync::Arc;

use arrow::array::{Array, AsArray, BooleanArray};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::DataType;
use rowmill_base::Result;
use rowmill_plan::Operand;

use super::narrowed::{InputRows, widened};
use super::prepared::PreparedExpr;
use super::spread;
use crate::kernels::truth;

/// A costly operand is evaluated only for the undecided rows if they are fewer than one in this many.
const NARROWING_FACTOR: usize = 4;

/// Evaluates `AND` or `OR` of `parts`. Each part is needed only for the rows that are still undecided.
pub(super) fn junction(parts: &[PreparedExpr], is_and: bool, input: InputRows<'_>) -> Result<Operand> {
    let mut so_far: Option<BooleanArray> = None;
    for part in parts {
        let undecided = so_far.as_ref().map(|truth| undecided_rows(truth, is_and));
        let count = undecided.as_ref().map_or(input.rows, BooleanBuffer::count_set_bits);
        if count == 0 {
            break;
        }
        // A part that can fail must not see decided rows: SQL promises that, for example, `b <> 0 AND a / b > 1` does
        // not fail.
        let is_narrow = count < input.rows
            && (part.can_fail || part.is_costly && count.saturating_mul(NARROWING_FACTOR) < input.rows);
        let truth = match undecided.filter(|_| is_narrow) {
            Some(mask) => {
                let rows = input.narrowed(&mask, &part.columns)?;
                widened(&truths(part, rows.input())?, &mask, is_and)
            }
            None => truths(part, input)?,
        };
        so_far = Some(match so_far {
            None => truth,
            Some(so_far) if is_and => truth::and(&so_far, &truth),
            Some(so_far) => truth::or(&so_far, &truth),
        });
    }
    // An empty AND is true, and an empty OR is false.
    let truth = so_far.unwrap_or_else(|| BooleanArray::from(vec![is_and; input.rows]));
    Ok(Operand::rows(Arc::new(truth)))
}

/// Returns the rows that a later operand can still change: for AND the rows that are not false, for OR those that are
/// not true.
fn undecided_rows(truth: &BooleanArray, is_and: bool) -> BooleanBuffer {
    let values = truth.values();
    match (truth.nulls(), is_and) {
        (None, true) => values.clone(),
        (None, false) => !values,
        (Some(nulls), true) => values | &!nulls.inner(),
        (Some(nulls), false) => !&(values & nulls.inner()),
    }
}

fn truths(part: &PreparedExpr, input: InputRows<'_>) -> Result<BooleanArray> {
    let values = spread(part.evaluate(input)?, input.rows)?;
    Ok(match values.data_type() {
        DataType::Null => BooleanArray::new_null(values.len()),
        _ => values.as_boolean().clone(),
    })
}
