//! Estimates the rows of operators from zone maps, value lists, the statistics of ANALYZE, and the shape of the plan.
//!
//! | question | file |
//! |---|---|
//! | how many rows does an operator give? | this one |
//! | how many distinct values does a column have? | `distinct.rs` |
//! | how many rows of two sides match? | `matching.rs` |
//! | how many rows meet a condition over columns? | `condition.rs` |
//! | how many groups does a grouping make? | `groups.rs` |
//! | which values do the aggregates of groups have? | `aggregates.rs` |
//! | how many rows meet the conditions of a scan? | `selectivity.rs`, `known_values.rs` |
//! | which facts do blocks store about a column? | `zones.rs` |

mod aggregates;
mod condition;
mod distinct;
mod groups;
mod known_values;
mod matching;
mod selectivity;
mod zones;

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use rowmill_plan::{Expr, Join, JoinKind, Node, Predicate, ScalarExpr, Scan};
use rowmill_storage::{KeyedDef, TableSource};

pub(crate) use self::condition::cyclic_values;
pub(crate) use self::matching::share_of_pairs;
pub use self::matching::{KeyValues, Matches, matches};

use self::selectivity::selectivity;
use self::zones::{ZoneStatistics, column_statistics};

/// The share of rows that we assume to meet a condition that we cannot estimate.
const FILTER_SHARE: f64 = 0.2;
/// The number of groups per row that we assume if we know nothing about the keys.
const GROUP_SHARE: f64 = 0.1;
/// The least share of rows without a match. That all rows match would only be a guess.
pub(crate) const LEAST_SHARE: f64 = 1e-3;
/// The number of distinct values per row from which we treat a column as unique.
const UNIQUE_SHARE: f64 = 0.95;

/// The items that we assume in a list.
const ITEMS: f64 = 4.0;
/// The rows after a FILL that we assume for each row before it.
const FILLED_ROWS: f64 = 2.0;
/// The values that we assume in a series.
const SERIES_ROWS: f64 = 100.0;
/// The rounds that we assume in a recursive query.
const ROUNDS: f64 = 10.0;
/// The rows that we assume in a round of a recursive query.
const RECURSIVE_ROWS: f64 = 100.0;

/// The estimated rows of `node`, at least one. A caller with several nodes should keep an [`Estimator`], which caches
/// statistics.
pub fn row_count(node: &Node, tables: &[Arc<dyn TableSource>]) -> f64 {
    Estimator::new(tables).row_count(node)
}

/// Estimates for plans over some tables. Caches the column statistics that it has read.
#[derive(Debug)]
pub struct Estimator<'t> {
    tables: &'t [Arc<dyn TableSource>],
    statistics: RefCell<HashMap<(usize, usize), ZoneStatistics>>,
}

/// One of the tables.
#[derive(Clone, Copy, Debug)]
pub(in crate::estimate) struct TableFacts<'e> {
    estimator: &'e Estimator<'e>,
    table: usize,
}

impl<'e> TableFacts<'e> {
    fn source(&self) -> &'e dyn TableSource {
        &*self.estimator.tables[self.table]
    }

    /// The facts that blocks store about a column.
    fn statistics(&self, column: usize) -> ZoneStatistics {
        let mut known = self.estimator.statistics.borrow_mut();
        *known.entry((self.table, column)).or_insert_with(|| column_statistics(self.source(), column))
    }
}

/// Maps a column that an expression reads to its position in an operator.
pub(crate) type Positions<'p> = &'p dyn Fn(usize) -> Option<usize>;

impl<'t> Estimator<'t> {
    /// An estimator for plans over `tables`.
    pub fn new(tables: &'t [Arc<dyn TableSource>]) -> Estimator<'t> {
        Estimator { tables, statistics: RefCell::default() }
    }

    fn facts(&self, table: usize) -> TableFacts<'_> {
        TableFacts { estimator: self, table }
    }

    /// The estimated rows of `node`, at least one.
    pub fn row_count(&self, node: &Node) -> f64 {
        let of = |input: &Node| self.row_count(input);
        let rows = match node {
            Node::Scan(scan) => self.scan_count(scan),
            Node::Latest(latest) => {
                let (rows, facts) = (self.scan_count(&latest.scan), self.facts(latest.scan.table));
                let distinct = |key: &usize| facts.distinct(latest.scan.columns[*key]).unwrap_or(rows.sqrt());
                latest.keys.iter().map(distinct).product::<f64>().min(rows)
            }
            Node::Filter { input, rows, .. } => rows.unwrap_or_else(|| of(input) * FILTER_SHARE),
            Node::Project { input, .. } => of(input),
            Node::Window(window) => of(&window.input),
            Node::Expand(expand) => of(&expand.input) * expand.sets.len() as f64,
            Node::Group { group, .. } if group.keys.is_empty() => 1.0,
            Node::Group { rows: Some(rows), .. } => *rows,
            Node::Group { input, group, .. } => self.group_count_of_columns(input, group),
            Node::Sort { input, rows, .. } | Node::Limit { input, rows, .. } => {
                of(input).min(rows.map_or(f64::INFINITY, |rows| rows as f64))
            }
            Node::Join(join) => join.rows.unwrap_or_else(|| self.join_count(join)),
            // A left row meets one row in most joins, and only few rows in the others.
            Node::OrderedJoin(join) => of(&join.left),
            Node::Union { inputs, .. } => inputs.iter().map(|input| of(input)).sum(),
            Node::Foreign(foreign) => foreign.rows as f64,
            Node::Values { rows } => rows.num_rows() as f64,
            Node::SingleRow { input, by } if by.is_empty() => of(input).min(1.0),
            Node::SingleRow { input, .. } | Node::Shared { input, .. } => of(input),
            Node::FirstRows { input, .. } => of(input) * GROUP_SHARE,
            Node::SetAll(set) => of(&set.left),
            Node::Unnest(unnest) => of(&unnest.input) * ITEMS,
            Node::Series(series) => of(&series.input) * SERIES_ROWS,
            Node::Fill(fill) => of(&fill.input) * FILLED_ROWS,
            Node::Recursive(recursive) => of(&recursive.base) * ROUNDS,
            Node::RecursiveRows { .. } => RECURSIVE_ROWS,
        };
        rows.max(1.0)
    }

    fn scan_count(&self, scan: &Scan) -> f64 {
        let facts = self.facts(scan.table);
        let rows = facts.source().row_count() as f64;
        let found = rows * selectivity(facts, &scan.predicates);
        // A key allows one row for each combination of the values that the conditions leave to its columns.
        let values = |column: &usize| fixed_values(&scan.predicates, *column);
        let by_key = unique_columns(facts.source())
            .filter_map(|key| key.iter().map(values).collect::<Option<Vec<f64>>>())
            .map(|values| values.iter().product::<f64>());
        by_key.fold(found, f64::min)
    }

    fn join_count(&self, join: &Join) -> f64 {
        let (build, probe) = (self.row_count(&join.build), self.row_count(&join.probe));
        let of_build = self.key_values(&join.build, build, join.on.iter().map(|(column, _)| *column).collect());
        let of_probe = self.key_values(&join.probe, probe, join.on.iter().map(|(_, column)| *column).collect());
        let found = matches(&of_probe, &of_build, if join.condition.is_some() { FILTER_SHARE } else { 1.0 });
        let pairs = probe * found.per_left_row;
        // An estimate of no rows at all would make every plan above look free.
        let without = |share: f64| (1.0 - share).max(LEAST_SHARE);
        match join.kind {
            JoinKind::Inner => pairs,
            JoinKind::ProbeOuter => pairs.max(probe),
            JoinKind::ProbeSingle => probe,
            JoinKind::BuildOuter => pairs.max(build),
            JoinKind::FullOuter => pairs + probe * without(found.left_share) + build * without(found.right_share),
            JoinKind::ProbeMark | JoinKind::ProbeTruth => probe,
            JoinKind::ProbeSemi => probe * found.left_share,
            JoinKind::BuildSemi => build * found.right_share,
            JoinKind::ProbeAnti => probe * without(found.left_share),
            JoinKind::BuildAnti => build * without(found.right_share),
        }
    }

    fn key_values(&self, node: &Node, rows: f64, columns: Vec<usize>) -> KeyValues {
        let whole = self.whole_count(node).max(rows);
        let distinct: Vec<(f64, f64, f64)> =
            columns.iter().map(|column| (self.distinct_count(node, *column), rows, whole)).collect();
        KeyValues::of(&distinct, rows, self.is_unique(node, &columns))
    }

    /// The rows that `node` would give without any condition.
    pub(crate) fn whole_count(&self, node: &Node) -> f64 {
        match node {
            Node::Scan(scan) => self.tables[scan.table].row_count() as f64,
            Node::Filter { input, .. } | Node::Project { input, .. } => self.whole_count(input),
            Node::Window(window) => self.whole_count(&window.input),
            Node::Join(join) => self.whole_count(&join.build).max(self.whole_count(&join.probe)),
            Node::OrderedJoin(join) => self.whole_count(&join.left),
            Node::Union { inputs, .. } => inputs.iter().map(|input| self.whole_count(input)).sum(),
            Node::Expand(expand) => self.whole_count(&expand.input) * expand.sets.len() as f64,
            _ => self.row_count(node),
        }
    }

    /// The rows of `input` for which a condition over its columns is true.
    pub(crate) fn filter_count(&self, input: &Node, condition: &ScalarExpr, positions: Positions<'_>) -> f64 {
        (self.row_count(input) * self.share_of_rows(input, condition, positions)).max(1.0)
    }

    /// The sets of columns of `node`, as positions, that a key or a unique index makes unique.
    pub(crate) fn unique_keys(&self, node: &Node) -> Vec<Vec<usize>> {
        match node {
            Node::Scan(scan) => {
                let place = |column: usize| scan.columns.iter().position(|scanned| *scanned == column);
                let keys = unique_columns(&*self.tables[scan.table]);
                keys.filter_map(|key| key.into_iter().map(place).collect()).collect()
            }
            Node::Group { group, .. } => vec![(0..group.keys.len()).collect()],
            Node::Filter { input, .. } | Node::Sort { input, .. } | Node::Limit { input, .. } => {
                self.unique_keys(input)
            }
            _ => Vec::new(),
        }
    }

    /// Whether a key or a unique index makes `columns` unique in `node`.
    pub fn is_unique(&self, node: &Node, columns: &[usize]) -> bool {
        self.unique_keys(node).iter().any(|key| key.iter().all(|column| columns.contains(column)))
    }

    /// Whether an index finds the rows of `node` by a value of a column.
    pub(crate) fn is_found_by(&self, node: &Node, column: usize) -> bool {
        match node {
            Node::Scan(scan) => {
                let def = self.tables[scan.table].table();
                let (Some(column), Some(keyed)) = (scan.columns.get(column), def.keyed.as_deref()) else {
                    return false;
                };
                let keys = std::iter::once(&keyed.key).chain(keyed.indexes.iter().map(|index| &index.parts));
                keys.filter_map(|parts| parts.first()).any(|part| part.column == def.columns[*column].id)
            }
            Node::Filter { input, .. } => self.is_found_by(input, column),
            Node::Project { input, exprs, .. } => match exprs[column] {
                Expr::Column(column) => self.is_found_by(input, column),
                Expr::Function(_) => false,
            },
            _ => false,
        }
    }
}

/// The greatest number of values that conditions leave to a column of a table, if they list the values.
fn fixed_values(predicates: &[Predicate], column: usize) -> Option<f64> {
    use rowmill_plan::CompareOp::Equal;
    let values = predicates.iter().filter_map(|predicate| match predicate {
        Predicate::Compare { column: of, op: Equal, .. } if *of == column => Some(1.0),
        Predicate::In { column: of, values, negated: false } if *of == column => Some(values.len() as f64),
        Predicate::And(parts) => fixed_values(parts, column),
        _ => None,
    });
    values.reduce(f64::min)
}

/// The primary key and the unique indexes of a table, as positions of their columns.
fn unique_columns(table: &dyn TableSource) -> impl Iterator<Item = Vec<usize>> {
    let def = table.table();
    let indexes = |keyed: &KeyedDef| {
        let unique = keyed.indexes.iter().filter(|index| index.unique).map(|index| &index.parts);
        let all = std::iter::once(&keyed.key).chain(unique);
        all.filter_map(|parts| parts.iter().map(|part| def.column_by_id(part.column)).collect()).collect()
    };
    def.keyed.as_deref().map_or_else(Vec::new, indexes).into_iter()
}
