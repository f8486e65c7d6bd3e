//! `pg_sleep(seconds)`, with which people and tests of clients try how statements are cancelled.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{Array, ArrayRef, AsArray, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::{DynamicFunction, Volatility};

use crate::catalog::StatementContext;

/// How often a sleeping statement looks whether it was cancelled.
const STEP: Duration = Duration::from_millis(5);

/// The function. PostgreSQL gives a value of the type `void`, which is shown as an empty text.
pub(super) struct Sleep(pub(super) Arc<StatementContext>);

impl std::fmt::Debug for Sleep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("pg_sleep")
    }
}

impl DynamicFunction for Sleep {
    fn name(&self) -> &str {
        "pg_sleep"
    }

    fn volatility(&self) -> Volatility {
        Volatility::Volatile
    }

    fn evaluate(&self, arguments: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let refused = |error| Error::new(ErrorKind::UndefinedFunction, format!("pg_sleep: {error}"));
        let seconds = cast(&arguments[0], &DataType::Float64).map_err(refused)?;
        let seconds = seconds.as_primitive::<Float64Type>();
        for row in (0..rows).filter(|row| seconds.is_valid(*row)) {
            let wanted = Duration::try_from_secs_f64(seconds.value(row).max(0.0))
                .map_err(|error| Error::new(ErrorKind::InvalidParameter, format!("pg_sleep: {error}")))?;
            let started = Instant::now();
            while let Some(left) = wanted.checked_sub(started.elapsed()).filter(|left| !left.is_zero()) {
                self.0.cancel.check()?;
                std::thread::sleep(left.min(STEP));
            }
        }
        Ok(Arc::new(StringViewArray::from_iter_values(std::iter::repeat_n("", rows))))
    }
}
