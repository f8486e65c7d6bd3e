//! Parsing, from a text to statements: tokens, lower case, one syntax tree per statement.
//!
//! ```text
//! text -> tokens -> cut at ';' -> names in lower case, '?' numbered -> syntax tree
//! ```
//!
//! We change the tokens of a statement before the parser sees them, because the parser offers no hook that every name
//! passes through; see [`crate::names`]. Statements that the parser does not know are read from the same tokens: `COPY`
//! with our options, `PREPARE`, `EXECUTE`, `DEALLOCATE`, `CHECKPOINT`, `CHECK DATABASE`, `BACKUP`, `RESTORE`, `EXPORT`,
//! `IMPORT`, `ATTACH`, `DETACH`, `REFRESH`, `VACUUM`, those about roles and rights, and the clauses of time tables.

mod access;
mod alter_sequence;
mod alter_time_table;
mod attach;
mod comment;
mod copy;
mod database_folder;
mod insert_forms;
mod key_operators;
mod macro_statement;
mod materialized_view;
mod named_statement;
mod parameters;
mod pg_forms;
mod position;
mod precedence;
mod prepare;
mod radix_numbers;
mod sequence_options;
mod short_forms;
mod time_clauses;
mod time_table;
mod vacuum;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

use rowmill_base::{Error, ErrorKind, Result, Settings, TextPosition};
use rowmill_query::syntax_walk::{SyntaxTree, any_query};
use rowmill_txn::RefreshRule;
use sqlparser::ast;
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer, Word};

use crate::deep::{room_bytes, walk_bytes, with_room};
use crate::dialect::RowmillDialect;
use crate::error_place::placed;
use crate::guards::{StatementLimits, catch_panics, check_expansion, check_statement, flatten_chains};
use crate::names::{Spellings, lower};
use crate::statement::insert;
use crate::statement::sql_text::quoted;
use crate::statement::write::ChangeSyntax;
use crate::statement::write::changing_with::last_change;
pub(crate) use access::{AccessStatement, GrantObject, GrantedList, RightsStatement, RoleOptions};
pub(crate) use alter_sequence::{AlterSequence, AlteredSequence, SequenceChange, SequenceChanges};
pub(crate) use alter_time_table::{AlterTimeTable, TimeTableOperation};
pub(crate) use attach::{AttachStatement, DetachStatement};
pub(crate) use copy::{CopyOption, CopySource, CopyStatement, CopyValue};
pub(crate) use database_folder::ExportStatement;
use insert_forms::InsertMarks;
use key_operators::join_key_operators;
use macro_statement::parse_macro;
pub(crate) use macro_statement::{MacroStatement, MacroText};
use materialized_view::{RefreshClause, find_rule};
pub(crate) use materialized_view::{RefreshStatement, rule_text};
pub(crate) use named_statement::NamedStatement;
use named_statement::parse_named;
use parameters::{Parameters, join_named};
use position::TextCursor;
pub(crate) use prepare::call;
use prepare::{DeclaredParameters, prepare};
use radix_numbers::join_radix_numbers;
use sequence_options::sort_sequence_options;
use short_forms::replace_short_forms;
use time_clauses::replace_time_clauses;
pub(crate) use time_table::TimeClauses;
pub(crate) use vacuum::VacuumStatement;

/// The nested calls that the parser may need for one level of a statement. This is only a second line of defence: the
/// real limit is checked before the parser runs. A statement should never reach it.
const PARSER_DEPTH_PER_LEVEL: usize = 16;

/// One parsed statement with its text.
#[derive(Clone, Debug)]
pub struct Statement {
    body: Arc<StatementBody>,
    /// The most stack that walking the body takes, in bytes.
    walk_bytes: usize,
    /// The most stack that planning the statement takes, including the views and defaults that it reaches, in bytes.
    room_bytes: usize,
    text: Arc<str>,
    text_hash: u64,
    range: Range<usize>,
    /// Where it begins in the text that was parsed.
    begin: TextPosition,
    spellings: Spellings,
    parameters: usize,
    /// The names of the parameters, in the order of their numbers; empty if they have numbers only.
    parameter_names: Arc<[String]>,
    /// The place in `text` of the query of `CREATE VIEW ... AS query`.
    query: Option<Range<usize>>,
    /// What a `SELECT ... FOR UPDATE` does about locked rows. The clause is no longer in the body.
    row_lock: Option<RowLock>,
    /// Whether subqueries of a change of rows lock rows. Their clauses are in the body.
    locks_parts: bool,
    /// What only few statements have; absent if there is nothing of it. Statements are moved often, so they should be
    /// small.
    rare: Option<Arc<RareParts>>,
}

/// Parts that only few statements have.
#[derive(Clone, Debug, Default)]
struct RareParts {
    /// The clauses of a time table of a `CREATE TABLE`. They are not in the body.
    time_clauses: Option<TimeClauses>,
    /// The REFRESH clause of a `CREATE MATERIALIZED VIEW`. It is not in the body.
    refresh_rule: Option<RefreshRule>,
    /// The parameters that have a type of PostgreSQL's catalog.
    declared_parameters: DeclaredParameters,
    /// The words of an `INSERT` that are not in the body.
    insert_marks: InsertMarks,
}

impl RareParts {
    fn shared(self) -> Option<Arc<RareParts>> {
        let is_empty = self.time_clauses.is_none()
            && self.refresh_rule.is_none()
            && self.declared_parameters.is_empty()
            && !self.insert_marks.by_name
            && !self.insert_marks.overrides;
        (!is_empty).then(|| Arc::new(self))
    }
}

/// The parsed content of a statement.
#[derive(Clone, Debug)]
pub(crate) enum StatementBody {
    /// Every statement that the parser itself reads, names in lower case.
    Sql(Box<ast::Statement>),
    /// `COPY table FROM 'file'` and `COPY table TO 'file'`
    Copy(Box<CopyStatement>),
    /// `EXPLAIN COPY table FROM 'file'`
    ExplainCopy(Box<CopyStatement>),
    /// `CHECKPOINT`
    Checkpoint,
    /// `CHECK DATABASE`
    CheckDatabase,
    /// `ALTER TABLE` with an operation on a time table
    AlterTimeTable(Box<AlterTimeTable>),
    /// `ALTER SEQUENCE`, and `ALTER TABLE` with an operation on the sequence of a column
    AlterSequence(Box<AlterSequence>),
    /// `BACKUP DATABASE TO 'folder'`
    Backup { to: String },
    /// `RESTORE DATABASE FROM 'folder' TO 'folder'`
    Restore { from: String, to: String },
    /// `EXPORT DATABASE 'folder'`
    Export(Box<ExportStatement>),
    /// `IMPORT DATABASE 'folder'`
    Import { from: String },
    /// `ATTACH 'path' AS name`
    Attach(Box<AttachStatement>),
    /// `DETACH name`
    Detach(DetachStatement),
    /// `REFRESH MATERIALIZED VIEW name`
    Refresh(Box<RefreshStatement>),
    /// `VACUUM [ANALYZE] [table, ...]`
    Vacuum(Box<VacuumStatement>),
    /// `PREPARE name AS statement`
    Prepare(Box<NamedStatement>),
    /// `EXECUTE name (values)`
    Execute(Box<NamedStatement>),
    /// `DEALLOCATE name`
    Deallocate(Box<NamedStatement>),
    /// `CREATE MACRO` and `DROP MACRO`
    Macro(Box<MacroStatement>),
    /// Statements about roles and rights
    Access(Box<AccessStatement>),
}

impl Statement {
    /// The text of the statement, without the semicolon.
    #[inline]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the text of the statement without the semicolon, as a shared string.
    #[inline]
    pub(crate) fn shared_text(&self) -> &Arc<str> {
        &self.text
    }

    /// Returns the byte range of the statement in the text that was parsed.
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// Adds a place in the text to an error of this statement that has none.
    pub(crate) fn placed(&self, error: Error) -> Error {
        placed(error, &self.text, self.begin)
    }

    /// Adds a place to an error of this statement that comes later, with its rows.
    pub(crate) fn placer(&self) -> impl Fn(Error) -> Error + Send + 'static {
        let (text, begin) = (Arc::clone(&self.text), self.begin);
        move |error| placed(error, &text, begin)
    }

    /// Returns the hash of the text. Within one process, equal texts have equal hashes.
    #[inline]
    pub(crate) fn text_hash(&self) -> u64 {
        self.text_hash
    }

    /// Returns the number of parameters (`$1`, `?1`, `?`, `:name` or `$name`) that the statement takes.
    #[inline]
    pub fn parameter_count(&self) -> usize {
        self.parameters
    }

    /// Returns the names of the parameters `:name` or `$name`, in the order of their numbers. Empty if the parameters
    /// are written in another way.
    pub fn parameter_names(&self) -> &[String] {
        &self.parameter_names
    }

    /// Whether the statement is a query or a change of rows. Such statements are run repeatedly and may have a program.
    #[inline]
    pub(crate) fn is_repeated(&self) -> bool {
        match &*self.body {
            StatementBody::Sql(sql) => matches!(**sql, ast::Statement::Query(_)) || ChangeSyntax::of(sql).is_some(),
            _ => false,
        }
    }

    /// What the statement does about locked rows if it is a `SELECT ... FOR UPDATE`.
    pub(crate) fn row_lock(&self) -> Option<RowLock> {
        self.row_lock
    }

    /// Whether the statement changes rows, and has subqueries with `FOR UPDATE`.
    pub(crate) fn locks_parts(&self) -> bool {
        self.locks_parts
    }

    /// The clauses of a time table, of a `CREATE TABLE` that has them.
    pub(crate) fn time_clauses(&self) -> Option<&TimeClauses> {
        self.rare.as_ref()?.time_clauses.as_ref()
    }

    /// The parameters that have a type of PostgreSQL's catalog.
    pub(crate) fn declared_parameters(&self) -> &[(usize, &'static str)] {
        self.rare.as_ref().map_or(&[], |rare| rare.declared_parameters.as_slice())
    }

    /// Whether the statement is an `INSERT ... BY NAME`.
    pub(crate) fn inserts_by_name(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.insert_marks.by_name)
    }

    /// Whether the statement is an `INSERT ... OVERRIDING SYSTEM VALUE`.
    pub(crate) fn overrides_generated(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.insert_marks.overrides)
    }

    /// When the view of a `CREATE MATERIALIZED VIEW` is refreshed, if the statement says so.
    pub(crate) fn refresh_rule(&self) -> Option<RefreshRule> {
        self.rare.as_ref()?.refresh_rule
    }

    pub(crate) fn body(&self) -> &StatementBody {
        &self.body
    }

    /// Returns this statement with another body.
    pub(crate) fn with_body(&self, body: StatementBody) -> Statement {
        let mut statement = self.clone();
        statement.body = Arc::new(body);
        statement
    }

    /// Returns the stack that the statement takes if something is planned, in bytes.
    pub(crate) fn room_bytes(&self) -> usize {
        self.room_bytes
    }

    /// Returns the stack to start the statement with, in bytes. Some statements need no planning, so less is enough for
    /// them.
    pub(crate) fn room_bytes_at_first(&self) -> usize {
        match &*self.body {
            StatementBody::Sql(sql) if is_unplanned(sql) => self.walk_bytes,
            _ => self.room_bytes,
        }
    }

    /// Returns the spelling of a name of this statement.
    pub(crate) fn spell<'a>(&'a self, ident: &'a ast::Ident) -> &'a str {
        self.spellings.of(ident)
    }

    pub(crate) fn spellings(&self) -> &Spellings {
        &self.spellings
    }

    /// Returns the text of the statement with schemas written before the names at these places.
    pub(crate) fn text_with(&self, schemas: &[(Location, String)]) -> String {
        let mut places: Vec<(usize, &str)> =
            schemas.iter().filter_map(|(place, schema)| Some((self.offset_of(*place)?, schema.as_str()))).collect();
        places.sort_unstable();
        places.dedup();
        let mut text = self.text.to_string();
        for (at, schema) in places.into_iter().rev() {
            text.insert_str(at, &format!("{}.", quoted(schema)));
        }
        text
    }

    /// Returns the offset in the statement's text of a place in the text that was parsed.
    fn offset_of(&self, place: Location) -> Option<usize> {
        let line = place.line.checked_sub(self.begin.line)?;
        let column = if line == 0 { place.column.checked_sub(self.begin.column)? } else { place.column - 1 };
        let start = match line {
            0 => 0,
            line => self.text.match_indices('\n').nth(line as usize - 1)?.0 + 1,
        };
        let chars = self.text[start..].char_indices().map(|(at, _)| at);
        Some(start + chars.take(column as usize + 1).last()?)
    }

    /// Returns the text of the query of a `CREATE VIEW`.
    pub(crate) fn query_text(&self) -> Option<&str> {
        self.query.clone().map(|place| self.text[place].trim())
    }
}

/// Whether a statement runs without a plan, unless it must compute values.
fn is_unplanned(sql: &ast::Statement) -> bool {
    match sql {
        ast::Statement::Insert(insert) => {
            insert.on.is_none() && insert.or.is_none() && insert.returning.is_none() && insert::is_of_values(insert)
        }
        ast::Statement::StartTransaction { .. } | ast::Statement::Commit { .. } | ast::Statement::Rollback { .. } => {
            true
        }
        _ => false,
    }
}

impl Drop for Statement {
    fn drop(&mut self) {
        // Dropping a deep tree recurses, so it needs the large stack too. `Checkpoint` is only a placeholder.
        let body = std::mem::replace(&mut self.body, Arc::new(StatementBody::Checkpoint));
        with_room(self.walk_bytes, || drop(body));
    }
}

/// Parses `sql` into its statements. Refuses it if it exceeds the limits of `settings`.
pub(crate) fn parse(sql: &str, settings: &Settings) -> Result<Vec<Statement>> {
    // The limits must be checked before any recursion, and the stack sized by the levels that were found.
    let levels = check_statement(sql, &StatementLimits::from(settings))?;
    with_room(room_bytes(levels, settings), || catch_panics(|| parse_here(sql, levels, settings)))
}

fn parse_here(sql: &str, levels: u64, settings: &Settings) -> Result<Vec<Statement>> {
    let dialect = RowmillDialect::new(false, 0);
    let mut tokens = Tokenizer::new(&dialect, sql)
        .tokenize_with_location()
        .map_err(|error| syntax_error(sql, &error.message, Some(error.location)))?;
    join_slashes(&mut tokens);
    let mut cursor = TextCursor::new(sql);
    tokens
        .split(|token| token.token == Token::SemiColon)
        .filter_map(|tokens| StatementTokens::new(tokens, &mut cursor))
        .map(|section| {
            let section = section.map_err(|error| placed(error, sql, TextPosition { line: 1, column: 1 }))?;
            let (range, begin) = (section.range.clone(), position_of(section.tokens[0].span.start));
            section.parse(sql, levels, settings).map_err(|error| placed(error, &sql[range], begin))
        })
        .collect()
}

/// Makes one token of `//`, the division of whole numbers.
fn join_slashes(tokens: &mut Vec<TokenWithSpan>) {
    let is_slash = |token: &TokenWithSpan| token.token == Token::Div;
    let is_pair = |pair: &[TokenWithSpan]| pair.iter().all(is_slash) && pair[0].span.end == pair[1].span.start;
    if !tokens.windows(2).any(is_pair) {
        return;
    }
    let mut at = 0;
    while at + 1 < tokens.len() {
        if is_pair(&tokens[at..at + 2]) {
            let second = tokens.remove(at + 1);
            tokens[at].token = Token::DuckIntDiv;
            tokens[at].span.end = second.span.end;
        }
        at += 1;
    }
}

/// Refuses a number with a word directly after it, for example `SELECT 1h`. The parser would read the word as an alias.
fn refuse_glued(sql: &str, tokens: &[TokenWithSpan]) -> Result<()> {
    let glued = tokens.windows(2).find(|pair| {
        matches!((&pair[0].token, &pair[1].token), (Token::Number(..), Token::Word(word)) if word.quote_style.is_none())
    });
    match glued {
        Some([number, word]) => {
            let message = format!("{}{} is neither a number nor a name", number.token, word.token);
            Err(syntax_error(sql, &message, Some(number.span.start)))
        }
        _ => Ok(()),
    }
}

/// The tokens between two semicolons.
struct StatementTokens<'t> {
    tokens: &'t [TokenWithSpan],
    range: Range<usize>,
    query: Option<Range<usize>>,
    refresh: Option<RefreshClause>,
}

impl<'t> StatementTokens<'t> {
    /// Returns the tokens without white space at both ends, or `None` if there are no others.
    fn new(tokens: &'t [TokenWithSpan], cursor: &mut TextCursor<'_>) -> Option<Result<Self>> {
        let first = tokens.iter().position(is_text)?;
        let last = tokens.iter().rposition(is_text)?;
        let tokens = &tokens[first..=last];
        let start = cursor.offset(tokens[0].span.start);
        let refresh = match find_rule(tokens) {
            Ok(refresh) => refresh,
            Err(error) => return Some(Err(error)),
        };
        let query_start = view_query(tokens).map(|token| cursor.offset(token.span.start) - start);
        // A clause at the end of the statement is no part of the query.
        let clause = refresh.as_ref().map(|clause| &clause.tokens).filter(|clause| clause.end == tokens.len());
        let query_end = clause.map(|clause| cursor.offset(tokens[clause.start].span.start) - start);
        let end = cursor.offset(tokens[tokens.len() - 1].span.end);
        let query = query_start.map(|query| query..query_end.unwrap_or(end - start));
        Some(Ok(StatementTokens { tokens, range: start..end, query, refresh }))
    }

    fn parse(self, sql: &str, levels: u64, settings: &Settings) -> Result<Statement> {
        let mut spellings = Spellings::default();
        let mut parameters = Parameters::default();
        let mut own_body = parse_named(sql, self.tokens)?.map(body_of);
        if own_body.is_none() {
            own_body = parse_macro(sql, self.tokens)?.map(|text| StatementBody::Macro(Box::new(text)));
        }
        // The texts of PREPARE and of macros have parameters of their own, so their tokens are not read here.
        let keeps_text = matches!(own_body, Some(StatementBody::Prepare(_) | StatementBody::Macro(_)));
        let own = if keeps_text { 1 } else { self.tokens.len() };
        let mut tokens = self.tokens[..own].to_vec();
        let depth_max = PARSER_DEPTH_PER_LEVEL * settings.number("expression_depth_max") as usize;
        if let Some(clause) = &self.refresh {
            tokens.drain(clause.tokens.clone());
        }
        join_named(&mut tokens);
        join_radix_numbers(sql, &mut tokens)?;
        join_key_operators(&mut tokens);
        // This must come before names are lowered, because `1m` and `1M` differ.
        let end = tokens.last().map_or_else(Location::empty, |token| token.span.end);
        replace_short_forms(sql, &mut tokens)?;
        sort_sequence_options(sql, &mut tokens)?;
        replace_time_clauses(sql, &mut tokens, depth_max)?;
        refuse_glued(sql, &tokens)?;
        for token in &mut tokens {
            lower_name(token, &mut spellings);
            parameters.number(token)?;
        }
        let insert_marks = insert_forms::rewrite(&mut tokens);
        // Names are lowered and parameters numbered by now; nothing after this sees the original tokens.
        let clauses = RowmillDialect::new(names_struct_type(&tokens), tokens.len());
        let time_clauses =
            time_table::take_clauses(&clauses, &mut tokens).map_err(|error| parser_error(sql, error, end))?;
        let mut body = match own_body {
            Some(body) => body,
            None => {
                // It remembers places of tokens, so it must not be that of the clauses that were taken out.
                let dialect = RowmillDialect::new(names_struct_type(&tokens), tokens.len());
                let parser = Parser::new(&dialect).with_recursion_limit(depth_max);
                parse_body(&mut parser.with_tokens_with_locations(tokens)).map_err(|error| match error {
                    ParserError::RecursionLimitExceeded if dialect.gave_up() => too_many_readings(),
                    error => parser_error(sql, error, end),
                })?
            }
        };
        // This must come before `settle`, which refuses every lock clause that is still there.
        let row_lock = take_lock(&mut body);
        let mut locks_parts = false;
        let mut declared = DeclaredParameters::new();
        match &mut body {
            StatementBody::Sql(statement) => {
                let changes_rows = ChangeSyntax::of(statement).is_some() || last_change(statement).is_some();
                declared = settle(&mut **statement, settings, changes_rows)?;
                locks_parts = changes_rows && any_query(&**statement, |query| !query.locks.is_empty());
            }
            StatementBody::Copy(copy) | StatementBody::ExplainCopy(copy) => {
                if let CopySource::Query(query) = &mut copy.source {
                    drop(settle(&mut **query, settings, false)?);
                }
            }
            StatementBody::AlterTimeTable(alter) => {
                if let TimeTableOperation::DropPartitionsWhere(condition) = &mut alter.operation {
                    drop(settle(&mut **condition, settings, false)?);
                }
            }
            StatementBody::AlterSequence(_)
            | StatementBody::Checkpoint
            | StatementBody::CheckDatabase
            | StatementBody::Backup { .. }
            | StatementBody::Restore { .. }
            | StatementBody::Export(_)
            | StatementBody::Import { .. }
            | StatementBody::Attach(_)
            | StatementBody::Detach(_)
            | StatementBody::Refresh(_)
            | StatementBody::Vacuum(_)
            | StatementBody::Prepare(_)
            | StatementBody::Execute(_)
            | StatementBody::Deallocate(_)
            | StatementBody::Macro(_)
            | StatementBody::Access(_) => {}
        }
        let text: Arc<str> = sql[self.range.clone()].into();
        let refresh_rule = self.refresh.map(|clause| clause.rule);
        let rare = RareParts { time_clauses, refresh_rule, declared_parameters: declared, insert_marks };
        Ok(Statement {
            body: Arc::new(body),
            walk_bytes: walk_bytes(levels),
            room_bytes: room_bytes(levels, settings),
            text_hash: hash_of(&text),
            text,
            range: self.range,
            begin: position_of(self.tokens[0].span.start),
            spellings,
            parameters: parameters.count()?,
            parameter_names: parameters.into_names(),
            query: self.query,
            row_lock,
            locks_parts,
            rare: rare.shared(),
        })
    }
}

/// What a query does about the rows that other transactions have locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowLock {
    /// It waits for them if its transaction waits for rows.
    Wait,
    /// It fails: `NOWAIT`.
    Refuse,
    /// It leaves them out: `SKIP LOCKED`.
    Skip,
}

impl RowLock {
    /// Reads the lock clause of a query of one table, whose rows can be locked one by one.
    pub(crate) fn of(query: &ast::Query) -> Option<RowLock> {
        let [ast::LockClause { lock_type: _, of, nonblock }] = &*query.locks else { return None };
        let ast::SetExpr::Select(select) = &*query.body else { return None };
        let ast::GroupByExpr::Expressions(keys, _) = &select.group_by else { return None };
        // Only a plain SELECT of one table returns rows that can be locked one by one.
        let is_plain = keys.is_empty() && select.distinct.is_none() && select.having.is_none() && query.with.is_none();
        let [ast::TableWithJoins { relation: ast::TableFactor::Table { name, alias, .. }, joins }] = &*select.from
        else {
            return None;
        };
        let own = match alias {
            Some(alias) => Some(&alias.name),
            None => name.0.last().and_then(|part| part.as_ident()),
        };
        let names_own = |of: &ast::ObjectName| match &of.0[..] {
            [part] => part.as_ident().map(|name| &name.value) == own.map(|name| &name.value),
            _ => false,
        };
        if !is_plain || !joins.is_empty() || !of.as_ref().is_none_or(names_own) {
            return None;
        }
        Some(match nonblock {
            None => RowLock::Wait,
            Some(ast::NonBlock::Nowait) => RowLock::Refuse,
            Some(ast::NonBlock::SkipLocked) => RowLock::Skip,
        })
    }
}

/// Takes `FOR UPDATE` or `FOR SHARE` out of the tree of a query of one table. Any other lock clause stays in the tree,
/// and `prepare` refuses it unless it is that of a subquery in a change of rows.
fn take_lock(body: &mut StatementBody) -> Option<RowLock> {
    let StatementBody::Sql(statement) = body else { return None };
    let ast::Statement::Query(query) = &mut **statement else { return None };
    let lock = RowLock::of(query)?;
    query.locks.clear();
    Some(lock)
}

/// Returns the hash of a text, the value of [`Statement::text_hash`].
pub(crate) fn hash_of(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// Prepares a statement or query. This must happen before any other code reads the tree. Subqueries may lock rows if
/// the statement changes rows.
fn settle(tree: &mut impl SyntaxTree, settings: &Settings, changes_rows: bool) -> Result<DeclaredParameters> {
    // Chains are flattened before the expansion check, because that check recurses over the tree.
    let declared = prepare(tree, changes_rows)?;
    flatten_chains(tree);
    check_expansion(tree, &StatementLimits::from(settings))?;
    Ok(declared)
}

fn parse_body(parser: &mut Parser<'_>) -> Result<StatementBody, ParserError> {
    let body = match &parser.peek_token_ref().token {
        Token::Word(word) if word.keyword == Keyword::COPY => StatementBody::Copy(Box::new(copy::parse_copy(parser)?)),
        Token::Word(word) if word.keyword == Keyword::EXPLAIN && is_copy(&parser.peek_nth_token_ref(1).token) => {
            parser.next_token();
            StatementBody::ExplainCopy(Box::new(copy::parse_copy(parser)?))
        }
        Token::Word(word) if is_word(word, "checkpoint") => {
            parser.next_token();
            StatementBody::Checkpoint
        }
        Token::Word(word) if word.keyword == Keyword::CHECK => {
            parser.next_token();
            parser.expect_keyword_is(Keyword::DATABASE)?;
            StatementBody::CheckDatabase
        }
        Token::Word(word) if is_word(word, "backup") => {
            parser.next_token();
            parser.expect_keyword_is(Keyword::DATABASE)?;
            parser.expect_keyword_is(Keyword::TO)?;
            StatementBody::Backup { to: parser.parse_literal_string()? }
        }
        Token::Word(word) if is_word(word, "restore") => {
            parser.next_token();
            parser.expect_keyword_is(Keyword::DATABASE)?;
            parser.expect_keyword_is(Keyword::FROM)?;
            let from = parser.parse_literal_string()?;
            parser.expect_keyword_is(Keyword::TO)?;
            StatementBody::Restore { from, to: parser.parse_literal_string()? }
        }
        Token::Word(word) if is_word(word, "vacuum") => {
            parser.next_token();
            StatementBody::Vacuum(Box::new(vacuum::parse_vacuum(parser)?))
        }
        Token::Word(word) if is_word(word, "export") => {
            parser.next_token();
            StatementBody::Export(Box::new(database_folder::parse_export(parser)?))
        }
        Token::Word(word) if is_word(word, "import") => {
            parser.next_token();
            StatementBody::Import { from: database_folder::parse_import(parser)? }
        }
        Token::Word(word) if is_word(word, "attach") => {
            parser.next_token();
            StatementBody::Attach(Box::new(attach::parse_attach(parser)?))
        }
        Token::Word(word) if is_word(word, "detach") => {
            parser.next_token();
            StatementBody::Detach(attach::parse_detach(parser)?)
        }
        Token::Word(word) if is_word(word, "refresh") => {
            StatementBody::Refresh(Box::new(materialized_view::parse_refresh(parser)?))
        }
        _ => {
            if let Some(alter) = alter_time_table::parse_alter(parser)? {
                StatementBody::AlterTimeTable(Box::new(alter))
            } else if let Some(statement) = access::parse_access(parser)? {
                StatementBody::Access(Box::new(statement))
            } else if let Some(alter) = alter_sequence::parse_alter_sequence(parser)? {
                StatementBody::AlterSequence(Box::new(alter))
            } else if let Some(statement) = comment::parse_comment(parser)? {
                StatementBody::Sql(Box::new(statement))
            } else {
                StatementBody::Sql(Box::new(parser.parse_statement()?))
            }
        }
    };
    match parser.peek_token_ref().token {
        Token::EOF => Ok(body),
        _ => parser.expected_ref("end of statement", parser.peek_token_ref()),
    }
}

fn body_of(named: NamedStatement) -> StatementBody {
    let named = Box::new(named);
    match &*named {
        NamedStatement::Prepare { .. } => StatementBody::Prepare(named),
        NamedStatement::Execute { .. } => StatementBody::Execute(named),
        NamedStatement::Deallocate { .. } => StatementBody::Deallocate(named),
    }
}

/// The type of a generated column that the statement gives no type. The column has the type of its expression.
pub(crate) const UNTYPED: &str = "type of expression";

/// Whether `word` is the unquoted word `wanted`, which begins a statement that the parser does not know.
fn is_word(word: &Word, wanted: &str) -> bool {
    word.quote_style.is_none() && word.value == wanted
}

fn is_copy(token: &Token) -> bool {
    matches!(token, Token::Word(word) if word.keyword == Keyword::COPY)
}

fn is_text(token: &TokenWithSpan) -> bool {
    !matches!(token.token, Token::Whitespace(_) | Token::EOF)
}

/// Returns the first token of the query of `CREATE [OR REPLACE] [TEMP] VIEW ... AS query`.
fn view_query(tokens: &[TokenWithSpan]) -> Option<&TokenWithSpan> {
    let mut text = tokens.iter().filter(|token| is_text(token));
    let is_keyword =
        |token: &TokenWithSpan, wanted| matches!(&token.token, Token::Word(word) if word.keyword == wanted);
    // CREATE may be followed by OR, REPLACE and TEMP, so VIEW must be one of the next four words.
    is_keyword(text.next()?, Keyword::CREATE).then_some(())?;
    text.by_ref().take(4).find(|token| is_keyword(token, Keyword::VIEW))?;
    text.by_ref().find(|token| is_keyword(token, Keyword::AS))?;
    text.next()
}

/// Whether the tokens contain `STRUCT (`, which begins a struct type.
fn names_struct_type(tokens: &[TokenWithSpan]) -> bool {
    let mut text = tokens.iter().filter(|token| is_text(token)).map(|token| &token.token).peekable();
    while let Some(token) = text.next() {
        if matches!(token, Token::Word(word) if word.keyword == Keyword::STRUCT) && text.peek() == Some(&&Token::LParen)
        {
            return true;
        }
    }
    false
}

/// Lowers a name and keeps its spelling.
fn lower_name(token: &mut TokenWithSpan, spellings: &mut Spellings) {
    if let Token::Word(word) = &mut token.token {
        let lowered = lower(&word.value);
        if lowered != word.value {
            spellings.insert(token.span.start, &word.value);
            word.value = lowered;
        }
    }
}

/// Converts the parser's error to ours, with the place of the error and an excerpt of the user's text. `end` is the end
/// of the statement.
fn parser_error(sql: &str, error: ParserError, end: Location) -> Error {
    match error {
        ParserError::TokenizerError(message) | ParserError::ParserError(message) => {
            let (message, place) = position::split_place(&message);
            // The parser gives no place to the end of the statement.
            let at_end = message.ends_with("found: EOF").then_some(end);
            syntax_error(sql, message, place.or(at_end))
        }
        ParserError::RecursionLimitExceeded => {
            Error::new(ErrorKind::StatementTooComplex, "the statement is nested deeper than the limit")
                .hint("raise it with SET expression_depth_max = ...")
        }
    }
}

fn position_of(place: Location) -> TextPosition {
    TextPosition { line: place.line, column: place.column }
}

/// Returns a sentence as it goes on after a colon. Words in capital letters stay.
fn with_small_letter(sentence: &str) -> String {
    let mut chars = sentence.chars();
    match (chars.next(), chars.clone().next()) {
        (Some(first), Some(second)) if second.is_lowercase() => first.to_lowercase().chain(chars).collect(),
        _ => sentence.to_owned(),
    }
}

fn too_many_readings() -> Error {
    Error::new(ErrorKind::StatementTooComplex, "the statement's parentheses can be read in too many ways")
        .hint("there may be a syntax error in the innermost of them; otherwise nest them less")
}

fn syntax_error(sql: &str, message: &str, place: Option<Location>) -> Error {
    let what = message.trim().trim_end_matches('.').replace("Expected: ", "expected ").replace("EOF", "the end");
    let what = with_small_letter(&what);
    let Some(place) = place.filter(|place| place.line > 0) else {
        return Error::new(ErrorKind::Syntax, format!("syntax error: {what}"));
    };
    // "found: x" repeats the token in lower case. We cut it off, because the excerpt shows the token as written.
    let what = what.split(", found:").next().unwrap_or(&what);
    // What follows the end belongs to the next statement.
    let near = if message.ends_with("found: EOF") { "" } else { position::excerpt(sql, place) };
    let position = position_of(place);
    let place = format!("line {}, column {}", place.line, place.column);
    let message = match near {
        "" => format!("syntax error at the end ({place}): {what}"),
        near => format!("syntax error at {place}, near \"{near}\": {what}"),
    };
    Error::new(ErrorKind::Syntax, message).at_position(position)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn statements(sql: &str) -> Vec<Statement> {
        parse(sql, &Settings::default()).unwrap()
    }

    fn error(sql: &str) -> Error {
        parse(sql, &Settings::default()).unwrap_err()
    }

    #[test]
    fn statements_keep_their_text_and_place() {
        let sql = " SELECT 'é;';;\n-- nothing; here\nselect 2 ; ";
        let all = statements(sql);
        assert_eq!(all.len(), 2);
        assert_eq!(all[0].text(), "SELECT 'é;'");
        assert_eq!(all[1].text(), "select 2");
        for statement in &all {
            assert_eq!(&sql[statement.range()], statement.text());
        }
        assert!(statements(" ; -- x\n;").is_empty());
    }

    #[test]
    fn names_are_lowered_and_their_spelling_is_kept() {
        let all = statements("SELECT \"UserID\", Länge AS Größe FROM Hits");
        let StatementBody::Sql(statement) = all[0].body() else { panic!("a query") };
        assert_eq!(statement.to_string(), "SELECT \"userid\", länge AS größe FROM hits");
        let ast::Statement::Query(query) = &**statement else { panic!("a query") };
        let ast::SetExpr::Select(select) = &*query.body else { panic!("a select") };
        let ast::SelectItem::ExprWithAlias { alias, .. } = &select.projection[1] else { panic!("an alias") };
        assert_eq!(all[0].spell(alias), "Größe");
    }

    #[test]
    fn all_forms_of_parameters_are_counted_but_not_mixed() {
        assert_eq!(statements("SELECT ?, ?")[0].parameter_count(), 2);
        assert_eq!(statements("SELECT $2")[0].parameter_count(), 2);
        assert_eq!(statements("SELECT ?2, ?1, $1")[0].parameter_count(), 2);
        assert_eq!(error("SELECT ?1, ?").kind(), ErrorKind::Syntax);
        assert_eq!(error("SELECT ?0").kind(), ErrorKind::Syntax);
        assert_eq!(error("SELECT ?, $1").kind(), ErrorKind::Syntax);
        assert_eq!(error("SELECT $0").kind(), ErrorKind::Syntax);
    }

    #[test]
    fn the_query_of_a_view_is_kept_as_text() {
        let all = statements("CREATE OR REPLACE VIEW v (A) AS\n SELECT COUNT(*) AS PageViews FROM t;");
        assert_eq!(all[0].query_text(), Some("SELECT COUNT(*) AS PageViews FROM t"));
        assert_eq!(statements("SELECT 1 AS view")[0].query_text(), None);
    }

    #[test]
    fn a_syntax_error_shows_its_place_and_an_excerpt() {
        let error = error("SELECT a\nFROM Hits WHEER b = 1 AND");
        assert_eq!(error.kind(), ErrorKind::Syntax);
        assert!(error.message().contains("line 2"), "{error}");
        assert!(error.message().contains("near \"b = 1"), "{error}");
    }

    #[test]
    fn files_and_struct_types_are_read() {
        statements("SELECT * FROM 'Some Dir/*.parquet' AS t");
        statements("CREATE TABLE t (a STRUCT(b INT, c TEXT[]), d INTEGER[])");
        statements("SELECT E'a\\n', $tag$x$tag$, 1_000, {'a': 1}, [1, 2], a -> 1");
    }
}
