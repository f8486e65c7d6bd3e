//! The SQL dialect of the tests, which must be that of the product.

use std::any::TypeId;
use std::cell::Cell;

use sqlparser::ast::Expr;
use sqlparser::dialect::{Dialect, DuckDbDialect, PostgreSqlDialect, Precedence};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};

/// The dialect of one statement.
#[derive(Debug)]
pub(crate) struct RowmillDialect {
    /// The parser ties the type `STRUCT(a INT)` to DuckDB's identity and a handful of PostgreSQL's forms to the
    /// other, so a statement that names a struct type is read with the first and everything else with the second.
    struct_types: bool,
    /// Expressions that the parser may still begin.
    steps_left: Cell<u64>,
}

/// Expressions that the parser may begin for each token, and for any statement.
const STEPS_PER_TOKEN: u64 = 64;
const STEPS_MIN: u64 = 100_000;

impl RowmillDialect {
    /// The dialect for one statement of `tokens` tokens.
    pub(crate) fn new(struct_types: bool, tokens: usize) -> RowmillDialect {
        let steps = (tokens as u64).saturating_mul(STEPS_PER_TOKEN).saturating_add(STEPS_MIN);
        RowmillDialect { struct_types, steps_left: Cell::new(steps) }
    }
}

const POSTGRES: PostgreSqlDialect = PostgreSqlDialect {};

macro_rules! accepts {
    ($($flag:ident,)*) => { $(fn $flag(&self) -> bool { true })* };
}

impl Dialect for RowmillDialect {
    fn dialect(&self) -> TypeId {
        if self.struct_types { TypeId::of::<DuckDbDialect>() } else { TypeId::of::<PostgreSqlDialect>() }
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

    /// The parser calls this for every expression that it begins. After this error it tries no other alternative.
    fn parse_prefix(&self, _parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
        self.steps_left.set(self.steps_left.get().saturating_sub(1));
        (self.steps_left.get() == 0).then_some(Err(ParserError::RecursionLimitExceeded))
    }

    fn get_next_precedence(&self, parser: &Parser) -> Option<Result<u8, ParserError>> {
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
        supports_dictionary_syntax,
        support_map_literal_syntax,
        supports_map_literal_with_angle_brackets,
        supports_lambda_functions,
        supports_array_typedef_with_brackets,
        supports_named_fn_args_with_rarrow_operator,
        supports_bitwise_shift_operators,
        supports_interval_options,
        supports_notnull_operator,
        supports_comma_separated_trim,
        supports_explain_with_utility_options,
        supports_insert_table_alias,
        supports_projection_trailing_commas,
        allow_extract_custom,
        allow_extract_single_quotes,
    }
}
