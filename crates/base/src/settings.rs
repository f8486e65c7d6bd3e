//! The one table of settings: what `SET`, `SHOW` and the documentation know, and what the code reads.

use std::sync::LazyLock;

use crate::{Durability, Error, ErrorKind, Isolation, Result, nearest};

/// How far a setting reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingScope {
    /// The whole database, all connections.
    Database,
    /// One connection.
    Connection,
}

/// What values a setting takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingKind {
    /// A whole number from `min` to `max`.
    Number {
        /// The smallest value taken.
        min: u64,
        /// The largest value taken.
        max: u64,
    },
    /// Bytes, written as a number or with a unit (`'2GB'`, `'512 MiB'`).
    Bytes {
        /// The smallest value taken.
        min: u64,
    },
    /// `true` or `false`.
    Flag,
    /// One of some words.
    Choice(&'static [&'static str]),
}

/// A value of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingValue {
    /// A number, or a number of bytes.
    Number(u64),
    /// A switch.
    Flag(bool),
    /// A word, as the table has it.
    Choice(&'static str),
}

/// One row of the table of settings.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// The name in `SET` and `SHOW`.
    pub name: &'static str,
    /// What values it takes.
    pub kind: SettingKind,
    /// How far it reaches.
    pub scope: SettingScope,
    /// The value before any `SET`. Zero for `memory_limit` and `threads` means: taken from the machine at open.
    pub default: SettingValue,
    /// One sentence for `SHOW ALL` and the documentation.
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

/// The rows of a block at most: 2^19.
const ROWS_PER_BLOCK_MAX: u64 = 1 << 19;

/// Every setting there is.
pub const SETTINGS: &[Setting] = &[
    database(Setting {
        name: "memory_limit",
        kind: SettingKind::Bytes { min: 16 << 20 },
        scope: SettingScope::Database,
        default: SettingValue::Number(0),
        doc: "Memory that statements may hold together; by default 70 % of the machine's.",
    }),
    Setting {
        name: "durability",
        kind: SettingKind::Choice(Durability::NAMES),
        scope: SettingScope::Database,
        default: SettingValue::Choice(Durability::NAMES[0]),
        doc: "When a commit is answered: full, when it is on disk; relaxed, when the log has it, which is synced within \
              relaxed_sync_ms; off, at once: there is no log, and a process that dies loses what came since the last checkpoint.",
    },
    Setting {
        name: "default_transaction_isolation",
        kind: SettingKind::Choice(Isolation::NAMES),
        scope: SettingScope::Connection,
        default: SettingValue::Choice(Isolation::NAMES[0]),
        doc: "The level of transactions that do not name one: 'repeatable read', which is a snapshot from beginning to end, \
              'read committed', a snapshot for each statement, or 'serializable', as if one ran after the other.",
    },
    database(number(
        "relaxed_sync_ms",
        1,
        60_000,
        50,
        "Milliseconds of commits that a power cut may take where durability is relaxed. Read when the database is opened.",
    )),
    Setting {
        name: "checkpoint_log_bytes",
        kind: SettingKind::Bytes { min: 1 << 20 },
        scope: SettingScope::Database,
        default: SettingValue::Number(64 << 20),
        doc: "Bytes of the log after which what it has goes to the base. Opening after a crash reads as many, at most twice.",
    },
    number("threads", 1, 1024, 0, "Threads that one statement works with; by default one per core."),
    number("statement_timeout_ms", 0, u64::MAX >> 1, 0, "Milliseconds a statement may run; 0 is no limit."),
    number(
        "planning_timeout_ms",
        0,
        u64::MAX >> 1,
        10_000,
        "Milliseconds that parsing or planning a statement may take before it is given up; 0 is no limit.",
    ),
    number(
        "statement_length_max_bytes",
        64,
        1 << 30,
        16 << 20,
        "Length of a statement's text beyond which it is refused.",
    ),
    number(
        "expression_depth_max",
        8,
        100_000,
        1_000,
        "Levels of a statement's expressions beyond which it is refused; a call counts eight, a join five, a CASE four.",
    ),
    number(
        "expression_terms_max",
        64,
        100_000_000,
        1_000_000,
        "Terms of one statement (operators, values, names) beyond which it is refused.",
    ),
    Setting {
        name: "result_value_max_bytes",
        kind: SettingKind::Bytes { min: 1024 },
        scope: SettingScope::Connection,
        default: SettingValue::Number(256 << 20),
        doc: "Bytes of one batch of text that a function such as repeat or lpad may produce.",
    },
    number(
        "recursion_max",
        1,
        1_000_000_000,
        100_000,
        "Rounds of a recursive common table expression before it is an error.",
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
        "A bulk load's remainder of more rows than this becomes a block of its own, a smaller one stays in the open block.",
    )),
    number(
        "exec.steal_spin_us",
        0,
        1_000_000,
        50,
        "Microseconds that a thread without work looks for some before it sleeps.",
    ),
    Setting {
        name: "early_filters",
        kind: SettingKind::Flag,
        scope: SettingScope::Connection,
        default: SettingValue::Flag(true),
        doc: "Whether the keys of a join and the limit of an order leave rows out where these are read. Without, EXPLAIN \
              ANALYZE shows how many rows each operator gives by itself.",
    },
    number("batch_rows", 1, 1 << 20, 8192, "Rows of a batch between operators."),
    number("progress_ms", 0, u64::MAX >> 1, 1_000, "Milliseconds after which the shell shows a progress bar."),
];

/// Values for every row of [`SETTINGS`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    values: Vec<SettingValue>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { values: SETTINGS.iter().map(|setting| setting.default).collect() }
    }
}

impl Settings {
    /// The row of the table for `name`, found without case; otherwise an error that names the nearest settings.
    pub fn describe(name: &str) -> Result<&'static Setting> {
        Self::index(name).map(|index| &SETTINGS[index])
    }

    fn index(name: &str) -> Result<usize> {
        SETTINGS.iter().position(|setting| setting.name.eq_ignore_ascii_case(name)).ok_or_else(|| {
            let error = Error::new(ErrorKind::UndefinedObject, format!("there is no setting \"{name}\""));
            let near = nearest(name, SETTINGS.iter().map(|setting| setting.name));
            if near.is_empty() {
                error.hint("SHOW ALL lists the settings")
            } else {
                error.hint(format!("did you mean {}?", near.join(", ")))
            }
        })
    }

    /// Reads `text` as a value for `name` and keeps it.
    pub fn set(&mut self, name: &str, text: &str) -> Result<()> {
        let index = Self::index(name)?;
        let setting = &SETTINGS[index];
        let bad = |wanted: String| {
            Error::new(
                ErrorKind::InvalidParameter,
                format!("\"{text}\" is not a value for the setting {}: {wanted} is needed", setting.name),
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
        };
        Ok(())
    }

    /// Back to the default.
    pub fn reset(&mut self, name: &str) -> Result<()> {
        let index = Self::index(name)?;
        self.values[index] = SETTINGS[index].default;
        Ok(())
    }

    /// Takes over the value that `other` has; whether it is another one.
    pub fn copy(&mut self, name: &str, other: &Settings) -> Result<bool> {
        let index = Self::index(name)?;
        let before = std::mem::replace(&mut self.values[index], other.values[index]);
        Ok(self.values[index] != before)
    }

    /// The value as `SHOW` prints it.
    pub fn show(&self, name: &str) -> Result<String> {
        Ok(match self.values[Self::index(name)?] {
            SettingValue::Number(value) => value.to_string(),
            SettingValue::Flag(value) => value.to_string(),
            SettingValue::Choice(word) => word.to_owned(),
        })
    }

    /// A number by the name in the table. The name comes from the code, so that a wrong one is a bug.
    pub fn number(&self, name: &'static str) -> u64 {
        match self.value(name) {
            SettingValue::Number(value) => value,
            other => panic!("the setting {name} is no number but {other:?}"),
        }
    }

    fn value(&self, name: &'static str) -> SettingValue {
        self.values[Self::index(name).expect("the code names settings of the table")]
    }

    /// When a commit is answered.
    pub fn durability(&self) -> Durability {
        match self.value("durability") {
            SettingValue::Choice(word) => Durability::named(word),
            other => panic!("durability is no word but {other:?}"),
        }
    }

    /// The level of transactions that do not name one.
    pub fn isolation(&self) -> Isolation {
        match self.value("default_transaction_isolation") {
            SettingValue::Choice(word) => Isolation::of_name(word),
            other => panic!("the level is no word but {other:?}"),
        }
    }

    /// Threads that one statement works with: the setting, or one per core.
    pub fn threads(&self) -> usize {
        // Asking the system takes as long as a small query.
        static CORES: LazyLock<usize> = LazyLock::new(|| std::thread::available_parallelism().map_or(1, usize::from));
        match self.number("threads") {
            0 => *CORES,
            threads => threads as usize,
        }
    }

    /// A switch by the name in the table.
    pub fn flag(&self, name: &'static str) -> bool {
        match self.value(name) {
            SettingValue::Flag(value) => value,
            other => panic!("the setting {name} is no flag but {other:?}"),
        }
    }
}

/// `2GB`, `512 MiB`, `1000`: decimal and binary units, without case.
fn parse_bytes(text: &str) -> Option<u64> {
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
        Ok(number) => number.checked_mul(unit),
        Err(_) => number.parse::<f64>().ok().map(|number| (number * unit as f64) as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
