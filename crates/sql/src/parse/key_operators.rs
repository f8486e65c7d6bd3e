//! The operators `?`, `?|` and `?&`, which test the keys of JSON documents.
//!
//! A question mark is also a parameter. It is an operator after an operand, where no parameter can be, if it is
//! followed by a text, a list or a parameter. After a keyword that may be the name of a column, only a text or a list
//! tells: `data ? 'key'`.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// Turns question marks that are operators into tokens of operators.
pub(super) fn join_key_operators(tokens: &mut Vec<TokenWithSpan>) {
    let mut at = 0;
    while at < tokens.len() {
        if matches!(&tokens[at].token, Token::Placeholder(mark) if mark == "?")
            && let Some((operator, last)) = operator(tokens, at)
        {
            tokens[at].token = operator;
            tokens[at].span.end = tokens[last].span.end;
            tokens.drain(at + 1..=last);
        }
        at += 1;
    }
}

/// Returns the operator that begins with the question mark at `at`, and its last token.
fn operator(tokens: &[TokenWithSpan], at: usize) -> Option<(Token, usize)> {
    let is_next = |token: &Token| {
        tokens.get(at + 1).is_some_and(|next| next.token == *token && next.span.start == tokens[at].span.end)
    };
    let (operator, last) = if is_next(&Token::Pipe) {
        (Token::QuestionPipe, at + 1)
    } else if is_next(&Token::Ampersand) {
        (Token::QuestionAnd, at + 1)
    } else {
        (Token::Question, at)
    };
    let is_word = |token: &&TokenWithSpan| !matches!(token.token, Token::Whitespace(_));
    let before = tokens[..at].iter().rfind(is_word)?;
    let after = tokens[last + 1..].iter().find(is_word)?;
    let begins_text = matches!(after.token, Token::SingleQuotedString(_) | Token::EscapedStringLiteral(_));
    let is_operator = match &before.token {
        Token::Word(word) if word.quote_style.is_none() && word.keyword != Keyword::NoKeyword => {
            begins_text || last > at && begins_list(&after.token)
        }
        Token::Word(_)
        | Token::Number(..)
        | Token::Placeholder(_)
        | Token::SingleQuotedString(_)
        | Token::RParen
        | Token::RBracket
        | Token::RBrace => begins_operand(&after.token),
        _ => false,
    };
    is_operator.then_some((operator, last))
}

fn begins_list(token: &Token) -> bool {
    matches!(token, Token::LBracket) || matches!(token, Token::Word(word) if word.keyword == Keyword::ARRAY)
}

fn begins_operand(token: &Token) -> bool {
    match token {
        Token::Word(word) => word.quote_style.is_some() || matches!(word.keyword, Keyword::NoKeyword | Keyword::ARRAY),
        Token::SingleQuotedString(_)
        | Token::EscapedStringLiteral(_)
        | Token::Placeholder(_)
        | Token::LParen
        | Token::LBracket => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use rowmill_base::Settings;

    use crate::parse::parse;

    #[test]
    fn a_question_mark_after_an_operand_is_an_operator() {
        for (sql, parameters) in [
            ("SELECT data ? 'a', j ? $1, (j) ?| ARRAY['a'], j ?& $2", 2),
            ("SELECT j->'a' ? 'b', '{}' ? 'a', data ?& ['a'], j::JSONB ?| ARRAY['a']", 0),
            ("SELECT ?, a FROM t WHERE b = ? AND c IN (?, ?) LIMIT ? OFFSET ?", 6),
            ("SELECT ? || 'a', a LIKE ? ESCAPE '!'", 2),
        ] {
            let statement = parse(sql, &Settings::default()).unwrap().remove(0);
            assert_eq!(statement.parameter_count(), parameters, "{sql}");
        }
    }
}
