//! The databases that this process has open, so that a directory that is opened twice is one database.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rowmill::{Database, Error, ErrorKind, Options};

/// Settings by their names, as texts.
pub(crate) type SettingTexts = Vec<(String, String)>;

/// A database that may be open, and the settings that it was opened with.
struct KnownDatabase {
    database: Weak<Database>,
    settings: SettingTexts,
}

/// The databases by their directory.
static OPEN: Mutex<Option<HashMap<PathBuf, KnownDatabase>>> = Mutex::new(None);

/// Opens a directory, or a database in memory. A directory that this process has open for writing is shared. Settings
/// belong to the whole database, so others than those of the first connection are an error.
pub(crate) fn open_shared(
    path: Option<&Path>,
    read_only: bool,
    settings: SettingTexts,
) -> rowmill::Result<Arc<Database>> {
    let set = |options: Options, (name, value): &(String, String)| options.set(name, value);
    let options = settings.iter().try_fold(Options::new().read_only(read_only), set)?;
    let Some(path) = path.filter(|path| !path.as_os_str().is_empty() && path.as_os_str() != ":memory:") else {
        return Database::memory_with(options).map(Arc::new);
    };
    if read_only {
        return Database::open_with(path, options).map(Arc::new);
    }
    // The lock is held while the directory opens, so that two threads do not open it at the same time.
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    let open = open.get_or_insert_default();
    open.retain(|_, known| known.database.strong_count() > 0);
    if let Ok(place) = path.canonicalize()
        && let Some(known) = open.get(&place)
        && let Some(database) = known.database.upgrade()
    {
        return if settings.is_empty() || settings == known.settings {
            Ok(database)
        } else {
            Err(other_settings(path))
        };
    }
    let database = Arc::new(Database::open_with(path, options)?);
    if let Ok(place) = path.canonicalize() {
        open.insert(place, KnownDatabase { database: Arc::downgrade(&database), settings });
    }
    Ok(database)
}

fn other_settings(path: &Path) -> Error {
    let what = format!("the database {} is open in this process, with other settings", path.display());
    Error::new(ErrorKind::InvalidParameter, what).hint("connect without settings, and change them with SET")
}
