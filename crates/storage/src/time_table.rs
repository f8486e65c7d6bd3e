//! Time tables: columnar tables with a time column, by which blocks are sorted, rows expire, and partitions are
//! dropped.

use std::fmt;

use rowmill_base::{ColumnId, SqlType};

/// The clauses of `CREATE TABLE` that make a columnar table a time table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeTableDef {
    /// The time column, which must be NOT NULL.
    pub column: ColumnId,
    /// The length of a partition; `None` for `PARTITION BY NONE`.
    pub partition: Option<CalendarUnit>,
    /// The age at which rows are deleted.
    pub time_to_live: Option<TimeToLive>,
    /// The columns of `DEDUP UPSERT KEYS`, the time column among them. Empty if rows are never replaced.
    pub dedup_keys: Vec<ColumnId>,
}

impl TimeTableDef {
    /// A time table with the time column `column` and without other clauses.
    pub fn new(column: ColumnId) -> TimeTableDef {
        TimeTableDef { column, partition: None, time_to_live: None, dedup_keys: Vec::new() }
    }

    /// Whether values of `kind` can be in a time column.
    pub fn is_time(kind: &SqlType) -> bool {
        matches!(kind, SqlType::Timestamp { .. } | SqlType::Date)
    }
}

/// A unit of the calendar: the length of a partition, or of the life of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CalendarUnit {
    /// An hour.
    Hour,
    /// A day.
    Day,
    /// Seven days. A partition of a week begins on a Monday.
    Week,
    /// A month of the calendar.
    Month,
    /// A year of the calendar.
    Year,
}

impl CalendarUnit {
    /// All units, shortest first. The catalog stores the position of a unit in this list, so it must never change.
    pub const ALL: [CalendarUnit; 5] =
        [CalendarUnit::Hour, CalendarUnit::Day, CalendarUnit::Week, CalendarUnit::Month, CalendarUnit::Year];

    /// The word for one unit, in upper case.
    pub fn word(self) -> &'static str {
        match self {
            CalendarUnit::Hour => "HOUR",
            CalendarUnit::Day => "DAY",
            CalendarUnit::Week => "WEEK",
            CalendarUnit::Month => "MONTH",
            CalendarUnit::Year => "YEAR",
        }
    }

    /// The unit with the name `word`, ignoring case.
    pub fn of_word(word: &str) -> Option<CalendarUnit> {
        CalendarUnit::ALL.into_iter().find(|unit| unit.word().eq_ignore_ascii_case(word))
    }
}

/// The age at which rows of a time table are deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeToLive {
    /// The number of units: 1 to [`TimeToLive::COUNT_MAX`].
    pub count: u32,
    /// The unit.
    pub unit: CalendarUnit,
}

impl TimeToLive {
    /// The greatest number of units. With it, the age of a row in any unit is within the range of a date.
    pub const COUNT_MAX: u32 = 100_000;
}

impl fmt::Display for TimeToLive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.count == 1 { "" } else { "S" };
        write!(f, "{} {}{plural}", self.count, self.unit.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_found_by_their_words() {
        for unit in CalendarUnit::ALL {
            assert_eq!(CalendarUnit::of_word(&unit.word().to_lowercase()), Some(unit));
        }
        assert_eq!(CalendarUnit::of_word("minute"), None);
    }

    #[test]
    fn a_time_to_live_is_written_with_a_singular_or_plural_unit() {
        assert_eq!(TimeToLive { count: 1, unit: CalendarUnit::Day }.to_string(), "1 DAY");
        assert_eq!(TimeToLive { count: 90, unit: CalendarUnit::Hour }.to_string(), "90 HOURS");
    }
}
