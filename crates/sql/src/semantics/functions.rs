//! Functions that DataFusion lacks or answers otherwise, and those that rewritten expressions call.

mod casts;
mod intervals;
mod numbers;
mod texts;
mod uuids;
mod zones;

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, lit,
};

use crate::errors::to_datafusion;
use crate::query::merged_column_mark;

pub(super) use casts::{kept, text_of, timestamp_floor};
pub(super) use intervals::{interval_of, interval_scaled};
pub(super) use numbers::{canonical, integer_quotient, real, round_even};
pub(super) use texts::{first_chars, joined, length_of_bytes};
pub(super) use uuids::{text_of_uuid, try_uuid_of_text, uuid_of_text};

/// Adds the functions that statements may call, in place of others of their names.
pub(super) fn register(functions: &mut Vec<Arc<ScalarUDF>>) {
    let ours: Vec<Arc<ScalarUDF>> =
        vec![texts::octet_length(), uuids::random(), zones::timezone(), merged_column_mark()];
    functions.retain(|function| !ours.iter().any(|own| own.name() == function.name()));
    functions.extend(ours);
}

/// A function over whole columns.
struct Function {
    name: &'static str,
    aliases: Vec<String>,
    signature: Signature,
    /// The type of the result for the types of the arguments.
    kind: fn(&[DataType]) -> Option<DataType>,
    run: fn(&[ArrayRef], usize) -> rowmill_base::Result<ArrayRef>,
}

impl Function {
    fn new(
        name: &'static str,
        kind: fn(&[DataType]) -> Option<DataType>,
        run: fn(&[ArrayRef], usize) -> rowmill_base::Result<ArrayRef>,
    ) -> Function {
        Function { name, aliases: vec![], signature: Signature::user_defined(Volatility::Immutable), kind, run }
    }

    fn call(self, arguments: Vec<Expr>) -> Expr {
        ScalarUDF::from(self).call(arguments)
    }
}

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for Function {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Function {}

impl Hash for Function {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for Function {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        Ok(types.to_vec())
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match (self.kind)(types) {
            Some(kind) => Ok(kind),
            None => {
                let types: Vec<String> = types.iter().map(crate::errors::type_name).collect();
                plan_err!("there is no {}({})", self.name, types.join(", "))
            }
        }
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = self.signature.volatility != Volatility::Volatile
            && arguments.args.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
        let rows = if is_constant { 1 } else { arguments.number_rows };
        let columns: Vec<ArrayRef> =
            arguments.args.iter().map(|argument| argument.to_array(rows)).collect::<Result<_>>()?;
        let result = (self.run)(&columns, rows).map_err(to_datafusion)?;
        if is_constant {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?));
        }
        Ok(ColumnarValue::Array(result))
    }
}

fn integer(value: i64) -> Expr {
    lit(value)
}
