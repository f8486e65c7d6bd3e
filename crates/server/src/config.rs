//! The settings of a server, from four layers: the defaults, a file, the environment, and flags. A later layer replaces
//! the values of the earlier ones. Each value is checked once, here.
//!
//! | layer | form |
//! | --- | --- |
//! | file (TOML) | `running_statements = 64`, `files = ["/data"]`, and a table `[settings]` for the engine |
//! | environment | `ROWMILL_SERVE_RUNNING_STATEMENTS=64`; several values are separated by `:` |
//! | flags | `--running-statements 64`; several values repeat the flag |

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rowmill::text::parse_bytes;
use rowmill::{Error, ErrorKind, Result, Settings};

use crate::options::{DEFAULT_SETTINGS, ServerOptions};
use crate::server_statement::milliseconds;
use crate::tls::TlsFiles;

/// What a variable of the environment begins with.
pub const ENVIRONMENT_PREFIX: &str = "ROWMILL_SERVE_";
/// The table of the file that has settings of the engine.
const ENGINE_TABLE: &str = "settings";

/// A setting of the server.
pub struct ServeSetting {
    /// The name as a flag, with `-`. The file and the environment have `_` in its place.
    pub name: &'static str,
    /// What a value looks like, for help.
    pub value: &'static str,
    /// What it does.
    pub doc: &'static str,
    /// Whether it may have several values.
    pub is_list: bool,
    /// Whether the flag needs no value.
    pub is_switch: bool,
    read: fn(&mut ServeConfig, &[String]) -> Result<(), String>,
    show: fn(&ServeConfig) -> String,
}

impl ServeSetting {
    /// The name in the file.
    fn key(&self) -> String {
        self.name.replace('-', "_")
    }
}

/// The layer that a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConfigOrigin {
    /// No layer has set it.
    Default,
    /// The file.
    File,
    /// The environment.
    Environment,
    /// A flag.
    Flag,
}

impl fmt::Display for ConfigOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ConfigOrigin::Default => "default",
            ConfigOrigin::File => "file",
            ConfigOrigin::Environment => "environment",
            ConfigOrigin::Flag => "flag",
        })
    }
}

/// All settings of a server, and where each value comes from.
#[derive(Clone)]
pub struct ServeConfig {
    /// The options of the server.
    pub options: ServerOptions,
    /// Settings of the engine, by name.
    pub engine: BTreeMap<String, String>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    statement_timeout: Duration,
    origins: BTreeMap<String, ConfigOrigin>,
}

const fn setting(
    name: &'static str,
    value: &'static str,
    doc: &'static str,
    read: fn(&mut ServeConfig, &[String]) -> Result<(), String>,
    show: fn(&ServeConfig) -> String,
) -> ServeSetting {
    ServeSetting { name, value, doc, is_list: false, is_switch: false, read, show }
}

const fn switch(
    name: &'static str,
    doc: &'static str,
    read: fn(&mut ServeConfig, &[String]) -> Result<(), String>,
    show: fn(&ServeConfig) -> String,
) -> ServeSetting {
    ServeSetting { is_switch: true, ..setting(name, "BOOLEAN", doc, read, show) }
}

/// All settings, in the order in which `--help` and `--check` show them.
pub const SERVE_SETTINGS: &[ServeSetting] = &[
    setting(
        "pg",
        "ADDRESS:PORT",
        "where PostgreSQL's wire protocol is spoken, or off",
        |config, values| put(&mut config.options.pg, one(values).and_then(address)),
        |config| config.options.pg.map_or_else(|| "off".to_owned(), |address| address.to_string()),
    ),
    setting(
        "http",
        "ADDRESS:PORT",
        "where HTTP is spoken, or off",
        |config, values| put(&mut config.options.http, one(values).and_then(address)),
        |config| config.options.http.map_or_else(|| "off".to_owned(), |address| address.to_string()),
    ),
    setting(
        "line",
        "ADDRESS:PORT",
        "where line protocol is taken over TCP, or off",
        |config, values| put(&mut config.options.line, one(values).and_then(address)),
        |config| config.options.line.map_or_else(|| "off".to_owned(), |address| address.to_string()),
    ),
    setting(
        "tls-cert",
        "FILE",
        "the certificate, in PEM, followed by those that vouch for it",
        |config, values| put(&mut config.certificate, one(values).map(|file| Some(file.into()))),
        |config| path(config.certificate.as_deref()),
    ),
    setting(
        "tls-key",
        "FILE",
        "the private key of the certificate, in PEM",
        |config, values| put(&mut config.key, one(values).map(|file| Some(file.into()))),
        |config| path(config.key.as_deref()),
    ),
    switch(
        "tls-required",
        "refuses clients of the wire protocol without TLS",
        |config, values| put(&mut config.options.requires_tls, one(values).and_then(truth)),
        |config| config.options.requires_tls.to_string(),
    ),
    ServeSetting {
        is_list: true,
        ..setting(
            "files",
            "FOLDER",
            "a folder whose files all roles may read and write; superusers may use all files",
            |config, values| put(&mut config.options.folders, Ok(values.iter().map(PathBuf::from).collect())),
            |config| {
                let folders: Vec<String> = config.options.folders.iter().map(|folder| path(Some(folder))).collect();
                folders.join(", ")
            },
        )
    },
    setting(
        "connections",
        "NUMBER",
        "the most connections of each protocol at a time",
        |config, values| put(&mut config.options.limits.connections_max, one(values).and_then(number)),
        |config| config.options.limits.connections_max.to_string(),
    ),
    setting(
        "running-statements",
        "NUMBER",
        "the most statements that the engine runs at a time; statements with programs are not among them",
        |config, values| put(&mut config.options.limits.running_max, one(values).and_then(number)),
        |config| config.options.limits.running_max.to_string(),
    ),
    setting(
        "waiting-statements",
        "NUMBER",
        "the most statements that wait for others to end; further ones fail",
        |config, values| put(&mut config.options.limits.waiting_max, one(values).and_then(number)),
        |config| config.options.limits.waiting_max.to_string(),
    ),
    setting(
        "request-bytes",
        "BYTES",
        "the most bytes of one message or body",
        |config, values| {
            let bytes = one(values)?;
            let parsed = parse_bytes(bytes).and_then(|bytes| usize::try_from(bytes).ok()).filter(|bytes| *bytes > 0);
            let parsed = parsed.ok_or_else(|| format!("\"{bytes}\" is not a size: write 256MiB or 1GB"));
            put(&mut config.options.limits.message_bytes_max, parsed)
        },
        |config| format!("{} bytes", config.options.limits.message_bytes_max),
    ),
    setting(
        "statement-timeout",
        "TIME",
        "ends statements that run longer, unless a session sets statement_timeout; 0 is no limit",
        |config, values| put(&mut config.statement_timeout, one(values).and_then(time)),
        |config| limit(config.statement_timeout),
    ),
    setting(
        "idle-transaction-timeout",
        "TIME",
        "ends sessions whose open transaction waits longer for a statement; 0 is no limit",
        |config, values| put(&mut config.options.limits.idle_transaction_timeout, one(values).and_then(time)),
        |config| limit(config.options.limits.idle_transaction_timeout),
    ),
    setting(
        "login-timeout",
        "TIME",
        "the time for a login",
        |config, values| put(&mut config.options.limits.login_timeout, one(values).and_then(positive)),
        |config| limit(config.options.limits.login_timeout),
    ),
    setting(
        "stalled-timeout",
        "TIME",
        "the time in which a client must read a part of its answer, or send the next part of its data",
        |config, values| put(&mut config.options.limits.stalled_timeout, one(values).and_then(positive)),
        |config| limit(config.options.limits.stalled_timeout),
    ),
    setting(
        "stop-patience",
        "TIME",
        "how long running statements may go on after the server was told to stop",
        |config, values| put(&mut config.options.limits.stop_patience, one(values).and_then(time)),
        |config| format!("{:?}", config.options.limits.stop_patience),
    ),
    switch(
        "log-queries",
        "logs every statement, with its time",
        |config, values| put(&mut config.options.logs.all_statements, one(values).and_then(truth)),
        |config| config.options.logs.all_statements.to_string(),
    ),
    setting(
        "slow-query-ms",
        "NUMBER",
        "logs statements that take at least this number of milliseconds",
        |config, values| {
            let limit = one(values)?.parse().map_err(|_| "a number of milliseconds is needed".to_owned());
            put(&mut config.options.logs.slow_statement, limit.map(|limit| Some(Duration::from_millis(limit))))
        },
        |config| {
            config.options.logs.slow_statement.map_or_else(|| "off".to_owned(), |time| time.as_millis().to_string())
        },
    ),
];

impl Default for ServeConfig {
    fn default() -> Self {
        let options = ServerOptions {
            pg: Some(([127, 0, 0, 1], 5432).into()),
            http: Some(([127, 0, 0, 1], 8080).into()),
            ..ServerOptions::default()
        };
        ServeConfig {
            options,
            engine: DEFAULT_SETTINGS.iter().filter_map(|setting| setting.split_once('=')).map(owned).collect(),
            certificate: None,
            key: None,
            statement_timeout: Duration::ZERO,
            origins: BTreeMap::new(),
        }
    }
}

impl ServeConfig {
    /// Reads all layers. `environment` are the variables of the process, `flags` the values of each flag by the name of
    /// its setting, and `engine_flags` the settings of the engine that flags give.
    pub fn read(
        file: Option<&Path>,
        environment: impl IntoIterator<Item = (String, String)>,
        flags: impl IntoIterator<Item = (String, Vec<String>)>,
        engine_flags: impl IntoIterator<Item = (String, String)>,
    ) -> Result<ServeConfig> {
        let mut config = ServeConfig::default();
        if let Some(file) = file {
            config.read_file(file)?;
        }
        for (name, value) in environment {
            let Some(name) = name.strip_prefix(ENVIRONMENT_PREFIX).map(str::to_ascii_lowercase) else { continue };
            // The file itself was named by the host.
            if name != "config" {
                let is_list = find(&name).is_some_and(|setting| setting.is_list);
                let values = if is_list { value.split(':').map(str::to_owned).collect() } else { vec![value] };
                config.set(ConfigOrigin::Environment, &name, &values)?;
            }
        }
        for (name, values) in flags {
            config.set(ConfigOrigin::Flag, &name, &values)?;
        }
        for (name, value) in engine_flags {
            config.set_engine(ConfigOrigin::Flag, &name, &value)?;
        }
        config.finish()
    }

    fn read_file(&mut self, file: &Path) -> Result<()> {
        let shown = file.display();
        let text = std::fs::read_to_string(file)
            .map_err(|error| Error::io(format!("reading the settings file \"{shown}\""), &error))?;
        let invalid =
            |what: String| Error::new(ErrorKind::InvalidParameter, format!("settings file \"{shown}\": {what}"));
        let table: toml::Table = text.parse().map_err(|error: toml::de::Error| invalid(error.to_string()))?;
        for (name, value) in table {
            if name == ENGINE_TABLE {
                let toml::Value::Table(engine) = value else {
                    return Err(invalid(format!("[{ENGINE_TABLE}] is not a table")));
                };
                for (name, value) in engine {
                    let values = texts(&value).filter(|values| values.len() == 1);
                    let values = values.ok_or_else(|| invalid(format!("{name} has no single value")))?;
                    self.set_engine(ConfigOrigin::File, &name, &values[0])
                        .map_err(|error| invalid(error.message().into()))?;
                }
                continue;
            }
            let values = texts(&value).ok_or_else(|| invalid(format!("{name} has a value that is no setting's")))?;
            self.set(ConfigOrigin::File, &name, &values).map_err(|error| invalid(error.message().to_owned()))?;
        }
        Ok(())
    }

    fn set(&mut self, origin: ConfigOrigin, name: &str, values: &[String]) -> Result<()> {
        let Some(setting) = find(name) else {
            let names: Vec<String> = SERVE_SETTINGS.iter().map(ServeSetting::key).collect();
            let what = format!("there is no setting {name} of the server");
            return Err(Error::new(ErrorKind::UndefinedObject, what).hint(format!("they are {}", names.join(", "))));
        };
        let read = (setting.read)(self, values);
        read.map_err(|what| Error::new(ErrorKind::InvalidParameter, format!("{} ({origin}): {what}", setting.key())))?;
        self.origins.insert(setting.key(), origin);
        Ok(())
    }

    fn set_engine(&mut self, origin: ConfigOrigin, name: &str, value: &str) -> Result<()> {
        // The value is only checked here; the database that is opened gets it.
        Settings::default().set(name, value)?;
        self.engine.insert(name.to_owned(), value.to_owned());
        self.origins.insert(format!("{ENGINE_TABLE}.{name}"), origin);
        Ok(())
    }

    /// Checks what no setting alone can tell.
    fn finish(mut self) -> Result<ServeConfig> {
        self.options.tls = match (self.certificate.clone(), self.key.clone()) {
            (Some(certificate), Some(key)) => Some(TlsFiles { certificate, key }),
            (None, None) => None,
            _ => {
                let what = "tls_cert and tls_key belong together, but only one of them is set";
                return Err(Error::new(ErrorKind::InvalidParameter, what));
            }
        };
        if !self.statement_timeout.is_zero() {
            let timeout = self.statement_timeout.as_millis().to_string();
            self.engine.entry("statement_timeout_ms".to_owned()).or_insert(timeout);
        }
        self.options.check()?;
        Ok(self)
    }

    /// The value of each setting and the layer that it comes from, one setting a line.
    pub fn lines(&self) -> Vec<String> {
        let origin = |name: &str| self.origins.get(name).copied().unwrap_or(ConfigOrigin::Default);
        let own = SERVE_SETTINGS.iter().map(|setting| (setting.key(), (setting.show)(self)));
        let engine = self.engine.iter().map(|(name, value)| (format!("{ENGINE_TABLE}.{name}"), value.clone()));
        own.chain(engine).map(|(name, value)| format!("{name} = {value}  ({})", origin(&name))).collect()
    }
}

fn owned((name, value): (&str, &str)) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

fn put<T>(place: &mut T, value: Result<T, String>) -> Result<(), String> {
    *place = value?;
    Ok(())
}

fn find(name: &str) -> Option<&'static ServeSetting> {
    let name = name.replace('_', "-");
    SERVE_SETTINGS.iter().find(|setting| setting.name == name)
}

/// A value of TOML as texts, several if it is a list.
fn texts(value: &toml::Value) -> Option<Vec<String>> {
    Some(match value {
        toml::Value::String(text) => vec![text.clone()],
        toml::Value::Integer(number) => vec![number.to_string()],
        toml::Value::Boolean(truth) => vec![truth.to_string()],
        toml::Value::Array(values) => values.iter().map(texts).collect::<Option<Vec<_>>>()?.concat(),
        toml::Value::Float(_) | toml::Value::Datetime(_) | toml::Value::Table(_) => return None,
    })
}

fn one(values: &[String]) -> Result<&str, String> {
    match values {
        [value] => Ok(value),
        _ => Err(format!("one value is needed, but there are {}", values.len())),
    }
}

fn address(text: &str) -> Result<Option<std::net::SocketAddr>, String> {
    if text == "off" {
        return Ok(None);
    }
    let address =
        text.parse().map_err(|_| "write an address and a port: 127.0.0.1:5432, [::1]:5432, or off".to_owned());
    address.map(Some)
}

fn truth(text: &str) -> Result<bool, String> {
    match text {
        "true" | "on" | "yes" | "1" => Ok(true),
        "false" | "off" | "no" | "0" => Ok(false),
        _ => Err(format!("\"{text}\" is neither true nor false")),
    }
}

fn number(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|number| *number > 0).ok_or_else(|| format!("\"{text}\" is not a number above 0"))
}

fn time(text: &str) -> Result<Duration, String> {
    milliseconds(text).map(Duration::from_millis).map_err(|error| error.message)
}

fn positive(text: &str) -> Result<Duration, String> {
    time(text).and_then(|time| if time.is_zero() { Err("it cannot be 0".to_owned()) } else { Ok(time) })
}

fn path(path: Option<&Path>) -> String {
    path.map_or_else(|| "none".to_owned(), |path| path.display().to_string())
}

fn limit(time: Duration) -> String {
    if time.is_zero() { "no limit".to_owned() } else { format!("{time:?}") }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn read(file: &str, environment: &[(&str, &str)], flags: &[(&str, &str)]) -> Result<ServeConfig> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("serve.toml");
        std::fs::write(&path, file).unwrap();
        let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let flags = flags.iter().map(|(name, value)| ((*name).to_owned(), vec![(*value).to_owned()]));
        ServeConfig::read(Some(&path), environment, flags, [])
    }

    #[test]
    fn a_later_layer_replaces_an_earlier_one_and_the_origin_is_shown() {
        let file = "connections = 7\nlogin_timeout = \"5s\"\nrequest_bytes = \"1MiB\"\nfiles = [\"/a\", \"/b\"]\n\
            [settings]\nmemory_limit = \"1GB\"\n";
        let environment = [("ROWMILL_SERVE_LOGIN_TIMEOUT", "7s"), ("ROWMILL_SERVE_CONNECTIONS", "8"), ("PATH", "/bin")];
        let config = read(file, &environment, &[("connections", "9"), ("statement_timeout", "2min")]).unwrap();
        let limits = &config.options.limits;
        assert_eq!((limits.connections_max, limits.login_timeout), (9, Duration::from_secs(7)));
        assert_eq!((limits.message_bytes_max, config.options.folders.len()), (1 << 20, 2));
        assert_eq!(config.engine["statement_timeout_ms"], "120000");
        let lines = config.lines();
        for line in [
            "connections = 9  (flag)",
            "login_timeout = 7s  (environment)",
            "request_bytes = 1048576 bytes  (file)",
            "stalled_timeout = 60s  (default)",
            "settings.memory_limit = 1GB  (file)",
        ] {
            assert!(lines.iter().any(|found| found == line), "{line}: {lines:#?}");
        }
    }

    #[test]
    fn wrong_settings_are_refused_in_every_layer() {
        for (file, environment, flags) in [
            ("connections = 0", &[][..], &[][..]),
            ("conections = 1", &[], &[]),
            ("connections = 1.5", &[], &[]),
            ("connections = [1, 2]", &[], &[]),
            ("connections", &[], &[]),
            ("[settings]\nno_such = 1", &[], &[]),
            ("settings = 1", &[], &[]),
            ("tls_cert = \"x\"", &[], &[]),
            ("tls_required = true", &[], &[]),
            ("tls_required = \"maybe\"", &[], &[]),
            ("", &[("ROWMILL_SERVE_NOTHING", "1")], &[]),
            ("", &[("ROWMILL_SERVE_LOGIN_TIMEOUT", "0")], &[]),
            ("", &[], &[("pg", "5432")]),
            ("", &[], &[("request_bytes", "much")]),
            ("", &[], &[("slow_query_ms", "-1")]),
        ] {
            assert!(read(file, environment, flags).is_err(), "{file} {environment:?} {flags:?}");
        }
        assert!(ServeConfig::read(Some(Path::new("/no/such/file")), [], [], []).is_err());
    }

    #[test]
    fn every_setting_is_in_the_documentation() {
        let page = include_str!("../../../docs/server.md");
        for setting in SERVE_SETTINGS {
            let flag = setting.name;
            assert!(page.contains(&format!("| `--{flag}")), "docs/server.md lacks --{flag}");
        }
    }
}
