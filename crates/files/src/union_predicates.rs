//! The conditions of a query on a union of files, as one of the files can use them.
//!
//! A condition names columns of the union. A file has its own numbers for its columns, lacks some of them, and has one
//! value for columns that its path tells:
//!
//! ```text
//! union (id, city, year)          file year=2026/a.parquet (city, id)
//! id > 7                          column 1 > 7: row groups can be skipped
//! year = 2025                     never true: the file is not read
//! ```
//!
//! A reader checks all conditions again, so a condition that we cannot translate is left out.

use std::cmp::Ordering;

use arrow::array::{Array, ArrayRef, make_comparator};
use arrow::compute::SortOptions;
use rowmill_expr::kernels::cast::cast;
use rowmill_plan::Predicate;

/// What a file has for a column of the union.
pub(crate) enum UnionPlace<'a> {
    /// A column of the file, in the type of the union.
    Column(usize),
    /// One value for all rows, as an array of one row.
    Value(&'a ArrayRef),
    /// Nothing that a condition could use.
    Unknown,
}

/// Returns the conditions for a file, or `None` if no row of the file can meet them. `place` tells what the file has
/// for each column.
pub(crate) fn predicates_for<'a>(
    predicates: &[Predicate],
    place: &dyn Fn(usize) -> UnionPlace<'a>,
) -> Option<Vec<Predicate>> {
    let mut own = Vec::new();
    let mut waiting: Vec<&Predicate> = predicates.iter().rev().collect();
    while let Some(predicate) = waiting.pop() {
        match predicate {
            Predicate::And(parts) => waiting.extend(parts.iter().rev()),
            predicate if is_never_true(predicate, place) => return None,
            predicate => own.extend(renumbered(predicate, place)),
        }
    }
    Some(own)
}

/// Whether a condition on a column with one value is not true for that value.
fn is_never_true<'a>(predicate: &Predicate, place: &dyn Fn(usize) -> UnionPlace<'a>) -> bool {
    match predicate {
        Predicate::Compare { column, op, value } => match place(*column) {
            UnionPlace::Value(own) => compare(own, value).is_some_and(|order| !op.holds(order)),
            _ => false,
        },
        Predicate::In { column, values, negated: false } => match place(*column) {
            UnionPlace::Value(own) => (0..values.len())
                .all(|row| values.is_null(row) || compare(own, &values.slice(row, 1)).is_some_and(Ordering::is_ne)),
            _ => false,
        },
        Predicate::Or(parts) => parts.iter().all(|part| is_never_true(part, place)),
        _ => false,
    }
}

/// Compares two values. `None` if one is NULL or they cannot be compared.
fn compare(own: &ArrayRef, value: &ArrayRef) -> Option<Ordering> {
    // The type of the union may be wider than that of the path's values, for which the condition was made.
    let own = cast(own, value.data_type(), false).ok()?;
    if own.is_null(0) || value.is_null(0) {
        return None;
    }
    Some(make_comparator(&own, value, SortOptions::default()).ok()?(0, 0))
}

/// The condition with the file's numbers of its columns, if the file has all of them.
fn renumbered<'a>(predicate: &Predicate, place: &dyn Fn(usize) -> UnionPlace<'a>) -> Option<Predicate> {
    let own = |column: &mut usize| match place(*column) {
        UnionPlace::Column(number) => {
            *column = number;
            Some(())
        }
        UnionPlace::Value(_) | UnionPlace::Unknown => None,
    };
    let all = |parts: &[Predicate]| parts.iter().map(|part| renumbered(part, place)).collect::<Option<Vec<_>>>();
    let mut changed = predicate.clone();
    match &mut changed {
        Predicate::Compare { column, .. }
        | Predicate::In { column, .. }
        | Predicate::IsNull { column, .. }
        | Predicate::Like { column, .. } => own(column)?,
        Predicate::And(parts) | Predicate::Or(parts) => *parts = all(parts)?,
        Predicate::Not(part) => **part = renumbered(part, place)?,
        // Its code reads columns by the numbers of the union.
        Predicate::Computed(_) => return None,
    }
    Some(changed)
}
