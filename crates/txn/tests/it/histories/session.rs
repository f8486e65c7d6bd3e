//! One transaction of a history: random statements on the engine, each noted with what it has seen.

use std::collections::BTreeMap;
use std::ops::Bound::Unbounded;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rowmill_base::{ColumnId, Durability, ErrorKind, IndexId, Isolation, Result, SqlType, TableId};
use rowmill_storage::keyed::{KeyRange, ValueRef};
use rowmill_txn::keyed::{KeyedReader, RangeScan, RowBatch, TableCodec};
use rowmill_txn::{ColumnSpec, Engine, IndexSpec, KeyColumn, MAIN_SCHEMA, Savepoint, TableSource, Transaction};

use super::record::{Entries, Entry, Operation, Record, Row, Sight, Touched, Written, say};
use crate::support::Dice;

/// What all transactions of a history share.
pub(super) struct World {
    pub(super) engine: Arc<Engine>,
    pub(super) table: TableId,
    groups: IndexId,
    /// Keys are numbers below it.
    pub(super) keys: i64,
    /// Whether rows list all writes since they came into being, and stay. Otherwise they have the last, and come and
    /// go.
    pub(super) of_lists: bool,
    /// Whether statements read ranges and groups.
    reads_wide: bool,
    clock: AtomicU64,
    ids: AtomicU64,
}

/// Rows are in one of so many groups.
const GROUPS: u64 = 3;

const NUMBER: usize = 0;
const GROUP: usize = 1;
const SLOT: usize = 2;
const IDS: usize = 3;

impl World {
    pub(super) fn over(engine: Arc<Engine>, keys: i64, of_lists: bool, reads_wide: bool) -> Result<World> {
        let mut transaction = engine.begin()?;
        let main = transaction.base().catalog().schema(MAIN_SCHEMA).expect("always there").id;
        let part = |column: usize| KeyColumn { column: ColumnId(column as u32), descending: false };
        let columns = [("number", SqlType::Int64), ("group", SqlType::Int64), ("slot", SqlType::Int64)];
        let mut columns: Vec<ColumnSpec> =
            columns.into_iter().map(|(name, kind)| ColumnSpec::new(name, kind)).collect();
        columns.push(ColumnSpec::new("ids", SqlType::TEXT));
        let table = transaction.create_keyed_table(main, "H", columns, &[part(NUMBER)])?;
        let index = |name: &str, column, unique| IndexSpec { name: name.into(), parts: vec![part(column)], unique };
        transaction.create_index(table, index("groups", GROUP, false))?;
        transaction.create_index(table, index("slots", SLOT, true))?;
        transaction.commit()?;
        let snapshot = engine.snapshot()?;
        let def = Arc::clone(snapshot.table(table).expect("it was made").table());
        let groups = def.keyed.as_ref().expect("it has keys").indexes[0].id;
        Ok(World {
            engine,
            table,
            groups,
            keys,
            of_lists,
            reads_wide,
            clock: AtomicU64::new(1),
            ids: AtomicU64::new(1),
        })
    }

    /// Goes on with the directory opened again.
    pub(super) fn reopened(self, open: impl FnOnce() -> Arc<Engine>) -> World {
        let World { engine, table, groups, keys, of_lists, reads_wide, clock, ids } = self;
        drop(engine);
        World { engine: open(), table, groups, keys, of_lists, reads_wide, clock, ids }
    }

    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }
}

/// A row as it was found.
struct Place {
    key: Vec<u8>,
    row: Vec<u8>,
    value: Row,
}

/// An open transaction.
pub(super) struct Session<'w> {
    world: &'w World,
    transaction: Transaction,
    record: Record,
    savepoints: Vec<Mark>,
    /// Ids of writes that were not taken back.
    standing: Vec<u64>,
    /// The snapshot of the last statement, or of the savepoint that was gone back to since.
    snapshot: u64,
}

/// A savepoint, and what the transaction had written by then, over which snapshot.
struct Mark {
    savepoint: Savepoint,
    written: BTreeMap<i64, Written>,
    entries: Entries,
    standing: Vec<u64>,
    snapshot: u64,
}

/// Savepoints that a transaction has at a time.
const SAVEPOINTS_MAX: usize = 3;

impl<'w> Session<'w> {
    pub(super) fn begin(world: &'w World, name: String, level: Isolation) -> Session<'w> {
        let record = Record::new(name, level, world.now());
        let mut transaction = world.engine.begin().expect("a transaction");
        transaction.set_isolation(level);
        let snapshot = transaction.base().commit().0;
        Session { world, transaction, record, savepoints: Vec::new(), standing: Vec::new(), snapshot }
    }

    /// Reads all that there is, and ends.
    pub(super) fn read_all(mut self) -> Record {
        let operation = self.start("all rows");
        let keys = self.world.keys;
        let operation = self.see_range(operation, 0..keys, false, usize::MAX, true);
        self.record.operations.push(operation);
        self.commit()
    }

    /// One statement.
    pub(super) fn step(&mut self, dice: &mut Dice) {
        match dice.roll(20) {
            0..3 if self.world.reads_wide => self.read_range(dice),
            3..5 if self.world.reads_wide => self.read_group(dice),
            5 if self.world.reads_wide => self.write_group(dice),
            0..9 => self.get(dice),
            9..14 => self.write(dice),
            14..17 => self.insert(dice),
            17 => self.move_row(dice),
            18 if self.savepoints.len() < SAVEPOINTS_MAX => {
                let operation = self.start("savepoint");
                self.record.operations.push(operation);
                self.savepoints.push(Mark {
                    savepoint: self.transaction.savepoint(),
                    written: self.record.written.clone(),
                    entries: self.record.entries.clone(),
                    standing: self.standing.clone(),
                    snapshot: self.snapshot,
                });
            }
            _ => self.roll_back_to(dice),
        }
    }

    pub(super) fn commit(mut self) -> Record {
        self.record.asked = Some(self.world.now());
        self.record.commit = match self.transaction.commit() {
            Ok(commit) => Some(commit.0),
            Err(error) => {
                assert_eq!(error.sqlstate(), "40001", "{error}");
                None
            }
        };
        self.record.ended = self.world.now();
        self.record
    }

    pub(super) fn roll_back(mut self) -> Record {
        self.transaction.rollback();
        self.record.ended = self.world.now();
        self.record
    }

    pub(super) fn set_durability(&mut self, durability: Durability) {
        self.transaction.set_durability(durability).expect("one for transactions");
    }

    /// Begins a statement, as those of SQL begin.
    fn start(&mut self, said: &str) -> Operation {
        let at = self.world.now();
        self.transaction.refresh().expect("no definition changes");
        let snapshot = self.transaction.base().commit().0;
        let before = std::mem::replace(&mut self.snapshot, snapshot);
        let (stood_at, own) = (self.world.now(), self.record.entries.clone());
        Operation { said: said.to_owned(), at, stood_at, snapshot, before, own, ..Operation::default() }
    }

    fn codec(&self) -> Arc<TableCodec> {
        self.transaction.keyed_codec(self.world.table).expect("the table is there")
    }

    fn key(&self, dice: &mut Dice) -> i64 {
        dice.roll(self.world.keys as u64) as i64
    }

    /// Notes what a statement has seen of a key: of those that the transaction has written it has to see just that.
    fn see(&mut self, operation: &mut Operation, key: i64, sight: Sight) {
        match self.record.written.get(&key) {
            None => operation.sights.push((key, sight)),
            Some(written) => {
                let same = match (&sight, &written.row) {
                    (Sight::Row(seen), Some(own)) => seen == own,
                    (sight, own) => sight.is_of(own.as_ref()),
                };
                if !same {
                    let own = say(written.row.as_ref());
                    self.record
                        .complaints
                        .push(format!("{}: {key} is {sight}, and was written as {own}", operation.said));
                }
            }
        }
    }

    fn find(&self, key: i64) -> Option<Place> {
        let found = self.transaction.get(self.world.table, &[ValueRef::Int(key)]).expect("read")?;
        let (number, value) = decode(&self.codec(), &found.key, &found.row);
        assert_eq!(number, key);
        Some(Place { key: found.key, row: found.row, value })
    }

    fn find_and_see(&mut self, operation: &mut Operation, key: i64) -> Option<Place> {
        let found = self.find(key);
        let sight = found.as_ref().map_or(Sight::Absent, |found| Sight::Row(found.value.clone()));
        self.see(operation, key, sight);
        found
    }

    fn get(&mut self, dice: &mut Dice) {
        let (key, is_locking) = (self.key(dice), dice.roll(4) == 0);
        let mut operation = self.start(&format!("get {key}{}", if is_locking { " for update" } else { "" }));
        operation.is_locking = is_locking;
        let found = self.find_and_see(&mut operation, key);
        if is_locking {
            let key = found.map_or_else(|| encode(&self.codec(), key), |found| found.key);
            self.transaction.validate_read(&key);
        }
        self.record.operations.push(operation);
    }

    fn read_range(&mut self, dice: &mut Dice) {
        let from = self.key(dice);
        let range = from..from + 1 + dice.roll((self.world.keys - from) as u64) as i64;
        let (backward, is_locking) = (dice.roll(3) == 0, dice.roll(6) == 0);
        let first = if is_locking || dice.roll(2) == 0 { usize::MAX } else { 1 + dice.place(3) };
        let order = if backward { " backward" } else { "" };
        let how = if is_locking { " for update" } else { "" };
        let mut operation = self.start(&format!("range {range:?}{order}, {first} rows at most{how}"));
        operation.is_locking = is_locking;
        if is_locking {
            let codec = self.codec();
            self.transaction.validate_range(&encode(&codec, range.start), &encode(&codec, range.end));
        }
        let operation = self.see_range(operation, range, backward, first, dice.roll(2) == 0);
        self.record.operations.push(operation);
    }

    /// Reads rows of keys in a range, `first` at most, and notes what was passed.
    fn see_range(
        &mut self,
        mut operation: Operation,
        range: std::ops::Range<i64>,
        backward: bool,
        first: usize,
        by_view: bool,
    ) -> Operation {
        let codec = self.codec();
        let (start, end) = (encode(&codec, range.start), encode(&codec, range.end));
        let scan = |reader: &KeyedReader<'_>| {
            let (mut scan, mut found) = (RangeScan::default(), BTreeMap::new());
            scan.start(&start, &end, backward, first);
            while found.len() < first
                && let Some((key, row)) = scan.next(reader).expect("read")
            {
                let (number, row) = decode(&codec, key, row);
                assert!(found.insert(number, row).is_none(), "{number} is found twice");
            }
            found
        };
        let found = match by_view {
            true => scan(&self.transaction.keyed_view().reader()),
            false => scan(&self.transaction.reader()),
        };
        let passed = match (found.len() == first, backward) {
            (false, _) => range,
            (true, false) => range.start..found.keys().last().expect("at least one was asked for") + 1,
            (true, true) => *found.keys().next().expect("at least one was asked for")..range.end,
        };
        for key in passed {
            let sight = found.get(&key).map_or(Sight::Absent, |row| Sight::Row(row.clone()));
            self.see(&mut operation, key, sight);
        }
        operation
    }

    fn read_group(&mut self, dice: &mut Dice) {
        let group = dice.roll(GROUPS) as i64;
        let (backward, first) = (dice.roll(3) == 0, if dice.roll(3) > 0 { usize::MAX } else { 1 + dice.place(2) });
        let order = if backward { " backward" } else { "" };
        let operation = self.start(&format!("group {group}{order}, {first} rows at most"));
        let (operation, _) = self.see_group(operation, group, backward, first);
        self.record.operations.push(operation);
    }

    fn see_group(
        &mut self,
        mut operation: Operation,
        group: i64,
        backward: bool,
        first: usize,
    ) -> (Operation, BTreeMap<i64, Place>) {
        let codec = self.codec();
        let (head, keys) = codec.keys(Some(self.world.groups)).expect("its keys");
        let mut range = KeyRange::default();
        keys.range(head, &[ValueRef::Int(group)], Unbounded, Unbounded, &mut range).expect("a range");
        let (table, index) = (self.world.table, Some(self.world.groups));
        let mut cursor = self.transaction.keyed_cursor(table, index, range, backward).expect("a cursor");
        let (mut rows, mut found) = (RowBatch::default(), BTreeMap::new());
        while found.len() < first {
            self.transaction.next_rows(&mut cursor, (first - found.len()).min(4), &mut rows).expect("read");
            if rows.is_empty() {
                break;
            }
            for (key, row) in rows.keys().iter().zip(rows.rows().iter()) {
                let (number, value) = decode(&codec, key, row);
                let is_new = found.insert(number, Place { key: key.to_vec(), row: row.to_vec(), value }).is_none();
                assert!(is_new, "{number} is found twice");
            }
        }
        let passed = match (found.len() == first, backward) {
            (false, _) => 0..self.world.keys,
            (true, false) => 0..found.keys().last().expect("at least one was asked for") + 1,
            (true, true) => *found.keys().next().expect("at least one was asked for")..self.world.keys,
        };
        for key in passed {
            let sight = found.get(&key).map_or(Sight::OutOfGroup(group), |found| Sight::Row(found.value.clone()));
            if matches!(&sight, Sight::Row(row) if row.group != group) {
                self.record.complaints.push(format!("{}: {key} is {sight}", operation.said));
            }
            self.see(&mut operation, key, sight);
        }
        (operation, found)
    }

    /// What a write makes of a row.
    fn next_row(&self, old: Option<&Row>, dice: &mut Dice) -> Row {
        let id = self.world.ids.fetch_add(1, Ordering::Relaxed);
        let old_slot = old.and_then(|old| old.slot);
        let slot = match dice.roll(5) {
            0..2 => old_slot,
            2..4 => None,
            _ => Some(dice.roll(self.world.keys as u64) as i64),
        };
        let group = match old {
            Some(old) if dice.roll(3) > 0 => old.group,
            _ => dice.roll(GROUPS) as i64,
        };
        let ids = match old {
            Some(old) if self.world.of_lists => [&old.ids[..], &[id]].concat(),
            _ => vec![id],
        };
        Row { group, slot, ids }
    }

    /// Updates a row, deletes it, or inserts one where there is none.
    fn write(&mut self, dice: &mut Dice) {
        let key = self.key(dice);
        let mut operation = self.start(&format!("write {key}"));
        let before = self.transaction.savepoint();
        let found = self.find_and_see(&mut operation, key);
        let row = self.next_row(found.as_ref().map(|found| &found.value), dice);
        match found {
            Some(found) if !self.world.of_lists && dice.roll(3) == 0 => self.remove(key, &found),
            found => self.put(&mut operation, &before, (key, found.as_ref()), (key, row)),
        }
        self.record.operations.push(operation);
    }

    /// Inserts a row without a look.
    fn insert(&mut self, dice: &mut Dice) {
        let key = self.key(dice);
        let mut operation = self.start(&format!("insert {key}"));
        let before = self.transaction.savepoint();
        let row = self.next_row(None, dice);
        self.put(&mut operation, &before, (key, None), (key, row));
        self.record.operations.push(operation);
    }

    /// Writes all rows of a group.
    fn write_group(&mut self, dice: &mut Dice) {
        let group = dice.roll(GROUPS) as i64;
        let operation = self.start(&format!("write group {group}"));
        let (mut operation, found) = self.see_group(operation, group, false, 3);
        for (key, found) in found {
            let before = self.transaction.savepoint();
            let row = self.next_row(Some(&found.value), dice);
            self.put(&mut operation, &before, (key, Some(&found)), (key, row));
        }
        self.record.operations.push(operation);
    }

    /// Gives a row another key.
    fn move_row(&mut self, dice: &mut Dice) {
        let (from, to) = (self.key(dice), self.key(dice));
        if self.world.of_lists || from == to {
            return;
        }
        let mut operation = self.start(&format!("move {from} to {to}"));
        let before = self.transaction.savepoint();
        if let Some(found) = self.find_and_see(&mut operation, from) {
            let row = self.next_row(Some(&found.value), dice);
            self.put(&mut operation, &before, (from, Some(&found)), (to, row));
        }
        self.record.operations.push(operation);
    }

    fn remove(&mut self, key: i64, found: &Place) {
        let codec = self.codec();
        self.transaction.delete_values(&codec, &found.key, &found.row).expect("deleted");
        self.note_write(key, Some(&found.value), None);
    }

    /// Puts a row at a key, in the place of the one that was found at `from`, or goes back to `before` if that is
    /// refused.
    fn put(
        &mut self,
        operation: &mut Operation,
        before: &Savepoint,
        (from, found): (i64, Option<&Place>),
        (key, row): (i64, Row),
    ) {
        self.record.ids.insert(row.id(), (row.clone(), true));
        let codec = self.codec();
        let list: Vec<String> = row.ids.iter().map(u64::to_string).collect();
        let text = list.join(" ");
        let slot = row.slot.map_or(ValueRef::Null, ValueRef::Int);
        let values = [ValueRef::Int(key), ValueRef::Int(row.group), slot, ValueRef::Text(&text)];
        let done = match found {
            Some(found) => self.transaction.update_values(&codec, &found.key, &found.row, &values),
            None => self.transaction.insert_values(&codec, &values),
        };
        let is_new_key = found.is_none() || from != key;
        let is_key_taken = done.as_ref().is_err_and(|error| error.message().contains("primary key"));
        if is_new_key {
            self.see(operation, key, if is_key_taken { Sight::Present } else { Sight::Absent });
        }
        let old_slot = found.and_then(|found| found.value.slot).filter(|_| from == key);
        let slot = row.slot.filter(|slot| old_slot != Some(*slot) && !is_key_taken);
        let is_own = |(own, written): (&i64, &Written)| {
            *own != key && *own != from && written.row.as_ref().is_some_and(|own| own.slot == slot)
        };
        let is_slot_own = slot.is_some() && self.record.written.iter().any(is_own);
        match done {
            Ok(()) => {
                if is_slot_own {
                    self.record.complaints.push(format!("{}: {key} may be {row}", operation.said));
                }
                for other in (0..self.world.keys).filter(|other| *other != key && *other != from) {
                    if let Some(slot) = slot.filter(|_| !self.record.written.contains_key(&other)) {
                        operation.sights.push((other, Sight::OutOfSlot(slot)));
                    }
                }
                self.record.ids.insert(row.id(), (row.clone(), false));
                self.standing.push(row.id());
                match found.filter(|_| from != key) {
                    Some(found) => {
                        self.note_write(from, Some(&found.value), None);
                        self.note_write(key, None, Some(row));
                    }
                    None => self.note_write(key, found.map(|found| &found.value), Some(row)),
                }
            }
            Err(error) => {
                assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::UniqueViolation, "23505"), "{error}");
                if let Some(slot) = slot.filter(|_| !is_slot_own) {
                    let but = self.record.written.keys().copied().chain([key, from]).collect();
                    operation.taken = Some((slot, but));
                }
                assert!(is_key_taken || slot.is_some(), "{error}");
                operation.said += if is_key_taken { ", refused" } else { ", refused by slot" };
                // As a statement does that fails.
                self.transaction.rollback_to(before);
            }
        }
    }

    /// Notes that a row was put in the place of the one that was there.
    fn note_write(&mut self, key: i64, over: Option<&Row>, row: Option<Row>) {
        let touch = |entries: &mut Entries, entry, is_there| {
            entries.entry(entry).or_insert(Touched { since: self.snapshot, is_there }).is_there = is_there;
        };
        let entries = &mut self.record.entries;
        touch(entries, Entry::Key(key), row.is_some());
        let (old_slot, slot) = (over.and_then(|over| over.slot), row.as_ref().and_then(|row| row.slot));
        if old_slot != slot {
            old_slot.into_iter().for_each(|slot| touch(entries, Entry::Slot(slot, key), false));
            slot.into_iter().for_each(|slot| touch(entries, Entry::Slot(slot, key), true));
        }
        match self.record.written.get_mut(&key) {
            Some(written) => written.row = row,
            None => drop(self.record.written.insert(key, Written { row, over: over.cloned() })),
        }
    }

    fn roll_back_to(&mut self, dice: &mut Dice) {
        if self.savepoints.is_empty() {
            return;
        }
        let at = dice.place(self.savepoints.len());
        let mark = &self.savepoints[at];
        self.transaction.rollback_to(&mark.savepoint);
        (self.record.written, self.record.entries) = (mark.written.clone(), mark.entries.clone());
        self.snapshot = mark.snapshot;
        for id in self.standing.split_off(mark.standing.len()) {
            self.record.ids.get_mut(&id).expect("it was noted").1 = true;
        }
        self.savepoints.truncate(at + dice.place(2));
        let operation = self.start(&format!("rollback to savepoint {at}"));
        self.record.operations.push(operation);
    }
}

fn encode(codec: &TableCodec, key: i64) -> Vec<u8> {
    let mut encoded = Vec::new();
    codec.encode_key(None, &[ValueRef::Int(key)], &mut encoded).expect("a key");
    encoded
}

fn decode(codec: &TableCodec, key: &[u8], row: &[u8]) -> (i64, Row) {
    let mut scratch = Vec::new();
    let values = codec.values(key, row, &mut scratch).expect("decoded");
    let int = |at: usize| match values[at] {
        ValueRef::Int(value) => Some(value),
        ValueRef::Null => None,
        ref other => panic!("{other:?}"),
    };
    let ValueRef::Text(ids) = values[IDS] else { panic!("{values:?}") };
    let ids = ids.split(' ').map(|id| id.parse().expect("a number")).collect();
    let row = Row { group: int(GROUP).expect("a group"), slot: int(SLOT), ids };
    (int(NUMBER).expect("a key"), row)
}
