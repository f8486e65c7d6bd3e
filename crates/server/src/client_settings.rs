//! The settings that PostgreSQL's clients set and read. Those of the engine keep their own names and are its business.
//!
//! A client that sets something we do not do must learn it, so each setting has a rule for its values.

use std::collections::BTreeMap;

use crate::server_statement::milliseconds;
use crate::wire_error::{UNSUPPORTED, WireError};

/// Which values a setting takes.
#[derive(Clone, Copy, Debug)]
enum ValueRule {
    /// Any text.
    Any,
    /// One of these, in any case.
    OneOf(&'static [&'static str]),
    /// A text that begins with this one, in any case.
    StartsWith(&'static str),
    /// A time, as `milliseconds` reads it.
    Time,
    /// The server alone decides.
    Fixed,
}

/// A setting of PostgreSQL.
struct PgSetting {
    /// The name as PostgreSQL reports it.
    name: &'static str,
    value: &'static str,
    /// Whether clients are told each change.
    is_reported: bool,
    rule: ValueRule,
}

const fn setting(name: &'static str, value: &'static str, is_reported: bool, rule: ValueRule) -> PgSetting {
    PgSetting { name, value, is_reported, rule }
}

/// The version of PostgreSQL whose protocol and catalog we follow. Clients choose their queries by it: those for later
/// versions ask for columns of publications in ways that the engine cannot read.
pub(crate) const PG_VERSION: &str = "14.0";
const PG_VERSION_NUMBER: &str = "140000";

const ON: &[&str] = &["on", "true", "yes", "1"];
const SWITCH: &[&str] = &["on", "off", "true", "false", "yes", "no", "1", "0"];
const OFF: &[&str] = &["off", "false", "no", "0"];

static SETTINGS: &[PgSetting] = &[
    setting("application_name", "", true, ValueRule::Any),
    setting("backslash_quote", "safe_encoding", false, ValueRule::Any),
    setting("bytea_output", "hex", false, ValueRule::OneOf(&["hex"])),
    setting("check_function_bodies", "on", false, ValueRule::Any),
    setting("client_encoding", "UTF8", true, ValueRule::OneOf(&["utf8", "utf-8", "unicode", "sql_ascii"])),
    setting("client_min_messages", "notice", false, ValueRule::Any),
    setting("DateStyle", "ISO, MDY", true, ValueRule::StartsWith("iso")),
    setting("default_transaction_deferrable", "off", false, ValueRule::OneOf(OFF)),
    setting("default_transaction_read_only", "off", true, ValueRule::OneOf(SWITCH)),
    setting("extra_float_digits", "1", false, ValueRule::Any),
    setting("idle_in_transaction_session_timeout", "0", false, ValueRule::Time),
    setting("in_hot_standby", "off", true, ValueRule::Fixed),
    setting("integer_datetimes", "on", true, ValueRule::Fixed),
    setting("IntervalStyle", "postgres", true, ValueRule::OneOf(&["postgres"])),
    setting("is_superuser", "on", true, ValueRule::Fixed),
    setting("lock_timeout", "0", false, ValueRule::OneOf(&["0"])),
    setting("max_identifier_length", "63", false, ValueRule::Fixed),
    setting("password_encryption", "scram-sha-256", false, ValueRule::OneOf(&["scram-sha-256", "on"])),
    setting("row_security", "on", false, ValueRule::OneOf(&["on", "off"])),
    setting("server_encoding", "UTF8", true, ValueRule::Fixed),
    setting("server_version", PG_VERSION, true, ValueRule::Fixed),
    setting("server_version_num", PG_VERSION_NUMBER, false, ValueRule::Fixed),
    setting("session_authorization", "rowmill", true, ValueRule::Fixed),
    setting("standard_conforming_strings", "on", true, ValueRule::OneOf(ON)),
    setting("synchronize_seqscans", "on", false, ValueRule::Any),
    setting("TimeZone", "UTC", true, ValueRule::Any),
    setting("transaction_deferrable", "off", false, ValueRule::OneOf(OFF)),
    setting("xmloption", "content", false, ValueRule::Any),
];

/// Whether a value turns a switch on.
pub(crate) fn is_on(value: &str) -> bool {
    ON.iter().any(|on| on.eq_ignore_ascii_case(value))
}

impl PgSetting {
    fn of(name: &str) -> Option<&'static PgSetting> {
        SETTINGS.iter().find(|setting| setting.name.eq_ignore_ascii_case(name))
    }

    fn check(&self, value: &str) -> Result<(), WireError> {
        let unquoted = value.trim_matches(['\'', '"']);
        let is_allowed = match self.rule {
            ValueRule::Any => true,
            ValueRule::Time => return milliseconds(unquoted).map(|_| ()),
            ValueRule::OneOf(values) => values.iter().any(|allowed| allowed.eq_ignore_ascii_case(unquoted)),
            ValueRule::StartsWith(start) => unquoted.to_ascii_lowercase().starts_with(start),
            ValueRule::Fixed => {
                return Err(WireError::new("55P02", format!("parameter \"{}\" cannot be changed", self.name)));
            }
        };
        if is_allowed {
            return Ok(());
        }
        let error = WireError::new(UNSUPPORTED, format!("{} cannot be set to \"{value}\"", self.name));
        Err(match self.rule {
            ValueRule::OneOf(values) => error.hint(format!("its values are {}", values.join(", "))),
            _ => error.hint(format!("its value is {}", self.value)),
        })
    }
}

/// The values that a client has set.
#[derive(Debug, Default)]
pub(crate) struct ClientSettings {
    changed: BTreeMap<&'static str, String>,
}

/// A setting that has changed and that clients are told about.
pub(crate) struct ReportedSetting {
    pub(crate) name: &'static str,
    pub(crate) value: String,
}

impl ClientSettings {
    /// Whether a setting of this name belongs to the server and not to the engine.
    pub(crate) fn is_known(name: &str) -> bool {
        PgSetting::of(name).is_some()
    }

    /// The name of a setting as PostgreSQL reports it, and its value.
    pub(crate) fn show(&self, name: &str) -> Option<(&'static str, String)> {
        let setting = PgSetting::of(name)?;
        Some((setting.name, self.value(setting)))
    }

    /// The value that a client has given to a setting.
    pub(crate) fn changed(&self, name: &str) -> Option<&str> {
        self.changed.get(name).map(String::as_str)
    }

    fn value(&self, setting: &PgSetting) -> String {
        self.changed.get(setting.name).cloned().unwrap_or_else(|| setting.value.to_owned())
    }

    /// Gives a setting a value, or its first one if `value` is `None`. Returns what clients must be told.
    pub(crate) fn set(&mut self, name: &str, value: Option<&str>) -> Result<Option<ReportedSetting>, WireError> {
        let Some(setting) = PgSetting::of(name) else {
            return Err(WireError::new("42704", format!("unrecognized configuration parameter \"{name}\"")));
        };
        match value {
            Some(value) => {
                setting.check(value)?;
                // All encodings that are allowed are this one.
                let value = if setting.name == "client_encoding" { "UTF8" } else { value };
                self.changed.insert(setting.name, value.to_owned());
            }
            None => {
                self.changed.remove(setting.name);
            }
        }
        let reported = ReportedSetting { name: setting.name, value: self.value(setting) };
        Ok(setting.is_reported.then_some(reported))
    }

    /// Gives a fixed setting the value that it has for this connection.
    pub(crate) fn fix(&mut self, name: &'static str, value: &str) {
        self.changed.insert(name, value.to_owned());
    }

    /// Gives every setting that a client may change its first value again. Returns what clients must be told.
    pub(crate) fn reset(&mut self) -> Vec<ReportedSetting> {
        let names: Vec<&'static str> = self.changed.keys().copied().collect();
        let changeable =
            |name: &&'static str| PgSetting::of(name).is_some_and(|setting| !matches!(setting.rule, ValueRule::Fixed));
        let reset = names.into_iter().filter(changeable);
        reset.filter_map(|name| self.set(name, None).ok().flatten()).collect()
    }

    /// The settings that a client is told at its start.
    pub(crate) fn reported(&self) -> impl Iterator<Item = ReportedSetting> + '_ {
        let reported = SETTINGS.iter().filter(|setting| setting.is_reported);
        reported.map(|setting| ReportedSetting { name: setting.name, value: self.value(setting) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_we_do_not_serve_are_refused() {
        let mut settings = ClientSettings::default();
        for (name, value) in [
            ("client_encoding", "LATIN1"),
            ("datestyle", "SQL, DMY"),
            ("server_version", "16"),
            ("standard_conforming_strings", "off"),
        ] {
            assert!(settings.set(name, Some(value)).is_err(), "{name}");
        }
        let reported = settings.set("application_NAME", Some("x")).expect("any name").expect("it is reported");
        assert_eq!((reported.name, reported.value.as_str()), ("application_name", "x"));
        assert_eq!(settings.reset().len(), 1);
    }
}
