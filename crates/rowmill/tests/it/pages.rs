//! The project's documents must only name paths that exist.

use std::path::Path;

use crate::source_root;

const PAGES: &[&str] = &[
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "docs/glossary.md",
    "docs/testing.md",
    "docs/file-format.md",
    "docs/sql-semantics.md",
    "docs/durability.md",
    "docs/settings.md",
    "docs/statements.md",
];

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
    for page in PAGES {
        let text = std::fs::read_to_string(root.join(page)).unwrap_or_else(|error| panic!("{page}: {error}"));
        missing.extend(names(&text).filter(|name| !root.join(name).exists()).map(|name| format!("{page}: {name}")));
    }
    assert!(missing.is_empty(), "documents name paths that do not exist:\n{}", missing.join("\n"));
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
        let text = std::fs::read_to_string(folder.join("lib.rs")).expect("a library");
        let map: String = text.lines().filter(|line| line.starts_with("//!")).collect();
        let without_tests = text.replace("#[cfg(test)]\nmod ", "");
        let modules = without_tests.lines().filter_map(|line| line.trim_start_matches("pub ").strip_prefix("mod "));
        let modules = modules.map(|module| module.trim_end_matches(';'));
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
