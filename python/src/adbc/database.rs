//! The driver and its databases.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use adbc_core::options::{OptionConnection, OptionDatabase, OptionValue};
use adbc_core::{Database, Driver, Optionable};

use crate::adbc::connection::AdbcConnection;
use crate::adbc::errors::{AdbcResult, adbc_error, no_option, wrong_argument};
use crate::open_databases::{SettingTexts, open_shared};

/// The option with which a database is opened only for reading.
const READ_ONLY: &str = "rowmill.read_only";
/// The prefix of options that are settings of the database.
const SETTING_PREFIX: &str = "rowmill.";

/// The driver.
#[derive(Default)]
pub(super) struct RowmillDriver;

impl Driver for RowmillDriver {
    type DatabaseType = AdbcDatabase;

    fn new_database(&mut self) -> AdbcResult<AdbcDatabase> {
        Ok(AdbcDatabase::default())
    }

    fn new_database_with_opts(
        &mut self,
        options: impl IntoIterator<Item = (OptionDatabase, OptionValue)>,
    ) -> AdbcResult<AdbcDatabase> {
        let mut database = AdbcDatabase::default();
        options.into_iter().try_for_each(|(key, value)| database.set_option(key, value))?;
        Ok(database)
    }
}

/// A database, which opens with its first connection: the directory that `uri` names, or one in memory.
#[derive(Default)]
pub(super) struct AdbcDatabase {
    path: Option<String>,
    read_only: bool,
    settings: SettingTexts,
    opened: Mutex<Option<Arc<rowmill::Database>>>,
}

impl AdbcDatabase {
    fn open(&self) -> AdbcResult<Arc<rowmill::Database>> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(database) = &*opened {
            return Ok(Arc::clone(database));
        }
        let path = self.path.as_deref().map(Path::new);
        let database = open_shared(path, self.read_only, self.settings.clone()).map_err(|error| adbc_error(&error))?;
        Ok(Arc::clone(opened.insert(database)))
    }
}

impl Database for AdbcDatabase {
    type ConnectionType = AdbcConnection;

    fn new_connection(&self) -> AdbcResult<AdbcConnection> {
        AdbcConnection::open(self.open()?)
    }

    fn new_connection_with_opts(
        &self,
        options: impl IntoIterator<Item = (OptionConnection, OptionValue)>,
    ) -> AdbcResult<AdbcConnection> {
        let mut connection = self.new_connection()?;
        options.into_iter().try_for_each(|(key, value)| connection.set_option(key, value))?;
        Ok(connection)
    }
}

/// The text of an option.
pub(super) fn text_of(key: &str, value: OptionValue) -> AdbcResult<String> {
    match value {
        OptionValue::String(text) => Ok(text),
        OptionValue::Int(number) => Ok(number.to_string()),
        OptionValue::Double(number) => Ok(number.to_string()),
        _ => Err(wrong_argument(format!("the option {key} is a text, not bytes"))),
    }
}

/// The path that a URI names: `file:path`, `rowmill:path`, or a path.
fn path_of(uri: &str) -> &str {
    let path = uri.strip_prefix("file:").or_else(|| uri.strip_prefix("rowmill:")).unwrap_or(uri);
    path.strip_prefix("//").unwrap_or(path)
}

impl Optionable for AdbcDatabase {
    type Option = OptionDatabase;

    fn set_option(&mut self, key: OptionDatabase, value: OptionValue) -> AdbcResult<()> {
        let name = key.as_ref().to_owned();
        match key {
            OptionDatabase::Uri => self.path = Some(path_of(&text_of(&name, value)?).to_owned()),
            OptionDatabase::Other(ref other) if other == "path" => self.path = Some(text_of(&name, value)?),
            OptionDatabase::Other(ref other) if other == READ_ONLY => self.read_only = bool::try_from(value)?,
            OptionDatabase::Other(ref other) => match other.strip_prefix(SETTING_PREFIX) {
                Some(setting) => self.settings.push((setting.to_owned(), text_of(&name, value)?)),
                None => return Err(no_option(&name)),
            },
            _ => return Err(no_option(&name)),
        }
        Ok(())
    }

    fn get_option_string(&self, key: OptionDatabase) -> AdbcResult<String> {
        match key {
            OptionDatabase::Uri => Ok(self.path.clone().unwrap_or_default()),
            key => Err(no_option(key.as_ref())),
        }
    }

    fn get_option_bytes(&self, key: OptionDatabase) -> AdbcResult<Vec<u8>> {
        Err(no_option(key.as_ref()))
    }

    fn get_option_int(&self, key: OptionDatabase) -> AdbcResult<i64> {
        Err(no_option(key.as_ref()))
    }

    fn get_option_double(&self, key: OptionDatabase) -> AdbcResult<f64> {
        Err(no_option(key.as_ref()))
    }
}
