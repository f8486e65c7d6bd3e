//! The unit of timestamps in lines, and times in the unit of a column.

use rowmill::TimeUnit;

/// The unit of the timestamps of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinePrecision {
    /// A unit that the request names: the nanoseconds that it has.
    Unit(i64),
    /// Each timestamp has the unit that puts it nearest to the present, as InfluxDB 3 does by default.
    Auto,
}

/// The units, in nanoseconds, with the names that InfluxDB (1, 2 and 3) and QuestDB have for them.
const UNITS: [(i64, &[&str]); 6] = [
    (1, &["n", "ns", "nanosecond"]),
    (1_000, &["u", "us", "microsecond"]),
    (1_000_000, &["ms", "millisecond"]),
    (1_000_000_000, &["s", "second"]),
    (60 * 1_000_000_000, &["m", "minute"]),
    (3_600 * 1_000_000_000, &["h", "hour"]),
];

impl LinePrecision {
    pub(crate) const NANOSECONDS: LinePrecision = LinePrecision::Unit(1);

    pub(crate) fn of_name(name: &str) -> Result<LinePrecision, String> {
        if name == "auto" {
            return Ok(LinePrecision::Auto);
        }
        let found = UNITS.iter().find(|(_, names)| names.contains(&name));
        found
            .map(|(nanoseconds, _)| LinePrecision::Unit(*nanoseconds))
            .ok_or_else(|| format!("the precision \"{name}\" is unknown: use ns, us, ms, s, m, h or auto"))
    }

    /// Returns a timestamp of a line in nanoseconds. It may be out of the range of 64 bits.
    pub(crate) fn nanoseconds(self, time: i64) -> i128 {
        let unit = match self {
            LinePrecision::Unit(nanoseconds) => nanoseconds,
            // The limits are those of InfluxDB 3: each unit ends in the year 2128.
            LinePrecision::Auto => match time.unsigned_abs() {
                0..5_000_000_000 => 1_000_000_000,
                5_000_000_000..5_000_000_000_000 => 1_000_000,
                5_000_000_000_000..5_000_000_000_000_000 => 1_000,
                _ => 1,
            },
        };
        i128::from(time) * i128::from(unit)
    }
}

/// Returns a time in the unit of a column. Finer digits are cut off towards the past. Returns `None` if the time does
/// not fit.
pub(crate) fn in_unit(nanoseconds: i128, unit: TimeUnit) -> Option<i64> {
    let length: i64 = match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    };
    match i64::try_from(nanoseconds) {
        // Nearly all times fit, and a division of 64 bits takes a fraction of the time of one of 128 bits.
        Ok(nanoseconds) => Some(nanoseconds.div_euclid(length)),
        Err(_) => i64::try_from(nanoseconds.div_euclid(i128::from(length))).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_all_products_are_units() {
        for (name, nanoseconds) in
            [("ns", 1), ("n", 1), ("u", 1_000), ("millisecond", 1_000_000), ("h", 3_600_000_000_000)]
        {
            assert_eq!(LinePrecision::of_name(name), Ok(LinePrecision::Unit(nanoseconds)));
        }
        assert!(LinePrecision::of_name("d").is_err());
    }

    #[test]
    fn auto_takes_each_unit_of_the_same_moment() {
        let second = 1_700_000_000_i64;
        for scale in [1, 1_000, 1_000_000, 1_000_000_000] {
            assert_eq!(LinePrecision::Auto.nanoseconds(second * scale), i128::from(second) * 1_000_000_000);
        }
    }

    #[test]
    fn times_are_cut_off_towards_the_past_and_may_not_fit() {
        assert_eq!(in_unit(-1, TimeUnit::Microsecond), Some(-1));
        assert_eq!(in_unit(1_999, TimeUnit::Microsecond), Some(1));
        assert_eq!(in_unit(LinePrecision::Unit(1_000_000_000).nanoseconds(i64::MAX), TimeUnit::Microsecond), None);
    }
}
