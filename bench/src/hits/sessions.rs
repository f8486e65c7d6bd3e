//! The plan of the table: which visitor was on which site on which day, and for what number of rows.
//!
//! The table is a sequence of runs of about a million rows, as if a server sorted the rows that it had collected:
//!
//! ```text
//! run 0: | counter 62: 1 July: visitor a, visitor b ... 31 July | counter 117: ... | ... |
//! run 1: | counter 62: 1 July: ...
//! ```
//!
//! Inside a run rows are ordered by counter, date, user and time. A visitor who comes back to a site on the same day
//! within a run continues the same session, so every session is one stretch of rows. Planning a run is cheap compared
//! with filling it, so each worker plans the run that it needs by itself.

use super::World;
use super::random::{Random, Stream};
use super::sites::Site;
use super::visitors::{KNOWN_VISITOR, user_id};

/// The rows of a run, before we vary it.
const RUN_ROWS: u64 = 1_000_000;
/// The most rows in a session before we join sessions of the same day.
const SESSION_ROWS_MAX: u64 = 250;
/// The rows of the visitor that a query asks for by id.
const KNOWN_VISITOR_ROWS: u32 = 4;

/// The days of the table: all of July 2013.
pub(crate) const DAYS: u8 = 31;
/// Weights of the days of a week that starts on the first of the month, a Monday.
const WEEK: [u32; 7] = [108, 110, 109, 107, 101, 82, 83];
/// Weights of the hours of a day.
const HOURS: [u32; 24] = [26, 17, 12, 9, 8, 10, 15, 25, 38, 50, 58, 61, 62, 62, 61, 60, 59, 58, 57, 58, 61, 62, 55, 41];

/// The rows of one visitor on one site on one day within a run.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) site: u32,
    /// The day of the month minus one.
    pub(crate) day: u8,
    pub(crate) visitor: u64,
    pub(crate) user_id: i64,
    /// The second of the day of the first row.
    pub(crate) start: u32,
    pub(crate) rows: u32,
    /// The number of the session, which selects its random stream.
    pub(crate) number: u64,
}

/// A sorted stretch of rows.
pub(crate) struct Run {
    /// The number of its first row in the table.
    pub(crate) first_row: u64,
    pub(crate) sessions: Vec<Session>,
}

/// The boundaries of the runs of a table.
pub(crate) struct Runs {
    /// The first row of each run, and at the end the number of rows of the table.
    borders: Vec<u64>,
}

impl Runs {
    pub(crate) fn new(seed: u64, rows: u64) -> Runs {
        let count = rows.div_ceil(RUN_ROWS);
        let border = |run: u64| {
            let even = (rows as u128 * run as u128 / count as u128) as u64;
            // Runs differ in length by a few percent, as they would if a clock decided when to write them.
            // The spread is much smaller than a run, so the borders stay in order.
            let spread = RUN_ROWS / 50;
            match run {
                0 => 0,
                run if run == count => rows,
                _ => even - spread / 2 + Random::new(seed, Stream::RunLength, run).below(spread),
            }
        };
        Runs { borders: (0..=count).map(|run| if rows == 0 { 0 } else { border(run) }).collect() }
    }

    pub(crate) fn count(&self) -> usize {
        self.borders.len() - 1
    }

    /// Returns the rows of a run.
    pub(crate) fn range(&self, run: usize) -> std::ops::Range<u64> {
        self.borders[run]..self.borders[run + 1]
    }
}

impl World {
    /// Plans run number `run`.
    pub(crate) fn plan(&self, run: usize) -> Run {
        let range = self.runs.range(run);
        let rows = range.end - range.start;
        let mut random = Random::new(self.seed, Stream::Run, run as u64);
        let mut sessions = Vec::with_capacity(rows as usize / 3);
        let mut planned = 0;
        // The known visitor must come exactly once, so only the middle run has the visit.
        if run == self.runs.count() / 2 && rows > 1_000 {
            sessions.push(self.known_visit(&mut random));
            planned += u64::from(KNOWN_VISITOR_ROWS);
        }
        while planned < rows {
            let session = self.draw_session(&mut random, rows - planned);
            planned += u64::from(session.rows);
            sessions.push(session);
        }
        sort_and_join(self, &mut sessions);
        // The number selects the session's random stream, so it must be unique in the table: the run in the high bits,
        // the index in the low ones.
        for (at, session) in sessions.iter_mut().enumerate() {
            session.number = (run as u64) << 32 | at as u64;
        }
        Run { first_row: range.start, sessions }
    }

    fn draw_session(&self, random: &mut Random, rows_max: u64) -> Session {
        let visitor = random.mildly_skewed(self.visitors.count);
        // Half of the visits go to the visitor's favourite site.
        let site = match random.chance(0.5) {
            true => self.sites.draw(&mut Random::new(self.seed, Stream::VisitorHome, visitor)),
            false => self.sites.draw(random),
        };
        let rows = draw_length(random).min(rows_max) as u32;
        self.session(random, visitor, site, rows)
    }

    fn known_visit(&self, random: &mut Random) -> Session {
        let site = self.sites.draw(random);
        self.session(random, KNOWN_VISITOR, site, KNOWN_VISITOR_ROWS)
    }

    fn session(&self, random: &mut Random, visitor: u64, site: &Site, rows: u32) -> Session {
        Session {
            site: site.number as u32,
            day: draw_day(random),
            visitor,
            user_id: user_id(self.seed, visitor),
            start: draw_second(random),
            rows,
            number: 0,
        }
    }
}

/// Draws a length. It is at least k with a probability of about k^(-4/3): a third of the sessions have one row, few are
/// very long.
fn draw_length(random: &mut Random) -> u64 {
    // x^(-3/4) needs a power function, which may differ between machines. Square roots of square roots are exact.
    let root = (1.0 - random.unit()).sqrt();
    ((1.0 / (root * root.sqrt())) as u64).clamp(1, SESSION_ROWS_MAX)
}

fn draw_day(random: &mut Random) -> u8 {
    let total: u32 = (0..DAYS).map(|day| WEEK[usize::from(day % 7)]).sum();
    let mut at = random.below(total.into()) as u32;
    let mut day = 0;
    // We subtract the weights of the days one after the other until the draw falls into one.
    while let Some(rest) = at.checked_sub(WEEK[usize::from(day % 7)]) {
        at = rest;
        day += 1;
    }
    day
}

fn draw_second(random: &mut Random) -> u32 {
    let mut at = random.below(HOURS.iter().sum::<u32>().into()) as u32;
    let mut hour = 0;
    // We subtract the weights of the hours in the same way.
    while let Some(rest) = at.checked_sub(HOURS[hour]) {
        at = rest;
        hour += 1;
    }
    hour as u32 * 3_600 + random.below(3_600) as u32
}

/// Orders sessions by (counter, day, user), and joins sessions that are equal in all three.
fn sort_and_join(world: &World, sessions: &mut Vec<Session>) {
    let counter = |session: &Session| world.sites.get(session.site as usize).counter_id;
    // The key ends with start and rows, so that equal keys mean equal sessions and an unstable sort is enough.
    sessions
        .sort_unstable_by_key(|session| (counter(session), session.day, session.user_id, session.start, session.rows));
    sessions.dedup_by(|later, earlier| {
        let same = (later.site, later.day, later.user_id) == (earlier.site, earlier.day, earlier.user_id);
        if same {
            earlier.rows += later.rows;
        }
        same
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_cover_the_table() {
        for rows in [0, 1, 999_999, 1_000_000, 1_000_001, 10_000_000] {
            let runs = Runs::new(1, rows);
            let sum: u64 = (0..runs.count()).map(|run| runs.range(run).count() as u64).sum();
            assert_eq!(sum, rows);
            assert!((0..runs.count()).all(|run| runs.range(run).count() <= 1 << 20));
        }
    }

    #[test]
    fn a_run_has_its_rows_in_order() {
        let world = World::new(5_000, 1);
        let run = world.plan(0);
        assert_eq!(run.sessions.iter().map(|session| session.rows).sum::<u32>(), 5_000);
        let keys: Vec<_> = run
            .sessions
            .iter()
            .map(|session| (world.sites.get(session.site as usize).counter_id, session.day, session.user_id))
            .collect();
        assert!(keys.is_sorted());
        assert_eq!(run.sessions.iter().filter(|session| session.visitor == KNOWN_VISITOR).count(), 1);
    }
}
