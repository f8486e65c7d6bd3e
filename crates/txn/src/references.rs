//! What foreign keys ask of the rows that a transaction writes.
//!
//! A row may refer to one that the same statement writes later, so what is not in order when a row is written is looked at
//! again when the statement ends ([`Transaction::settle_references`]): then each row has its parents, and what refers to a row
//! that is gone or has other values follows it as its foreign key says, or forbids it.
//!
//! Others commit meanwhile. A parent that was found must be there still when the transaction commits, whatever else of it was
//! written; and where a parent is gone nobody may have referred to it by then.

use std::collections::BTreeSet;
use std::sync::Arc;

use rowmill_base::{ColumnId, Error, ErrorKind, IndexId, Result, TableId};
use rowmill_storage::keyed::{KeyRange, ValueRef};
use rowmill_storage::{ForeignKeyDef, KeyedDef, ReferentialAction};

use crate::keyed::{RowBatch, RowReader, TableCodec, WriteBuffers, say_value};
use crate::keyed_rows::next_rows;
use crate::parents::{Sought, find_parent, find_unique, foreign_keys};
use crate::transaction::Transaction;

/// Rows that follow their parents are read so many at a time.
const ROWS_AT_ONCE: usize = 1024;

/// What has to be looked at when the statement ends.
#[derive(Debug, Default)]
pub(crate) struct Unsettled {
    rows: Vec<UnsettledRow>,
    bytes: u64,
}

#[derive(Debug)]
enum UnsettledRow {
    /// Its parent was not there when it was written.
    Child { table: TableId, key: Vec<u8> },
    /// Rows may refer to it that is gone, or has other values now.
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

    /// Bytes of memory, about.
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
    /// Has the foreign keys hold that the rows written so far have to do with: for the end of a statement, which is undone if it
    /// fails. A commit does it too.
    ///
    /// `ForeignKeyViolation` if a row has no parent, or is the child of one that is gone.
    pub fn settle_references(&mut self) -> Result<()> {
        if self.unsettled.rows.is_empty() {
            return Ok(());
        }
        // What follows a row may be followed in turn.
        let mut at = 0;
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
        for unsettled in std::mem::take(&mut self.unsettled).rows {
            match unsettled {
                UnsettledRow::Child { table, key } => self.check_child(table, &key)?,
                UnsettledRow::Parent { table, key, row, new } => self.check_parent(table, &(key, row), new.as_ref())?,
            }
        }
        Ok(())
    }

    /// Looks for the parents of a row that was put: of all its foreign keys, or of those whose columns are other than in `before`.
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

    /// Notes that a row is gone, or has become `new`, if others may refer to it.
    pub(crate) fn note_parent(&mut self, codec: &TableCodec, old: (&[u8], &[u8]), new: Option<(&[u8], &[u8])>) {
        if codec.referred().is_empty() {
            return;
        }
        let owned = |(key, row): (&[u8], &[u8])| (key.to_vec(), row.to_vec());
        let (key, row) = owned(old);
        self.unsettled.push(UnsettledRow::Parent { table: codec.def().id, key, row, new: new.map(owned) });
    }

    /// Whether the row to which one with `values` refers is there; so it is if it refers to none. Who finds it relies on it.
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
            // It does not tell the values, but is written whenever they are.
            Some(Sought::ShortEntry) => self.validate_read(&buffers.entry),
            Some(Sought::Nothing) => {
                // That there is none is told to whoever asked.
                if let Some(reads) = self.noted_reads() {
                    reads.note_range(buffers.range.clone(), self.base.keyed.commit());
                }
                return Ok(false);
            }
            Some(Sought::Impossible) => return Ok(false),
        }
        Ok(true)
    }

    /// Looks for the parents of a row once more.
    fn check_child(&mut self, table: TableId, row_key: &[u8]) -> Result<()> {
        let codec = self.keyed_codec(table)?;
        let mut row = Vec::new();
        match self.unnoted_reader().get(row_key, &mut row)? {
            true => self.check_row(&codec, row_key, &row),
            false => Ok(()),
        }
    }

    /// `ForeignKeyViolation` if a row has not all its parents.
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

    /// Has the rows that refer to a parent follow it, of the foreign keys that say so.
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

    /// Makes sure that no row refers to a parent that is gone.
    fn check_parent(&mut self, table: TableId, old: &Stored, new: Option<&Stored>) -> Result<()> {
        self.each_referrer(table, old, new, |transaction, left| {
            let Left { parents, children, key, .. } = &left;
            let (mut cursor, read) = transaction.unordered_cursor(children, left.index, left.range.clone())?;
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
            Err(Error::new(ErrorKind::ForeignKeyViolation, what).hint(hint))
        })
    }

    /// Calls `visit` for each foreign key by which rows may refer to values that a row of `table` had, and none has now.
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
            if has.as_ref() == Some(&had) || had.iter().any(ValueRef::is_null) {
                continue;
            }
            let reader = self.unnoted_reader();
            let found = find_unique(&reader, &parents, &key.parent_columns, |place| had[place], &mut buffers)?;
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
        Error::new(ErrorKind::ForeignKeyViolation, what)
    }
}

/// A row and its key as they are stored.
type Stored = (Vec<u8>, Vec<u8>);

/// Rows that may refer to a parent that is gone.
struct Left<'a> {
    parents: &'a TableCodec,
    children: &'a Arc<TableCodec>,
    key: &'a ForeignKeyDef,
    /// Where they are found: in `range` of whole keys of this index.
    index: Option<IndexId>,
    range: KeyRange,
    /// What the parent has instead in the columns that they refer to, unless it was deleted.
    new: Option<Vec<ValueRef<'a>>>,
}

impl Left<'_> {
    fn action(&self) -> ReferentialAction {
        if self.new.is_some() { self.key.on_update } else { self.key.on_delete }
    }
}

/// The foreign keys that refer to a table: by number in the definition of whoever has them.
fn referrers(transaction: &Transaction, table: TableId, keyed: &KeyedDef) -> Result<Vec<(Arc<TableCodec>, usize)>> {
    // A table refers by several foreign keys, and is asked once.
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

/// What a row has in the columns that a foreign key refers to.
fn referred_values<'v>(parents: &TableCodec, key: &ForeignKeyDef, row: &[ValueRef<'v>]) -> Vec<ValueRef<'v>> {
    let places = key.parent_columns.iter().map(|column| parents.def().column_by_id(*column));
    places.map(|place| place.map_or(ValueRef::Null, |place| row[place])).collect()
}

/// Whether one of `columns` has another value than before.
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
