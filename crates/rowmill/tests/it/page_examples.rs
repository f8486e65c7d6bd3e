//! The examples in Rust of the README and of `docs/rust.md`. A test compares the pages with this file, and another one
//! runs them.

use std::process::Command;

use crate::source_root;

mod readme {
    pub(super) fn run() -> rowmill::Result<()> {
        let mut connection = rowmill::Connection::open("mydata")?;
        let slow: Vec<(String, i64)> = connection.query_as("SELECT page, ms FROM visits WHERE ms > ?", [20])?;
        assert_eq!(slow, [("/docs".to_owned(), 40)]);
        Ok(())
    }
}

#[allow(clippy::print_stdout)]
mod rust_page {
    pub(super) fn run() -> rowmill::Result<()> {
        use rowmill::{Connection, named_params, params};

        let mut connection = Connection::open("mydata")?;
        connection.execute_batch("CREATE TABLE visits (page TEXT, ms INTEGER); CREATE TABLE pages (page TEXT)")?;
        connection.execute("INSERT INTO visits VALUES (?, ?)", ("/docs", 40))?;
        connection.execute("INSERT INTO visits VALUES (:page, :ms)", named_params! { ":page": "/", ":ms": 3 })?;
        connection.execute("INSERT INTO visits VALUES (?, ?)", params!["/", 5])?;

        let slowest: i64 = connection.query_row("SELECT max(ms) FROM visits", (), |row| row.get(0))?;
        let pages: Vec<(String, f64)> = connection.query_as("SELECT page, avg(ms) FROM visits GROUP BY page", ())?;
        for row in connection.query_with("SELECT * FROM visits WHERE ms > ?", [10])?.row_iter() {
            println!("{}", row?.get::<&str>("page")?);
        }
        assert_eq!((slowest, pages.len()), (40, 2));
        Ok(())
    }
}

#[test]
#[ignore = "runs in a folder of its own, by `the_rust_examples_of_the_pages_run`"]
fn examples_in_this_folder() {
    rust_page::run().expect("docs/rust.md");
    readme::run().expect("README.md");
}

#[test]
fn the_rust_examples_of_the_pages_run() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let ran = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "page_examples::examples_in_this_folder", "--ignored"])
        .current_dir(folder.path())
        .output()
        .expect("it runs");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stdout));
}

#[test]
fn the_rust_examples_of_the_pages_are_those_that_run() {
    let own = include_str!("page_examples.rs");
    let own: Vec<&str> = own.lines().map(str::trim).collect();
    for page in ["README.md", "docs/rust.md"] {
        let text = std::fs::read_to_string(source_root().join(page)).expect("a page");
        for block in text.split("\n```rust\n").skip(1) {
            let lines = block.split("\n```").next().expect("a block").lines().map(str::trim);
            let missing: Vec<&str> = lines.filter(|line| !own.contains(line)).collect();
            assert!(missing.is_empty(), "{page} has lines that are not in page_examples.rs:\n{}", missing.join("\n"));
        }
    }
}
