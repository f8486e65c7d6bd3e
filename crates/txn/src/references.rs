//! The checks of foreign keys for the rows that a transaction writes.
//!
//! A row may refer to a row that the same statement writes later. So a check that fails while a row is written is
//! repeated when the statement ends ([`Transaction::settle_references`]). At that point each row must have its parents.
//! If a parent is gone or has other values, the rows that refer to it follow it or forbid the change, as their foreign
//! key says.
//!
//! Other transactions commit at the same time. So if we found a parent, it must still exist when this transaction
//! commits, although other columns of it may change. If we removed a parent, no other transaction may have committed a
//! row that refers to it.

use std::collections::BTreeSet;
use std::sync::Arc;

use rowmill_base::{ColumnId, Error, ErrorKind, IndexId, Result, TableId};
use rowmill_storage::keyed::{KeyRange, ValueRef};
use rowmill_storage::{ForeignKeyDef, KeyedDef, ReferentialAction};

use crate::keyed::{RowBatch, RowReader, TableCodec, WriteBuffers, say_value};
use crate::keyed_rows::next_rows;
use crate::parents::{Sought, find_parent, find_unique, foreign_keys};
use crate::transaction::Transaction;

/// Child rows that are read at a time when they follow their parent. A column of numbers then takes 8 KiB, so that a
/// hundred columns fit the second-level cache, and the cost of a call is shared by a thousand rows.
const ROWS_AT_ONCE: usize = 1024;

/// Rows that must be checked when the statement ends.
#[derive(Debug, Default)]
pub(crate) struct Unsettled {
    rows: Vec<UnsettledRow>,
    bytes: u64,
}

#[derive(Debug)]
enum UnsettledRow {
    /// A row without a parent at the time when it was written.
    Child { table: TableId, key: Vec<u8> },
    /// A row that was deleted or has new values (`new`), and that other rows may refer to.
    Parent { table: TableId, key: Vec<u8>, row: Vec<u8>, new: Option<(Vec<u8>, Vec<u8>)> },
}

impl UnsettledRow {
    fn bytes(&self) -> u64 {
        let of_bytes = match self {
            UnsettledRow::Child { key, .. } => key.len(),
            UnsettledRow::Parent { key, row, new, .. } => {
                key.len() + row.len() + new.as_ref().map_or(0, |(key, row)| key.len() + row.len())
            }
        };
        (size_of::<UnsettledRow>() + of_bytes) as u64
    }
}

impl Unsettled {
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Approximate memory of the list.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn truncate(&mut self, len: usize) {
        if len < self.rows.len() {
            self.bytes -= self.rows.drain(len..).map(|row| row.bytes()).sum::<u64>();
        }
    }

    fn push(&mut self, row: UnsettledRow) {
        self.bytes += row.bytes();
        self.rows.push(row);
    }
}

impl Transaction {
    /// Makes all foreign keys hold for the rows written so far. Must be called at the end of a statement, and an error
    /// must undo the statement. A commit calls it too.
    ///
    /// Returns `ForeignKeyViolation` if a row has no parent or refers to a parent that is gone.
    pub fn settle_references(&mut self) -> Result<()> {
        if self.unsettled.rows.is_empty() {
            return Ok(());
        }
        // First the actions: deleting or changing a child may in turn require that its own children follow.
        let mut at = 0;
        // The list grows inside of the loop, so we must not hold a borrow of it.
        while at < self.unsettled.rows.len() {
            if let UnsettledRow::Parent { table, key, row, new } = &mut self.unsettled.rows[at] {
                let (table, old) = (*table, (std::mem::take(key), std::mem::take(row)));
                let new = new.take();
                let followed = self.follow(table, &old, new.as_ref());
                let put_back = UnsettledRow::Parent { table, key: old.0, row: old.1, new };
                self.unsettled.rows[at] = put_back;
                followed?;
            }
            at += 1;
        }
        // Now that all rows are in their final state, every check must succeed.
        for unsettled in std::mem::take(&mut self.unsettled).rows {
            match unsettled {
                UnsettledRow::Child { table, key } => self.check_child(table, &key)?,
                UnsettledRow::Parent { table, key, row, new } => self.check_parent(table, &(key, row), new.as_ref())?,
            }
        }
        Ok(())
    }

    /// Checks that a new row has its parents. With `before`, the old version of the row, it checks only the foreign
    /// keys whose columns changed.
    pub(crate) fn check_parents(
        &mut self,
        codec: &TableCodec,
        before: Option<&RowReader<'_>>,
        values: &[ValueRef<'_>],
        buffers: &mut WriteBuffers,
    ) -> Result<()> {
        for key in foreign_keys(codec) {
            if let Some(before) = before
                && !differ(codec, &key.columns, before, values, &mut buffers.value)?
            {
                continue;
            }
            if !self.has_parent(codec, key, values, buffers)? {
                let child = UnsettledRow::Child { table: codec.def().id, key: buffers.key.clone() };
                self.unsettled.push(child);
                return Ok(());
            }
        }
        Ok(())
    }

    /// Notes that a row was deleted or became `new`, if other rows may refer to it.
    pub(crate) fn note_parent(&mut self, codec: &TableCodec, old: (&[u8], &[u8]), new: Option<(&[u8], &[u8])>) {
        if codec.referred().is_empty() {
            return;
        }
        let owned = |(key, row): (&[u8], &[u8])| (key.to_vec(), row.to_vec());
        let (key, row) = owned(old);
        self.unsettled.push(UnsettledRow::Parent { table: codec.def().id, key, row, new: new.map(owned) });
    }

    /// Returns whether the parent of a row with `values` exists, or the row has no parent by this key. If the parent
    /// exists, the commit will fail unless it still exists then.
    fn has_parent(
        &mut self,
        codec: &TableCodec,
        key: &ForeignKeyDef,
        values: &[ValueRef<'_>],
        buffers: &mut WriteBuffers,
    ) -> Result<bool> {
        let parents = self.keyed_codec(key.parent)?;
        let sought = find_parent(&self.unnoted_reader(), codec, values, key, &parents, buffers)?;
        match sought {
            None => {}
            Some(Sought::Key) => self.validate_presence(&buffers.entry),
            // A short entry does not hold the values, but it is rewritten whenever they change. So we watch for any
            // write of it.
            Some(Sought::ShortEntry) => self.validate_read(&buffers.entry),
            Some(Sought::Nothing) => {
                // The answer that no parent exists is a read as well, so SERIALIZABLE must record it.
                if let Some(reads) = self.noted_reads() {
                    reads.note_range(buffers.range.clone(), self.base.keyed.commit());
                }
                return Ok(false);
            }
            Some(Sought::Impossible) => return Ok(false),
        }
        Ok(true)
    }

    /// Checks the parents of a row again, at the end of the statement.
    fn check_child(&mut self, table: TableId, row_key: &[u8]) -> Result<()> {
        let codec = self.keyed_codec(table)?;
        let mut row = Vec::new();
        match self.unnoted_reader().get(row_key, &mut row)? {
            true => self.check_row(&codec, row_key, &row),
            // The row was deleted later in the statement, so it needs no parent.
            false => Ok(()),
        }
    }

    /// Returns `ForeignKeyViolation` unless the row has all its parents.
    pub(crate) fn check_row(&mut self, codec: &TableCodec, row_key: &[u8], row: &[u8]) -> Result<()> {
        let mut scratch = Vec::new();
        let values = codec.values(row_key, row, &mut scratch)?;
        let mut buffers = WriteBuffers::default();
        for key in foreign_keys(codec) {
            if !self.has_parent(codec, key, &values, &mut buffers)? {
                return Err(self.no_parent(codec, key, row_key, &values));
            }
        }
        Ok(())
    }

    /// Applies the actions of foreign keys: makes rows that refer to an old parent follow its change.
    fn follow(&mut self, table: TableId, old: &Stored, new: Option<&Stored>) -> Result<()> {
        self.each_referrer(table, old, new, |transaction, left| {
            let Left { children, key, new, .. } = &left;
            let action = left.action();
            if action == ReferentialAction::Restrict {
                return Ok(());
            }
            let (mut cursor, _) = transaction.unordered_cursor(children, left.index, left.range.clone())?;
            let (mut rows, mut scratch) = (RowBatch::default(), Vec::new());
            loop {
                transaction.cancel.check()?;
                transaction.next_rows(&mut cursor, ROWS_AT_ONCE, &mut rows)?;
                if rows.is_empty() {
                    return Ok(());
                }
                for (row_key, row) in rows.keys().iter().zip(rows.rows().iter()) {
                    if action == ReferentialAction::Cascade && new.is_none() {
                        transaction.delete_values(children, row_key, row)?;
                        continue;
                    }
                    let mut values = children.values(row_key, row, &mut scratch)?;
                    for (place, column) in key.columns.iter().enumerate() {
                        let column = children.def().column_by_id(*column);
                        values[column.expect("a table has the columns of its foreign keys")] = match new {
                            Some(new) if action == ReferentialAction::Cascade => new[place],
                            _ => ValueRef::Null,
                        };
                    }
                    transaction.update_values(children, row_key, row, &values)?;
                }
            }
        })
    }

    /// Checks that no row refers to values that no parent has any longer.
    fn check_parent(&mut self, table: TableId, old: &Stored, new: Option<&Stored>) -> Result<()> {
        self.each_referrer(table, old, new, |transaction, left| {
            let Left { parents, children, key, .. } = &left;
            let (mut cursor, read) = transaction.unordered_cursor(children, left.index, left.range.clone())?;
            // Another transaction may commit a child in this range before we commit. Then our commit must fail.
            transaction.validate_range(&read.start, &read.end);
            let mut rows = RowBatch::default();
            next_rows(children, &transaction.unnoted_reader(), &mut cursor, 1, &mut rows)?;
            if rows.is_empty() {
                return Ok(());
            }
            let (parent, child) = (&parents.def().name, &children.def().name);
            let said = parents.say(&old.0);
            let what =
                format!("rows of table {child} refer to the row {said} of table {parent} by foreign key {}", key.name);
            let hint = match left.new.is_some() {
                true => format!("change those first, or have them follow it: ON UPDATE CASCADE in table {child}"),
                false => format!("delete those first, or have them follow it: ON DELETE CASCADE in table {child}"),
            };
            Err(Error::new(ErrorKind::ForeignKeyViolation, what).hint(hint).breaks(child, &key.name))
        })
    }

    /// Calls `visit` for each foreign key by which rows may refer to values that the old row had and no parent has now.
    fn each_referrer(
        &mut self,
        table: TableId,
        (old_key, old_row): &Stored,
        new: Option<&Stored>,
        mut visit: impl FnMut(&mut Self, Left<'_>) -> Result<()>,
    ) -> Result<()> {
        let parents = self.keyed_codec(table)?;
        let Some(keyed) = parents.def().keyed.clone() else { return Ok(()) };
        let (mut scratch, mut new_scratch) = (Vec::new(), Vec::new());
        let old = parents.values(old_key, old_row, &mut scratch)?;
        let new = new.map(|(key, row)| parents.values(key, row, &mut new_scratch)).transpose()?;
        let mut buffers = WriteBuffers::default();
        for (children, number) in referrers(self, table, &keyed)? {
            let key = &foreign_keys(&children)[number];
            let had = referred_values(&parents, key, &old);
            let has = new.as_ref().map(|new| referred_values(&parents, key, new));
            // The referred columns did not change, or no row can refer to NULL.
            if has.as_ref() == Some(&had) || had.iter().any(ValueRef::is_null) {
                continue;
            }
            let reader = self.unnoted_reader();
            let found = find_unique(&reader, &parents, &key.parent_columns, |place| had[place], &mut buffers)?;
            // Another row may have taken over the values within this statement. Then the children have a parent again.
            if matches!(found, Sought::Key | Sought::ShortEntry) {
                continue;
            }
            let gone = || Error::internal(format!("foreign key {} has no index", key.name));
            let path = children.key_path(&key.columns, false).ok_or_else(gone)?;
            let (index, mut range) = (path.index, KeyRange::default());
            if !children.path_range(&path, &key.columns, |place| had[place], &mut range)? {
                continue;
            }
            visit(self, Left { parents: &parents, children: &children, key, index, range, new: has })?;
        }
        Ok(())
    }

    fn no_parent(&self, codec: &TableCodec, key: &ForeignKeyDef, row_key: &[u8], values: &[ValueRef<'_>]) -> Error {
        let places = key.columns.iter().map(|own| codec.def().column_by_id(*own));
        let said = places.map(|place| place.map_or_else(String::new, |place| say_value(values[place])));
        let said: Vec<String> = said.collect();
        let parent = self.catalog().table_by_id(key.parent);
        let name_of = |id: &ColumnId| {
            let column = parent.and_then(|def| def.column_by_id(*id).map(|at| def.columns[at].name.clone()));
            column.unwrap_or_default()
        };
        let names: Vec<String> = key.parent_columns.iter().map(name_of).collect();
        let what = format!(
            "the row {} of table {} refers by foreign key {} to ({}) = ({}), and table {} has no such row",
            codec.say(row_key),
            codec.def().name,
            key.name,
            names.join(", "),
            said.join(", "),
            parent.map_or("", |def| &def.name[..]),
        );
        Error::new(ErrorKind::ForeignKeyViolation, what).breaks(&codec.def().name, &key.name)
    }
}

/// The key and the value of a row, in the order and encoding of the store.
type Stored = (Vec<u8>, Vec<u8>);

/// A foreign key whose child rows may have lost their parent.
struct Left<'a> {
    parents: &'a TableCodec,
    children: &'a Arc<TableCodec>,
    key: &'a ForeignKeyDef,
    /// The index to find the children by, and the range of its whole keys.
    index: Option<IndexId>,
    range: KeyRange,
    /// The parent's new values in the referred columns, unless it was deleted.
    new: Option<Vec<ValueRef<'a>>>,
}

impl Left<'_> {
    fn action(&self) -> ReferentialAction {
        if self.new.is_some() { self.key.on_update } else { self.key.on_delete }
    }
}

/// The foreign keys that refer to a table: the codec of the child table and the number of the key in its definition.
fn referrers(transaction: &Transaction, table: TableId, keyed: &KeyedDef) -> Result<Vec<(Arc<TableCodec>, usize)>> {
    // A child table can have several such foreign keys, but it must be visited only once.
    let tables: BTreeSet<TableId> = keyed.referrers.iter().map(|referrer| referrer.table).collect();
    let mut found = Vec::new();
    for child in tables {
        let codec = transaction.keyed_codec(child)?;
        let own = foreign_keys(&codec).iter().enumerate().filter(|(_, key)| key.parent == table);
        let numbers: Vec<usize> = own.map(|(number, _)| number).collect();
        found.extend(numbers.into_iter().map(|number| (Arc::clone(&codec), number)));
    }
    Ok(found)
}

/// The values of a row in the columns that a foreign key refers to.
fn referred_values<'v>(parents: &TableCodec, key: &ForeignKeyDef, row: &[ValueRef<'v>]) -> Vec<ValueRef<'v>> {
    let places = key.parent_columns.iter().map(|column| parents.def().column_by_id(*column));
    places.map(|place| place.map_or(ValueRef::Null, |place| row[place])).collect()
}

/// Whether one of `columns` has a new value.
pub(crate) fn differ(
    codec: &TableCodec,
    columns: &[ColumnId],
    before: &RowReader<'_>,
    values: &[ValueRef<'_>],
    scratch: &mut Vec<u8>,
) -> Result<bool> {
    for column in columns {
        let Some(column) = codec.def().column_by_id(*column) else { continue };
        if before.get(column, scratch)? != values[column] {
            return Ok(true);
        }
    }
    Ok(false)
}
