//! Macros: expressions and queries with a name and parameters, which are put in place of their calls.
//!
//! Macros have names of their own, apart from tables and views, and belong to no schema. They take their ids from the
//! counter of views. The byte table is in `docs/file-format.md`, "Ordered base".

use std::sync::Arc;

use rowmill_base::{Error, ErrorKind, Result, ViewId};

use crate::catalog::Catalog;
use crate::codec::{RecordReader, Writer};
use crate::comments;
use crate::transaction::Transaction;

/// The longest definition of a macro in bytes.
const MACRO_BYTES_MAX: usize = 1 << 20;

/// A macro. All of its parts are SQL texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MacroDef {
    /// Never reused.
    pub id: ViewId,
    /// The name as spelled.
    pub name: String,
    /// The parameters in the order of a call.
    pub parameters: Vec<MacroParameter>,
    /// The type that the value is cast to.
    pub result: Option<String>,
    /// Whether the text is a query, whose rows a call in FROM gives. Otherwise it is an expression.
    pub is_table: bool,
    /// The expression or query.
    pub sql: String,
    /// The comment on it.
    pub comment: Option<String>,
}

/// A parameter of a macro.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MacroParameter {
    /// The name as spelled.
    pub name: String,
    /// The type that arguments are cast to.
    pub kind: Option<String>,
    /// The value if a call gives none.
    pub default: Option<String>,
}

impl Transaction {
    /// Creates a macro, whose id and comment are ignored. With `replace`, it takes the place of a macro of that name
    /// and keeps its comment.
    pub fn create_macro(&mut self, def: MacroDef, replace: bool) -> Result<()> {
        let older = self.catalog().macro_named(&def.name).cloned();
        if older.is_some() && !replace {
            return Err(Error::new(ErrorKind::DuplicateObject, format!("there is a macro \"{}\" already", def.name)));
        }
        let (id, comment) = match older {
            Some(older) => (older.id, older.comment.clone()),
            None => (self.next_view_id(), None),
        };
        let def = MacroDef { id, comment, ..def };
        let bytes = encode(&def).len();
        if bytes > MACRO_BYTES_MAX {
            let message = format!("the macro has {bytes} bytes, but at most {MACRO_BYTES_MAX} are allowed");
            return Err(Error::new(ErrorKind::InvalidParameter, message));
        }
        self.catalog_mut()?.put_macro(Arc::new(def))
    }

    /// Drops the macro of this name. Returns whether there was one.
    pub fn drop_macro(&mut self, name: &str) -> Result<bool> {
        let Some(id) = self.catalog().macro_named(name).map(|found| found.id) else { return Ok(false) };
        self.catalog_mut()?.remove_macro(id);
        Ok(true)
    }
}

pub(crate) fn encode(def: &MacroDef) -> Vec<u8> {
    let MacroDef { id: _, name, parameters, result, is_table, sql, comment } = def;
    let mut out = Writer::new();
    let text = |out: &mut Writer, value: &str| {
        out.text(value);
    };
    out.text(name).u8((*is_table).into()).option(result.as_deref(), text);
    out.text(sql).u32(parameters.len() as u32);
    for MacroParameter { name, kind, default } in parameters {
        out.text(name).option(kind.as_deref(), text).option(default.as_deref(), text);
    }
    comments::encode_last(comment.as_deref(), &mut out);
    out.finish()
}

/// Decodes a macro and adds it to the catalog.
pub(crate) fn put(catalog: &mut Catalog, id: ViewId, bytes: &[u8]) -> Result<()> {
    let mut input = RecordReader::new(bytes, "the definition of a macro");
    let name = input.text()?;
    let is_table = match input.u8()? {
        0 => false,
        1 => true,
        _ => return Err(input.damaged("an unknown kind of macro")),
    };
    let result = input.option(RecordReader::text)?;
    let sql = input.text()?;
    let mut parameters = Vec::new();
    for _ in 0..input.count(4)? {
        let name = input.text()?;
        let (kind, default) = (input.option(RecordReader::text)?, input.option(RecordReader::text)?);
        parameters.push(MacroParameter { name, kind, default });
    }
    let comment = comments::decode_last(&mut input)?;
    catalog.put_macro(Arc::new(MacroDef { id, name, parameters, result, is_table, sql, comment }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_is_read_as_it_was_written() {
        let parameter = |name: &str, default: Option<&str>| MacroParameter {
            name: name.into(),
            kind: Some("INTEGER".into()),
            default: default.map(str::to_owned),
        };
        let def = MacroDef {
            id: ViewId(7),
            name: "Plus".into(),
            parameters: vec![parameter("a", None), parameter("b", Some("1"))],
            result: None,
            is_table: false,
            sql: "a + b".into(),
            comment: Some("a sum".into()),
        };
        let mut catalog = Catalog::default();
        put(&mut catalog, def.id, &encode(&def)).expect("as written");
        assert_eq!(**catalog.macro_named("PLUS").expect("there"), def);
        let again = MacroDef { id: ViewId(8), ..def };
        assert!(put(&mut catalog, ViewId(8), &encode(&again)).is_err(), "the name is taken");
    }
}
