//! `rowmill demo`: makes a million events and asks a dozen questions about them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use rowmill::arrow::array::{
    ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch, StringViewBuilder, TimestampMicrosecondArray,
};
use rowmill::{Connection, Database, Error, ErrorKind, Result};

use crate::outcome_printer::ResultView;
use crate::output::Format;
use crate::runner::Runner;
use crate::terminal::say;

const EVENTS: u64 = 1_000_000;
const ROWS_PER_BATCH: u64 = 50_000;

const PAGES: &[&str] =
    &["/", "/pricing", "/docs", "/docs/install", "/docs/sql", "/blog", "/login", "/signup", "/cart", "/checkout"];
const COUNTRIES: &[&str] = &["DE", "US", "FR", "IN", "BR", "JP", "PL", "GB", "CA", "NL"];
const DEVICES: &[&str] = &["phone", "laptop", "tablet"];

const QUESTIONS: &[(&str, &str)] = &[
    ("How many events are there?", "SELECT COUNT(*) AS events FROM events"),
    ("How many visitors?", "SELECT COUNT(DISTINCT visitor) AS visitors FROM events"),
    (
        "Which pages are read most?",
        "SELECT page, COUNT(*) AS views FROM events GROUP BY page ORDER BY views DESC LIMIT 5",
    ),
    (
        "Where do the buyers live?",
        "SELECT country, COUNT(*) AS orders, ROUND(SUM(amount), 2) AS revenue FROM events WHERE page = '/checkout' \
         GROUP BY country ORDER BY revenue DESC LIMIT 5",
    ),
    (
        "How does a week look, by day?",
        "SELECT date_trunc('day', at) AS day, COUNT(*) AS views, COUNT(DISTINCT visitor) AS visitors FROM events \
         GROUP BY day ORDER BY day LIMIT 7",
    ),
    (
        "At which hour is it busy?",
        "SELECT extract(hour FROM at) AS hour, COUNT(*) AS views FROM events GROUP BY hour ORDER BY views DESC LIMIT 3",
    ),
    (
        "How fast are the pages?",
        "SELECT page, AVG(ms) AS mean_ms, MAX(ms) AS slowest FROM events GROUP BY page ORDER BY mean_ms DESC LIMIT 5",
    ),
    (
        "Which visitors come most often?",
        "SELECT visitor, COUNT(*) AS views FROM events GROUP BY visitor ORDER BY views DESC, visitor LIMIT 5",
    ),
    (
        "What do the plans of the customers bring?",
        "SELECT plan, COUNT(DISTINCT c.visitor) AS customers, ROUND(SUM(amount), 2) AS revenue \
         FROM customers c JOIN events e ON e.visitor = c.visitor WHERE amount > 0 GROUP BY plan ORDER BY revenue DESC",
    ),
    (
        "Which searches were for SQL?",
        "SELECT search, COUNT(*) AS n FROM events WHERE search LIKE '%sql%' GROUP BY search ORDER BY n DESC, search \
         LIMIT 5",
    ),
    (
        "Which is the busiest page of each country?",
        "SELECT country, page, views FROM (SELECT country, page, COUNT(*) AS views, \
         ROW_NUMBER() OVER (PARTITION BY country ORDER BY COUNT(*) DESC, page) AS place FROM events GROUP BY country, \
         page) \
         WHERE place = 1 ORDER BY country LIMIT 5",
    ),
    (
        "How small is it on disk?",
        "SELECT SUM(bytes) AS bytes, SUM(rows) / COUNT(*) AS rows FROM rowmill_storage('events')",
    ),
];

/// Makes the events in `dir`, asks the questions and prints what to try next.
pub(crate) fn run(dir: Option<&Path>) -> Result<()> {
    let dir = dir.map_or_else(|| PathBuf::from("rowmill-demo"), Path::to_path_buf);
    let database = Database::open(&dir)?;
    let mut connection = database.connect()?;
    let tables = connection
        .query("SELECT table_name FROM information_schema.tables WHERE table_name IN ('events', 'customers')")?;
    if tables.rows()?.len() < 2 {
        load(&mut connection)?;
    } else {
        say(&format!("{} already has the tables of the demo.\n", dir.display()))?;
    }
    drop(connection);
    let view = ResultView { format: Format::Table, all: false, expanded: false, paged: false, sampled: false };
    let mut runner = Runner::new(&database, view)?;
    for (question, sql) in QUESTIONS {
        say(&format!("\n{question}\n  {sql}\n"))?;
        let started = Instant::now();
        runner.run_text(sql)?;
        say(&format!("{:.1} ms\n", started.elapsed().as_secs_f64() * 1e3))?;
    }
    let dir = dir.display();
    say(&format!(
        "\nContinue with the events in the shell, or with your own files:\n  \
         rowmill {dir}\n  \
         rowmill {dir} -c \"COPY events TO 'events.parquet'\"\n  \
         rowmill -c \"SELECT COUNT(*) FROM 'events.parquet'\"\n\
         From the source tree: cargo run --release -- {dir}\n"
    ))
}

fn load(connection: &mut Connection) -> Result<()> {
    let started = Instant::now();
    connection.execute_batch(
        "CREATE TABLE events (at TIMESTAMP NOT NULL, visitor BIGINT NOT NULL, country TEXT, page TEXT NOT NULL, \
         device TEXT, ms INTEGER, amount DOUBLE, search TEXT);
         CREATE TABLE customers (visitor BIGINT NOT NULL, plan TEXT NOT NULL)",
    )?;
    let mut appender = connection.appender("events")?;
    let mut dice = Dice(42);
    for first in (0..EVENTS).step_by(ROWS_PER_BATCH as usize) {
        appender.batch(&events(first, &mut dice)?)?;
    }
    let rows = appender.finish()?;
    connection.execute_batch(
        "INSERT INTO customers SELECT DISTINCT visitor, CASE WHEN visitor % 10 = 0 THEN 'team' \
         WHEN visitor % 3 = 0 THEN 'pro' ELSE 'free' END FROM events WHERE amount > 0",
    )?;
    say(&format!("Loaded {rows} events in {:.1} s.\n", started.elapsed().as_secs_f64()))
}

/// A small random number generator. Its numbers must be the same in every run, so that the demo always has the same
/// events.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    /// Returns small numbers more often than large ones.
    fn skewed(&mut self, sides: u64) -> u64 {
        self.roll(sides).min(self.roll(sides)).min(self.roll(sides))
    }
}

fn events(first: u64, dice: &mut Dice) -> Result<RecordBatch> {
    const START_US: i64 = 1_767_225_600_000_000; // 2026-01-01
    const US_PER_EVENT: i64 = 7_700_000; // A million events in about 89 days.
    let rows = ROWS_PER_BATCH.min(EVENTS - first);
    let (mut at, mut visitor, mut ms, mut amount) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut texts = [(); 4].map(|()| StringViewBuilder::new());
    for row in first..first + rows {
        let who = dice.skewed(120_000);
        let page = dice.skewed(PAGES.len() as u64) as usize;
        at.push(START_US + row as i64 * US_PER_EVENT + dice.roll(US_PER_EVENT as u64) as i64);
        visitor.push(who as i64);
        ms.push((20 + dice.skewed(900) + page as u64 * 15) as i32);
        amount.push((PAGES[page] == "/checkout").then(|| 5.0 + dice.skewed(20_000) as f64 / 100.0));
        texts[0].append_value(COUNTRIES[(who % 7 + dice.skewed(4)) as usize % COUNTRIES.len()]);
        texts[1].append_value(PAGES[page]);
        texts[2].append_value(DEVICES[(who % 5).min(2) as usize]);
        let search = (page == 2).then(|| match dice.skewed(6) {
            0 => format!("sql window {}", dice.skewed(20)),
            1 => "install".to_owned(),
            _ => format!("join {}", dice.skewed(100)),
        });
        texts[3].append_option(search);
    }
    let [mut country, mut page, mut device, mut search] = texts;
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("at", Arc::new(TimestampMicrosecondArray::from(at))),
        ("visitor", Arc::new(Int64Array::from(visitor))),
        ("country", Arc::new(country.finish())),
        ("page", Arc::new(page.finish())),
        ("device", Arc::new(device.finish())),
        ("ms", Arc::new(Int32Array::from(ms))),
        ("amount", Arc::new(Float64Array::from(amount))),
        ("search", Arc::new(search.finish())),
    ];
    RecordBatch::try_from_iter(columns).map_err(|error| Error::new(ErrorKind::Internal, error.to_string()))
}
