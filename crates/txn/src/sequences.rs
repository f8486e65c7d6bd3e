//! Sequences: numbers that are given out once, in order, possibly with gaps.
//!
//! A sequence is a keyed table of one row, which holds the last value that was given out or set aside. Transactions of
//! their own set numbers aside in batches, so that no transaction waits for the commit of another. A rollback leaves a
//! gap, and a crash loses the numbers that were set aside. The record that sets numbers aside comes before the record
//! of any commit that uses them, so it need not wait for the disk.
//!
//! A transaction that has created a sequence counts within itself, because others do not see the sequence yet. So does
//! one that has changed how a sequence counts, and it takes back the numbers that were set aside: the next number
//! follows the last one that was given out. If another transaction sets numbers aside in between, both have written the
//! row of the sequence, and the change fails with a conflict.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use rowmill_base::{ColumnId, Durability, Error, ErrorKind, Result, SchemaId, SqlType, TableId};
use rowmill_storage::keyed::ValueRef;
use rowmill_storage::{ColumnSpec, IdentityDef, KeyColumn, SequenceDef, TableDef};

use crate::engine::Engine;
use crate::keyed::KeyedRow;
use crate::transaction::Transaction;

/// Number of values that are set aside together, as in PostgreSQL. One of 32 values then needs a commit, and a process
/// that dies loses at most 31.
const SET_ASIDE: u64 = 32;

/// Number of attempts on a sequence that other transactions write to at the same time.
const ATTEMPTS: usize = 100;

/// The key of the single row.
const ROW: [ValueRef<'static>; 1] = [ValueRef::Int(0)];

/// Values that were set aside and not given out yet, by sequence.
#[derive(Debug, Default)]
pub(crate) struct Sequences(Mutex<HashMap<TableId, SetAside>>);

#[derive(Clone, Copy, Debug)]
struct SetAside {
    next: i64,
    left: u64,
    increment: i64,
}

impl SetAside {
    fn take(&mut self) -> Option<i64> {
        self.left = self.left.checked_sub(1)?;
        let value = self.next;
        // Wrapping is fine, because the number after the last one is never given out.
        self.next = self.next.wrapping_add(self.increment);
        Some(value)
    }

    /// The number before the next one, which was given out.
    fn given(&self) -> i64 {
        self.next.wrapping_sub(self.increment)
    }
}

/// The last numbers that a connection has taken from sequences, for `currval` and `lastval`.
#[derive(Debug, Default)]
pub struct TakenNumbers(Mutex<TakenState>);

#[derive(Debug, Default)]
struct TakenState {
    last: Option<i64>,
    by_sequence: HashMap<TableId, i64>,
    /// The sequences that the open transaction has changed.
    recounted: Vec<TableId>,
}

impl TakenNumbers {
    /// Notes the last of the numbers that were taken from a sequence.
    pub fn note(&self, sequence: TableId, number: i64) {
        let mut state = self.0.lock();
        state.last = Some(number);
        state.by_sequence.insert(sequence, number);
    }

    /// Forgets all numbers.
    pub fn forget(&self) {
        let mut state = self.0.lock();
        (state.last, state.by_sequence) = Default::default();
    }

    /// Whether the open transaction has changed how a sequence counts.
    pub fn is_recounted(&self, sequence: TableId) -> bool {
        self.0.lock().recounted.contains(&sequence)
    }

    /// Notes the sequences that the open transaction has changed.
    pub(crate) fn note_recounted(&self, sequences: &[TableId]) {
        self.0.lock().recounted = sequences.to_vec();
    }

    /// The last number of all sequences.
    pub fn last(&self) -> Option<i64> {
        self.0.lock().last
    }

    /// The last number of a sequence.
    pub fn last_of(&self, sequence: TableId) -> Option<i64> {
        self.0.lock().by_sequence.get(&sequence).copied()
    }
}

impl Engine {
    /// Returns the next `count` values of a committed sequence.
    ///
    /// Returns `SequenceLimit` at the end of the sequence, `WrongObject` if the table is not a sequence, and `ReadOnly`
    /// in a read-only process.
    pub fn next_values(self: &Arc<Self>, sequence: TableId, count: usize) -> Result<Vec<i64>> {
        // Held while we set values aside, so that concurrent callers take from the same batch.
        let mut all = self.sequences.0.lock();
        let mut values = Vec::with_capacity(count);
        while values.len() < count {
            if let Some(value) = all.get_mut(&sequence).and_then(SetAside::take) {
                values.push(value);
                continue;
            }
            let wanted = SET_ASIDE.max((count - values.len()) as u64);
            let set_aside = self.in_own_transaction(|transaction| transaction.set_aside(sequence, wanted))?;
            all.insert(sequence, set_aside);
        }
        Ok(values)
    }

    /// Makes a sequence continue after `value`, or with `value` itself if `is_given` is false.
    pub fn set_sequence(self: &Arc<Self>, sequence: TableId, value: i64, is_given: bool) -> Result<()> {
        let mut all = self.sequences.0.lock();
        // Values that were set aside belong to the old counting, so they must not be given out.
        all.remove(&sequence);
        self.in_own_transaction(|transaction| {
            let (row, def) = transaction.sequence_row(sequence)?;
            if !(def.min..=def.max).contains(&value) {
                let what =
                    format!("{value} is no value of the sequence, which has those from {} to {}", def.min, def.max);
                return Err(Error::new(ErrorKind::NumericOutOfRange, what));
            }
            let last = if is_given { Some(value) } else { value.checked_sub(def.increment) };
            let last = last.ok_or_else(|| {
                Error::new(
                    ErrorKind::NumericOutOfRange,
                    format!("the sequence cannot begin at {value}, because no number comes before it"),
                )
            })?;
            transaction.update_row(sequence, &row, &[ROW[0], ValueRef::Int(last)])
        })
    }

    fn in_own_transaction<T>(self: &Arc<Self>, change: impl Fn(&mut Transaction) -> Result<T>) -> Result<T> {
        let mut attempts = ATTEMPTS;
        loop {
            let mut transaction = self.begin()?;
            transaction.set_durability(Durability::Relaxed)?;
            let changed = change(&mut transaction).and_then(|value| transaction.commit().map(|_| value));
            attempts -= 1;
            match changed {
                // Another transaction wrote the row first. We try again over its committed value.
                Err(error) if error.kind() == ErrorKind::SerializationFailure && attempts > 0 => {}
                changed => return changed,
            }
        }
    }
}

impl Transaction {
    /// Creates a sequence.
    pub fn create_sequence(&mut self, schema: SchemaId, name: &str, sequence: SequenceDef) -> Result<TableId> {
        assert!(sequence.increment != 0, "a sequence must not have an increment of zero");
        let columns = vec![ColumnSpec::new("sequence", SqlType::Int8), ColumnSpec::new("last_value", SqlType::Int64)];
        let key = [KeyColumn { column: ColumnId(0), descending: false }];
        let table = self.create_keyed_table(schema, name, columns, &key)?;
        self.redefine_with(table, |keyed| keyed.sequence = Some(sequence))?;
        self.insert_row(table, &[ROW[0], ValueRef::Null])?;
        Ok(table)
    }

    /// Changes how a sequence counts. It goes on after the last value that it has given.
    pub fn redefine_sequence(&mut self, sequence: TableId, def: SequenceDef) -> Result<()> {
        self.redefine_with(sequence, |keyed| keyed.sequence = Some(def))
    }

    /// Changes how a sequence counts. It begins again at `restart`, or goes on after the last number that it has given.
    pub fn alter_sequence(&mut self, sequence: TableId, def: SequenceDef, restart: Option<i64>) -> Result<()> {
        assert!(def.increment != 0, "a sequence must not have an increment of zero");
        let (row, _) = self.sequence_row(sequence)?;
        let is_known = self.counts_outside(sequence);
        // The numbers that were set aside belong to the old counting, so they must not be given out.
        let set_aside = if is_known { self.engine.sequences.0.lock().remove(&sequence) } else { None };
        let last = match restart {
            Some(start) if start == def.start => None,
            Some(start) => Some(start.checked_sub(def.increment).ok_or_else(|| {
                let what = format!("the sequence cannot begin at {start}, because no number comes before it");
                Error::new(ErrorKind::NumericOutOfRange, what)
            })?),
            None => match set_aside {
                Some(set_aside) => Some(set_aside.given()),
                None => self.last_value(sequence, &row)?,
            },
        };
        let (first, last_given) = (restart.unwrap_or(def.start), if restart.is_none() { last } else { None });
        let outside =
            [Some(first), last_given].into_iter().flatten().find(|value| !(def.min..=def.max).contains(value));
        if let Some(value) = outside {
            let what = format!("the sequence is at {value}, which is not between {} and {}", def.min, def.max);
            return Err(Error::new(ErrorKind::NumericOutOfRange, what).hint("RESTART WITH gives it another number"));
        }
        self.redefine_sequence(sequence, def)?;
        let last = last.map_or(ValueRef::Null, ValueRef::Int);
        self.update_row(sequence, &row, &[ROW[0], last])?;
        if is_known {
            self.recounted.push(sequence);
            if let Some(taken) = &self.taken_numbers {
                taken.note_recounted(&self.recounted);
            }
        }
        Ok(())
    }

    /// Whether transactions of their own set numbers of the sequence aside.
    fn counts_outside(&self, sequence: TableId) -> bool {
        self.base.catalog().table_by_id(sequence).is_some() && !self.recounted.contains(&sequence)
    }

    /// Makes a column of a table take its values from a sequence. The sequence will be dropped with the column.
    pub fn add_identity(&mut self, table: TableId, identity: IdentityDef) -> Result<()> {
        self.alter(table, |def| {
            def.rules.identities.push(identity);
            Ok(())
        })
    }

    /// Lets a sequence belong to no column of a table.
    pub fn disown_sequence(&mut self, table: TableId, sequence: TableId) -> Result<()> {
        self.alter(table, |def| {
            def.rules.identities.retain(|identity| identity.sequence != sequence);
            Ok(())
        })
    }

    /// Returns the next value of a sequence. Errors are those of [`Engine::next_values`].
    pub fn next_value(&mut self, sequence: TableId) -> Result<i64> {
        self.next_values(sequence, 1).map(|values| values[0])
    }

    /// Returns the next `count` values of a sequence. Errors are those of [`Engine::next_values`].
    pub fn next_values(&mut self, sequence: TableId, count: usize) -> Result<Vec<i64>> {
        let values = if self.counts_outside(sequence) {
            self.engine.next_values(sequence, count)?
        } else {
            let mut values = Vec::with_capacity(count);
            while values.len() < count {
                let mut own = self.set_aside(sequence, (count - values.len()) as u64)?;
                values.extend(std::iter::from_fn(|| own.take()));
            }
            values
        };
        if let (Some(taken), Some(last)) = (&self.taken_numbers, values.last()) {
            taken.note(sequence, *last);
        }
        Ok(values)
    }

    /// Sets aside `most` values, or fewer if the sequence ends before.
    fn set_aside(&mut self, sequence: TableId, most: u64) -> Result<SetAside> {
        let (row, def) = self.sequence_row(sequence)?;
        let last = self.last_value(sequence, &row)?;
        let name = &self.table_def(sequence)?.name;
        let next = def.value_after(last).ok_or_else(|| {
            let what = format!("sequence \"{name}\" has given all its values");
            Error::new(ErrorKind::SequenceLimit, what).hint("setval restarts it; with CYCLE it restarts by itself")
        })?;
        let left = def.values_from(next, most);
        let reached = next.wrapping_add(def.increment.wrapping_mul(left.wrapping_sub(1).cast_signed()));
        self.update_row(sequence, &row, &[ROW[0], ValueRef::Int(reached)])?;
        Ok(SetAside { next, left, increment: def.increment })
    }

    /// The last value that was given out or set aside.
    fn last_value(&self, sequence: TableId, row: &KeyedRow) -> Result<Option<i64>> {
        let codec = self.keyed_codec(sequence)?;
        Ok(match codec.column(&row.key, &row.row, 1, &mut Vec::new())? {
            ValueRef::Int(last) => Some(last),
            _ => None,
        })
    }

    fn sequence_row(&mut self, sequence: TableId) -> Result<(KeyedRow, SequenceDef)> {
        let def = self.table_def(sequence)?;
        let no_sequence = || Error::new(ErrorKind::WrongObject, format!("\"{}\" is not a sequence", def.name));
        let of_table = def.keyed.as_ref().and_then(|keyed| keyed.sequence).ok_or_else(no_sequence)?;
        let row = self.get(sequence, &ROW)?;
        let row = row.ok_or_else(|| Error::corrupt(format!("sequence {} has lost its row", def.name)))?;
        Ok((row, of_table))
    }

    /// Returns `DependentObjects` if a column takes its values from this sequence.
    pub(crate) fn check_not_owned(&self, def: &TableDef) -> Result<()> {
        if !def.is_sequence() {
            return Ok(());
        }
        let owns = |table: &&Arc<TableDef>| table.rules.identities.iter().any(|identity| identity.sequence == def.id);
        let Some(owner) = self.catalog().all_tables().find(owns) else { return Ok(()) };
        let what = format!("a column of table \"{}\" has its values from sequence \"{}\"", owner.name, def.name);
        Err(Error::new(ErrorKind::DependentObjects, what).hint("it is dropped with the column or the table"))
    }

    /// Drops the sequences of columns that were removed.
    pub(crate) fn drop_sequences_of(&mut self, def: &TableDef, is_gone: impl Fn(ColumnId) -> bool) -> Result<()> {
        let identities = def.rules.identities.iter();
        identities.filter(|identity| is_gone(identity.column)).try_for_each(|gone| self.drop_table(gone.sequence))
    }

    /// Removes the identity of a column that was dropped, together with its sequence.
    pub(crate) fn drop_identity(&mut self, table: TableId, column: ColumnId) -> Result<()> {
        let def = self.table_def(table)?;
        if def.rules.identities.iter().any(|identity| identity.column == column) {
            self.alter(table, |def| {
                def.rules.identities.retain(|identity| identity.column != column);
                Ok(())
            })?;
            self.drop_sequences_of(&def, |gone| gone == column)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_end_at_their_bounds() {
        let up = SequenceDef { start: 5, increment: 3, min: 1, max: 12, cycle: false };
        assert_eq!(up.value_after(None), Some(5));
        assert_eq!((up.value_after(Some(8)), up.value_after(Some(11))), (Some(11), None));
        assert_eq!((up.values_from(5, 100), up.values_from(5, 2), up.values_from(11, 9)), (3, 2, 1));
        let down = SequenceDef { start: -1, increment: -4, min: -9, max: -1, cycle: true };
        assert_eq!((down.value_after(Some(-5)), down.value_after(Some(-9))), (Some(-9), Some(-1)));
        assert_eq!(down.values_from(-1, 100), 3);
        let all = SequenceDef { start: i64::MIN, increment: 1, min: i64::MIN, max: i64::MAX, cycle: false };
        assert_eq!((all.values_from(i64::MIN, 7), all.value_after(Some(i64::MAX))), (7, None));
        assert_eq!(all.values_from(i64::MIN, u64::MAX), u64::MAX);
    }
}
