//! Conditions in the form in which blocks are filtered: sets of values, combined with AND and OR.
//!
//! ```text
//!   NOT (a < 3 OR b LIKE '%x%') AND a BETWEEN 1 AND 9
//!     a in {[3, 9]}        one set of values: all comparisons of one column are merged
//!     b NOT LIKE '%x%'     NOT is moved down to the columns
//! ```
//!
//! A row passes if a condition is true; whether it is false or unknown otherwise does not matter. So we move NOT down
//! to single columns, where it becomes another condition, by rules that also hold in three-valued logic. Only AND and
//! OR of conditions on one column each remain above, and the rows of these can be combined as sets. A condition that
//! compares several columns, such as `a < b`, is tested row by row.
//!
//! None of these conditions can fail, so they may be evaluated in any order.

use std::sync::Arc;

use arrow::array::{ArrayRef, StringViewArray};
use rowmill_base::SqlType;
use rowmill_plan::{CompareOp, Predicate};
use rowmill_storage::chunk::ValueSet;

use crate::like::{self, LikePattern};

/// The types of columns.
type Kinds<'a> = &'a dyn Fn(usize) -> &'a SqlType;

/// A condition without NOT above its columns.
#[derive(Debug)]
pub enum Condition {
    /// A condition on one column.
    Column(ColumnCondition),
    /// A condition on several columns.
    Columns(Predicate),
    /// All of these must be true.
    All(Vec<Condition>),
    /// At least one of these must be true.
    Any(Vec<Condition>),
}

/// A condition on one column.
#[derive(Debug)]
pub struct ColumnCondition {
    /// The number among the column conditions of the filter.
    pub(super) id: usize,
    /// The column.
    pub column: usize,
    /// The condition on its value.
    pub test: Test,
}

/// A condition on one value.
#[derive(Debug)]
pub enum Test {
    /// The value must be one of these.
    Values(ValueSet),
    /// The value must be a text that matches the pattern, or with `negated` does not match it.
    Like {
        /// The pattern.
        pattern: Box<LikePattern>,
        /// `NOT LIKE`
        negated: bool,
    },
    /// The predicate must be true for the value.
    Predicate(Predicate),
}

/// Conditions that are all true exactly for the rows for which all of `predicates` are true. `kind` returns the type of
/// a column.
pub fn conjuncts<'a>(predicates: &[Predicate], kind: &'a dyn Fn(usize) -> &'a SqlType) -> Vec<Condition> {
    let all = predicates.iter().map(|predicate| condition(kind, predicate, false)).collect();
    match merged(Condition::All(all)) {
        Condition::All(conjuncts) => conjuncts,
        one => vec![one],
    }
}

impl Condition {
    /// Numbers the conditions on single columns, starting with `next`.
    pub(super) fn number(&mut self, next: &mut usize) {
        match self {
            Condition::Column(column) => {
                column.id = *next;
                *next += 1;
            }
            Condition::Columns(_) => {}
            Condition::All(parts) | Condition::Any(parts) => parts.iter_mut().for_each(|part| part.number(next)),
        }
    }
}

/// The condition that is true exactly where `predicate`, or with `negated` its negation, is true.
fn condition(kind: Kinds<'_>, predicate: &Predicate, negated: bool) -> Condition {
    let parts = |parts: &[Predicate]| parts.iter().map(|part| condition(kind, part, negated)).collect();
    match (predicate, negated) {
        // De Morgan: a negated OR is the AND of the negated parts.
        (Predicate::And(all), false) | (Predicate::Or(all), true) => Condition::All(parts(all)),
        (Predicate::And(any), true) | (Predicate::Or(any), false) => Condition::Any(parts(any)),
        (Predicate::Not(part), _) => condition(kind, part, !negated),
        (Predicate::Computed(computed), _) => {
            let test = if negated { Predicate::Not(Box::new(predicate.clone())) } else { predicate.clone() };
            match computed.columns() {
                [column] => Condition::Column(ColumnCondition { id: 0, column: *column, test: Test::Predicate(test) }),
                _ => Condition::Columns(test),
            }
        }
        (
            Predicate::Compare { column, .. }
            | Predicate::In { column, .. }
            | Predicate::IsNull { column, .. }
            | Predicate::Like { column, .. },
            _,
        ) => {
            let test = match (values(kind, predicate), predicate) {
                (Some(values), _) => Test::Values(if negated { opposite(kind, predicate, values) } else { values }),
                (None, Predicate::Like { pattern, negated: not_like, ignore_case: false, .. }) => Test::Like {
                    pattern: Box::new(LikePattern::new(pattern, Some(like::ESCAPE))),
                    negated: *not_like != negated,
                },
                _ if negated => Test::Predicate(Predicate::Not(Box::new(predicate.clone()))),
                _ => Test::Predicate(predicate.clone()),
            };
            Condition::Column(ColumnCondition { id: 0, column: *column, test })
        }
    }
}

/// The values for which the predicate is true, if they form ranges.
fn values(kind: Kinds<'_>, predicate: &Predicate) -> Option<ValueSet> {
    match predicate {
        Predicate::Compare { column, op, value } => {
            let less = |or_equal| ValueSet::less_than(kind(*column), value, or_equal);
            match op {
                CompareOp::Equal => ValueSet::any_of(kind(*column), value),
                CompareOp::NotEqual => ValueSet::any_of(kind(*column), value).map(ValueSet::other_values),
                CompareOp::Less => less(false),
                CompareOp::LessOrEqual => less(true),
                CompareOp::Greater => less(true).map(ValueSet::other_values),
                CompareOp::GreaterOrEqual => less(false).map(ValueSet::other_values),
            }
        }
        Predicate::In { column, values, negated } => {
            let values = ValueSet::any_of(kind(*column), values)?;
            Some(if *negated { values.other_values() } else { values })
        }
        Predicate::IsNull { column, negated: false } => Some(ValueSet::null(kind(*column))),
        Predicate::IsNull { column, negated: true } => Some(ValueSet::all(kind(*column))),
        Predicate::Like { column, pattern, negated, ignore_case: false } => {
            let values = match like::LikeRange::of(pattern, Some(like::ESCAPE))? {
                like::LikeRange::Equal(text) => {
                    ValueSet::any_of(kind(*column), &(Arc::new(StringViewArray::from(vec![text])) as ArrayRef))?
                }
                like::LikeRange::Prefix(text) => ValueSet::starting_with(text.as_bytes()),
            };
            Some(if *negated { values.other_values() } else { values })
        }
        Predicate::Like { .. } | Predicate::And(_) | Predicate::Or(_) | Predicate::Not(_) | Predicate::Computed(_) => {
            None
        }
    }
}

/// The values for which the negation of a predicate on one column is true. The predicate itself is true for `values`.
fn opposite(kind: Kinds<'_>, predicate: &Predicate, values: ValueSet) -> ValueSet {
    match predicate {
        // Only this predicate is false for NULL. All others are unknown, and so are their negations.
        Predicate::IsNull { column, negated: true } => ValueSet::null(kind(*column)),
        _ => values.other_values(),
    }
}

/// The same condition, flattened: nested lists of one kind become one list, and in each list the values of a column
/// become one set.
fn merged(condition: Condition) -> Condition {
    let (parts, is_all) = match condition {
        Condition::Column(_) | Condition::Columns(_) => return condition,
        Condition::All(parts) => (parts, true),
        Condition::Any(parts) => (parts, false),
    };
    let mut list: Vec<Condition> = Vec::with_capacity(parts.len());
    for part in parts {
        match (merged(part), is_all) {
            (Condition::All(inner), true) | (Condition::Any(inner), false) => {
                inner.into_iter().for_each(|part| add(&mut list, part, is_all));
            }
            (part, _) => add(&mut list, part, is_all),
        }
    }
    match (list.len(), is_all) {
        (1, _) => list.swap_remove(0),
        (_, true) => Condition::All(list),
        (_, false) => Condition::Any(list),
    }
}

fn add(list: &mut Vec<Condition>, part: Condition, is_all: bool) {
    if let Condition::Column(ColumnCondition { column, test: Test::Values(values), .. }) = &part {
        // An earlier set of the same column takes the new values in.
        let same = list.iter_mut().find_map(|other| match other {
            Condition::Column(ColumnCondition { column: other, test: Test::Values(values), .. }) if other == column => {
                Some(values)
            }
            _ => None,
        });
        if let Some(same) = same {
            *same = if is_all { same.and(values) } else { same.or(values) };
            return;
        }
    }
    list.push(part);
}
