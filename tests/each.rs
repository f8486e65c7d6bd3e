//! Files of the SQL suite that run once for each of several types. Such a file begins with lines like these:
//!
//! ```text
//! # each $TYPE | $LEAST | $MOST
//! # each TINYINT | -128 | 127
//! # each SMALLINT | -32768 | 32767
//! ```
//!
//! The first line has names; each further line has their values for one run of the file.

/// The marker of the lines that have the names or the values.
const EACH: &str = "# each ";

/// Returns the scripts of a file, each with the values of its first name. A file without names is one script.
pub(crate) fn scripts(text: &str) -> Vec<(String, String)> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(EACH)).map(cells);
    let Some(names) = lines.next() else { return vec![(String::new(), text.to_owned())] };
    assert!(names.iter().all(|name| name.starts_with('$')), "names of a file begin with a dollar: {names:?}");
    let scripts: Vec<(String, String)> =
        lines.map(|values| (values[0].to_owned(), script(text, &names, &values))).collect();
    assert!(!scripts.is_empty(), "a file with names has values");
    scripts
}

fn cells(line: &str) -> Vec<&str> {
    line.split('|').map(str::trim).collect()
}

fn script(text: &str, names: &[&str], values: &[&str]) -> String {
    assert_eq!(names.len(), values.len(), "each name has a value: {values:?}");
    let records = text.split("\n\n").filter(|record| !record.starts_with(EACH)).map(|record| {
        let mut record = record.to_owned();
        for (name, value) in names.iter().zip(values) {
            record = record.replace(name, value);
        }
        sorted(record)
    });
    records.collect::<Vec<_>>().join("\n\n")
}

/// Sorts the expected rows of a record if its answer is sorted, because the order depends on the values.
fn sorted(record: String) -> String {
    let is_sorted = record.lines().any(|line| line.starts_with("query ") && line.ends_with(" rowsort"));
    match record.split_once("\n----\n").filter(|_| is_sorted) {
        Some((query, rows)) => {
            let mut rows: Vec<&str> = rows.lines().collect();
            rows.sort_unstable();
            format!("{query}\n----\n{}", rows.join("\n"))
        }
        None => record,
    }
}
