//! Limits that conditions put on the columns of a table, so that a key can read the rows.
//!
//! ```text
//! a = 1 AND (b IN (2, 3) OR b > 9) AND f(c)    ->    {a: 1, b: 2 or 3}, {a: 1, b above 9}
//! ```
//!
//! Conditions become alternatives. An alternative holds for a row if all of its limits hold. We leave out conditions
//! that limits cannot express. So a row that meets the conditions must meet an alternative, but a row that meets an
//! alternative need not meet the conditions.

use std::ops::Bound;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, StringViewArray};
use rowmill_base::{Result, SqlType};
use rowmill_plan::{CompareOp, Predicate};
use rowmill_storage::TableDef;
use rowmill_storage::keyed::{ColumnValues, ValueRef};

/// Most alternatives that are kept apart. Beyond them the limits describe one range, and the rows of the range are
/// checked by the condition. This bounds the time and memory of planning.
const ALTERNATIVES_MAX: usize = 1 << 14;

/// A set of values. The column must have one of them.
#[derive(Clone, Debug)]
pub(super) struct ValueSet {
    values: Arc<ColumnValues>,
    rows: usize,
    /// Whether NULL is one of them.
    has_null: bool,
}

impl ValueSet {
    /// Makes a set from an array of a column's type without NULLs. `has_null` adds NULL.
    pub(super) fn new(values: &ArrayRef, kind: &SqlType, has_null: bool) -> Result<ValueSet> {
        Ok(ValueSet { values: Arc::new(ColumnValues::new(values, kind)?), rows: values.len(), has_null })
    }

    pub(super) fn len(&self) -> usize {
        self.rows + usize::from(self.has_null)
    }

    pub(super) fn has_null(&self) -> bool {
        self.has_null
    }

    pub(super) fn get(&self, place: usize) -> ValueRef<'_> {
        if place < self.rows { self.values.get(place) } else { ValueRef::Null }
    }
}

/// An end of a range of values.
#[derive(Clone, Debug)]
pub(super) struct LimitEnd {
    value: ValueSet,
    inclusive: bool,
}

/// The limits on the values of one column.
#[derive(Clone, Debug)]
pub(super) struct ColumnLimit {
    pub(super) column: usize,
    pub(super) set: Option<ValueSet>,
    lower: Option<LimitEnd>,
    upper: Option<LimitEnd>,
    /// Whether the column must not be NULL. A range implies that too.
    not_null: bool,
}

impl ColumnLimit {
    fn new(column: usize) -> ColumnLimit {
        ColumnLimit { column, set: None, lower: None, upper: None, not_null: false }
    }

    /// Limits a column to the values of a set.
    pub(super) fn of_set(column: usize, set: ValueSet) -> ColumnLimit {
        ColumnLimit { set: Some(set), ..ColumnLimit::new(column) }
    }

    pub(super) fn lower(&self) -> Bound<ValueRef<'_>> {
        bound(self.lower.as_ref())
    }

    pub(super) fn upper(&self) -> Bound<ValueRef<'_>> {
        bound(self.upper.as_ref())
    }

    pub(super) fn has_range(&self) -> bool {
        self.lower.is_some() || self.upper.is_some()
    }

    pub(super) fn is_not_null(&self) -> bool {
        self.not_null || self.has_range()
    }

    /// Adds the limits of `other`, which must hold too, where this one has none. Of two sets, the smaller one stays.
    fn add(&mut self, other: &ColumnLimit) {
        let len = |limit: &ColumnLimit| limit.set.as_ref().map_or(usize::MAX, ValueSet::len);
        if len(other) < len(self) {
            self.set.clone_from(&other.set);
        }
        self.lower = self.lower.take().or_else(|| other.lower.clone());
        self.upper = self.upper.take().or_else(|| other.upper.clone());
        self.not_null |= other.not_null;
    }
}

fn bound(end: Option<&LimitEnd>) -> Bound<ValueRef<'_>> {
    match end {
        None => Bound::Unbounded,
        Some(LimitEnd { value, inclusive: true }) => Bound::Included(value.get(0)),
        Some(LimitEnd { value, inclusive: false }) => Bound::Excluded(value.get(0)),
    }
}

/// Limits that hold together, at most one per column.
#[derive(Clone, Debug, Default)]
pub(super) struct Alternative(Vec<ColumnLimit>);

impl Alternative {
    pub(super) fn of(&self, column: usize) -> Option<&ColumnLimit> {
        self.0.iter().find(|limit| limit.column == column)
    }

    pub(super) fn limits(&self) -> &[ColumnLimit] {
        &self.0
    }

    pub(super) fn add(&mut self, limit: &ColumnLimit) {
        match self.0.iter_mut().find(|known| known.column == limit.column) {
            Some(known) => known.add(limit),
            None => self.0.push(limit.clone()),
        }
    }

    /// The limits of both.
    fn and(&self, other: &Alternative) -> Alternative {
        let mut all = self.clone();
        other.0.iter().for_each(|limit| all.add(limit));
        all
    }
}

/// The limits from the conditions of a scan.
#[derive(Debug, Default)]
pub(super) struct KeyLimits {
    /// The limits that hold for all rows.
    pub(super) base: Alternative,
    /// The alternatives of each condition that has several. Each includes the base.
    pub(super) choices: Vec<Vec<Alternative>>,
    /// The number of conditions that limits cannot express.
    pub(super) others: usize,
}

impl KeyLimits {
    /// The limits that all of `predicates` and `offered` together put on the rows of `table`.
    pub(super) fn new(table: &TableDef, predicates: &[Predicate], offered: &[ColumnLimit]) -> Result<KeyLimits> {
        let mut limits = KeyLimits::default();
        predicates.iter().try_for_each(|predicate| limits.add(table, predicate))?;
        offered.iter().for_each(|limit| limits.base.add(limit));
        let base = &limits.base;
        for alternatives in &mut limits.choices {
            // The limits of the alternative come first, so they win over those of the base.
            alternatives.iter_mut().for_each(|alternative| *alternative = alternative.and(base));
        }
        Ok(limits)
    }

    fn add(&mut self, table: &TableDef, predicate: &Predicate) -> Result<()> {
        if let Predicate::And(parts) = predicate {
            return parts.iter().try_for_each(|part| self.add(table, part));
        }
        match alternatives(table, predicate)? {
            None => self.others += 1,
            Some(alternatives) => match &alternatives[..] {
                [only] => only.0.iter().for_each(|limit| self.base.add(limit)),
                _ => self.choices.push(alternatives),
            },
        }
        Ok(())
    }
}

/// Alternatives for `predicate`: where it is true, one of them must hold. `None` if limits cannot express it.
fn alternatives(table: &TableDef, predicate: &Predicate) -> Result<Option<Vec<Alternative>>> {
    let one = |limit: ColumnLimit| Ok(Some(vec![Alternative(vec![limit])]));
    match predicate {
        Predicate::Compare { column, op, value } => {
            let value = ValueSet::new(value, &table.columns[*column].kind, false)?;
            let mut limit = ColumnLimit::new(*column);
            match op {
                CompareOp::Equal => limit.set = Some(value),
                CompareOp::NotEqual => limit.not_null = true,
                CompareOp::Less | CompareOp::LessOrEqual => {
                    limit.upper = Some(LimitEnd { value, inclusive: *op == CompareOp::LessOrEqual });
                }
                CompareOp::Greater | CompareOp::GreaterOrEqual => {
                    limit.lower = Some(LimitEnd { value, inclusive: *op == CompareOp::GreaterOrEqual });
                }
            }
            one(limit)
        }
        Predicate::In { column, values, negated: false } if values.null_count() == 0 => {
            one(ColumnLimit::of_set(*column, ValueSet::new(values, &table.columns[*column].kind, false)?))
        }
        Predicate::IsNull { column, negated: true } => one(ColumnLimit { not_null: true, ..ColumnLimit::new(*column) }),
        // NULL alone is a set too: keys can find it like a value.
        Predicate::IsNull { column, negated: false } if table.columns[*column].nullable => {
            let kind = &table.columns[*column].kind;
            let none = arrow::array::new_empty_array(&kind.arrow());
            one(ColumnLimit::of_set(*column, ValueSet::new(&none, kind, true)?))
        }
        Predicate::Like { column, pattern, negated: false, ignore_case: false } => {
            let kind = &table.columns[*column].kind;
            if !matches!(kind, SqlType::Text { .. }) {
                return Ok(None);
            }
            let Some(limit) = limit_of_pattern(*column, pattern, kind)? else { return Ok(None) };
            one(limit)
        }
        Predicate::And(parts) => {
            let mut all: Option<Vec<Alternative>> = None;
            for part in parts {
                let Some(more) = alternatives(table, part)? else { continue };
                all = Some(match all {
                    None => more,
                    // Too many combinations: dropping a condition here is safe, because rows are checked against all
                    // conditions.
                    Some(all) if all.len().saturating_mul(more.len()) > ALTERNATIVES_MAX => all,
                    Some(all) => all.iter().flat_map(|one| more.iter().map(|other| one.and(other))).collect(),
                });
            }
            Ok(all)
        }
        Predicate::Or(parts) => {
            let mut all = Vec::new();
            for part in parts {
                match alternatives(table, part)? {
                    // Each part of an OR must be expressed. Otherwise rows that only this part lets through would be
                    // missed.
                    Some(more) if all.len() + more.len() <= ALTERNATIVES_MAX => all.extend(more),
                    _ => return Ok(None),
                }
            }
            Ok(Some(all))
        }
        _ => Ok(None),
    }
}

/// The limit for texts that match `pattern`: the range of texts with its prefix, or the only text that it matches.
fn limit_of_pattern(column: usize, pattern: &str, kind: &SqlType) -> Result<Option<ColumnLimit>> {
    let text = |text: &str| {
        let values: ArrayRef = Arc::new(StringViewArray::from(vec![text]));
        ValueSet::new(&values, kind, false)
    };
    let mut prefix = String::new();
    let mut chars = pattern.chars();
    // Read the pattern up to its first wildcard; an escape makes the next character literal.
    let is_whole = loop {
        match chars.next() {
            None => break true,
            Some('%' | '_') => break false,
            Some('\\') => match chars.next() {
                Some(escaped) => prefix.push(escaped),
                None => break false,
            },
            Some(other) => prefix.push(other),
        }
    };
    if is_whole {
        return Ok(Some(ColumnLimit::of_set(column, text(&prefix)?)));
    }
    if prefix.is_empty() {
        return Ok(None);
    }
    let mut limit = ColumnLimit::new(column);
    limit.lower = Some(LimitEnd { value: text(&prefix)?, inclusive: true });
    limit.upper = match text_behind(prefix) {
        Some(behind) => Some(LimitEnd { value: text(&behind)?, inclusive: false }),
        None => None,
    };
    Ok(Some(limit))
}

/// The least text that is greater than all texts with this prefix. `None` if there is none.
fn text_behind(mut prefix: String) -> Option<String> {
    while let Some(last) = prefix.pop() {
        // UTF-8 sorts in the order of code points. Surrogates are not characters, so we skip their code points.
        let next = match last {
            '\u{D7FF}' => Some('\u{E000}'),
            _ => char::from_u32(u32::from(last) + 1),
        };
        if let Some(next) = next {
            prefix.push(next);
            return Some(prefix);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_text_after_all_texts_with_a_prefix() {
        let behind = |prefix: &str| text_behind(prefix.to_owned());
        assert_eq!(behind("ab").as_deref(), Some("ac"));
        assert_eq!(behind("a\u{10FFFF}").as_deref(), Some("b"));
        assert_eq!(behind("\u{D7FF}").as_deref(), Some("\u{E000}"));
        assert_eq!(behind("\u{7F}").as_deref(), Some("\u{80}"));
        assert_eq!(behind("\u{FFFF}").as_deref(), Some("\u{10000}"));
        assert_eq!(behind("\u{10FFFF}"), None);
    }
}
