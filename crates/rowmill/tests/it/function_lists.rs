//! The functions of PostgreSQL and DuckDB that this database has, counted from the lists in docs/functions. A list has
//! a line for each function: its name, and `yes` or `no`. `ROWMILL_GOLDEN=write` writes the second word again.

use std::collections::BTreeMap;

use rowmill::Connection;

use crate::source_root;

/// A list of the functions of another database.
struct FunctionList {
    file: &'static str,
    /// Its lines before the first function.
    head: String,
    functions: BTreeMap<String, bool>,
}

impl FunctionList {
    fn read(file: &'static str) -> FunctionList {
        let text = std::fs::read_to_string(source_root().join(file)).unwrap();
        let (head, lines): (Vec<&str>, Vec<&str>) =
            text.lines().partition(|line| line.starts_with('#') || line.is_empty());
        let functions = lines.iter().map(|line| {
            let (name, status) = line.split_once(' ').unwrap_or_else(|| panic!("{file}: {line}"));
            assert!(matches!(status, "yes" | "no"), "{file}: {line}");
            (name.to_owned(), status == "yes")
        });
        FunctionList { file, head: head.join("\n"), functions: functions.collect() }
    }

    fn write(&self, present: &BTreeMap<String, bool>) {
        let lines = self.functions.keys().map(|name| format!("{name} {}", if present[name] { "yes" } else { "no" }));
        let lines: Vec<String> = lines.collect();
        std::fs::write(source_root().join(self.file), format!("{}\n{}\n", self.head, lines.join("\n"))).unwrap();
    }
}

/// Whether a statement can name the function, in any of the forms in which functions are called.
fn exists(connection: &mut Connection, name: &str) -> bool {
    let forms = [
        format!("SELECT {name}()"),
        format!("SELECT {name}(NULL)"),
        format!("SELECT {name}(NULL, NULL)"),
        format!("SELECT {name}(NULL, NULL, NULL)"),
        format!("SELECT * FROM {name}()"),
        format!("SELECT * FROM {name}('')"),
        format!("SELECT {name}(NULL) OVER (ORDER BY 1) FROM (VALUES (1)) AS t(x)"),
    ];
    let is_known = |error: &rowmill::Error| {
        let message = error.to_string();
        !message.contains("there is no function") && !message.contains("there is no table function")
    };
    let is_called = |connection: &mut Connection, sql: &str| match connection.query_as::<Option<String>>(sql, ()) {
        Ok(_) => true,
        // A form that cannot be parsed says nothing about the name.
        Err(error) => error.kind() != rowmill::ErrorKind::Syntax && is_known(&error),
    };
    // Some words, such as current_user, are functions without parentheses.
    forms.iter().any(|sql| is_called(connection, sql))
        || name.starts_with("current_") && connection.query_as::<Option<String>>(&format!("SELECT {name}"), ()).is_ok()
        || matches!(name, "user" | "session_user")
            && connection.query_as::<Option<String>>(&format!("SELECT {name}"), ()).is_ok()
}

fn share(functions: impl Iterator<Item = bool>) -> f64 {
    let functions: Vec<bool> = functions.collect();
    functions.iter().filter(|is_present| **is_present).count() as f64 / functions.len() as f64
}

#[test]
fn the_shares_of_the_functions_of_postgresql_and_duckdb_do_not_fall() {
    let mut connection = Connection::open_in_memory().unwrap();
    let lists = ["docs/functions/postgresql.txt", "docs/functions/duckdb.txt"].map(FunctionList::read);
    let mut present = BTreeMap::new();
    for name in lists.iter().flat_map(|list| list.functions.keys()) {
        if !present.contains_key(name) {
            present.insert(name.clone(), exists(&mut connection, name));
        }
    }
    if std::env::var_os("ROWMILL_GOLDEN").is_some_and(|mode| mode == "write") {
        lists.iter().for_each(|list| list.write(&present));
    }
    for list in lists.iter().map(|list| FunctionList::read(list.file)) {
        let other = |(name, listed): (&String, &bool)| (present[name] != *listed).then(|| name.clone());
        let wrong: Vec<String> = list.functions.iter().filter_map(other).collect();
        assert!(
            wrong.is_empty(),
            "{}: the lines of these functions are wrong: {}; ROWMILL_GOLDEN=write corrects them",
            list.file,
            wrong.join(", ")
        );
    }
    let [postgresql, duckdb] = &lists;
    let shared = postgresql.functions.keys().filter(|name| duckdb.functions.contains_key(*name));
    let shares = [
        ("in both PostgreSQL and DuckDB", share(shared.map(|name| present[name]))),
        ("in PostgreSQL", share(postgresql.functions.keys().map(|name| present[name]))),
        ("in DuckDB", share(duckdb.functions.keys().map(|name| present[name]))),
    ];
    let page = std::fs::read_to_string(source_root().join("docs/functions/README.md")).unwrap();
    for (of, share) in shares {
        let row =
            page.lines().find_map(|line| line.strip_prefix(&format!("| {of} | "))).expect("the page has the share");
        let least: f64 = row.trim_end_matches(" % |").parse().expect("a share in percent");
        let percent = (share * 1_000.0).floor() / 10.0;
        assert!(
            percent >= least,
            "{percent} % of the functions {of} exist here, but docs/functions/README.md says {least} %"
        );
        assert!(
            percent < least + 1.0,
            "docs/functions/README.md can say that {percent} % of the functions {of} exist here"
        );
    }
}

/// Binder and evaluator are tested with the examples of the registry elsewhere; here whole queries run.
#[test]
fn every_listed_example_gives_its_result() {
    let mut connection = Connection::open_in_memory().unwrap();
    let rows =
        connection.query_as::<(String, String, String)>("SELECT name, example, result FROM rowmill_functions()", ());
    let mut wrong = Vec::new();
    for (name, example, result) in rows.unwrap() {
        let place = example.find(" FROM (").unwrap_or(example.len());
        let (call, from) = example.split_at(place);
        let shown = connection.query_as::<String>(&format!("SELECT CAST({call} AS TEXT){from}"), ());
        match shown {
            Ok(shown) if shown == [result.clone()] => {}
            other => wrong.push(format!("{name}: SELECT {example} gives {other:?} instead of {result}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
