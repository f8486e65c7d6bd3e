//! Which rows of a keyed table are read, by which key.

use rowmill_base::{IndexId, TableId};

use super::Scalar;

/// Rows of a keyed table by the primary key or by an index, in its order.
///
/// Scalars are compared with columns of a key as SQL compares them. One that is NULL, or that no value of the column's
/// type equals, finds nothing. The columns of an index are followed by those of the primary key.
#[derive(Clone, Debug, PartialEq)]
pub struct Access {
    /// The table.
    pub table: TableId,
    /// The index, or the primary key.
    pub index: Option<IndexId>,
    /// What the first columns of the key are equal to. A row, or none, if these are all columns of the primary key.
    pub equal: Vec<Scalar>,
    /// Values of the columns after those, as lists of one length: the rows that have the values of one of the lists, each
    /// row once. Without lists these columns have any values.
    pub alternatives: Vec<Vec<Scalar>>,
    /// What the next column is at least, or more than: whichever way it is ordered.
    pub from: Option<Bound>,
    /// What the next column is at most, or less than.
    pub to: Option<Bound>,
    /// What the next column, a text, begins with. Not together with bounds.
    pub prefix: Option<TextPrefix>,
    /// Whether the next column must not be NULL. Bounds and prefixes say so by themselves.
    pub not_null: bool,
    /// Against the order of the key.
    pub backward: bool,
}

/// An end of a range of values.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// The value of the next column; or values of the next columns, which are compared as a row: by the first in which they
    /// differ. Those columns are all ordered in one direction, and the values of several have the types of the columns.
    /// Never a column of the row that is read. If any is NULL nothing is found, and a row in which such a column other
    /// than the first is NULL may be found.
    pub values: Vec<Scalar>,
    /// Whether the value itself is in.
    pub inclusive: bool,
}

/// Texts that begin as all matches of a pattern do.
#[derive(Clone, Debug, PartialEq)]
pub struct TextPrefix {
    /// The pattern of LIKE.
    pub pattern: Scalar,
    /// The character that makes the next one stand for itself.
    pub escape: Option<char>,
}

impl Access {
    /// All rows of a table, by its primary key.
    pub fn all(table: TableId) -> Access {
        Access {
            table,
            index: None,
            equal: Vec::new(),
            alternatives: Vec::new(),
            from: None,
            to: None,
            prefix: None,
            not_null: false,
            backward: false,
        }
    }

    /// All values that rows are looked for by.
    pub fn scalars(&self) -> impl Iterator<Item = &Scalar> {
        let bounds = self.from.iter().chain(&self.to).flat_map(|bound| &bound.values);
        let prefix = self.prefix.iter().map(|prefix| &prefix.pattern);
        self.equal.iter().chain(self.alternatives.iter().flatten()).chain(bounds).chain(prefix)
    }
}

impl Bound {
    /// A value of the next column.
    pub fn new(value: Scalar, inclusive: bool) -> Bound {
        Bound { values: vec![value], inclusive }
    }
}
