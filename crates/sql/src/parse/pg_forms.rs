//! Forms of PostgreSQL's tools that mean something simple here: types of the catalog's schema, the default collation,
//! and casts to types whose values are numbers of objects.
//!
//! | form | read as |
//! | --- | --- |
//! | `pg_catalog.version()` | the version of PostgreSQL that drivers parse |
//! | `x::pg_catalog.text` | `x::text` |
//! | `x OPERATOR(pg_catalog.~) y` | `x ~ y` |
//! | `x COLLATE pg_catalog.default` | `x` |
//! | `'t'::regclass`, `'int4'::regtype`, `$1::regclass` | the number of the table or type |
//! | `oid::regclass`, `oid::regtype` | the name of the table or type |
//! | `x::regclass::oid`, `x::regtype::oid` | the number of the table or type |
//! | `regproc`, `regnamespace`, `regrole` | likewise, for functions, schemas and roles |
//! | `x::oid`, `x::name`, `x::"char"` | `x::bigint`, `x::text` |
//!
//! `pg_partition_ancestors(x)` in FROM becomes a table without rows.
//!
//! PostgreSQL's `regclass` is a number that is shown as a name. We have no such type, so a literal becomes the number,
//! because tools compare it, and everything else the name, because tools show it.

use sqlparser::ast::{
    Array, ArrayElemTypeDef, BinaryOperator, DataType, Expr, Function, ObjectName, ObjectNamePart, TableFactor, Value,
};

use super::prepare::{DeclaredParameters, call};

/// Rewrites an expression if it is one of these forms.
pub(super) fn rewrite(expr: &mut Expr, declared: &mut DeclaredParameters) {
    if let Expr::Collate { expr: inner, collation } = expr {
        if matches!(last_name(collation).as_deref(), Some("default" | "c" | "posix")) {
            *expr = std::mem::replace(&mut **inner, Expr::value(Value::Null));
        }
        return;
    }
    if let Expr::BinaryOp { left, op, right } = expr {
        if is_roles(left) && is_public(right) {
            **right = Expr::Array(Array { elem: vec![Expr::value(Value::Number("0".into(), false))], named: false });
        }
        if let BinaryOperator::PGCustomBinaryOperator(names) = op
            && let Some(plain) = operator(names)
        {
            *op = plain;
        }
        return;
    }
    if let Expr::Function(function) = expr {
        if is_catalog(&function.name) && last_name(&function.name).as_deref() == Some("version") {
            function.name = ObjectName::from(vec!["rowmill_pg_version".into()]);
        }
        return;
    }
    let Expr::Cast { expr: inner, data_type, .. } = expr else { return };
    if let (Expr::Value(value), Some(kind)) = (&**inner, declared_type(data_type))
        && let Value::Placeholder(mark) = &value.value
        && let Some(number) = mark.strip_prefix('$').and_then(|number| number.parse::<usize>().ok())
    {
        declared.push((number - 1, kind));
    }
    settle_items(data_type);
    let Some((name, is_qualified)) = catalog_type(data_type) else { return };
    // The value of a parameter is a name, as a literal is.
    let is_name = matches!(
        &**inner,
        Expr::Value(value) if matches!(value.value, Value::SingleQuotedString(_) | Value::Placeholder(_))
    );
    if name == "oid"
        && let Expr::Function(shown) = &mut **inner
        && let Some(object) = OBJECT_TYPES.iter().find(|object| is_call(shown, &format!("rowmill_{object}_name")))
    {
        // `x::regclass::oid`: the number is wanted and not the name.
        shown.name = ObjectName::from(vec![format!("to_{object}").as_str().into()]);
        *expr = std::mem::replace(&mut **inner, Expr::value(Value::Null));
        return;
    }
    if !OBJECT_TYPES.contains(&name.as_str()) {
        if let Some(kind) = plain_type(&name, is_qualified) {
            *data_type = kind;
        }
        return;
    }
    let function = if is_name { format!("to_{name}") } else { format!("rowmill_{name}_name") };
    let inner = std::mem::replace(&mut **inner, Expr::value(Value::Null));
    *expr = call(&function, [inner]);
}

/// The types whose values are numbers that are shown as names. Each has two functions: `to_regclass` and
/// `rowmill_regclass_name`, for example.
const OBJECT_TYPES: [&str; 5] = ["regclass", "regtype", "regproc", "regnamespace", "regrole"];

fn is_call(function: &Function, name: &str) -> bool {
    last_name(&function.name).as_deref() == Some(name)
}

/// The name of a type that the parser does not know, in lower case, and whether it is qualified. `None` for a type of
/// another schema than the catalog's.
fn catalog_type(data_type: &DataType) -> Option<(String, bool)> {
    let name = match data_type {
        DataType::Custom(name, modifiers) if modifiers.is_empty() => name,
        DataType::Regclass => return Some(("regclass".to_owned(), false)),
        _ => return None,
    };
    let is_qualified = name.0.len() > 1;
    if is_qualified && !is_catalog(name) {
        return None;
    }
    Some((last_name(name)?, is_qualified))
}

/// The type of the catalog that a type name means, if drivers must know it.
fn declared_type(data_type: &DataType) -> Option<&'static str> {
    let is_list = matches!(data_type, DataType::Array(_));
    let item = match data_type {
        DataType::Array(ArrayElemTypeDef::SquareBracket(item, _)) => item,
        other => other,
    };
    match (catalog_type(item)?.0.as_str(), is_list) {
        ("oid", false) => Some("oid"),
        ("oid", true) => Some("oid[]"),
        ("name", false) => Some("name"),
        ("name", true) => Some("name[]"),
        _ => None,
    }
}

/// Replaces the type of the items of a list.
fn settle_items(data_type: &mut DataType) {
    let DataType::Array(ArrayElemTypeDef::SquareBracket(item, _)) = data_type else { return };
    settle_items(item);
    if let Some((name, is_qualified)) = catalog_type(item) {
        let is_object = OBJECT_TYPES.contains(&name.as_str());
        if let Some(kind) = if is_object { Some(DataType::Text) } else { plain_type(&name, is_qualified) } {
            **item = kind;
        }
    }
}

/// Makes a call of `pg_partition_ancestors` in FROM a table of that name, which has no rows. Tables have no ancestors
/// here, and psql numbers the rows of the call for every table with foreign keys, which the engine cannot.
pub(super) fn rewrite_table(table: &mut TableFactor) {
    let TableFactor::Table { name, args, with_ordinality, .. } = table else { return };
    if args.is_some() && last_name(name).as_deref() == Some("pg_partition_ancestors") {
        (*args, *with_ordinality) = (None, false);
    }
}

/// Whether an expression is the column `polroles` of `pg_policy`. Every `\d table` of psql compares it with an array
/// literal, and texts are no lists here.
fn is_roles(expr: &Expr) -> bool {
    let name = match expr {
        Expr::CompoundIdentifier(names) => names.last(),
        Expr::Identifier(name) => Some(name),
        _ => None,
    };
    name.is_some_and(|name| name.value == "polroles")
}

/// Whether an expression is the array literal of the role 0, which is the public.
fn is_public(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(value) if matches!(&value.value, Value::SingleQuotedString(text) if text == "{0}"))
}

/// The operator that `OPERATOR(pg_catalog.sign)` means.
fn operator(names: &[String]) -> Option<BinaryOperator> {
    let [schema, sign] = names else { return None };
    if !schema.eq_ignore_ascii_case("pg_catalog") {
        return None;
    }
    Some(match sign.as_str() {
        "~" => BinaryOperator::PGRegexMatch,
        "~*" => BinaryOperator::PGRegexIMatch,
        "!~" => BinaryOperator::PGRegexNotMatch,
        "!~*" => BinaryOperator::PGRegexNotIMatch,
        "=" => BinaryOperator::Eq,
        "<>" => BinaryOperator::NotEq,
        "<" => BinaryOperator::Lt,
        "<=" => BinaryOperator::LtEq,
        ">" => BinaryOperator::Gt,
        ">=" => BinaryOperator::GtEq,
        _ => return None,
    })
}

/// The type that a name of PostgreSQL's catalog means. Names that the engine knows are left to it unless they are
/// qualified.
fn plain_type(name: &str, is_qualified: bool) -> Option<DataType> {
    Some(match name {
        "oid" | "xid" => DataType::BigInt(None),
        "name" | "char" | "cstring" => DataType::Text,
        "text" | "varchar" if is_qualified => DataType::Text,
        "int2" if is_qualified => DataType::SmallInt(None),
        "int4" if is_qualified => DataType::Integer(None),
        "int8" if is_qualified => DataType::BigInt(None),
        "bool" if is_qualified => DataType::Boolean,
        _ => return None,
    })
}

fn is_catalog(name: &ObjectName) -> bool {
    matches!(name.0.as_slice(), [ObjectNamePart::Identifier(schema), _] if schema.value == "pg_catalog")
}

fn last_name(name: &ObjectName) -> Option<String> {
    match name.0.last()? {
        ObjectNamePart::Identifier(ident) => Some(ident.value.to_lowercase()),
        ObjectNamePart::Function(_) => None,
    }
}
