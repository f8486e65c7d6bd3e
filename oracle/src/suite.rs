//! Runs the queries of the SQL suite in DataFusion, over the tables that Rowmill has at that moment.
//!
//! We do not read the suite's own answers. Its records run in Rowmill, and each query that gives rows there also goes
//! to DataFusion. If DataFusion does not support a query or has other rules for it, we count the query by that reason.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rowmill::{Connection, Database};
use sqllogictest::{DefaultColumnType, Record};

use crate::cell::Answer;
use crate::datafusion::Fusion;
use crate::differences::in_suite;
use crate::engine::Oracle;
use crate::mill::Mill;

/// The counts of the suite.
#[derive(Default)]
pub struct SuiteCounts {
    pub compared: u64,
    pub refused: u64,
    pub known: BTreeMap<&'static str, u64>,
    pub differences: usize,
}

/// Runs every file below `folder`.
pub fn run(folder: &Path) -> Result<SuiteCounts, String> {
    let mut counts = SuiteCounts::default();
    let mut files = Vec::new();
    collect(folder, &mut files)?;
    files.sort();
    for file in files {
        run_file(&file, &mut counts)?;
    }
    Ok(counts)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for entry in entries {
        let path = entry.map_err(|error| error.to_string())?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "slt") {
            files.push(path);
        }
    }
    Ok(())
}

fn run_file(file: &Path, counts: &mut SuiteCounts) -> Result<(), String> {
    let records = sqllogictest::parse_file::<DefaultColumnType>(file).map_err(|error| error.to_string())?;
    let mut mill = Mill::new();
    let mut fusion = Fusion::new();
    let mut stale = true;
    for record in records {
        match record {
            Record::Statement { sql, .. } => {
                // The statement may have changed tables, so the copies are out of date. We copy them only before the
                // next query.
                mill.run(&sql);
                stale = true;
            }
            Record::Query { sql, .. } => {
                let ours = mill.run(&sql);
                let Answer::Rows(ours_rows) = &ours else { continue };
                let first = sql.split_whitespace().next().unwrap_or_default().to_lowercase();
                if !["select", "with", "values"].contains(&first.as_str()) {
                    stale = true;
                    continue;
                }
                if stale {
                    fusion = Fusion::new();
                    copy_tables(mill.database(), &mut fusion)?;
                    stale = false;
                }
                // The records of the suite do not say whether an order is total, so we compare without order.
                let ordered = false;
                match fusion.run(&sql) {
                    Answer::Rows(theirs) if Answer::same_rows(ours_rows, &theirs, ordered) => counts.compared += 1,
                    Answer::Rows(theirs) => match in_suite(&sql) {
                        Some(why) => *counts.known.entry(why).or_default() += 1,
                        None => {
                            counts.differences += 1;
                            println!("== {}: {sql}", file.display());
                            crate::run::show("datafusion", &ours, &Answer::Rows(theirs));
                        }
                    },
                    _ => counts.refused += 1,
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Copies the committed tables of `database` to `fusion`.
fn copy_tables(database: &Database, fusion: &mut Fusion) -> Result<(), String> {
    let mut connection = database.connect().map_err(|error| error.to_string())?;
    let list = "SELECT table_name FROM information_schema.tables WHERE table_type = 'BASE TABLE'";
    let rows = connection.query(list).and_then(rowmill::Rows::rows).map_err(|error| error.to_string())?;
    for row in rows {
        let name: String = row.get(0).map_err(|error| error.to_string())?;
        // We skip a table in another schema, or of a type that DataFusion lacks. A query on it then fails in
        // DataFusion.
        if let Ok(batches) = batches(&mut connection, &name) {
            fusion.register(&name, batches).ok();
        }
    }
    Ok(())
}

fn batches(connection: &mut Connection, table: &str) -> rowmill::Result<Vec<rowmill::arrow::array::RecordBatch>> {
    let rows = connection.query(&format!("SELECT * FROM \"{table}\""))?;
    let schema = rows.schema().clone();
    let mut batches = rows.batches()?;
    if batches.is_empty() {
        batches.push(rowmill::arrow::array::RecordBatch::new_empty(schema));
    }
    Ok(batches)
}
