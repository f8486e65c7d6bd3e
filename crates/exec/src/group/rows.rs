//! The rows of one block, open run or batch that are grouped together, with their columns as codes into values.
//!
//! If a query reads only one column of a block and this column has a value list, the list itself serves as the rows:
//! each value represents all rows that have it, and no row is read.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int32Array, RecordBatch, UInt32Array};
use arrow::buffer::BooleanBuffer;
use rowmill_base::{Error, LengthUnit, Result};
use rowmill_plan::{Expr, Predicate};
use rowmill_storage::chunk::{Chunk, ReadMeter};
use rowmill_storage::{Block, OpenRun, TableDef};

use super::bits::width_of;
use super::coded::CodedRows;
use super::local::{self, LocalGroups};
use super::pieces::WordPieces;
use super::texts::is_text;
use super::value_list::{ValueList, numbered};
use crate::arithmetic::{Arithmetic, SharedSteps};
use crate::cache::L2_BYTES;
use crate::column_parts::ColumnParts;
use crate::function::VectorFunction;
use crate::predicate::evaluate;
use crate::scan::block_state::{BlockState, IntegerSpanList, listed};
use crate::scan::filter::Filter;
use crate::scan::offered::{BlockFilters, OfferedFilters};
use crate::scan::part::SharedBlock;
use crate::scan::{FRAME_ROWS_MAX, cut, live_rows, positions_of, rows_of_run, values_of_run};

/// The rows for which a function is called at once. Each of its intermediate results takes a sixteenth of the
/// second-level cache.
const ROWS_PER_PIECE: usize = L2_BYTES / 16 / size_of::<u64>();

/// The values of rows: one per row, or fewer values and, for each row, the code of its value.
#[derive(Clone)]
pub(super) struct PartValues {
    pub(super) values: ArrayRef,
    pub(super) codes: Option<Arc<Vec<u32>>>,
    /// Whether [`PartValues::values`] ascend without duplicates, with NULL last.
    pub(super) is_list: bool,
}

/// The origin of rows.
enum GroupRowOrigin<'a> {
    Block(Arc<SharedBlock>, &'a TableDef),
    /// The distinct values of a column represent the rows.
    List {
        column: usize,
        list: Box<ValueList>,
    },
    /// The values of several lists, one after the other, represent the rows.
    Values {
        column: usize,
        values: ArrayRef,
    },
    Run(&'a OpenRun, &'a TableDef),
    Batch(&'a RecordBatch),
    /// The rows of several batches.
    Coded(&'a CodedRows),
}

/// An expression of integers, the columns that it reads, and its values.
pub(super) struct IntegerWords<'a> {
    pub(super) arithmetic: &'a Arithmetic,
    pub(super) columns: Vec<(usize, &'a Chunk)>,
    values: Vec<i64>,
}

/// Rows of one part of a table, or of a batch.
pub(super) struct PartRows<'a> {
    functions: &'a [Arc<dyn VectorFunction>],
    origin: GroupRowOrigin<'a>,
    /// The positions of the rows, including any that were left out.
    range: Range<usize>,
    /// The positions of the rows that are in, ascending; `None` if all are in.
    positions: Option<Vec<u32>>,
    /// The number of rows that each row represents; `None` if each represents itself.
    weights: Option<Vec<u64>>,
    /// Columns of a block that were read, kept for the next expression that reads them.
    columns_read: RefCell<Vec<(usize, PartValues)>>,
}

impl<'a> PartRows<'a> {
    fn new(functions: &'a [Arc<dyn VectorFunction>], origin: GroupRowOrigin<'a>, range: Range<usize>) -> PartRows<'a> {
        PartRows { functions, origin, range, positions: None, weights: None, columns_read: RefCell::default() }
    }

    /// The rows of a block that are not deleted, pass `filter` and pass the filters of joins. `columns` must name all
    /// columns that will be read. `reads` counts the bytes that are read.
    pub(super) fn of_block(
        table: &'a TableDef,
        functions: &'a [Arc<dyn VectorFunction>],
        block: &Arc<Block>,
        (filter, offered): (&Filter, BlockFilters),
        columns: &[usize],
        reads: &Arc<ReadMeter>,
    ) -> Result<PartRows<'a>> {
        // With one column and no filter of a join, the value list may replace the rows.
        if let ([column], true) = (columns, offered.is_empty())
            && let Some(rows) = PartRows::of_list(table, functions, block, filter, *column, reads)?
        {
            return Ok(rows);
        }
        let state = BlockState::new(block, table, filter, reads);
        let shared = Arc::new(SharedBlock { state, filters: offered });
        PartRows::of_slice(table, functions, shared, filter, 0..block.rows())
    }

    /// The rows of a slice of a block that are not deleted, pass `filter` and pass the filters of joins.
    pub(super) fn of_slice(
        table: &'a TableDef,
        functions: &'a [Arc<dyn VectorFunction>],
        shared: Arc<SharedBlock>,
        filter: &Filter,
        range: Range<usize>,
    ) -> Result<PartRows<'a>> {
        let SharedBlock { state, filters } = &*shared;
        let deleted = state.block().deleted();
        let positions = match filter.is_empty() && filters.is_empty() && deleted.is_none() {
            true => None,
            false => {
                let mut positions = Vec::new();
                // If the zone map excludes every key of a join, no frame is read.
                if filters.may_hold(table, state, range.len())? {
                    for frame in cut(range.clone(), FRAME_ROWS_MAX) {
                        let mut mask = live_rows(&frame, deleted);
                        state.filter(table, filter, &mut mask)?;
                        filters.keep(table, state, &mut mask)?;
                        mask.append_positions(&mut positions);
                    }
                }
                Some(positions).filter(|positions| positions.len() < range.len())
            }
        };
        let (positions, range) = match positions.as_deref() {
            // Rows that follow each other, such as those of a time in a table that is in the order of time, are read
            // as a range. That takes less time than a look-up of each row.
            Some([first, .., last]) if last - first + 1 == positions.as_ref().map_or(0, Vec::len) as u32 => {
                (None, *first as usize..*last as usize + 1)
            }
            _ => (positions, range),
        };
        Ok(PartRows { positions, ..PartRows::new(functions, GroupRowOrigin::Block(shared, table), range) })
    }

    /// The rows as the value list of the only column that is read; `None` if its chunk has no list.
    fn of_list(
        table: &TableDef,
        functions: &'a [Arc<dyn VectorFunction>],
        block: &Arc<Block>,
        filter: &Filter,
        column: usize,
        reads: &Arc<ReadMeter>,
    ) -> Result<Option<PartRows<'a>>> {
        let Some(list) = ValueList::of_block(table, block, filter, column, reads)? else { return Ok(None) };
        let mut weights = Vec::with_capacity(list.len());
        list.weights(0..list.len(), &mut weights)?;
        // Each row of the block must have exactly one value, so the weights must add up to the number of rows.
        if let Some(rows) = list.rows()
            && weights.iter().sum::<u64>() != rows
        {
            let found = weights.iter().sum::<u64>();
            return Err(Error::corrupt(format!("the values of a column are those of {found} rows, not of {rows}")));
        }
        let range = 0..list.len();
        let origin = GroupRowOrigin::List { column, list: Box::new(list) };
        Ok(Some(PartRows { weights: Some(weights), ..PartRows::new(functions, origin, range) }))
    }

    /// The rows as the values of the only column that is read. Each value represents `weights` rows.
    pub(super) fn of_values(
        functions: &'a [Arc<dyn VectorFunction>],
        column: usize,
        values: ArrayRef,
        weights: Vec<u64>,
    ) -> PartRows<'a> {
        let range = 0..values.len();
        let origin = GroupRowOrigin::Values { column, values };
        PartRows { weights: Some(weights), ..PartRows::new(functions, origin, range) }
    }

    /// The rows of an open run that are not deleted, pass `filter` and pass the filters of joins.
    pub(super) fn of_run(
        table: &'a TableDef,
        functions: &'a [Arc<dyn VectorFunction>],
        run: &'a OpenRun,
        filter: &Filter,
        offered: &OfferedFilters,
    ) -> Result<PartRows<'a>> {
        let mut mask = rows_of_run(table, run, filter, &(0..run.rows()))?;
        offered.keep_rows(&mut mask, &mut values_of_run(table, run))?;
        let positions = positions_of(&mask);
        let origin = GroupRowOrigin::Run(run, table);
        Ok(PartRows { positions, ..PartRows::new(functions, origin, 0..run.rows()) })
    }

    /// The rows of a batch.
    pub(super) fn of_batch(functions: &'a [Arc<dyn VectorFunction>], batch: &'a RecordBatch) -> PartRows<'a> {
        let origin = GroupRowOrigin::Batch(batch);
        PartRows::new(functions, origin, 0..batch.num_rows())
    }

    /// The rows of several batches.
    pub(super) fn of_coded(functions: &'a [Arc<dyn VectorFunction>], rows: &'a CodedRows) -> PartRows<'a> {
        PartRows::new(functions, GroupRowOrigin::Coded(rows), 0..rows.len())
    }

    /// Whether some columns may come as codes. Finding groups by codes first then saves work.
    pub(super) fn has_codes(&self) -> bool {
        matches!(self.origin, GroupRowOrigin::Block(..) | GroupRowOrigin::List { .. } | GroupRowOrigin::Coded(_))
    }

    /// The number of rows that are in.
    pub(super) fn len(&self) -> usize {
        self.positions.as_ref().map_or(self.range.len(), Vec::len)
    }

    /// Whether no row of the block was left out, so that each value of its lists has a row.
    pub(super) fn is_whole(&self) -> bool {
        match &self.origin {
            GroupRowOrigin::Block(shared, _) => self.len() == shared.state.block().rows(),
            origin => matches!(origin, GroupRowOrigin::List { .. }),
        }
    }

    /// The list of the values of a column that some row has, and for each row the place of its value there, or the
    /// number of values for NULL. Decodes no value. `None` if the column has no list.
    pub(super) fn listed(&self, column: usize) -> Result<Option<(ValueList, Vec<u32>)>> {
        let (shared, table) = match &self.origin {
            GroupRowOrigin::Block(shared, table) => (shared, table),
            GroupRowOrigin::List { column: of_list, list } if *of_list == column => {
                return Ok(Some((ValueList::clone(list), (0..list.len() as u32).collect())));
            }
            _ => return Ok(None),
        };
        let Some(chunk) = shared.state.listed_chunk(table, column)? else { return Ok(None) };
        let mut codes = self.codes_in(&chunk)?;
        let used = if self.is_whole() { None } else { Some(numbered(&mut codes)) };
        Ok(Some((ValueList::of_chunk(Arc::new(chunk), used), codes)))
    }

    /// The number of table rows that each row represents.
    pub(super) fn weights(&self) -> Option<&[u64]> {
        self.weights.as_deref()
    }

    /// The values of `expr`, one for each row that is in.
    pub(super) fn values(&self, expr: Expr) -> Result<PartValues> {
        match expr {
            Expr::Column(column) => self.column_once(column),
            Expr::Function(function) => {
                let function = &*self.functions[function];
                self.computed(function, function.columns())
            }
        }
    }

    /// The values of a key, one for each row that is in. They count as a list if they are distinct, even in no order:
    /// their codes tell groups apart.
    pub(super) fn key(&self, expr: Expr) -> Result<PartValues> {
        let values = self.values(expr)?;
        Ok(match (&self.origin, expr) {
            (GroupRowOrigin::Coded(rows), Expr::Column(column)) if rows.is_coded(column) => {
                PartValues { is_list: true, ..values }
            }
            _ => values,
        })
    }

    /// The rows of a block at `places` among these rows, which must ascend.
    pub(super) fn only(&self, places: &[u32]) -> PartRows<'a> {
        let GroupRowOrigin::Block(shared, table) = &self.origin else {
            unreachable!("only rows of a block can be selected by place")
        };
        let at = |place: &u32| match &self.positions {
            Some(positions) => positions[*place as usize],
            None => self.range.start as u32 + place,
        };
        let positions = (places.len() < self.range.len()).then(|| places.iter().map(at).collect());
        let origin = GroupRowOrigin::Block(Arc::clone(shared), table);
        PartRows { positions, ..PartRows::new(self.functions, origin, self.range.clone()) }
    }

    /// The number of these rows that should be taken at once to compute `exprs` of them, so that the values stay in a
    /// core's cache. All of them, if the value list of a column serves many rows.
    pub(super) fn rows_at_once(&self, exprs: impl Iterator<Item = Expr>) -> Result<usize> {
        let GroupRowOrigin::Block(shared, table) = &self.origin else { return Ok(self.len()) };
        for expr in exprs {
            let columns = match &expr {
                Expr::Column(column) => std::slice::from_ref(column),
                Expr::Function(function) => self.functions[*function].columns(),
            };
            for column in columns {
                let values = shared.state.chunk(table, *column)?.filter(|chunk| chunk.has_values());
                let values = values.and_then(Chunk::distinct).unwrap_or_default();
                if values * ROWS_PER_VALUE > ROWS_PER_PIECE {
                    return Ok(self.len());
                }
            }
        }
        Ok(ROWS_PER_PIECE)
    }

    /// Some of the rows of a block, by their places among these rows.
    pub(super) fn slice(&self, places: Range<usize>) -> PartRows<'a> {
        let GroupRowOrigin::Block(shared, table) = &self.origin else {
            unreachable!("only rows of a block are taken in slices")
        };
        let origin = GroupRowOrigin::Block(Arc::clone(shared), table);
        match &self.positions {
            None => {
                let start = self.range.start + places.start;
                PartRows::new(self.functions, origin, start..start + places.len())
            }
            Some(positions) => {
                let positions = Some(positions[places].to_vec());
                PartRows { positions, ..PartRows::new(self.functions, origin, self.range.clone()) }
            }
        }
    }

    /// The values of a column. Keeps those of a block for the next call.
    pub(super) fn column_once(&self, column: usize) -> Result<PartValues> {
        if !matches!(self.origin, GroupRowOrigin::Block(..)) {
            return self.column(column);
        }
        if let Some((_, values)) = self.columns_read.borrow().iter().find(|(read, _)| *read == column) {
            return Ok(values.clone());
        }
        let values = self.column(column)?;
        self.columns_read.borrow_mut().push((column, values.clone()));
        Ok(values)
    }

    /// The values of a column.
    pub(super) fn column(&self, column: usize) -> Result<PartValues> {
        match &self.origin {
            GroupRowOrigin::List { column: of_list, list } => {
                assert_eq!(*of_list, column, "rows that are a value list have only its column");
                Ok(PartValues { values: list.all_values()?, codes: None, is_list: true })
            }
            GroupRowOrigin::Values { column: of_values, values } => {
                assert_eq!(*of_values, column, "rows that are values have only their column");
                Ok(PartValues { values: Arc::clone(values), codes: None, is_list: false })
            }
            GroupRowOrigin::Batch(batch) => match batch.columns().get(column) {
                Some(values) => Ok(PartValues { values: Arc::clone(values), codes: None, is_list: false }),
                None => Err(Error::internal(format!("column {column} of a batch of {} columns", batch.num_columns()))),
            },
            GroupRowOrigin::Coded(rows) => match rows.column(column) {
                Some(values) => Ok(values.clone()),
                None => Err(Error::internal(format!("column {column} of gathered batches was not kept"))),
            },
            GroupRowOrigin::Run(run, table) => {
                Ok(PartValues { values: self.pick(&run.values(table, column)?)?, codes: None, is_list: false })
            }
            GroupRowOrigin::Block(shared, table) => {
                let state = &shared.state;
                let chunk = state.chunk(table, column)?;
                // With fewer rows than distinct values, decode only the values of these rows.
                if let (Some(chunk), Some(positions)) = (chunk, &self.positions)
                    && positions.len() < chunk.distinct().unwrap_or_default()
                    && let Some((values, codes)) = chunk.take_listed(positions)?
                {
                    return Ok(PartValues { values, codes: Some(Arc::new(codes)), is_list: true });
                }
                if let Some(chunk) = chunk
                    && let Some(values) = listed(chunk)?
                {
                    return Ok(PartValues { values, codes: Some(Arc::new(self.codes_in(chunk)?)), is_list: true });
                }
                let values = match &self.positions {
                    Some(positions) => state.take(table, column, positions)?,
                    None => state.read(table, column, self.range.clone())?,
                };
                Ok(PartValues { values, codes: None, is_list: false })
            }
        }
    }

    /// Computes a function of `columns` for the rows that are in. It must not be computed for any other row, because it
    /// may fail there.
    pub(super) fn computed(&self, function: &dyn VectorFunction, columns: &[usize]) -> Result<PartValues> {
        let [column] = columns else {
            if let (Some(case), GroupRowOrigin::Block(..), 1..) = (function.case(), &self.origin, self.len()) {
                return self.chosen(case, columns);
            }
            let columns = columns.iter().map(|column| self.column_once(*column));
            let columns = columns.collect::<Result<Vec<PartValues>>>()?;
            // Rows of several joined tables rarely agree in a text and in a number.
            let may_be_alike =
                !matches!(self.origin, GroupRowOrigin::Coded(_)) || columns.iter().all(|column| column.codes.is_some());
            if may_be_alike && let Some(values) = self.computed_once_per_codes(function, &columns)? {
                return Ok(values);
            }
            let values = match function.column_parts() {
                Some(of)
                    if columns.iter().any(|column| column.codes.is_some())
                        || of.parts.iter().any(|part| part.is_costly()) =>
                {
                    self.computed_of_parts(function, of, columns)?
                }
                _ => {
                    let columns = columns.into_iter().map(by_row).collect::<Result<Vec<_>>>()?;
                    evaluate_in_pieces(function, &columns, self.len())?
                }
            };
            return Ok(PartValues { values, codes: None, is_list: false });
        };
        // The lengths of listed texts are read without decoding the texts in full.
        if let Some((unit, of_lengths)) = function.of_lengths()
            && let Some(lengths) = self.lengths(*column, unit)?
        {
            return self.computed_once_per_value(of_lengths, lengths);
        }
        if let Some(values) = self.spanned(function, *column)? {
            return self.computed_once_per_value(function, values);
        }
        self.computed_once_per_value(function, self.column_once(*column)?)
    }

    /// The values of a column of a block in the form of a value list, if its integers have a narrow range, and if the
    /// function that is computed of them costs more than finding their codes.
    fn spanned(&self, function: &dyn VectorFunction, column: usize) -> Result<Option<PartValues>> {
        let GroupRowOrigin::Block(shared, table) = &self.origin else { return Ok(None) };
        let chunk = if function.is_costly() { shared.state.chunk(table, column)? } else { None };
        let Some(chunk) = chunk.filter(|chunk| !chunk.has_values()) else { return Ok(None) };
        let Some(span) = IntegerSpanList::of(chunk, self.len() / ROWS_PER_VALUE)? else { return Ok(None) };
        let (values, codes) = span.with_codes(|out| match &self.positions {
            Some(positions) => chunk.take_integers(positions, out),
            None => chunk.integers(self.range.clone(), out),
        })?;
        Ok(Some(PartValues { values, codes: Some(Arc::new(codes)), is_list: true }))
    }

    /// Computes a function of several columns, given these columns and the parts of the function.
    fn computed_of_parts(
        &self,
        function: &dyn VectorFunction,
        of: &ColumnParts,
        columns: Vec<PartValues>,
    ) -> Result<ArrayRef> {
        let part = |place: usize| {
            let part = &*of.parts[place];
            let [column] = part.columns() else { return Err(Error::internal("a part of a function reads one column")) };
            let values = match self.spanned(part, function.columns()[*column])? {
                Some(values) => values,
                None => columns[*column].clone(),
            };
            by_row(self.computed_once_per_value(part, values)?)
        };
        let read = of.whole.columns().iter().map(|place| match place.checked_sub(columns.len()) {
            None => by_row(columns[*place].clone()),
            Some(place) => part(place),
        });
        evaluate_in_pieces(&*of.whole, &read.collect::<Result<Vec<_>>>()?, self.len())
    }

    /// Computes a function of one column, given that column.
    fn computed_once_per_value(&self, function: &dyn VectorFunction, column: PartValues) -> Result<PartValues> {
        let PartValues { values, codes, .. } = column;
        let Some(codes) = codes else {
            return Ok(PartValues {
                values: evaluate_in_pieces(function, &[values], self.len())?,
                codes: None,
                is_list: false,
            });
        };
        // With at least as many values as rows, computing once per value would save nothing.
        if codes.len() <= values.len() {
            let values = by_row(PartValues { values, codes: Some(codes), is_list: true })?;
            return Ok(PartValues {
                values: evaluate_in_pieces(function, &[values], self.len())?,
                codes: None,
                is_list: false,
            });
        }
        // Computing some numbers in vain costs less than finding out which of them are used. An error may be that of a
        // value that is not used, so it does not count.
        if width_of(values.data_type()).is_some()
            && let Ok(computed) = evaluate_in_pieces(function, &[Arc::clone(&values)], values.len())
        {
            return Ok(PartValues { values: computed, codes: Some(codes), is_list: false });
        }
        let (values, codes) = only_used(values, codes)?;
        let rows = values.len();
        let values = evaluate_in_pieces(function, &[values], rows)?;
        Ok(PartValues { values, codes: Some(codes), is_list: false })
    }

    /// Computes a function of several columns once per distinct combination of values. `None` where that saves little:
    /// no column has texts with codes, or hardly any two rows are alike.
    fn computed_once_per_codes(
        &self,
        function: &dyn VectorFunction,
        columns: &[PartValues],
    ) -> Result<Option<PartValues>> {
        let spares_texts = |column: &PartValues| column.codes.is_some() && is_text(column.values.data_type());
        // Floats that are equal may differ in their bits, and a function may tell them apart.
        let are_codes_exact = |column: &PartValues| {
            let kind = column.values.data_type();
            is_text(kind) || (width_of(kind).is_some() && !kind.is_floating())
        };
        if !columns.iter().any(spares_texts) || !columns.iter().all(are_codes_exact) {
            return Ok(None);
        }
        let Some(LocalGroups { groups, first_rows }) = local::group(columns, self.len())? else { return Ok(None) };
        // With few repeats, computing once per combination costs more than it saves.
        if first_rows.len() * 2 > self.len() {
            return Ok(None);
        }
        let first = |PartValues { values, codes, .. }: &PartValues| match codes {
            Some(codes) => take(values, &first_rows.iter().map(|row| codes[*row as usize]).collect::<Vec<_>>()),
            None => take(values, &first_rows),
        };
        let columns = columns.iter().map(first).collect::<Result<Vec<_>>>()?;
        let values = evaluate_in_pieces(function, &columns, first_rows.len())?;
        Ok(Some(PartValues { values, codes: Some(Arc::new(groups)), is_list: false }))
    }

    /// The values of expressions of integers or decimals that are known to fit 64 bits and to be never NULL. Reads a
    /// piece of the block at a time, so that the columns of the piece stay in a cache. An entry is `None` if a value
    /// list would serve better or the rows are not of a block.
    pub(super) fn words(&self, exprs: &[Expr]) -> Result<Vec<Option<Vec<i64>>>> {
        let mut columns: Vec<(usize, &Chunk, Vec<i64>)> = Vec::new();
        let mut found: Vec<Option<IntegerWords<'_>>> = Vec::with_capacity(exprs.len());
        for expr in exprs {
            // Collect the columns of all expressions first, so that each column is read once per piece.
            found.push(self.words_of(expr, false)?);
            for (column, chunk) in found.iter().flatten().flat_map(|words| &words.columns) {
                if !columns.iter().any(|(known, ..)| known == column) {
                    columns.push((*column, chunk, Vec::with_capacity(ROWS_PER_PIECE.min(self.len()))));
                }
            }
            found.last_mut().into_iter().flatten().for_each(|words| words.values.reserve_exact(self.len()));
        }
        if columns.is_empty() {
            return Ok(exprs.iter().map(|_| None).collect());
        }
        for start in (0..self.len()).step_by(ROWS_PER_PIECE) {
            let rows = start..(start + ROWS_PER_PIECE).min(self.len());
            for (_, chunk, piece) in &mut columns {
                piece.clear();
                match &self.positions {
                    Some(positions) => chunk.take_integers(&positions[rows.clone()], piece)?,
                    None => chunk.integers(self.range.start + rows.start..self.range.start + rows.end, piece)?,
                }
            }
            for words in found.iter_mut().flatten() {
                let piece = |column: usize| columns.iter().find(|(known, ..)| *known == column);
                let pieces = words.columns.iter().filter_map(|(column, _)| piece(*column)).map(|(.., piece)| &**piece);
                words.arithmetic.evaluate(&pieces.collect::<Vec<_>>(), rows.len(), &mut words.values);
            }
        }
        Ok(found.into_iter().map(|words| words.map(|words| words.values)).collect())
    }

    /// An expression of integers of a block. `takes_lists` says whether it may be a single column that has a value
    /// list.
    fn words_of(&self, expr: &Expr, takes_lists: bool) -> Result<Option<IntegerWords<'_>>> {
        let GroupRowOrigin::Block(shared, table) = &self.origin else { return Ok(None) };
        let (columns, arithmetic) = match expr {
            Expr::Column(column) => (std::slice::from_ref(column), &Arithmetic::Column(0)),
            Expr::Function(function) => {
                let function = &self.functions[*function];
                let Some(arithmetic) = function.arithmetic() else { return Ok(None) };
                (function.columns(), arithmetic)
            }
        };
        let mut read = Vec::with_capacity(columns.len());
        for column in columns {
            match shared.state.chunk(table, *column)? {
                Some(chunk) if takes_lists || !chunk.has_values() || columns.len() > 1 => read.push((*column, chunk)),
                _ => return Ok(None),
            }
        }
        Ok(Some(IntegerWords { arithmetic, columns: read, values: Vec::new() }))
    }

    /// The expressions that [`PartRows::words`] takes, prepared to be computed piece by piece. Leaves out an expression
    /// with a column whose value list is longer than the rows.
    pub(super) fn word_pieces(&self, exprs: &[Expr]) -> Result<WordPieces<'_>> {
        let mut pieces = WordPieces {
            range: self.range.clone(),
            positions: self.positions.as_deref(),
            columns: Vec::new(),
            steps: SharedSteps::default(),
            results: Vec::with_capacity(exprs.len()),
        };
        let is_short = |chunk: &Chunk| !chunk.has_values() || chunk.distinct().unwrap_or_default() <= self.len();
        for expr in exprs {
            let words =
                self.words_of(expr, true)?.filter(|words| words.columns.iter().all(|(_, chunk)| is_short(chunk)));
            let result = words.map(|words| pieces.add(&words));
            pieces.results.push(result);
        }
        Ok(pieces)
    }

    /// The lengths of listed texts, as INTEGERs. `None` if there is no list, or if few of its texts belong to rows that
    /// are in.
    fn lengths(&self, column: usize, unit: LengthUnit) -> Result<Option<PartValues>> {
        let GroupRowOrigin::Block(shared, table) = &self.origin else { return Ok(None) };
        let Some(chunk) = shared.state.chunk(table, column)? else { return Ok(None) };
        if self.positions.as_ref().is_some_and(|positions| positions.len() < chunk.distinct().unwrap_or_default()) {
            return Ok(None);
        }
        let Some(lengths) = chunk.lengths(unit)? else { return Ok(None) };
        let null = (chunk.null_count() > 0).then_some(None);
        // No text has two gigabytes, so its length fits an INTEGER.
        let lengths = lengths.into_iter().map(|length| Some(length as i32)).chain(null);
        let values = Arc::new(lengths.collect::<Int32Array>());
        Ok(Some(PartValues { values, codes: Some(Arc::new(self.codes_in(chunk)?)), is_list: false }))
    }

    /// The codes of the rows of a block that are in.
    pub(super) fn codes_in(&self, chunk: &Chunk) -> Result<Vec<u32>> {
        let mut codes = Vec::with_capacity(self.len());
        match &self.positions {
            Some(positions) => chunk.take_codes(positions, &mut codes)?,
            None => chunk.codes(self.range.clone(), &mut codes)?,
        }
        Ok(codes)
    }

    /// The values of `expr`, computed only for the rows whose bit is set. The values of other rows are arbitrary and
    /// must not be read.
    pub(super) fn values_where(&self, expr: Expr, bits: &BooleanBuffer) -> Result<PartValues> {
        let Expr::Function(function) = expr else { return self.values(expr) };
        let function = &*self.functions[function];
        let rows: Vec<u32> = bits.set_indices().map(|row| row as u32).collect();
        let columns = function.columns().iter().map(|column| take(&by_row(self.column(*column)?)?, &rows));
        let values = evaluate_in_pieces(function, &columns.collect::<Result<Vec<_>>>()?, rows.len())?;
        // Rows whose bit is not set keep the code 0, which is the value of some other row.
        let mut codes = vec![0; self.len()];
        rows.iter().zip(0..).for_each(|(row, place)| codes[*row as usize] = place);
        Ok(PartValues { values, codes: Some(Arc::new(codes)), is_list: false })
    }

    fn pick(&self, values: &ArrayRef) -> Result<ArrayRef> {
        match &self.positions {
            Some(positions) => take(values, positions),
            None => Ok(Arc::clone(values)),
        }
    }
}

/// The rows for each value of a list from which decoding the list, or computing a function of its values, costs little
/// beside the rows.
const ROWS_PER_VALUE: usize = 8;

/// The results of a function for `rows` rows, computed in pieces, so that its scratch memory stays small.
pub(crate) fn evaluate_in_pieces(function: &dyn VectorFunction, columns: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    if rows <= ROWS_PER_PIECE {
        return function.evaluate(columns, rows);
    }
    let pieces = (0..rows).step_by(ROWS_PER_PIECE).map(|start| {
        let rows = ROWS_PER_PIECE.min(rows - start);
        let columns: Vec<ArrayRef> = columns.iter().map(|column| column.slice(start, rows)).collect();
        function.evaluate(&columns, rows)
    });
    concat(&pieces.collect::<Result<Vec<_>>>()?)
}

/// The values that some code refers to, and the codes of these values.
fn only_used(values: ArrayRef, codes: Arc<Vec<u32>>) -> Result<(ArrayRef, Arc<Vec<u32>>)> {
    let mut places = vec![u32::MAX; values.len()];
    codes.iter().for_each(|code| places[*code as usize] = 0);
    let used: Vec<u32> = (0..values.len() as u32).filter(|code| places[*code as usize] == 0).collect();
    if used.len() == values.len() {
        return Ok((values, codes));
    }
    // Renumber the used values in their order.
    used.iter().enumerate().for_each(|(place, code)| places[*code as usize] = place as u32);
    let mut codes = Arc::unwrap_or_clone(codes);
    codes.iter_mut().for_each(|code| *code = places[*code as usize]);
    Ok((take(&values, &used)?, Arc::new(codes)))
}

/// Expands values with codes to one value per row.
pub(super) fn by_row(PartValues { values, codes, .. }: PartValues) -> Result<ArrayRef> {
    match codes {
        Some(codes) => take(&values, &codes),
        None => Ok(values),
    }
}

/// Concatenates arrays. The bytes of texts are not copied.
pub(crate) fn concat(parts: &[ArrayRef]) -> Result<ArrayRef> {
    let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
    arrow::compute::concat(&parts).map_err(|error| Error::internal(error.to_string()))
}

/// The values for which a condition on their column is true.
pub(super) fn values_where(values: &ArrayRef, condition: &Predicate) -> Result<ArrayRef> {
    let truth = evaluate(condition, values.len(), &mut |_| Ok(Arc::clone(values)))?;
    arrow::compute::filter(values, &truth).map_err(|error| Error::internal(error.to_string()))
}

/// The values at some positions.
pub(crate) fn take(values: &ArrayRef, positions: &[u32]) -> Result<ArrayRef> {
    let positions = UInt32Array::from(positions.to_vec());
    arrow::compute::take(values, &positions, None).map_err(|error| Error::internal(error.to_string()))
}
