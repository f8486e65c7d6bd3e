//! `regexp_replace` of a constant pattern, replacement and flags by the engine's own kernel.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::AsArray;
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use rowmill_exec::regexp::Replacer;

use crate::errors::to_datafusion;
use crate::guards::bounded;

const NAME: &str = "regexp_replace";

/// `expr` with its calls of `regexp_replace` prepared where they can be.
pub(super) fn prepared(expr: Expr) -> Result<Expr> {
    let prepared = expr.transform_up(|expr| match expr {
        Expr::ScalarFunction(call) if call.func.name() == NAME => Ok(match constants(&call.args) {
            Some((pattern, replacement, flags)) => match Replacer::new(pattern, replacement, flags) {
                Ok(replacer) => {
                    let constants = [Some(pattern), Some(replacement), flags].map(|text| text.map(str::to_owned));
                    let prepared = Arc::new(ScalarUDF::from(Prepared { constants, replacer }));
                    Transformed::yes(Expr::ScalarFunction(ScalarFunction { func: bounded(prepared), ..call }))
                }
                // The function itself says what is wrong, if a row comes to it.
                Err(_) => Transformed::no(Expr::ScalarFunction(call)),
            },
            None => Transformed::no(Expr::ScalarFunction(call)),
        }),
        expr => Ok(Transformed::no(expr)),
    });
    prepared.data()
}

/// Pattern, replacement and flags, where they are constants.
fn constants(arguments: &[Expr]) -> Option<(&str, &str, Option<&str>)> {
    fn constant(expr: &Expr) -> Option<&str> {
        match expr {
            Expr::Literal(value, _) => value.try_as_str().flatten(),
            _ => None,
        }
    }
    match arguments {
        [_, pattern, replacement] => Some((constant(pattern)?, constant(replacement)?, None)),
        [_, pattern, replacement, flags] => Some((constant(pattern)?, constant(replacement)?, Some(constant(flags)?))),
        _ => None,
    }
}

/// The function, of which only the text is not settled.
#[derive(Debug)]
struct Prepared {
    /// Pattern, replacement and flags: what tells two of these apart.
    constants: [Option<String>; 3],
    replacer: Replacer,
}

impl PartialEq for Prepared {
    fn eq(&self, other: &Self) -> bool {
        self.constants == other.constants
    }
}

impl Eq for Prepared {}

impl Hash for Prepared {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.constants.hash(state);
    }
}

impl ScalarUDFImpl for Prepared {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        static SIGNATURE: std::sync::LazyLock<Signature> =
            std::sync::LazyLock::new(|| Signature::variadic_any(Volatility::Immutable));
        &SIGNATURE
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some(texts) = arguments.args.first() else { return internal_err!("{NAME} without a text") };
        let texts = cast(&texts.to_array(arguments.number_rows)?, &DataType::Utf8View)?;
        let replaced = self.replacer.replace(texts.as_string_view()).map_err(to_datafusion)?;
        Ok(ColumnarValue::Array(Arc::new(replaced)))
    }
}
