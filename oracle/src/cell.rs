//! Values of results in a form to which we can bring every engine's values, and answers made of these values.

use std::cmp::Ordering;

/// A value of a result.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    Null,
    /// An integer or a decimal, without trailing zeros.
    Exact(String),
    Double(f64),
    /// A value of any other type, as text.
    Text(String),
}

/// Doubles that differ by less than this, relatively, count as equal, because engines add in different orders.
const TOLERANCE: f64 = 1e-11;

impl Cell {
    /// Makes an exact number from `text`, for example from `1.50`.
    pub fn exact(text: &str) -> Cell {
        let text = match text.contains('.') {
            true => text.trim_end_matches('0').trim_end_matches('.'),
            false => text,
        };
        Cell::Exact(if text == "-0" { "0".to_owned() } else { text.to_owned() })
    }

    /// Makes a date, a time or a timestamp from `text`, without a fraction of zeros.
    pub fn time(text: &str) -> Cell {
        let text = match text.contains('.') {
            true => text.trim_end_matches('0').trim_end_matches('.'),
            false => text,
        };
        Cell::Text(text.to_owned())
    }

    fn number(&self) -> Option<f64> {
        match self {
            Cell::Exact(text) => text.parse().ok(),
            Cell::Double(value) => Some(*value + 0.0),
            _ => None,
        }
    }

    /// Whether two cells have the same value. We compare an exact number with a double as doubles, because engines may
    /// differ in the type of a result.
    pub fn same(&self, other: &Cell) -> bool {
        match (self, other) {
            (Cell::Exact(a), Cell::Exact(b)) => a == b,
            _ => match (self.number(), other.number()) {
                (Some(a), Some(b)) => {
                    a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= TOLERANCE * a.abs().max(b.abs())
                }
                _ => self == other,
            },
        }
    }

    /// An order for sorting rows. Equal values of different engines must sort to the same place.
    fn order(&self, other: &Cell) -> Ordering {
        let class = |cell: &Cell| match cell {
            Cell::Null => 0,
            Cell::Exact(_) | Cell::Double(_) => 1,
            Cell::Text(_) => 2,
        };
        match (self, other) {
            (Cell::Text(a), Cell::Text(b)) => a.cmp(b),
            _ => match (self.number(), other.number()) {
                // We round before we compare, so that nearly equal values of two engines sort to the same place.
                (Some(a), Some(b)) => rounded(a).total_cmp(&rounded(b)),
                _ => class(self).cmp(&class(other)),
            },
        }
    }

    /// Returns the value in the form of a report.
    pub fn shown(&self) -> String {
        match self {
            Cell::Null => "NULL".to_owned(),
            Cell::Exact(text) => text.clone(),
            Cell::Double(value) => format!("{value:?}"),
            Cell::Text(text) => format!("'{text}'"),
        }
    }
}

/// Rounds `value` to nine digits.
fn rounded(value: f64) -> f64 {
    format!("{value:.8e}").parse().unwrap_or(value)
}

/// The answer of an engine to a statement.
#[derive(Clone, Debug)]
pub enum Answer {
    Rows(Vec<Vec<Cell>>),
    Failed {
        /// The class of the error: an SQLSTATE, or the engine's name for it.
        class: String,
        message: String,
    },
    /// The statement took too long, or gave more rows than we compare.
    TooMuch,
}

impl Answer {
    /// Whether both answers have the same rows. With `ordered` the order must be the same too; the caller must set it
    /// only for queries with a total order.
    pub fn same_rows(ours: &[Vec<Cell>], theirs: &[Vec<Cell>], ordered: bool) -> bool {
        let equal = |a: &[Vec<Cell>], b: &[Vec<Cell>]| {
            a.len() == b.len()
                && a.iter().zip(b).all(|(a, b)| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.same(b)))
        };
        match ordered {
            true => equal(ours, theirs),
            false => equal(&sorted(ours), &sorted(theirs)),
        }
    }
}

fn sorted(rows: &[Vec<Cell>]) -> Vec<Vec<Cell>> {
    let mut rows = rows.to_vec();
    rows.sort_by(|a, b| {
        a.iter().zip(b).map(|(a, b)| a.order(b)).find(|order| order.is_ne()).unwrap_or(a.len().cmp(&b.len()))
    });
    rows
}
