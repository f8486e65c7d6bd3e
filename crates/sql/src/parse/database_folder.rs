//! `EXPORT DATABASE 'folder' [(option, ...)]` and `IMPORT DATABASE 'folder'`, which the parser does not know.

use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};

use super::copy::{CopyOption, parse_option_list};

/// A parsed `EXPORT DATABASE`.
#[derive(Clone, Debug)]
pub(crate) struct ExportStatement {
    /// The folder to make.
    pub(crate) to: String,
    pub(crate) options: Vec<CopyOption>,
}

/// Reads what follows `EXPORT`.
pub(super) fn parse_export(parser: &mut Parser<'_>) -> Result<ExportStatement, ParserError> {
    parser.expect_keyword_is(Keyword::DATABASE)?;
    let to = parser.parse_literal_string()?;
    Ok(ExportStatement { to, options: parse_option_list(parser)? })
}

/// Reads what follows `IMPORT`. Returns the folder.
pub(super) fn parse_import(parser: &mut Parser<'_>) -> Result<String, ParserError> {
    parser.expect_keyword_is(Keyword::DATABASE)?;
    parser.parse_literal_string()
}
