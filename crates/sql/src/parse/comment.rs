//! `COMMENT ON MACRO` and `COMMENT ON FUNCTION`, which the parser's library does not know with a list of parameters.
//!
//! ```text
//! COMMENT ON MACRO [TABLE] minutes IS 'rounded'
//! COMMENT ON FUNCTION half (DOUBLE) IS NULL
//! ```

use sqlparser::ast::{CommentObject, Statement};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

use super::is_word;

/// Reads the statement if it is one of these.
pub(super) fn parse_comment(parser: &mut Parser<'_>) -> Result<Option<Statement>, ParserError> {
    let is_next = |place: usize, wanted: &str| {
        let token = &parser.peek_nth_token_ref(place).token;
        matches!(token, Token::Word(word) if is_word(word, wanted))
    };
    let is_macro = is_next(0, "comment") && is_next(1, "on") && (is_next(2, "macro") || is_next(2, "function"));
    if !is_macro {
        return Ok(None);
    }
    (0..3).for_each(|_| parser.advance_token());
    // A macro that gives a table is named in the same way.
    let _ = parser.parse_keyword(Keyword::TABLE);
    let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
    let object_name = parser.parse_object_name(false)?;
    // A macro has one form only, so its parameters need not be read.
    if parser.consume_token(&Token::LParen) {
        let mut open = 1;
        while open > 0 {
            match parser.next_token().token {
                Token::LParen => open += 1,
                Token::RParen => open -= 1,
                Token::EOF => return parser.expected_ref(")", parser.peek_token_ref()),
                _ => {}
            }
        }
    }
    parser.expect_keyword_is(Keyword::IS)?;
    let comment = match parser.parse_keyword(Keyword::NULL) {
        true => None,
        false => Some(parser.parse_literal_string()?),
    };
    Ok(Some(Statement::Comment { object_type: CommentObject::Function, object_name, comment, if_exists }))
}
