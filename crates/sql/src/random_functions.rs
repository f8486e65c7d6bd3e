//! `setseed(seed)` and `random()`: the numbers of a session after `setseed` are the same ones each time.
//!
//! The threads of a statement take numbers from one generator. So the rows of a large table get numbers in the order in
//! which its threads come, and only the set of the numbers is the same each time.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};
use rowmill_base::{Error, ErrorKind, Result, SqlType};
use rowmill_expr::functions::SessionRandom;
use rowmill_plan::{DynamicFunction, Volatility};

use crate::catalog::StatementContext;

/// Returns the function `name` with this number of arguments and the type of its values, or `None` if it is neither of
/// these.
pub(crate) fn function(
    context: &Arc<StatementContext>,
    name: &str,
    arguments: usize,
) -> Option<(Arc<dyn DynamicFunction>, SqlType)> {
    let random = Arc::clone(&context.random);
    match (name, arguments) {
        ("random" | "rand", 0) => Some((Arc::new(RandomNumber(random)), SqlType::Float64)),
        // PostgreSQL's functions without a result have the type void, whose text is empty.
        ("setseed", 1) => Some((Arc::new(SetSeed(random)), SqlType::TEXT)),
        _ => None,
    }
}

#[derive(Debug)]
struct RandomNumber(Arc<SessionRandom>);

impl DynamicFunction for RandomNumber {
    fn name(&self) -> &str {
        "random"
    }

    fn volatility(&self) -> Volatility {
        Volatility::Volatile
    }

    fn evaluate(&self, _arguments: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        Ok(self.0.next(rows))
    }
}

#[derive(Debug)]
struct SetSeed(Arc<SessionRandom>);

impl DynamicFunction for SetSeed {
    fn name(&self) -> &str {
        "setseed"
    }

    fn volatility(&self) -> Volatility {
        Volatility::Volatile
    }

    fn evaluate(&self, arguments: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let invalid = |what: &str| {
            Error::new(ErrorKind::InvalidParameter, format!("setseed takes a number from -1 to 1, not {what}"))
        };
        let seeds = cast(&arguments[0], &DataType::Float64).map_err(|error| invalid(&error.to_string()))?;
        let mut results = Vec::with_capacity(rows);
        for seed in seeds.as_primitive::<Float64Type>() {
            // NULL leaves the numbers as they are.
            if let Some(seed) = seed {
                if !(-1.0..=1.0).contains(&seed) {
                    return Err(invalid(&seed.to_string()));
                }
                self.0.seed(seed);
            }
            results.push(seed.map(|_| ""));
        }
        Ok(Arc::new(StringViewArray::from_iter(results)))
    }
}
