//! The statements that a connection has run, cached by their text.
//!
//! ```text
//! text as it was written ─┐
//!                         ├─> statement: its syntax tree
//! text of the statement ──┘              its programs, one for each list of types that its parameters are given
//!                                        its plans for the engine, likewise
//! ```
//!
//! A text as written may have comments and white space around the statement. It finds the syntax tree only if the tree
//! was parsed from exactly this text, because a tree refers to places in its text.
//!
//! Programs and plans name tables by id, so they are valid for every snapshot with the same catalog. We drop them when
//! the catalog changes, and drop everything when a setting changes. We never keep a plan that contains a value of its
//! moment, for example `now()`.
//!
//! A program is found by its place, because the caller needs the rest of the session while the program runs. A place is
//! valid only until the cache is asked about another statement.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use arrow::datatypes::DataType;
use rowmill_query::PhysicalQuery;

use crate::engine_query::PlannedQuery;
use crate::param::Param;
use crate::parse::{Statement, hash_of};
use crate::program::{CompiledStatement, ParameterKind};
use crate::statement::append::AppendPlan;

/// The most statements that are kept. When the cache is full we drop all of them, because tracking their order of use
/// would cost more. A connection should rarely run more different statements.
const STATEMENTS_MAX: usize = 1024;
/// The most texts that lead to statements.
const TEXTS_MAX: usize = 2 * STATEMENTS_MAX;
/// The most programs, and plans, of one statement. Those for further lists of types replace earlier ones.
const KINDS_MAX: usize = 8;
/// The longest text that is kept, in bytes, unless it was prepared.
pub(crate) const TEXT_BYTES_MAX: usize = 1 << 14;

/// The part of a query's plan that later runs can use.
#[derive(Clone, Debug)]
pub(crate) enum CachedPlan {
    /// The operators of a query without parameters.
    Physical(Arc<PhysicalQuery>),
    /// The optimized plan of a query with parameters. Its operators are chosen in each run, because they depend on the
    /// values.
    Planned(Arc<PlannedQuery>),
}

/// The cached statements of one connection. [`IdleStatements`](crate::idle_statements::IdleStatements) keeps those of
/// closed ones.
#[derive(Default)]
pub(crate) struct StatementCache {
    /// The index in `statements` for the hash of each text: texts of statements, and texts as written.
    places: HashMap<u64, usize, BuildHasherDefault<IsHashed>>,
    statements: Vec<KnownStatement>,
    /// The versions that all programs and plans were made for.
    made_for: MadeFor,
}

/// The versions that programs and plans depend on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MadeFor {
    /// The version of the catalog.
    pub(crate) catalog: u64,
    /// The version of the settings.
    pub(crate) settings: u64,
}

/// One statement with its programs and plans.
struct KnownStatement {
    /// Its text, without surrounding comments and white space.
    text: Arc<str>,
    written: Option<WrittenText>,
    /// How often it ran before it was compiled.
    runs: u32,
    programs: Vec<KnownProgram>,
    plans: Vec<(Vec<DataType>, CachedPlan)>,
    /// How its row is added to an open transaction, or the fact that it is not such an INSERT.
    row_plan: Option<Option<Arc<AppendPlan>>>,
}

/// A text as written, without semicolons and white space at its end.
struct WrittenText {
    text: Box<str>,
    parsed: ParsedText,
}

/// The result of parsing a text.
#[derive(Clone)]
pub(crate) enum ParsedText {
    /// One statement.
    Statement(Statement),
    /// No statement, or several.
    Other,
}

/// A program for parameters of some types, or the fact that none exists.
struct KnownProgram {
    kinds: Box<[ParameterKind]>,
    program: Option<CompiledStatement>,
}

/// The ways in which a statement can run for parameters of some types.
pub(crate) enum KnownRun {
    /// It has a program.
    Program(ProgramPlace),
    /// It has none.
    NoProgram,
    /// It has not been compiled yet.
    Uncompiled {
        /// How often it has run, including this time.
        runs: u32,
    },
}

/// The place of a program in the cache.
#[derive(Clone, Copy)]
pub(crate) struct ProgramPlace {
    statement: usize,
    program: usize,
}

impl StatementCache {
    /// The version of the settings that the statements were made for.
    pub(crate) fn settings_version(&self) -> u64 {
        self.made_for.settings
    }

    /// Gives the settings that the statements were made for the version that another connection has for them.
    pub(crate) fn set_settings_version(&mut self, version: u64) {
        self.made_for.settings = version;
    }

    /// Returns the result of parsing `sql` if it was parsed under the same settings.
    #[inline]
    pub(crate) fn parsed(&mut self, sql: &str, settings: u64) -> Option<ParsedText> {
        let text = without_end(sql);
        if text.len() > TEXT_BYTES_MAX {
            return None;
        }
        self.renew_settings(settings);
        let known = &self.statements[*self.places.get(&hash_of(text))?];
        // Different texts can have the same hash, so the text itself decides.
        known.written.as_ref().filter(|written| *written.text == *text).map(|written| written.parsed.clone())
    }

    /// Keeps `statement`, the only statement of `sql`.
    pub(crate) fn keep_statement(&mut self, sql: &str, statement: &Statement) {
        let text = without_end(sql);
        if text.len() <= TEXT_BYTES_MAX {
            self.make_room();
            let at = self.at(statement.text_hash(), statement.shared_text());
            let parsed = ParsedText::Statement(statement.clone());
            self.statements[at].written = Some(WrittenText { text: text.into(), parsed });
            self.places.insert(hash_of(text), at);
        }
    }

    /// Remembers that `sql` is not one statement.
    pub(crate) fn keep_other(&mut self, sql: &str) {
        let text = without_end(sql);
        let at = self.at(hash_of(text), &text.into());
        self.statements[at].written = Some(WrittenText { text: text.into(), parsed: ParsedText::Other });
    }

    /// Returns how a statement can run with `parameters`, and counts this run.
    #[inline]
    pub(crate) fn known_run(&mut self, statement: &Statement, parameters: &[Param<'_>], made_for: MadeFor) -> KnownRun {
        self.renew(made_for);
        let statement = self.at(statement.text_hash(), statement.shared_text());
        let known = &mut self.statements[statement];
        match known.programs.iter().position(|made| made.fits(parameters)) {
            Some(program) if known.programs[program].program.is_some() => {
                KnownRun::Program(ProgramPlace { statement, program })
            }
            Some(_) => KnownRun::NoProgram,
            // If there is no program for some types, trying others each time would cost more than it saves.
            None if known.programs.len() >= KINDS_MAX && known.programs.iter().any(KnownProgram::is_none) => {
                KnownRun::NoProgram
            }
            None => {
                // Decimals with different numbers of digits after the point make many lists of types. The oldest
                // program makes room.
                if known.programs.len() >= KINDS_MAX {
                    known.programs.remove(0);
                }
                known.runs += 1;
                KnownRun::Uncompiled { runs: known.runs }
            }
        }
    }

    /// Keeps the program of a statement for parameters of these types, or the fact that it has none.
    pub(crate) fn keep_program(
        &mut self,
        statement: &Statement,
        kinds: Box<[ParameterKind]>,
        program: Option<CompiledStatement>,
        made_for: MadeFor,
    ) -> Option<ProgramPlace> {
        self.renew(made_for);
        let statement = self.at(statement.text_hash(), statement.shared_text());
        let programs = &mut self.statements[statement].programs;
        let place = program.is_some().then_some(ProgramPlace { statement, program: programs.len() });
        programs.push(KnownProgram { kinds, program });
        place
    }

    /// Returns the program at a place. The place must be the one returned last.
    #[inline]
    pub(crate) fn program(&self, at: ProgramPlace) -> &CompiledStatement {
        self.statements[at.statement].programs[at.program].program.as_ref().expect("places are those of programs")
    }

    /// Returns the plan of a statement whose parameters have the types `kinds`.
    pub(crate) fn plan(&mut self, statement: &Statement, kinds: &[DataType], made_for: MadeFor) -> Option<CachedPlan> {
        self.renew(made_for);
        let known = &self.statements[*self.places.get(&statement.text_hash())?];
        let plans = if *known.text == *statement.text() { known.plans.as_slice() } else { &[] };
        plans.iter().find(|(known, _)| known == kinds).map(|(_, plan)| plan.clone())
    }

    /// Keeps the plan of a statement whose parameters have the types `kinds`.
    pub(crate) fn keep_plan(
        &mut self,
        statement: &Statement,
        kinds: Vec<DataType>,
        plan: CachedPlan,
        made_for: MadeFor,
    ) {
        if statement.text().len() > TEXT_BYTES_MAX {
            return;
        }
        self.renew(made_for);
        let at = self.at(statement.text_hash(), statement.shared_text());
        let plans = &mut self.statements[at].plans;
        // Too many lists of types: we start again, because an order of use would cost more than it saves.
        if plans.len() >= KINDS_MAX {
            plans.clear();
        }
        plans.push((kinds, plan));
    }

    /// Returns how the row of a statement is added to an open transaction. `None` if that is not known yet.
    #[inline]
    pub(crate) fn row_plan(&mut self, statement: &Statement, made_for: MadeFor) -> Option<Option<Arc<AppendPlan>>> {
        self.renew(made_for);
        let at = self.at(statement.text_hash(), statement.shared_text());
        self.statements[at].row_plan.clone()
    }

    /// Keeps how the row of a statement is added to an open transaction.
    pub(crate) fn keep_row_plan(&mut self, statement: &Statement, plan: Option<Arc<AppendPlan>>, made_for: MadeFor) {
        self.renew(made_for);
        let at = self.at(statement.text_hash(), statement.shared_text());
        self.statements[at].row_plan = Some(plan);
    }

    /// Returns the place of the statement with this text. Adds the statement if the cache does not have it.
    #[inline]
    fn at(&mut self, hash: u64, text: &Arc<str>) -> usize {
        match self.places.get(&hash) {
            Some(&at) if self.statements[at].is(text) => at,
            _ => self.add(hash, text),
        }
    }

    #[cold]
    fn add(&mut self, hash: u64, text: &Arc<str>) -> usize {
        self.make_room();
        let (text, written) = (Arc::clone(text), None);
        let (programs, plans) = (Vec::new(), Vec::new());
        self.statements.push(KnownStatement { text, written, runs: 0, programs, plans, row_plan: None });
        self.places.insert(hash, self.statements.len() - 1);
        self.statements.len() - 1
    }

    /// Drops everything that was made for another catalog or other settings.
    #[inline]
    fn renew(&mut self, made_for: MadeFor) {
        // This check runs before every statement, so it must be cheap.
        if self.made_for != made_for {
            self.forget_made(made_for);
        }
    }

    #[cold]
    fn forget_made(&mut self, made_for: MadeFor) {
        // A changed setting can change how texts are parsed, so that case drops the trees too.
        self.renew_settings(made_for.settings);
        self.made_for = made_for;
        for known in &mut self.statements {
            known.programs.clear();
            known.plans.clear();
            known.row_plan = None;
        }
    }

    fn renew_settings(&mut self, settings: u64) {
        if self.made_for.settings != settings {
            self.made_for.settings = settings;
            self.clear();
        }
    }

    fn make_room(&mut self) {
        // We limit the texts too, because comments that differ from run to run make many texts of one statement.
        if self.statements.len() >= STATEMENTS_MAX || self.places.len() >= TEXTS_MAX {
            self.clear();
        }
    }

    fn clear(&mut self) {
        self.places.clear();
        self.statements.clear();
    }
}

impl KnownStatement {
    #[inline]
    fn is(&self, text: &Arc<str>) -> bool {
        Arc::ptr_eq(&self.text, text) || self.text == *text
    }
}

impl KnownProgram {
    /// Whether the statement has no program for these types.
    fn is_none(&self) -> bool {
        self.program.is_none()
    }

    /// Whether the program accepts these parameters. A NULL fits every type.
    #[inline]
    fn fits(&self, parameters: &[Param<'_>]) -> bool {
        let mut pairs = self.kinds.iter().zip(parameters);
        pairs.all(|(kind, value)| matches!(value, Param::Null) || *kind == value.kind())
    }
}

/// Returns a text without the semicolons and the white space at its end.
fn without_end(sql: &str) -> &str {
    sql.trim_end_matches(|c: char| c.is_ascii_whitespace() || c == ';')
}

/// A hasher that returns its key, which already is a hash.
#[derive(Default)]
struct IsHashed(u64);

impl Hasher for IsHashed {
    fn write(&mut self, _: &[u8]) {
        unreachable!("a hash is one number")
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use rowmill_base::Settings;

    use super::*;
    use crate::parse;

    const MADE_FOR: MadeFor = MadeFor { catalog: 1, settings: 0 };

    fn statement(sql: &str) -> Statement {
        parse::parse(sql, &Settings::default()).unwrap().remove(0)
    }

    fn keep(cache: &mut StatementCache, sql: &str) {
        cache.keep_statement(sql, &statement(sql));
    }

    fn is_known(cache: &mut StatementCache, sql: &str) -> bool {
        matches!(cache.parsed(sql, MADE_FOR.settings), Some(ParsedText::Statement(_)))
    }

    fn runs(cache: &mut StatementCache, statement: &Statement, parameter: Param<'_>, made_for: MadeFor) -> Option<u32> {
        match cache.known_run(statement, &[parameter], made_for) {
            KnownRun::Uncompiled { runs } => Some(runs),
            KnownRun::NoProgram | KnownRun::Program(_) => None,
        }
    }

    #[test]
    fn only_the_exact_text_of_a_statement_finds_its_tree() {
        let mut cache = StatementCache::default();
        keep(&mut cache, "/* one */ SELECT 1; ");
        assert!(is_known(&mut cache, "/* one */ SELECT 1"));
        assert!(!is_known(&mut cache, "SELECT 1"), "the tree of the other text has other places");
        keep(&mut cache, "SELECT 1");
        assert!(is_known(&mut cache, "SELECT 1;;"));
        assert_eq!(cache.statements.len(), 1);
        cache.keep_other("SELECT 1; SELECT 2");
        assert!(matches!(cache.parsed("SELECT 1; SELECT 2", 0), Some(ParsedText::Other)));
        assert!(cache.parsed("SELECT 1", 1).is_none(), "the settings have changed");
    }

    #[test]
    fn comments_that_differ_do_not_fill_the_memory() {
        let mut cache = StatementCache::default();
        for number in 0..2 * TEXTS_MAX {
            keep(&mut cache, &format!("SELECT 1 /* {number} */"));
        }
        assert!(cache.places.len() <= TEXTS_MAX + 1);
        for number in 0..2 * STATEMENTS_MAX {
            keep(&mut cache, &format!("SELECT {number}"));
        }
        assert!(cache.statements.len() <= STATEMENTS_MAX);
    }

    #[test]
    fn runs_are_counted_until_the_types_have_a_program_or_none() {
        let mut cache = StatementCache::default();
        let query = statement("SELECT $1");
        assert_eq!(runs(&mut cache, &query, Param::Integer(1), MADE_FOR), Some(1));
        assert_eq!(runs(&mut cache, &query, Param::Integer(1), MADE_FOR), Some(2));
        assert!(cache.keep_program(&query, [ParameterKind::Integer].into(), None, MADE_FOR).is_none());
        assert_eq!(runs(&mut cache, &query, Param::Integer(1), MADE_FOR), None);
        assert_eq!(runs(&mut cache, &query, Param::Null, MADE_FOR), None, "a NULL fits any type");
        assert_eq!(runs(&mut cache, &query, Param::Text("x"), MADE_FOR), Some(3));
        assert!(runs(&mut cache, &query, Param::Integer(1), MadeFor { catalog: 2, ..MADE_FOR }).is_some());
    }
}
