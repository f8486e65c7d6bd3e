//! Forms of PostgreSQL's tools that mean something simple here: types of the catalog's schema, the default collation,
//! and casts to types whose values are numbers of objects.
//!
//! | form | read as |
//! | --- | --- |
//! | `pg_catalog.version()` | the version of PostgreSQL that drivers parse |
//! | `x::pg_catalog.text` | `x::text` |
//! | `x OPERATOR(pg_catalog.~) y` | `x ~ y` |
//! | `x COLLATE pg_catalog.default` | `x` |
//! | `'t'::regclass`, `'int4'::regtype` | the number of the table or type |
//! | `oid::regclass`, `oid::regtype` | the name of the table or type |
//! | `x::oid`, `x::name`, `x::"char"` | `x::bigint`, `x::text` |
//!
//! `pg_partition_ancestors(x)` in FROM becomes a table without rows.
//!
//! PostgreSQL's `regclass` is a number that is shown as a name. We have no such type, so a literal becomes the number,
//! because tools compare it, and everything else the name, because tools show it.

use sqlparser::ast::{Array, BinaryOperator, DataType, Expr, ObjectName, ObjectNamePart, TableFactor, Value};

use super::prepare::call;

/// Rewrites an expression if it is one of these forms.
pub(super) fn rewrite(expr: &mut Expr) {
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
    let wanted = match data_type {
        DataType::Custom(name, modifiers) if modifiers.is_empty() => name,
        DataType::Regclass => &ObjectName::from(vec!["regclass".into()]),
        _ => return,
    };
    let Some(name) = last_name(wanted) else { return };
    let is_own = wanted.0.len() == 1 || is_catalog(wanted);
    if !is_own {
        return;
    }
    let is_literal = matches!(&**inner, Expr::Value(value) if matches!(value.value, Value::SingleQuotedString(_)));
    let function = match (name.as_str(), is_literal) {
        ("regclass", true) => "to_regclass",
        ("regclass", false) => "rowmill_regclass_name",
        ("regtype", true) => "to_regtype",
        ("regtype", false) => "rowmill_regtype_name",
        _ => {
            if let Some(kind) = plain_type(&name, wanted.0.len() > 1) {
                *data_type = kind;
            }
            return;
        }
    };
    let inner = std::mem::replace(&mut **inner, Expr::value(Value::Null));
    *expr = call(function, [inner]);
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
    matches!(expr, Expr::CompoundIdentifier(names) if names.last().is_some_and(|name| name.value == "polroles"))
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
        "oid" | "xid" | "regproc" | "regrole" | "regnamespace" => DataType::BigInt(None),
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
