//! The SQL dialect of the parser: PostgreSQL's, with the additions of DuckDB that do not contradict it.
//!
//! PostgreSQL decides where both differ (precedence, quoting, `^`). DuckDB adds `FROM t SELECT a`, `SELECT * EXCLUDE
//! (b)`, `ORDER BY ALL`, `{'a': 1}`, `STRUCT(a INT)` and table names that are files.
//!
//! Where a word or a parenthesis has two readings, the parser tries one and, if that fails further on, the other.
//! Nested tries multiply: for example, finding an error inside forty nested `CAST(` would take a trillion tries. So the
//! dialect counts the expressions that the parser begins, and stops it when their number is many times the number of
//! tokens.

use std::any::TypeId;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use rowmill_plan::item_function;
use rowmill_query::syntax_walk::each_expr;
use sqlparser::ast::{BinaryOperator, ColumnOption, Expr, GeneratedAs, GeneratedExpressionMode, UnaryOperator};
use sqlparser::dialect::{Dialect, DuckDbDialect, PostgreSqlDialect, Precedence};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

use crate::parse::call;

/// The dialect of one statement.
#[derive(Debug, Default)]
pub(crate) struct RowmillDialect {
    /// sqlparser ties the type `STRUCT(a INT)` to DuckDB's identity, and a few forms of PostgreSQL to PostgreSQL's. So
    /// we read a statement that names a struct type with the first identity and every other statement with the second.
    struct_types: bool,
    /// How many more expressions the parser may begin.
    steps_left: Cell<u64>,
    /// Whether the expression that the parser begins is where a function of items may be. Elsewhere, the arrow of
    /// `x -> 'key'` selects a part of a JSON document.
    takes_lambda: Cell<bool>,
    /// For commas of lists of arguments: whether a function of items may follow.
    known_lists: RefCell<HashMap<usize, bool>>,
}

/// How many expressions the parser may begin: per token, and at least for any statement.
const STEPS_PER_TOKEN: u64 = 64;
const STEPS_MIN: u64 = 100_000;

impl RowmillDialect {
    /// Creates the dialect for one statement that has `tokens` tokens.
    pub(crate) fn new(struct_types: bool, tokens: usize) -> RowmillDialect {
        let steps = (tokens as u64).saturating_mul(STEPS_PER_TOKEN).saturating_add(STEPS_MIN);
        RowmillDialect { struct_types, steps_left: Cell::new(steps), ..RowmillDialect::default() }
    }

    /// Whether the dialect stopped the parser because it tried too many readings.
    pub(crate) fn gave_up(&self) -> bool {
        self.steps_left.get() == 0
    }
}

/// Reads a subquery whose first SELECT has its own parentheses: `((SELECT 1) UNION (SELECT 2))`. The parser alone would
/// take that SELECT for a whole operand. After `ANY` and `ALL` the parser has already consumed the outer parenthesis.
fn compound_subquery(parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
    let first = opening(parser, parser.index())?;
    // After ANY, ALL or SOME the opening parenthesis is already consumed.
    let is_quantified = previous(parser, first).is_some_and(|before| {
        parser.token_at(before).token == Token::LParen
            && previous(parser, before)
                .is_some_and(|word| matches!(keyword_at(parser, word), Keyword::ANY | Keyword::ALL | Keyword::SOME))
    });
    let inner = if is_quantified { first } else { opening(parser, first + 1)? };
    // Only a set operation after the inner parenthesis tells this form from an ordinary operand in parentheses.
    let after = next(parser, closing(parser, inner)? + 1);
    if !matches!(keyword_at(parser, after), Keyword::UNION | Keyword::INTERSECT | Keyword::EXCEPT) {
        return None;
    }
    let query = match is_quantified {
        true => parser.parse_query(),
        false => parser.expect_token(&Token::LParen).and_then(|_| {
            let query = parser.parse_query()?;
            parser.expect_token(&Token::RParen)?;
            Ok(query)
        }),
    };
    Some(query.map(Expr::Subquery))
}

/// The most parts that the operands of a `BETWEEN SYMMETRIC` may have. The form doubles them, so that forms inside of
/// forms would grow without bound.
const SYMMETRIC_PARTS_MAX: usize = 10_000;

/// Reads `x BETWEEN SYMMETRIC a AND b` as `(x BETWEEN a AND b OR x BETWEEN b AND a)`, as PostgreSQL defines it, and
/// `x BETWEEN ASYMMETRIC a AND b` as the form without the word.
fn symmetric_between(parser: &mut Parser, value: &Expr, precedence: u8) -> Option<Result<Expr, ParserError>> {
    let has = |parser: &mut Parser, words: &[Keyword]| parser.parse_keywords(words);
    let (negated, is_symmetric) = match parser.peek_token_ref().token {
        Token::Word(ref word) if matches!(word.keyword, Keyword::NOT | Keyword::BETWEEN) => {
            if has(parser, &[Keyword::BETWEEN, Keyword::SYMMETRIC]) {
                (false, true)
            } else if has(parser, &[Keyword::NOT, Keyword::BETWEEN, Keyword::SYMMETRIC]) {
                (true, true)
            } else if has(parser, &[Keyword::BETWEEN, Keyword::ASYMMETRIC]) {
                (false, false)
            } else if has(parser, &[Keyword::NOT, Keyword::BETWEEN, Keyword::ASYMMETRIC]) {
                (true, false)
            } else {
                return None;
            }
        }
        _ => return None,
    };
    let bounds = |parser: &mut Parser| {
        let low = parser.parse_subexpr(precedence)?;
        parser.expect_keyword_is(Keyword::AND)?;
        Ok((low, parser.parse_subexpr(precedence)?))
    };
    Some(bounds(parser).and_then(|(low, high)| {
        let between = |low: &Expr, high: &Expr| {
            let [expr, low, high] = [value, low, high].map(|part| Box::new(part.clone()));
            Box::new(Expr::Between { expr, negated, low, high })
        };
        if !is_symmetric {
            return Ok(*between(&low, &high));
        }
        let parts: usize = [value, &low, &high].into_iter().map(parts_of).sum();
        if parts > SYMMETRIC_PARTS_MAX {
            return Err(ParserError::RecursionLimitExceeded);
        }
        let op = if negated { BinaryOperator::And } else { BinaryOperator::Or };
        let both = Expr::BinaryOp { left: between(&low, &high), op, right: between(&high, &low) };
        Ok(Expr::Nested(Box::new(both)))
    }))
}

/// Whether the next words are `GLOB` or `NOT GLOB` and a pattern; with whether there is a NOT.
fn is_glob(parser: &Parser) -> Option<bool> {
    let is_word = |at: usize, wanted: &str| {
        matches!(&parser.peek_nth_token_ref(at).token, Token::Word(word)
            if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted))
    };
    let negated = is_word(0, "not");
    let at = usize::from(negated);
    if !is_word(at, "glob") {
        return None;
    }
    // A word after an expression may also be the name of its column.
    let pattern = &parser.peek_nth_token_ref(at + 1).token;
    let is_pattern = match pattern {
        Token::Word(word) => word.quote_style.is_some() || word.keyword == Keyword::NoKeyword,
        Token::SingleQuotedString(_) | Token::EscapedStringLiteral(_) | Token::Placeholder(_) | Token::LParen => true,
        _ => false,
    };
    is_pattern.then_some(negated)
}

/// Reads `text GLOB pattern` as `glob(pattern, text)`.
fn glob_match(parser: &mut Parser, text: &Expr, precedence: u8) -> Option<Result<Expr, ParserError>> {
    let negated = is_glob(parser)?;
    (0..1 + usize::from(negated)).for_each(|_| parser.advance_token());
    Some(parser.parse_subexpr(precedence).map(|pattern| {
        let matches = call("glob", [pattern, text.clone()]);
        match negated {
            true => Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(Expr::Nested(Box::new(matches))) },
            false => matches,
        }
    }))
}

fn parts_of(expr: &Expr) -> usize {
    let mut parts = 0;
    each_expr(expr, |_| parts += 1);
    parts
}

/// Returns the index of the first token from `at` on that is not white space.
fn next(parser: &Parser, mut at: usize) -> usize {
    while matches!(parser.token_at(at).token, Token::Whitespace(_)) {
        at += 1;
    }
    at
}

/// Returns the index of the last token before `at` that is not white space.
fn previous(parser: &Parser, at: usize) -> Option<usize> {
    (0..at).rev().find(|at| !matches!(parser.token_at(*at).token, Token::Whitespace(_)))
}

/// Returns the index of the next token if it is an opening parenthesis.
fn opening(parser: &Parser, at: usize) -> Option<usize> {
    let at = next(parser, at);
    (parser.token_at(at).token == Token::LParen).then_some(at)
}

/// Returns the index of the parenthesis that closes the one at `at`.
fn closing(parser: &Parser, mut at: usize) -> Option<usize> {
    let mut open = 0_usize;
    loop {
        match parser.token_at(at).token {
            Token::LParen => open += 1,
            Token::RParen if open == 1 => return Some(at),
            Token::RParen => open -= 1,
            Token::EOF => return None,
            _ => {}
        }
        at += 1;
    }
}

/// The tokens in which the parameters of a function of items and its arrow are.
const LAMBDA_HEAD_TOKENS: usize = 32;

/// Whether the next tokens may be the parameters of a function of items and its arrow.
fn begins_lambda(parser: &Parser) -> bool {
    let first = next(parser, parser.index());
    let mut tokens = (first..first + LAMBDA_HEAD_TOKENS).map(|at| &parser.token_at(at).token);
    keyword_at(parser, first) == Keyword::LAMBDA || tokens.any(|token| *token == Token::Arrow)
}

/// Whether the next tokens may be a function as an argument: not the first one of a function that takes a function of
/// items, or the first one of `COLUMNS`, which takes a function of names. `known` has the answers for the arguments
/// after commas that were asked for before, so that a long list is not read again for each of its items.
fn takes_lambda(parser: &Parser, known: &mut HashMap<usize, bool>) -> bool {
    let is_function = |parenthesis: usize, takes: &dyn Fn(&str) -> bool| {
        let name = previous(parser, parenthesis).map(|name| &parser.token_at(name).token);
        matches!(name, Some(Token::Word(word)) if takes(&word.value.to_lowercase()))
    };
    let Some(comma) = previous(parser, parser.index()) else { return false };
    match parser.token_at(comma).token {
        Token::Comma => {}
        Token::LParen => {
            let takes =
                |name: &str| name == "columns" || is_method(parser, comma) && item_function::find(name).is_some();
            return is_function(comma, &takes) && begins_lambda(parser);
        }
        _ => return false,
    }
    // Most arguments are plain values. For these we do not look for the function that they belong to.
    if !begins_lambda(parser) {
        return false;
    }
    let mut closed = 0_usize;
    let mut answer = false;
    for at in (0..comma).rev() {
        match &parser.token_at(at).token {
            Token::RParen => closed += 1,
            Token::LParen if closed > 0 => closed -= 1,
            Token::LParen => {
                answer = is_function(at, &|name| item_function::find(name).is_some());
                break;
            }
            Token::Comma if closed == 0 && known.contains_key(&at) => {
                answer = known[&at];
                break;
            }
            Token::SemiColon => break,
            _ => {}
        }
    }
    known.insert(comma, answer);
    answer
}

/// Whether the function before a parenthesis has its first argument before a dot: `list.list_filter(x -> x > 1)`.
fn is_method(parser: &Parser, parenthesis: usize) -> bool {
    let dot = previous(parser, parenthesis).and_then(|name| previous(parser, name));
    dot.is_some_and(|dot| parser.token_at(dot).token == Token::Period)
}

fn keyword_at(parser: &Parser, at: usize) -> Keyword {
    match &parser.token_at(at).token {
        Token::Word(word) => word.keyword,
        _ => Keyword::NoKeyword,
    }
}

/// Whether the word before the parser's place begins a clause that `crate::parse` reads itself, such as `SAMPLE BY`,
/// and is not the alias of a table.
fn begins_time_clause(parser: &Parser) -> bool {
    let Some(Token::Word(word)) = previous(parser, parser.index()).map(|at| &parser.token_at(at).token) else {
        return false;
    };
    let following = &parser.token_at(next(parser, parser.index())).token;
    let is_before = |words: &[&str]| match following {
        Token::Word(next) => words.iter().any(|word| word.eq_ignore_ascii_case(&next.value)),
        _ => false,
    };
    if word.quote_style.is_some() {
        return false;
    }
    match &*word.value.to_ascii_lowercase() {
        "asof" | "lt" | "splice" | "window" | "horizon" | "positional" | "paste" | "any" | "global" => {
            is_before(&["join", "inner", "left", "right", "full", "nearest"])
        }
        "sample" => is_before(&["by"]),
        "range" => is_before(&["between", "from"]),
        "tolerance" => matches!(following, Token::Number(..)) || is_before(&["interval"]),
        "include" | "exclude" => is_before(&["prevailing"]),
        "list" | "match_condition" => *following == Token::LParen,
        _ => false,
    }
}

/// The number of words before the expression of a generated column, if one begins at the parser's place:
/// `[GENERATED ALWAYS] AS (`.
fn begins_generated(parser: &Parser) -> Option<usize> {
    let is_keyword = |at: usize, wanted: Keyword| match &parser.peek_nth_token_ref(at).token {
        Token::Word(word) => word.keyword == wanted,
        _ => false,
    };
    let is_long = is_keyword(0, Keyword::GENERATED) && is_keyword(1, Keyword::ALWAYS);
    let as_word = if is_long { 2 } else { 0 };
    let begins = is_keyword(as_word, Keyword::AS) && parser.peek_nth_token_ref(as_word + 1).token == Token::LParen;
    begins.then_some(as_word + 1)
}

/// Reads `[GENERATED ALWAYS] AS (expression) [STORED | VIRTUAL]`.
fn generated_column(parser: &mut Parser, words: usize) -> Result<Option<ColumnOption>, ParserError> {
    (0..words).for_each(|_| parser.advance_token());
    parser.expect_token(&Token::LParen)?;
    let expr = parser.parse_expr()?;
    parser.expect_token(&Token::RParen)?;
    let mode = match parser.parse_one_of_keywords(&[Keyword::STORED, Keyword::VIRTUAL]) {
        Some(Keyword::STORED) => Some(GeneratedExpressionMode::Stored),
        Some(_) => Some(GeneratedExpressionMode::Virtual),
        None => None,
    };
    Ok(Some(ColumnOption::Generated {
        generated_as: GeneratedAs::Always,
        sequence_options: None,
        generation_expr: Some(expr),
        generation_expr_mode: mode,
        generated_keyword: true,
    }))
}

const POSTGRES: PostgreSqlDialect = PostgreSqlDialect {};

macro_rules! accepts {
    ($($flag:ident,)*) => { $(fn $flag(&self) -> bool { true })* };
}

impl Dialect for RowmillDialect {
    fn dialect(&self) -> TypeId {
        if self.struct_types { TypeId::of::<DuckDbDialect>() } else { TypeId::of::<PostgreSqlDialect>() }
    }

    fn supports_comment_on(&self) -> bool {
        true
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        ch == '"'
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        POSTGRES.is_identifier_start(ch)
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        POSTGRES.is_identifier_part(ch)
    }

    fn identifier_quote_style(&self, _identifier: &str) -> Option<char> {
        Some('"')
    }

    fn is_reserved_for_identifier(&self, keyword: Keyword) -> bool {
        POSTGRES.is_reserved_for_identifier(keyword)
    }

    /// The parser calls this for every expression that it begins. After this error it tries no other reading.
    fn parse_prefix(&self, parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
        self.steps_left.set(self.steps_left.get().saturating_sub(1));
        if self.gave_up() {
            return Some(Err(ParserError::RecursionLimitExceeded));
        }
        self.takes_lambda.set(takes_lambda(parser, &mut self.known_lists.borrow_mut()));
        compound_subquery(parser)
    }

    /// Reads `a // b`, which the parser knows only in DuckDB's dialect, and `x BETWEEN SYMMETRIC a AND b`.
    fn parse_infix(&self, parser: &mut Parser, expr: &Expr, precedence: u8) -> Option<Result<Expr, ParserError>> {
        if parser.peek_token_ref().token != Token::DuckIntDiv {
            return symmetric_between(parser, expr, precedence).or_else(|| glob_match(parser, expr, precedence));
        }
        parser.advance_token();
        Some(parser.parse_subexpr(precedence).map(|right| Expr::BinaryOp {
            left: Box::new(expr.clone()),
            op: BinaryOperator::DuckIntegerDivide,
            right: Box::new(right),
        }))
    }

    fn supports_lambda_functions(&self) -> bool {
        self.takes_lambda.get()
    }

    /// The parser has consumed the word that may be an alias.
    fn is_table_factor_alias(&self, explicit: bool, kw: &Keyword, parser: &mut Parser) -> bool {
        explicit || self.is_table_alias(kw, parser) && !begins_time_clause(parser)
    }

    /// Reads `AUTOINCREMENT` and `AUTO_INCREMENT`, which the parser alone would read over, and generated columns, of
    /// which it knows only PostgreSQL's form with STORED.
    fn parse_column_option(
        &self,
        parser: &mut Parser,
    ) -> Result<Option<Result<Option<ColumnOption>, ParserError>>, ParserError> {
        if parser.parse_one_of_keywords(&[Keyword::AUTOINCREMENT, Keyword::AUTO_INCREMENT]).is_none() {
            return Ok(begins_generated(parser).map(|words| generated_column(parser, words)));
        }
        let identity = ColumnOption::Generated {
            generated_as: GeneratedAs::ByDefault,
            sequence_options: None,
            generation_expr: None,
            generation_expr_mode: None,
            generated_keyword: true,
        };
        Ok(Some(Ok(Some(identity))))
    }

    fn get_next_precedence(&self, parser: &Parser) -> Option<Result<u8, ParserError>> {
        if is_glob(parser).is_some() {
            return Some(Ok(self.prec_value(Precedence::Like)));
        }
        POSTGRES.get_next_precedence(parser)
    }

    fn prec_value(&self, precedence: Precedence) -> u8 {
        POSTGRES.prec_value(precedence)
    }

    accepts! {
        supports_unicode_string_literal,
        supports_string_escape_constant,
        supports_numeric_literal_underscores,
        supports_nested_comments,
        supports_filter_during_aggregation,
        supports_within_after_array_aggregation,
        supports_window_clause_named_window_reference,
        supports_window_function_null_treatment_arg,
        supports_group_by_expr,
        supports_order_by_all,
        supports_from_first_select,
        supports_values_as_table_factor,
        supports_parens_around_table_factor,
        supports_left_associative_joins_without_parens,
        supports_limit_comma,
        supports_select_wildcard_except,
        supports_select_wildcard_exclude,
        supports_select_wildcard_replace,
        supports_select_wildcard_rename,
        supports_dictionary_syntax,
        support_map_literal_syntax,
        supports_map_literal_with_angle_brackets,
        supports_array_typedef_with_brackets,
        supports_named_fn_args_with_rarrow_operator,
        supports_named_fn_args_with_assignment_operator,
        supports_bitwise_shift_operators,
        supports_interval_options,
        supports_notnull_operator,
        supports_comma_separated_trim,
        supports_alter_column_type_using,
        supports_explain_with_utility_options,
        supports_insert_table_alias,
        supports_projection_trailing_commas,
        allow_extract_custom,
        allow_extract_single_quotes,
    }
}
