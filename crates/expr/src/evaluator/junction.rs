//! AND and OR of many operands.

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

/// An expensive operand is evaluated for the undecided rows alone if they are fewer than one in this many.
const NARROWING_FACTOR: usize = 4;

/// `AND` or `OR` of `parts`, each evaluated only as long as a row is undecided.
pub(super) fn junction(parts: &[PreparedExpr], is_and: bool, input: InputRows<'_>) -> Result<Operand> {
    let mut so_far: Option<BooleanArray> = None;
    for part in parts {
        let undecided = so_far.as_ref().map(|truth| undecided_rows(truth, is_and));
        let count = undecided.as_ref().map_or(input.rows, BooleanBuffer::count_set_bits);
        if count == 0 {
            break;
        }
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
    let truth = so_far.unwrap_or_else(|| BooleanArray::from(vec![is_and; input.rows]));
    Ok(Operand::rows(Arc::new(truth)))
}

/// The rows that a further operand can change: those that are not false yet, or not true.
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
