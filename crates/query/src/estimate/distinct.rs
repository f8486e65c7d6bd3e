//! The number of distinct values of a column.
//!
//! We need two different numbers. A join compares the values that a column can have: those of the whole table, reduced
//! only by conditions on the column itself. A grouping counts the values that remain in the rows that it reads.

use arrow::array::Array;
use arrow::row::{RowConverter, SortField};
use rowmill_plan::{CompareOp, Expr, JoinKind, Node, Predicate, Scan};

use super::known_values::distinct_values;
use super::matching::distinct_among;
use super::selectivity::selectivity;
use super::{Estimator, TableFacts, UNIQUE_SHARE, fixed_values, unique_columns};

/// Rows of a VALUES up to which we count the distinct values.
const COMPARED_ROWS_MAX: usize = 1_000;

impl TableFacts<'_> {
    /// The number of distinct values of a column in all rows, if we know anything about it.
    pub(super) fn distinct(&self, column: usize) -> Option<f64> {
        let source = self.source();
        if source.keyed().is_none() {
            return self.statistics(column).distinct;
        }
        let rows = source.row_count().max(1) as f64;
        let parts = unique_columns(source).filter(|key| key.contains(&column)).map(|key| key.len()).min();
        Some(match (parts, distinct_values(source, column, rows)) {
            (Some(1), _) => rows,
            (_, Some(distinct)) => distinct,
            // We assume that every parent is referred to, unless there are fewer rows than parents.
            (_, None) if self.rows_of_parents(column).is_some() => self.rows_of_parents(column)?.clamp(1.0, rows),
            // The columns of a key together have as many combinations as the table has rows. We assume equal factors.
            (Some(parts), None) => rows.powf(1.0 / parts as f64),
            // Without statistics we assume that the column refers to a smaller table.
            (None, None) => rows.sqrt(),
        })
    }

    /// The rows of the table that a foreign key of this single column refers to, if the statement reads that table as
    /// well.
    fn rows_of_parents(&self, column: usize) -> Option<f64> {
        let def = self.source().table();
        let id = def.columns[column].id;
        let key = def.keyed.as_deref()?.foreign_keys.iter().find(|key| key.columns == [id])?;
        let parent = self.estimator.tables.iter().find(|table| table.table().id == key.parent)?;
        Some(parent.row_count() as f64)
    }

    /// The number of distinct values of a column that conditions on it leave, and the share of rows that have one of
    /// these.
    fn constrained(&self, column: usize, predicates: &[Predicate]) -> Option<(f64, f64)> {
        let distinct = self.distinct(column)?;
        let own: Vec<Predicate> = predicates.iter().filter(|predicate| is_on(predicate, column)).cloned().collect();
        if own.is_empty() {
            return Some((distinct, 1.0));
        }
        let share = selectivity(*self, &own);
        // Listed values give their number directly. Otherwise the values should shrink like the rows.
        let left = match fixed_values(&own, column) {
            Some(values) => values.min(distinct),
            None => distinct * share,
        };
        Some((left.max(1.0), share))
    }
}

/// Whether a condition is on one column alone and restricts its values.
fn is_on(predicate: &Predicate, column: usize) -> bool {
    match predicate {
        Predicate::Compare { column: of, op, .. } => *of == column && *op != CompareOp::NotEqual,
        Predicate::In { column: of, negated: false, .. } | Predicate::Like { column: of, negated: false, .. } => {
            *of == column
        }
        Predicate::And(parts) | Predicate::Or(parts) => parts.iter().all(|part| is_on(part, column)),
        _ => false,
    }
}

impl Estimator<'_> {
    /// The number of distinct values that a column of `node` would have if only conditions on the column itself
    /// applied; at least one.
    pub(crate) fn distinct_count(&self, node: &Node, column: usize) -> f64 {
        let rows = self.whole_count(node).max(1.0);
        self.known_distinct(node, column).unwrap_or(rows).clamp(1.0, rows)
    }

    /// Whether the table that a column comes from has hardly any duplicates in it.
    pub(crate) fn is_nearly_unique(&self, node: &Node, column: usize) -> bool {
        let Some((scan, column)) = origin(node, column) else { return false };
        let facts = self.facts(scan.table);
        let rows = facts.source().row_count() as f64;
        facts.distinct(column).is_some_and(|distinct| distinct >= rows * UNIQUE_SHARE)
    }

    /// The least and the greatest value of a column in the table that it comes from, as numbers, if the table has zone
    /// maps.
    pub(crate) fn bounds(&self, node: &Node, column: usize) -> Option<(f64, f64)> {
        let (scan, column) = origin(node, column)?;
        self.facts(scan.table).statistics(column).bounds
    }

    /// The number of distinct values of an expression that is not a column of `node`.
    pub(crate) fn distinct_of_expression(&self, node: &Node) -> f64 {
        let rows = self.whole_count(node).max(1.0);
        match node {
            Node::Scan(scan) if self.tables[scan.table].keyed().is_some() => rows.sqrt(),
            Node::Filter { input, .. } => self.distinct_of_expression(input),
            _ => rows,
        }
    }

    /// The number of distinct values that a column can have, if we know anything about it.
    fn known_distinct(&self, node: &Node, column: usize) -> Option<f64> {
        match node {
            Node::Scan(scan) => {
                let column = *scan.columns.get(column)?;
                Some(self.facts(scan.table).constrained(column, &scan.predicates)?.0)
            }
            Node::Filter { input, .. } | Node::Sort { input, .. } | Node::Limit { input, .. } => {
                self.known_distinct(input, column)
            }
            Node::Project { input, exprs, .. } => match exprs[column] {
                Expr::Column(column) => self.known_distinct(input, column),
                Expr::Function(_) => None,
            },
            Node::Join(join) => match join_side(join, column) {
                Some((side, column)) => self.known_distinct(side, column),
                None => Some(2.0),
            },
            // A grouping has only the values that remain in its input.
            Node::Group { .. } | Node::Values { .. } => self.distinct_left(node, column),
            _ => None,
        }
    }

    /// The number of distinct values of a column in the rows that `node` gives, if we know anything about it.
    pub(crate) fn distinct_left(&self, node: &Node, column: usize) -> Option<f64> {
        let rows = self.row_count(node);
        let among = |input: &Node, column: usize| {
            let distinct = self.distinct_left(input, column)?;
            let whole = self.row_count(input);
            Some(distinct_among(distinct, whole, rows.min(whole)))
        };
        let distinct = match node {
            Node::Scan(scan) => {
                let column = *scan.columns.get(column)?;
                let facts = self.facts(scan.table);
                let (distinct, share) = facts.constrained(column, &scan.predicates)?;
                distinct_among(distinct, facts.source().row_count() as f64 * share, rows)
            }
            Node::Filter { input, .. } | Node::Sort { input, .. } | Node::Limit { input, .. } => among(input, column)?,
            Node::Project { input, exprs, .. } => match exprs[column] {
                Expr::Column(column) => self.distinct_left(input, column)?,
                Expr::Function(_) => return None,
            },
            Node::Window(window) if column < window.input.schema().fields().len() => {
                self.distinct_left(&window.input, column)?
            }
            Node::Shared { input, .. } | Node::SingleRow { input, .. } => self.distinct_left(input, column)?,
            Node::Join(join) => {
                let Some((side, column)) = join_side(join, column) else { return Some(2.0) };
                let own = among(side, column)?;
                // Only values that the other side has too remain.
                let pair = join.on.iter().find_map(|(build, probe)| {
                    let is_build = std::ptr::eq(side, &*join.build);
                    match is_build {
                        true if *build == column => Some((&join.probe, *probe)),
                        false if *probe == column => Some((&join.build, *build)),
                        _ => None,
                    }
                });
                let is_both = matches!(join.kind, JoinKind::Inner | JoinKind::ProbeSemi | JoinKind::BuildSemi);
                let other = pair.filter(|_| is_both).and_then(|(other, column)| self.distinct_left(other, column));
                other.map_or(own, |other| own.min(other))
            }
            Node::Group { input, group, .. } => match group.keys.get(column) {
                Some(key) => match key.expr {
                    Expr::Column(column) => self.distinct_left(input, column)?,
                    Expr::Function(_) => return None,
                },
                None => self.distinct_of_aggregate(input, group, column - group.keys.len(), rows)?,
            },
            Node::Values { rows } if rows.num_rows() <= COMPARED_ROWS_MAX => distinct_of_values(rows.column(column))?,
            _ => return None,
        };
        Some(distinct.clamp(1.0, rows))
    }
}

/// The side of a join that a column of its result comes from, and its position there. Returns `None` for a mark.
pub(super) fn join_side(join: &rowmill_plan::Join, column: usize) -> Option<(&Node, usize)> {
    let (place, of_build) = (join.output[column], join.build.schema().fields().len());
    match place.checked_sub(of_build) {
        None => Some((&join.build, place)),
        Some(place) => (place < join.probe.schema().fields().len()).then_some((&*join.probe, place)),
    }
}

/// The scan that a column comes from, and its position in the table.
pub(super) fn origin(node: &Node, column: usize) -> Option<(&Scan, usize)> {
    match node {
        Node::Scan(scan) | Node::Latest(rowmill_plan::Latest { scan, .. }) => Some((scan, *scan.columns.get(column)?)),
        Node::Filter { input, .. }
        | Node::Sort { input, .. }
        | Node::Limit { input, .. }
        | Node::Shared { input, .. }
        | Node::SingleRow { input, .. } => origin(input, column),
        Node::Window(window) if column < window.input.schema().fields().len() => origin(&window.input, column),
        Node::Project { input, exprs, .. } => match exprs[column] {
            Expr::Column(column) => origin(input, column),
            Expr::Function(_) => None,
        },
        Node::Join(join) => {
            let (side, column) = join_side(join, column)?;
            origin(side, column)
        }
        Node::Group { input, group, .. } => match group.keys.get(column)?.expr {
            Expr::Column(column) => origin(input, column),
            Expr::Function(_) => None,
        },
        _ => None,
    }
}

fn distinct_of_values(values: &dyn Array) -> Option<f64> {
    let values = values.slice(0, values.len());
    let converter = RowConverter::new(vec![SortField::new(values.data_type().clone())]).ok()?;
    let rows = converter.convert_columns(&[values]).ok()?;
    let mut rows: Vec<&[u8]> = (0..rows.num_rows()).map(|row| rows.row(row).data()).collect();
    rows.sort_unstable();
    rows.dedup();
    Some(rows.len() as f64)
}
