//! `ATTACH` and `DETACH`. The parser knows only the forms of other databases.
//!
//! ```text
//! ATTACH [DATABASE] [IF NOT EXISTS] 'path' [AS name] [(READ_ONLY [true|false], TYPE type)]
//! DETACH [DATABASE] [IF EXISTS] name
//! ```

use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

use super::copy::{CopyOption, parse_option_list};

/// A parsed `ATTACH`.
#[derive(Clone, Debug)]
pub(crate) struct AttachStatement {
    /// The directory or file.
    pub(crate) path: String,
    /// The name after AS, in lower case.
    pub(crate) name: Option<String>,
    pub(crate) if_not_exists: bool,
    pub(crate) options: Vec<CopyOption>,
}

/// A parsed `DETACH`.
#[derive(Clone, Debug)]
pub(crate) struct DetachStatement {
    /// The name in lower case.
    pub(crate) name: String,
    pub(crate) if_exists: bool,
}

/// Reads what follows `ATTACH`.
pub(super) fn parse_attach(parser: &mut Parser<'_>) -> Result<AttachStatement, ParserError> {
    let _ = parser.parse_keyword(Keyword::DATABASE);
    let if_not_exists = parser.parse_keywords(&[Keyword::IF, Keyword::NOT, Keyword::EXISTS]);
    let path = parser.parse_literal_string()?;
    let name = match parser.parse_keyword(Keyword::AS) {
        true => Some(parser.parse_identifier()?.value),
        false => None,
    };
    let options = match parser.peek_token_ref().token {
        Token::LParen => parse_option_list(parser)?,
        _ => Vec::new(),
    };
    Ok(AttachStatement { path, name, if_not_exists, options })
}

/// Reads what follows `DETACH`.
pub(super) fn parse_detach(parser: &mut Parser<'_>) -> Result<DetachStatement, ParserError> {
    let _ = parser.parse_keyword(Keyword::DATABASE);
    let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
    Ok(DetachStatement { name: parser.parse_identifier()?.value, if_exists })
}
