//! The project's documents must only name paths that exist.

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

#[test]
fn every_crate_is_on_the_map() {
    let root = source_root();
    let map = std::fs::read_to_string(root.join("ARCHITECTURE.md")).expect("ARCHITECTURE.md can be read");
    for entry in std::fs::read_dir(root.join("crates")).expect("the crates") {
        let name = entry.expect("an entry").file_name().to_string_lossy().into_owned();
        assert!(map.contains(&format!("`crates/{name}`")), "ARCHITECTURE.md does not name crates/{name}");
    }
}
