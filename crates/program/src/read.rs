//! Reads: the rows of one table, and for each of them those of the next, as loops within loops.
//!
//! A row is all columns that are asked for of the tables so far, one behind the other, each borrowed from where the table's row
//! lies; the innermost loop hands it to the [`Sink`].

use rowmill_base::{Cancel, Result, SqlType};
use rowmill_plan::program::{self, LookupKind};
use rowmill_storage::keyed::{ByteRows, ValueRef};
use rowmill_txn::Catalog;
use rowmill_txn::keyed::Reader;

use crate::access::{Access, AccessScratch};
use crate::compiled::column_kinds;
use crate::expr::{Compiler, Env, Expr, Layout, unsupported};
use crate::output::{Output, OutputScratch, Sink};
use crate::pace::Pace;
use crate::recycled::recycled;
use crate::result_rows::ResultRows;
use crate::texts::Texts;

/// A read that is ready to run.
#[derive(Debug)]
pub(crate) struct Read {
    /// One at least.
    tables: Box<[Table]>,
    output: Output,
    pub(crate) for_update: bool,
}

/// One of the tables, after the first to be looked up.
#[derive(Debug)]
struct Table {
    kind: LookupKind,
    access: Access,
    condition: Option<Expr>,
    texts: usize,
}

/// What a read takes, kept from one to the next.
#[derive(Debug, Default)]
pub(crate) struct ReadScratch {
    levels: Vec<Level>,
    output: OutputScratch,
    /// Keys of rows that were given `FOR UPDATE`.
    pub(crate) keys: ByteRows,
}

/// What a loop takes.
#[derive(Debug, Default)]
struct Level {
    access: AccessScratch,
    columns: Vec<ValueRef<'static>>,
    texts: Texts,
}

/// What is the same for all loops of a run.
struct Run<'r> {
    reader: &'r Reader<'r>,
    parameters: &'r [ValueRef<'r>],
    sink: Sink<'r>,
    /// Where keys go of rows that are given.
    keys: Option<&'r mut ByteRows>,
    /// Rows of the first table that are wanted, as far as is known.
    first: usize,
    pace: Pace<'r>,
}

impl Read {
    pub(crate) fn new(read: &program::Read, catalog: &Catalog, parameters: &[SqlType]) -> Result<Read> {
        if read.for_update && !read.joins.is_empty() {
            return Err(unsupported("FOR UPDATE of joined tables"));
        }
        let accesses = || std::iter::once(&read.access).chain(read.joins.iter().map(|join| &join.access));
        let kinds = accesses().map(|access| column_kinds(catalog, access.table)).collect::<Result<Vec<_>>>()?;
        let mut layout = Layout::new(kinds);
        let of_accesses = accesses().flat_map(|access| {
            let bounds = access.from.iter().chain(&access.to).map(|bound| &bound.value);
            access.equal.iter().chain(bounds)
        });
        let conditions = read.joins.iter().filter_map(|join| join.condition.as_ref()).chain(&read.filter);
        for scalar in of_accesses.chain(conditions).chain(Output::scalars(&read.output)) {
            layout.want(scalar)?;
        }
        let no_condition = None;
        let joins = read.joins.iter().map(|join| (join.kind, &join.access, &join.condition));
        let tables = std::iter::once((LookupKind::Inner, &read.access, &no_condition)).chain(joins);
        let tables = tables.enumerate().map(|(row, (kind, access, condition))| {
            let access = Access::new(access, catalog, parameters, &layout, row, read.for_update)?;
            let mut compiler = Compiler::new(parameters, &layout, row + 1);
            let condition = condition.as_ref().map(|condition| compiler.condition(condition)).transpose()?;
            Ok(Table { kind, access, condition, texts: compiler.texts() })
        });
        let tables: Box<[Table]> = tables.collect::<Result<_>>()?;
        let compiler = Compiler::new(parameters, &layout, tables.len());
        let output = Output::new(&read.output, &read.filter, compiler)?;
        Ok(Read { tables, output, for_update: read.for_update })
    }

    /// Fills `out`, which was started.
    pub(crate) fn run(
        &self,
        reader: &Reader<'_>,
        parameters: &[ValueRef<'_>],
        scratch: &mut ReadScratch,
        cancel: &Cancel,
        out: &mut ResultRows,
    ) -> Result<()> {
        let ReadScratch { levels, output, keys } = scratch;
        if levels.len() < self.tables.len() {
            levels.resize_with(self.tables.len(), Level::default);
        }
        keys.clear();
        let sink = Sink::new(&self.output, parameters, output, out)?;
        let first = if self.tables.len() == 1 { sink.rows_wanted() } else { usize::MAX };
        let keys = self.for_update.then_some(keys);
        let mut run = Run { reader, parameters, sink, keys, first, pace: Pace::new(cancel) };
        if run.sink.wants_rows() {
            run.loop_over(&self.tables, levels, &[])?;
        }
        run.sink.finish(parameters)
    }
}

impl Run<'_> {
    /// Whether more rows are wanted after all that match the row of `outer`.
    fn loop_over(&mut self, tables: &[Table], levels: &mut [Level], outer: &[ValueRef<'_>]) -> Result<bool> {
        let ([table, tables @ ..], [level, levels @ ..]) = (tables, levels) else {
            unreachable!("there is a level for each table, and one at least");
        };
        let Level { access: scratch, columns, texts } = level;
        let env = Env { columns: outer, parameters: self.parameters, texts: &Texts::default() };
        let (reader, first) = (self.reader, if outer.is_empty() { self.first } else { usize::MAX });
        let mut has_match = false;
        let goes_on = table.access.run(env, reader, scratch, first, |found| {
            self.pace.step()?;
            let mut values: Vec<ValueRef<'_>> = recycled(std::mem::take(columns));
            values.extend_from_slice(outer);
            found.columns.read(&mut values)?;
            let is_match = table.matches(&values, self.parameters, texts)?;
            has_match |= is_match;
            let goes_on = !is_match || self.pass_on(tables, levels, &values, found.key)?;
            *columns = recycled(values);
            Ok(goes_on)
        })?;
        if !goes_on || has_match || table.kind == LookupKind::Inner {
            return Ok(goes_on);
        }
        let mut values: Vec<ValueRef<'_>> = recycled(std::mem::take(columns));
        values.extend_from_slice(outer);
        values.resize(outer.len() + table.access.columns(), ValueRef::Null);
        let goes_on = self.pass_on(tables, levels, &values, &[])?;
        *columns = recycled(values);
        Ok(goes_on)
    }

    fn pass_on(&mut self, tables: &[Table], levels: &mut [Level], row: &[ValueRef<'_>], key: &[u8]) -> Result<bool> {
        if !tables.is_empty() {
            return self.loop_over(tables, levels, row);
        }
        if !self.sink.passes(row, self.parameters)? {
            return Ok(true);
        }
        if let Some(keys) = &mut self.keys {
            keys.push(key);
        }
        self.sink.take(row, self.parameters)
    }
}

impl Table {
    fn matches(&self, row: &[ValueRef<'_>], parameters: &[ValueRef<'_>], texts: &mut Texts) -> Result<bool> {
        let Some(condition) = &self.condition else { return Ok(true) };
        texts.clear(self.texts);
        condition.is_true(Env { columns: row, parameters, texts })
    }
}
