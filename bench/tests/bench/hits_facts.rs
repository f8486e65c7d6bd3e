//! The facts that the generated table must share with real web-analytics data. We test them at 200,000 rows, so the
//! bounds must leave room for chance. Shares are in percent of the rows.

use std::collections::{HashMap, HashSet};

use rowmill_bench::hits::World;
use rowmill_bench::parquet_file;

use crate::table::Table;

const ROWS: u64 = 200_000;

fn generate() -> Table {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hits.parquet");
    parquet_file::write(&World::new(ROWS, 1), &path, 2, &|_| ()).unwrap();
    Table::read(&path)
}

/// Collects all facts that do not hold, so that the test reports all of them.
#[derive(Default)]
struct Facts {
    wrong: Vec<String>,
}

impl Facts {
    fn within(&mut self, fact: &str, seen: f64, low: f64, high: f64) {
        if !(low..=high).contains(&seen) {
            self.wrong.push(format!("{fact}: {seen:.4} is not between {low} and {high}"));
        }
    }

    fn share(&mut self, fact: &str, count: usize, low: f64, high: f64) {
        self.within(fact, count as f64 * 100.0 / ROWS as f64, low, high);
    }
}

fn count<T>(values: &[T], holds: impl Fn(&T) -> bool) -> usize {
    values.iter().filter(|value| holds(value)).count()
}

fn average_length(values: &[String]) -> f64 {
    let filled: Vec<usize> = values.iter().map(String::len).filter(|&length| length > 0).collect();
    filled.iter().sum::<usize>() as f64 / filled.len() as f64
}

fn cyrillic_share(values: &[String]) -> f64 {
    let letters = || values.iter().flat_map(|value| value.chars()).filter(|letter| letter.is_alphabetic());
    letters().filter(|letter| !letter.is_ascii()).count() as f64 / letters().count() as f64
}

#[test]
fn the_table_has_the_facts_of_real_data() {
    let table = generate();
    let mut facts = Facts::default();
    assert_eq!(table.rows() as u64, ROWS);
    assert_eq!(table.nulls(), 0);
    shares_of_distinct_values(&table, &mut facts);
    shares_of_rows(&table, &mut facts);
    strings(&table, &mut facts);
    what_queries_ask_for(&table, &mut facts);
    order_and_sessions(&table, &mut facts);
    assert!(facts.wrong.is_empty(), "{}", facts.wrong.join("\n"));
}

fn shares_of_distinct_values(table: &Table, facts: &mut Facts) {
    for (name, low, high) in [
        ("UserID", 16.7, 18.5),
        ("URL", 17.3, 19.3),
        ("Title", 8.6, 10.6),
        ("Referer", 18.5, 21.9),
        ("ClientIP", 9.4, 10.4),
        ("WatchID", 100.0, 100.0),
        ("SearchPhrase", 5.6, 6.4),
    ] {
        facts.share(&format!("{name} distinct"), table.distinct(name), low, high);
    }
    // A sample does not contain all of the 6,506 counters, 9,040 regions and 166 models.
    facts.within("CounterID values", table.distinct("CounterID") as f64, 2_000.0, 6_506.0);
    facts.within("RegionID values", table.distinct("RegionID") as f64, 700.0, 9_040.0);
    facts.within("MobilePhoneModel values", table.distinct("MobilePhoneModel") as f64, 150.0, 167.0);
}

fn shares_of_rows(table: &Table, facts: &mut Facts) {
    facts.share("SearchPhrase empty", count(&table.text("SearchPhrase"), |phrase| phrase.is_empty()), 86.0, 87.6);
    facts.share("AdvEngineID <> 0", count(&table.numbers("AdvEngineID"), |id| *id != 0), 0.5, 0.75);
    facts.share("MobilePhoneModel <> ''", count(&table.text("MobilePhoneModel"), |model| !model.is_empty()), 4.8, 6.4);
    facts.share("CounterID = 62", count(&table.numbers("CounterID"), |id| *id == 62), 0.45, 1.0);
    facts.share("URL with google", count(&table.text("URL"), |url| url.contains("google")), 0.004, 0.04);
    facts.share("Title with Google", count(&table.text("Title"), |title| title.contains("Google")), 0.01, 0.2);
}

fn strings(table: &Table, facts: &mut Facts) {
    for name in ["URL", "Title", "Referer", "SearchPhrase"] {
        facts.within(&format!("{name} bytes"), average_length(&table.text(name)), 60.0, 95.0);
    }
    for name in ["Title", "SearchPhrase"] {
        facts.within(&format!("{name} Cyrillic"), cyrillic_share(&table.text(name)), 0.9, 1.0);
    }
    let referers = table.text("Referer");
    let addresses = count(&referers, |referer| referer.starts_with("http://"));
    assert_eq!(addresses, count(&referers, |referer| !referer.is_empty()));
    facts.share("Referer filled", addresses, 75.0, 90.0);
    let nearly_constant = table_columns().filter(|name| most_common_share(table, name) > 0.97).count();
    facts.within("nearly constant columns", nearly_constant as f64, 28.0, 40.0);
}

fn table_columns() -> impl Iterator<Item = String> {
    let schema = rowmill_bench::hits::schema();
    let names: Vec<String> = schema.fields().iter().map(|field| field.name().clone()).collect();
    names.into_iter()
}

fn most_common_share(table: &Table, name: &str) -> f64 {
    let mut counts: HashMap<String, u64> = HashMap::new();
    let column = arrow::compute::cast(table.column(name), &arrow::datatypes::DataType::Utf8).unwrap();
    let column = arrow::array::AsArray::as_string::<i32>(&column);
    for value in column.iter().flatten().take(20_000) {
        *counts.entry(value.to_owned()).or_default() += 1;
    }
    counts.values().copied().max().unwrap() as f64 / 20_000.0
}

fn what_queries_ask_for(table: &Table, facts: &mut Facts) {
    let (counters, users) = (table.numbers("CounterID"), table.numbers("UserID"));
    let (url_hashes, referer_hashes) = (table.numbers("URLHash"), table.numbers("RefererHash"));
    let known =
        |rows: &[i64], hash: i64| (0..rows.len()).filter(|&row| counters[row] == 62 && rows[row] == hash).count();
    facts.share("the known URLHash", known(&url_hashes, 2_868_770_270_353_813_622), 0.1, 0.5);
    facts.share("the known RefererHash", known(&referer_hashes, 3_594_120_000_172_545_465), 0.01, 0.1);
    assert_eq!(count(&users, |user| *user == 435_090_932_899_640_449), 4);
    assert_eq!(table.distinct("URL"), table.distinct("URLHash"), "URLHash is a function of URL");
    assert_eq!(table.distinct("Referer"), table.distinct("RefererHash"), "RefererHash is a function of Referer");
}

fn order_and_sessions(table: &Table, facts: &mut Facts) {
    let columns = ["CounterID", "EventDate", "UserID", "EventTime"].map(|name| table.numbers(name));
    let keys: Vec<[i64; 4]> = (0..table.rows()).map(|row| columns.each_ref().map(|column| column[row])).collect();
    assert!(keys.is_sorted(), "a run is ordered by counter, date, user and time");
    let sessions: HashSet<&[i64]> = keys.iter().map(|key| &key[..3]).collect();
    facts.within("rows of a session", ROWS as f64 / sessions.len() as f64, 2.8, 3.6);
    // July 2013 in days since 1970.
    assert_eq!((columns[1].iter().min(), columns[1].iter().max()), (Some(&15_887), Some(&15_917)));
    let day = |micros: i64| micros.div_euclid(86_400_000_000);
    assert!(keys.iter().all(|key| day(key[3]) == key[1]), "EventDate is the date of EventTime");
}
