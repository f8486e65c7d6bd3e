//! ORDER BY with a LIMIT above a grouping: groups that cannot be among the first become no rows.
//!
//! A worker that merges a partition ranks its groups by the words in their rows, without making arrays of them. All
//! workers share the ranks of the best groups so far by the first order key. The worst of these ranks is a bound:
//! groups that rank after it are left out. If more groups than needed remain, further keys decide between equal ranks.

use std::collections::BinaryHeap;

use parking_lot::Mutex;
use rowmill_base::Result;
use rowmill_plan::SortKey;

use super::layout::{GroupLayout, KeyColumn, KeyValuePlace};
use super::merge::Merged;
use super::rank::{Rank, text_rank};
use super::rows::take;
use super::state::{BitOrder, Finished, States, ranks_of, wide_number};
use super::texts::TextStore;

/// An order of groups. Only the first groups matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupTop {
    /// The order of the groups: at least one key.
    pub keys: Vec<SortKey>,
    /// The number of groups that matter.
    pub rows: usize,
}

/// The source of an order key.
#[derive(Debug)]
enum OrderSource {
    /// A stored key column, by its index among the key columns of the result.
    Key(usize),
    Aggregate(usize),
}

#[derive(Debug)]
struct OrderKey {
    source: OrderSource,
    rank: Rank,
    /// Whether groups of equal rank are also equal in the key.
    is_exact: bool,
}

/// The best groups that the workers have met.
#[derive(Debug)]
pub(super) struct TopGroups {
    /// The order keys up to the first one that cannot be ranked exactly, at least one.
    keys: Vec<OrderKey>,
    /// Whether groups with equal ranks in all of these keys are interchangeable.
    is_exact: bool,
    rows: usize,
    /// The ranks of the best groups by the first key. The worst one is on top.
    best: Mutex<BinaryHeap<i128>>,
}

impl TopGroups {
    /// Prepares `top` for groups with this layout. `None` if they cannot be ranked.
    pub(super) fn new(top: &GroupTop, layout: &GroupLayout, states: &States) -> Option<TopGroups> {
        let mut keys = Vec::new();
        for SortKey { column, descending, nulls_first } in &top.keys {
            let rank = Rank { descending: *descending, nulls_first: *nulls_first };
            let (source, is_exact) = match column.checked_sub(layout.key_count()) {
                Some(aggregate) => match states.has_exact_ranks(aggregate) {
                    Some(is_exact) => (OrderSource::Aggregate(aggregate), is_exact),
                    None => break,
                },
                None => match layout.held(*column) {
                    Some(key) => (OrderSource::Key(*column), matches!(key.place, KeyValuePlace::Narrow { .. })),
                    None => break,
                },
            };
            keys.push(OrderKey { source, rank, is_exact });
            // Later keys decide only between equal values. After an inexact rank we do not know whether values are
            // equal.
            if !is_exact {
                break;
            }
        }
        let is_exact = keys.len() == top.keys.len() && keys.iter().all(|key| key.is_exact);
        (!keys.is_empty()).then(|| TopGroups { keys, is_exact, rows: top.rows, best: Mutex::default() })
    }

    /// The groups that may be among the first, in ascending order of their indexes.
    pub(super) fn keep(
        &self,
        groups: &Merged,
        layout: &GroupLayout,
        states: &States,
        texts: &TextStore,
    ) -> Result<Vec<u32>> {
        if self.rows == 0 {
            return Ok(Vec::new());
        }
        let ranking = Ranking { top: self, groups, layout, states, texts };
        let all: Vec<u32> = (0..(groups.rows.len() / layout.stride) as u32).collect();
        let ranks = ranking.ranks(&self.keys[0], &all)?;
        let bound = self.bound();
        let is_before = |rank: i128| match bound {
            None => true,
            // A group that ranks like the worst of enough others is not needed if no other key can tell them apart.
            Some(bound) if self.is_exact && self.keys.len() == 1 => rank < bound,
            Some(bound) => rank <= bound,
        };
        let (mut groups, mut of_groups) = (Vec::new(), Vec::new());
        for (group, rank) in all.into_iter().zip(ranks).filter(|(_, rank)| is_before(*rank)) {
            groups.push(group);
            of_groups.push(rank);
        }
        let (mut kept, mut best) = (Vec::new(), Vec::new());
        ranking.select(0, groups, of_groups, self.rows, &mut kept, &mut best)?;
        // Publish the ranks at once, so that other workers can prune with the new bound.
        self.take(best);
        kept.sort_unstable();
        Ok(kept)
    }

    /// The rank of the worst of enough groups; `None` while there are too few.
    fn bound(&self) -> Option<i128> {
        let best = self.best.lock();
        best.peek().filter(|_| best.len() >= self.rows).copied()
    }

    /// Adds groups to the best ones, by the ranks of their first keys.
    fn take(&self, ranks: Vec<i128>) {
        let mut best = self.best.lock();
        for rank in ranks {
            best.push(rank);
            if best.len() > self.rows {
                best.pop();
            }
        }
    }
}

/// The rows at some indexes.
pub(super) fn rows_at(rows: &[u64], places: &[u32], stride: usize) -> Vec<u64> {
    places.iter().flat_map(|place| &rows[*place as usize * stride..][..stride]).copied().collect()
}

/// The groups of a partition that are ranked.
struct Ranking<'a> {
    top: &'a TopGroups,
    groups: &'a Merged,
    layout: &'a GroupLayout,
    states: &'a States,
    texts: &'a TextStore,
}

impl Ranking<'_> {
    /// The ranks of groups by one key.
    fn ranks(&self, key: &OrderKey, groups: &[u32]) -> Result<Vec<i128>> {
        let stride = self.layout.stride;
        let mut ranks = Vec::with_capacity(groups.len());
        if let OrderSource::Aggregate(aggregate) = key.source
            && let Some((log, number)) = self.states.logged(aggregate)
        {
            ranks_of(&take(&self.groups.logged[log][number], groups)?, key.rank, &mut ranks)?;
            return Ok(ranks);
        }
        let some: Vec<u64>;
        let rows = match groups.len() * stride == self.groups.rows.len() {
            true => &self.groups.rows,
            false => {
                some = rows_at(&self.groups.rows, groups, stride);
                &some
            }
        };
        match key.source {
            OrderSource::Aggregate(aggregate) => {
                let groups = Finished { rows, stride, at: self.layout.key_words };
                self.states.ranks(aggregate, groups, key.rank, self.texts, &mut ranks)?;
            }
            OrderSource::Key(column) => {
                if let Some(column) = self.layout.held(column) {
                    self.key_ranks(column, rows, key.rank, &mut ranks);
                }
            }
        }
        Ok(ranks)
    }

    fn key_ranks(&self, column: &KeyColumn, rows: &[u64], rank: Rank, ranks: &mut Vec<i128>) {
        let kind = column.kind();
        let mut extend = |number: &dyn Fn(u128) -> i128| {
            ranks.extend(rows.chunks_exact(self.layout.stride).map(|row| match column.is_null(row) {
                true => rank.of_null(),
                false => rank.of(number(column.bits(row))),
            }));
        };
        match column.place {
            KeyValuePlace::Narrow { width, .. } => {
                let order = BitOrder::of(kind, width);
                extend(&|bits| order.number(bits as u64).into());
            }
            KeyValuePlace::Wide { .. } => extend(&|bits| wide_number(kind, bits) >> 1),
            KeyValuePlace::Text { .. } => extend(&|view| text_rank(self.texts.bytes(view, &mut [0; 16]))),
        }
    }

    /// Selects the first `rows` of `groups` by the keys from `level` on, together with all groups that the keys cannot
    /// tell from the last of them, and adds them to `kept`. `ranks` are the groups' ranks by the key at `level`. `best`
    /// gets their ranks by the first key.
    fn select(
        &self,
        level: usize,
        groups: Vec<u32>,
        ranks: Vec<i128>,
        rows: usize,
        kept: &mut Vec<u32>,
        best: &mut Vec<i128>,
    ) -> Result<()> {
        if groups.len() <= rows {
            kept.extend(groups);
            best.extend(ranks.into_iter().filter(|_| level == 0));
            return Ok(());
        }
        // Selecting finds the last rank that matters without sorting all groups.
        let mut sorted = ranks.clone();
        let last = *sorted.select_nth_unstable(rows - 1).1;
        let (mut ties, mut before) = (Vec::new(), 0);
        for (group, rank) in groups.into_iter().zip(ranks).filter(|(_, rank)| *rank <= last) {
            if rank == last {
                ties.push(group);
                continue;
            }
            before += 1;
            kept.push(group);
            best.extend((level == 0).then_some(rank));
        }
        let wanted = rows - before;
        // Only as many ties as are wanted count as best, all with the same rank.
        best.extend(std::iter::repeat_n(last, if level == 0 { wanted } else { 0 }));
        match self.top.keys.get(level + 1) {
            Some(key) if ties.len() > wanted => {
                let ranks = self.ranks(key, &ties)?;
                self.select(level + 1, ties, ranks, wanted, kept, best)
            }
            _ => {
                // If ranks are not exact, any of the ties may be among the first, so all must stay.
                ties.truncate(if self.top.is_exact { wanted } else { usize::MAX });
                kept.extend(ties);
                Ok(())
            }
        }
    }
}
