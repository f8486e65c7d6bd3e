//! The examples of the documentation run: every page of `docs` and the READMEs, each in a folder of its own.
//!
//! - A block ```` ```sql ```` runs in the database `mydata` of the page's folder, ```` ```sh ```` in bash in that
//!   folder.
//! - A block ```` ```python ```` runs in that folder where Python (`PYTHON`, by default `python3`) has the modules.
//! - A block ```` ```text ```` right after one of these must equal the output of that block on a terminal of 80
//!   columns. A line `...` matches any lines, and `...` within a line matches any text; the spaces of such a line do
//!   not count. If a line begins with `ERROR`, the block must fail.
//! - A reason after the language keeps a block from running: ```` ```sh not run: needs Docker ````.
//! - A comment `<!-- sql`, `<!-- sh` or `<!-- stop the server` runs like a block and is not shown.
//! - In a table, each piece of code in a column `Rowmill` runs as statements of the shell, and each piece in a column
//!   `literal` as an expression. A comment `<!-- not run: reason` before a table keeps its pieces from running.
//! - After a block that begins with `rowmill serve` the server runs to the end of the page, and psql runs the SQL.
//!
//! `ROWMILL_PAGE=tutorial` runs one page. `ROWMILL_GOLDEN=write` writes what blocks print into the pages.

mod blocks;
mod place;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use blocks::{Action, Step, steps};
use place::PagePlace;

/// The root of the sources. A test that was built in one checkout may run in another one.
fn root() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo runs the tests");
    PathBuf::from(package).join("../..")
}

/// The pages whose examples run.
fn pages() -> Vec<PathBuf> {
    let mut pages = vec![root().join("README.md"), root().join("packaging/README.md")];
    for entry in std::fs::read_dir(root().join("docs")).expect("the documentation") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|ending| ending == "md") {
            pages.push(path);
        }
    }
    if let Ok(wanted) = std::env::var("ROWMILL_PAGE") {
        pages.retain(|page| page.file_stem().is_some_and(|stem| *stem == *wanted));
        assert!(!pages.is_empty(), "there is no page {wanted}");
    }
    pages.sort();
    pages
}

/// Whether `printed` is what the page says. `...` stands for any text, as a line for any lines.
fn is_as_expected(expected: &str, printed: &str) -> bool {
    fn lines_match(expected: &[&str], printed: &[&str]) -> bool {
        match expected.split_first() {
            None => printed.is_empty(),
            Some((&"...", rest)) => (0..=printed.len()).any(|skipped| lines_match(rest, &printed[skipped..])),
            Some((line, rest)) => printed
                .split_first()
                .is_some_and(|(first, others)| line_matches(line, first) && lines_match(rest, others)),
        }
    }
    fn line_matches(expected: &str, printed: &str) -> bool {
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        if expected.contains("...") {
            text_matches(&words(expected), &words(printed))
        } else {
            expected.trim_end() == printed.trim_end()
        }
    }
    fn text_matches(expected: &str, printed: &str) -> bool {
        let Some((start, rest)) = expected.split_once("...") else { return expected == printed };
        let Some(printed) = printed.strip_prefix(start) else { return false };
        let mut ends = printed.char_indices().map(|(at, _)| at).chain([printed.len()]);
        ends.any(|at| text_matches(rest, &printed[at..]))
    }
    let expected: Vec<&str> = expected.trim_end().lines().collect();
    let printed: Vec<&str> = printed.trim_end().lines().collect();
    lines_match(&expected, &printed)
}

/// Runs a step. Returns what it printed, or nothing if it was skipped, or the complaint if it did not do what the page
/// says.
fn run_step(place: &mut PagePlace, step: &Step) -> Result<Option<String>, String> {
    let ran = match step.action {
        Action::Sql => place.sql(&step.text),
        Action::Shell => place.shell(&step.text),
        Action::Python => place.python(&step.text),
        Action::Stop => {
            place.stop_server();
            None
        }
    };
    let Some(ran) = ran else { return Ok(None) };
    let wanted = step.expected.as_ref().map_or("", |expected| &expected.text);
    let should_fail = wanted.lines().any(|line| line.starts_with("ERROR"));
    if ran.succeeded == should_fail {
        let outcome = if should_fail { "must fail" } else { "fails" };
        return Err(format!("this {outcome}:\n{}\n{}", step.text, ran.printed));
    }
    Ok(Some(ran.printed))
}

/// Runs the examples of a page. Returns the complaints.
fn run_page(path: &Path) -> Vec<String> {
    let page = std::fs::read_to_string(path).expect("a page");
    let name = path.file_name().expect("a name").to_string_lossy();
    let (steps, mut complaints) = match steps(&page) {
        Ok(steps) => (steps, Vec::new()),
        Err(complaint) => return vec![format!("{name}:{complaint}")],
    };
    let write = std::env::var_os("ROWMILL_GOLDEN").is_some_and(|mode| mode == "write");
    let mut place = PagePlace::new();
    let mut written = Vec::new();
    for step in &steps {
        match (run_step(&mut place, step), &step.expected) {
            (Err(complaint), _) => complaints.push(format!("{name}:{}: {complaint}", step.line)),
            (Ok(Some(printed)), Some(expected)) if !is_as_expected(&expected.text, &printed) => {
                if write {
                    written.push((expected.lines.clone(), printed));
                } else {
                    let expected = &expected.text;
                    complaints.push(format!("{name}:{}: should print\n{expected}\nbut prints\n{printed}", step.line));
                }
            }
            _ => {}
        }
    }
    place.stop_server();
    if !written.is_empty() {
        let mut lines: Vec<&str> = page.lines().collect();
        for (range, printed) in written.iter().rev() {
            lines.splice(range.clone(), printed.trim_end().lines());
        }
        std::fs::write(path, lines.join("\n") + "\n").expect("the page is written");
    }
    complaints
}

#[test]
fn every_example_of_the_book_runs() {
    let (pages, next, complaints) = (pages(), AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(page) = pages.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let found = run_page(page);
                    complaints.lock().expect("no page panics").extend(found);
                }
            });
        }
    });
    let complaints = complaints.into_inner().expect("no page panics");
    assert!(complaints.is_empty(), "{}", complaints.join("\n\n"));
}

#[test]
fn dots_stand_for_any_text_and_any_lines() {
    assert!(is_as_expected("a\n...\nd", "a\nb\nc\nd\n"));
    assert!(is_as_expected("took   ... ms", "took 12 ms"));
    assert!(!is_as_expected("took ... ms", "took 12 s"));
    assert!(!is_as_expected("a\n...", "b"));
}
