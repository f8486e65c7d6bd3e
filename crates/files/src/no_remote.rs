//! Refuses files over the network in a build without the feature `remote`.

use rowmill_base::{Cancel, Error, ErrorKind, Result};

use crate::location::FileLocation;
use crate::options::ReadOptions;
use crate::url_name::without_query;

pub(crate) fn locate(url: &str, _options: &ReadOptions) -> Result<Vec<FileLocation>> {
    Err(missing(url))
}

pub(crate) fn examine(_locations: &[FileLocation], _cancel: &Cancel) -> Result<()> {
    Ok(())
}

/// The error for a statement that names a URL.
pub(crate) fn missing(url: &str) -> Error {
    let what = format!("'{}' cannot be used: this build has no files over the network", without_query(url));
    Error::new(ErrorKind::Unsupported, what).hint("build with the feature `remote`, or copy the file to this machine")
}
