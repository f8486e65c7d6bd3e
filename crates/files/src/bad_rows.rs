//! Collects the rows of a block of text that cannot be read.

use std::collections::BTreeMap;

use crate::mapping::TargetColumn;
use crate::report::Complaint;
use rowmill_expr::text::column_builder::{BuilderTexts, ColumnBuilder};
use rowmill_expr::text::reader::Problem;

/// The texts of one column of a block. Knows the rows with NULLs that the column does not allow.
pub(crate) trait BlockTexts: BuilderTexts {
    fn nulls(&mut self) -> &mut Nulls;
}

/// The NULLs of a column.
pub(crate) struct Nulls {
    allowed: bool,
    refused: Vec<usize>,
}

impl Nulls {
    pub(crate) fn new(target: &TargetColumn) -> Nulls {
        Nulls { allowed: target.nullable, refused: Vec::new() }
    }

    /// Returns NULL as the text of `row`, and notes the row if the column does not allow NULL.
    pub(crate) fn null<'a>(&mut self, row: usize) -> Option<&'a str> {
        if !self.allowed {
            self.refused.push(row);
        }
        None
    }
}

/// For each bad row, its first bad column and the problem there.
#[derive(Default)]
pub(crate) struct BadRows(BTreeMap<usize, (usize, Problem)>);

impl BadRows {
    /// Appends `rows` texts to the builder of a column, and notes the rows whose value it cannot hold.
    pub(crate) fn append(
        &mut self,
        column: usize,
        builder: &mut ColumnBuilder,
        texts: &mut impl BlockTexts,
        rows: usize,
    ) {
        let mut found = |row: usize, problem: Problem| {
            // Columns are appended in order, so the first problem of a row stays.
            self.0.entry(row).or_insert((column, problem));
        };
        builder.append_all(texts, rows, &mut found);
        for row in std::mem::take(&mut texts.nulls().refused) {
            found(row, Problem::Null);
        }
    }

    /// The complaint about each bad row, in order. `texts` must return the texts of a column again.
    pub(crate) fn complaints<T: BuilderTexts>(
        &self,
        target: &[TargetColumn],
        guess_hint: Option<&str>,
        texts: impl Fn(usize) -> T,
    ) -> impl Iterator<Item = (usize, Complaint)> {
        self.0.iter().map(move |(row, (column, problem))| {
            let TargetColumn { name, kind, .. } = &target[*column];
            let complaint = Complaint::value(name, kind, texts(*column).text(*row).unwrap_or_default(), *problem);
            (*row, guess_hint.into_iter().fold(complaint, Complaint::hint))
        })
    }

    pub(crate) fn into_rows(self) -> impl ExactSizeIterator<Item = usize> {
        self.0.into_keys()
    }
}
