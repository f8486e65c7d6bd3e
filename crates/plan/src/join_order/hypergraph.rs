//! The cheapest tree of relations that conditions link, by the algorithm DPhyp.
//!
//! Conditions are edges of a hypergraph: each links two sets of relations. DPhyp meets every pair of connected sets that
//! an edge links exactly once, in an order in which the trees of both are known (Moerkotte and Neumann, "Dynamic
//! Programming Strikes Back", 2008). A chain of n relations has about n³/6 such pairs and a clique 3ⁿ/2, so that the
//! number of pairs, rather than that of relations, bounds the search.

use std::collections::HashMap;

use super::cardinality::{Cardinality, Connection};
use super::cost::cost_of_join;
use super::enumeration::Joined;
use super::relation_set::{RelationSet, SetHash};

/// Pairs up to which every tree is compared: a clique of nine relations, a star of ten, a chain of forty.
pub(super) const PAIRS_MAX: usize = 12_000;

/// Sets that are looked up at most. A star has many that are not connected for each one that is.
const LOOKUPS_MAX: usize = 3 * PAIRS_MAX;

/// Relations up to which there are never more pairs.
const FEW_RELATIONS: usize = 9;

/// The search has met more than [`PAIRS_MAX`] pairs.
struct TooManyPairs;

/// The cheapest tree of a connected set.
#[derive(Clone, Copy)]
struct Cheapest {
    cost: f64,
    rows: f64,
    /// Both sides, the left one of an operator first; none for a single relation.
    sides: Option<(RelationSet, RelationSet, Connection)>,
}

struct Search<'a> {
    cardinality: &'a Cardinality<'a>,
    cheapest: HashMap<RelationSet, Cheapest, SetHash>,
    /// Whether pairs are only counted: estimates take most of the time.
    only_counts: bool,
    pairs: usize,
    lookups: usize,
}

/// The cheapest tree of `relations`; `None` if there are too many trees, or none without cross products.
pub(super) fn best(relations: RelationSet, cardinality: &Cardinality<'_>) -> Option<Joined> {
    if relations.len() > FEW_RELATIONS {
        Search::of(relations, cardinality, true).ok()?;
    }
    Search::of(relations, cardinality, false).ok()?.tree_of(relations)
}

impl<'a> Search<'a> {
    /// Searches all trees of `relations`.
    fn of(
        relations: RelationSet,
        cardinality: &'a Cardinality<'a>,
        only_counts: bool,
    ) -> Result<Search<'a>, TooManyPairs> {
        let mut search = Search { cardinality, cheapest: HashMap::default(), only_counts, pairs: 0, lookups: 0 };
        for relation in relations.iter() {
            let set = RelationSet::of(relation);
            let rows = if only_counts { 1.0 } else { cardinality.rows(set) };
            search.cheapest.insert(set, Cheapest { cost: 0.0, rows, sides: None });
        }
        let mut descending: Vec<usize> = relations.iter().collect();
        descending.reverse();
        for relation in descending {
            let set = RelationSet::of(relation);
            // Relations before it are excluded: the pairs with those are met from there.
            search.pairs_of(set)?;
            search.grow(set, RelationSet::up_to(relation))?;
        }
        Ok(search)
    }

    /// Meets the pairs of all connected sets that are `set` with more relations, none of `excluded`.
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

    /// Meets the pairs of a connected set with sets of later relations.
    fn pairs_of(&mut self, set: RelationSet) -> Result<(), TooManyPairs> {
        let excluded = set.with(RelationSet::up_to(set.first()));
        let neighbours = self.cardinality.neighbours(set, excluded);
        let mut descending: Vec<usize> = neighbours.iter().collect();
        descending.reverse();
        for neighbour in descending {
            let other = RelationSet::of(neighbour);
            self.pair(set, other)?;
            let before = neighbours.common(RelationSet::up_to(neighbour));
            self.grow_other(set, other, excluded.with(before))?;
        }
        Ok(())
    }

    /// Meets the pairs of `set` with all connected sets that are `other` with more relations, none of `excluded`.
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

    /// Notes the join of two connected sets, if a condition links them and it is the cheapest one of both together.
    fn pair(&mut self, one: RelationSet, other: RelationSet) -> Result<(), TooManyPairs> {
        let Some(connection) = self.cardinality.connection(one, other) else { return Ok(()) };
        self.pairs += 1;
        if self.pairs > PAIRS_MAX {
            return Err(TooManyPairs);
        }
        let (Some(of_one), Some(of_other)) = (self.cheapest.get(&one), self.cheapest.get(&other)) else {
            return Ok(());
        };
        let both = one.with(other);
        if self.only_counts {
            self.cheapest.insert(both, Cheapest { cost: 0.0, rows: 1.0, sides: None });
            return Ok(());
        }
        let known = self.cheapest.get(&both);
        let rows = known.map_or_else(|| self.cardinality.rows(both), |known| known.rows);
        let sides = [(one, of_one.rows), (other, of_other.rows)];
        let cost = of_one.cost + of_other.cost + cost_of_join(self.cardinality, sides, connection, rows);
        if known.is_none_or(|known| cost < known.cost) {
            self.cheapest.insert(both, Cheapest { cost, rows, sides: Some((one, other, connection)) });
        }
        Ok(())
    }

    /// The tree that was found for a set.
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
