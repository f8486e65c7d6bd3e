//! The columns of outer rows to which nested reads refer.
//!
//! Nested reads give the same rows again for an outer row with the same values in these columns. Such rows often follow
//! each other, for example the orders of one customer, each with a value of that customer. So we keep the values for
//! which the nested reads ran last, and run them again only for other values. [`RememberedRows`] keeps those of earlier
//! runs.
//!
//! [`RememberedRows`]: super::remembered::RememberedRows

use std::collections::BTreeSet;
use std::sync::Arc;

use rowmill_base::{Error, Result, SqlType};
use rowmill_plan::program::RowColumn;
use rowmill_storage::keyed::ValueRef;

use crate::expr::RowsLayout;
use crate::nested_index::hash_of;
use crate::result_rows::ResultRows;

/// Columns of the rows around nested reads.
#[derive(Debug)]
pub(super) struct OuterColumns {
    /// The places of the columns in the list of values of the rows.
    places: Box<[usize]>,
    kinds: Arc<[SqlType]>,
}

impl OuterColumns {
    /// Finds the places of `columns`, which the statement must need.
    pub(super) fn new(columns: &BTreeSet<RowColumn>, layout: &RowsLayout) -> Result<OuterColumns> {
        let unknown = || Error::internal("a nested read of the program refers to a column that its rows do not have");
        let place = |column: &RowColumn| layout.place(*column).ok_or_else(unknown);
        let found = columns.iter().map(place).collect::<Result<Vec<_>>>()?;
        let (places, kinds): (Vec<usize>, Vec<SqlType>) =
            found.into_iter().map(|(at, kind)| (at, kind.clone())).unzip();
        Ok(OuterColumns { places: places.into(), kinds: kinds.into() })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Whether all values have an order, so that they can be hashed.
    pub(super) fn are_ordered(&self) -> bool {
        self.kinds.iter().all(SqlType::is_ordered)
    }

    /// Whether the outer row `values` has the values of a row of `noted`.
    #[inline]
    pub(super) fn are_those_of(&self, noted: &ResultRows, row: usize, values: &[ValueRef<'_>]) -> bool {
        let mut places = self.places.iter().enumerate();
        places.all(|(column, place)| are_identical(noted.get(row, column), values[*place]))
    }

    /// Empties `noted`, to which [`append`](Self::append) then adds rows.
    #[inline]
    pub(super) fn start(&self, noted: &mut ResultRows) {
        noted.start(&self.kinds);
    }

    /// Appends the values of an outer row.
    #[inline]
    pub(super) fn append(&self, values: &[ValueRef<'_>], noted: &mut ResultRows) {
        self.places.iter().for_each(|place| noted.push(values[*place]));
        noted.end_row();
    }

    /// The hash of the values of an outer row. Identical values have equal hashes. The types must be ordered.
    pub(super) fn hash(&self, values: &[ValueRef<'_>], key: &mut Vec<u8>) -> u64 {
        hash_of(self.places.iter().map(|place| values[*place]), key)
    }
}

/// Whether no expression can tell two values apart. Zero and negative zero are equal, but `1 / x` differs.
fn are_identical(left: ValueRef<'_>, right: ValueRef<'_>) -> bool {
    match (left, right) {
        (ValueRef::Float(left), ValueRef::Float(right)) => left.to_bits() == right.to_bits(),
        (left, right) => left == right,
    }
}
