//! Casts that Arrow makes otherwise: to text, and to a coarser unit of time.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, StringViewBuilder, new_null_array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Expr;
use rowmill_base::{Error, Result};

use super::Function;
use crate::calendar::units_per_second;
use crate::text_format::TextColumn;

/// `expr` as the text that results, CSV files and JSON lines show it with.
pub(in crate::semantics) fn text_of(expr: Expr) -> Expr {
    Function::new("text_of", |_| Some(DataType::Utf8View), run_text_of).call(vec![expr])
}

/// `expr`, a timestamp, in the coarser unit of `to`: the last point in time of that unit before it.
pub(in crate::semantics) fn timestamp_floor(expr: Expr, to: &DataType) -> Result<Expr> {
    // A function knows types by its arguments, so the wanted one comes as a NULL.
    let to = ScalarValue::try_from(to).map_err(|error| Error::internal(error.to_string()))?;
    let function = Function::new("timestamp_floor", |types| types.get(1).cloned(), run_timestamp_floor);
    Ok(function.call(vec![expr, Expr::Literal(to, None)]))
}

/// `expr` as it is. A cast that loses something is put in here, so that the optimiser does not compare what it was cast
/// from instead.
pub(in crate::semantics) fn kept(expr: Expr) -> Expr {
    Function::new("kept", |types| types.first().cloned(), |columns, _| Ok(Arc::clone(&columns[0]))).call(vec![expr])
}

fn run_text_of(columns: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let values = TextColumn::new(&*columns[0])?;
    let mut texts = StringViewBuilder::with_capacity(rows);
    let mut text = String::new();
    for row in 0..columns[0].len() {
        text.clear();
        match values.write(row, &mut text) {
            true => texts.append_value(&text),
            false => texts.append_null(),
        }
    }
    Ok(Arc::new(texts.finish()))
}

fn run_timestamp_floor(columns: &[ArrayRef], _rows: usize) -> Result<ArrayRef> {
    let failed = |error: arrow::error::ArrowError| Error::internal(error.to_string());
    let (from, to) = (columns[0].data_type(), columns[1].data_type());
    let (DataType::Timestamp(fine, _), DataType::Timestamp(coarse, _)) = (from, to) else {
        return match columns[0].null_count() == columns[0].len() {
            true => Ok(new_null_array(to, columns[0].len())),
            false => Err(Error::internal(format!("a timestamp of {from}"))),
        };
    };
    let ratio = units_per_second(*fine) / units_per_second(*coarse);
    let counts = cast(&columns[0], &DataType::Int64).map_err(failed)?;
    let counts = counts.as_primitive::<Int64Type>().unary::<_, Int64Type>(|count| count.div_euclid(ratio));
    cast(&counts, to).map_err(failed)
}
