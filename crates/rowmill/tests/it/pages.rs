//! The project's documents must only name paths that exist.

use std::path::{Path, PathBuf};

use crate::source_root;

/// The pages beside those of `docs`.
const PAGES: &[&str] = &[
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "python/README.md",
    "packaging/README.md",
    "crates/rowmill/README.md",
];

/// All pages, by their paths from the root.
fn pages() -> Vec<String> {
    let mut pages: Vec<String> = PAGES.iter().map(|page| (*page).to_owned()).collect();
    for entry in std::fs::read_dir(source_root().join("docs")).expect("the documentation") {
        let name = entry.expect("an entry").file_name().into_string().expect("a name in UTF-8");
        if name.ends_with(".md") {
            pages.push(format!("docs/{name}"));
        }
    }
    pages.sort();
    pages
}

fn read_page(page: &str) -> String {
    std::fs::read_to_string(source_root().join(page)).unwrap_or_else(|error| panic!("{page}: {error}"))
}

/// The targets of the links of a page: `[text](target)`.
fn links(page: &str) -> impl Iterator<Item = &str> {
    let targets = page.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    targets.map(|(target, _)| target).filter(|target| !target.contains("://") && !target.contains(char::is_whitespace))
}

/// The names by which links can reach the headings of a page, as GitHub and mdBook make them.
fn anchors(page: &str) -> Vec<String> {
    let headings = page.lines().filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| {
        let text = heading.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
        text.chars().filter(|letter| letter.is_alphanumeric() || matches!(letter, '-' | '_')).collect()
    };
    headings.map(anchor).collect()
}

#[test]
fn every_link_on_a_page_leads_somewhere() {
    let mut wrong = Vec::new();
    for page in pages() {
        let text = read_page(&page);
        let folder = source_root().join(&page).parent().expect("a folder").to_owned();
        for link in links(&text) {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() { source_root().join(&page) } else { folder.join(path) };
            let is_there = target.exists()
                && (anchor.is_empty() || {
                    let text = std::fs::read_to_string(&target).expect("a page");
                    anchors(&text).iter().any(|known| known == anchor)
                });
            if !is_there {
                wrong.push(format!("{page}: {link}"));
            }
        }
    }
    assert!(wrong.is_empty(), "links lead nowhere:\n{}", wrong.join("\n"));
}

#[test]
fn every_page_of_the_documentation_is_a_chapter_of_the_book() {
    let summary = read_page("docs/SUMMARY.md");
    let chapters: Vec<&str> = links(&summary).collect();
    let pages = pages();
    let own = pages.iter().filter_map(|page| page.strip_prefix("docs/"));
    let missing: Vec<&str> = own.filter(|page| *page != "SUMMARY.md" && !chapters.contains(page)).collect();
    assert!(missing.is_empty(), "docs/SUMMARY.md does not name {}", missing.join(", "));
}

#[test]
fn the_page_of_copy_has_the_options_that_exist() {
    let page = read_page("docs/copy.md");
    let section = |title: &str| page.split(title).nth(1).and_then(|rest| rest.split("\n#").next()).expect("a section");
    let listed = |title: &str| -> Vec<String> {
        let rows = section(title).lines().filter(|line| line.starts_with("| `"));
        rows.filter_map(|row| row.split('`').nth(1)).map(str::to_owned).collect()
    };
    let mut connection = rowmill::Connection::open_in_memory().expect("a database");
    connection.execute("CREATE TABLE t (a INTEGER)", ()).expect("a table");
    let mut known = |statement: &str| -> Vec<String> {
        let error = connection.execute(statement, ()).expect_err("there is no such option");
        let hint = error.hint_text().expect("the error lists the options").to_owned();
        let names = hint.strip_prefix("the options are ").expect("a list of options");
        names.split(", ").map(str::to_owned).collect()
    };
    assert_eq!(listed("### Options of COPY ... FROM"), known("COPY t FROM 'x.csv' (zzzzzzzzzz 1)"));
    assert_eq!(listed("### Options of COPY ... TO"), known("COPY t TO 'x.csv' (zzzzzzzzzz 1)"));
}

/// Returns the words between backticks that look like a path of the repository.
fn names(page: &str) -> impl Iterator<Item = &str> {
    page.split('`').skip(1).step_by(2).filter(|word| {
        let path = ["crates/", "docs/", "tests/", "bench/", ".ci/"].iter().any(|start| word.starts_with(start));
        let page = word.ends_with(".md") || *word == "LICENSE" || *word == "Cargo.toml";
        (path || page) && !word.contains(char::is_whitespace)
    })
}

#[test]
fn every_path_on_a_page_exists() {
    let root = source_root();
    let mut missing = Vec::new();
    for page in pages() {
        let text = read_page(&page);
        missing.extend(names(&text).filter(|name| !root.join(name).exists()).map(|name| format!("{page}: {name}")));
    }
    assert!(missing.is_empty(), "documents name paths that do not exist:\n{}", missing.join("\n"));
}

#[test]
fn the_page_of_errors_has_every_kind() {
    let source = read_page("crates/base/src/error.rs");
    let kinds =
        source.split("\nkinds! {\n").nth(1).and_then(|rest| rest.split("\n}").next()).expect("the list of kinds");
    let page = read_page("docs/errors.md");
    let row = |line: &str| {
        let (name, code) = line.trim().trim_end_matches(',').split_once(" = ")?;
        Some(format!("| `{}` | {name} |", code.trim_matches('"')))
    };
    let missing: Vec<String> = kinds.lines().filter_map(row).filter(|row| !page.contains(row)).collect();
    assert!(missing.is_empty(), "docs/errors.md lacks these rows:\n{}", missing.join("\n"));
}

/// The most source files of a crate without a map.
const FILES_WITHOUT_MAP_MAX: usize = 20;

/// Returns the number of source files below `folder`.
fn sources(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).expect("a folder of sources").map(|entry| entry.expect("an entry").path());
    entries.map(|path| if path.is_dir() { sources(&path) } else { 1 }).sum()
}

#[test]
fn every_large_crate_has_a_map_of_its_modules() {
    let mut missing = Vec::new();
    for entry in std::fs::read_dir(source_root().join("crates")).expect("the crates") {
        let folder = entry.expect("an entry").path().join("src");
        if sources(&folder) <= FILES_WITHOUT_MAP_MAX {
            continue;
        }
        let root = if folder.join("lib.rs").exists() { "lib.rs" } else { "main.rs" };
        let text = std::fs::read_to_string(folder.join(root)).expect("a library or a binary");
        let map: String = text.lines().filter(|line| line.starts_with("//!")).collect();
        let without_tests = text.replace("#[cfg(test)]\nmod ", "");
        let modules = without_tests.lines().filter_map(|line| line.trim_start_matches("pub ").strip_prefix("mod "));
        // A module in the file itself needs no map.
        let modules = modules.filter_map(|module| module.strip_suffix(';'));
        let lost =
            modules.filter(|module| !map.contains(&format!("`{module}`")) && !map.contains(&format!("[`{module}")));
        missing.extend(lost.map(|module| format!("{}: {module}", folder.display())));
    }
    assert!(missing.is_empty(), "the maps at the top of these libraries lack modules:\n{}", missing.join("\n"));
}

#[test]
fn every_crate_is_on_the_map() {
    let root = source_root();
    let map = std::fs::read_to_string(root.join("ARCHITECTURE.md")).expect("ARCHITECTURE.md can be read");
    for entry in std::fs::read_dir(root.join("crates")).expect("the crates") {
        let name = entry.expect("an entry").file_name().to_string_lossy().into_owned();
        assert!(map.contains(&format!("`crates/{name}`")), "ARCHITECTURE.md does not name crates/{name}");
    }
}

/// A row of the table in CONTRIBUTING.md that names the files to touch for a change.
struct ChangeRow {
    change: String,
    /// Paths of files, or of folders that get a file.
    paths: Vec<String>,
    /// A word of the code that an earlier change of this kind has added.
    example: String,
}

/// The rows of the table "Where changes go".
fn change_rows(page: &str) -> Vec<ChangeRow> {
    let section = page.split("\n## Where changes go\n").nth(1).expect("the section exists");
    let rows = section.lines().skip_while(|line| !line.starts_with("| ---")).skip(1);
    let row = |line: &str| {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [change, files, example] = cells[..] else { panic!("a row has three cells: {line}") };
        let paths = files.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        ChangeRow { change: change.to_owned(), paths, example: example.trim_matches('`').to_owned() }
    };
    rows.take_while(|line| line.starts_with('|')).map(row).collect()
}

/// The source files of the product below a folder, without tests.
fn product_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder of the sources") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name in UTF-8");
        if path.is_dir() && name != "tests" {
            product_files(&path, found);
        } else if name.ends_with(".rs") && !name.ends_with("tests.rs") {
            found.push(path);
        }
    }
}

#[test]
fn a_change_touches_no_other_file_than_the_table_says() {
    let root = source_root();
    let page = std::fs::read_to_string(root.join("CONTRIBUTING.md")).expect("CONTRIBUTING.md can be read");
    let rows = change_rows(&page);
    assert_eq!(rows.len(), 10, "the table has ten kinds of changes");
    let mut files = Vec::new();
    for entry in std::fs::read_dir(root.join("crates")).expect("the crates") {
        product_files(&entry.expect("a crate").path().join("src"), &mut files);
    }
    let mut wrong = Vec::new();
    for ChangeRow { change, paths, example } in rows {
        let files_max = match &*change {
            "aggregate" | "SQL function" => 2,
            "encoding" => 3,
            _ => 6,
        };
        if paths.len() > files_max {
            wrong.push(format!("{change}: {} files are too many", paths.len()));
        }
        let missing = paths.iter().filter(|path| !root.join(path).exists());
        wrong.extend(missing.map(|path| format!("{change}: {path} does not exist")));
        // The word must occur in the files of the table, and in no other.
        let has_word = |path: &&PathBuf| {
            let text = std::fs::read_to_string(path).expect("a source file");
            let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
            let is_part = |byte: Option<char>| byte.is_some_and(|byte| byte.is_alphanumeric() || byte == '_');
            text.match_indices(&*example).any(|(at, _)| {
                !is_part(text[..at].chars().next_back()) && !is_part(text[at + example.len()..].chars().next())
            })
        };
        let found: Vec<String> = files
            .iter()
            .filter(has_word)
            .map(|path| path.strip_prefix(&root).expect("below the root").to_string_lossy().replace('\\', "/"))
            .collect();
        if found.is_empty() {
            wrong.push(format!("{change}: no file has the word {example}"));
        }
        let is_listed = |file: &&String| paths.iter().any(|path| file.starts_with(&**path));
        wrong
            .extend(found.iter().filter(|file| !is_listed(file)).map(|file| format!("{change}: {file} has {example}")));
    }
    assert!(wrong.is_empty(), "the table in CONTRIBUTING.md is wrong:\n{}", wrong.join("\n"));
}
