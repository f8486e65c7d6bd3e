use std::path::{Path, PathBuf};

use crate::testing::Session;

fn slt_files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/slt/semantics");
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .expect("the folder of the semantics tests")
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "slt"))
        .collect();
    files.sort();
    assert!(!files.is_empty());
    files
}

#[test]
#[ignore = "the SQL suite runs the rules over the whole database; a bare session has no tables of ours"]
fn every_rule_holds_on_the_fallback_path() {
    for file in slt_files() {
        Session::new().run_slt(&file);
    }
}

/// Statements of a file, one a line, with their types and answers on the terminal: for looking at what a rule does.
#[test]
#[ignore = "needs STATEMENTS=file"]
#[allow(clippy::print_stdout)]
fn show_statements() {
    use sqllogictest::{DB, DBOutput};
    let Ok(file) = std::env::var("STATEMENTS") else { return };
    let mut session = Session::new();
    for sql in std::fs::read_to_string(file).expect("a readable file").lines().filter(|line| !line.trim().is_empty()) {
        println!("> {sql}");
        match session.run(sql) {
            Ok(batches) => {
                let types: Vec<String> = batches
                    .first()
                    .map(|batch| batch.schema().fields().iter().map(|field| field.data_type().to_string()).collect())
                    .unwrap_or_default();
                println!("    {}", types.join(", "));
                if let Ok(DBOutput::Rows { rows, .. }) = DB::run(&mut session, sql) {
                    rows.iter().take(12).for_each(|row| println!("    {}", row.join(" | ")));
                }
            }
            Err(error) => println!("    ERROR {} {error}", error.sqlstate()),
        }
    }
}
