//! Limits of a statement's length, depth and number of terms, checked before it is parsed.
//!
//! The passes of the planner recurse over the statement's tree, so the tree's depth bounds their stack, and its terms
//! bound their memory. We read both off the text in one pass without building anything. The depth is an upper estimate:
//! operators of one level count as a chain that leans to the left (as `1+1+1` does), however they bind. AND, OR and
//! UNION do not count, because [`flatten_chains`] turns their chains into shallow trees.
//!
//! Each level has a weight, which follows the planner's work on it. The work on a chain of operators grows with the
//! square of its length. On nested calls, nested CASE and joins it grows with a higher power, so one of them counts as
//! several levels ([`weight`]).

use rowmill_base::{Error, ErrorKind, Result, Settings};
use rowmill_query::syntax_walk::SyntaxTree;
use sqlparser::ast::{BinaryOperator, Expr, Query, SetExpr, SetOperator, SetQuantifier, Value, Values, VisitorMut};

use crate::lexer::{Lexeme, LexemeKind, lexemes};

/// The limits of one statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StatementLimits {
    /// Bytes of its text (`statement_length_max_bytes`).
    pub(crate) length_bytes: u64,
    /// Levels of its tree (`expression_depth_max`).
    pub(crate) depth: u64,
    /// Operators, values and names in it (`expression_terms_max`).
    pub(crate) terms: u64,
}

impl From<&Settings> for StatementLimits {
    fn from(settings: &Settings) -> Self {
        StatementLimits {
            length_bytes: settings.number("statement_length_max_bytes"),
            depth: settings.number("expression_depth_max"),
            terms: settings.number("expression_terms_max"),
        }
    }
}

/// Returns the depth of a text in weighted levels. Refuses a text that is too long, too deep or has too many terms.
pub(crate) fn check_statement(sql: &str, limits: &StatementLimits) -> Result<u64> {
    if sql.len() as u64 > limits.length_bytes {
        return Err(too_complex(
            "is",
            sql.len() as u64,
            "bytes long",
            limits.length_bytes,
            "statement_length_max_bytes",
        ));
    }
    // The length was checked first, so this pass is bounded.
    let mut gauge = Gauge::new(limits.depth);
    let mut terms = 0_u64;
    for lexeme in lexemes(sql).filter(Lexeme::is_code) {
        // Punctuation adds no node to the tree.
        if !matches!(lexeme.text, "(" | ")" | "," | ";" | "." | "[" | "]" | "{" | "}") {
            terms += 1;
        }
        gauge.take(lexeme);
    }
    if terms > limits.terms {
        return Err(too_complex("has", terms, "terms", limits.terms, "expression_terms_max"));
    }
    let depth = gauge.finish();
    if gauge.columns_max > COLUMNS_MAX {
        let message =
            format!("the statement selects {} columns in one list, the limit is {COLUMNS_MAX}", gauge.columns_max);
        return Err(Error::new(ErrorKind::StatementTooComplex, message)
            .hint("select fewer columns, or put several into one with [a, b, ...] or {'a': a, ...}"));
    }
    if depth > limits.depth {
        return Err(too_complex("nests", depth, "levels deep", limits.depth, "expression_depth_max"));
    }
    Ok(depth)
}

fn too_complex(verb: &str, found: u64, what: &str, limit: u64, setting: &str) -> Error {
    Error::new(
        ErrorKind::StatementTooComplex,
        format!("the statement {verb} {found} {what}, the limit is {limit} ({setting})"),
    )
    .hint(format!("raise it with SET {setting} = ..., or split the statement"))
}

/// The most columns of one SELECT. The planner compares each column with all columns before it.
const COLUMNS_MAX: u64 = 10_000;

/// The levels that each construct counts for. They are measured: no construct should plan much longer than an equal
/// number of plain operators.
mod weight {
    /// A call, a list, a subscript.
    pub(super) const CALL: u64 = 8;
    /// `CASE ... END`
    pub(super) const CASE: u64 = 4;
    /// A sign in front of a value.
    pub(super) const SIGN: u64 = 4;
    /// A table joined to others.
    pub(super) const JOIN: u64 = 5;
    /// A query in a query, or a name of WITH (which may use the name before it).
    pub(super) const QUERY: u64 = 4;
    /// `map(` and a lambda. The planner binds their arguments twice, so the work doubles with each level.
    pub(super) const BOUND_TWICE: u64 = 100;
    /// Everything else.
    pub(super) const OTHER: u64 = 1;
}

/// The state of one pair of parentheses (or CASE ... END, or the whole statement) that is being read.
#[derive(Default)]
struct NestingLevel {
    is_case: bool,
    /// The levels that the pair itself counts for.
    weight: u64,
    /// A subscript adds levels above the value that it is applied to.
    is_subscript: bool,
    /// The depth of the expression being read, and of the deepest one before it.
    depth: u64,
    depth_max: u64,
    /// Signs and NOTs in front of the next value.
    prefixes: u64,
    /// Levels of the joins of this FROM (or the names of this WITH), and the maximum of the earlier ones.
    joins: u64,
    joins_max: u64,
    /// Set operations that [`flatten_chains`] cannot balance.
    set_operations: u64,
    list: List,
    /// Columns of the list after SELECT so far.
    columns: u64,
    union_all: Option<bool>,
}

/// The meaning of a comma at this place.
#[derive(Clone, Copy, Default, PartialEq)]
enum List {
    Columns,
    Tables,
    #[default]
    Other,
}

impl NestingLevel {
    fn end_expression(&mut self) {
        self.depth_max = self.depth_max.max(self.depth);
        self.depth = 0;
        self.prefixes = 0;
    }

    fn end_select(&mut self) {
        self.end_expression();
        self.joins_max = self.joins_max.max(self.joins);
        self.joins = 0;
        self.list = List::Columns;
        self.columns = 1;
    }

    fn total(&self) -> u64 {
        self.depth_max.max(self.depth) + self.joins_max.max(self.joins) + self.set_operations
    }
}

struct Gauge {
    levels: Vec<NestingLevel>,
    /// The most levels that we keep separately. Deeper ones are only counted, so that hostile input takes no memory.
    levels_max: u64,
    levels_beyond: u64,
    deepest: u64,
    columns_max: u64,
    after_value: bool,
    last_word: String,
}

impl Gauge {
    fn new(depth_max: u64) -> Gauge {
        Gauge {
            levels: vec![NestingLevel::default()],
            levels_max: depth_max.saturating_add(1),
            levels_beyond: 0,
            deepest: 0,
            columns_max: 0,
            after_value: false,
            last_word: String::new(),
        }
    }

    fn level(&mut self) -> &mut NestingLevel {
        self.levels.last_mut().expect("the outermost level is never closed")
    }

    fn take(&mut self, lexeme: Lexeme<'_>) {
        match lexeme.kind {
            LexemeKind::Word => self.word(lexeme.text),
            LexemeKind::Symbol => self.symbol(lexeme.text),
            _ => self.value(),
        }
        if lexeme.kind != LexemeKind::Word {
            self.last_word.clear();
        }
    }

    fn value(&mut self) {
        // A value directly after a value is a postfix operator (NOTNULL) or belongs to a prefix (INTERVAL).
        let weight = if self.after_value { weight::OTHER } else { 0 };
        let level = self.level();
        level.depth = level.depth.max(1 + level.prefixes) + weight;
        level.prefixes = 0;
        self.after_value = true;
    }

    fn operator(&mut self, weight: u64) {
        self.level().depth += weight;
        self.after_value = false;
    }

    fn symbol(&mut self, symbol: &str) {
        match symbol {
            "(" => self.parenthesis(),
            "[" if self.after_value => self.open(NestingLevel { is_subscript: true, ..NestingLevel::default() }),
            "[" | "{" => self.open(NestingLevel { weight: weight::CALL, ..NestingLevel::default() }),
            ")" | "]" | "}" => self.close(false),
            "," => {
                let level = self.level();
                level.end_expression();
                match level.list {
                    List::Columns => level.columns += 1,
                    List::Tables => level.joins += weight::JOIN,
                    List::Other => {}
                }
                let columns = level.columns;
                self.columns_max = self.columns_max.max(columns);
                self.after_value = false;
            }
            ";" => self.end_statement(),
            "." => self.after_value = false,
            "+" | "-" | "~" | "!" if !self.after_value => self.level().prefixes += weight::SIGN,
            "->" => self.operator(weight::BOUND_TWICE),
            _ => self.operator(weight::OTHER),
        }
    }

    fn parenthesis(&mut self) {
        let weight = match self.last_word.as_str() {
            "MAP" => weight::BOUND_TWICE,
            word if self.after_value && !word.is_empty() => weight::CALL,
            "AS" | "MATERIALIZED" => {
                self.level().joins += weight::QUERY;
                weight::OTHER
            }
            _ => weight::OTHER,
        };
        self.open(NestingLevel { weight, ..NestingLevel::default() });
    }

    fn word(&mut self, word: &str) {
        let mut upper = word.to_ascii_uppercase();
        match upper.as_str() {
            "CASE" => self.open(NestingLevel { is_case: true, weight: weight::CASE, ..NestingLevel::default() }),
            "END" => self.close(true),
            "NOT" if !self.after_value => self.level().prefixes += weight::OTHER,
            "NOT" | "DISTINCT" | "ALL" => {}
            "SELECT" => self.clause(|level| {
                level.end_select();
                level.weight = level.weight.max(weight::QUERY);
            }),
            "FROM" if self.last_word == "DISTINCT" => self.after_value = false,
            "FROM" => self.clause(|level| level.list = List::Tables),
            "WHERE" | "GROUP" | "ORDER" | "HAVING" | "LIMIT" | "OFFSET" | "WINDOW" | "QUALIFY" | "RETURNING"
            | "SET" => {
                self.clause(|level| level.list = List::Other);
            }
            "WHEN" | "THEN" | "ELSE" | "ON" | "USING" | "VALUES" | "AND" | "OR" | "BY" | "AS" => self.clause(|_| ()),
            "JOIN" => self.clause(|level| level.joins += weight::JOIN),
            "UNION" => self.clause(|level| level.end_select()),
            "EXCEPT" | "INTERSECT" => self.clause(|level| {
                level.end_select();
                level.set_operations += 2;
            }),
            "IS" | "IN" | "LIKE" | "ILIKE" | "BETWEEN" | "SIMILAR" | "COLLATE" | "AT" | "OVERLAPS" | "XOR" => {
                self.operator(weight::OTHER);
            }
            _ => self.value(),
        }
        if self.last_word == "UNION" {
            // A chain of only UNION or only UNION ALL can be balanced, a mixture cannot.
            let all = upper == "ALL";
            let level = self.level();
            level.set_operations += u64::from(level.union_all.replace(all).is_some_and(|before| before != all));
        }
        std::mem::swap(&mut self.last_word, &mut upper);
    }

    /// Handles a word that ends one expression and begins another.
    fn clause(&mut self, change: impl FnOnce(&mut NestingLevel)) {
        let level = self.level();
        level.end_expression();
        change(level);
        self.after_value = false;
    }

    fn open(&mut self, level: NestingLevel) {
        if self.levels.len() as u64 >= self.levels_max {
            self.levels_beyond += 1;
            // Beyond the limit the exact depth no longer matters: the statement is refused.
            self.deepest = self.deepest.max(self.levels_max + self.levels_beyond);
            return;
        }
        self.levels.push(level);
        self.after_value = false;
    }

    fn close(&mut self, is_case: bool) {
        if self.levels_beyond > 0 {
            self.levels_beyond -= 1;
            return;
        }
        // The parser reports an END without CASE or a surplus parenthesis.
        if self.levels.len() == 1 || self.levels.last().is_some_and(|level| level.is_case != is_case) {
            return;
        }
        let inner = self.levels.pop().expect("checked above");
        let level = self.level();
        level.depth = level.depth.max(inner.total() + inner.weight + level.prefixes);
        level.depth += if inner.is_subscript { weight::CALL } else { 0 };
        level.prefixes = 0;
        self.after_value = true;
    }

    fn end_statement(&mut self) {
        // Parentheses that were never closed count with everything inside of them.
        let open = self.levels.len() as u64 - 1;
        let total = self.levels.iter().map(NestingLevel::total).sum::<u64>();
        self.deepest = self.deepest.max(total.max(open));
        self.levels.truncate(1);
        self.levels[0] = NestingLevel::default();
        self.levels_beyond = 0;
        self.after_value = false;
    }

    fn finish(&mut self) -> u64 {
        self.end_statement();
        self.deepest
    }
}

/// Turns chains of AND, of OR and of equal UNIONs into shallow trees.
///
/// The parser makes a tree that leans to the left and is as deep as the chain is long, and generated statements chain
/// thousands of operands. All three operations are associative, so a balanced tree means the same. The order of the
/// operands must stay, because errors and results may depend on it.
pub(crate) fn flatten_chains(tree: &mut impl SyntaxTree) {
    let _ = tree.walk_mut(&mut Flatten);
}

struct Flatten;

impl VisitorMut for Flatten {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> std::ops::ControlFlow<()> {
        flatten_unions(&mut query.body);
        std::ops::ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> std::ops::ControlFlow<()> {
        if let Expr::BinaryOp { op: op @ (BinaryOperator::And | BinaryOperator::Or), .. } = expr {
            let op = op.clone();
            let parts = take_operands(expr, &op);
            *expr = balance(parts, &|left, right| Expr::BinaryOp {
                left: Box::new(left),
                op: op.clone(),
                right: Box::new(right),
            });
        }
        std::ops::ControlFlow::Continue(())
    }
}

/// Takes the operands of a chain of `op` that leans to the left, in order. A loop, because recursion would need as much
/// stack as the chain is long.
fn take_operands(expr: &mut Expr, op: &BinaryOperator) -> Vec<Expr> {
    // The tree owns the expression, so something must take its place while we cut it apart.
    let placeholder = Expr::value(Value::Null);
    let mut at = std::mem::replace(expr, placeholder);
    let mut reversed = Vec::new();
    loop {
        match at {
            Expr::BinaryOp { left, op: found, right } if found == *op => {
                reversed.push(*right);
                at = *left;
            }
            first => {
                reversed.push(first);
                reversed.reverse();
                return reversed;
            }
        }
    }
}

/// A placeholder while the tree is taken apart.
fn empty_body() -> SetExpr {
    SetExpr::Values(Values { explicit_row: false, value_keyword: false, rows: Vec::new() })
}

fn flatten_unions(body: &mut SetExpr) {
    let SetExpr::SetOperation { op: SetOperator::Union, set_quantifier, .. } = body else {
        return;
    };
    let quantifier = *set_quantifier;
    if matches!(quantifier, SetQuantifier::ByName | SetQuantifier::AllByName | SetQuantifier::DistinctByName) {
        // UNION BY NAME is not associative: the columns of the result grow from left to right.
        return;
    }
    let mut at = std::mem::replace(body, empty_body());
    let mut reversed = Vec::new();
    loop {
        match at {
            SetExpr::SetOperation { op: SetOperator::Union, set_quantifier, left, right }
                if set_quantifier == quantifier =>
            {
                reversed.push(*right);
                at = *left;
            }
            first => {
                reversed.push(first);
                break;
            }
        }
    }
    reversed.reverse();
    *body = balance(reversed, &|left, right| SetExpr::SetOperation {
        op: SetOperator::Union,
        set_quantifier: quantifier,
        left: Box::new(left),
        right: Box::new(right),
    });
}

/// Builds a tree over `parts`, in order, that is as shallow as possible.
fn balance<T>(mut parts: Vec<T>, join: &dyn Fn(T, T) -> T) -> T {
    // Each round joins neighbours, which halves the number of parts and adds one level.
    while parts.len() > 1 {
        let mut pairs = Vec::with_capacity(parts.len().div_ceil(2));
        let mut rest = parts.into_iter();
        while let Some(left) = rest.next() {
            pairs.push(match rest.next() {
                Some(right) => join(left, right),
                None => left,
            });
        }
        parts = pairs;
    }
    parts.pop().expect("a chain has at least one part")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use sqlparser::ast::Statement;
    use sqlparser::dialect::PostgreSqlDialect;
    use sqlparser::parser::Parser;

    use super::*;

    fn depth(sql: &str) -> u64 {
        let mut gauge = Gauge::new(1_000_000);
        lexemes(sql).filter(Lexeme::is_code).for_each(|lexeme| gauge.take(lexeme));
        gauge.finish()
    }

    #[test]
    fn the_depth_counts_the_weighted_levels_of_the_tree() {
        assert_eq!(depth("SELECT 1"), 1);
        assert_eq!(depth("SELECT 1+1+1, 2, 3"), 3);
        assert_eq!(depth("SELECT a AND b AND c OR d"), 1);
        assert_eq!(depth("SELECT NOT NOT NOT a"), 4);
        assert_eq!(depth("SELECT - - - 1"), 13);
        assert_eq!(depth("SELECT ((((1))))"), 5);
        assert_eq!(depth("SELECT (1)+1+1"), 4);
        assert_eq!(depth("SELECT 1+(1+1)"), 3);
        assert_eq!(depth("SELECT CASE WHEN a THEN CASE WHEN b THEN 1 END END"), 9);
        assert_eq!(depth("SELECT f(g(1), (2))"), 17);
        assert_eq!(depth("SELECT a IN (1)"), 2);
        assert_eq!(depth("SELECT [[1]], {'a': 1}"), 17);
        assert_eq!(depth("SELECT a[1][2][3]"), 25);
        assert_eq!(depth("SELECT map(v -> 1)"), 201);
        assert_eq!(depth("SELECT 1::int::int::int"), 4);
        assert_eq!(depth("SELECT 1 FROM a JOIN b ON a.x = b.x JOIN c ON true"), 12);
        assert_eq!(depth("SELECT 1 FROM a, b, c"), 11);
        assert_eq!(depth("WITH a AS (SELECT 1), b AS (SELECT 1) SELECT 1"), 13);
        assert_eq!(depth("SELECT (SELECT (SELECT 1))"), 9);
        assert_eq!(depth("SELECT 1 UNION SELECT 2 UNION SELECT 3"), 1);
        assert_eq!(depth("SELECT 1 UNION SELECT 2 UNION ALL SELECT 3"), 2);
        assert_eq!(depth("SELECT 1 EXCEPT SELECT 2 EXCEPT SELECT 3"), 5);
        assert_eq!(depth("SELECT 'CASE (((((' -- (((("), 1);
        assert_eq!(depth("SELECT a IS DISTINCT FROM b, c, d"), 2);
        assert_eq!(depth("SELECT a NOTNULL NOTNULL ISNULL"), 4);
        assert_eq!(depth("SELECT INTERVAL INTERVAL '1'"), 3);
        assert_eq!(depth("SELECT a.b.c x"), 2);
        assert_eq!(depth(&format!("SELECT {}", "(".repeat(500))), 500);
    }

    #[test]
    fn each_refusal_names_what_was_found_the_limit_and_the_setting() {
        let limits = StatementLimits { length_bytes: 1000, depth: 10, terms: 50 };
        let check = |sql: &str| check_statement(sql, &limits).unwrap_err();
        let error = check(&"x".repeat(1001));
        assert_eq!(error.kind(), ErrorKind::StatementTooComplex);
        assert!(error.message().contains("1001 bytes long, the limit is 1000 (statement_length_max_bytes)"), "{error}");
        let error = check(&format!("SELECT {}", "1,".repeat(60)));
        assert!(error.message().contains("61 terms, the limit is 50 (expression_terms_max)"), "{error}");
        let error = check(&format!("SELECT {}1{}", "(".repeat(20), ")".repeat(20)));
        assert!(error.message().contains("levels deep, the limit is 10 (expression_depth_max)"), "{error}");
        assert!(check_statement("SELECT 1", &limits).is_ok());
        let limits = StatementLimits::from(&Settings::default());
        let error = check_statement(&format!("SELECT 1{}", ", 1".repeat(10_000)), &limits).unwrap_err();
        assert!(error.message().contains("selects 10001 columns"), "{error}");
        assert!(check_statement(&format!("VALUES (1{})", ", 1".repeat(10_000)), &limits).is_ok());
    }

    #[test]
    fn chains_become_shallow_and_keep_their_order() {
        let chain: Vec<String> = (0..1000).map(|i| format!("a = {i}")).collect();
        let union: Vec<String> = (0..1000).map(|i| format!("SELECT {i}")).collect();
        for (sql, depth_max) in [(format!("SELECT {}", chain.join(" OR ")), 10), (union.join(" UNION ALL "), 10)] {
            let mut statements = Parser::parse_sql(&PostgreSqlDialect {}, &sql).unwrap();
            let before = statements[0].to_string();
            flatten_chains(&mut statements[0]);
            assert_eq!(before, statements[0].to_string());
            let Statement::Query(query) = &statements[0] else { panic!("a query") };
            assert!(union_depth(&query.body) <= depth_max);
        }
    }

    fn union_depth(body: &SetExpr) -> usize {
        match body {
            SetExpr::SetOperation { left, right, .. } => 1 + union_depth(left).max(union_depth(right)),
            _ => 0,
        }
    }
}
