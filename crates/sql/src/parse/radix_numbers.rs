//! Whole numbers of other bases: `0x1F`, `0o17` and `0b101` are numbers, as in PostgreSQL. The tokenizer reads the
//! first as the blob `X'1F'`, and the others as a zero and a word.

use rowmill_base::Result;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::syntax_error;

/// Makes one number of the tokens of each such number.
pub(super) fn join_radix_numbers(sql: &str, tokens: &mut Vec<TokenWithSpan>) -> Result<()> {
    let mut at = 0;
    while at < tokens.len() {
        let (digits, radix, end) = match (&tokens[at].token, tokens.get(at + 1)) {
            // The span of `0x1F` has two signs more than the digits, and that of `X'1F'` three.
            (Token::HexStringLiteral(digits), _) => {
                let span = tokens[at].span;
                let signs = span.end.column.wrapping_sub(span.start.column);
                let is_number = span.start.line == span.end.line && signs == digits.len() as u64 + 2;
                if !is_number {
                    at += 1;
                    continue;
                }
                (digits.clone(), 16, at)
            }
            (Token::Number(zero, _), Some(word)) if zero == "0" && word.span.start == tokens[at].span.end => {
                let Token::Word(of_word) = &word.token else {
                    at += 1;
                    continue;
                };
                let radix = match of_word.value.get(..1) {
                    Some("b" | "B") => 2,
                    Some("o" | "O") => 8,
                    _ => {
                        at += 1;
                        continue;
                    }
                };
                (of_word.value[1..].to_owned(), radix, at + 1)
            }
            _ => {
                at += 1;
                continue;
            }
        };
        let place = tokens[at].span.start;
        let Ok(number) = u128::from_str_radix(&digits.replace('_', ""), radix) else {
            let message = format!("{digits} is no number of at most 128 bits with base {radix}");
            return Err(syntax_error(sql, &message, Some(place)));
        };
        tokens[at].token = Token::Number(number.to_string(), false);
        tokens[at].span.end = tokens[end].span.end;
        tokens.drain(at + 1..=end);
        at += 1;
    }
    Ok(())
}
