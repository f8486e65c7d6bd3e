//! `SET`, `SHOW` and `RESET`.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use rowmill_base::{Error, ErrorKind, Result, SETTINGS, Setting, SettingScope, Settings};
use rowmill_expr::session_zone::SessionZone;
use sqlparser::ast::{ContextModifier, Expr, Ident, ObjectName, Reset, Set, UnaryOperator, Value};

use crate::outcome::{Outcome, RowStream};
use crate::search_path::SearchPath;
use crate::session::Work;
use crate::statement::search_path::{self, is_path_setting};
use crate::statement::transaction;
use crate::statement::variable::{self, variable_name};

/// Runs `SET name = value`.
///
/// `SET LOCAL durability = ...` applies to the open transaction. `SET TRANSACTION` sets its isolation.
pub(crate) fn set(work: &mut Work<'_>, set: &Set) -> Result<Outcome> {
    if let Set::SetTransaction { modes, snapshot: None, session } = set {
        transaction::set_modes(work, modes, *session)?;
        return Ok(Outcome::Done { tag: "SET" });
    }
    if let Set::SingleAssignment { scope: Some(ContextModifier::Local), hivevar: false, variable, values } = set
        && let [value] = values.as_slice()
        // Durability is the only setting that a transaction can have for itself.
        && setting_name(variable) == "durability"
    {
        set_own_durability(work, &value_text(value)?)?;
        return Ok(Outcome::Done { tag: "SET" });
    }
    if let Set::SetTimeZone { local: false, value } = set {
        set_zone(work, value)?;
        return Ok(Outcome::Done { tag: "SET" });
    }
    if let Set::SingleAssignment { scope, hivevar: false, variable, values } = set
        && matches!(scope, None | Some(ContextModifier::Session | ContextModifier::Local))
        && is_path_setting(&setting_name(variable))
    {
        search_path::set(work, &setting_name(variable), values, *scope == Some(ContextModifier::Local))?;
        return Ok(Outcome::Done { tag: "SET" });
    }
    if let Set::SingleAssignment { scope: None, hivevar: false, variable, values } = set
        && let Some(name) = variable_name(variable)
    {
        return variable::set(work, &name, values);
    }
    let Set::SingleAssignment { scope: None, hivevar: false, variable, values } = set else {
        return Err(Error::new(ErrorKind::Unsupported, format!("{set} is not supported"))
            .hint("settings are set one by one: SET name = value"));
    };
    let mut name = setting_name(variable);
    let [value] = values.as_slice() else {
        return Err(Error::new(ErrorKind::InvalidParameter, format!("the setting {name} takes one value")));
    };
    if name == TIMEOUT && !is_default(value) {
        work.set(TIMEOUT_MS, &milliseconds(&value_text(value)?)?.to_string())?;
        return Ok(Outcome::Done { tag: "SET" });
    }
    if name == TIMEOUT {
        TIMEOUT_MS.clone_into(&mut name);
    }
    if name == TIME_ZONE {
        set_zone(work, value)?;
    } else if is_default(value) {
        work.reset_setting(&name)?;
    } else {
        work.set(&name, &value_text(value)?)?;
    }
    Ok(Outcome::Done { tag: "SET" })
}

/// PostgreSQL's name of [`TIMEOUT_MS`], whose values have units: `SET statement_timeout = '5s'`.
const TIMEOUT: &str = "statement_timeout";
const TIMEOUT_MS: &str = "statement_timeout_ms";

/// The number of milliseconds of a duration as PostgreSQL writes it. A number without a unit counts milliseconds.
fn milliseconds(text: &str) -> Result<u64> {
    let text = text.trim();
    let digits = text.find(|ch: char| !ch.is_ascii_digit()).unwrap_or(text.len());
    let unit = match text[digits..].trim_start() {
        "" | "ms" => Some(1),
        "s" => Some(1_000),
        "min" => Some(60_000),
        "h" => Some(3_600_000),
        "d" => Some(86_400_000),
        _ => None,
    };
    let number = text[..digits].parse::<u64>().ok();
    number.zip(unit).and_then(|(number, unit)| number.checked_mul(unit)).ok_or_else(|| {
        Error::new(ErrorKind::InvalidParameter, format!("{TIMEOUT} takes a duration, not '{text}'"))
            .hint("write '500ms', '5s', '2min' or '1h'; 0 is no limit")
    })
}

/// The setting that also has two words for a name.
const TIME_ZONE: &str = "timezone";

/// Sets the time zone of the session. `LOCAL` and `DEFAULT` mean the one that it began with.
fn set_zone(work: &mut Work<'_>, value: &Expr) -> Result<()> {
    let text = match value {
        Expr::Interval(interval) => match &*interval.value {
            Expr::Value(value) => value.value.clone().into_string().unwrap_or_default(),
            other => return Err(not_a_value(&other.to_string())),
        },
        value => value_text(value)?,
    };
    if is_default(value) || text.eq_ignore_ascii_case("local") || text.eq_ignore_ascii_case("default") {
        return work.reset_setting(TIME_ZONE);
    }
    let spelled = SessionZone::spelled(&text)?;
    work.set(TIME_ZONE, spelled.as_deref().unwrap_or_default())
}

/// Sets the durability of the open transaction: whether its commit waits for the disk.
fn set_own_durability(work: &mut Work<'_>, word: &str) -> Result<()> {
    let mut wanted = Settings::default();
    wanted.set("durability", word)?;
    work.open_transaction("SET LOCAL")?.settled()?.set_durability(wanted.durability())
}

/// Runs `RESET name` and `RESET ALL`.
pub(crate) fn reset(work: &mut Work<'_>, reset: &Reset) -> Result<Outcome> {
    match reset {
        Reset::ConfigurationParameter(name) if is_path_setting(&setting_name(name)) => {
            work.session.set_search_path(SearchPath::default());
        }
        Reset::ConfigurationParameter(name) if let Some(name) = variable_name(name) => variable::reset(work, &name),
        Reset::ConfigurationParameter(name) => {
            let name = setting_name(name);
            work.reset_setting(if name == TIMEOUT { TIMEOUT_MS } else { &name })?;
        }
        Reset::ALL => {
            // Settings of the database cannot be reset, so RESET ALL leaves them out.
            for setting in SETTINGS.iter().filter(|setting| setting.scope == SettingScope::Connection) {
                work.reset_setting(setting.name)?;
            }
            work.session.set_search_path(SearchPath::default());
        }
    }
    Ok(Outcome::Done { tag: "RESET" })
}

/// Runs `SHOW name` and `SHOW ALL`.
pub(crate) fn show(work: &mut Work<'_>, variable: &[Ident]) -> Result<Outcome> {
    let name = variable.iter().map(|ident| ident.value.as_str()).collect::<Vec<_>>().join(" ").replace(" . ", ".");
    let name = match name.as_str() {
        "time zone" => TIME_ZONE.to_owned(),
        TIMEOUT => TIMEOUT_MS.to_owned(),
        _ => name,
    };
    let batch = if name == "all" {
        all(work)?
    } else if is_path_setting(&name) {
        text_batch(&[(&name, vec![search_path::value_of(work, &name)?])])?
    } else {
        let setting = Settings::describe(&name)?;
        text_batch(&[(setting.name, vec![shown(work, setting)?])])?
    };
    Ok(Outcome::Rows(RowStream::ready(batch)))
}

/// The value of a setting. Where 0 stands for a value that depends on the machine, it is that value.
fn shown(work: &Work<'_>, setting: &Setting) -> Result<String> {
    let settings = work.settings();
    match (setting.name, settings.show(setting.name)?.as_str()) {
        ("memory_limit", "0") => Ok(work.engine().broker().limit_bytes().to_string()),
        ("temp_disk_limit", "0") => Ok(work.engine().temp().quota().limit_bytes().to_string()),
        ("threads", "0") => Ok(settings.threads().to_string()),
        (_, value) => Ok(value.to_owned()),
    }
}

fn all(work: &Work<'_>) -> Result<RecordBatch> {
    let column = |of: &dyn Fn(&Setting) -> Result<String>| SETTINGS.iter().map(of).collect::<Result<Vec<_>>>();
    let scope = |setting: &Setting| match setting.scope {
        SettingScope::Database => "database",
        SettingScope::Connection => "connection",
    };
    text_batch(&[
        ("name", column(&|setting| Ok(setting.name.to_string()))?),
        ("value", column(&|setting| shown(work, setting))?),
        ("scope", column(&|setting| Ok(scope(setting).to_string()))?),
        ("description", column(&|setting| Ok(setting.doc.to_string()))?),
    ])
}

fn text_batch(columns: &[(&str, Vec<String>)]) -> Result<RecordBatch> {
    let fields = columns.iter().map(|(name, _)| Field::new(*name, DataType::Utf8, false)).collect::<Vec<_>>();
    let arrays = columns.iter().map(|(_, values)| Arc::new(StringArray::from(values.clone())) as ArrayRef).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).map_err(|error| Error::internal(error.to_string()))
}

fn setting_name(name: &ObjectName) -> String {
    name.to_string().replace('"', "").to_lowercase()
}

pub(crate) fn is_default(value: &Expr) -> bool {
    matches!(value, Expr::Identifier(ident) if ident.value == "default" && ident.quote_style.is_none())
}

/// Returns a value as the text that the table of settings reads.
pub(crate) fn value_text(value: &Expr) -> Result<String> {
    Ok(match value {
        Expr::Value(value) => match &value.value {
            Value::Number(text, _) => text.clone(),
            Value::Boolean(flag) => flag.to_string(),
            other => match other.clone().into_string() {
                Some(text) => text,
                None => return Err(not_a_value(&other.to_string())),
            },
        },
        Expr::Identifier(ident) => ident.value.clone(),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => format!("-{}", value_text(expr)?),
        other => return Err(not_a_value(&other.to_string())),
    })
}

fn not_a_value(text: &str) -> Error {
    Error::new(ErrorKind::InvalidParameter, format!("\"{text}\" is not a value for a setting"))
        .hint("a number, a string, or true or false is needed")
}
