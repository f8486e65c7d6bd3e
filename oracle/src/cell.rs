//! Values of results in a form that every engine's values can be brought to, and answers made of them.

use std::cmp::Ordering;

/// A value of a result.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    Null,
    /// An integer or a decimal, without zeros at its end.
    Exact(String),
    Double(f64),
    /// Everything else, as text.
    Text(String),
}

/// Doubles that differ by less than this, relatively, are the same: engines add in different orders.
const TOLERANCE: f64 = 1e-11;

impl Cell {
    /// An exact number of `text`, such as `1.50`.
    pub fn exact(text: &str) -> Cell {
        let text = match text.contains('.') {
            true => text.trim_end_matches('0').trim_end_matches('.'),
            false => text,
        };
        Cell::Exact(if text == "-0" { "0".to_owned() } else { text.to_owned() })
    }

    /// A date, a time or a timestamp of `text`, without a fraction of zeros.
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

    /// Whether both are one value. An exact number and a double are compared as doubles: engines differ in the types of
    /// some results, not in their values.
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

    /// An order for sorting rows that puts equal values of different engines at one place.
    fn order(&self, other: &Cell) -> Ordering {
        let class = |cell: &Cell| match cell {
            Cell::Null => 0,
            Cell::Exact(_) | Cell::Double(_) => 1,
            Cell::Text(_) => 2,
        };
        match (self, other) {
            (Cell::Text(a), Cell::Text(b)) => a.cmp(b),
            _ => match (self.number(), other.number()) {
                (Some(a), Some(b)) => rounded(a).total_cmp(&rounded(b)),
                _ => class(self).cmp(&class(other)),
            },
        }
    }

    /// The value as a report shows it.
    pub fn shown(&self) -> String {
        match self {
            Cell::Null => "NULL".to_owned(),
            Cell::Exact(text) => text.clone(),
            Cell::Double(value) => format!("{value:?}"),
            Cell::Text(text) => format!("'{text}'"),
        }
    }
}

/// `value` with nine digits.
fn rounded(value: f64) -> f64 {
    format!("{value:.8e}").parse().unwrap_or(value)
}

/// What an engine makes of a statement.
#[derive(Clone, Debug)]
pub enum Answer {
    Rows(Vec<Vec<Cell>>),
    Failed {
        /// The class of the error: an SQLSTATE or the name that the engine gives.
        class: String,
        message: String,
    },
    /// The statement took longer than it may, or gave more rows than are compared.
    TooMuch,
}

impl Answer {
    /// Whether both answers have the same rows; in the same order where `ordered` says that the query has a total one.
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
