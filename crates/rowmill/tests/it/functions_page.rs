//! `docs/functions.md` lists the functions of the registry. `ROWMILL_GOLDEN=write` writes the list into the page.

use std::fmt::Write;

use rowmill::Connection;

use crate::source_root;

/// The line of the page after which the list is generated.
const MARK: &str = "<!-- The rest is generated from the registry of functions. -->\n";

/// A function: its name, family, other names, description, and an example with its result.
type FunctionRow = (String, String, Option<String>, String, String, String);

/// A text as code in a cell of a table.
fn code(text: &str) -> String {
    let escaped = text.replace('|', "\\|");
    // Code that has a backtick needs two of them around it.
    if escaped.contains('`') { format!("`` {escaped} ``") } else { format!("`{escaped}`") }
}

/// The list of all functions, a section for each family.
fn generated() -> String {
    let mut connection = Connection::open_in_memory().expect("a database");
    let rows: Vec<FunctionRow> = connection
        .query_as("SELECT name, family, aliases, description, example, result FROM rowmill_functions()", ())
        .expect("the functions");
    let (mut list, mut last) = (String::new(), String::new());
    for (name, family, aliases, description, example, result) in rows {
        if family != last {
            let title = family[..1].to_uppercase() + &family[1..];
            let head = "| function | what it gives | example | result |\n| --- | --- | --- | --- |";
            let _ = writeln!(list, "\n## {title} functions\n\n{head}");
            last = family;
        }
        let others: Vec<String> = aliases.iter().flat_map(|names| names.split(", ")).map(code).collect();
        let names = [code(&name)].into_iter().chain(others).collect::<Vec<_>>().join(", ");
        let description = description.replace('|', "\\|");
        let _ = writeln!(list, "| {names} | {description} | {} | {} |", code(&example), code(&result));
    }
    list
}

#[test]
fn the_page_of_functions_is_that_of_the_registry() {
    let path = source_root().join("docs/functions.md");
    let page = std::fs::read_to_string(&path).expect("docs/functions.md can be read");
    let (head, list) = page.split_once(MARK).expect("the page has the mark");
    let wanted = generated();
    if std::env::var_os("ROWMILL_GOLDEN").is_some_and(|mode| mode == "write") {
        std::fs::write(&path, format!("{head}{MARK}{wanted}")).expect("the page is written");
        return;
    }
    let missing: Vec<&str> = wanted.lines().filter(|line| !list.contains(line)).collect();
    assert!(
        list == wanted,
        "docs/functions.md differs from the registry; this writes it: ROWMILL_GOLDEN=write cargo test -p rowmill \
         --test it page_of_functions\nmissing lines:\n{}",
        missing.join("\n")
    );
}
