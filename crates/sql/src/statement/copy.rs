//! `COPY`: loads files into tables, and writes tables and queries to files.

use rowmill_base::{Error, ErrorKind, Result};
use rowmill_expr::session_zone::with_session_zone;

use super::write::BoundWrite;
use super::write::binder::WriteBinder;
use super::{copy_from, copy_to};
use crate::files::FileFormat;
use crate::outcome::Outcome;
use crate::parse::{CopyOption, CopyStatement, CopyValue};
use crate::session::Work;

pub(super) const STATEMENT: &str = "COPY";

pub(crate) fn run(work: &mut Work<'_>, copy: &CopyStatement) -> Result<Outcome> {
    let CopyStatement { source, from, path, options } = copy;
    let rows = match from {
        // Files keep to UTC.
        true => with_session_zone(None, || copy_from::run(work, source, path, options))?,
        false => copy_to::run(work, source, path, options)?,
    };
    Ok(Outcome::Changed { tag: STATEMENT, rows })
}

/// Returns the plan of a `COPY ... FROM`.
pub(crate) fn plan_of_load(binder: &WriteBinder<'_>, copy: &CopyStatement) -> Result<BoundWrite<'static>> {
    copy_from::plan(binder, &copy.source, &copy.path, &copy.options)
}

/// Returns an option as a name and a text. A switch without a value has the empty text. The bare name of a format
/// selects that format, for example in `COPY t FROM 'x' CSV`.
pub(super) fn option_text(option: &CopyOption) -> Result<(&str, &str)> {
    match &option.value {
        CopyValue::Absent if FileFormat::from_name(&option.name).is_ok() => Ok(("format", option.name.as_str())),
        CopyValue::Absent => Ok((option.name.as_str(), "")),
        CopyValue::Text(text) => Ok((option.name.as_str(), text.as_str())),
        CopyValue::List(_) => Err(Error::new(
            ErrorKind::InvalidParameter,
            format!("the option {} takes one value, not a list", option.name),
        )),
    }
}

/// Refuses an option that is given twice.
pub(super) fn check_once(options: &[CopyOption]) -> Result<()> {
    for (position, option) in options.iter().enumerate() {
        if options[..position].iter().any(|earlier| earlier.name == option.name) {
            return Err(Error::new(ErrorKind::Syntax, format!("the option {} is given twice", option.name)));
        }
    }
    Ok(())
}
