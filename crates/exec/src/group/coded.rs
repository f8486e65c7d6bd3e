//! Batches whose texts become codes, so that rows are grouped by numbers.
//!
//! The texts of a batch mostly come from a dimension or from the value list of a block, so that few texts repeat in
//! many rows. A worker gives each text that it meets a number, and gathers batches until they have [`CODED_ROWS_MAX`]
//! rows. These are then grouped like the rows of a block: a text is hashed and compared once for each of their groups,
//! not for each row, and a function of a text is computed once for each text. Batches without texts are gathered if
//! their rows have many groups, so that each group of the gathered rows is put into its partition once.
//!
//! ```text
//!   ['Music', 'Books', 'Music']  ->  codes [0, 1, 0]  ┐
//!   ['Books', 'Shoes']           ->  codes [1, 2]     ┴─>  values ['Music', 'Books', 'Shoes'], codes [0, 1, 0, 1, 2]
//! ```

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use rowmill_base::{Broker, Reservation, Result};
use rowmill_plan::{Expr, GroupKey};

use super::OWNER;
use super::key_values::KeyValues;
use super::layout::GroupLayout;
use super::rows::{PartValues, concat};
use super::table::GroupTable;
use super::texts::TextStore;
use crate::cache::ROWS_PARTITIONED_AT_ONCE;
use crate::join::own_bytes;
use crate::text_memo::{TextMemo, ViewedTexts};

/// Rows that are gathered: half the rows of a full block. With fewer rows, more groups are met several times.
pub(super) const CODED_ROWS_MAX: usize = 1 << 18;
/// Rows of a batch from which batches are gathered. Fewer rows can be grouped in the time that it takes to make a table
/// of texts.
pub(super) const GATHERED_ROWS_MIN: usize = if cfg!(test) { 1 } else { 1 << 10 };
/// Texts up to which a column is coded. The numbers of more texts would not fit the table that remembers them.
const TEXTS_MAX: usize = if cfg!(test) { 1 << 6 } else { 1 << 16 };
/// Rows after which hardly any text may be new. With 18,000 texts in random order, eight in ten rows still have a new
/// one.
const TRIAL_ROWS: usize = if cfg!(test) { 1 << 5 } else { 1 << 13 };
/// The rows of a build side for which a table that remembers texts has its full size.
const MEMO_ROWS: usize = TEXTS_MAX;

/// The texts of one column, each with its number.
struct TextCodes {
    column: usize,
    layout: GroupLayout,
    /// The texts in the order of their numbers. NULL is one of them.
    table: GroupTable,
    texts: TextStore,
    memo: TextMemo,
    /// The codes of the gathered rows.
    codes: Vec<u32>,
    /// All rows so far.
    rows: usize,
    /// The words and numbers of texts that are looked up, kept for the next batch.
    words: Vec<u64>,
    numbers: Vec<u32>,
    entries: Vec<u32>,
}

impl TextCodes {
    fn new(column: usize, batch: &RecordBatch, broker: &Broker) -> Result<TextCodes> {
        let kind = batch.column(column).data_type().clone();
        let key = GroupKey { expr: Expr::Column(0), kind, nullable: true };
        let reservation = || broker.reservation(OWNER);
        Ok(TextCodes {
            column,
            layout: GroupLayout::new(&[key], |_| &[], 0)?,
            table: GroupTable::new(reservation()),
            texts: TextStore::new(reservation()),
            memo: TextMemo::new(MEMO_ROWS),
            codes: Vec::new(),
            rows: 0,
            words: Vec::new(),
            numbers: Vec::new(),
            entries: Vec::new(),
        })
    }

    /// Whether the texts repeat.
    fn is_useful(&self) -> bool {
        let hardly_repeat = self.rows >= TRIAL_ROWS && self.table.len() * 10 > self.rows * 9;
        self.memo.is_useful() && self.table.len() <= TEXTS_MAX && !hardly_repeat
    }

    /// Appends the codes of `values`.
    fn push(&mut self, values: &ArrayRef) -> Result<()> {
        let viewed = ViewedTexts::of(values).expect("a coded column has texts");
        let unknown = self.memo.look_up(&viewed, &mut self.entries);
        let of_rows = PartValues { values: Arc::clone(values), codes: None, is_list: false };
        let keys = KeyValues::new(&self.layout, std::slice::from_ref(&of_rows), values.len())?;
        for rows in unknown.chunks(ROWS_PARTITIONED_AT_ONCE) {
            self.words.clear();
            self.words.resize(rows.len() * self.layout.stride, 0);
            keys.write(rows.iter().map(|row| *row as usize), &mut self.words);
            self.numbers.clear();
            self.table.find(&self.layout, &self.words, &keys, &mut self.texts, &mut self.numbers)?;
            for (row, number) in rows.iter().zip(&self.numbers) {
                self.entries[*row as usize] = *number;
                self.memo.note(&viewed, *row, *number);
            }
        }
        self.codes.extend_from_slice(&self.entries);
        self.rows += self.entries.len();
        Ok(())
    }

    /// The gathered rows.
    fn take(&mut self) -> Result<PartValues> {
        let mut values = self.layout.keys(self.table.rows(), &self.texts, &[])?;
        let codes = Some(Arc::new(std::mem::take(&mut self.codes)));
        Ok(PartValues { values: values.swap_remove(0), codes, is_list: false })
    }
}

/// The gathered batches of a worker.
pub(super) struct CodedBatches {
    texts: Vec<TextCodes>,
    /// For each column of the batches, its parts. Only columns without codes that the grouping reads have any.
    others: Vec<Option<Vec<ArrayRef>>>,
    rows: usize,
    memory: Reservation,
}

/// Gathered rows.
pub(super) struct CodedRows {
    columns: Vec<Option<PartValues>>,
    coded: Vec<usize>,
    rows: usize,
}

impl CodedBatches {
    /// Begins with batches like `batch`. `coded` are the columns of texts that become codes, `read` are all columns
    /// that the grouping reads.
    pub(super) fn new(coded: &[usize], read: &[usize], batch: &RecordBatch, broker: &Broker) -> Result<CodedBatches> {
        let mut memory = broker.reservation(OWNER);
        memory.grow(TextMemo::bytes(MEMO_ROWS) * coded.len() as u64)?;
        let texts = coded.iter().map(|column| TextCodes::new(*column, batch, broker));
        let is_kept = |column: usize| read.contains(&column) && !coded.contains(&column);
        let others = (0..batch.num_columns()).map(|column| is_kept(column).then(Vec::new)).collect();
        Ok(CodedBatches { texts: texts.collect::<Result<_>>()?, others, rows: 0, memory })
    }

    /// Whether the texts of all coded columns repeat.
    pub(super) fn is_useful(&self) -> bool {
        self.texts.iter().all(TextCodes::is_useful)
    }

    /// The number of gathered rows.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Gathers a batch. After an error the batch is not among the gathered rows.
    pub(super) fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        let bytes =
            |parts: &Option<Vec<ArrayRef>>, values: &ArrayRef| if parts.is_some() { own_bytes(values) } else { 0 };
        let others: usize = self.others.iter().zip(batch.columns()).map(|(parts, values)| bytes(parts, values)).sum();
        let codes = self.texts.len() * batch.num_rows() * size_of::<u32>();
        let pushed = self
            .memory
            .grow((others + codes) as u64)
            .and_then(|()| self.texts.iter_mut().try_for_each(|texts| texts.push(batch.column(texts.column))));
        if let Err(error) = pushed {
            self.texts.iter_mut().for_each(|texts| texts.codes.truncate(self.rows));
            return Err(error);
        }
        for (parts, values) in self.others.iter_mut().zip(batch.columns()) {
            if let Some(parts) = parts {
                parts.push(Arc::clone(values));
            }
        }
        self.rows += batch.num_rows();
        Ok(())
    }

    /// Takes the gathered rows. There must be at least one. The worker keeps the numbers of the texts.
    pub(super) fn take(&mut self) -> Result<CodedRows> {
        let other = |parts: &mut Option<Vec<ArrayRef>>| {
            let Some(parts) = parts else { return Ok(None) };
            let values = concat(&std::mem::take(parts))?;
            Ok(Some(PartValues { values, codes: None, is_list: false }))
        };
        let mut columns = self.others.iter_mut().map(other).collect::<Result<Vec<_>>>()?;
        for texts in &mut self.texts {
            columns[texts.column] = Some(texts.take()?);
        }
        self.memory.recount(TextMemo::bytes(MEMO_ROWS) * self.texts.len() as u64);
        let coded = self.texts.iter().map(|texts| texts.column).collect();
        Ok(CodedRows { columns, coded, rows: std::mem::take(&mut self.rows) })
    }
}

impl CodedRows {
    /// The number of rows.
    pub(super) fn len(&self) -> usize {
        self.rows
    }

    /// The values of a column, if the grouping reads it.
    pub(super) fn column(&self, column: usize) -> Option<&PartValues> {
        self.columns.get(column)?.as_ref()
    }

    /// Whether a column has codes. Its values are distinct then, but in no order.
    pub(super) fn is_coded(&self, column: usize) -> bool {
        self.coded.contains(&column)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{AsArray, Int64Array, StringViewArray};
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    fn batch(rows: impl Iterator<Item = (Option<String>, i64)>) -> RecordBatch {
        let (texts, numbers): (Vec<Option<String>>, Vec<i64>) = rows.unzip();
        let texts: ArrayRef = Arc::new(StringViewArray::from_iter(texts.iter().map(Option::as_ref)));
        let numbers: ArrayRef = Arc::new(Int64Array::from(numbers));
        RecordBatch::try_from_iter([("text", texts), ("number", numbers)]).expect("two columns")
    }

    #[test]
    fn gathered_rows_have_their_texts_and_numbers() {
        let random = &mut SmallRng::seed_from_u64(3);
        let broker = Broker::new(1 << 30);
        let first = batch(std::iter::empty());
        let mut gathered = CodedBatches::new(&[0], &[0, 1], &first, &broker).expect("memory");
        for _ in 0..20 {
            let mut rows: Vec<(Option<String>, i64)> = Vec::new();
            for _ in 0..random.random_range(1..5) {
                let more: Vec<(Option<String>, i64)> = (0..random.random_range(1..30))
                    .map(|row| {
                        let text = match random.random_range(0..9) {
                            0 => None,
                            number @ 1..5 => Some(format!("t{number}")),
                            number => Some(format!("a text that is longer than a view, {number}")),
                        };
                        (text, row)
                    })
                    .collect();
                gathered.push(&batch(more.iter().cloned())).expect("memory");
                rows.extend(more);
            }
            let coded = gathered.take().expect("rows");
            assert!(coded.len() == rows.len() && coded.is_coded(0) && !coded.is_coded(1));
            let (texts, numbers) = (coded.column(0).expect("a column"), coded.column(1).expect("a column"));
            let codes = texts.codes.as_ref().expect("codes");
            let values = texts.values.as_string_view();
            for (row, (text, number)) in rows.iter().enumerate() {
                let code = codes[row] as usize;
                let value = values.is_valid(code).then(|| values.value(code));
                assert_eq!(
                    (value, numbers.values.as_primitive::<arrow::datatypes::Int64Type>().value(row)),
                    (text.as_deref(), *number)
                );
            }
            let distinct: std::collections::HashSet<Option<&str>> = values.iter().collect();
            assert_eq!(distinct.len(), values.len(), "each text has one number");
        }
        drop(gathered);
        assert_eq!(broker.used_bytes(), 0);
    }

    #[test]
    fn texts_that_do_not_repeat_are_not_worth_it_and_a_lack_of_memory_loses_nothing() {
        let broker = Broker::new(TextMemo::bytes(MEMO_ROWS) + 40_000);
        let unique = |rows: std::ops::Range<i64>| batch(rows.map(|row| (Some(format!("text number {row}")), row)));
        let mut gathered = CodedBatches::new(&[0], &[0, 1], &unique(0..0), &broker).expect("memory");
        gathered.push(&unique(0..50)).expect("memory");
        assert!(gathered.push(&unique(50..100_000)).is_err());
        let coded = gathered.take().expect("rows");
        assert_eq!(
            (coded.len(), coded.column(0).expect("texts").codes.as_ref().map(|codes| codes.len())),
            (50, Some(50))
        );
        gathered.push(&unique(1_000..1_050)).expect("memory");
        assert!(!gathered.is_useful());
    }
}
