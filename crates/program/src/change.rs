//! `UPDATE` and `DELETE`. A statement first finds all of its rows and then changes them one by one. Otherwise the scan
//! could find a row again that the statement has just moved.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::util::display::array_value_to_string;
use rowmill_base::{Cancel, Error, ErrorKind, Result, SqlType, recycled};
use rowmill_plan::program::{self, LookupKind, LookupSource, NestedLookup, Scalar};
use rowmill_storage::TableDef;
use rowmill_storage::keyed::{ByteRows, ValueRef};
use rowmill_txn::keyed::{KeyedReader, TableCodec};
use rowmill_txn::{Catalog, Transaction};

use crate::access::{CompiledAccess, FoundColumns, FoundEntry, RowTaker, Unread, WantedColumns};
use crate::arrays::array_of;
use crate::compiled::column_kinds;
use crate::expr::{Env, Expr, ExprCompiler, RowsLayout};
use crate::output::put;
use crate::pace::{Pace, bounded};
use crate::read::CompiledRead;
use crate::result_rows::ResultRows;
use crate::scratch::{ProgramScratch, WriteScratch};
use crate::texts::ComputedTexts;

/// Characters of a refused row that its error message shows at most.
const SHOWN_CHARS_MAX: usize = 200;

/// The rows that a statement changes.
#[derive(Debug)]
struct RowsToChange {
    codec: Arc<TableCodec>,
    rows: TargetRows,
    may_repeat: bool,
}

/// How the rows are found.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "most changes read their table by one access")]
enum TargetRows {
    /// By an access to the table itself, with a condition on its own columns.
    Table { access: CompiledAccess, filter: Option<Expr>, texts: usize },
    /// By a read of several lookups, one for the table. The read also computes the assigned values.
    Lookups { read: Box<CompiledRead>, lookup: usize },
}

/// An `UPDATE` that is ready to run.
#[derive(Debug)]
pub(crate) struct Update {
    target: RowsToChange,
    assignments: Assignments,
    /// The generated columns that change with the assigned ones.
    generated: GeneratedColumns,
    /// All columns that change.
    changed: Box<[usize]>,
    after: AfterChange,
    /// The columns of the old row that the statement needs. All of them if a change may move the row, or if the table
    /// has constraints or generated columns.
    read: Box<[usize]>,
    /// Whether a row may take the primary key or the unique values of another row.
    takes_keys: bool,
}

/// A `DELETE` that is ready to run.
#[derive(Debug)]
pub(crate) struct Delete {
    target: RowsToChange,
    returning: AfterChange,
}

/// The new values of columns, as expressions over all columns of the old row.
#[derive(Debug)]
pub(crate) struct Assignments {
    columns: Box<[(usize, Expr)]>,
    /// The columns alone.
    pub(crate) assigned: Box<[usize]>,
    pub(crate) texts: usize,
}

/// The values of generated columns, as expressions over the columns of the new row.
#[derive(Debug)]
pub(crate) struct GeneratedColumns(Assignments);

/// The steps after a row was made: check the constraints, and compute the values for `RETURNING`.
#[derive(Debug)]
pub(crate) struct AfterChange {
    checks: Box<[(String, Expr)]>,
    returning: Box<[Expr]>,
    texts: usize,
    table: String,
    /// The types of the table's columns.
    kinds: Box<[SqlType]>,
}

impl RowsToChange {
    /// Compiles a target. `assigned` are the assigned values; with several lookups they are computed where a row is
    /// found, because they may refer to the columns of every lookup.
    fn new(
        target: &program::ChangeTarget,
        assigned: impl Iterator<Item = Scalar>,
        catalog: &Catalog,
        parameters: &[SqlType],
    ) -> Result<RowsToChange> {
        let program::ChangeTarget { lookups, row, filter, may_repeat } = target;
        let rows = match &lookups[..] {
            [
                NestedLookup {
                    kind: LookupKind::Inner,
                    source: LookupSource::Table(access),
                    condition,
                    compared: None,
                },
            ] => {
                let conditions = condition.iter().chain(filter).cloned().collect();
                TargetRows::table(access, Scalar::all_of(conditions), catalog, parameters)?
            }
            _ => {
                let output = program::ReadOutput::Rows(program::RowOutput::all(assigned.collect()));
                let (lookups, filter) = (lookups.clone(), filter.clone());
                let read = program::ReadPlan { lookups, filter, output, for_update: false, rows_max: None, few: None };
                let read = Box::new(CompiledRead::of_target(&read, catalog, parameters, *row)?);
                TargetRows::Lookups { read, lookup: *row }
            }
        };
        let codec = match &rows {
            TargetRows::Table { access, .. } => Some(access.codec()),
            TargetRows::Lookups { read, lookup } => read.codec(*lookup),
        };
        let codec = Arc::clone(codec.ok_or_else(|| Error::internal("the program changes rows of no table"))?);
        Ok(RowsToChange { codec, rows, may_repeat: *may_repeat })
    }

    /// Collects the keys and rows of the target in `keys` and `rows`, and the values that are assigned to them in
    /// `assigned`.
    fn gather(
        &self,
        reader: &KeyedReader<'_>,
        parameters: &[ValueRef<'_>],
        scratch: &mut WriteScratch,
        cancel: &Cancel,
    ) -> Result<()> {
        let WriteScratch { access: scratch, keys, rows, before, texts, read: of_read, assigned, .. } = scratch;
        let (access, filter, places) = match &self.rows {
            TargetRows::Table { access, filter, texts } => (access, filter, *texts),
            TargetRows::Lookups { read, lookup } => {
                assigned.start(read.kinds());
                return read.gather(*lookup, [keys, rows], reader, parameters, of_read, cancel, assigned);
            }
        };
        keys.clear();
        rows.clear();
        let env = Env { columns: &[], parameters, texts: &ComputedTexts::default() };
        let (filter, pace) = (filter.as_ref(), Pace::new(cancel));
        let mut taker = TargetTaker { filter, parameters, values: before, texts, places, pace, keys, rows };
        access.run(env, reader, scratch, usize::MAX, &mut Unread::new(0, cancel), &mut taker)?;
        Ok(())
    }
}

/// Copies the rows that pass the filter.
struct TargetTaker<'t> {
    filter: Option<&'t Expr>,
    parameters: &'t [ValueRef<'t>],
    values: &'t mut Vec<ValueRef<'static>>,
    texts: &'t mut ComputedTexts,
    /// Number of texts that the filter makes.
    places: usize,
    pace: Pace<'t>,
    keys: &'t mut ByteRows,
    rows: &'t mut ByteRows,
}

impl RowTaker for TargetTaker<'_> {
    fn has_test(&self) -> bool {
        self.filter.is_some()
    }

    fn test(&mut self, columns: FoundColumns<'_>) -> Result<bool> {
        self.pace.step()?;
        let Some(filter) = self.filter else { return Ok(true) };
        let mut values: Vec<ValueRef<'_>> = recycled(std::mem::take(self.values));
        values.resize(columns.len(), ValueRef::Null);
        columns.read_tested(&mut values)?;
        self.texts.clear(self.places);
        let passes = filter.is_true(Env { columns: &values, parameters: self.parameters, texts: self.texts })?;
        *self.values = recycled(values);
        Ok(passes)
    }

    fn take(&mut self, found: FoundEntry<'_>, is_tested: bool) -> Result<bool> {
        let FoundEntry { key, row, columns, .. } = found;
        if is_tested || self.test(columns)? {
            // The statement must have found all rows before it changes the first.
            self.keys.push(key);
            self.rows.push(row);
            bounded(self.keys.total_bytes() + self.rows.total_bytes())?;
        }
        Ok(true)
    }
}

impl TargetRows {
    fn table(
        access: &program::Access,
        filter: Option<Scalar>,
        catalog: &Catalog,
        parameters: &[SqlType],
    ) -> Result<TargetRows> {
        let mut layout = RowsLayout::new([column_kinds(catalog, access.table)?]);
        filter.iter().try_for_each(|filter| layout.want(filter))?;
        let wanted = WantedColumns { all: layout.wanted(0), tested: layout.wanted(0) };
        let access = CompiledAccess::new(access, catalog, parameters, &layout, 0, wanted, true)?;
        let mut compiler = ExprCompiler::new(parameters, &layout, 1);
        let filter = filter.as_ref().map(|filter| compiler.condition(filter)).transpose()?;
        Ok(TargetRows::Table { access, filter, texts: compiler.texts() })
    }
}

impl Update {
    pub(crate) fn new(update: &program::Update, catalog: &Catalog, parameters: &[SqlType]) -> Result<Update> {
        let assigned = update.assignments.iter().map(|(_, value)| value.clone());
        let target = RowsToChange::new(&update.target, assigned, catalog, parameters)?;
        let def = target.codec.def();
        let layout = RowsLayout::of_all([column_kinds(catalog, def.id)?]);
        let assignments = match &target.rows {
            TargetRows::Table { .. } => {
                Assignments::new(&update.assignments, def, ExprCompiler::new(parameters, &layout, 1))?
            }
            TargetRows::Lookups { read, .. } => {
                // The read has computed the values already, so an assignment takes column `at` of its result.
                let kinds = read.kinds();
                let of_values = update.assignments.iter().zip(kinds.iter()).enumerate();
                let of_values =
                    of_values.map(|(at, ((column, _), kind))| (*column, Scalar::column(kind.clone(), 0, at)));
                let assignments: Vec<(usize, Scalar)> = of_values.collect();
                let layout = RowsLayout::of_all([kinds.to_vec()]);
                Assignments::new(&assignments, def, ExprCompiler::new(parameters, &layout, 1))?
            }
        };
        let generated = GeneratedColumns::new(&update.generated, def, ExprCompiler::new(parameters, &layout, 1))?;
        let compiler = ExprCompiler::new(parameters, &layout, 1);
        let after = AfterChange::new(&update.checks, &update.returning, def, compiler)?;
        let changed: Box<[usize]> = assignments.assigned.iter().chain(&generated.0.assigned).copied().collect();
        let takes_keys = changed.iter().any(|column| is_unique(def, *column));
        // The error of a constraint shows the whole row, and a generated column may read any column.
        let needs_whole = !update.checks.is_empty() || !generated.is_empty();
        let read = match !takes_keys && !needs_whole && target.codec.stays_in_place(&changed) {
            false => (0..def.columns.len()).collect(),
            true => {
                let mut needed = RowsLayout::new([column_kinds(catalog, def.id)?]);
                let of_values = update.assignments.iter().map(|(_, value)| value);
                let of_values = of_values.filter(|_| matches!(target.rows, TargetRows::Table { .. }));
                of_values.chain(&update.returning).try_for_each(|scalar| needed.want(scalar))?;
                needed.wanted(0).into()
            }
        };
        Ok(Update { target, assignments, generated, changed, after, read, takes_keys })
    }

    pub(crate) fn run(
        &self,
        transaction: &mut Transaction,
        parameters: &[ValueRef<'_>],
        scratch: &mut ProgramScratch,
        out: &mut ResultRows,
    ) -> Result<u64> {
        let ProgramScratch { write: scratch, cancel, .. } = scratch;
        self.target.gather(&transaction.reader(), parameters, scratch, cancel)?;
        let codec = &self.target.codec;
        let WriteScratch {
            keys,
            rows,
            before,
            after,
            whole,
            values,
            texts,
            generated_texts,
            after_texts,
            assigned,
            ..
        } = scratch;
        // Check before the first change: the values of a repeated row contradict each other.
        if self.target.may_repeat && !keys.iter().all(first_of_each()) {
            return Err(meets_several(codec.def()));
        }
        // SQL requires unique keys only after all rows are changed. So several rows are removed before the first of
        // them gets its new values.
        let takes_out = self.takes_keys && keys.len() > 1;
        all_or_none(transaction, |transaction| {
            if takes_out {
                keys.iter().zip(rows.iter()).try_for_each(|(key, row)| transaction.take_out(codec, key, row))?;
            }
            for (number, (key, row)) in keys.iter().zip(rows.iter()).enumerate() {
                let mut old: Vec<ValueRef<'_>> = recycled(std::mem::take(before));
                old.resize(codec.def().columns.len(), ValueRef::Null);
                read_columns(codec, key, row, &self.read, values, &mut old)?;
                let given: Vec<ValueRef<'_>> = match &self.target.rows {
                    TargetRows::Table { .. } => Vec::new(),
                    TargetRows::Lookups { .. } => {
                        (0..assigned.kinds().len()).map(|column| assigned.get(number, column)).collect()
                    }
                };
                // With several lookups the values are already computed, otherwise they are expressions over the old
                // row.
                let columns = if matches!(self.target.rows, TargetRows::Table { .. }) { &old } else { &given };
                let mut new: Vec<ValueRef<'_>> = recycled(std::mem::take(after));
                new.extend_from_slice(&old);
                texts.clear(self.assignments.texts);
                self.assignments.assign(Env { columns, parameters, texts }, &mut new)?;
                let mut made: Vec<ValueRef<'_>> = recycled(std::mem::take(whole));
                let new_row = self.generated.complete(&new, parameters, generated_texts, &mut made)?;
                // Constraints must hold before the row is written and before RETURNING sees it.
                self.after.check(new_row, parameters, after_texts)?;
                self.after.give(new_row, parameters, after_texts, out)?;
                match takes_out {
                    true => transaction.put_back(codec, (key, row), new_row)?,
                    false => transaction.update_columns(codec, key, row, &self.changed, new_row)?,
                }
                *whole = recycled(made);
                *after = recycled(new);
                *before = recycled(old);
            }
            Ok(keys.len() as u64)
        })
    }
}

impl Delete {
    pub(crate) fn new(delete: &program::Delete, catalog: &Catalog, parameters: &[SqlType]) -> Result<Delete> {
        let target = RowsToChange::new(&delete.target, std::iter::empty(), catalog, parameters)?;
        let def = target.codec.def();
        let layout = RowsLayout::of_all([column_kinds(catalog, def.id)?]);
        let returning = AfterChange::new(&[], &delete.returning, def, ExprCompiler::new(parameters, &layout, 1))?;
        Ok(Delete { target, returning })
    }

    pub(crate) fn run(
        &self,
        transaction: &mut Transaction,
        parameters: &[ValueRef<'_>],
        scratch: &mut ProgramScratch,
        out: &mut ResultRows,
    ) -> Result<u64> {
        let ProgramScratch { write: scratch, cancel, .. } = scratch;
        self.target.gather(&transaction.reader(), parameters, scratch, cancel)?;
        let codec = &self.target.codec;
        let WriteScratch { keys, rows, before, values, after_texts, .. } = scratch;
        let mut is_first = first_of_each();
        all_or_none(transaction, |transaction| {
            let mut removed = 0;
            for (key, row) in keys.iter().zip(rows.iter()) {
                // The row was already deleted by this statement.
                if self.target.may_repeat && !is_first(key) {
                    continue;
                }
                removed += 1;
                if self.returning.gives_rows() {
                    let mut old: Vec<ValueRef<'_>> = recycled(std::mem::take(before));
                    read_all(codec, key, row, values, &mut old)?;
                    self.returning.give(&old, parameters, after_texts, out)?;
                    *before = recycled(old);
                }
                transaction.delete_values(codec, key, row)?;
            }
            Ok(removed)
        })
    }
}

/// Returns a predicate that is true when it sees a key for the first time.
fn first_of_each() -> impl FnMut(&[u8]) -> bool {
    let mut met: HashSet<Box<[u8]>> = HashSet::new();
    move |key| met.insert(key.into())
}

/// Whether a column is part of the primary key or of a unique index.
fn is_unique(table: &TableDef, column: usize) -> bool {
    let Some(keyed) = &table.keyed else { return false };
    let unique = keyed.indexes.iter().filter(|index| index.unique).flat_map(|index| &index.parts);
    keyed.key.iter().chain(unique).any(|part| part.column == table.columns[column].id)
}

/// The error if a row would be changed in several ways because it matches several rows of the FROM clause.
pub fn meets_several(table: &TableDef) -> Error {
    Error::new(
        ErrorKind::CardinalityViolation,
        format!("a row of table \"{}\" meets several rows of the FROM clause", table.name),
    )
    .hint("narrow WHERE down, or aggregate in a subquery, so that each row meets one")
}

impl Assignments {
    /// Compiles assignments to columns of `def`. The rows of `def` must be row 0 of the compiler.
    pub(crate) fn new(
        assignments: &[(usize, program::Scalar)],
        def: &TableDef,
        mut compiler: ExprCompiler<'_>,
    ) -> Result<Assignments> {
        let columns = assignments.iter().map(|(column, scalar)| {
            let unknown = || Error::internal("the program sets a column that its table does not have");
            let of_table = def.columns.get(*column).ok_or_else(unknown)?;
            Ok((*column, compiler.assigned(scalar, &of_table.kind, &of_table.name)?))
        });
        let columns = columns.collect::<Result<Box<[(usize, Expr)]>>>()?;
        let assigned = columns.iter().map(|(column, _)| *column).collect();
        Ok(Assignments { columns, assigned, texts: compiler.texts() })
    }

    /// Computes the new values and stores them in `row`.
    pub(crate) fn assign<'a>(&'a self, env: Env<'a>, row: &mut [ValueRef<'a>]) -> Result<()> {
        for (column, expr) in &self.columns {
            row[*column] = expr.value(env)?;
        }
        Ok(())
    }
}

impl GeneratedColumns {
    /// Compiles the values of generated columns. The rows of `def` must be row 0 of the compiler.
    pub(crate) fn new(
        generated: &[(usize, program::Scalar)],
        def: &TableDef,
        compiler: ExprCompiler<'_>,
    ) -> Result<GeneratedColumns> {
        Assignments::new(generated, def, compiler).map(GeneratedColumns)
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.columns.is_empty()
    }

    /// The columns.
    pub(crate) fn columns(&self) -> &[usize] {
        &self.0.assigned
    }

    /// Returns the row with the values of the generated columns. `made` and `texts` are memory for them. Without
    /// generated columns it is the row itself.
    pub(crate) fn complete<'r, 'v: 'r>(
        &'v self,
        row: &'v [ValueRef<'v>],
        parameters: &'v [ValueRef<'v>],
        texts: &'v mut ComputedTexts,
        made: &'r mut Vec<ValueRef<'v>>,
    ) -> Result<&'r [ValueRef<'v>]> {
        if self.is_empty() {
            return Ok(row);
        }
        texts.clear(self.0.texts);
        made.extend_from_slice(row);
        self.0.assign(Env { columns: row, parameters, texts }, made)?;
        Ok(made)
    }
}

impl AfterChange {
    /// Compiles checks and `RETURNING` over rows of `def`, which must be row 0 of the compiler.
    pub(crate) fn new(
        checks: &[program::TableCheck],
        returning: &[program::Scalar],
        def: &TableDef,
        mut compiler: ExprCompiler<'_>,
    ) -> Result<AfterChange> {
        let checks = checks.iter().map(|check| Ok((check.name.clone(), compiler.condition(&check.condition)?)));
        let checks = checks.collect::<Result<_>>()?;
        let returning = compiler.exprs(returning)?;
        let kinds = def.columns.iter().map(|column| column.kind.clone()).collect();
        Ok(AfterChange { checks, returning, texts: compiler.texts(), table: def.name.clone(), kinds })
    }

    /// Formats the values of a row for an error message.
    #[cold]
    fn say(&self, row: &[ValueRef<'_>]) -> Result<String> {
        let said = self.kinds.iter().zip(row).map(|(kind, value)| {
            let array = array_of(kind, std::iter::once(*value))?;
            let shown = array_value_to_string(&array, 0).map_err(|error| Error::internal(error.to_string()))?;
            Ok(if value.is_null() { "NULL".to_owned() } else { shown })
        });
        let all = said.collect::<Result<Vec<String>>>()?.join(", ");
        let mut shown: String = all.chars().take(SHOWN_CHARS_MAX).collect();
        if shown.len() < all.len() {
            shown.push_str("...");
        }
        Ok(shown)
    }

    /// Whether the statement has a `RETURNING` clause.
    pub(crate) fn gives_rows(&self) -> bool {
        !self.returning.is_empty()
    }

    /// Returns `CheckViolation` if a constraint is false for the row. A constraint that is NULL is met.
    pub(crate) fn check(
        &self,
        row: &[ValueRef<'_>],
        parameters: &[ValueRef<'_>],
        texts: &mut ComputedTexts,
    ) -> Result<()> {
        if self.checks.is_empty() {
            return Ok(());
        }
        texts.clear(self.texts);
        for (name, condition) in &self.checks {
            if condition.is_false(Env { columns: row, parameters, texts })? {
                let (table, said) = (&self.table, self.say(row)?);
                let what = format!("a row of table \"{table}\" does not meet its constraint \"{name}\": ({said})");
                return Err(Error::new(ErrorKind::CheckViolation, what).breaks(&**table, &**name));
            }
        }
        Ok(())
    }

    /// Appends the `RETURNING` values of the row to `out`.
    pub(crate) fn give(
        &self,
        row: &[ValueRef<'_>],
        parameters: &[ValueRef<'_>],
        texts: &mut ComputedTexts,
        out: &mut ResultRows,
    ) -> Result<()> {
        if !self.gives_rows() {
            return Ok(());
        }
        texts.clear(self.texts);
        put(out, self.returning.iter(), Env { columns: row, parameters, texts })
    }
}

/// Decodes all columns of a row and appends their values to `out`.
pub(crate) fn read_all<'a>(
    codec: &'a TableCodec,
    key: &'a [u8],
    row: &'a [u8],
    scratch: &'a mut Vec<Vec<u8>>,
    out: &mut Vec<ValueRef<'a>>,
) -> Result<()> {
    let columns = codec.def().columns.len();
    if scratch.len() < columns {
        scratch.resize_with(columns, Vec::new);
    }
    let row = codec.row(key, row)?;
    for (column, scratch) in scratch[..columns].iter_mut().enumerate() {
        out.push(row.get(column, scratch)?);
    }
    Ok(())
}

/// Decodes some columns of a row and sets their values in `out`, which has a value for each column.
fn read_columns<'a>(
    codec: &'a TableCodec,
    key: &'a [u8],
    row: &'a [u8],
    columns: &[usize],
    scratch: &'a mut Vec<Vec<u8>>,
    out: &mut [ValueRef<'a>],
) -> Result<()> {
    if scratch.len() < columns.len() {
        scratch.resize_with(columns.len(), Vec::new);
    }
    let row = codec.row(key, row)?;
    for (column, scratch) in columns.iter().zip(scratch) {
        out[*column] = row.get(*column, scratch)?;
    }
    Ok(())
}

/// Runs the changes of one statement. If one of them fails, undoes all of them, so the transaction can go on.
pub(crate) fn all_or_none(
    transaction: &mut Transaction,
    change: impl FnOnce(&mut Transaction) -> Result<u64>,
) -> Result<u64> {
    // A mark in the write set, to which we can roll back.
    let before = transaction.keyed_mark();
    let changed = change(transaction).and_then(|changed| {
        // Foreign keys are checked at the end of the statement, because a later row may satisfy an earlier one.
        transaction.settle_references()?;
        Ok(changed)
    });
    if changed.is_err() {
        transaction.undo_keyed_to(before);
    }
    changed
}
