//! Runs random statements through Rowmill and an oracle, and reports the differences.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rowmill_exec::forced::{DistinctWay, Forced, GroupWay, JoinWay};

use crate::cell::{Answer, Cell};
use crate::differences::known;
use crate::engine::{Oracle, SECONDS_MAX};
use crate::generator::Generator;
use crate::kind::Kind;
use crate::mill::Mill;
use crate::prepared::{Parameters, Prepared};
use crate::reduce::reduce;
use crate::world::{Setup, Table, World};

/// The number of statements that we run on one world.
const PER_WORLD: u64 = 60;
/// The reason to ignore a difference if the oracle contradicts itself.
const CONTRADICTION: &str = "the oracle contradicts itself: without its optimizer, or with EXISTS for IN, ANY and ALL";
/// The most time that we spend on removing rows from a finding.
const ROWS_REDUCTION_MAX: Duration = Duration::from_secs(15);

/// The parameters of a run.
pub struct Request {
    pub queries: u64,
    pub seed: u64,
    /// The run ends after this number of findings.
    pub findings_max: usize,
}

/// The counts of a run.
#[derive(Default)]
pub struct Counts {
    pub compared: u64,
    pub both_failed: u64,
    /// Statements that only the oracle refused, by the class of its error.
    pub oracle_refused: BTreeMap<String, u64>,
    /// Documented refusals of Rowmill.
    pub refused: BTreeMap<String, u64>,
    pub findings: usize,
}

/// The kind of a difference between the answers, or that they agree.
#[derive(Clone, PartialEq, Debug)]
enum Verdict {
    Same,
    BothFailed,
    OracleRefused(String),
    Refused(String),
    Rows,
    Failed(String),
}

fn verdict(ours: &Answer, theirs: &Answer, ordered: bool, oracle: &str) -> Verdict {
    // A panic or an internal error of Rowmill is always a finding, whatever the oracle says.
    if let Answer::Failed { class, message } = ours {
        if class == "panic" || class == "XX000" {
            return Verdict::Failed(class.clone());
        }
        // The time of a statement depends on other work of the machine. So we only count cancelled statements, and a
        // person should look at them.
        if class == "57014" {
            return Verdict::Refused(format!("cancelled after {SECONDS_MAX} seconds"));
        }
        return match theirs {
            // Both engines refuse the statement, or we have nothing to compare with.
            Answer::Failed { .. } | Answer::TooMuch => Verdict::BothFailed,
            Answer::Rows(_) => match known(oracle, message) {
                Some(why) => Verdict::Refused(why.to_owned()),
                None => Verdict::Failed(class.clone()),
            },
        };
    }
    match (ours, theirs) {
        (Answer::Rows(ours), Answer::Rows(theirs)) => {
            if Answer::same_rows(ours, theirs, ordered) {
                Verdict::Same
            } else {
                Verdict::Rows
            }
        }
        (_, Answer::Failed { class, message }) => {
            let head: String = message.chars().take(60).collect();
            Verdict::OracleRefused(format!("{class}: {}", head.replace('\n', " ")))
        }
        (Answer::TooMuch, _) | (_, Answer::TooMuch) => Verdict::OracleRefused("too many rows".to_owned()),
        (Answer::Failed { .. }, _) => unreachable!("failures were settled above"),
    }
}

/// Both engines with the tables of one world.
struct Pair<'o> {
    mill: Mill,
    oracle: &'o mut dyn Oracle,
}

impl<'o> Pair<'o> {
    fn new(world: &World, oracle: &'o mut dyn Oracle) -> Result<Self, String> {
        let mut pair = Pair { mill: Mill::new(), oracle };
        pair.fill(world)?;
        Ok(pair)
    }

    /// Discards all tables and makes the tables of `world`.
    fn refill(&mut self, world: &World) -> Result<(), String> {
        // A new database is simpler and safer than dropping everything, and costs little in memory.
        self.mill = Mill::new();
        self.fill(world)
    }

    fn fill(&mut self, world: &World) -> Result<(), String> {
        let tables = world.tables.iter().flat_map(|table| &table.statements).filter_map(|setup| match setup {
            Setup::Both(sql) | Setup::Rowmill(sql) => Some(sql),
            Setup::Oracle(_) => None,
        });
        for sql in world.settings.iter().chain(tables) {
            if let Answer::Failed { message, .. } = self.mill.run(sql) {
                return Err(format!("rowmill: {sql}: {message}"));
            }
        }
        self.oracle.build(world)
    }

    fn ask(&mut self, sql: &str, ordered: bool) -> (Verdict, Answer, Answer) {
        let (mut ours, theirs) = (self.mill.run(sql), self.oracle.run(sql));
        let mut found = verdict(&ours, &theirs, ordered, self.oracle.name());
        if found == Verdict::Same && sql.starts_with(['S', 'W', '(']) {
            // A statement that is run again may run as a program, so we run it twice.
            ours = self.mill.run(sql);
            found = verdict(&ours, &theirs, ordered, self.oracle.name());
        }
        // Before we report a difference, we ask whether the oracle agrees with itself. If one of its other ways gives
        // our answer, the oracle is wrong.
        if found == Verdict::Rows && sql.starts_with(['S', 'W', '(']) {
            let mut way = 0;
            while let Some(other) = self.oracle.run_otherwise(way, sql) {
                if verdict(&ours, &other, ordered, self.oracle.name()) == Verdict::Same {
                    found = Verdict::OracleRefused(CONTRADICTION.to_owned());
                    break;
                }
                way += 1;
            }
        }
        (found, ours, theirs)
    }

    /// Whether `sql` still shows the difference `found`.
    fn shows(&mut self, sql: &str, ordered: bool, table: Option<&str>, found: &Verdict) -> bool {
        let now = match table {
            Some(table) => self.change(table, sql, None).0,
            None => self.ask(sql, ordered && sql.contains("ORDER BY")).0,
        };
        now == *found
    }

    /// Whether the oracle's table equals Rowmill's if the oracle makes the change in one of its other ways.
    fn other_change_is_same(&mut self, table: &str, sql: &str) -> bool {
        let rows = format!("SELECT * FROM {table}");
        for way in 0.. {
            self.oracle.run("ROLLBACK");
            self.oracle.run("BEGIN");
            if self.oracle.run_otherwise(way, sql).is_none() {
                return false;
            }
            let (ours, theirs) = (self.mill.run(&rows), self.oracle.run(&rows));
            if verdict(&ours, &theirs, false, self.oracle.name()) == Verdict::Same {
                return true;
            }
        }
        false
    }

    /// Runs a change in both engines, and compares the rows that it returns and the table after it. We commit only if
    /// both agree, so that the tables stay equal.
    fn change(&mut self, table: &str, sql: &str, parameters: Option<&Parameters>) -> (Verdict, Answer, Answer) {
        // We first run the statement as a plan and with parameters, and roll back. The run in `ask` may be a program.
        let all = format!("SELECT * FROM {table}");
        self.mill.run("BEGIN");
        let mut tries = vec![(self.mill.run(sql), self.mill.run(&all))];
        self.mill.run("ROLLBACK");
        if let Some((sql, values)) = parameters {
            self.mill.run("BEGIN");
            tries.push((self.mill.run_prepared(sql, values), self.mill.run(&all)));
            self.mill.run("ROLLBACK");
        }
        self.mill.run("BEGIN");
        self.oracle.run("BEGIN");
        let (mut found, mut ours, mut theirs) = self.ask(sql, false);
        let (changed, kept): (Vec<Answer>, Vec<Answer>) = tries.into_iter().unzip();
        for answer in changed {
            if found == Verdict::Same {
                found = verdict(&answer, &theirs, false, self.oracle.name());
                ours = answer;
            }
        }
        if found == Verdict::Same {
            (found, ours, theirs) = self.ask(&all, false);
        }
        for answer in kept {
            if found == Verdict::Same {
                found = verdict(&answer, &theirs, false, self.oracle.name());
                ours = answer;
            }
        }
        if found == Verdict::Rows && self.other_change_is_same(table, sql) {
            found = Verdict::OracleRefused(CONTRADICTION.to_owned());
        }
        let end = if found == Verdict::Same { "COMMIT" } else { "ROLLBACK" };
        let (our_end, their_end) = (self.mill.run(end), self.oracle.run(end));
        if found == Verdict::Same {
            found = verdict(&our_end, &their_end, false, self.oracle.name());
            if found == Verdict::Same {
                (found, ours, theirs) = self.ask(&all, false);
            }
        }
        (found, ours, theirs)
    }
}

/// Returns the code paths that we force on Rowmill's operators, by number. With few rows they would always choose the
/// same ones.
pub fn forced(way: u64) -> Forced {
    let usual = Forced::default();
    match way {
        0 => usual,
        1 => Forced { equal_hashes: true, ..usual },
        2 => Forced {
            rows_per_partition: Some(2),
            group: Some(GroupWay::SmallTable),
            distinct: Some(DistinctWay::Steps),
            join: Some(JoinWay::Hashed),
            ..usual
        },
        3 => Forced {
            rows_per_partition: Some(3),
            group: Some(GroupWay::PastTable),
            distinct: Some(DistinctWay::Group),
            join: Some(JoinWay::Ranked),
            ..usual
        },
        _ => Forced {
            group: Some(GroupWay::Table),
            distinct: Some(DistinctWay::Ranges),
            join: Some(JoinWay::Direct),
            ..usual
        },
    }
}

/// Compares `request.queries` statements and prints the differences.
pub fn run(request: &Request, oracle: &mut dyn Oracle) -> Result<Counts, String> {
    let mut counts = Counts::default();
    let mut asked = 0;
    let mut seed = request.seed;
    let mut reported: BTreeMap<String, usize> = BTreeMap::new();
    while asked < request.queries && counts.findings < request.findings_max {
        let world = World::new(seed);
        // The next world has another seed, so that a finding can be repeated with its own seed alone.
        seed += 1;
        let mut pair = Pair::new(&world, &mut *oracle)?;
        let mut finding = None;
        for number in 0..PER_WORLD {
            asked += 1;
            let mut generator = Generator::new(&world, number);
            let is_change = pair.oracle.changes_rows() && generator.random.chance(15);
            let (text, ordered, table) = if is_change {
                let change = generator.change(number);
                (change.text, false, Some(change.table))
            } else {
                let query = generator.statement();
                (query.text, query.ordered, None)
            };
            let Prepared { plain: sql, parameters } = Prepared::new(&text);
            if std::env::var_os("ORACLE_TRACE").is_some() {
                eprintln!("{}/{number}: {sql}", world.seed);
            }
            // We need the rows from before the change, to show what it did.
            let before = match table {
                Some(_) => contents(&world, &mut pair),
                None => Vec::new(),
            };
            let (mut found, mut ours, theirs) = match table {
                Some(table) => pair.change(table, &sql, parameters.as_ref()),
                None => pair.ask(&sql, ordered),
            };
            if let (Some((sql, values)), Verdict::Same, None) = (&parameters, &found, table) {
                ours = pair.mill.run_prepared(sql, values);
                found = verdict(&ours, &theirs, ordered, pair.oracle.name());
            }
            match &found {
                Verdict::Same => counts.compared += 1,
                Verdict::BothFailed => counts.both_failed += 1,
                Verdict::OracleRefused(class) => {
                    *counts.oracle_refused.entry(class.clone()).or_default() += 1;
                    // After such an error the oracle answers nothing until it gets a new database.
                    if class.starts_with("FatalException") {
                        break;
                    }
                }
                Verdict::Refused(class) => {
                    if std::env::var_os("ORACLE_REFUSED").is_some() {
                        println!("refused: {sql}");
                    }
                    *counts.refused.entry(class.clone()).or_default() += 1;
                }
                Verdict::Rows | Verdict::Failed(_) => {
                    let signature = signature(&found, &ours);
                    let times = reported.entry(signature).or_default();
                    *times += 1;
                    // We report the same error only once. A difference in rows is always reported, because different
                    // causes look alike.
                    if *times > 1 && found != Verdict::Rows {
                        continue;
                    }
                    // The rows before a change are gone by now, so we use the ones that we have read before it.
                    let rows = if table.is_some() { before } else { contents(&world, &mut pair) };
                    finding = Some((number, sql, ordered, table, found, ours, theirs, rows));
                    break;
                }
            }
        }
        let Some((number, sql, ordered, table, found, ours, theirs, rows)) = finding else { continue };
        drop(pair);
        counts.findings += 1;
        println!("== finding {}: seed {} statement {number}: {found:?}", counts.findings, world.seed);
        report(&world, oracle, &sql, ordered, table, &found, (&ours, &theirs), rows);
    }
    for (signature, times) in reported.iter().filter(|(_, times)| **times > 1) {
        println!("{times} times: {signature}");
    }
    Ok(counts)
}

fn signature(found: &Verdict, ours: &Answer) -> String {
    match ours {
        Answer::Failed { class, message } => {
            let words: String = message.chars().filter(|letter| !letter.is_ascii_digit()).take(50).collect();
            format!("{class} {words}")
        }
        _ => format!("{found:?}"),
    }
}

/// Returns the rows of every table, read from the oracle.
fn contents(world: &World, pair: &mut Pair<'_>) -> Vec<Vec<Vec<Cell>>> {
    let rows = |table: &Table| match pair.oracle.run(&format!("SELECT * FROM {}", table.name)) {
        Answer::Rows(rows) => rows,
        _ => Vec::new(),
    };
    world.tables.iter().map(rows).collect()
}

/// Returns the world with `rows` in its tables.
fn with_rows(world: &World, rows: &[Vec<Vec<Cell>>]) -> World {
    let mut world = world.clone();
    for (table, rows) in world.tables.iter_mut().zip(rows) {
        let is_insert = |setup: &Setup| {
            let (Setup::Both(sql) | Setup::Rowmill(sql)) = setup else { return false };
            ["INSERT", "CHECKPOINT", "ANALYZE"].iter().any(|word| sql.starts_with(word))
        };
        table.statements.retain(|setup| !is_insert(setup));
        if !rows.is_empty() {
            let rows: Vec<String> = rows.iter().map(|row| row_text(table, row)).collect();
            table.statements.push(Setup::Both(format!("INSERT INTO {} VALUES {}", table.name, rows.join(", "))));
        }
    }
    world
}

fn row_text(table: &Table, row: &[Cell]) -> String {
    let cells = row.iter().zip(&table.columns).map(|(cell, column)| match (cell, column.kind) {
        (Cell::Text(text), Kind::Text) => format!("'{}'", text.replace('\'', "''")),
        (Cell::Text(text), Kind::Date) => format!("DATE '{text}'"),
        (Cell::Text(text), Kind::Timestamp) => format!("TIMESTAMP '{text}'"),
        (Cell::Text(text), _) => text.clone(),
        (Cell::Double(value), _) => format!("{value:e}"),
        (Cell::Exact(text), _) => text.clone(),
        (Cell::Null, _) => "NULL".to_owned(),
    });
    format!("({})", cells.collect::<Vec<_>>().join(", "))
}

#[expect(clippy::too_many_arguments, reason = "all parts of a finding")]
fn report(
    world: &World,
    oracle: &mut dyn Oracle,
    sql: &str,
    ordered: bool,
    table: Option<&str>,
    found: &Verdict,
    answers: (&Answer, &Answer),
    mut rows: Vec<Vec<Vec<Cell>>>,
) {
    println!("{sql}");
    show(oracle.name(), answers.0, answers.1);
    let Some(mut best) = reduced(world, &rows, oracle, sql, ordered, table, found) else {
        println!("-- the difference disappears when the tables are filled again: run the whole seed");
        return;
    };
    let Ok(mut pair) = Pair::new(world, oracle) else { return };
    // We first try to remove half of the rows at a time, then fewer, and in the end single rows.
    let until = Instant::now() + ROWS_REDUCTION_MAX;
    for place in 0..rows.len() {
        let mut size = rows[place].len();
        while size > 0 && Instant::now() < until {
            let mut from = 0;
            while from < rows[place].len() {
                let mut fewer = rows.clone();
                let end = (from + size).min(fewer[place].len());
                fewer[place].drain(from..end);
                let shows = pair.refill(&with_rows(world, &fewer)).is_ok() && pair.shows(&best, ordered, table, found);
                match shows {
                    true => rows = fewer,
                    false => from += size,
                }
            }
            size /= 2;
        }
    }
    best = reduced(world, &rows, oracle, &best, ordered, table, found).unwrap_or(best);
    println!("-- reduced:");
    let world = with_rows(world, &rows);
    for setting in &world.settings {
        println!("{setting};");
    }
    for table in world.tables.iter().filter(|table| best.contains(table.name)) {
        for setup in &table.statements {
            if let Setup::Both(sql) | Setup::Rowmill(sql) = setup {
                println!("{sql};");
            }
        }
    }
    println!("{best};");
    let Ok(mut pair) = Pair::new(&world, oracle) else { return };
    let (_, ours, theirs) = match table {
        Some(table) => pair.change(table, &best, None),
        None => pair.ask(&best, false),
    };
    let name = pair.oracle.name();
    show(name, &ours, &theirs);
}

/// Returns the smallest statement that shows `found` over `rows`, or `None` if `sql` does not show it.
fn reduced(
    world: &World,
    rows: &[Vec<Vec<Cell>>],
    oracle: &mut dyn Oracle,
    sql: &str,
    ordered: bool,
    table: Option<&str>,
    found: &Verdict,
) -> Option<String> {
    let world = with_rows(world, rows);
    let mut pair = Pair::new(&world, oracle).ok()?;
    if !pair.shows(sql, ordered, table, found) {
        return None;
    }
    Some(reduce(sql, |sql| {
        // A change that both engines made must be undone before the next try, so we fill the tables again.
        (table.is_none() || pair.refill(&world).is_ok()) && pair.shows(sql, ordered, table, found)
    }))
}

/// Prints both answers.
pub fn show(oracle: &str, ours: &Answer, theirs: &Answer) {
    for (name, answer) in [("rowmill", ours), (oracle, theirs)] {
        match answer {
            Answer::Rows(rows) => {
                println!("-- {name}: {} rows", rows.len());
                for row in rows.iter().take(12) {
                    println!("--   {}", row.iter().map(Cell::shown).collect::<Vec<_>>().join(" | "));
                }
            }
            Answer::Failed { class, message } => println!("-- {name}: {class}: {message}"),
            Answer::TooMuch => println!("-- {name}: too much"),
        }
    }
}

impl Counts {
    /// Prints the counts.
    pub fn print(&self) {
        println!("compared {}, failed in both {}, findings {}", self.compared, self.both_failed, self.findings);
        for (class, times) in &self.oracle_refused {
            println!("  the oracle alone refused {times}: {class}");
        }
        for (class, times) in &self.refused {
            println!("  documented refusals {times}: {class}");
        }
    }
}
