//! The function that a subquery's value passes through when it might have had more than one row.

use std::sync::Arc;

use arrow::array::AsArray;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use rowmill_base::{Error, ErrorKind};

use crate::errors::to_datafusion;

/// `value`, or an error where `rows` is more than one.
pub(super) fn one_row(value: Expr, rows: Expr) -> Expr {
    let function = OneRow { signature: Signature::any(2, Volatility::Immutable) };
    Arc::new(ScalarUDF::from(function)).call(vec![value, rows])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OneRow {
    signature: Signature,
}

impl ScalarUDFImpl for OneRow {
    fn name(&self) -> &str {
        "one_row"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(arguments[0].clone())
    }

    fn invoke_with_args(&self, mut arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (Some(rows), Some(value)) = (arguments.args.pop(), arguments.args.pop()) else {
            return internal_err!("one_row has two arguments");
        };
        let rows = rows.to_array(arguments.number_rows)?;
        if rows.as_primitive::<Int64Type>().iter().flatten().any(|rows| rows > 1) {
            return Err(to_datafusion(Error::new(
                ErrorKind::CardinalityViolation,
                "a subquery that stands for a value returned more than one row",
            )));
        }
        Ok(value)
    }
}
