//! The time zone of the session, in which texts of instants without an offset are read and in which clocks and
//! calendars show instants.
//!
//! The zone belongs to the thread while a statement is bound, and while its texts are read there. Casts and calls that
//! depend on it become calls that name the zone (`typing`), so plans and the threads that run them need not know it. In
//! UTC nothing is set and nothing changes.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock, Mutex};

use arrow::array::timezone::Tz;
use arrow::array::{Array, ArrayRef, StringViewArray};
use arrow::datatypes::DataType;
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::Operand;

use crate::functions::time::instant_kind;
use crate::functions::time::zone::{shift, zone_called};
use crate::kernels::cast::cast;

/// A time zone other than UTC.
#[derive(Clone, Copy, Debug)]
pub struct SessionZone {
    /// The name or offset.
    pub name: &'static str,
    pub(crate) zone: Tz,
}

impl PartialEq for SessionZone {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// The names that sessions of this process have used. Zones are few, so they stay.
static NAMES: LazyLock<Mutex<BTreeSet<&'static str>>> = LazyLock::new(Mutex::default);

impl SessionZone {
    /// The zone with a name or an offset, which must be spelled as [`SessionZone::spelled`] does.
    pub fn of(name: &str) -> Result<SessionZone> {
        let zone = zone_called(name)?;
        let mut names = NAMES.lock().expect("no holder of this lock panics");
        let known = names.get(name).copied();
        let name = known.unwrap_or_else(|| {
            let kept: &'static str = name.to_owned().leak();
            names.insert(kept);
            kept
        });
        Ok(SessionZone { name, zone })
    }

    /// Returns the spelling of a zone that a user names, or `None` for UTC. Case does not matter, and a number means
    /// hours east of UTC.
    pub fn spelled(name: &str) -> Result<Option<String>> {
        /// Names of the time zone UTC.
        const UTC_NAMES: &[&str] =
            &["utc", "etc/utc", "gmt", "etc/gmt", "zulu", "z", "+00", "+00:00", "0", "local", "default"];
        let name = name.trim();
        if UTC_NAMES.contains(&name.to_lowercase().as_str()) {
            return Ok(None);
        }
        if let Ok(hours) = name.parse::<f64>() {
            let minutes = hours * 60.0;
            if minutes.fract() != 0.0 || minutes.abs() > 15.0 * 60.0 {
                let message = format!("there is no time zone {name}");
                return Err(Error::new(ErrorKind::InvalidParameter, message)
                    .hint("a number means hours east of UTC, such as 2 or -5.5"));
            }
            let (sign, minutes) = (if minutes < 0.0 { '-' } else { '+' }, minutes.abs() as u32);
            return Ok(Some(format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60)));
        }
        if zone_called(name).is_ok() {
            return Ok(Some(name.to_owned()));
        }
        let capital = with_capitals(name);
        match zone_called(&capital) {
            Ok(_) => Ok(Some(capital)),
            Err(_) => zone_called(name).map(|_| None),
        }
    }
}

/// Returns a name with a capital letter at the start of each word, as the database of zones spells them.
fn with_capitals(name: &str) -> String {
    let mut starts = true;
    let capital = |ch: char| {
        let made = if starts { ch.to_ascii_uppercase() } else { ch.to_ascii_lowercase() };
        starts = matches!(ch, '/' | '_' | '-');
        made
    };
    name.chars().map(capital).collect()
}

thread_local! {
    static ZONE: Cell<Option<SessionZone>> = const { Cell::new(None) };
}

/// Runs `work` with a zone as that of the session.
pub fn with_session_zone<T>(zone: Option<SessionZone>, work: impl FnOnce() -> T) -> T {
    /// Restores the previous zone, even after a panic.
    struct Former(Option<SessionZone>);
    impl Drop for Former {
        fn drop(&mut self) {
            ZONE.set(self.0);
        }
    }
    let _former = Former(ZONE.replace(zone));
    work()
}

/// The zone of the session of this thread, `None` for UTC.
#[inline]
pub fn session_zone() -> Option<SessionZone> {
    ZONE.get()
}

/// Converts values that are assigned to a column of the type `to`, as far as the zone of the session matters: instants
/// become local times and the other way around, and instants that become texts get a type that names the zone. Returns
/// `None` if the zone makes no difference.
pub fn assigned_in_zone(values: &ArrayRef, to: &DataType) -> Result<Option<ArrayRef>> {
    use DataType::{Date32, Time64, Timestamp, Utf8View};
    let Some(zone) = session_zone() else { return Ok(None) };
    let names = Operand::constant(Arc::new(StringViewArray::from(vec![zone.name])));
    let shifted = |values: &ArrayRef, kind: &DataType| {
        let rows = values.len();
        shift(&Operand::rows(Arc::clone(values)), &names, kind, rows).map(Some)
    };
    match (values.data_type(), to) {
        (Timestamp(unit, Some(_)), Timestamp(_, None) | Date32 | Time64(_)) => shifted(values, &Timestamp(*unit, None)),
        (Timestamp(unit, None), Timestamp(_, Some(_))) => shifted(values, &instant_kind(*unit)),
        (Date32, Timestamp(unit, Some(_))) => {
            shifted(&cast(values, &Timestamp(*unit, None), false)?, &instant_kind(*unit))
        }
        (Timestamp(unit, Some(_)), Utf8View) => {
            cast(values, &Timestamp(*unit, Some(zone.name.into())), false).map(Some)
        }
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_spelled_as_the_database_of_zones_does() {
        let spelled = |name: &str| SessionZone::spelled(name).ok().flatten();
        for (name, expected) in [
            ("Europe/Berlin", Some("Europe/Berlin")),
            ("europe/berlin", Some("Europe/Berlin")),
            ("AMERICA/NEW_YORK", Some("America/New_York")),
            ("+02:00", Some("+02:00")),
            ("2", Some("+02:00")),
            ("-5.5", Some("-05:30")),
            ("utc", None),
            ("Z", None),
        ] {
            assert_eq!(spelled(name).as_deref(), expected, "{name}");
        }
        for wrong in ["Mars/Olympus", "16", "1.001", ""] {
            assert!(SessionZone::spelled(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_zone_ends_with_the_work() {
        let zone = SessionZone::of("Europe/Berlin").expect("a zone");
        with_session_zone(Some(zone), || assert_eq!(session_zone(), Some(zone)));
        assert_eq!(session_zone(), None);
    }
}
