//! JSON: operators, parts by subscript, functions in FROM, and aggregates that collect documents.
//!
//! Each form becomes a call of a function of the registry, which `crates/expr/src/functions/json.rs` lists.

use arrow::datatypes::DataType;
use rowmill_base::{Error, ErrorKind, Result, is_json, json_arrow};
use rowmill_plan::{Logical, ScalarExpr};
use sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, TableAlias,
};

use super::Binder;
use super::call::arguments_of;
use super::from::{FromPart, item_kind};
use super::scope::{NamedColumn, ScopeRelation};

/// An aggregate that collects documents: the function of the list of all values.
struct DocumentAggregate {
    /// The function that is applied to the list.
    function: &'static str,
    /// How many arguments the aggregate has. Two are a key and a value.
    arguments: usize,
}

/// Returns the aggregate with this name.
fn document_aggregate(name: &str) -> Option<DocumentAggregate> {
    Some(match name {
        "json_agg" | "jsonb_agg" | "json_group_array" | "json_arrayagg" => {
            DocumentAggregate { function: "to_json", arguments: 1 }
        }
        "json_object_agg" | "jsonb_object_agg" | "json_group_object" | "json_objectagg" => {
            DocumentAggregate { function: "json_object_of_entries", arguments: 2 }
        }
        _ => return None,
    })
}

/// The function that makes the list of the rows of a function in FROM or in a select list. `None` for other names.
pub(super) fn rows_of_document(name: &str) -> Option<&'static str> {
    Some(match name {
        "json_array_elements" | "jsonb_array_elements" => "json_items",
        "json_array_elements_text" | "jsonb_array_elements_text" => "json_item_texts",
        "json_object_keys" | "jsonb_object_keys" => "json_keys",
        "jsonb_path_query" => "jsonb_path_items",
        _ => return None,
    })
}

/// The function that makes the list of structs whose fields are the columns of a function in FROM.
pub(super) fn structs_of_document(name: &str) -> Option<&'static str> {
    Some(match name {
        "json_each" => "json_each",
        "json_tree" => "json_tree",
        "jsonb_each" => "json_members",
        "json_each_text" | "jsonb_each_text" => "json_member_texts",
        _ => return None,
    })
}

/// Whether a function in FROM gives the items of an array as rows, or else one object as a row. Its alias has the
/// columns with their types. `None` for other names.
pub(super) fn gives_records(name: &str) -> Option<bool> {
    match name {
        "json_to_recordset" | "jsonb_to_recordset" => Some(true),
        "json_to_record" | "jsonb_to_record" => Some(false),
        _ => None,
    }
}

impl Binder<'_> {
    /// `jsonb_to_recordset(document) AS t(a INTEGER, b TEXT)`: a row for each item of an array, and its members as
    /// columns.
    pub(super) fn records_of_document(
        &mut self,
        name: &str,
        arguments: &[&Expr],
        alias: Option<&TableAlias>,
    ) -> Result<FromPart> {
        let columns = alias.map_or(&[][..], |alias| &alias.columns);
        let ([document], false) = (arguments, columns.is_empty()) else {
            let message = format!("{name} takes a JSON document, and its alias the columns with their types");
            let example = format!("for example {name}(document) AS t(a INTEGER, b TEXT)");
            return Err(Error::new(ErrorKind::UndefinedFunction, message).hint(example));
        };
        let document = self.expr(document)?;
        let document = self.typed_parameter(document, &json_arrow());
        let list = match gives_records(name) {
            Some(true) => self.call_named("json_items", vec![document])?,
            _ => {
                let document = self.coerce_to_document(document)?;
                self.call_named("make_array", vec![document])?
            }
        };
        let node = self.add_column(name, json_arrow());
        let (mut named, mut exprs) = (Vec::new(), Vec::new());
        for column in columns {
            let Some(data_type) = &column.data_type else {
                let message = format!("the column {} of {name} has no type", column.name);
                return Err(Error::new(ErrorKind::Syntax, message).hint("write AS t(a INTEGER, b TEXT)"));
            };
            let (kind, spelled) = (self.sql_type(data_type)?, self.spelled(&column.name));
            let key = ScalarExpr::literal(path_of_key(&spelled).as_str());
            // A string becomes a text without its quotes.
            let function = if kind.arrow() == DataType::Utf8View { "json_extract_string" } else { "json_extract" };
            let part = self.call_named(function, vec![ScalarExpr::id(node, json_arrow()), key])?;
            let id = self.add_column(&spelled, kind.arrow());
            exprs.push((id, self.cast_value(part, &kind, false)?));
            named.push(NamedColumn::new(id, &spelled));
        }
        let input = Box::new(Logical::one_row());
        let unnest = Logical::Unnest { input, lists: vec![(node, list)], ordinality: None, outer: false };
        let plan = Logical::Map { input: Box::new(unnest), exprs };
        let untyped = alias.map(|alias| TableAlias { columns: Vec::new(), ..alias.clone() });
        self.aliased(plan, ScopeRelation::new(Some(name), named), untyped.as_ref())
    }

    /// A text becomes the document that it is.
    fn coerce_to_document(&mut self, value: ScalarExpr) -> Result<ScalarExpr> {
        match is_json(&value.kind) {
            true => Ok(value),
            false => rowmill_expr::typing::cast(value, &json_arrow(), false),
        }
    }

    /// Binds an operator on documents. Returns the operands if it is another operator.
    pub(super) fn json_operator(
        &mut self,
        left: ScalarExpr,
        op: &BinaryOperator,
        right: ScalarExpr,
    ) -> Result<Result<ScalarExpr, (ScalarExpr, ScalarExpr)>> {
        if let BinaryOperator::AtQuestion | BinaryOperator::AtAt = op {
            // The operators give NULL for a document that does not fit the path.
            let function = if *op == BinaryOperator::AtAt { "jsonb_path_match" } else { "jsonb_path_exists" };
            let document = self.typed_parameter(left, &json_arrow());
            let path = self.typed_parameter(right, &DataType::Utf8View);
            let arguments = vec![document, path, ScalarExpr::literal("{}"), ScalarExpr::literal(true)];
            return self.call_named(function, arguments).map(Ok);
        }
        let is_either = is_json(&left.kind) || is_json(&right.kind);
        let function = match op {
            BinaryOperator::Arrow => "json_extract",
            BinaryOperator::LongArrow => "json_extract_string",
            BinaryOperator::HashArrow => "json_extract_path",
            BinaryOperator::HashLongArrow => "json_extract_path_text",
            BinaryOperator::Question => "jsonb_exists",
            BinaryOperator::QuestionPipe => "jsonb_exists_any",
            BinaryOperator::QuestionAnd => "jsonb_exists_all",
            BinaryOperator::HashMinus => "jsonb_delete_path",
            BinaryOperator::AtArrow | BinaryOperator::ArrowAt if is_either => "jsonb_contains",
            BinaryOperator::Minus if is_json(&left.kind) => "jsonb_delete",
            BinaryOperator::StringConcat if is_joined(&left, &right) || is_joined(&right, &left) => "jsonb_concat",
            _ => return Ok(Err((left, right))),
        };
        let (left, right) = if *op == BinaryOperator::ArrowAt { (right, left) } else { (left, right) };
        let left = self.typed_parameter(left, &json_arrow());
        let right = match op {
            BinaryOperator::AtArrow | BinaryOperator::ArrowAt | BinaryOperator::StringConcat => {
                self.typed_parameter(right, &json_arrow())
            }
            BinaryOperator::HashArrow
            | BinaryOperator::HashLongArrow
            | BinaryOperator::HashMinus
            | BinaryOperator::QuestionPipe
            | BinaryOperator::QuestionAnd => self.key_list(right)?,
            _ => self.typed_parameter(right, &DataType::Utf8View),
        };
        self.operator_call(op, function, left, right).map(Ok)
    }

    /// Reads a text such as `'{a,0}'` as a list of keys. It may be a parameter, whose value PostgreSQL reads alike.
    fn key_list(&mut self, keys: ScalarExpr) -> Result<ScalarExpr> {
        let texts = DataType::List(arrow::datatypes::Field::new("item", DataType::Utf8View, true).into());
        let keys = self.typed_parameter(keys, &texts);
        if keys.kind == DataType::Utf8View { self.coerce(keys, &texts) } else { Ok(keys) }
    }

    /// `document['key']` or `document[0]`
    pub(super) fn part_of_document(&mut self, document: ScalarExpr, place: ScalarExpr) -> Result<ScalarExpr> {
        let place = match place.as_constant().and_then(|place| place.as_text()) {
            Some(key) => ScalarExpr::literal(path_of_key(key).as_str()),
            None => place,
        };
        self.call_named("json_extract", vec![document, place])
    }

    /// `document.key`, or the words after it. The key has the case in which the statement writes it.
    pub(super) fn member_of_document(&mut self, document: ScalarExpr, key: &Ident) -> Result<ScalarExpr> {
        let key = ScalarExpr::literal(path_of_key(&self.spelled(key)).as_str());
        self.call_named("json_extract", vec![document, key])
    }

    /// Binds a call of an aggregate that collects documents. `None` if it is another function.
    pub(super) fn document_aggregate_call(&mut self, name: &str, call: &Function) -> Result<Option<ScalarExpr>> {
        let Some(aggregate) = document_aggregate(name) else { return Ok(None) };
        let arguments = arguments_of(call)?;
        if arguments.len() != aggregate.arguments {
            let takes = if aggregate.arguments == 1 { "one argument" } else { "a key and a value" };
            let message = format!("{name} takes {takes}, but {} were given", arguments.len());
            return Err(Error::new(ErrorKind::UndefinedFunction, message));
        }
        let mut collected = call.clone();
        rename(&mut collected.name, "array_agg");
        if let FunctionArguments::List(list) = &mut collected.args
            && aggregate.arguments == 2
        {
            // A key and a value are collected as one struct.
            let mut entry = Function { filter: None, over: None, within_group: Vec::new(), ..call.clone() };
            rename(&mut entry.name, "struct");
            if let FunctionArguments::List(entry) = &mut entry.args {
                entry.clauses.clear();
                entry.duplicate_treatment = None;
            }
            list.args = vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Function(entry)))];
        }
        let list = self.call(&collected)?;
        self.call_named(aggregate.function, vec![list]).map(Some)
    }

    /// Binds a function in FROM whose columns are the fields of structs.
    pub(super) fn structs_of_document(
        &mut self,
        name: &str,
        arguments: &[&Expr],
        alias: Option<&TableAlias>,
    ) -> Result<FromPart> {
        let function = structs_of_document(name).unwrap_or(name);
        let mut values = Vec::with_capacity(arguments.len());
        for argument in arguments {
            let value = self.expr(argument)?;
            values.push(self.typed_parameter(value, &json_arrow()));
        }
        let list = self.call_named(function, values)?;
        let item = item_kind(&list.kind).ok_or_else(|| Error::internal(format!("{function} gives no list")))?;
        let DataType::Struct(fields) = item.clone() else {
            return Err(Error::internal(format!("{function} gives no structs")));
        };
        let node = self.add_column(name, item.clone());
        let (mut columns, mut exprs) = (Vec::new(), Vec::new());
        for field in &fields {
            let value = self.field(ScalarExpr::id(node, item.clone()), field.name())?;
            let id = self.add_column(field.name(), field.data_type().clone());
            exprs.push((id, value));
            columns.push(NamedColumn::new(id, field.name()));
        }
        let input = Box::new(Logical::one_row());
        let unnest = Logical::Unnest { input, lists: vec![(node, list)], ordinality: None, outer: false };
        let plan = Logical::Map { input: Box::new(unnest), exprs };
        self.aliased(plan, ScopeRelation::new(Some(name), columns), alias)
    }
}

/// Whether `||` puts two documents together: one is JSON, and the other one is JSON, a literal or NULL.
fn is_joined(document: &ScalarExpr, other: &ScalarExpr) -> bool {
    let is_literal = other.kind == DataType::Utf8View && other.as_constant().is_some();
    is_json(&document.kind) && (is_json(&other.kind) || other.kind == DataType::Null || is_literal)
}

/// The path of one key, whatever its characters.
fn path_of_key(key: &str) -> String {
    match key.starts_with(['$', '/']) {
        true => format!("/{}", key.replace('~', "~0").replace('/', "~1")),
        false => key.to_owned(),
    }
}

/// Gives a call another name.
fn rename(name: &mut ObjectName, other: &str) {
    if let Some(sqlparser::ast::ObjectNamePart::Identifier(ident)) = name.0.last_mut() {
        ident.value = other.to_owned();
    }
    name.0.drain(..name.0.len().saturating_sub(1));
}
