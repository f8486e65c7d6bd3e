//! Chooses the key by which a table is read, given the conditions on it.
//!
//! Points, which find at most one row each, are better than anything else. Otherwise we choose the key that should
//! leave the fewest rows, as far as we know that without the values. Among equally good keys we choose the primary key,
//! because it stores the rows. Conditions that the key answers are not tested again.

use std::cmp::Reverse;

use rowmill_base::IndexId;
use rowmill_plan::program::{Access, AccessBound, Scalar, ScalarOp, ScalarValue, TextPrefix};
use rowmill_plan::{ColumnId, CompareOp, ScalarExpr};
use rowmill_storage::{KeyColumn, LOOKED_UP_ROWS, TableDef};

use super::key_condition::{ALTERNATIVES_MAX, KeyCondition, OwnColumns};
use super::spread::ValueSpread;

/// The shares of rows that we assume in a range with one end, and in a range with two ends.
const OPEN_RANGE_SHARE: f64 = 0.1;
const RANGE_SHARE: f64 = 0.02;
/// The cost of seeking a key. The unit is a row that is read in order.
pub(super) const SEEK_ROWS: f64 = 4.0;

/// A way to read a table.
#[derive(Clone, Debug)]
pub(super) struct KeyChoice {
    pub(super) access: Access,
    /// The conditions that it answers, by position.
    pub(super) answered: Vec<usize>,
    /// The columns after those with a single value, and whether they are in descending order.
    pub(super) ordered: Vec<(usize, bool)>,
    /// The columns that have a single value in all rows.
    pub(super) fixed: Vec<usize>,
    /// Whether it gives at most one row, or at most one for each alternative.
    pub(super) is_point: bool,
    is_range: bool,
    /// Estimated number of rows that it gives.
    pub(super) rows: f64,
    /// The cost of reading them.
    pub(super) cost: f64,
    /// The cost of reading one of them, after its key was found.
    of_row: f64,
}

impl KeyChoice {
    /// Whether it reads less than the whole table.
    pub(super) fn narrows(&self) -> bool {
        self.access.narrows()
    }

    /// Number of columns with given values.
    pub(super) fn given(&self) -> usize {
        self.access.equal.len() + self.access.alternatives.first().map_or(0, Vec::len)
    }

    /// The cost of reading its rows until `wanted` of them have met all conditions, if `matches` rows of the table do.
    pub(super) fn cost_of_first(&self, wanted: f64, matches: f64) -> f64 {
        let visited = wanted * (self.rows / matches.max(1.0)).max(1.0);
        self.cost.min(SEEK_ROWS + visited * self.of_row)
    }

    fn rank(&self) -> (bool, Reverse<u64>, usize, bool, bool) {
        let is_primary = self.access.index.is_none();
        (self.is_point, Reverse(self.cost as u64), self.given(), self.is_range, is_primary)
    }
}

/// All ways to read a table, the best first.
pub(super) fn choices(own: &OwnColumns<'_>, conditions: &[&ScalarExpr], spread: &ValueSpread<'_>) -> Vec<KeyChoice> {
    let Some(keyed) = &own.def.keyed else { return Vec::new() };
    let facts: Vec<(usize, KeyCondition)> = conditions
        .iter()
        .enumerate()
        .filter_map(|(at, condition)| own.fact(condition).map(|fact| (at, fact)))
        .collect();
    let indexes = keyed.indexes.iter().map(|index| (Some(index.id), &index.parts[..], index.unique));
    let mut choices: Vec<KeyChoice> = std::iter::once((None, &keyed.key[..], true))
        .chain(indexes)
        .map(|(index, parts, unique)| {
            let more: &[KeyColumn] = if index.is_some() { &keyed.key } else { &[] };
            let key = TableKey { def: own.def, index, parts, more, unique, read: own.columns };
            key.choice(&facts, spread)
        })
        .collect();
    // The best choice first: points before ranges, and the primary key first among equals.
    choices.sort_by_key(|choice| Reverse(choice.rank()));
    choices
}

/// A key of a table.
struct TableKey<'t> {
    def: &'t TableDef,
    index: Option<IndexId>,
    parts: &'t [KeyColumn],
    /// For an index, the columns of the primary key, which follow its own.
    more: &'t [KeyColumn],
    unique: bool,
    /// The columns of the plan, with their positions in the table.
    read: &'t [(ColumnId, usize)],
}

/// A column of a key.
#[derive(Clone, Copy)]
struct KeyPlace {
    column: usize,
    descending: bool,
}

impl TableKey<'_> {
    fn places(&self) -> Vec<KeyPlace> {
        let place = |part: &KeyColumn| {
            Some(KeyPlace { column: self.def.column_by_id(part.column)?, descending: part.descending })
        };
        self.parts.iter().chain(self.more).map_while(place).collect()
    }

    fn choice(&self, facts: &[(usize, KeyCondition)], spread: &ValueSpread<'_>) -> KeyChoice {
        let places = self.places();
        let mut choice = KeyChoice {
            access: Access { index: self.index, ..Access::all(self.def.id) },
            answered: Vec::new(),
            ordered: Vec::new(),
            fixed: Vec::new(),
            is_point: false,
            is_range: false,
            rows: spread.rows,
            cost: 0.0,
            of_row: 1.0,
        };
        let mut next = 0;
        // Use equalities as long as they cover a prefix of the key.
        while let Some(place) = places.get(next) {
            let Some((condition, value, finds_null)) = equal(facts, place.column) else { break };
            choice.access.equal.push(value.clone());
            choice.access.nulls.extend(finds_null.then_some(next));
            choice.answered.push(condition);
            // The primary key at the end of an index repeats columns of the index. They leave no fewer rows.
            if !choice.fixed.contains(&place.column) {
                choice.fixed.push(place.column);
                choice.rows *= spread.of_value(place.column, value);
            }
            next += 1;
        }
        choice.ordered = places[next..].iter().map(|place| (place.column, place.descending)).collect();
        next = self.add_alternatives(&mut choice, facts, &places, next, spread);
        let unique_parts = self.unique.then_some(self.parts.len());
        let lists = choice.access.alternatives.len().max(1) as f64;
        // A unique index may have any number of rows with NULL.
        choice.is_point = unique_parts.is_some_and(|parts| next >= parts) && choice.access.nulls.is_empty();
        if choice.is_point {
            choice.rows = lists;
        } else {
            self.add_range(&mut choice, facts, &places[next..]);
        }
        choice.rows = choice.rows.max(1.0);
        // An index that has all columns saves fetching the rows.
        let is_covering = self.read.iter().all(|(_, column)| places.iter().any(|place| place.column == *column));
        choice.of_row = if self.index.is_some() && !is_covering { LOOKED_UP_ROWS } else { 1.0 };
        choice.cost = lists * SEEK_ROWS + choice.rows * choice.of_row;
        choice
    }

    /// Adds lists of values for the columns from `next` on. Returns the position of the first column without values.
    fn add_alternatives(
        &self,
        choice: &mut KeyChoice,
        facts: &[(usize, KeyCondition)],
        places: &[KeyPlace],
        mut next: usize,
        spread: &ValueSpread<'_>,
    ) -> usize {
        let mut lists: Vec<Vec<Scalar>> = vec![Vec::new()];
        let first = next;
        while next < places.len() {
            // The primary key at the end of an index repeats a column with a list. The product of the two lists would
            // mostly be ranges without rows.
            if places[first..next].iter().any(|place| place.column == places[next].column) {
                break;
            }
            if !lists[0].is_empty()
                && let Some((condition, value, finds_null)) = equal(facts, places[next].column)
            {
                lists.iter_mut().for_each(|list| list.push(value.clone()));
                choice.access.nulls.extend(finds_null.then_some(next));
                choice.answered.push(condition);
                if !choice.fixed.contains(&places[next].column) {
                    choice.rows *= spread.of_value(places[next].column, value);
                }
                next += 1;
                continue;
            }
            let Some((condition, columns, more)) = among(facts, &places[next..]) else { break };
            // The lists of several columns multiply, so we must stop before there are too many.
            if lists.len() * more.len() > ALTERNATIVES_MAX {
                break;
            }
            let product = lists
                .iter()
                .flat_map(|list| more.iter().map(|values| list.iter().chain(values).cloned().collect::<Vec<Scalar>>()));
            lists = product.collect();
            choice.answered.push(condition);
            let shares = more.iter().map(|values| {
                let places = places[next..next + columns].iter().zip(values);
                places.map(|(place, value)| spread.of_value(place.column, value)).product::<f64>()
            });
            choice.rows *= shares.sum::<f64>().min(1.0);
            next += columns;
        }
        if !lists[0].is_empty() {
            choice.access.alternatives = lists;
        }
        next
    }

    /// Adds the conditions on the column after those with given values: bounds, a prefix, or NOT NULL.
    fn add_range(&self, choice: &mut KeyChoice, facts: &[(usize, KeyCondition)], places: &[KeyPlace]) {
        let Some(place) = places.first() else { return };
        let (mut from, mut to) = (None, None);
        for (condition, fact) in facts {
            let KeyCondition::Range { columns, op, values } = fact else { continue };
            // One bound per end is enough; further conditions are tested on the rows.
            let is_lower = matches!(op, CompareOp::Greater | CompareOp::GreaterOrEqual);
            let end = if is_lower { &mut from } else { &mut to };
            let fits = |at: &usize| {
                let place = places.get(*at);
                place.is_some_and(|known| known.column == columns[*at] && known.descending == places[0].descending)
            };
            let count = (0..columns.len()).take_while(fits).count();
            if count == 0 || end.is_some() {
                continue;
            }
            let is_whole = count == columns.len();
            let inclusive = !is_whole || matches!(op, CompareOp::GreaterOrEqual | CompareOp::LessOrEqual);
            let may_have_null = columns[1..count].iter().any(|column| self.def.columns[*column].nullable);
            // A range of several columns may include rows with NULLs, so the condition must then be tested again.
            if is_whole && !may_have_null {
                choice.answered.push(*condition);
            }
            *end = Some(AccessBound { values: values[..count].to_vec(), inclusive });
        }
        choice.is_range = from.is_some() || to.is_some();
        if choice.is_range {
            choice.rows *= if from.is_some() && to.is_some() { RANGE_SHARE } else { OPEN_RANGE_SHARE };
            (choice.access.from, choice.access.to) = (from, to);
            return;
        }
        for (condition, fact) in facts {
            match fact {
                KeyCondition::Prefix { column, pattern, escape } if *column == place.column => {
                    choice.access.prefix = Some(TextPrefix { pattern: pattern.clone(), escape: *escape });
                    if is_prefix_alone(pattern, *escape) {
                        choice.answered.push(*condition);
                    }
                    choice.is_range = true;
                    choice.rows *= RANGE_SHARE;
                    return;
                }
                KeyCondition::NotNull { column } if *column == place.column => {
                    choice.access.not_null = true;
                    choice.answered.push(*condition);
                    return;
                }
                _ => {}
            }
        }
    }
}

/// Whether a pattern such as `abc%` only asks for a prefix.
fn is_prefix_alone(pattern: &Scalar, escape: Option<char>) -> bool {
    let ScalarOp::Literal(ScalarValue::Text(pattern)) = &pattern.op else { return false };
    let is_plain = |c: char| !matches!(c, '%' | '_') && Some(c) != escape;
    pattern.strip_suffix('%').is_some_and(|prefix| prefix.chars().all(is_plain))
}

/// The condition that gives a column one value, that value, and whether NULL is such a value.
fn equal(facts: &[(usize, KeyCondition)], column: usize) -> Option<(usize, &Scalar, bool)> {
    facts.iter().find_map(|(condition, fact)| match fact {
        KeyCondition::Among { columns, lists } if columns[..] == [column] && lists.len() == 1 => {
            Some((*condition, &lists[0][0], false))
        }
        KeyCondition::Same { column: same, value } if *same == column => Some((*condition, value, true)),
        _ => None,
    })
}

/// Lists of values of the first columns, in the order of `places`, with the condition and the number of columns.
fn among(facts: &[(usize, KeyCondition)], places: &[KeyPlace]) -> Option<(usize, usize, Vec<Vec<Scalar>>)> {
    facts.iter().find_map(|(condition, fact)| {
        let KeyCondition::Among { columns, lists } = fact else { return None };
        let first = places.get(..columns.len())?;
        let order = first.iter().map(|place| columns.iter().position(|column| *column == place.column));
        let order: Vec<usize> = order.collect::<Option<_>>()?;
        let lists = lists.iter().map(|list| order.iter().map(|at| list[*at].clone()).collect());
        Some((*condition, columns.len(), lists.collect()))
    })
}
