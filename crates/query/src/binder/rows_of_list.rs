//! Functions that give a row for each item of a list, other than `unnest`: each makes another list, which is unnested.
//!
//! | function | list |
//! | --- | --- |
//! | `generate_subscripts(list, dimension [, reverse])` | the positions of the items |
//! | `regexp_matches(text, pattern [, flags])` | the groups of each match |
//! | `regexp_split_to_table(text, pattern [, flags])` | the parts between matches |
//! | `string_to_table(text, separator [, null_text])` | the parts between separators |
//! | `_pg_expandarray(list)` | structs of an item `x` and its position `n`, as `information_schema` of PostgreSQL has
//! it |
//! | `json_array_elements(document)` and others | the items of an array, or the keys of an object |

use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use rowmill_base::{Error, ErrorKind, Result, json_arrow};
use rowmill_expr::typing;
use rowmill_plan::{CompareOp, ExprOp, ItemFunction, ScalarExpr};
use sqlparser::ast::Expr;

use super::Binder;
use super::from::item_kind;
use super::json::rows_of_document;
use super::place::unsupported;

const GENERATE_SUBSCRIPTS: &str = "generate_subscripts";
const JSONB_PATH_QUERY: &str = "jsonb_path_query";
/// The name of the function in `information_schema`.
pub(super) const EXPAND_ARRAY: &str = "_pg_expandarray";

/// Whether `name` is one of these functions.
pub(super) fn is_rows_of_list(name: &str) -> bool {
    matches!(name, GENERATE_SUBSCRIPTS | EXPAND_ARRAY)
        || list_function(name).is_some()
        || rows_of_document(name).is_some()
}

/// Returns the function that makes the list of a function with the same arguments.
fn list_function(name: &str) -> Option<&'static str> {
    Some(match name {
        "regexp_matches" => "regexp_match_list",
        "regexp_split_to_table" => "regexp_split_to_array",
        "string_to_table" => "string_to_array",
        _ => return None,
    })
}

impl Binder<'_> {
    /// Binds the arguments of the function `name`. Returns the list whose items are the rows.
    pub(super) fn rows_of_list(&mut self, name: &str, arguments: &[&Expr]) -> Result<ScalarExpr> {
        if let Some(function) = list_function(name) {
            let values = arguments.iter().map(|value| self.expr(value)).collect::<Result<Vec<_>>>()?;
            return self.form_call(function, name, values);
        }
        match (name, arguments) {
            (EXPAND_ARRAY, [list]) => {
                let list = self.list_argument(list)?;
                self.with_positions(list)
            }
            (GENERATE_SUBSCRIPTS, [list, dimension, reverse @ ..]) if reverse.len() <= 1 => {
                let list = self.list_argument(list)?;
                let dimension = self.expr(dimension)?;
                let dimension = self.typed_parameter(dimension, &DataType::Int64);
                let dimension = self.coerce(dimension, &DataType::Int64)?;
                let is_reverse = match reverse {
                    [flag] => self.constant_flag(flag)?,
                    _ => false,
                };
                self.positions(list, dimension, is_reverse)
            }
            (name, [document, more @ ..])
                if let Some(function) = rows_of_document(name)
                    && (more.is_empty() || name == JSONB_PATH_QUERY) =>
            {
                let document = self.expr(document)?;
                let mut values = vec![self.typed_parameter(document, &json_arrow())];
                for value in more {
                    values.push(self.expr(value)?);
                }
                self.form_call(function, name, values)
            }
            _ => {
                let usage = match name {
                    JSONB_PATH_QUERY => {
                        "a JSON document, a path, and optionally its variables and whether it is silent"
                    }
                    name if rows_of_document(name).is_some() => "a JSON document",
                    EXPAND_ARRAY => "a list",
                    _ => "a list, a dimension and optionally whether to count down",
                };
                Err(Error::new(ErrorKind::UndefinedFunction, format!("{name} takes {usage}")))
            }
        }
    }

    fn list_argument(&mut self, list: &Expr) -> Result<ScalarExpr> {
        let list = self.expr(list)?;
        self.list_value(list)
    }

    fn constant_flag(&mut self, flag: &Expr) -> Result<bool> {
        let flag = self.expr(flag)?;
        flag.as_constant()
            .and_then(|flag| flag.as_bool())
            .ok_or_else(|| unsupported("a direction of generate_subscripts that is no literal"))
    }

    /// The positions of the items of a list in a dimension, both counted from 1.
    pub(super) fn positions(
        &mut self,
        list: ScalarExpr,
        dimension: ScalarExpr,
        is_reverse: bool,
    ) -> Result<ScalarExpr> {
        let length = self.call_named("array_length", vec![list, dimension])?;
        let one = ScalarExpr::literal(1_i64);
        let bounds = match is_reverse {
            true => vec![length, one, ScalarExpr::literal(-1_i64)],
            false => vec![one, length],
        };
        self.call_named("generate_series", bounds)
    }

    /// `array_lower(list, dimension)`: 1, or NULL for a list without items.
    pub(super) fn first_subscript(&mut self, list: &Expr, dimension: &Expr) -> Result<ScalarExpr> {
        let list = self.list_argument(list)?;
        let dimension = self.expr(dimension)?;
        let length = self.call_named("array_length", vec![list, dimension])?;
        let one = || ScalarExpr::literal(1_i64);
        let has_items = typing::compare(CompareOp::GreaterOrEqual, length, one())?;
        let op = ExprOp::Case { whens: vec![(has_items, one())], otherwise: None };
        Ok(ScalarExpr::new(DataType::Int64, op))
    }

    /// The items of a list as structs of an item `x` and its position `n`.
    fn with_positions(&mut self, list: ScalarExpr) -> Result<ScalarExpr> {
        let item = item_kind(&list.kind).expect("the value is a list");
        let parameters = vec![self.item_parameter_count, self.item_parameter_count + 1];
        self.item_parameter_count += 2;
        let part = |kind: DataType, place: usize| ScalarExpr::new(kind, ExprOp::ItemParameter(parameters[place]));
        let body = self.struct_of(vec![("x".into(), part(item, 0)), ("n".into(), part(DataType::Int64, 1))])?;
        let kind = DataType::List(Arc::new(Field::new_list_field(body.kind.clone(), true)));
        let function = ItemFunction::Transform;
        let op = ExprOp::EachItem { function, list: Box::new(list), parameters, body: Box::new(body) };
        Ok(ScalarExpr::new(kind, op))
    }
}
