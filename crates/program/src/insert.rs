//! `INSERT`, with its `ON CONFLICT` clause.

use std::ops::Bound;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use rowmill_base::{Error, ErrorKind, IndexId, Result, SqlType, TableId, recycled};
use rowmill_plan::program::{self, ConflictAction, ConflictTarget};
use rowmill_storage::keyed::{ByteRows, ColumnValues, KeyRange, ValueRef};
use rowmill_storage::{KeyColumn, KeyedDef, TableDef};
use rowmill_txn::keyed::{IndexOrder, IndexScan, KeyedReader, TableCodec};
use rowmill_txn::{Catalog, Transaction};

use crate::arrays::array_of;
use crate::change::{AfterChange, Assignments, GeneratedColumns, all_or_none, read_all};
use crate::compiled::gone;
use crate::expr::{Env, Expr, ExprCompiler, RowsLayout, unsupported};
use crate::pace::Pace;
use crate::read::CompiledRead;
use crate::result_rows::ResultRows;
use crate::scratch::{ProgramScratch, WriteScratch};
use crate::texts::ComputedTexts;

/// An `INSERT` that is ready to run.
#[derive(Debug)]
pub(crate) struct Insert {
    rows: Box<[Box<[Expr]>]>,
    /// The query that gives the rows. `rows` has then one entry, which is computed for each row of the query.
    source: Option<Box<CompiledRead>>,
    /// Values that come from a sequence: the number of the row, the column, and the sequence.
    sequences: Box<[(usize, usize, TableId)]>,
    texts: usize,
    into: Into,
    generated: GeneratedColumns,
    after: AfterChange,
}

/// The kind of table that the rows go into.
#[derive(Debug)]
enum Into {
    Keyed { codec: Arc<TableCodec>, on_conflict: Option<OnConflict> },
    Columnar { table: TableId, kinds: Box<[SqlType]>, schema: SchemaRef },
}

#[derive(Debug)]
struct OnConflict {
    targets: Box<[TakenKey]>,
    primary: TakenKey,
    /// The assignments of `DO UPDATE`, or `None` for `DO NOTHING`.
    update: Option<ConflictUpdate>,
}

/// A key that another row may already have.
#[derive(Debug)]
struct TakenKey {
    index: Option<IndexId>,
    columns: Box<[usize]>,
}

#[derive(Debug)]
struct ConflictUpdate {
    assignments: Assignments,
    /// The assigned columns and the generated ones.
    changed: Box<[usize]>,
    filter: Option<Expr>,
}

impl Insert {
    pub(crate) fn new(insert: &program::Insert, catalog: &Catalog, parameters: &[SqlType]) -> Result<Insert> {
        let def = catalog.table_by_id(insert.table).ok_or_else(gone)?;
        let source = insert.source.as_ref().map(|read| CompiledRead::new(read, catalog, parameters)).transpose()?;
        if source.is_some() && (insert.rows.len() != 1 || def.keyed.is_none()) {
            return Err(unsupported("inserting the rows of a query into a table without a primary key"));
        }
        let of_source = match &source {
            Some(source) => RowsLayout::of_all([source.kinds().to_vec()]),
            None => RowsLayout::default(),
        };
        let mut compiler = ExprCompiler::new(parameters, &of_source, usize::from(source.is_some()));
        let rows = insert.rows.iter().map(|row| row_of(row, def, &mut compiler)).collect::<Result<_>>()?;
        let kinds: Vec<SqlType> = def.columns.iter().map(|column| column.kind.clone()).collect();
        let layout = RowsLayout::of_all([kinds.clone(), kinds.clone()]);
        let after =
            AfterChange::new(&insert.checks, &insert.returning, def, ExprCompiler::new(parameters, &layout, 1))?;
        let generated = GeneratedColumns::new(&insert.generated, def, ExprCompiler::new(parameters, &layout, 1))?;
        if !generated.is_empty() && def.keyed.is_none() {
            return Err(unsupported("generated columns of a table without a primary key"));
        }
        let into = match (&def.keyed, &insert.on_conflict) {
            (Some(_), on_conflict) => {
                let new = |on_conflict| {
                    let compiler = ExprCompiler::new(parameters, &layout, 2);
                    OnConflict::new(on_conflict, def, generated.columns(), compiler)
                };
                Into::Keyed { codec: catalog.codec(def.id)?, on_conflict: on_conflict.as_ref().map(new).transpose()? }
            }
            (None, None) => Into::Columnar { table: def.id, kinds: kinds.into(), schema: nullable(def) },
            (None, Some(_)) => {
                let what = format!("table {} has no key that a row could be in conflict with", def.name);
                return Err(Error::new(ErrorKind::WrongObject, what));
            }
        };
        let sequences = insert.sequences.as_slice().into();
        let source = source.map(Box::new);
        Ok(Insert { rows, source, sequences, texts: compiler.texts(), into, generated, after })
    }

    /// Whether the rows go into a columnar table.
    pub(crate) fn is_append(&self) -> bool {
        matches!(self.into, Into::Columnar { .. })
    }

    pub(crate) fn run(
        &self,
        transaction: &mut Transaction,
        parameters: &[ValueRef<'_>],
        scratch: &mut ProgramScratch,
        out: &mut ResultRows,
    ) -> Result<u64> {
        let ProgramScratch { write: scratch, cancel, .. } = scratch;
        match &self.into {
            Into::Keyed { codec, on_conflict } => {
                scratch.taken.changed.clear();
                // Take the buffer out of the scratch, which the loop below borrows mutably.
                let mut given = std::mem::take(&mut scratch.assigned);
                let changed = all_or_none(transaction, |transaction| {
                    let on_conflict = on_conflict.as_ref();
                    let Some(source) = &self.source else {
                        let count = self.rows.len();
                        let mut put = RowInserter { insert: self, codec, transaction, parameters, out, count };
                        return (0..count).try_fold(0, |sum, row| Ok(sum + put.row(row, &[], on_conflict, scratch)?));
                    };
                    // Read all rows before the first insert, so the query does not see rows of this statement.
                    given.start(source.kinds());
                    source.run(&transaction.reader(), parameters, &mut scratch.read, cancel, &mut given)?;
                    let count = given.len();
                    let mut put = RowInserter { insert: self, codec, transaction, parameters, out, count };
                    let mut columns = Vec::with_capacity(source.kinds().len());
                    let (mut changed, mut pace) = (0, Pace::new(cancel));
                    for row in 0..count {
                        pace.step()?;
                        columns.clear();
                        columns.extend((0..source.kinds().len()).map(|column| given.get(row, column)));
                        changed += put.row(0, &columns, on_conflict, scratch)?;
                    }
                    Ok(changed)
                });
                scratch.assigned = given;
                changed
            }
            Into::Columnar { table, kinds, schema } => {
                let batch = self.batch(transaction, kinds, schema, parameters, scratch, out)?;
                transaction.insert(*table, &batch)?;
                Ok(batch.num_rows() as u64)
            }
        }
    }

    /// Inserts one row for each row of `batches`, whose columns are the parameters. All rows belong to one statement.
    pub(crate) fn run_for_rows(
        &self,
        transaction: &mut Transaction,
        batches: &[(Vec<ColumnValues>, usize)],
        scratch: &mut ProgramScratch,
        out: &mut ResultRows,
    ) -> Result<u64> {
        let Into::Keyed { codec, on_conflict } = &self.into else {
            return Err(Error::internal("rows are appended to a table without keys as a batch"));
        };
        let ProgramScratch { write: scratch, cancel, .. } = scratch;
        scratch.taken.changed.clear();
        let count = batches.iter().map(|(_, rows)| rows).sum();
        all_or_none(transaction, |transaction| {
            let (mut changed, mut pace, mut parameters) = (0, Pace::new(cancel), Vec::new());
            for (columns, rows) in batches {
                for row in 0..*rows {
                    pace.step()?;
                    parameters.clear();
                    parameters.extend(columns.iter().map(|column| column.get(row)));
                    let parameters = parameters.as_slice();
                    let mut put = RowInserter { insert: self, codec, transaction, parameters, out, count };
                    changed += put.row(0, &[], on_conflict.as_ref(), scratch)?;
                }
            }
            Ok(changed)
        })
    }

    /// Computes all rows and returns them as one batch.
    fn batch(
        &self,
        transaction: &mut Transaction,
        kinds: &[SqlType],
        schema: &SchemaRef,
        parameters: &[ValueRef<'_>],
        scratch: &mut WriteScratch,
        out: &mut ResultRows,
    ) -> Result<RecordBatch> {
        let WriteScratch { after, texts, after_texts, .. } = scratch;
        texts.clear(self.texts);
        let env = Env { columns: &[], parameters, texts };
        let mut values: Vec<ValueRef<'_>> = recycled(std::mem::take(after));
        for (number, row) in self.rows.iter().enumerate() {
            let first = values.len();
            row.iter().try_for_each(|expr| expr.value(env).map(|value| values.push(value)))?;
            for (_, column, sequence) in self.sequences.iter().filter(|(row, _, _)| *row == number) {
                values[first + column] = ValueRef::Int(transaction.next_value(*sequence)?);
            }
            self.after.check(&values[first..], parameters, after_texts)?;
            self.after.give(&values[first..], parameters, after_texts, out)?;
        }
        let columns = kinds
            .iter()
            .enumerate()
            .map(|(column, kind)| array_of(kind, values.iter().skip(column).step_by(kinds.len()).copied()));
        let columns = columns.collect::<Result<_>>()?;
        *after = recycled(values);
        RecordBatch::try_new(Arc::clone(schema), columns).map_err(|error| Error::internal(error.to_string()))
    }
}

/// The schema of rows that are appended to the table, with every column nullable. The table itself must check NOT NULL.
fn nullable(def: &TableDef) -> SchemaRef {
    let schema = def.arrow_schema();
    let fields = schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Compiles the values of a row that is inserted, in the order of the table's columns.
fn row_of(row: &[program::Scalar], def: &TableDef, compiler: &mut ExprCompiler<'_>) -> Result<Box<[Expr]>> {
    if row.len() != def.columns.len() {
        let (given, wanted) = (row.len(), def.columns.len());
        return Err(Error::internal(format!("the program gives {given} values for {wanted} columns")));
    }
    let columns = row.iter().zip(&def.columns);
    columns.map(|(scalar, column)| compiler.assigned(scalar, &column.kind, &column.name)).collect()
}

/// Inserts rows into a keyed table.
struct RowInserter<'p> {
    insert: &'p Insert,
    codec: &'p Arc<TableCodec>,
    transaction: &'p mut Transaction,
    parameters: &'p [ValueRef<'p>],
    out: &'p mut ResultRows,
    /// Number of rows that the statement inserts.
    count: usize,
}

impl RowInserter<'_> {
    /// Inserts row `number` of the statement. `source` is the row of its query, if it has one. Returns how many rows it
    /// changed.
    fn row(
        &mut self,
        number: usize,
        source: &[ValueRef<'_>],
        on_conflict: Option<&OnConflict>,
        scratch: &mut WriteScratch,
    ) -> Result<u64> {
        let WriteScratch { after, whole, texts, generated_texts, after_texts, taken, .. } = scratch;
        let insert = self.insert;
        texts.clear(insert.texts);
        let env = Env { columns: source, parameters: self.parameters, texts };
        let mut given: Vec<ValueRef<'_>> = recycled(std::mem::take(after));
        insert.rows[number].iter().try_for_each(|expr| expr.value(env).map(|value| given.push(value)))?;
        // A value of a sequence is drawn when its row is inserted, not in advance.
        for (_, column, sequence) in insert.sequences.iter().filter(|(row, _, _)| *row == number) {
            given[*column] = ValueRef::Int(self.transaction.next_value(*sequence)?);
        }
        let mut made: Vec<ValueRef<'_>> = recycled(std::mem::take(whole));
        let new = insert.generated.complete(&given, self.parameters, generated_texts, &mut made)?;
        insert.after.check(new, self.parameters, after_texts)?;
        let is_taken = match on_conflict {
            None => false,
            Some(on_conflict) => on_conflict.find(new, self.codec, &self.transaction.reader(), taken)?,
        };
        let changed = match on_conflict.map(|on_conflict| (on_conflict, &on_conflict.update)) {
            // DO NOTHING: the row is skipped and not counted.
            Some((_, None)) if is_taken => 0,
            Some((_, Some(update))) if is_taken => self.change(update, new, taken, after_texts)?,
            on_conflict => {
                insert.after.give(new, self.parameters, after_texts, self.out)?;
                self.transaction.insert_values(self.codec, new)?;
                if let Some((on_conflict, _)) = on_conflict {
                    // DO UPDATE must not change this row in the same statement, so we remember its key.
                    on_conflict.note(new, self.codec, self.count, taken)?;
                }
                1
            }
        };
        *whole = recycled(made);
        *after = recycled(given);
        Ok(changed)
    }

    /// Changes the row that already has the key of `new`.
    fn change(
        &mut self,
        update: &ConflictUpdate,
        new: &[ValueRef<'_>],
        taken: &mut TakenScratch,
        after_texts: &mut ComputedTexts,
    ) -> Result<u64> {
        let TakenScratch { key, row, columns, changed_row, whole_row, values, texts, generated_texts, changed, .. } =
            taken;
        if changed.iter().any(|changed| changed == key) {
            let what = "ON CONFLICT DO UPDATE would change a row that the same statement has inserted or changed";
            return Err(Error::new(ErrorKind::CardinalityViolation, what));
        }
        let mut both: Vec<ValueRef<'_>> = recycled(std::mem::take(columns));
        read_all(self.codec, key, row, values, &mut both)?;
        let mut made: Vec<ValueRef<'_>> = recycled(std::mem::take(changed_row));
        made.extend_from_slice(&both);
        // The expressions see the old row first and then the new one, which SQL calls `excluded`.
        both.extend_from_slice(new);
        texts.clear(update.assignments.texts);
        let env = Env { columns: &both, parameters: self.parameters, texts };
        let is_changed = update.filter.as_ref().map_or(Ok(true), |filter| filter.is_true(env))?;
        if is_changed {
            update.assignments.assign(env, &mut made)?;
            let mut whole: Vec<ValueRef<'_>> = recycled(std::mem::take(whole_row));
            let new = self.insert.generated.complete(&made, self.parameters, generated_texts, &mut whole)?;
            self.insert.after.check(new, self.parameters, after_texts)?;
            self.insert.after.give(new, self.parameters, after_texts, self.out)?;
            self.transaction.update_columns(self.codec, key, row, &update.changed, new)?;
            *whole_row = recycled(whole);
            // A single row cannot meet itself, so we remember keys only for several rows.
            if self.count > 1 {
                changed.push(key);
            }
        }
        *changed_row = recycled(made);
        *columns = recycled(both);
        Ok(is_changed.into())
    }
}

/// Memory for the search for a row that already has a key.
#[derive(Debug, Default)]
pub(crate) struct TakenScratch {
    key: Vec<u8>,
    row: Vec<u8>,
    range: KeyRange,
    scan: IndexScan,
    /// The values of the key.
    parts: Vec<ValueRef<'static>>,
    /// The columns of the existing row, followed by those of the new row.
    columns: Vec<ValueRef<'static>>,
    changed_row: Vec<ValueRef<'static>>,
    /// The changed row with the values of its generated columns.
    whole_row: Vec<ValueRef<'static>>,
    values: Vec<Vec<u8>>,
    texts: ComputedTexts,
    generated_texts: ComputedTexts,
    /// Keys of the rows that the statement has changed. Collected only if the statement has several rows.
    changed: ByteRows,
}

impl OnConflict {
    /// Compiles the clause for `def`, which has these generated columns. Row 0 of the compiler is the existing row,
    /// row 1 the row that should be inserted.
    fn new(
        on_conflict: &program::OnConflict,
        def: &TableDef,
        generated: &[usize],
        mut compiler: ExprCompiler<'_>,
    ) -> Result<OnConflict> {
        let keyed = def.keyed.as_ref().ok_or_else(|| Error::internal("ON CONFLICT on a table without keys"))?;
        let targets = match on_conflict.target {
            ConflictTarget::PrimaryKey => vec![TakenKey::primary(def, keyed)?],
            ConflictTarget::Index(id) => {
                let index = keyed.indexes.iter().find(|index| index.id == id && index.unique);
                let unknown = || Error::new(ErrorKind::UndefinedObject, format!("no unique index {id}"));
                vec![TakenKey::new(def, Some(id), &index.ok_or_else(unknown)?.parts)?]
            }
            ConflictTarget::Any => {
                let unique = keyed.indexes.iter().filter(|index| index.unique);
                let unique = unique.map(|index| TakenKey::new(def, Some(index.id), &index.parts));
                std::iter::once(TakenKey::primary(def, keyed)).chain(unique).collect::<Result<_>>()?
            }
        };
        let update = match &on_conflict.action {
            ConflictAction::Nothing => None,
            ConflictAction::Update { assignments, filter } => {
                let filter = filter.as_ref().map(|filter| compiler.condition(filter)).transpose()?;
                let assignments = Assignments::new(assignments, def, compiler)?;
                let changed = assignments.assigned.iter().chain(generated).copied().collect();
                Some(ConflictUpdate { assignments, changed, filter })
            }
        };
        Ok(OnConflict { targets: targets.into(), primary: TakenKey::primary(def, keyed)?, update })
    }

    /// Whether an existing row has one of the keys of `new`. If so, `scratch` holds that row and its key.
    fn find(
        &self,
        new: &[ValueRef<'_>],
        codec: &TableCodec,
        reader: &KeyedReader<'_>,
        scratch: &mut TakenScratch,
    ) -> Result<bool> {
        for target in &self.targets {
            if target.find(new, codec, reader, self.update.is_some(), scratch)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Remembers the key of an inserted row if a later row of the statement could conflict with it.
    fn note(&self, new: &[ValueRef<'_>], codec: &TableCodec, rows: usize, scratch: &mut TakenScratch) -> Result<()> {
        if rows > 1 && self.update.is_some() {
            self.primary.encode(new, codec, scratch)?;
            scratch.changed.push(&scratch.key);
        }
        Ok(())
    }
}

impl TakenKey {
    fn primary(def: &TableDef, keyed: &KeyedDef) -> Result<TakenKey> {
        TakenKey::new(def, None, &keyed.key)
    }

    fn new(def: &TableDef, index: Option<IndexId>, parts: &[KeyColumn]) -> Result<TakenKey> {
        let columns = parts.iter().map(|part| {
            def.column_by_id(part.column).ok_or_else(|| Error::internal("a key column is not in its table"))
        });
        Ok(TakenKey { index, columns: columns.collect::<Result<_>>()? })
    }

    /// Encodes the key of a row with the values of `new`: a primary key itself, or the range of an index. Returns
    /// `false` if a part is NULL, because NULL equals nothing and so can not conflict.
    fn encode(&self, new: &[ValueRef<'_>], codec: &TableCodec, scratch: &mut TakenScratch) -> Result<bool> {
        let TakenScratch { key, parts, range, .. } = scratch;
        let mut values: Vec<ValueRef<'_>> = recycled(std::mem::take(parts));
        values.extend(self.columns.iter().map(|column| new[*column]));
        let has_null = values.iter().any(ValueRef::is_null);
        // A primary key is looked up directly. For an index we need the range of its entries.
        if !has_null && self.index.is_none() {
            codec.encode_key(None, &values, key)?;
        } else if !has_null {
            let (head, of_index) = codec.keys(self.index)?;
            of_index.range(head, &values, Bound::Unbounded, Bound::Unbounded, range)?;
        }
        *parts = recycled(values);
        Ok(!has_null)
    }

    fn find(
        &self,
        new: &[ValueRef<'_>],
        codec: &TableCodec,
        reader: &KeyedReader<'_>,
        reads_row: bool,
        scratch: &mut TakenScratch,
    ) -> Result<bool> {
        if !self.encode(new, codec, scratch)? {
            return Ok(false);
        }
        let TakenScratch { key, row, range, scan, .. } = scratch;
        let Some(index) = self.index else { return reader.get(key, row) };
        scan.start(codec, index, range, false, 1, IndexOrder::Kept)?;
        // DO NOTHING only needs to know that a row exists.
        if !reads_row {
            return Ok(scan.next(codec, reader)?.is_some());
        }
        // DO UPDATE needs the whole row, so it must be fetched.
        let Some((found_key, found)) = scan.next_row(codec, reader)? else { return Ok(false) };
        key.clear();
        key.extend_from_slice(found_key);
        row.clear();
        row.extend_from_slice(found);
        Ok(true)
    }
}
