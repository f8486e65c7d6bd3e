//! The kinds of values that generated expressions have, and literals of each.

use crate::random::Random;

/// What the generator knows of a value's type. Widths are left to the tables: a kind is what may stand on both sides of
/// a comparison or a set operation in every engine.
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
    /// A kind, integers and texts more often than others.
    pub fn random(random: &mut Random) -> Kind {
        match random.below(10) {
            0..4 => Kind::Int,
            4..6 => Kind::Text,
            _ => random.pick(&KINDS),
        }
    }

    /// The type that a cast to this kind names.
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

    /// A literal out of a small domain, so that equalities are met often.
    pub fn literal(self, random: &mut Random) -> String {
        match self {
            Kind::Bool => random.pick(&["TRUE", "FALSE"]).to_owned(),
            Kind::Int => match random.below(8) {
                0 => random.pick(&["100", "-7", "1000", "9"]).to_owned(),
                _ => (random.below(8) as i64 - 2).to_string(),
            },
            Kind::Decimal => random.pick(&["0.00", "1.50", "2.25", "-1.50", "10.00", "0.1", "3.75"]).to_owned(),
            // Sums of quarters are exact, in any order.
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
