//! Finds the cheapest tree of linked relations with the algorithm DPhyp.
//!
//! Conditions are edges of a hypergraph; each of them links two sets of relations. DPhyp visits every pair of connected
//! sets that an edge links exactly once. The order of its visits guarantees that the best trees of both sets are
//! already known (Moerkotte and Neumann, "Dynamic Programming Strikes Back", 2008). A chain of n relations has about
//! n³/6 such pairs, and a clique 3ⁿ/2. We therefore limit the search by the number of pairs, not by the number of
//! relations.

use std::collections::HashMap;

use super::cardinality::{Cardinality, Connection};
use super::cost::cost_of_join;
use super::enumeration::Joined;
use super::relation_set::{RelationSet, SetHash};

/// Pairs up to which we compare every tree, which should take milliseconds. For example, a clique of nine relations, a
/// star of ten, or a chain of forty.
pub(super) const PAIRS_MAX: usize = 12_000;

/// Sets that we look up at most. For each connected set, a star has many that are not connected.
const LOOKUPS_MAX: usize = 3 * PAIRS_MAX;

/// With at most this number of relations, the number of pairs is always below the limit.
const FEW_RELATIONS: usize = 9;

/// The error when the search has visited more than [`PAIRS_MAX`] pairs.
struct TooManyPairs;

/// The cheapest tree of a connected set that was found so far.
#[derive(Clone, Copy)]
struct Cheapest {
    cost: f64,
    rows: f64,
    /// Both sides, the left side of an operator first; absent for a single relation.
    sides: Option<(RelationSet, RelationSet, Connection)>,
}

struct HypergraphSearch<'a> {
    cardinality: &'a Cardinality<'a>,
    cheapest: HashMap<RelationSet, Cheapest, SetHash>,
    /// Whether the search only counts pairs. Estimates take most of the time, so we count before we estimate anything.
    only_counts: bool,
    pairs: usize,
    lookups: usize,
}

/// The cheapest tree of `relations`. Returns `None` if there are too many trees, or if none works without cross
/// products.
pub(super) fn best(relations: RelationSet, cardinality: &Cardinality<'_>) -> Option<Joined> {
    // A cheap first pass only counts, so a graph with too many pairs costs no estimates.
    if relations.len() > FEW_RELATIONS {
        HypergraphSearch::of(relations, cardinality, true).ok()?;
    }
    HypergraphSearch::of(relations, cardinality, false).ok()?.tree_of(relations)
}

impl<'a> HypergraphSearch<'a> {
    /// Searches all trees of `relations`.
    fn of(
        relations: RelationSet,
        cardinality: &'a Cardinality<'a>,
        only_counts: bool,
    ) -> Result<HypergraphSearch<'a>, TooManyPairs> {
        let mut search =
            HypergraphSearch { cardinality, cheapest: HashMap::default(), only_counts, pairs: 0, lookups: 0 };
        for relation in relations.iter() {
            let set = RelationSet::of(relation);
            let rows = if only_counts { 1.0 } else { cardinality.rows(set) };
            search.cheapest.insert(set, Cheapest { cost: 0.0, rows, sides: None });
        }
        // DPhyp starts with the last relation, so the trees of smaller sets are complete before they are combined.
        let mut descending: Vec<usize> = relations.iter().collect();
        descending.reverse();
        for relation in descending {
            let set = RelationSet::of(relation);
            // Earlier relations are excluded, because the pairs with them are visited when the loop reaches those
            // relations.
            search.pairs_of(set)?;
            search.grow(set, RelationSet::up_to(relation))?;
        }
        Ok(search)
    }

    /// Visits the pairs of all connected sets that extend `set` by relations that are not in `excluded`.
    fn grow(&mut self, set: RelationSet, excluded: RelationSet) -> Result<(), TooManyPairs> {
        let neighbours = self.cardinality.neighbours(set, excluded);
        for more in neighbours.subsets() {
            if self.is_connected(set.with(more))? {
                self.pairs_of(set.with(more))?;
            }
        }
        for more in neighbours.subsets() {
            self.count_lookup()?;
            self.grow(set.with(more), excluded.with(neighbours))?;
        }
        Ok(())
    }

    /// Visits the pairs of a connected set with sets of later relations.
    fn pairs_of(&mut self, set: RelationSet) -> Result<(), TooManyPairs> {
        let excluded = set.with(RelationSet::up_to(set.first()));
        let neighbours = self.cardinality.neighbours(set, excluded);
        let mut descending: Vec<usize> = neighbours.iter().collect();
        descending.reverse();
        for neighbour in descending {
            let other = RelationSet::of(neighbour);
            self.pair(set, other)?;
            // Excluding the earlier neighbours ensures that each pair is visited once.
            let before = neighbours.common(RelationSet::up_to(neighbour));
            self.grow_other(set, other, excluded.with(before))?;
        }
        Ok(())
    }

    /// Visits the pairs of `set` with all connected sets that extend `other` by relations that are not in `excluded`.
    fn grow_other(&mut self, set: RelationSet, other: RelationSet, excluded: RelationSet) -> Result<(), TooManyPairs> {
        let neighbours = self.cardinality.neighbours(other, excluded);
        for more in neighbours.subsets() {
            if self.is_connected(other.with(more))? {
                self.pair(set, other.with(more))?;
            }
        }
        for more in neighbours.subsets() {
            self.count_lookup()?;
            self.grow_other(set, other.with(more), excluded.with(neighbours))?;
        }
        Ok(())
    }

    fn is_connected(&mut self, set: RelationSet) -> Result<bool, TooManyPairs> {
        self.count_lookup()?;
        Ok(self.cheapest.contains_key(&set))
    }

    fn count_lookup(&mut self) -> Result<(), TooManyPairs> {
        self.lookups += 1;
        if self.lookups > LOOKUPS_MAX { Err(TooManyPairs) } else { Ok(()) }
    }

    /// Records the join of two connected sets, if a condition links them and it is the cheapest join for their union.
    fn pair(&mut self, one: RelationSet, other: RelationSet) -> Result<(), TooManyPairs> {
        let Some(connection) = self.cardinality.connection(one, other) else { return Ok(()) };
        self.pairs += 1;
        if self.pairs > PAIRS_MAX {
            return Err(TooManyPairs);
        }
        // A set without a tree is not connected by itself.
        let (Some(of_one), Some(of_other)) = (self.cheapest.get(&one), self.cheapest.get(&other)) else {
            return Ok(());
        };
        let both = one.with(other);
        if self.only_counts {
            self.cheapest.insert(both, Cheapest { cost: 0.0, rows: 1.0, sides: None });
            return Ok(());
        }
        // The estimate depends on the set alone, so a known set keeps its number of rows.
        let known = self.cheapest.get(&both);
        let rows = known.map_or_else(|| self.cardinality.rows(both), |known| known.rows);
        let sides = [(one, of_one.rows), (other, of_other.rows)];
        let cost = of_one.cost + of_other.cost + cost_of_join(self.cardinality, sides, connection, rows);
        if known.is_none_or(|known| cost < known.cost) {
            self.cheapest.insert(both, Cheapest { cost, rows, sides: Some((one, other, connection)) });
        }
        Ok(())
    }

    /// Builds the tree that was found for a set.
    fn tree_of(&self, set: RelationSet) -> Option<Joined> {
        let cheapest = self.cheapest.get(&set)?;
        Some(match cheapest.sides {
            None => Joined::relation(set.first(), cheapest.rows),
            Some((one, other, connection)) => {
                Joined::join(self.tree_of(one)?, self.tree_of(other)?, connection, cheapest.rows)
            }
        })
    }
}
