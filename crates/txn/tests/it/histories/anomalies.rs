//! Whether the checker finds what it is for: histories written by hand, each with an anomaly or almost with one.

use rowmill_base::Isolation::{self, ReadCommitted, Serializable, Snapshot};

use super::dependencies::{Versions, find_circle};
use super::faults::find_faults;
use super::record::{Entry, Operation, Record, Row, Sight, Touched, Written};

/// A history that is written down. Time passes with each line.
#[derive(Default)]
struct Hand {
    records: Vec<Record>,
    now: u64,
    commit: u64,
}

fn row(id: u64) -> Row {
    Row { group: 0, slot: None, ids: vec![id] }
}

impl Hand {
    /// Whose transactions 0, 1, 2 and so on have all begun.
    fn of(levels: &[Isolation]) -> Hand {
        let mut hand = Hand::default();
        levels.iter().for_each(|level| hand.begin(*level));
        hand
    }

    fn begin(&mut self, level: Isolation) {
        self.now += 1;
        let name = format!("T{}", self.records.len());
        self.records.push(Record::new(name, level, self.now));
    }

    /// A statement that sees one key, over the last commit.
    fn see(&mut self, who: usize, key: i64, sight: Sight) -> &mut Operation {
        self.now += 1;
        let record = &mut self.records[who];
        let first = record.operations.first().filter(|_| record.level != ReadCommitted);
        let snapshot = first.map_or(self.commit, |first| first.snapshot);
        let before = record.operations.last().map_or(snapshot, |last| last.snapshot);
        let (at, said, sights, own) = (self.now, format!("see {key}"), vec![(key, sight)], record.entries.clone());
        let statement = Operation { said, at, stood_at: at, snapshot, before, sights, own, ..Operation::default() };
        record.operations.push(statement);
        record.operations.last_mut().expect("it was pushed")
    }

    fn reads(&mut self, who: usize, key: i64, id: u64) {
        self.see(who, key, Sight::Row(row(id)));
    }

    /// Puts a row with this id over that of another; 0 is of none.
    fn writes(&mut self, who: usize, key: i64, id: u64, over: u64) {
        let record = &mut self.records[who];
        record.ids.insert(id, (row(id), false));
        let over = (over > 0).then(|| row(over));
        record.written.entry(key).or_insert(Written { row: None, over }).row = Some(row(id));
    }

    fn deletes(&mut self, who: usize, key: i64, over: u64) {
        self.records[who].written.insert(key, Written { row: None, over: Some(row(over)) });
    }

    /// Writes an entry, or takes it out, over the last commit.
    fn touches(&mut self, who: usize, entry: Entry, is_there: bool) {
        self.records[who].entries.insert(entry, Touched { since: self.commit, is_there });
    }

    fn ends(&mut self, who: usize) {
        self.now += 1;
        self.records[who].ended = self.now;
    }

    fn commits(&mut self, who: usize) {
        self.records[who].asked = Some(self.now);
        let is_writer = !self.records[who].written.is_empty();
        self.commit += u64::from(is_writer);
        let snapshot = self.records[who].operations.last().map_or(self.commit, |last| last.snapshot);
        self.records[who].commit = Some(if is_writer { self.commit } else { snapshot });
        self.ends(who);
    }

    /// The same at another level.
    fn at(&self, level: Isolation) -> Vec<Record> {
        let mut records = self.records.clone();
        records.iter_mut().for_each(|record| record.level = level);
        records
    }

    fn circle(&self) -> Option<&'static str> {
        circle(&self.records)
    }

    fn faults(&self) -> Vec<String> {
        find_faults(&self.records, &Versions::of(&self.records))
    }

    fn has_fault(&self, words: &str) -> bool {
        self.faults().iter().any(|fault| fault.contains(words))
    }
}

fn circle(records: &[Record]) -> Option<&'static str> {
    find_circle(records, &Versions::of(records)).map(|circle| circle.name)
}

const LEVELS: [Isolation; 3] = [ReadCommitted, Snapshot, Serializable];

/// Rows 1 and 2 with the ids 1 and 2, written by transaction 0, and others that have begun since.
fn two_rows(level: Isolation, others: usize) -> Hand {
    let mut hand = Hand::of(&[level]);
    hand.writes(0, 1, 1, 0);
    hand.writes(0, 2, 2, 0);
    hand.commits(0);
    (0..others).for_each(|_| hand.begin(level));
    hand
}

#[test]
fn a_history_that_is_right_is_not_complained_of() {
    for level in LEVELS {
        let mut hand = two_rows(level, 3);
        hand.reads(1, 1, 1);
        hand.writes(1, 1, 11, 1);
        hand.reads(2, 1, 1);
        hand.reads(2, 2, 2);
        hand.reads(3, 2, 2);
        hand.see(3, 3, Sight::Absent);
        hand.writes(3, 3, 33, 0);
        hand.commits(1);
        hand.commits(2);
        hand.commits(3);
        hand.begin(level);
        hand.reads(4, 1, 11);
        hand.reads(4, 3, 33);
        hand.commits(4);
        assert_eq!((hand.circle(), hand.faults()), (None, vec![]), "{level:?}");
    }
}

#[test]
fn g0_writes_in_different_orders_are_found_at_every_level() {
    for level in LEVELS {
        let mut hand = two_rows(level, 2);
        hand.writes(1, 1, 11, 1);
        hand.writes(2, 1, 21, 11);
        hand.writes(2, 2, 22, 2);
        hand.writes(1, 2, 12, 22);
        hand.commits(1);
        hand.commits(2);
        assert_eq!(hand.circle(), Some("G0"), "{level:?}");
        assert!(hand.has_fault("an update is lost: 2 was written over [22]"), "{level:?}");
    }
}

#[test]
fn g1a_what_was_aborted_or_taken_back_and_g1b_what_was_written_over_are_found_when_they_are_read() {
    for level in LEVELS {
        let mut hand = two_rows(level, 2);
        hand.writes(1, 1, 11, 1);
        hand.ends(1);
        hand.reads(2, 1, 11);
        hand.commits(2);
        assert!(hand.has_fault("G1a: T1 wrote 11 and did not commit"), "{level:?}: {:?}", hand.faults());

        let mut hand = two_rows(level, 2);
        hand.writes(1, 2, 21, 2);
        hand.records[1].ids.insert(11, (row(11), true));
        hand.commits(1);
        hand.reads(2, 1, 11);
        assert!(hand.has_fault("G1a: T1 wrote 11 and took it back"), "{level:?}");

        let mut hand = two_rows(level, 2);
        hand.writes(1, 1, 11, 1);
        hand.reads(2, 1, 11);
        hand.writes(1, 1, 12, 11);
        hand.commits(1);
        hand.commits(2);
        assert!(hand.has_fault("G1b: T1 wrote 11 and then over it"), "{level:?}");

        let mut hand = two_rows(level, 1);
        hand.reads(1, 1, 77);
        assert!(hand.has_fault("no transaction has written 77"), "{level:?}");
        let mut hand = two_rows(level, 1);
        hand.see(1, 1, Sight::Row(Row { group: 5, ..row(1) }));
        assert!(hand.has_fault("and T0 wrote [1] in group 0"), "{level:?}");
    }
}

#[test]
fn g1c_two_that_read_each_other_are_found_at_every_level() {
    for level in LEVELS {
        let mut hand = two_rows(level, 2);
        hand.writes(1, 1, 11, 1);
        hand.writes(2, 2, 22, 2);
        hand.reads(1, 2, 22);
        hand.reads(2, 1, 11);
        hand.commits(1);
        hand.commits(2);
        assert_eq!(hand.circle(), Some("G1c"), "{level:?}");
    }
}

#[test]
fn g_single_two_times_in_one_transaction_are_found_but_at_read_committed() {
    for level in LEVELS {
        let mut hand = two_rows(level, 2);
        hand.reads(1, 1, 1);
        hand.writes(2, 1, 21, 1);
        hand.writes(2, 2, 22, 2);
        hand.commits(2);
        hand.reads(1, 2, 22);
        hand.commits(1);
        assert_eq!(hand.circle(), (level != ReadCommitted).then_some("G-single"), "{level:?}");
        assert_eq!(hand.faults().is_empty(), level == ReadCommitted, "{level:?}");
    }
}

#[test]
fn an_update_that_is_lost_is_found_at_every_level() {
    for level in LEVELS {
        let mut hand = two_rows(level, 2);
        (1..3).for_each(|who| hand.reads(who, 1, 1));
        (1..3).for_each(|who| hand.writes(who, 1, who as u64 + 10, 1));
        hand.commits(1);
        hand.commits(2);
        assert_eq!(hand.circle(), (level != ReadCommitted).then_some("G-single"), "{level:?}");
        assert!(hand.has_fault("an update is lost: 1 was written over [1]"), "{level:?}: {:?}", hand.faults());
    }
}

#[test]
fn g2_item_and_g2_are_found_at_serializable_alone() {
    for level in LEVELS {
        let expected = |name| (level == Serializable).then_some(name);
        let mut items = two_rows(level, 2);
        for who in [1, 2] {
            items.reads(who, 1, 1);
            items.reads(who, 2, 2);
            items.writes(who, who as i64, 10 + who as u64, who as u64);
        }
        items.commits(1);
        items.commits(2);
        assert_eq!((items.circle(), items.faults()), (expected("G2-item"), vec![]), "{level:?}");

        // Each looks for rows of a group, and puts one there that the other has not seen.
        let mut conditions = two_rows(level, 2);
        for (who, own, other) in [(1, 3, 4), (2, 4, 3)] {
            conditions.see(who, own, Sight::Absent);
            conditions.see(who, other, Sight::OutOfGroup(0));
            conditions.writes(who, own, own as u64, 0);
        }
        conditions.commits(1);
        conditions.commits(2);
        assert_eq!((conditions.circle(), conditions.faults()), (expected("G2"), vec![]), "{level:?}");

        // The one inserts what was found to be absent, the other deletes what a refused insert has found to be present.
        let mut present = two_rows(level, 2);
        present.see(1, 1, Sight::Present);
        present.writes(1, 3, 3, 0);
        present.see(2, 3, Sight::Absent);
        present.reads(2, 1, 1);
        present.deletes(2, 1, 1);
        present.commits(1);
        present.commits(2);
        assert_eq!((present.circle(), present.faults()), (expected("G2"), vec![]), "{level:?}");
    }
}

#[test]
fn conditions_that_a_write_leaves_as_they_are_make_no_circle() {
    let mut hand = two_rows(Serializable, 2);
    hand.see(1, 1, Sight::Present);
    hand.see(1, 2, Sight::OutOfGroup(5));
    hand.writes(1, 3, 3, 0);
    hand.see(2, 3, Sight::Absent);
    hand.writes(2, 1, 11, 1);
    hand.writes(2, 2, 22, 2);
    hand.commits(1);
    hand.commits(2);
    assert_eq!(hand.circle(), None);
    hand.records[1].operations[1].sights[0].1 = Sight::OutOfGroup(0);
    assert_eq!(hand.circle(), None, "what was never so is no dependency");
    assert!(hand.has_fault("2 is not in group 0, and [2] in group 0 since commit 1"), "{:?}", hand.faults());
}

/// Two dependencies of readers that do not follow each other: two that read in different orders what two have written.
#[test]
fn g_nonadjacent_is_found_at_snapshots_which_allow_more_than_one_in_a_row_alone() {
    let mut hand = two_rows(Snapshot, 4);
    hand.writes(1, 1, 11, 1);
    hand.writes(2, 2, 22, 2);
    hand.reads(3, 1, 11);
    hand.reads(3, 2, 2);
    hand.reads(4, 2, 22);
    hand.reads(4, 1, 1);
    (1..5).for_each(|who| hand.commits(who));
    assert_eq!(hand.circle(), Some("G-nonadjacent"));
    assert_eq!(circle(&hand.at(ReadCommitted)), None);

    // The anomaly of the transaction that only reads: two of readers in a row.
    let mut hand = two_rows(Snapshot, 2);
    hand.reads(1, 1, 1);
    hand.reads(1, 2, 2);
    hand.writes(1, 1, 11, 1);
    hand.reads(2, 2, 2);
    hand.writes(2, 2, 22, 2);
    hand.commits(2);
    hand.begin(Snapshot);
    hand.reads(3, 1, 1);
    hand.reads(3, 2, 22);
    hand.commits(3);
    hand.commits(1);
    assert_eq!((hand.circle(), hand.faults()), (None, vec![]));
    assert_eq!(circle(&hand.at(Serializable)), Some("G2-item"));
}

#[test]
fn what_was_locked_is_held_to_that_at_every_level() {
    for level in LEVELS {
        for is_locking in [false, true] {
            let mut hand = two_rows(level, 2);
            for (who, own, other) in [(1, 1, 2), (2, 2, 1)] {
                hand.see(who, other, Sight::Row(row(other as u64))).is_locking = is_locking;
                hand.writes(who, own, 10 + own as u64, own as u64);
            }
            hand.commits(1);
            hand.commits(2);
            let is_found = is_locking || level == Serializable;
            assert_eq!(hand.circle(), is_found.then_some("G2-item"), "{level:?} {is_locking}");
        }
    }
}

#[test]
fn levels_that_meet_are_each_held_to_their_own() {
    // The read skew of one beside another that writes, at all pairs of levels.
    for (reader, writer) in LEVELS.iter().flat_map(|one| LEVELS.map(|other| (*one, other))) {
        let mut hand = two_rows(Snapshot, 2);
        (hand.records[1].level, hand.records[2].level) = (reader, writer);
        hand.reads(1, 1, 1);
        hand.writes(2, 1, 21, 1);
        hand.writes(2, 2, 22, 2);
        hand.commits(2);
        hand.reads(1, 2, 22);
        hand.commits(1);
        assert_eq!(hand.circle(), (reader != ReadCommitted).then_some("G-single"), "{reader:?} {writer:?}");
    }
    // Write skew is allowed if one of them allows it.
    for (one, other) in LEVELS.iter().flat_map(|one| LEVELS.map(|other| (*one, other))) {
        let mut hand = two_rows(Snapshot, 2);
        (hand.records[1].level, hand.records[2].level) = (one, other);
        for (who, own, other) in [(1, 1, 2), (2, 2, 1)] {
            hand.reads(who, other, other as u64);
            hand.writes(who, own, 10 + own as u64, own as u64);
        }
        hand.commits(1);
        hand.commits(2);
        let both = one == Serializable && other == Serializable;
        assert_eq!(hand.circle(), both.then_some("G2-item"), "{one:?} {other:?}");
    }
}

#[test]
fn a_transaction_that_does_not_see_what_was_acknowledged_before_it_began_is_found() {
    for level in LEVELS {
        let mut hand = two_rows(level, 1);
        hand.writes(1, 1, 11, 1);
        hand.commits(1);
        hand.begin(level);
        hand.see(2, 1, Sight::Row(row(1)));
        hand.records[2].operations[0].snapshot = 1;
        hand.commits(2);
        assert_eq!(hand.circle(), (level != ReadCommitted).then_some("against real time"), "{level:?}");
        assert!(hand.has_fault("T1 was acknowledged before with commit 2"), "{level:?}");
    }
    let mut hand = two_rows(Snapshot, 1);
    hand.reads(1, 1, 1);
    hand.reads(1, 2, 2);
    hand.records[1].operations[1].snapshot = 5;
    assert!(hand.has_fault("another snapshot than at the beginning"));
}

#[test]
fn statements_stay_with_an_old_snapshot_and_commits_fail_only_of_those_who_have_lost() {
    let of_key = |key, is_there, other, has_lost| (Entry::Key(key), is_there, Entry::Key(other), has_lost);
    let of_slot = |is_there, (slot, key), has_lost| (Entry::Slot(7, 1), is_there, Entry::Slot(slot, key), has_lost);
    let keys = [of_key(1, true, 1, true), of_key(1, false, 1, true), of_key(1, true, 2, false)];
    let slots = [of_slot(true, (7, 2), true), of_slot(false, (7, 2), false), of_slot(true, (8, 1), false)];
    for (entry, is_there, other, has_lost) in keys.into_iter().chain(slots) {
        let mut hand = two_rows(ReadCommitted, 2);
        hand.reads(1, 1, 1);
        hand.touches(1, entry, is_there);
        hand.touches(2, other, true);
        hand.writes(2, 2, 22, 2);
        hand.commits(2);
        hand.see(1, 2, Sight::Present).snapshot = 1;
        hand.ends(1);
        let case = format!("{entry:?} {is_there} {other:?}");
        let is_stale = |hand: &Hand| hand.has_fault("T2 was acknowledged before with commit 2");
        assert_eq!(is_stale(&hand), !has_lost, "{case}");
        let mut unknown = Hand { records: hand.records.clone(), ..hand };
        unknown.records[2].asked = Some(hand.records[1].operations[1].stood_at);
        assert!(is_stale(&unknown), "{case}: not even begun when the statement had its snapshot");
        let mut older = Hand { records: hand.records.clone(), ..hand };
        older.records[1].operations[1].before = 0;
        assert!(is_stale(&older), "{case}: neither the old snapshot nor the newest");
        let mut renewed = Hand { records: hand.records.clone(), ..hand };
        renewed.records[1].operations[1].snapshot = 2;
        assert_eq!(renewed.has_fault("another snapshot than before, though T2 was faster"), has_lost, "{case}");

        let record = &mut hand.records[1];
        (record.asked, record.commit) = (Some(record.ended), None);
        assert_eq!(hand.has_fault("it could not commit, and no other commit was first"), !has_lost, "{case}");
        hand.records[1].commit = Some(3);
        assert_eq!(hand.has_fault("it has committed, and T2 was faster"), has_lost, "{case}");
    }
}

#[test]
fn two_rows_with_one_value_in_a_unique_index_are_found() {
    let mut hand = two_rows(Snapshot, 2);
    for who in [1, 2] {
        hand.writes(who, who as i64, 10 + who as u64, who as u64);
        let taken = Row { slot: Some(7), ..row(10 + who as u64) };
        hand.records[who].ids.insert(10 + who as u64, (taken.clone(), false));
        hand.records[who].written.entry(who as i64).and_modify(|written| written.row = Some(taken));
        hand.commits(who);
    }
    assert!(hand.has_fault("both 2 and 1 have slot 7"), "{:?}", hand.faults());
    hand.begin(Snapshot);
    hand.see(3, 1, Sight::InSlot(7)).taken = Some((8, vec![]));
    assert!(hand.has_fault("slot 8 is said to be taken, and is not"));
    assert!(!hand.has_fault("slot 7 is said to be taken, and is not"));
}

#[test]
fn one_commit_of_two_transactions_is_found() {
    let mut hand = two_rows(Snapshot, 2);
    for who in [1, 2] {
        hand.commit = 1;
        hand.writes(who, who as i64, 10 + who as u64, who as u64);
        hand.commits(who);
    }
    assert!(hand.has_fault("two transactions are one commit"));
}

#[test]
fn a_circle_is_told_with_its_transactions_and_what_they_did() {
    let mut hand = two_rows(Snapshot, 2);
    (1..3).for_each(|who| hand.reads(who, 1, 1));
    (1..3).for_each(|who| hand.writes(who, 1, who as u64 + 10, 1));
    hand.commits(1);
    hand.commits(2);
    let said = find_circle(&hand.records, &Versions::of(&hand.records)).expect("an update is lost").said;
    for words in [
        "T1 -ww-> T2, which has written 1 next: [12] in group 0",
        "T2 -rw-> T1, which has written 1 behind what was read: [11] in group 0",
        "T2 at Snapshot, from 4 to 8, is commit 3",
        "    see 1 over commit 1; 1 is [1] in group 0",
        "    leaves 1 [12] in group 0, over [1] in group 0",
    ] {
        assert!(said.contains(words), "{words} is not in {said}");
    }
    assert!(!said.contains("T0 at"), "T0 is not part of it: {said}");
}
