//! Parts of values: items and slices of lists and texts, fields of structs.

use arrow::datatypes::DataType;
use rowmill_base::{Error, ErrorKind, Result, is_json, map_kinds};
use rowmill_plan::ScalarExpr;
use sqlparser::ast::{AccessExpr, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Subscript};

use super::Binder;
use super::literal::text_of;
use super::place::{suggest, type_name, unsupported};

impl Binder<'_> {
    /// `root[1]`, `root['a']`, `root.a`, `root[1:2]`
    pub(super) fn access(&mut self, root: &Expr, chain: &[AccessExpr]) -> Result<ScalarExpr> {
        // `value.f(a)` is `f(value, a)`, as in DuckDB.
        if let Some(at) = chain.iter().rposition(|link| matches!(link, AccessExpr::Dot(Expr::Function(_))))
            && let AccessExpr::Dot(Expr::Function(method)) = &chain[at]
        {
            let receiver = accessed(root.clone(), &chain[..at]);
            let value = Expr::Function(with_receiver(method, receiver)?);
            return self.expr(&accessed(value, &chain[at + 1..]));
        }
        // `t.a[1]`: the parser may put the dots of a qualified name into the chain.
        let mut names: Vec<Ident> = Vec::new();
        if let Expr::Identifier(ident) = root {
            names.push(ident.clone());
            for link in chain {
                match link {
                    AccessExpr::Dot(Expr::Identifier(ident)) => names.push(ident.clone()),
                    _ => break,
                }
            }
        }
        let (mut value, rest) = match names.len() {
            0 | 1 => (self.expr(root)?, chain),
            several => (self.expr(&Expr::CompoundIdentifier(names))?, &chain[several - 1..]),
        };
        for link in rest {
            value = match link {
                AccessExpr::Dot(Expr::Identifier(field)) => {
                    let name = field.clone();
                    self.placed(field.span, |binder| binder.named_part(value, &name))?
                }
                AccessExpr::Dot(other) => match text_literal(other) {
                    Some(name) => self.field(value, name)?,
                    None => return Err(unsupported(format!("{other} after a dot"))),
                },
                AccessExpr::Subscript(Subscript::Index { index }) => self.item_at(value, index)?,
                AccessExpr::Subscript(Subscript::Slice { lower_bound, upper_bound, stride }) => {
                    self.slice(value, [lower_bound.as_ref(), upper_bound.as_ref(), stride.as_ref()])?
                }
            };
        }
        Ok(value)
    }

    /// Binds nested field accesses, from the outermost field inwards.
    pub(super) fn fields(&mut self, value: ScalarExpr, names: &[Ident]) -> Result<ScalarExpr> {
        names.iter().try_fold(value, |value, name| self.placed(name.span, |binder| binder.named_part(value, name)))
    }

    /// A field of a struct, or a member of a JSON document.
    fn named_part(&mut self, value: ScalarExpr, name: &Ident) -> Result<ScalarExpr> {
        if is_json(&value.kind) { self.member_of_document(value, name) } else { self.field(value, &name.value) }
    }

    /// A field of a struct.
    pub(super) fn field(&mut self, value: ScalarExpr, name: &str) -> Result<ScalarExpr> {
        let DataType::Struct(fields) = &value.kind else {
            let message = format!("{} has no field \"{name}\": only a STRUCT has fields", type_name(&value.kind));
            return Err(Error::new(ErrorKind::DatatypeMismatch, message));
        };
        let wanted = name.to_lowercase();
        let Some(field) = fields.iter().find(|field| field.name().to_lowercase() == wanted) else {
            let message = format!("there is no field \"{name}\" in {}", type_name(&value.kind));
            let names: Vec<String> = fields.iter().map(|field| field.name().clone()).collect();
            let error = Error::new(ErrorKind::UndefinedColumn, message);
            return Err(suggest(error, name, names.iter().map(String::as_str)));
        };
        let name = field.name().clone();
        self.call_named("get_field", vec![value, ScalarExpr::literal(name.as_str())])
    }

    fn item_at(&mut self, value: ScalarExpr, index: &Expr) -> Result<ScalarExpr> {
        if is_json(&value.kind) {
            let index = self.expr(index)?;
            return self.part_of_document(value, index);
        }
        if let DataType::Struct(_) = value.kind {
            if let Some(name) = text_literal(index) {
                return self.field(value, name);
            }
            let number = self.expr(index)?;
            if number.as_constant().and_then(|number| number.as_bigint()).is_none() {
                return Err(Error::new(ErrorKind::DatatypeMismatch, "a field of a STRUCT is named by a text: s['a']")
                    .hint("or by its number: s[1]"));
            }
            return self.call_named("get_field", vec![value, number]);
        }
        let index = self.expr(index)?;
        if map_kinds(&value.kind).is_some() {
            return self.call_named("map_extract_value", vec![value, index]);
        }
        let index = self.typed_parameter(index, &DataType::Int64);
        if value.kind == DataType::Utf8View {
            return self.text_slice(vec![value, index.clone(), index]);
        }
        self.call_named("array_element", vec![value, index])
    }

    fn slice(&mut self, value: ScalarExpr, bounds: [Option<&Expr>; 3]) -> Result<ScalarExpr> {
        let [lower, upper, stride] = bounds;
        let is_text = value.kind == DataType::Utf8View;
        let mut arguments = vec![value];
        arguments.push(match lower {
            Some(lower) => self.expr(lower)?,
            None => ScalarExpr::literal(1_i64),
        });
        arguments.push(match upper {
            Some(upper) => self.expr(upper)?,
            // -1 means the last item.
            None => ScalarExpr::literal(-1_i64),
        });
        if let Some(stride) = stride {
            arguments.push(self.expr(stride)?);
        }
        if is_text { self.text_slice(arguments) } else { self.call_named("array_slice", arguments) }
    }

    /// A slice of the characters of a text. Its bounds count as those of a list.
    fn text_slice(&mut self, mut arguments: Vec<ScalarExpr>) -> Result<ScalarExpr> {
        let text = std::mem::replace(&mut arguments[0], ScalarExpr::null(DataType::Null));
        arguments[0] = self.call_named("string_to_array", vec![text, ScalarExpr::null(DataType::Utf8View)])?;
        let characters = self.call_named("array_slice", arguments)?;
        self.call_named("array_to_string", vec![characters, ScalarExpr::literal("")])
    }
}

/// A part of a value.
fn accessed(root: Expr, chain: &[AccessExpr]) -> Expr {
    match chain {
        [] => root,
        chain => Expr::CompoundFieldAccess { root: Box::new(root), access_chain: chain.to_vec() },
    }
}

/// The call of a function with its first argument, which is written before the name.
pub(super) fn with_receiver(method: &Function, receiver: Expr) -> Result<Function> {
    let mut call = method.clone();
    let receiver = FunctionArg::Unnamed(FunctionArgExpr::Expr(receiver));
    match &mut call.args {
        FunctionArguments::List(list) => list.args.insert(0, receiver),
        _ => return Err(unsupported(format!("{method} after a dot"))),
    }
    Ok(call)
}

fn text_literal(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(value) => text_of(&value.value),
        Expr::Nested(inner) => text_literal(inner),
        _ => None,
    }
}
