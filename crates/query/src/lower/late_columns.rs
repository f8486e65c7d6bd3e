//! Late columns: the first rows of an order are found without the columns that only the result shows, and these columns
//! are read afterwards, for the few rows that are left.
//!
//! ```text
//!   limit 10                               sort by sum
//!   └─ sort by sum                         └─ join on id
//!      └─ group by id, name, address          ├─ limit 10
//!         └─ join                             │  └─ sort by sum
//!            ├─ customers           ->        │     └─ group by id
//!            └─ orders                        │        └─ join
//!                                             │           ├─ customers
//!                                             │           └─ orders
//!                                             └─ customers: id, name, address
//! ```
//!
//! A table qualifies if a column of it is unique and not NULL, and its values reach the limit: the column then finds
//! the row again, and determines every other key of the grouping that comes from the same row. A key or a unique index
//! may declare this. For a table without declared keys we read the column and prove it; the plan then holds as long as
//! the proof does ([`UniqueColumn`]).
//!
//! The rewrite pays if far more rows carry the columns through joins and grouping than the result shows.

use std::sync::Arc;

use arrow::datatypes::DataType;
use rowmill_base::Result;
use rowmill_plan::logical::{LogicalGroup, LogicalJoinKind, LogicalScan, LogicalSortKey};
use rowmill_plan::{ColumnId, Logical, Node, ScalarExpr};
use rowmill_storage::{TableSource, has_unique_integers};

use super::Lowerer;
use super::join::JoinSpec;
use super::relation::LoweredRelation;
use crate::column_set::ColumnSet;
use crate::optimizer::facts::equality;
use crate::optimizer::walk::{exprs, inputs_mut};

/// The rows of a result up to which we read columns late. Finding more rows again costs as much as a join.
const SHOWN_ROWS_MAX: usize = 10_000;
/// The rows that carry the columns, per row of the result, from which reading them later pays.
const CARRIED_PER_SHOWN_MIN: f64 = 16.0;
/// The cost of carrying a text or a nested value through joins and a grouping. The unit is a value of fixed width.
const TEXT_WEIGHT: f64 = 8.0;
/// The cost of finding the shown rows again and of a proof, per row of the table. The unit is as above.
const COST_PER_TABLE_ROW: f64 = 2.0;

/// A column of a table that is unique and not NULL, because of its values and not by declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UniqueColumn {
    /// The table, by its number among those of the statement.
    pub(super) table: usize,
    /// The position of the column in the table.
    pub(super) column: usize,
}

impl UniqueColumn {
    /// Whether the column is unique in the snapshot that `tables` hold. A column that cannot be read is not.
    pub(super) fn holds(&self, tables: &[Arc<dyn TableSource>]) -> bool {
        has_unique_integers(&*tables[self.table], self.column).unwrap_or(false)
    }
}

/// A table whose columns are read late.
#[derive(Clone, Debug)]
struct LateTable {
    table: usize,
    /// The column of the first rows that finds the row of the table again.
    key: ColumnId,
    /// The unique column of the table that equals `key`, by its position.
    unique: usize,
    /// Whether the table declares that the column is unique.
    is_declared: bool,
    /// The columns of the table that are read late, with their positions.
    columns: Vec<LateColumn>,
}

/// A column that is read late.
#[derive(Clone, Copy, Debug)]
struct LateColumn {
    /// The column that the scan makes.
    scanned: ColumnId,
    /// The column that reaches the limit: a key of the grouping, or the scanned column itself.
    shown: ColumnId,
    /// The position in the table.
    position: usize,
}

/// The part of a plan below a limit, as far as columns of tables pass through it unchanged.
#[derive(Default)]
struct CarryingPart<'p> {
    /// The columns that operators compute with. They cannot be late.
    used: ColumnSet,
    /// The scans whose rows are never filled with NULLs.
    scans: Vec<&'p LogicalScan>,
    /// Pairs of columns that are equal in all rows.
    equal: Vec<(ColumnId, ColumnId)>,
    /// The grouping at the top, if there is one.
    group: Option<&'p LogicalGroup>,
    joins: usize,
}

impl<'p> CarryingPart<'p> {
    fn of(input: &'p Logical, keys: &[LogicalSortKey]) -> CarryingPart<'p> {
        let mut part = CarryingPart::default();
        keys.iter().for_each(|key| part.used.add_columns_of(&key.expr));
        let mut below = input;
        while let Logical::Map { input, .. } | Logical::Filter { input, .. } = below {
            part.use_all(below);
            below = input;
        }
        if let Logical::Group(group) = below
            && group.sets.is_none()
        {
            group
                .keys
                .iter()
                .filter(|(_, key)| key.as_column().is_none())
                .for_each(|(_, key)| part.used.add_columns_of(key));
            exprs(below).into_iter().skip(group.keys.len()).for_each(|expr| part.used.add_columns_of(expr));
            part.group = Some(group);
            below = &group.input;
        }
        part.descend(below);
        part
    }

    fn use_all(&mut self, operator: &Logical) {
        exprs(operator).into_iter().for_each(|expr| self.used.add_columns_of(expr));
    }

    fn descend(&mut self, plan: &'p Logical) {
        self.use_all(plan);
        match plan {
            Logical::Scan(scan) if scan.row_number.is_none() => self.scans.push(scan),
            Logical::Map { input, .. } => self.descend(input),
            Logical::Filter { input, conditions } => {
                self.note_equal(conditions);
                self.descend(input);
            }
            Logical::Join(join) => {
                self.joins += 1;
                if join.kind == LogicalJoinKind::Inner {
                    self.note_equal(&join.conditions);
                    self.descend(&join.right);
                }
                if join.kind != LogicalJoinKind::Full {
                    self.descend(&join.left);
                }
            }
            // The columns of any other operator are its own.
            _ => {}
        }
    }

    fn note_equal(&mut self, conditions: &[ScalarExpr]) {
        for (left, right, _) in conditions.iter().filter_map(equality) {
            if let Some((one, other)) = left.as_column().zip(right.as_column()) {
                self.equal.extend([(ColumnId(one), ColumnId(other)), (ColumnId(other), ColumnId(one))]);
            }
        }
    }

    /// The columns that reach the limit unchanged, each with the id that it has there.
    fn reaching(&self, scan: &LogicalScan) -> Vec<(ColumnId, ColumnId)> {
        match self.group {
            Some(group) => {
                let keys = group.keys.iter().filter_map(|(id, key)| Some((ColumnId(key.as_column()?), *id)));
                keys.collect()
            }
            None => scan.columns.iter().map(|(id, _)| (*id, *id)).collect(),
        }
    }
}

impl Lowerer<'_> {
    /// Lowers the first `rows` rows of `input` after `skip` others, ordered by `keys`, and reads some of their columns
    /// afterwards. Returns `None` if that does not pay.
    pub(super) fn late_columns(
        &mut self,
        input: &Logical,
        keys: &[LogicalSortKey],
        (skip, rows): (usize, usize),
        needed: &ColumnSet,
    ) -> Result<Option<LoweredRelation>> {
        let shown = skip.saturating_add(rows);
        if shown > SHOWN_ROWS_MAX {
            return Ok(None);
        }
        let mut late = self.late_tables(input, keys, needed);
        while !late.is_empty() {
            let (plan, read) = without_late(input, &late, needed);
            let before = self.mark();
            let first = self.sort(&plan, keys, Some((skip, Some(rows))), &read)?;
            let carried = self.carried_rows(first.node());
            let chosen: Vec<LateTable> =
                late.iter().filter(|table| self.pays(table, carried, shown)).cloned().collect();
            if chosen.len() == late.len() {
                return self.with_late(first, keys, late, needed).map(Some);
            }
            // The lists must not keep the parts of a plan that does not run, because every source in them is opened.
            self.undo(before);
            late = chosen;
        }
        Ok(None)
    }

    /// The tables below a limit that may be read late, as far as that follows from the plan and its declarations.
    fn late_tables(&self, input: &Logical, keys: &[LogicalSortKey], needed: &ColumnSet) -> Vec<LateTable> {
        let part = CarryingPart::of(input, keys);
        // The scan of a single table reads the columns of its first rows late by itself.
        if part.joins == 0 {
            return Vec::new();
        }
        part.scans.iter().filter_map(|scan| self.late_table(&part, scan, needed)).collect()
    }

    fn late_table(&self, part: &CarryingPart<'_>, scan: &LogicalScan, needed: &ColumnSet) -> Option<LateTable> {
        let reaching = part.reaching(scan);
        let unique = |(scanned, position): &(ColumnId, usize)| {
            let is_it = |id: ColumnId| id == *scanned || part.equal.contains(&(id, *scanned));
            let (_, key) = reaching.iter().find(|(id, _)| is_it(*id) && self.kind(*id) == self.kind(*scanned))?;
            let (is_declared, may_be) = self.uniqueness(scan.table, *position);
            may_be.then_some((*key, *position, is_declared))
        };
        let (key, unique, is_declared) = scan.columns.iter().find_map(unique)?;
        let late = |(scanned, position): &(ColumnId, usize)| {
            let mut shown = reaching.iter().filter(|(id, _)| id == scanned).map(|(_, shown)| *shown);
            let column = LateColumn { scanned: *scanned, shown: shown.next()?, position: *position };
            let is_free = !part.used.contains(column.scanned) && !part.used.contains(column.shown);
            (is_free && shown.next().is_none() && needed.contains(column.shown) && column.shown != key)
                .then_some(column)
        };
        let columns: Vec<LateColumn> = scan.columns.iter().filter_map(late).collect();
        (!columns.is_empty()).then_some(LateTable { table: scan.table, key, unique, is_declared, columns })
    }

    /// Whether a column of a table is declared to be unique and not NULL, and whether it may be.
    fn uniqueness(&self, table: usize, column: usize) -> (bool, bool) {
        let source = &self.tables[table];
        let of_column = source.table().columns[column].id;
        match &source.table().keyed {
            Some(keyed) => {
                let is_it = |parts: &[rowmill_storage::KeyColumn]| matches!(parts, [part] if part.column == of_column);
                let is_full = !source.table().columns[column].nullable;
                let mut indexes = keyed.indexes.iter().filter(|index| index.unique && is_full);
                let is_declared = is_it(&keyed.key) || indexes.any(|index| is_it(&index.parts));
                (is_declared, is_declared)
            }
            None => {
                let kind = source.table().columns[column].kind.arrow();
                (false, kind.is_integer() || kind == DataType::Date32)
            }
        }
    }

    /// The estimated rows that reach a grouping or an order, which is the root of `node`.
    fn carried_rows(&self, node: &Node) -> f64 {
        match node {
            Node::Sort { input, .. } | Node::Project { input, .. } | Node::Filter { input, .. } => {
                self.carried_rows(input)
            }
            Node::Group { input, .. } => self.estimator.row_count(input),
            node => self.estimator.row_count(node),
        }
    }

    /// Whether reading the columns of a table late should cost less, and the table has the unique column that this
    /// needs.
    fn pays(&mut self, late: &LateTable, carried: f64, shown: usize) -> bool {
        let weight = |column: &LateColumn| match self.kind(column.scanned).is_primitive() {
            true => 1.0,
            false => TEXT_WEIGHT,
        };
        let saved = late.columns.iter().map(weight).sum::<f64>() * carried;
        // A declared key finds the rows without reading the table.
        let cost = match late.is_declared {
            true => shown as f64 * CARRIED_PER_SHOWN_MIN,
            false => self.tables[late.table].row_count() as f64 * COST_PER_TABLE_ROW,
        };
        if carried < shown as f64 * CARRIED_PER_SHOWN_MIN || saved < cost {
            return false;
        }
        let unique = UniqueColumn { table: late.table, column: late.unique };
        if late.is_declared || self.unique_columns.contains(&unique) {
            return true;
        }
        let holds = unique.holds(self.tables);
        if holds {
            self.unique_columns.push(unique);
        }
        holds
    }

    /// Joins the first rows with the tables that are read late, and orders them again.
    fn with_late(
        &mut self,
        first: LoweredRelation,
        keys: &[LogicalSortKey],
        late: Vec<LateTable>,
        needed: &ColumnSet,
    ) -> Result<LoweredRelation> {
        let mut kept = needed.clone();
        keys.iter().for_each(|key| kept.add_columns_of(&first.resolve(&key.expr)));
        first.derived.iter().for_each(|(_, expr)| kept.add_columns_of(expr));
        kept.extend(late.iter().map(|table| table.key));
        let mut rows = first;
        for table in late {
            let unique = self.columns.add(self.columns.get(table.key).name.clone(), self.kind(table.key).clone());
            let shown = table.columns.iter().map(|column| (column.shown, column.position));
            let columns: Vec<(ColumnId, usize)> = std::iter::once((unique, table.unique)).chain(shown).collect();
            let read: ColumnSet = columns.iter().map(|(id, _)| *id).collect();
            let scan = LogicalScan { table: table.table, columns, conditions: Vec::new(), row_number: None };
            let scan = self.scan(&scan, &read)?;
            let derived = rows.derived.clone();
            let spec = JoinSpec::inner(vec![(table.key, unique)], kept.clone());
            rows = LoweredRelation { derived, ..self.join_node(spec, rows, scan)? };
        }
        // A join keeps no order.
        self.sorted(rows, keys, (0, None))
    }
}

/// The plan below a limit without the late columns, and the columns that must reach the limit.
fn without_late(input: &Logical, late: &[LateTable], needed: &ColumnSet) -> (Logical, ColumnSet) {
    let columns = || late.iter().flat_map(|table| &table.columns);
    let scanned: ColumnSet = columns().map(|column| column.scanned).collect();
    let shown: ColumnSet = columns().map(|column| column.shown).collect();
    let mut plan = input.clone();
    remove_columns(&mut plan, &scanned, &shown);
    let mut read: ColumnSet = late.iter().map(|table| table.key).collect();
    read.extend(needed.iter().filter(|id| !shown.contains(*id)));
    (plan, read)
}

/// Removes columns from the scans and groupings that make them.
fn remove_columns(plan: &mut Logical, scanned: &ColumnSet, shown: &ColumnSet) {
    match plan {
        Logical::Scan(scan) => scan.columns.retain(|(id, _)| !scanned.contains(*id)),
        Logical::Group(group) => group.keys.retain(|(id, _)| !shown.contains(*id)),
        _ => {}
    }
    inputs_mut(plan).into_iter().for_each(|input| remove_columns(input, scanned, shown));
}
