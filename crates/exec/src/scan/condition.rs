//! Conditions in the form that blocks are asked in: sets of values, with AND and OR above them.
//!
//! ```text
//!   NOT (a < 3 OR b LIKE '%x%') AND a BETWEEN 1 AND 9
//!     a in {[3, 9]}        one set of values: the comparisons of a column that all have to hold are one
//!     b NOT LIKE '%x%'     NOT goes down to the columns
//! ```
//!
//! A row passes where a condition is true, and it is no matter whether it is false or unknown otherwise. So NOT is moved
//! down to single columns, where it becomes another condition, by the rules that hold in three-valued logic too; what is
//! left above are AND and OR of conditions on one column each, and the rows of those can be put together as sets.
//!
//! None of these conditions can fail, so that they are asked in any order.

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
    /// All of them are true.
    All(Vec<Condition>),
    /// One of them at least is true.
    Any(Vec<Condition>),
}

/// A condition on one column.
#[derive(Debug)]
pub struct ColumnCondition {
    /// Its number among those of the filter.
    pub(super) id: usize,
    /// The column.
    pub column: usize,
    /// The condition on its value.
    pub test: Test,
}

/// A condition on one value.
#[derive(Debug)]
pub enum Test {
    /// The value is one of these.
    Values(ValueSet),
    /// The value, a text, matches the pattern, or with `negated` does not.
    Like {
        /// The pattern.
        pattern: Box<LikePattern>,
        /// `NOT LIKE`
        negated: bool,
    },
    /// The predicate is true for the value.
    Predicate(Predicate),
}

/// Conditions that are all true exactly where all of `predicates` are. `kind` gives the type of a column.
pub fn conjuncts<'a>(predicates: &[Predicate], kind: &'a dyn Fn(usize) -> &'a SqlType) -> Vec<Condition> {
    let all = predicates.iter().map(|predicate| condition(kind, predicate, false)).collect();
    match merged(Condition::All(all)) {
        Condition::All(conjuncts) => conjuncts,
        one => vec![one],
    }
}

impl Condition {
    /// Numbers the conditions on single columns, from `next` on.
    pub(super) fn number(&mut self, next: &mut usize) {
        match self {
            Condition::Column(column) => {
                column.id = *next;
                *next += 1;
            }
            Condition::All(parts) | Condition::Any(parts) => parts.iter_mut().for_each(|part| part.number(next)),
        }
    }
}

/// The condition that holds where `predicate`, or with `negated` its opposite, is true.
fn condition(kind: Kinds<'_>, predicate: &Predicate, negated: bool) -> Condition {
    let parts = |parts: &[Predicate]| parts.iter().map(|part| condition(kind, part, negated)).collect();
    match (predicate, negated) {
        (Predicate::And(all), false) | (Predicate::Or(all), true) => Condition::All(parts(all)),
        (Predicate::And(any), true) | (Predicate::Or(any), false) => Condition::Any(parts(any)),
        (Predicate::Not(part), _) => condition(kind, part, !negated),
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

/// The values for which the predicate is true, if those are ranges.
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
        Predicate::Like { .. } | Predicate::And(_) | Predicate::Or(_) | Predicate::Not(_) => None,
    }
}

/// The values for which the opposite of a predicate on one column is true, that being true for `values`.
fn opposite(kind: Kinds<'_>, predicate: &Predicate, values: ValueSet) -> ValueSet {
    match predicate {
        // The only one that is false, not unknown, for NULL.
        Predicate::IsNull { column, negated: true } => ValueSet::null(kind(*column)),
        _ => values.other_values(),
    }
}

/// The same condition with parts of one kind in one list, and the values of each column in such a list in one set.
fn merged(condition: Condition) -> Condition {
    let (parts, is_all) = match condition {
        Condition::Column(_) => return condition,
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
