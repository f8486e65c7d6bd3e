//! The folders to which the files of a statement are limited. A folder may also be a URL, for files below it.
//!
//! A path is compared only after the system has resolved it, so neither `..` nor a symbolic link leads out of a folder.
//! A path outside must give the same error whether it exists or not, so that the error tells nothing about it. We
//! resolve a path before we open it: a program of the same machine that may write into the folder could exchange a file
//! between the two. So the folders should belong to the user that runs the server.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rowmill_base::{Error, ErrorKind, Result};

use crate::pattern::has_wildcard;
use crate::url_name::{is_below, is_url, without_query};

/// The folders in which the files of a statement must lie. The default is no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileFolders(Option<Arc<AllowedFolders>>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct AllowedFolders {
    /// Folders, and single files, as the system resolves them.
    paths: Vec<PathBuf>,
    /// URLs below which files may lie.
    urls: Vec<String>,
}

impl FileFolders {
    /// Limits files to these folders and the folders inside of them. Returns an error if one is not a folder.
    pub fn only(folders: &[PathBuf]) -> Result<FileFolders> {
        let mut allowed = AllowedFolders { paths: Vec::new(), urls: Vec::new() };
        for folder in folders {
            if let Some(url) = folder.to_str().filter(|folder| is_url(folder)) {
                allowed.urls.push(url.to_owned());
                continue;
            }
            let found = folder.canonicalize().ok().filter(|found| found.is_dir());
            allowed.paths.push(found.ok_or_else(|| {
                let what = format!("\"{}\" is not a folder that can be read", folder.display());
                Error::new(ErrorKind::UndefinedFile, what)
            })?);
        }
        Ok(FileFolders(Some(Arc::new(allowed))))
    }

    /// The same folders, and one file outside of them. A file that does not exist adds nothing.
    #[must_use]
    pub fn with_file(self, file: &Path) -> FileFolders {
        match (self.0, file.canonicalize()) {
            (Some(folders), Ok(file)) => {
                let mut allowed = Arc::unwrap_or_clone(folders);
                allowed.paths.push(file);
                FileFolders(Some(Arc::new(allowed)))
            }
            (folders, _) => FileFolders(folders),
        }
    }

    /// Whether files are limited.
    #[cfg(any(test, feature = "remote"))]
    pub(crate) fn is_limited(&self) -> bool {
        self.0.is_some()
    }

    /// Checks a path, a URL or a pattern before anything is looked up.
    pub fn check_pattern(&self, pattern: &str) -> Result<()> {
        let Some(allowed) = &self.0 else { return Ok(()) };
        if is_url(pattern) {
            let is_allowed = allowed.urls.iter().any(|url| is_below(pattern, url));
            return if is_allowed { Ok(()) } else { Err(outside(without_query(pattern))) };
        }
        let folders = &allowed.paths;
        // The path of a file that `with_file` has added. It is compared again once the file is found.
        if Path::new(pattern).canonicalize().is_ok_and(|path| path.is_file() && folders.contains(&path)) {
            return Ok(());
        }
        let path = pattern.strip_prefix("file://").unwrap_or(pattern);
        let mut folder = PathBuf::new();
        let mut parts = Path::new(path).components().peekable();
        while let Some(part) = parts.next() {
            if part == Component::ParentDir {
                return Err(outside(pattern));
            }
            let is_open = part.as_os_str().to_str().is_none_or(has_wildcard);
            if is_open || parts.peek().is_none() {
                // The rest is found inside of `folder`, and each file that is found is checked again.
                if parts.any(|part| part == Component::ParentDir) {
                    return Err(outside(pattern));
                }
                break;
            }
            folder.push(part);
        }
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { &folder };
        check_inside(folders, folder, pattern)
    }

    /// Checks a file that exists.
    pub(crate) fn check_file(&self, path: &Path) -> Result<()> {
        match &self.0 {
            None => Ok(()),
            Some(allowed) => check_inside(&allowed.paths, path, &path.to_string_lossy()),
        }
    }
}

fn check_inside(folders: &[PathBuf], path: &Path, shown: &str) -> Result<()> {
    let resolved = path.canonicalize().map_err(|_| outside(shown))?;
    match folders.iter().any(|folder| resolved.starts_with(folder)) {
        true => Ok(()),
        false => Err(outside(shown)),
    }
}

fn outside(path: &str) -> Error {
    let what = format!("permission denied: the file '{path}' is not in a folder whose files may be used");
    Error::new(ErrorKind::InsufficientPrivilege, what)
        .hint("only superusers use files of the server everywhere; --files names folders for all others")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs;

    use super::*;

    #[test]
    fn neither_dots_nor_links_lead_out_of_a_folder() {
        let root = tempfile::tempdir().unwrap();
        let inside = root.path().join("inside");
        fs::create_dir_all(inside.join("deep")).unwrap();
        fs::create_dir(root.path().join("inside-not")).unwrap();
        fs::write(root.path().join("secret.csv"), "a\n1\n").unwrap();
        fs::write(inside.join("deep/a.csv"), "a\n1\n").unwrap();
        std::os::unix::fs::symlink(root.path(), inside.join("link")).unwrap();
        std::os::unix::fs::symlink(root.path().join("secret.csv"), inside.join("link.csv")).unwrap();
        let folders = FileFolders::only(std::slice::from_ref(&inside)).unwrap();
        let path = |end: &str| inside.join(end).to_string_lossy().into_owned();
        for good in ["deep/a.csv", "deep/*.csv", "*/a.csv", "new.csv", "**/*.csv"] {
            assert!(folders.check_pattern(&path(good)).is_ok(), "{good}");
        }
        for bad in ["../secret.csv", "deep/../../secret.csv", "link/secret.csv", "*/../../secret.csv", "link/*.csv"] {
            let error = folders.check_pattern(&path(bad)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InsufficientPrivilege, "{bad}");
        }
        for bad in ["/etc/passwd", "/no/such/file", "a.csv", &path("../inside-not/a.csv")] {
            assert!(folders.check_pattern(bad).is_err(), "{bad}");
        }
        assert!(folders.check_file(&inside.join("deep/a.csv")).is_ok());
        assert!(folders.check_file(&inside.join("link.csv")).is_err());
        let with_file = folders.clone().with_file(&root.path().join("secret.csv"));
        let secret = root.path().join("secret.csv").to_string_lossy().into_owned();
        assert!(with_file.check_pattern(&secret).is_ok() && with_file.check_file(Path::new(&secret)).is_ok());
        assert!(with_file.check_pattern(&root.path().join("*.csv").to_string_lossy()).is_err());
        assert!(with_file.check_pattern("/etc/passwd").is_err() && folders.check_pattern(&secret).is_err());
        assert!(FileFolders::default().check_pattern("/etc/passwd").is_ok());
        assert!(FileFolders::only(&[inside.join("none")]).is_err());
    }

    #[test]
    fn urls_must_lie_below_one_that_is_allowed() {
        let root = tempfile::tempdir().unwrap();
        let none = FileFolders::only(&[root.path().to_owned()]).unwrap();
        let error = none.check_pattern("https://host/a.csv?token=hidden").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InsufficientPrivilege);
        assert!(!error.message().contains("hidden"), "{error}");
        let some = FileFolders::only(&[root.path().to_owned(), "s3://open/data".into()]).unwrap();
        assert!(some.check_pattern("s3://open/data/*.parquet").is_ok());
        for bad in ["s3://open/datas/a.csv", "s3://open/data/../a.csv", "https://open/data/a.csv"] {
            assert_eq!(some.check_pattern(bad).unwrap_err().kind(), ErrorKind::InsufficientPrivilege, "{bad}");
        }
        assert!(FileFolders::default().check_pattern("https://host/a.csv").is_ok());
        assert!(!FileFolders::default().is_limited() && some.is_limited());
    }
}
