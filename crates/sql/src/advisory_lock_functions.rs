//! `pg_advisory_lock(key)` and its forms: for one number or two, exclusive or shared, waiting or not, for the session
//! or for the transaction.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use rowmill_base::{Error, ErrorKind, Result, SqlType};
use rowmill_plan::{DynamicFunction, Volatility};

use crate::advisory_locks::{LockKey, LockMode, LockSpan};
use crate::catalog::StatementContext;

/// What a function does with a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LockAction {
    Take,
    TryToTake,
    GiveUp,
    GiveAllUp,
}

#[derive(Debug)]
struct LockFunction {
    name: String,
    action: LockAction,
    mode: LockMode,
    span: LockSpan,
    context: Arc<StatementContext>,
}

/// Returns the function `name` with this number of arguments and the type of its values, or `None` if it is none of
/// these.
pub(crate) fn function(
    context: &Arc<StatementContext>,
    name: &str,
    arguments: usize,
) -> Option<(Arc<dyn DynamicFunction>, SqlType)> {
    let rest = name.strip_prefix("pg_")?;
    let (is_try, rest) = rest.strip_prefix("try_").map_or((false, rest), |rest| (true, rest));
    let rest = rest.strip_prefix("advisory_")?;
    let (span, rest) =
        rest.strip_prefix("xact_").map_or((LockSpan::Session, rest), |rest| (LockSpan::Transaction, rest));
    let (mode, word) =
        rest.strip_suffix("_shared").map_or((LockMode::Exclusive, rest), |word| (LockMode::Shared, word));
    let action = match (word, is_try, span, arguments) {
        ("lock", false, _, 1 | 2) => LockAction::Take,
        ("lock", true, _, 1 | 2) => LockAction::TryToTake,
        ("unlock", false, LockSpan::Session, 1 | 2) => LockAction::GiveUp,
        ("unlock_all", false, LockSpan::Session, 0) if mode == LockMode::Exclusive => LockAction::GiveAllUp,
        _ => return None,
    };
    // PostgreSQL's functions without a result have the type void, whose text is empty.
    let kind = match action {
        LockAction::Take | LockAction::GiveAllUp => SqlType::TEXT,
        LockAction::TryToTake | LockAction::GiveUp => SqlType::Boolean,
    };
    let function = LockFunction { name: name.to_owned(), action, mode, span, context: Arc::clone(context) };
    Some((Arc::new(function), kind))
}

impl DynamicFunction for LockFunction {
    fn name(&self) -> &str {
        &self.name
    }

    fn volatility(&self) -> Volatility {
        Volatility::Volatile
    }

    fn evaluate(&self, arguments: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let wrong = |error: arrow::error::ArrowError| {
            Error::new(ErrorKind::UndefinedFunction, format!("{}: {error}", self.name)).hint("keys are whole numbers")
        };
        let numbers = arguments.iter().map(|values| cast(values, &DataType::Int64).map_err(wrong));
        let numbers = numbers.collect::<Result<Vec<_>>>()?;
        let results = (0..rows).map(|row| self.at(&numbers, row)).collect::<Result<Vec<Option<bool>>>>()?;
        Ok(match self.action {
            LockAction::Take | LockAction::GiveAllUp => {
                Arc::new(StringViewArray::from_iter(results.iter().map(|result| result.map(|_| ""))))
            }
            LockAction::TryToTake | LockAction::GiveUp => Arc::new(BooleanArray::from(results)),
        })
    }
}

impl LockFunction {
    /// Runs the function for the keys in a row. NULL as a key gives NULL.
    fn at(&self, numbers: &[ArrayRef], row: usize) -> Result<Option<bool>> {
        let locks = &self.context.locks;
        let number = |values: &ArrayRef| {
            let values: &Int64Array = values.as_primitive::<Int64Type>();
            values.is_valid(row).then(|| values.value(row))
        };
        let small = |value: i64| {
            i32::try_from(value).map_err(|_| {
                let message = format!("number out of range: {value} does not fit INTEGER");
                Error::new(ErrorKind::NumericOutOfRange, message).hint("two keys have 32 bits each, one key has 64")
            })
        };
        let key = match numbers {
            [] => {
                locks.give_all_up(LockSpan::Session);
                return Ok(Some(true));
            }
            [one] => number(one).map(LockKey::One),
            [first, second, ..] => match (number(first), number(second)) {
                (Some(first), Some(second)) => Some(LockKey::Two(small(first)?, small(second)?)),
                _ => None,
            },
        };
        let Some(key) = key else { return Ok(None) };
        match self.action {
            LockAction::Take => locks.take(key, self.mode, self.span, Some(&self.context.cancel)).map(Some),
            LockAction::TryToTake => locks.take(key, self.mode, self.span, None).map(Some),
            LockAction::GiveUp | LockAction::GiveAllUp => {
                let had = locks.give_up(key, self.mode);
                if !had {
                    self.context.notices.lock().push(format!("{}: you do not have this lock", self.name));
                }
                Ok(Some(had))
            }
        }
    }
}
