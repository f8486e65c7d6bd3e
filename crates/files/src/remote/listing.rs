//! Finds the files of a URL or of a pattern of a bucket.

use std::sync::Arc;

use futures_util::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore};
use rowmill_base::{Error, ErrorKind, Result};

use super::failure::{Attempt, failed};
use super::file::{Examined, RemoteFile, StartSpace};
use super::runtime::wait;
use super::store::{Asker, RemoteObject, S3Url};
use crate::location::FileLocation;
use crate::options::ReadOptions;
use crate::pattern::{has_wildcard, matches_path};
use crate::url_name::without_query;

/// The most objects of a bucket that one pattern looks at.
const LISTED_MAX: usize = 5_000_000;

/// The files of a URL, sorted. At least one.
pub(crate) fn locate(url: &str, options: &ReadOptions) -> Result<Vec<FileLocation>> {
    let asker = Asker { folders: &options.folders, secrets: &options.secrets };
    let space = StartSpace::new();
    let file = |object| RemoteFile::new(object, options.cancel.clone(), options.memory.clone(), space.clone());
    let Some(S3Url { bucket, key }) = S3Url::of(url)? else {
        if has_wildcard(without_query(url)) {
            let message = format!("'{url}' is a pattern, but servers of HTTP do not list their files");
            return Err(Error::new(ErrorKind::Unsupported, message).hint(
                "name each file: read_parquet(['https://...', 'https://...']); in a URL, * is %2A and [ is %5B",
            ));
        }
        return Ok(vec![FileLocation::Remote(Arc::new(file(asker.http(url)?)))]);
    };
    if !has_wildcard(key) {
        if key.ends_with('/') {
            return Err(Error::new(ErrorKind::UndefinedFile, format!("'{url}' is a folder"))
                .hint(format!("name its files with a pattern: '{url}*.parquet'")));
        }
        return Ok(vec![FileLocation::Remote(Arc::new(file(asker.s3(url, bucket, path_of(url, key)?)?)))]);
    }
    let parts: Vec<&str> = key.split('/').collect();
    // Folders before the first wildcard need no search.
    let fixed = parts.iter().take_while(|part| !has_wildcard(part)).count();
    let folder = asker.s3(url, bucket, path_of(url, &parts[..fixed].join("/"))?)?;
    let mut found = listed(folder.clone(), &parts, options)?;
    if found.is_empty() {
        return Err(Error::new(ErrorKind::UndefinedFile, format!("no file matches '{url}'"))
            .hint("* and ? match within one name, ** matches any number of folders"));
    }
    found.sort_by(|a, b| a.location.cmp(&b.location));
    let files = found.into_iter().map(|facts| {
        let name = format!("s3://{bucket}/{}", facts.location);
        let object = RemoteObject { path: facts.location.clone(), name, ..folder.clone() };
        let file = file(object);
        file.examined.set(Examined::Ranges(facts)).expect("the file is new");
        FileLocation::Remote(Arc::new(file))
    });
    Ok(files.collect())
}

/// The path of a key. Keys that a path cannot have, for example with an empty part, are not found in this way.
pub(super) fn path_of(url: &str, key: &str) -> Result<Path> {
    Path::parse(key).map_err(|error| {
        Error::new(ErrorKind::InvalidParameter, format!("'{url}' is not a URL that can be read: {error}"))
    })
}

/// The objects below a folder that match the parts of a pattern.
fn listed(folder: RemoteObject, parts: &[&str], options: &ReadOptions) -> Result<Vec<ObjectMeta>> {
    let parts: Vec<String> = parts.iter().map(|part| (*part).to_owned()).collect();
    wait(&options.cancel, async move {
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let failure = |error| failed(Attempt::List, &folder, &error);
        let mut objects = folder.store.list(Some(&folder.path));
        let (mut seen, mut found) = (0, Vec::new());
        while let Some(object) = objects.try_next().await.map_err(failure)? {
            seen += 1;
            if seen > LISTED_MAX {
                let message = format!("'{}' has more than {LISTED_MAX} files below it", folder.name);
                return Err(
                    Error::new(ErrorKind::UndefinedFile, message).hint("name a longer folder before the first *")
                );
            }
            let path: Vec<&str> = object.location.as_ref().split('/').collect();
            if matches_path(&parts, &path) {
                found.push(object);
            }
        }
        Ok::<_, Error>(found)
    })?
}
