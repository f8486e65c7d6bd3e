//! The table of settings. `SET`, `SHOW`, the documentation and the code all use this one table.

use std::sync::{Arc, LazyLock};

use crate::{Durability, Error, ErrorKind, Isolation, Result, nearest};

/// Where a setting applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingScope {
    /// The whole database with all its connections.
    Database,
    /// One connection.
    Connection,
}

/// The values that a setting accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingKind {
    /// A whole number from `min` to `max`.
    Number {
        /// The smallest value accepted.
        min: u64,
        /// The largest value accepted.
        max: u64,
    },
    /// Bytes, written as a number or with a unit (`'2GB'`, `'512 MiB'`).
    Bytes {
        /// The smallest value accepted.
        min: u64,
    },
    /// `true` or `false`.
    Flag,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// The path of a folder.
    Folder,
    /// A time zone. The caller of [`Settings::set`] must have checked and spelled the name; an empty one is UTC.
    TimeZone,
}

/// The value of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingValue {
    /// A number, or a number of bytes.
    Number(u64),
    /// True or false.
    Flag(bool),
    /// A word, in the spelling of the table.
    Choice(&'static str),
    /// A path; `None` if the database chooses.
    Folder(Option<Arc<str>>),
    /// A time zone; `None` is UTC.
    TimeZone(Option<Arc<str>>),
}

/// One row of the table of settings.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The name in `SET` and `SHOW`.
    pub name: &'static str,
    /// The values it accepts.
    pub kind: SettingKind,
    /// Where it applies.
    pub scope: SettingScope,
    /// The value before any `SET`. Zero for `memory_limit`, `temp_disk_limit` and `threads` means that the machine
    /// decides when the database is opened.
    pub default: SettingValue,
    /// The description in `SHOW ALL` and the documentation. It should be one sentence.
    pub doc: &'static str,
}

const fn number(name: &'static str, min: u64, max: u64, default: u64, doc: &'static str) -> Setting {
    Setting {
        name,
        kind: SettingKind::Number { min, max },
        scope: SettingScope::Connection,
        default: SettingValue::Number(default),
        doc,
    }
}

const fn database(mut setting: Setting) -> Setting {
    setting.scope = SettingScope::Database;
    setting
}

/// The most rows of a block: 2^19.
const ROWS_PER_BLOCK_MAX: u64 = 1 << 19;

/// All settings.
pub const SETTINGS: &[Setting] = &[
    database(Setting {
        name: "memory_limit",
        kind: SettingKind::Bytes { min: 16 << 20 },
        scope: SettingScope::Database,
        default: SettingValue::Number(0),
        doc: "Memory that all statements together may hold; by default half of the machine's or of the cgroup's.",
    }),
    Setting {
        name: "statement_memory_limit",
        kind: SettingKind::Bytes { min: 0 },
        scope: SettingScope::Connection,
        default: SettingValue::Number(0),
        doc: "Memory that the operators of one statement may hold; with 0, only memory_limit counts.",
    },
    database(Setting {
        name: "temp_directory",
        kind: SettingKind::Folder,
        scope: SettingScope::Database,
        default: SettingValue::Folder(None),
        doc: "The folder for temporary files of statements that are short of memory; by default the folder temp of \
              the database, or the system's for a database in memory or one that is opened read-only.",
    }),
    database(Setting {
        name: "temp_disk_limit",
        kind: SettingKind::Bytes { min: 1 },
        scope: SettingScope::Database,
        default: SettingValue::Number(0),
        doc: "Disk space that temporary files may take together; by default half of the free space at opening.",
    }),
    database(Setting {
        name: "spill_file_bytes_min",
        kind: SettingKind::Bytes { min: 0 },
        scope: SettingScope::Database,
        default: SettingValue::Number(1 << 20),
        doc: "Less spilled state than this is gathered in memory until it is worth a temporary file; with 0, each \
              flush is a file.",
    }),
    Setting {
        name: "durability",
        kind: SettingKind::Choice(Durability::NAMES),
        scope: SettingScope::Database,
        default: SettingValue::Choice(Durability::NAMES[0]),
        doc: "When a commit returns: full, when it is on disk; relaxed, when the log has it, which is synced within \
              relaxed_sync_ms; off, at once: there is no log, and a crash loses all commits since the last checkpoint.",
    },
    Setting {
        name: "default_transaction_isolation",
        kind: SettingKind::Choice(Isolation::NAMES),
        scope: SettingScope::Connection,
        default: SettingValue::Choice(Isolation::NAMES[0]),
        doc: "The isolation level if BEGIN names none: 'repeatable read', one snapshot for the whole transaction, \
              'read committed', one snapshot per statement, or 'serializable', as if transactions ran one by one.",
    },
    Setting {
        name: "wait_for_rows",
        kind: SettingKind::Flag,
        scope: SettingScope::Connection,
        default: SettingValue::Flag(false),
        doc: "Whether a statement at READ COMMITTED waits for a keyed row that another open transaction has written, \
              and then runs again; otherwise the later commit fails. Connections of the server wait by default.",
    },
    Setting {
        name: "timezone",
        kind: SettingKind::TimeZone,
        scope: SettingScope::Connection,
        default: SettingValue::TimeZone(None),
        doc: "The time zone in which instants are shown, and in which texts without an offset are read as instants: \
              a name such as 'Europe/Berlin' or an offset such as '+02:00'.",
    },
    database(number(
        "relaxed_sync_ms",
        1,
        60_000,
        50,
        "With relaxed durability, a power cut may lose the commits of this many milliseconds. Read at open.",
    )),
    Setting {
        name: "checkpoint_log_bytes",
        kind: SettingKind::Bytes { min: 1 << 20 },
        scope: SettingScope::Database,
        default: SettingValue::Number(64 << 20),
        doc: "Bytes of log after which a checkpoint starts, at the latest. Opening after a crash reads up to twice \
              this much log.",
    },
    Setting {
        name: "auto_analyze",
        kind: SettingKind::Flag,
        scope: SettingScope::Database,
        default: SettingValue::Flag(true),
        doc: "Whether a keyed table is analyzed by itself after a tenth of its rows were written.",
    },
    database(number(
        "column_copy_rows",
        0,
        u64::MAX >> 1,
        100_000,
        "Rows of a keyed table from which on it gets a column copy when queries read all of it; 0 is never.",
    )),
    number("threads", 1, 1024, 0, "Threads that one statement may use; by default one per core."),
    number("statement_timeout_ms", 0, u64::MAX >> 1, 0, "Milliseconds a statement may run; 0 is no limit."),
    number(
        "planning_timeout_ms",
        0,
        u64::MAX >> 1,
        10_000,
        "Milliseconds that parsing or planning a statement may take before it fails; 0 is no limit.",
    ),
    number(
        "statement_length_max_bytes",
        64,
        1 << 30,
        16 << 20,
        "The longest text of a statement in bytes; a longer one is refused.",
    ),
    number(
        "expression_depth_max",
        8,
        100_000,
        1_000,
        "The deepest nesting of a statement's expressions; a call counts as 8 levels, a join as 5, a CASE as 4.",
    ),
    number(
        "expression_terms_max",
        64,
        100_000_000,
        1_000_000,
        "The most terms (operators, values, names) of one statement; a statement with more is refused.",
    ),
    Setting {
        name: "result_value_max_bytes",
        kind: SettingKind::Bytes { min: 1024 },
        scope: SettingScope::Connection,
        default: SettingValue::Number(256 << 20),
        doc: "The most bytes of text that a function such as repeat or lpad may produce for one batch.",
    },
    number(
        "recursion_max",
        1,
        1_000_000_000,
        100_000,
        "The most rounds of a recursive common table expression; more are an error.",
    ),
    database(number(
        "rows_per_block",
        1,
        ROWS_PER_BLOCK_MAX,
        ROWS_PER_BLOCK_MAX,
        "Rows after which a block is sealed; small values are for tests.",
    )),
    database(number(
        "small_block_rows",
        1,
        ROWS_PER_BLOCK_MAX,
        1 << 16,
        "If a bulk load leaves more rows than this, they become a block; fewer rows stay in the open block.",
    )),
    number("exec.steal_spin_us", 0, 1_000_000, 50, "Microseconds that an idle thread looks for work before it sleeps."),
    Setting {
        name: "early_filters",
        kind: SettingKind::Flag,
        scope: SettingScope::Connection,
        default: SettingValue::Flag(true),
        doc: "Whether scans leave out rows that a join's keys or a sort's limit exclude. When off, EXPLAIN \
              ANALYZE shows how many rows each operator returns by itself.",
    },
    number("batch_rows", 1, 1 << 20, 8192, "The most rows of a batch between operators."),
    number("progress_ms", 0, u64::MAX >> 1, 1_000, "Milliseconds after which the shell shows a progress bar."),
];

/// A value for each setting of [`SETTINGS`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    values: Vec<SettingValue>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { values: SETTINGS.iter().map(|setting| setting.default.clone()).collect() }
    }
}

impl Settings {
    /// Finds a setting by name, ignoring case. The error for an unknown name suggests the nearest settings.
    pub fn describe(name: &str) -> Result<&'static Setting> {
        Self::index(name).map(|index| &SETTINGS[index])
    }

    fn index(name: &str) -> Result<usize> {
        SETTINGS.iter().position(|setting| setting.name.eq_ignore_ascii_case(name)).ok_or_else(|| {
            let error = Error::new(ErrorKind::UndefinedObject, format!("setting \"{name}\" does not exist"));
            // A name without any near one is no typing error, so the hint points to the list.
            let near = nearest(name, SETTINGS.iter().map(|setting| setting.name));
            if near.is_empty() {
                error.hint("SHOW ALL lists the settings")
            } else {
                error.hint(format!("did you mean {}?", near.join(", ")))
            }
        })
    }

    /// Parses `text` as a value for the setting `name` and stores it.
    pub fn set(&mut self, name: &str, text: &str) -> Result<()> {
        let index = Self::index(name)?;
        let setting = &SETTINGS[index];
        // Every error names the setting and the values that it accepts.
        let bad = |wanted: String| {
            Error::new(
                ErrorKind::InvalidParameter,
                format!("\"{text}\" is not a value for the setting {}: it must be {wanted}", setting.name),
            )
        };
        self.values[index] = match setting.kind {
            SettingKind::Number { min, max } => match text.trim().parse::<u64>() {
                Ok(value) if (min..=max).contains(&value) => SettingValue::Number(value),
                _ => return Err(bad(format!("a whole number from {min} to {max}"))),
            },
            SettingKind::Bytes { min } => match parse_bytes(text) {
                Some(value) if value >= min => SettingValue::Number(value),
                _ => return Err(bad(format!("a number of bytes such as '2GB', at least {min}"))),
            },
            SettingKind::Flag => match text.trim().to_ascii_lowercase().as_str() {
                "true" | "on" | "1" | "yes" => SettingValue::Flag(true),
                "false" | "off" | "0" | "no" => SettingValue::Flag(false),
                _ => return Err(bad("true or false".into())),
            },
            SettingKind::Choice(words) => {
                let word = words.iter().find(|word| word.eq_ignore_ascii_case(text.trim()));
                SettingValue::Choice(word.ok_or_else(|| bad(format!("one of {}", words.join(", "))))?)
            }
            SettingKind::TimeZone => SettingValue::TimeZone((!text.is_empty()).then(|| text.into())),
            SettingKind::Folder if text.is_empty() => SettingValue::Folder(None),
            SettingKind::Folder => SettingValue::Folder(Some(text.into())),
        };
        Ok(())
    }

    /// Sets a setting back to its default.
    pub fn reset(&mut self, name: &str) -> Result<()> {
        let index = Self::index(name)?;
        self.values[index] = SETTINGS[index].default.clone();
        Ok(())
    }

    /// Copies the value of one setting from `other`. Returns whether this changed the value.
    pub fn copy(&mut self, name: &str, other: &Settings) -> Result<bool> {
        let index = Self::index(name)?;
        let before = std::mem::replace(&mut self.values[index], other.values[index].clone());
        Ok(self.values[index] != before)
    }

    /// Returns a value as `SHOW` prints it.
    pub fn show(&self, name: &str) -> Result<String> {
        Ok(match &self.values[Self::index(name)?] {
            SettingValue::Number(value) => value.to_string(),
            SettingValue::Flag(value) => value.to_string(),
            SettingValue::Choice(word) => (*word).to_owned(),
            SettingValue::Folder(path) => path.as_deref().unwrap_or_default().to_owned(),
            SettingValue::TimeZone(zone) => zone.as_deref().unwrap_or("UTC").to_owned(),
        })
    }

    /// Returns the value of a number setting. The name comes from the code, so an unknown name is a bug and panics.
    pub fn number(&self, name: &'static str) -> u64 {
        match self.value(name) {
            SettingValue::Number(value) => *value,
            other => panic!("the setting {name} must be a number, but it is {other:?}"),
        }
    }

    fn value(&self, name: &'static str) -> &SettingValue {
        &self.values[Self::index(name).expect("the code must only name settings of the table")]
    }

    /// Returns the point at which a commit returns.
    pub fn durability(&self) -> Durability {
        match self.value("durability") {
            SettingValue::Choice(word) => Durability::named(word),
            other => panic!("durability must be a word, but it is {other:?}"),
        }
    }

    /// Returns the isolation level of transactions that do not name one.
    pub fn isolation(&self) -> Isolation {
        match self.value("default_transaction_isolation") {
            SettingValue::Choice(word) => Isolation::of_name(word),
            other => panic!("the isolation level must be a word, but it is {other:?}"),
        }
    }

    /// Returns the number of threads that one statement may use: the setting, or one per core.
    pub fn threads(&self) -> usize {
        // We ask the system only once, because asking takes as long as a small query.
        static CORES: LazyLock<usize> = LazyLock::new(|| std::thread::available_parallelism().map_or(1, usize::from));
        match self.number("threads") {
            0 => *CORES,
            threads => threads as usize,
        }
    }

    /// Returns the folder that a setting names; `None` if the database chooses.
    pub fn folder(&self, name: &'static str) -> Option<&str> {
        match self.value(name) {
            SettingValue::Folder(path) => path.as_deref(),
            other => panic!("the setting {name} must be a folder, but it is {other:?}"),
        }
    }

    /// Returns the time zone of the connection; `None` for UTC.
    pub fn time_zone(&self) -> Option<&str> {
        match self.value("timezone") {
            SettingValue::TimeZone(zone) => zone.as_deref(),
            other => panic!("the time zone must be a zone, but it is {other:?}"),
        }
    }

    /// Returns the value of a flag setting.
    pub fn flag(&self, name: &'static str) -> bool {
        match self.value(name) {
            SettingValue::Flag(value) => *value,
            other => panic!("the setting {name} must be a flag, but it is {other:?}"),
        }
    }
}

/// Parses a number of bytes with an optional unit, for example `2GB`, `512 MiB` or `1000`. Units are decimal or
/// binary, and case does not matter.
pub fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        "tib" => 1 << 40,
        _ => return None,
    };
    match number.parse::<u64>() {
        // Whole numbers are computed exactly. A fraction such as 1.5GB goes through a float.
        Ok(number) => number.checked_mul(unit),
        Err(_) => number.parse::<f64>().ok().map(|number| (number * unit as f64) as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values_and_default(setting: &Setting) -> (String, String) {
        let values = match setting.kind {
            SettingKind::Number { min, max } if max > 1 << 40 => format!("a number, at least {min}"),
            SettingKind::Number { min, max } => format!("a number, {min} to {max}"),
            SettingKind::Bytes { min } => format!("bytes, at least {min}"),
            SettingKind::Flag => "true or false".to_owned(),
            SettingKind::Choice(words) => words.join(", "),
            SettingKind::Folder => "a path".to_owned(),
            SettingKind::TimeZone => "a time zone".to_owned(),
        };
        let default = match &setting.default {
            // For these, 0 in the table stands for a value that depends on the machine.
            SettingValue::Number(0) if matches!(setting.name, "memory_limit" | "temp_disk_limit" | "threads") => {
                "by the machine".to_owned()
            }
            SettingValue::Number(value) => value.to_string(),
            SettingValue::Flag(value) => value.to_string(),
            SettingValue::Choice(word) => (*word).to_owned(),
            SettingValue::Folder(path) => path.as_deref().unwrap_or("by the database").to_owned(),
            SettingValue::TimeZone(zone) => zone.as_deref().unwrap_or("UTC").to_owned(),
        };
        (values, default)
    }

    #[test]
    fn every_setting_is_on_the_page_of_settings() {
        let page = include_str!("../../../docs/settings.md");
        let mut missing = Vec::new();
        for setting in SETTINGS {
            let (values, default) = values_and_default(setting);
            let scope = match setting.scope {
                SettingScope::Database => "database",
                SettingScope::Connection => "connection",
            };
            let line = format!("| `{}` | {values} | {default} | {scope} | {} |", setting.name, setting.doc);
            missing.extend((!page.contains(&line)).then_some(line));
        }
        assert!(missing.is_empty(), "docs/settings.md lacks these lines:\n{}", missing.join("\n"));
    }

    #[test]
    fn values_are_checked_against_the_table() {
        let mut settings = Settings::default();
        settings.set("Memory_Limit", "2GB").expect("a size");
        assert_eq!(settings.number("memory_limit"), 2_000_000_000);
        assert_eq!(settings.show("memory_limit").expect("known"), "2000000000");
        assert_eq!(settings.set("threads", "0").unwrap_err().kind(), ErrorKind::InvalidParameter);
        assert_eq!(settings.set("threads", "many").unwrap_err().kind(), ErrorKind::InvalidParameter);
        let error = settings.set("memorylimit", "1").unwrap_err();
        assert_eq!(error.hint_text(), Some("did you mean memory_limit?"));
        settings.set("durability", "Relaxed").expect("a word");
        assert_eq!((settings.durability(), settings.show("durability")), (Durability::Relaxed, Ok("relaxed".into())));
        let error = settings.set("durability", "on").unwrap_err();
        assert!(error.message().contains("one of full, relaxed, off"), "{error}");
    }

    #[test]
    fn sizes_take_decimal_and_binary_units() {
        assert_eq!(parse_bytes("512 MiB"), Some(512 << 20));
        assert_eq!(parse_bytes("1.5gb"), Some(1_500_000_000));
        assert_eq!(parse_bytes("12"), Some(12));
        assert_eq!(parse_bytes("12 parsecs"), None);
        assert_eq!(parse_bytes("99999999999999999999 GB"), Some(u64::MAX));
    }
}
