//! How many rows an operator gives, guessed from zone maps, value lists, what ANALYZE has found out and the shape of the plan.

use std::sync::Arc;

use rowmill_plan::{Join, JoinKind, Node};
use rowmill_storage::{KeyedDef, TableSource};

use crate::table_scan::{column_statistics, distinct_values, selectivity};

/// Of the rows that a condition is asked for when nothing is known about it.
const FILTER: f64 = 0.2;
/// Of the rows that are put into groups.
const GROUP: f64 = 0.1;
/// Items of a list or a series, and rounds of a recursive query.
const ITEMS: f64 = 10.0;

/// A guess at the rows of `node`, one at least.
pub(super) fn row_count(node: &Node, tables: &[Arc<dyn TableSource>]) -> f64 {
    let of = |input: &Node| row_count(input, tables);
    let rows = match node {
        Node::Scan(scan) => {
            let table = &*tables[scan.table];
            table.row_count() as f64 * selectivity(table, &scan.predicates)
        }
        Node::Filter { input, .. } => of(input) * FILTER,
        Node::Project { input, .. } => of(input),
        Node::Expand(expand) => of(&expand.input) * expand.sets.len() as f64,
        Node::Window(window) => of(&window.input),
        Node::Group { group, .. } if group.keys.is_empty() => 1.0,
        Node::Group { input, .. } => of(input) * GROUP,
        Node::Sort { input, rows, .. } | Node::Limit { input, rows, .. } => {
            of(input).min(rows.map_or(f64::INFINITY, |rows| rows as f64))
        }
        Node::Join(join) => join.rows.unwrap_or_else(|| join_count(join, tables)),
        Node::Union { inputs, .. } => inputs.iter().map(|input| of(input)).sum(),
        Node::Foreign(foreign) => foreign.rows as f64,
        Node::Values { rows } => rows.num_rows() as f64,
        Node::SingleRow { by, .. } if by.is_empty() => 1.0,
        Node::SingleRow { input, .. } | Node::FirstRows { input, .. } | Node::Shared { input, .. } => of(input),
        Node::SetAll(set) => of(&set.left),
        Node::Unnest(unnest) => of(&unnest.input) * ITEMS,
        Node::Series(series) => of(&series.input) * ITEMS,
        Node::Recursive(recursive) => of(&recursive.base) * ITEMS,
        Node::RecursiveRows { .. } => ITEMS,
    };
    rows.max(1.0)
}

fn join_count(join: &Join, tables: &[Arc<dyn TableSource>]) -> f64 {
    let (build, probe) = (row_count(&join.build, tables), row_count(&join.probe, tables));
    let pairs = match join.on.is_empty() {
        true => build * probe,
        // As if the keys of the smaller side were unique, and all of those of the larger one were among them before
        // anything was left out of either.
        false => {
            let whole = whole_count(&join.build, tables).max(1.0);
            (probe * (build / whole)).max(1.0)
        }
    };
    match join.kind {
        JoinKind::Inner => pairs,
        JoinKind::ProbeOuter => pairs.max(probe),
        JoinKind::ProbeSingle => probe,
        JoinKind::BuildOuter => pairs.max(build),
        JoinKind::FullOuter => pairs.max(build).max(probe),
        JoinKind::ProbeMark | JoinKind::ProbeTruth => probe,
        JoinKind::ProbeSemi => pairs.min(probe),
        JoinKind::BuildSemi => build.min(pairs),
        JoinKind::ProbeAnti => probe * FILTER,
        JoinKind::BuildAnti => build * FILTER,
    }
}

/// The rows that `node` would give if no condition left any out.
pub(super) fn whole_count(node: &Node, tables: &[Arc<dyn TableSource>]) -> f64 {
    match node {
        Node::Scan(scan) => tables[scan.table].row_count() as f64,
        Node::Filter { input, .. } | Node::Project { input, .. } => whole_count(input, tables),
        Node::Join(join) => whole_count(&join.build, tables).max(whole_count(&join.probe, tables)),
        Node::Union { inputs, .. } => inputs.iter().map(|input| whole_count(input, tables)).sum(),
        Node::Expand(expand) => whole_count(&expand.input, tables) * expand.sets.len() as f64,
        Node::Window(window) => whole_count(&window.input, tables),
        _ => row_count(node, tables),
    }
}

/// A guess at the distinct values that a column of `node` would have if no condition left any out, one at least.
pub(super) fn distinct_count(node: &Node, column: usize, tables: &[Arc<dyn TableSource>]) -> f64 {
    let rows = whole_count(node, tables).max(1.0);
    let distinct = match node {
        Node::Scan(scan) if tables[scan.table].keyed().is_some() => {
            distinct_of_keyed(&*tables[scan.table], scan.columns[column], rows)
        }
        Node::Scan(scan) => {
            let statistics = column_statistics(&*tables[scan.table], scan.columns[column]);
            statistics.distinct_count.get_value().map_or(rows, |distinct| *distinct as f64)
        }
        Node::Filter { input, .. } | Node::Sort { input, .. } | Node::Limit { input, .. } => {
            distinct_count(input, column, tables)
        }
        _ => rows,
    };
    distinct.clamp(1.0, rows)
}

/// The same of a keyed table. Of one that ANALYZE has not looked through, all columns of a key are taken to have as many values
/// together as there are rows, and each its share of those, and any other column is taken for one that refers to a smaller table.
fn distinct_of_keyed(table: &dyn TableSource, column: usize, rows: f64) -> f64 {
    let parts = unique_columns(table).filter(|key| key.contains(&column)).map(|key| key.len()).min();
    match (parts, distinct_values(table, column, rows)) {
        (Some(1), _) => rows,
        (_, Some(distinct)) => distinct,
        (Some(parts), None) => rows.powf(1.0 / parts as f64),
        (None, None) => rows.sqrt(),
    }
}

/// A guess at the distinct values of an expression that is no column of `node`.
pub(super) fn distinct_of_expression(node: &Node, tables: &[Arc<dyn TableSource>]) -> f64 {
    let rows = whole_count(node, tables).max(1.0);
    match node {
        Node::Scan(scan) if tables[scan.table].keyed().is_some() => rows.sqrt(),
        Node::Filter { input, .. } => distinct_of_expression(input, tables),
        _ => rows,
    }
}

/// The columns of `node`, by their places, of which a key or a unique index says that no two rows agree in them.
pub(super) fn unique_keys(node: &Node, tables: &[Arc<dyn TableSource>]) -> Vec<Vec<usize>> {
    match node {
        Node::Scan(scan) => {
            let place = |column: usize| scan.columns.iter().position(|scanned| *scanned == column);
            unique_columns(&*tables[scan.table]).filter_map(|key| key.into_iter().map(place).collect()).collect()
        }
        Node::Filter { input, .. } | Node::Sort { input, .. } | Node::Limit { input, .. } => unique_keys(input, tables),
        _ => Vec::new(),
    }
}

/// The primary key and the unique indexes of a table, by the places of their columns.
fn unique_columns(table: &dyn TableSource) -> impl Iterator<Item = Vec<usize>> {
    let def = table.table();
    let indexes = |keyed: &KeyedDef| {
        let unique = keyed.indexes.iter().filter(|index| index.unique).map(|index| &index.parts);
        let all = std::iter::once(&keyed.key).chain(unique);
        all.filter_map(|parts| parts.iter().map(|part| def.column_by_id(part.column)).collect()).collect()
    };
    def.keyed.as_deref().map_or_else(Vec::new, indexes).into_iter()
}
