//! The files that a statement names: on disk or over the network.

use std::path::{Path, PathBuf};
#[cfg(feature = "remote")]
use std::sync::Arc;

use rowmill_base::Result;

use crate::options::ReadOptions;
use crate::pattern::expand;
use crate::remote;
use crate::url_name::is_url;

/// One file.
#[derive(Clone, Debug)]
pub(crate) enum FileLocation {
    Disk(PathBuf),
    #[cfg(feature = "remote")]
    Remote(Arc<remote::RemoteFile>),
}

impl FileLocation {
    /// The name as messages and the column `filename` show it.
    pub(crate) fn name(&self) -> String {
        self.path().display().to_string()
    }

    /// The path whose ending tells the format, and whose folders may be partitions: for a URL, all but its query.
    pub(crate) fn path(&self) -> &Path {
        match self {
            FileLocation::Disk(path) => path,
            #[cfg(feature = "remote")]
            FileLocation::Remote(file) => Path::new(file.name()),
        }
    }
}

/// The files of paths, URLs or patterns that a statement may read, in the order of the patterns.
pub(crate) fn locations_of(patterns: &[String], options: &ReadOptions) -> Result<Vec<FileLocation>> {
    let mut locations = Vec::new();
    for pattern in patterns {
        options.folders.check_pattern(pattern)?;
        if is_url(pattern) {
            locations.extend(remote::locate(pattern, options)?);
            continue;
        }
        for path in expand(pattern)? {
            options.folders.check_file(&path)?;
            locations.push(FileLocation::Disk(path));
        }
    }
    remote::examine(&locations, &options.cancel)?;
    Ok(locations)
}
