//! Which rows of a keyed table are read, and by which key.

use rowmill_base::{IndexId, TableId};

use super::Scalar;

/// Rows of a keyed table, found by the primary key or by an index and given in the order of that key.
///
/// Scalars are compared with key columns as SQL compares them. A scalar finds nothing if it is NULL, other than at the
/// places of `nulls`, or if no value of the column's type equals it. The key of an index is its columns followed by
/// those of the primary key.
#[derive(Clone, Debug, PartialEq)]
pub struct Access {
    /// The table.
    pub table: TableId,
    /// The index, or `None` for the primary key.
    pub index: Option<IndexId>,
    /// Values that the first columns of the key must equal. If they are all columns of the primary key, at most one row
    /// matches.
    pub equal: Vec<Scalar>,
    /// Lists of values for the columns after those, all of the same length. Rows match if they have the values of one
    /// list; each row is given once. Without lists, these columns may have any values.
    pub alternatives: Vec<Vec<Scalar>>,
    /// The columns with given values, by their places in the key, for which NULL is a value that is looked up: those of
    /// `IS NULL` and `IS NOT DISTINCT FROM`.
    pub nulls: Vec<usize>,
    /// The lower bound of the next column. It is the lower bound in ascending order even if the key column is
    /// descending.
    pub from: Option<AccessBound>,
    /// The upper bound of the next column, in ascending order as well.
    pub to: Option<AccessBound>,
    /// A pattern whose prefix the next column, a text, must have. It excludes bounds.
    pub prefix: Option<TextPrefix>,
    /// Whether the next column must not be NULL. Bounds and prefixes imply it.
    pub not_null: bool,
    /// Whether the rows are given in descending order of the key.
    pub backward: bool,
    /// If set, one row is given for all rows that have the same values in the first columns of the key: the first one
    /// in the order of the access. For example, `SELECT DISTINCT country` should read one entry of each country.
    pub distinct: Option<DistinctKeys>,
}

/// The values for which an access gives one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DistinctKeys {
    /// Number of columns of the key whose values are compared. All columns with given values must be among them.
    pub columns: usize,
    /// Whether the access gives the number of rows with these values: a BIGINT, after the columns of the table.
    pub counts: bool,
}

/// An end of a range of values.
#[derive(Clone, Debug, PartialEq)]
pub struct AccessBound {
    /// A value for the next column, or values for the next columns, which are compared as a row: the first column that
    /// differs decides. These columns must all have the same direction in the key, and with several values each must
    /// have the type of its column. The values must not refer to columns of the row that is read. If a value is NULL,
    /// nothing is found. A row may be found although one of these columns, other than the first, is NULL in it, so that
    /// the caller must check that.
    pub values: Vec<Scalar>,
    /// Whether rows that equal the values are part of the range.
    pub inclusive: bool,
}

/// Texts that begin with the literal prefix of a LIKE pattern.
#[derive(Clone, Debug, PartialEq)]
pub struct TextPrefix {
    /// The LIKE pattern.
    pub pattern: Scalar,
    /// The character that makes the next one literal.
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
            nulls: Vec::new(),
            from: None,
            to: None,
            prefix: None,
            not_null: false,
            backward: false,
            distinct: None,
        }
    }

    /// Whether conditions on its columns leave out rows of the table.
    pub fn narrows(&self) -> bool {
        let is_range = self.from.is_some() || self.to.is_some() || self.prefix.is_some();
        is_range || !self.equal.is_empty() || !self.alternatives.is_empty()
    }

    /// All scalars of the access.
    pub fn scalars(&self) -> impl Iterator<Item = &Scalar> {
        let bounds = self.from.iter().chain(&self.to).flat_map(|bound| &bound.values);
        let prefix = self.prefix.iter().map(|prefix| &prefix.pattern);
        self.equal.iter().chain(self.alternatives.iter().flatten()).chain(bounds).chain(prefix)
    }
}

impl AccessBound {
    /// A bound of the next column alone.
    pub fn new(value: Scalar, inclusive: bool) -> AccessBound {
        AccessBound { values: vec![value], inclusive }
    }
}
