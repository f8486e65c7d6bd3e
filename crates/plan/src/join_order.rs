//! The order of inner joins.

/// One of the inputs of the joins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Relation {
    /// Rows, as estimated, one at least.
    pub rows: f64,
}

/// Something that is equal in two relations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Equality {
    /// The relations.
    pub relations: [usize; 2],
    /// Distinct values in each, as estimated, one at least.
    pub distinct: [f64; 2],
}

/// Which relations are joined first.
#[derive(Clone, Debug, PartialEq)]
pub enum JoinTree {
    /// A relation, by its place.
    Relation(usize),
    /// Two results that are joined.
    Join {
        /// The smaller one, which is kept in memory.
        build: Box<JoinTree>,
        /// The larger one.
        probe: Box<JoinTree>,
        /// Rows of the result, as estimated.
        rows: f64,
    },
}

/// The order of joins of all `relations`, of which there is one at least: always the two whose result is smallest.
pub fn order(relations: &[Relation], equalities: &[Equality]) -> JoinTree {
    struct Part {
        members: Vec<usize>,
        rows: f64,
        tree: JoinTree,
    }
    let mut parts: Vec<Part> = relations
        .iter()
        .enumerate()
        .map(|(place, relation)| Part { members: vec![place], rows: relation.rows, tree: JoinTree::Relation(place) })
        .collect();
    let joined = |left: &Part, right: &Part| {
        let mut rows = left.rows * right.rows;
        let mut is_connected = false;
        for Equality { relations: [a, b], distinct } in equalities {
            let crosses = (left.members.contains(a) && right.members.contains(b))
                || (left.members.contains(b) && right.members.contains(a));
            if crosses {
                is_connected = true;
                rows /= distinct[0].max(distinct[1]);
            }
        }
        (is_connected, rows.max(1.0))
    };
    while parts.len() > 1 {
        let mut best: Option<(bool, f64, usize, usize)> = None;
        for left in 0..parts.len() {
            for right in left + 1..parts.len() {
                let (is_connected, rows) = joined(&parts[left], &parts[right]);
                let is_better = best.is_none_or(|(connected, least, ..)| {
                    (is_connected && !connected) || (is_connected == connected && rows < least)
                });
                if is_better {
                    best = Some((is_connected, rows, left, right));
                }
            }
        }
        let (_, rows, left, right) = best.expect("there are two parts");
        let (right, left) = (parts.swap_remove(right), parts.swap_remove(left));
        let (build, probe) = if left.rows <= right.rows { (left, right) } else { (right, left) };
        parts.push(Part {
            members: build.members.iter().chain(&probe.members).copied().collect(),
            rows,
            tree: JoinTree::Join { build: Box::new(build.tree), probe: Box::new(probe.tree), rows },
        });
    }
    parts.pop().expect("there is a relation").tree
}
