//! Row numbers that rows of time tables get when background jobs bring them into the order of time.
//!
//! In the order of its numbers, each block of a time table is sorted by time. So a row that moves to another place
//! gets the number of that place. Readers and the log do not notice this: each state has its own numbers, and a record
//! of the log names rows by the numbers of the state before it. Only a transaction that began before the move still
//! names rows by their old numbers. When it commits, its numbers are translated here, so that a background job never
//! makes a transaction fail.
//!
//! ```text
//! state of the transaction  ── rows moved ──>  state  ── rows moved ──>  latest state
//!        place 0                              place 1                      place 2
//! ```
//!
//! Each state of a table has a place in a chain, and a place leads to the next one by the rows that moved in between. A
//! place lives as long as a state that has it or comes before it. So translations stay exactly as long as an older
//! state, and with it an older transaction, can still exist.
//!
//! A block could store the arrival order of its rows instead, as one more chunk, and rows would keep their numbers.
//! That takes up to 20 bits for each row of every late block for good, also in each scan for a change, and rows still
//! could not move to another block.

use std::sync::Arc;

use parking_lot::Mutex;
use rowmill_base::{Broker, Reservation};

/// The memory of a row that has moved: its old and its new number.
pub(crate) const MOVED_ROW_BYTES: u64 = 16;

/// Rows that got other numbers in one commit.
#[derive(Debug)]
pub(crate) struct Renumbering {
    /// The old numbers of all rows that took part, ascending.
    old: Vec<u64>,
    /// The new number of each of them.
    new: Vec<u64>,
    _memory: Reservation,
}

impl Renumbering {
    /// Makes the translation of `old`, ascending numbers, to `new`.
    pub(crate) fn new(old: Vec<u64>, new: Vec<u64>, memory: &Broker) -> Renumbering {
        assert_eq!(old.len(), new.len(), "each row has an old and a new number");
        let mut reserved = memory.reservation("row numbers of moved rows");
        // The rows have moved already, so this must not fail.
        reserved.recount(MOVED_ROW_BYTES * old.len() as u64);
        Renumbering { old, new, _memory: reserved }
    }

    /// Rows that exchange their numbers, which are `old`. The row at `order[place]` gets the number at `place`.
    pub(crate) fn exchange(old: Vec<u64>, order: &[u32], memory: &Broker) -> Renumbering {
        let numbers = old.clone();
        Renumbering::in_order(old, &numbers, order, memory)
    }

    /// Rows with the numbers `old`. The row at `order[place]` gets the number `numbers[place]`.
    pub(crate) fn in_order(old: Vec<u64>, numbers: &[u64], order: &[u32], memory: &Broker) -> Renumbering {
        let mut new = vec![0; old.len()];
        for (number, row) in numbers.iter().zip(order) {
            new[*row as usize] = *number;
        }
        Renumbering::new(old, new, memory)
    }

    /// The new number of the row with the number `row`.
    ///
    /// A row that did not take part keeps its number. So does one that was deleted before: no other row can have that
    /// number, because new numbers are the old numbers of rows that took part, or come after all others.
    fn translate(&self, row: u64) -> u64 {
        self.old.binary_search(&row).map_or(row, |at| self.new[at])
    }
}

/// The place of each row, where `order` has the row of each place.
pub(crate) fn places_of(order: &[u32]) -> Vec<u32> {
    let mut places = vec![0; order.len()];
    for (place, row) in (0..).zip(order) {
        places[*row as usize] = place;
    }
    places
}

/// The place of a state of a table in the chain of its renumberings.
#[derive(Clone, Debug, Default)]
pub(crate) struct RowNumbering {
    place: Arc<Place>,
    /// How many rows the moves up to here have moved. A row that has moved twice counts twice.
    moved: u64,
}

#[derive(Debug, Default)]
struct Place {
    next: Mutex<Option<(Arc<Renumbering>, Arc<Place>)>>,
}

impl RowNumbering {
    /// The place after `moved`, for the state that follows.
    pub(crate) fn after(&self, moved: &Arc<Renumbering>) -> RowNumbering {
        let next = Arc::new(Place::default());
        // A commit that failed to reach the log may have left a place that no state has. It is replaced.
        *self.place.next.lock() = Some((Arc::clone(moved), Arc::clone(&next)));
        let rows = moved.old.len() as u64;
        RowNumbering { place: next, moved: self.moved + rows }
    }

    /// The moves from the place `older` up to this one, in their order.
    pub(crate) fn since(&self, older: &RowNumbering) -> RowTranslation {
        self.since_known(older).expect("the place of an older state leads to those of later ones")
    }

    /// The moves from the place `older` up to this one, in their order. `None` if `older` leads to no later place,
    /// because it is the place of a state that gave up its translations.
    pub(crate) fn since_known(&self, older: &RowNumbering) -> Option<RowTranslation> {
        let (mut moves, mut at) = (Vec::new(), Arc::clone(&older.place));
        while !Arc::ptr_eq(&at, &self.place) {
            let step = at.next.lock().clone();
            let (moved, next) = step?;
            moves.push(moved);
            at = next;
        }
        Some(RowTranslation(moves))
    }

    /// How many rows have moved between the place `older` and this one. The translation takes [`MOVED_ROW_BYTES`] for
    /// each of them.
    pub(crate) fn moved_since(&self, older: &RowNumbering) -> u64 {
        self.moved.saturating_sub(older.moved)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // The places after this one may be many, so they must not be dropped one inside of the other.
        let mut next = self.next.get_mut().take();
        while let Some((_, place)) = next {
            next = Arc::into_inner(place).and_then(|mut place| place.next.get_mut().take());
        }
    }
}

/// Translates the row numbers of an older state to those of a later one.
#[derive(Debug)]
pub(crate) struct RowTranslation(Vec<Arc<Renumbering>>);

impl RowTranslation {
    /// Whether no row has moved.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn translate(&self, row: u64) -> u64 {
        self.0.iter().fold(row, |row, moved| moved.translate(row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved(pairs: &[(u64, u64)]) -> Arc<Renumbering> {
        let (old, new) = pairs.iter().copied().unzip();
        Arc::new(Renumbering::new(old, new, &Broker::new(1 << 20)))
    }

    #[test]
    fn numbers_are_translated_from_the_place_of_their_state() {
        let first = RowNumbering::default();
        let second = first.after(&moved(&[(1, 2), (2, 1)]));
        let third = second.after(&moved(&[(2, 10), (5, 11)]));
        let translated = |from: &RowNumbering| [1, 2, 3, 5].map(|row| third.since(from).translate(row));
        assert_eq!(translated(&first), [10, 1, 3, 11]);
        assert_eq!(translated(&second), [1, 10, 3, 11]);
        assert_eq!(translated(&third), [1, 2, 3, 5]);
        assert_eq!(third.moved_since(&first), 4);
        assert!(third.since(&third).is_empty() && !third.since(&second).is_empty());
        assert!(
            third.since_known(&RowNumbering::default()).is_none(),
            "another table, or a state without translations"
        );
    }

    #[test]
    fn rows_that_are_sorted_exchange_their_numbers() {
        let order = [2, 0, 1];
        let moved = Renumbering::exchange(vec![10, 11, 20], &order, &Broker::new(1 << 20));
        assert_eq!([10, 11, 20].map(|row| moved.translate(row)), [11, 20, 10]);
        assert_eq!(places_of(&order), [1, 2, 0]);
    }

    #[test]
    fn a_failed_commit_leaves_no_trace() {
        let first = RowNumbering::default();
        drop(first.after(&moved(&[(1, 7)])));
        let second = first.after(&moved(&[(1, 2), (2, 1)]));
        assert_eq!(second.since(&first).translate(1), 2);
    }

    #[test]
    fn a_long_chain_is_dropped_without_recursion_and_gives_its_memory_back() {
        let memory = Broker::new(1 << 30);
        let first = RowNumbering::default();
        let mut last = first.clone();
        for row in 0..200_000 {
            last = last.after(&Arc::new(Renumbering::new(vec![row], vec![row], &memory)));
        }
        assert!(memory.used_bytes() > 0);
        drop(first);
        assert_eq!(memory.used_bytes(), 0);
        drop(last);
    }
}
