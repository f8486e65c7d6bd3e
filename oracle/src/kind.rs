//! The kinds of values that generated expressions have, and literals of each kind.

use crate::random::Random;

/// The generator's view of a value's type. The tables choose the widths. Two values of one kind can be compared, and
/// combined by a set operation, in every engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Bool,
    Int,
    Decimal,
    Double,
    Text,
    Date,
    Timestamp,
}

pub const KINDS: [Kind; 7] =
    [Kind::Int, Kind::Text, Kind::Bool, Kind::Decimal, Kind::Double, Kind::Date, Kind::Timestamp];

impl Kind {
    /// Draws a kind. Integers and texts are more frequent than others.
    pub fn random(random: &mut Random) -> Kind {
        match random.below(10) {
            0..4 => Kind::Int,
            4..6 => Kind::Text,
            _ => random.pick(&KINDS),
        }
    }

    /// The name of the type in a cast to this kind.
    pub fn type_name(self) -> &'static str {
        match self {
            Kind::Bool => "BOOLEAN",
            Kind::Int => "BIGINT",
            Kind::Decimal => "DECIMAL(18, 4)",
            Kind::Double => "DOUBLE",
            Kind::Text => "TEXT",
            Kind::Date => "DATE",
            Kind::Timestamp => "TIMESTAMP",
        }
    }

    /// Draws a literal from a small domain, so that equalities often hold.
    pub fn literal(self, random: &mut Random) -> String {
        match self {
            Kind::Bool => random.pick(&["TRUE", "FALSE"]).to_owned(),
            Kind::Int => match random.below(8) {
                0 => random.pick(&["100", "-7", "1000", "9"]).to_owned(),
                _ => (random.below(8) as i64 - 2).to_string(),
            },
            Kind::Decimal => random.pick(&["0.00", "1.50", "2.25", "-1.50", "10.00", "0.1", "3.75"]).to_owned(),
            // Sums of quarters are exact in any order.
            Kind::Double => random.pick(&["0.0e0", "1.5e0", "0.25e0", "-1.5e0", "2e0", "10e0"]).to_owned(),
            Kind::Text => format!("'{}'", random.pick(&["a", "b", "ab", "abc", "", "A", "é", "x y", "b,c", "%"])),
            Kind::Date => format!(
                "DATE '{}'",
                random.pick(&["2020-01-01", "2020-01-02", "2020-02-29", "1969-12-31", "2021-03-15", "2020-12-31"])
            ),
            Kind::Timestamp => format!(
                "TIMESTAMP '{}'",
                random.pick(&[
                    "2020-01-01 00:00:00",
                    "2020-01-01 12:30:00",
                    "2020-02-29 23:59:59.5",
                    "1969-12-31 23:00:00",
                    "2021-03-15 01:02:03",
                ])
            ),
        }
    }
}
