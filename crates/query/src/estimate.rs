//! Estimates the rows of operators from zone maps, value lists, the statistics of ANALYZE and the shape of the plan.

mod known_values;
mod matching;
mod selectivity;
mod zones;

use std::sync::Arc;

use rowmill_plan::{Expr, Join, JoinKind, Node};
use rowmill_storage::{KeyedDef, TableSource};

pub use self::matching::{KeyValues, matches, share_of_pairs};

use self::known_values::distinct_values;
use self::selectivity::selectivity;
use self::zones::column_statistics;

/// The assumed share of rows that pass a condition that we cannot estimate.
const FILTER_SHARE: f64 = 0.2;
/// The share of rows that remain as groups where nothing is known of the keys.
const GROUP_SHARE: f64 = 0.1;

/// No share of rows that a join leaves is taken to be less.
pub const LEAST_SHARE: f64 = 1e-3;

/// The items of a list.
const ITEMS: f64 = 4.0;
/// The values of a series.
const SERIES_ROWS: f64 = 100.0;
/// How often a recursive query repeats itself.
const ROUNDS: f64 = 10.0;
/// The rows of a round of a recursive query.
const RECURSIVE_ROWS: f64 = 100.0;

/// The rows of `node`, about; at least one.
pub fn row_count(node: &Node, tables: &[Arc<dyn TableSource>]) -> f64 {
    let of = |input: &Node| row_count(input, tables);
    let rows = match node {
        Node::Scan(scan) => {
            let table = &*tables[scan.table];
            table.row_count() as f64 * selectivity(table, &scan.predicates)
        }
        Node::Filter { input, .. } => of(input) * FILTER_SHARE,
        Node::Project { input, .. } => of(input),
        Node::Window(window) => of(&window.input),
        Node::Expand(expand) => of(&expand.input) * expand.sets.len() as f64,
        Node::Group { group, .. } if group.keys.is_empty() => 1.0,
        Node::Group { input, group, .. } => {
            let rows = of(input);
            let distinct = group.keys.iter().map(|key| match key.expr {
                Expr::Column(column) => known_distinct(input, column, tables),
                Expr::Function(_) => None,
            });
            match distinct.collect::<Option<Vec<f64>>>() {
                Some(distinct) => distinct.iter().product::<f64>().min(rows),
                None => rows * GROUP_SHARE,
            }
        }
        Node::Sort { input, rows, .. } | Node::Limit { input, rows, .. } => {
            of(input).min(rows.map_or(f64::INFINITY, |rows| rows as f64))
        }
        Node::Join(join) => join.rows.unwrap_or_else(|| join_count(join, tables)),
        Node::Union { inputs, .. } => inputs.iter().map(|input| of(input)).sum(),
        Node::Foreign(foreign) => foreign.rows as f64,
        Node::Values { rows } => rows.num_rows() as f64,
        Node::SingleRow { input, by } if by.is_empty() => of(input).min(1.0),
        Node::SingleRow { input, .. } | Node::Shared { input, .. } => of(input),
        Node::FirstRows { input, .. } => of(input) * GROUP_SHARE,
        Node::SetAll(set) => of(&set.left),
        Node::Unnest(unnest) => of(&unnest.input) * ITEMS,
        Node::Series(series) => of(&series.input) * SERIES_ROWS,
        Node::Recursive(recursive) => of(&recursive.base) * ROUNDS,
        Node::RecursiveRows { .. } => RECURSIVE_ROWS,
    };
    rows.max(1.0)
}

fn join_count(join: &Join, tables: &[Arc<dyn TableSource>]) -> f64 {
    let (build, probe) = (row_count(&join.build, tables), row_count(&join.probe, tables));
    let values = |node: &Node, rows: f64, columns: Vec<usize>| {
        let whole = whole_count(node, tables).max(rows);
        let distinct: Vec<(f64, f64, f64)> =
            columns.iter().map(|column| (distinct_count(node, *column, tables), rows, whole)).collect();
        KeyValues::of(&distinct, rows, is_unique(node, &columns, tables))
    };
    let of_build = values(&join.build, build, join.on.iter().map(|(column, _)| *column).collect());
    let of_probe = values(&join.probe, probe, join.on.iter().map(|(_, column)| *column).collect());
    let found = matches(&of_probe, &of_build, if join.condition.is_some() { FILTER_SHARE } else { 1.0 });
    let pairs = probe * found.per_left_row;
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

/// The rows that `node` would give if no condition left any out.
pub fn whole_count(node: &Node, tables: &[Arc<dyn TableSource>]) -> f64 {
    match node {
        Node::Scan(scan) => tables[scan.table].row_count() as f64,
        Node::Filter { input, .. } | Node::Project { input, .. } => whole_count(input, tables),
        Node::Window(window) => whole_count(&window.input, tables),
        Node::Join(join) => whole_count(&join.build, tables).max(whole_count(&join.probe, tables)),
        Node::Union { inputs, .. } => inputs.iter().map(|input| whole_count(input, tables)).sum(),
        Node::Expand(expand) => whole_count(&expand.input, tables) * expand.sets.len() as f64,
        _ => row_count(node, tables),
    }
}

/// The distinct values that a column of `node` would have if no condition left any out; at least one.
pub fn distinct_count(node: &Node, column: usize, tables: &[Arc<dyn TableSource>]) -> f64 {
    let rows = whole_count(node, tables).max(1.0);
    known_distinct(node, column, tables).unwrap_or(rows).clamp(1.0, rows)
}

/// The distinct values of a column, if something is known of them.
fn known_distinct(node: &Node, column: usize, tables: &[Arc<dyn TableSource>]) -> Option<f64> {
    match node {
        Node::Scan(scan) if tables[scan.table].keyed().is_some() => {
            let rows = tables[scan.table].row_count().max(1) as f64;
            Some(distinct_of_keyed(&*tables[scan.table], scan.columns[column], rows))
        }
        Node::Scan(scan) => column_statistics(&*tables[scan.table], scan.columns[column]).distinct,
        Node::Filter { input, .. } | Node::Sort { input, .. } | Node::Limit { input, .. } => {
            known_distinct(input, column, tables)
        }
        Node::Project { input, exprs, .. } => match exprs[column] {
            Expr::Column(column) => known_distinct(input, column, tables),
            Expr::Function(_) => None,
        },
        Node::Join(join) => {
            let (place, of_build) = (join.output[column], join.build.schema().fields().len());
            match place.checked_sub(of_build) {
                None => known_distinct(&join.build, place, tables),
                Some(place) if place < join.probe.schema().fields().len() => known_distinct(&join.probe, place, tables),
                Some(_) => Some(2.0),
            }
        }
        Node::Group { input, group, .. } => match group.keys.get(column)?.expr {
            Expr::Column(column) => known_distinct(input, column, tables),
            Expr::Function(_) => None,
        },
        _ => None,
    }
}

/// The distinct values of a column of a keyed table. Where ANALYZE has not looked, all columns of a key are taken to
/// have as many values together as there are rows, each its share of those, and any other column is taken for one that
/// refers to a smaller table.
fn distinct_of_keyed(table: &dyn TableSource, column: usize, rows: f64) -> f64 {
    let parts = unique_columns(table).filter(|key| key.contains(&column)).map(|key| key.len()).min();
    match (parts, distinct_values(table, column, rows)) {
        (Some(1), _) => rows,
        (_, Some(distinct)) => distinct,
        (Some(parts), None) => rows.powf(1.0 / parts as f64),
        (None, None) => rows.sqrt(),
    }
}

/// The distinct values of an expression that is no column of `node`.
pub fn distinct_of_expression(node: &Node, tables: &[Arc<dyn TableSource>]) -> f64 {
    let rows = whole_count(node, tables).max(1.0);
    match node {
        Node::Scan(scan) if tables[scan.table].keyed().is_some() => rows.sqrt(),
        Node::Filter { input, .. } => distinct_of_expression(input, tables),
        _ => rows,
    }
}

/// The sets of columns of `node`, as positions, in which no two rows agree, because a key or a unique index says so.
pub fn unique_keys(node: &Node, tables: &[Arc<dyn TableSource>]) -> Vec<Vec<usize>> {
    match node {
        Node::Scan(scan) => {
            let place = |column: usize| scan.columns.iter().position(|scanned| *scanned == column);
            unique_columns(&*tables[scan.table]).filter_map(|key| key.into_iter().map(place).collect()).collect()
        }
        Node::Group { group, .. } => vec![(0..group.keys.len()).collect()],
        Node::Filter { input, .. } | Node::Sort { input, .. } | Node::Limit { input, .. } => unique_keys(input, tables),
        _ => Vec::new(),
    }
}

/// Whether no two rows of `node` agree in `columns`, because a key or a unique index says so.
pub fn is_unique(node: &Node, columns: &[usize], tables: &[Arc<dyn TableSource>]) -> bool {
    let keys = unique_keys(node, tables);
    keys.iter().any(|key| key.iter().all(|column| columns.contains(column)))
}

/// Whether an index finds the rows of `node` by a value of a column.
pub fn is_found_by(node: &Node, column: usize, tables: &[Arc<dyn TableSource>]) -> bool {
    match node {
        Node::Scan(scan) => {
            let def = tables[scan.table].table();
            let (Some(column), Some(keyed)) = (scan.columns.get(column), def.keyed.as_deref()) else { return false };
            let keys = std::iter::once(&keyed.key).chain(keyed.indexes.iter().map(|index| &index.parts));
            keys.filter_map(|parts| parts.first()).any(|part| part.column == def.columns[*column].id)
        }
        Node::Filter { input, .. } => is_found_by(input, column, tables),
        Node::Project { input, exprs, .. } => match exprs[column] {
            Expr::Column(column) => is_found_by(input, column, tables),
            Expr::Function(_) => false,
        },
        _ => false,
    }
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
