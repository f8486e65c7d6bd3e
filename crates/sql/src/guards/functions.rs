//! Functions whose result can be much larger than their arguments, with a bound on it.
//!
//! `repeat('x', 2000000000)` is one call that asks for two gigabytes in each row of a batch. Each function here says, from
//! its arguments and before anything is made, how many bytes its result will take; a call that asks for more than
//! `result_value_max_bytes` is refused. Where only an upper bound is known, the batch is made piece by piece, each of
//! which stays under the limit, until the limit is reached or the batch is done.

mod aggregates;
mod estimates;

use std::sync::Arc;

use arrow::array::Array;
use arrow::compute::concat;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, exec_err};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    AggregateUDF, ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature,
};
use rowmill_base::{Error, ErrorKind};

use super::options::GuardOptions;
use super::stack::is_planning;
use crate::errors::to_datafusion;
use estimates::{ESTIMATES, Estimate, Exactness};

/// Puts bounds around the functions that need one.
pub(crate) fn bound_scalars(functions: &mut Vec<Arc<ScalarUDF>>) {
    // Makes values of Arrow types that no SQL type names.
    functions.retain(|function| !["arrow_cast", "arrow_try_cast"].contains(&function.name()));
    for function in functions.iter_mut() {
        *function = bounded(Arc::clone(function));
    }
}

/// `function` with a bound on its result, if it is one that needs it.
pub(crate) fn bounded(function: Arc<ScalarUDF>) -> Arc<ScalarUDF> {
    match ESTIMATES.iter().find(|(name, ..)| *name == function.name()) {
        Some((_, exactness, estimate)) => {
            Arc::new(ScalarUDF::from(Bounded { inner: function, exactness: *exactness, estimate: Hidden(*estimate) }))
        }
        None => function,
    }
}

/// Puts bounds around the aggregates that gather values.
pub(crate) fn bound_aggregates(functions: &mut [Arc<AggregateUDF>]) {
    aggregates::bound(functions);
}

/// Bytes up to which the result for constant arguments becomes a constant itself: the optimizer copies those, and
/// compares them, time and again.
const FOLDED_BYTES_MAX: u128 = 1 << 16;

/// The error of a result that would be too large.
pub(super) fn too_large(function: &str, asked_bytes: u128, limit_bytes: u64) -> Error {
    Error::new(
        ErrorKind::ResultTooLarge,
        format!(
            "{function} asks for {asked_bytes} bytes in one batch, the limit is {limit_bytes} (result_value_max_bytes)"
        ),
    )
    .hint("raise it with SET result_value_max_bytes = '...', or lower the rows of a batch with SET batch_rows = ...")
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Bounded {
    inner: Arc<ScalarUDF>,
    exactness: Exactness,
    estimate: Hidden<Estimate>,
}

/// Something that does not tell two functions of the same name apart.
#[derive(Clone, Copy)]
struct Hidden<T>(T);

impl<T> std::fmt::Debug for Hidden<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("_")
    }
}

impl<T> PartialEq for Hidden<T> {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl<T> Eq for Hidden<T> {}

impl<T> std::hash::Hash for Hidden<T> {
    fn hash<H: std::hash::Hasher>(&self, _state: &mut H) {}
}

impl Bounded {
    /// Makes the rows in pieces whose upper bounds stay under the limit.
    fn invoke_in_pieces(&self, arguments: ScalarFunctionArgs, limit: u64) -> Result<ColumnarValue> {
        let mut pieces = Vec::new();
        let mut bytes = 0_u128;
        let mut start = 0;
        while start < arguments.number_rows {
            let piece = self.next_piece(&arguments, start, limit)?;
            start += piece.number_rows;
            let rows = piece.number_rows;
            let made = self.inner.invoke_with_args(piece)?.into_array(rows)?;
            bytes += made.to_data().get_slice_memory_size()? as u128;
            if bytes > u128::from(limit) {
                return Err(to_datafusion(too_large(self.inner.name(), bytes, limit)));
            }
            pieces.push(made);
        }
        let pieces: Vec<&dyn Array> = pieces.iter().map(AsRef::as_ref).collect();
        Ok(ColumnarValue::Array(concat(&pieces)?))
    }

    /// As many rows from `start` on as are sure to fit, at least one.
    fn next_piece(&self, arguments: &ScalarFunctionArgs, start: usize, limit: u64) -> Result<ScalarFunctionArgs> {
        let mut rows = arguments.number_rows - start;
        loop {
            let piece = slice(arguments, start, rows);
            let asked = (self.estimate.0)(&piece.args, rows);
            if asked <= u128::from(limit) {
                return Ok(piece);
            }
            if rows == 1 {
                return Err(to_datafusion(too_large(self.inner.name(), asked, limit)));
            }
            rows = rows.div_ceil(2);
        }
    }
}

fn slice(arguments: &ScalarFunctionArgs, start: usize, rows: usize) -> ScalarFunctionArgs {
    let mut piece = arguments.clone();
    piece.number_rows = rows;
    for argument in &mut piece.args {
        if let ColumnarValue::Array(array) = argument {
            *array = array.slice(start, rows);
        }
    }
    piece
}

impl ScalarUDFImpl for Bounded {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        self.inner.schema_name(arguments)
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        self.inner.return_field_from_args(arguments)
    }

    fn with_updated_config(&self, config: &ConfigOptions) -> Option<ScalarUDF> {
        let inner = Arc::new(self.inner.inner().with_updated_config(config)?);
        Some(ScalarUDF::from(Bounded { inner, exactness: self.exactness, estimate: self.estimate }))
    }

    fn is_strict(&self) -> bool {
        self.inner.is_strict()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(types)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let limit = GuardOptions::of(&arguments.config_options).result_value_max_bytes;
        let asked = (self.estimate.0)(&arguments.args, arguments.number_rows);
        if is_planning() && asked > FOLDED_BYTES_MAX {
            // The optimizer leaves a call that fails for the execution.
            return exec_err!("{} makes too much to be a constant of the plan", self.inner.name());
        }
        if asked <= u128::from(limit) {
            return self.inner.invoke_with_args(arguments);
        }
        if self.exactness == Exactness::Exact || arguments.number_rows <= 1 {
            return Err(to_datafusion(too_large(self.inner.name(), asked, limit)));
        }
        self.invoke_in_pieces(arguments, limit)
    }

    /// A function that simplifies to itself would come back without its bound.
    fn simplify(&self, arguments: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        Ok(match self.inner.simplify(arguments.clone(), info)? {
            ExprSimplifyResult::Simplified(Expr::ScalarFunction(call)) if call.func.name() == self.name() => {
                ExprSimplifyResult::Original(arguments)
            }
            other => other,
        })
    }

    fn short_circuits(&self) -> bool {
        self.inner.short_circuits()
    }

    fn conditional_arguments<'a>(&self, arguments: &'a [Expr]) -> Option<(Vec<&'a Expr>, Vec<&'a Expr>)> {
        self.inner.conditional_arguments(arguments)
    }

    fn evaluate_bounds(&self, inputs: &[&Interval]) -> Result<Interval> {
        self.inner.evaluate_bounds(inputs)
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.inner.output_ordering(inputs)
    }

    fn preserves_lex_ordering(&self, inputs: &[ExprProperties]) -> Result<bool> {
        self.inner.preserves_lex_ordering(inputs)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}
