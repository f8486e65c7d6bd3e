//! Finds the files of a path or pattern.
//!
//! A name matches as [`GlobPattern`] says, and `**` matches any number of folders. Files are sorted by their paths, so
//! that the same statement reads the same rows in the same order. A name that starts with a dot matches only a pattern
//! that starts with one. A path that exists as it is written is never treated as a pattern.

use std::fs;
use std::io::ErrorKind as IoKind;
use std::path::{Path, PathBuf};

use rowmill_base::{Error, ErrorKind, Result, nearest};
use rowmill_expr::glob::GlobPattern;

use crate::guard::own_error;

/// The maximum number of folders that `**` descends into.
const DEPTH_MAX: usize = 64;
/// The maximum number of names of a folder that are compared to suggest one.
const NAMES_MAX: usize = 10_000;

/// The files that `pattern` names, sorted. At least one.
pub(crate) fn expand(pattern: &str) -> Result<Vec<PathBuf>> {
    let pattern = pattern.strip_prefix("file://").unwrap_or(pattern);
    let path = Path::new(pattern);
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => Err(folder(pattern, path)),
        Ok(_) => Ok(vec![path.to_owned()]),
        Err(error) if error.kind() != IoKind::NotFound && error.kind() != IoKind::NotADirectory => {
            Err(unreadable(pattern, &error))
        }
        Err(_) if has_wildcard(pattern) => matching(pattern),
        Err(_) => Err(missing(pattern, path)),
    }
}

/// The error for a file that exists but cannot be read, or that no longer exists.
pub(crate) fn unreadable(path: &str, source: &std::io::Error) -> Error {
    if let Some(own) = own_error(source) {
        return own;
    }
    match source.kind() {
        IoKind::NotFound | IoKind::PermissionDenied => {
            Error::new(ErrorKind::UndefinedFile, format!("the file '{path}' cannot be read: {source}"))
        }
        _ => Error::io(format!("reading '{path}'"), source),
    }
}

fn folder(pattern: &str, path: &Path) -> Error {
    let error = Error::new(ErrorKind::UndefinedFile, format!("'{pattern}' is a folder"));
    let ending = file_names(path).iter().find_map(|name| name.rsplit_once('.').map(|(_, ending)| ending.to_owned()));
    let separator = if pattern.ends_with('/') { "" } else { "/" };
    let ending = ending.map(|ending| format!(".{ending}")).unwrap_or_default();
    error.hint(format!("name its files with a pattern: '{pattern}{separator}*{ending}'"))
}

fn missing(pattern: &str, path: &Path) -> Error {
    let error = Error::new(ErrorKind::UndefinedFile, format!("there is no file '{pattern}'"));
    let folder = path.parent().unwrap_or(Path::new(""));
    let shown = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    if !shown.is_dir() {
        return error.hint(format!("there is no folder '{}'", shown.display()));
    }
    let names = file_names(shown);
    let asked = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let near = nearest(&asked, names.iter().map(String::as_str));
    if near.is_empty() {
        let folder = fs::canonicalize(shown).unwrap_or_else(|_| shown.to_owned());
        return error.hint(format!("the folder '{}' has no file of a similar name", folder.display()));
    }
    let near: Vec<String> = near.iter().map(|name| format!("'{}'", folder.join(name).display())).collect();
    error.hint(format!("did you mean {}?", near.join(" or ")))
}

/// The names of the files and folders in `folder`, sorted. Empty if it cannot be read.
fn file_names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().take(NAMES_MAX);
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

pub(crate) fn has_wildcard(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

fn matching(pattern: &str) -> Result<Vec<PathBuf>> {
    let mut parts: Vec<&str> = pattern.split('/').collect();
    // Folders before the first wildcard need no search.
    let fixed = parts.iter().take_while(|part| !has_wildcard(part)).count();
    let mut root: PathBuf = parts.drain(..fixed).map(|part| if part.is_empty() { "/" } else { part }).collect();
    if fixed == 0 {
        root = PathBuf::new();
    }
    let mut found = Vec::new();
    descend(&root, &parts, DEPTH_MAX, &mut found)?;
    found.sort();
    // `**` may reach a file in more than one way.
    found.dedup();
    if found.is_empty() {
        return Err(Error::new(ErrorKind::UndefinedFile, format!("no file matches '{pattern}'")).hint(
            if root.as_os_str().is_empty() || root.is_dir() {
                "* and ? match within one name, ** matches any number of folders".to_owned()
            } else {
                format!("there is no folder '{}'", root.display())
            },
        ));
    }
    Ok(found)
}

/// Adds the files below `folder` that match `parts`.
fn descend(folder: &Path, parts: &[&str], depth: usize, found: &mut Vec<PathBuf>) -> Result<()> {
    let Some((part, rest)) = parts.split_first() else { return Ok(()) };
    if *part == "**" {
        descend(folder, if rest.is_empty() { &["*"] } else { rest }, depth, found)?;
    }
    let listed = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let entries = match fs::read_dir(listed) {
        Ok(entries) => entries,
        Err(error) if matches!(error.kind(), IoKind::NotFound | IoKind::NotADirectory) => return Ok(()),
        Err(error) => return Err(unreadable(&listed.display().to_string(), &error)),
    };
    for entry in entries {
        let entry = entry.map_err(|error| unreadable(&listed.display().to_string(), &error))?;
        let path = folder.join(entry.file_name());
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if *part == "**" {
            // We do not follow links to folders, because the walk might never end.
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_folder && !name.starts_with('.') && depth > 0 {
                descend(&path, parts, depth - 1, found)?;
            }
        } else if matches(part, &name) {
            match rest {
                [] if path.is_file() => found.push(path),
                [] => {}
                _ => descend(&path, rest, depth, found)?,
            }
        }
    }
    Ok(())
}

/// Whether the parts of a path match those of a pattern, by the rules of [`expand`].
// Folders on disk are walked instead.
#[cfg(any(test, feature = "remote"))]
pub(crate) fn matches_path(pattern: &[&str], path: &[&str]) -> bool {
    match (pattern.split_first(), path.split_first()) {
        (None, None) => true,
        (Some((&"**", rest)), Some((first, below))) => {
            let rest_here = if rest.is_empty() { &["*"] } else { rest };
            // `**` is this folder, or it goes down into one that is not hidden.
            matches_path(rest_here, path)
                || !below.is_empty() && !first.starts_with('.') && matches_path(pattern, below)
        }
        (Some((part, rest)), Some((first, below))) => matches(part, first) && matches_path(rest, below),
        _ => false,
    }
}

/// Whether `name` matches one part of a pattern.
fn matches(pattern: &str, name: &str) -> bool {
    (!name.starts_with('.') || pattern.starts_with('.')) && GlobPattern::new(pattern).matches(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_patterns() {
        for (pattern, name, expected) in [
            ("*", "a.csv", true),
            ("*", ".hidden", false),
            (".*", ".hidden", true),
            ("*.csv", "a.csv", true),
            ("*.csv", "a.csv.gz", false),
            ("part-[0-4].csv", "part-3.csv", true),
            ("part-[0-4].csv", "part-5.csv", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} against {name}");
        }
    }

    #[test]
    fn paths_match_patterns() {
        for (pattern, path, expected) in [
            ("a/*.csv", "a/b.csv", true),
            ("a/*.csv", "a/b/c.csv", false),
            ("*/*.csv", "a/b.csv", true),
            ("**/*.csv", "b.csv", true),
            ("**/*.csv", "a/b/c.csv", true),
            ("**/*.csv", "a/.b/c.csv", false),
            ("a/**", "a/b/c.csv", true),
            ("a/**", "a", false),
            ("year=*/*.parquet", "year=2026/a.parquet", true),
            ("**/x/*.csv", "a/x/b/x/c.csv", true),
        ] {
            let parts = |text: &'static str| text.split('/').collect::<Vec<_>>();
            assert_eq!(matches_path(&parts(pattern), &parts(path)), expected, "{pattern} against {path}");
        }
    }

    fn folder_with(names: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for name in names {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, "x").expect("written");
        }
        folder
    }

    fn expanded(folder: &tempfile::TempDir, pattern: &str) -> Vec<String> {
        let root = folder.path();
        let found = expand(&format!("{}/{pattern}", root.display())).expect("files");
        found.iter().map(|path| path.strip_prefix(root).expect("inside").display().to_string()).collect()
    }

    #[test]
    fn patterns_find_files_in_order() {
        let folder =
            folder_with(&["b.csv", "a.csv", "sub/c.csv", "sub/deep/d.csv", "sub/e.json", ".x/f.csv", "x[1].csv"]);
        assert_eq!(expanded(&folder, "*.csv"), ["a.csv", "b.csv", "x[1].csv"]);
        assert_eq!(expanded(&folder, "*/*.csv"), ["sub/c.csv"]);
        assert_eq!(expanded(&folder, "**/*.csv"), ["a.csv", "b.csv", "sub/c.csv", "sub/deep/d.csv", "x[1].csv"]);
        assert_eq!(expanded(&folder, "sub/**"), ["sub/c.csv", "sub/deep/d.csv", "sub/e.json"]);
        assert_eq!(expanded(&folder, "x[1].csv"), ["x[1].csv"], "a path that exists is not a pattern");
        assert_eq!(expanded(&folder, "[ab].csv"), ["a.csv", "b.csv"]);
    }

    #[test]
    fn the_error_for_a_missing_file_suggests_a_name() {
        let folder = folder_with(&["events.csv", "sub/a.parquet"]);
        let root = folder.path().display();
        let error = expand(&format!("{root}/evnts.csv")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UndefinedFile);
        assert!(error.hint_text().is_some_and(|hint| hint.contains("events.csv")), "{error}");
        let error = expand(&format!("{root}/sub")).unwrap_err();
        assert!(error.hint_text().is_some_and(|hint| hint.contains("sub/*.parquet")), "{error}");
        let error = expand(&format!("{root}/nowhere/*.csv")).unwrap_err();
        assert!(error.hint_text().is_some_and(|hint| hint.contains("no folder")), "{error}");
        let error = expand(&format!("{root}/nowhere/a.csv")).unwrap_err();
        assert!(error.hint_text().is_some_and(|hint| hint.contains("no folder")), "{error}");
        assert_eq!(expand(&format!("{root}/*.xml")).unwrap_err().kind(), ErrorKind::UndefinedFile);
    }
}
