//! `CREATE MACRO`, `CREATE FUNCTION` in SQL, and `DROP MACRO`.
//!
//! A macro is kept as texts, which are parsed when the macro is made and at each use. The binder puts the arguments of
//! a call in place of the parameters (`rowmill_query`).

use rowmill_base::{Error, ErrorKind, Result, Settings, ViewId, nearest};
use rowmill_exec::aggregate;
use rowmill_expr::functions;
use rowmill_plan::item_function;
use rowmill_query::catalog::{CatalogMacro, CatalogParameter, MacroBody};
use rowmill_txn::{Catalog, MacroDef};
use sqlparser::parser::Parser;
use sqlparser::tokenizer::Token;

use super::named_type::sql_type;
use super::sql_text;
use crate::dialect::RowmillDialect;
use crate::outcome::Outcome;
use crate::parse::{MacroStatement, MacroText};
use crate::session::Work;

/// Runs the statement.
pub(crate) fn run(work: &mut Work<'_>, statement: &MacroStatement) -> Result<Outcome> {
    match statement {
        MacroStatement::Create(text) => create(work, text),
        MacroStatement::Drop { names, if_exists } => drop_macros(work, names, *if_exists),
    }
}

fn create(work: &mut Work<'_>, text: &MacroText) -> Result<Outcome> {
    let MacroText { name, or_replace, if_not_exists, parameters, result, is_table, sql } = text;
    let lower = name.to_lowercase();
    let is_built_in =
        functions::find(&lower).is_some() || aggregate::find(&lower).is_some() || item_function::find(&lower).is_some();
    if is_built_in {
        let message = format!("{name} is a function of SQL, which a macro cannot replace");
        return Err(Error::new(ErrorKind::DuplicateObject, message).hint("give the macro another name"));
    }
    let def = MacroDef {
        id: ViewId(0),
        name: name.clone(),
        parameters: parameters.clone(),
        result: result.clone(),
        is_table: *is_table,
        sql: sql.clone(),
        comment: None,
    };
    // A text that cannot be parsed should be an error now and not at its first use.
    let parsed = parsed(&def, work.settings())?;
    check_parameters(&parsed)?;
    let view = work.view()?;
    for kind in parsed.parameters.iter().filter_map(|parameter| parameter.kind.as_ref()).chain(&parsed.result) {
        sql_type(view.catalog(), kind)?;
    }
    work.write(|work, transaction| {
        if *if_not_exists && transaction.view()?.catalog().macro_named(name).is_some() {
            work.notice(format!("there is a macro \"{name}\" already"));
            return Ok(());
        }
        let created = transaction.create_macro(def, *or_replace);
        created.map_err(|error| error.hint("CREATE OR REPLACE MACRO replaces it"))
    })?;
    Ok(Outcome::Done { tag: "CREATE MACRO" })
}

fn check_parameters(parsed: &CatalogMacro) -> Result<()> {
    let mut has_default = false;
    for (place, parameter) in parsed.parameters.iter().enumerate() {
        if parsed.parameters[..place].iter().any(|other| other.name == parameter.name) {
            let message = format!("the macro has two parameters \"{}\"", parameter.name);
            return Err(Error::new(ErrorKind::DuplicateColumn, message));
        }
        if has_default && parameter.default.is_none() {
            let message = format!("the parameter \"{}\" needs a default, as one before it has one", parameter.name);
            return Err(Error::new(ErrorKind::InvalidDefinition, message));
        }
        has_default |= parameter.default.is_some();
    }
    Ok(())
}

fn drop_macros(work: &mut Work<'_>, names: &[String], if_exists: bool) -> Result<Outcome> {
    work.write(|work, transaction| {
        for name in names {
            if transaction.drop_macro(name)? {
                continue;
            }
            let error = unknown(transaction.view()?.catalog(), name);
            if !if_exists {
                return Err(error);
            }
            work.notice(error.message());
        }
        Ok(())
    })?;
    Ok(Outcome::Done { tag: "DROP MACRO" })
}

pub(super) fn unknown(catalog: &Catalog, name: &str) -> Error {
    let error = Error::new(ErrorKind::UndefinedFunction, format!("there is no macro \"{name}\""));
    let near = nearest(name, catalog.macros().map(|known| known.name.as_str()));
    if near.is_empty() { error } else { error.hint(format!("did you mean {}?", near.join(", "))) }
}

/// Parses the texts of a macro.
pub(crate) fn parsed(def: &MacroDef, settings: &Settings) -> Result<CatalogMacro> {
    let of_macro = |error: Error| error.context(format!("the macro \"{}\"", def.name));
    let mut parameters = Vec::with_capacity(def.parameters.len());
    for parameter in &def.parameters {
        parameters.push(CatalogParameter {
            name: parameter.name.to_lowercase(),
            kind: parameter.kind.as_deref().map(type_of).transpose()?,
            default: match &parameter.default {
                Some(text) => Some(sql_text::expr(text, settings).map_err(of_macro)?),
                None => None,
            },
        });
    }
    let body = match def.is_table {
        true => MacroBody::Query(Box::new(sql_text::query(&def.sql, settings).map_err(of_macro)?)),
        false => MacroBody::Expr(Box::new(sql_text::expr(&def.sql, settings).map_err(of_macro)?)),
    };
    let result = def.result.as_deref().map(type_of).transpose()?;
    Ok(CatalogMacro { name: def.name.clone(), parameters, result, body })
}

/// Parses a type.
fn type_of(text: &str) -> Result<sqlparser::ast::DataType> {
    let dialect = RowmillDialect::new(true, text.len());
    let parsed = Parser::new(&dialect).try_with_sql(text).and_then(|mut parser| {
        let parsed = parser.parse_data_type()?;
        Ok((parsed, parser.peek_token().token == Token::EOF))
    });
    match parsed {
        Ok((parsed, true)) => Ok(parsed),
        _ => Err(Error::new(ErrorKind::UndefinedObject, format!("there is no type {text}"))),
    }
}
