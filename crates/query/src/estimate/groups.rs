//! The number of groups of a grouping.
//!
//! We assume that keys are independent, with two exceptions. A column that another key determines adds no groups. For
//! example, GROUP BY o_orderkey, o_orderdate has one group per order. And the number of groups is at most the number of
//! rows, because several rows may be in the same group.

use rowmill_plan::{Expr, Group, Join, JoinKind, Node, ScalarExpr, Scan};

use super::distinct::origin;
use super::{Estimator, GROUP_SHARE, Positions};

/// A column of a scan. It represents all columns that are equal to it.
#[derive(Clone, Copy)]
struct ScanColumn<'n> {
    scan: &'n Scan,
    column: usize,
}

impl ScanColumn<'_> {
    fn is(&self, other: &ScanColumn<'_>) -> bool {
        std::ptr::eq(self.scan, other.scan) && self.column == other.column
    }
}

impl Estimator<'_> {
    /// The number of groups of `input` by `keys`, which are expressions over its columns.
    pub(crate) fn group_count(&self, input: &Node, keys: &[ScalarExpr], positions: Positions<'_>) -> f64 {
        let of_keys: Vec<(Option<usize>, f64)> = keys
            .iter()
            .map(|key| {
                let place = key.as_column().and_then(positions);
                (place, self.distinct_of(input, key, positions))
            })
            .collect();
        self.groups(input, &of_keys)
    }

    /// The number of groups of a scan by the columns at `keys`, counted in each block by itself, and the number of
    /// blocks. A group that has rows in three blocks counts three times. Returns `None` if the number is not known.
    pub(crate) fn groups_by_block(&self, scan: &Scan, keys: &[usize]) -> Option<(f64, f64)> {
        let source = &*self.tables[scan.table];
        let blocks = (source.blocks().len() + source.runs().len()).max(1) as f64;
        let facts = self.facts(scan.table);
        let of_key =
            |key: &usize| Some(facts.statistics(*scan.columns.get(*key)?).distinct_by_block?.max(1.0) / blocks);
        let of_block = keys.iter().map(of_key).product::<Option<f64>>()?;
        Some((of_block.min(self.scan_count(scan) / blocks) * blocks, blocks))
    }

    /// The number of groups of a grouping whose keys are known only as columns.
    pub(super) fn group_count_of_columns(&self, input: &Node, group: &Group) -> f64 {
        let rows = self.row_count(input);
        let keys: Vec<(Option<usize>, f64)> = group
            .keys
            .iter()
            .map(|key| match key.expr {
                Expr::Column(column) => (Some(column), self.distinct_left(input, column).unwrap_or(rows * GROUP_SHARE)),
                Expr::Function(_) => (None, rows * GROUP_SHARE),
            })
            .collect();
        self.groups(input, &keys)
    }

    /// The number of groups by keys, each with its position, if it is a column, and its number of distinct values.
    fn groups(&self, input: &Node, keys: &[(Option<usize>, f64)]) -> f64 {
        let rows = self.row_count(input);
        let origins: Vec<Option<ScanColumn<'_>>> = keys
            .iter()
            .map(|(place, _)| {
                let (scan, column) = origin(input, (*place)?)?;
                Some(ScanColumn { scan, column })
            })
            .collect();
        let mut equal = Vec::new();
        add_equal(input, &mut equal);
        let (mut product, mut factors) = (1.0, 0);
        for (place, (_, distinct)) in keys.iter().enumerate() {
            let others = origins.iter().enumerate().filter(|(other, _)| *other != place);
            // If two keys determine each other, only the first one counts.
            let known: Vec<ScanColumn<'_>> = others
                .filter(|(other, origin)| {
                    let is_mutual = |own: &ScanColumn<'_>, other: &ScanColumn<'_>| {
                        self.determines(std::slice::from_ref(own), other, &equal)
                    };
                    *other < place
                        || !matches!((&origins[place], origin), (Some(own), Some(other)) if is_mutual(own, other))
                })
                .filter_map(|(_, origin)| *origin)
                .collect();
            // A determined key adds no groups, so only the other keys multiply.
            let is_determined = origins[place].is_some_and(|own| self.determines(&known, &own, &equal));
            if !is_determined {
                product *= distinct;
                factors += 1;
            }
        }
        let groups = match factors {
            0 | 1 => product,
            // We draw one of `product` combinations for each row and count the different ones that we expect.
            _ => product * -(-rows / product).exp_m1(),
        };
        groups.clamp(1.0, rows)
    }

    /// Whether rows that are equal in all of `known` must be equal in `wanted`, by unique columns and equalities.
    fn determines(
        &self,
        known: &[ScanColumn<'_>],
        wanted: &ScanColumn<'_>,
        equal: &[(ScanColumn<'_>, ScanColumn<'_>)],
    ) -> bool {
        let mut known: Vec<ScanColumn<'_>> = known.to_vec();
        let mut scans: Vec<&Scan> = Vec::new();
        // We add columns until the set is closed: equal columns, and all columns of a scan whose row is identified.
        let mut seen = 0;
        loop {
            let has = |known: &[ScanColumn<'_>], column: &ScanColumn<'_>| {
                known.iter().any(|known| known.is(column)) || scans.iter().any(|scan| std::ptr::eq(*scan, column.scan))
            };
            if has(&known, wanted) {
                return true;
            }
            let more: Vec<ScanColumn<'_>> = equal
                .iter()
                .flat_map(|(one, other)| [(one, other), (other, one)])
                .filter(|(from, to)| has(&known, from) && !has(&known, to))
                .map(|(_, to)| *to)
                .collect();
            known.extend(more);
            if known.len() == seen {
                return false;
            }
            for column in &known[seen..] {
                if self.identifies(&known, column) {
                    scans.push(column.scan);
                }
            }
            seen = known.len();
        }
    }

    /// Whether the columns in `known` identify a row of the scan of `column`.
    fn identifies(&self, known: &[ScanColumn<'_>], column: &ScanColumn<'_>) -> bool {
        let facts = self.facts(column.scan.table);
        let is_known = |part: &usize| known.iter().any(|known| known.is(&ScanColumn { column: *part, ..*column }));
        if super::unique_columns(facts.source()).any(|key| key.iter().all(is_known)) {
            return true;
        }
        let rows = facts.source().row_count() as f64;
        facts.distinct(column.column).is_some_and(|distinct| distinct >= rows * super::UNIQUE_SHARE)
    }
}

/// The pairs of scan columns that inner joins below `node` make equal.
fn add_equal<'n>(node: &'n Node, equal: &mut Vec<(ScanColumn<'n>, ScanColumn<'n>)>) {
    if let Node::Join(join) = node
        && join.kind == JoinKind::Inner
    {
        equal.extend(join.on.iter().filter_map(|pair| pair_of(join, *pair)));
    }
    match node {
        Node::Group { .. } | Node::Union { .. } => {}
        _ => node.inputs().into_iter().for_each(|input| add_equal(input, equal)),
    }
}

fn pair_of(join: &Join, (build, probe): (usize, usize)) -> Option<(ScanColumn<'_>, ScanColumn<'_>)> {
    let (one, build) = origin(&join.build, build)?;
    let (other, probe) = origin(&join.probe, probe)?;
    Some((ScanColumn { scan: one, column: build }, ScanColumn { scan: other, column: probe }))
}
