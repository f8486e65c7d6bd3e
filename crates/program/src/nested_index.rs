//! Finds the rows of a nested read by a value that they must equal.
//!
//! The rows of a nested read that names no outer row are compared with each outer row. If the comparison begins with an
//! equality, only rows with equal values can match. We sort the rows by the hash of that value, and compare an outer
//! row only with the rows of its hash. The whole condition still decides, so equal hashes do no harm.

use std::hash::{DefaultHasher, Hasher};
use std::ops::Range;

use rowmill_base::{Result, SqlType};
use rowmill_plan::CompareOp;
use rowmill_plan::program::{Scalar, ScalarOp};
use rowmill_storage::keyed::ValueRef;

use crate::expr::{Env, Expr, ExprCompiler};
use crate::groups::append_key;
use crate::result_rows::ResultRows;
use crate::texts::ComputedTexts;

/// With fewer rows, comparing all of them is faster.
const ROWS_MIN: usize = 4;

/// An equality between a column of the nested rows and a value of the outer rows.
#[derive(Debug)]
pub(crate) struct EqualColumn {
    /// The column of the nested rows.
    pub(crate) column: usize,
    value: Expr,
    texts: usize,
    /// Whether a NULL makes the comparison unknown, so that rows with NULL must be compared too.
    meets_null: bool,
}

/// The rows in the order of the hashes of one column. It is built for the second outer row, because there may be only
/// one.
#[derive(Debug, Default)]
pub(crate) struct NestedIndex {
    is_asked: bool,
    is_built: bool,
    by_hash: Vec<(u64, usize)>,
    nulls: Vec<usize>,
    texts: ComputedTexts,
    key: Vec<u8>,
}

/// The rows to compare with an outer row.
#[derive(Debug)]
pub(crate) enum Candidates {
    All(Range<usize>),
    /// A part of the rows in the order of hashes, and whether those with NULL follow.
    Some(Range<usize>, bool),
}

impl EqualColumn {
    /// The equality with which `condition` begins, if it has one between a column of row `row` and earlier rows. The
    /// comparison is in three-valued logic if `meets_null` is set.
    pub(crate) fn of(
        condition: Option<&Scalar>,
        row: usize,
        meets_null: bool,
        mut compiler: ExprCompiler<'_>,
    ) -> Result<Option<EqualColumn>> {
        let first = match condition.map(|condition| &condition.op) {
            Some(ScalarOp::And(parts)) => parts.first().map(|first| &first.op),
            first => first,
        };
        // `a IS NOT DISTINCT FROM b` is `coalesce(a = b, ...)`: what follows decides only if a side is NULL.
        let (first, meets_null) = match first {
            Some(ScalarOp::Coalesce(parts)) => (parts.first().map(|first| &first.op), true),
            first => (first, meets_null),
        };
        let Some(ScalarOp::Compare(CompareOp::Equal, sides)) = first else { return Ok(None) };
        for (own, other) in [(&sides[0], &sides[1]), (&sides[1], &sides[0])] {
            let mut is_outer = true;
            other.each_column(&mut |column| is_outer &= column.row < row);
            if let ScalarOp::Column(column) = &own.op
                && column.row == row
                && is_outer
                && have_equal_bytes(&own.kind, &other.kind)
            {
                let value = compiler.expr(other)?;
                return Ok(Some(EqualColumn { column: column.column, value, texts: compiler.texts(), meets_null }));
            }
        }
        Ok(None)
    }
}

/// Whether equal values of the two types have the same hash.
fn have_equal_bytes(left: &SqlType, right: &SqlType) -> bool {
    use SqlType::{Int8, Int16, Int32, Int64, Text};
    let is_integer = |kind: &SqlType| matches!(kind, Int8 | Int16 | Int32 | Int64);
    left.is_ordered()
        && (left == right
            || is_integer(left) && is_integer(right)
            || matches!((left, right), (Text { .. }, Text { .. })))
}

impl NestedIndex {
    /// Forgets the rows.
    pub(crate) fn clear(&mut self) {
        (self.is_asked, self.is_built) = (false, false);
    }

    /// The rows of `rows` that may match the outer row of `env`.
    pub(crate) fn find(&mut self, equal: &EqualColumn, rows: &ResultRows, env: Env<'_>) -> Result<Candidates> {
        if !std::mem::replace(&mut self.is_asked, true) || rows.len() < ROWS_MIN {
            return Ok(Candidates::All(0..rows.len()));
        }
        if !std::mem::replace(&mut self.is_built, true) {
            self.build(equal.column, rows);
        }
        self.texts.clear(equal.texts);
        let value = equal.value.value(Env { texts: &self.texts, ..env })?;
        if value.is_null() {
            return Ok(if equal.meets_null { Candidates::All(0..rows.len()) } else { Candidates::Some(0..0, false) });
        }
        let hash = hash_of([value], &mut self.key);
        let start = self.by_hash.partition_point(|(other, _)| *other < hash);
        let len = self.by_hash[start..].iter().take_while(|(other, _)| *other == hash).count();
        Ok(Candidates::Some(start..start + len, equal.meets_null))
    }

    fn build(&mut self, column: usize, rows: &ResultRows) {
        self.by_hash.clear();
        self.nulls.clear();
        for row in 0..rows.len() {
            match rows.get(row, column) {
                ValueRef::Null => self.nulls.push(row),
                value => self.by_hash.push((hash_of([value], &mut self.key), row)),
            }
        }
        self.by_hash.sort_unstable();
    }

    /// The row number `at` of some candidates; `None` after the last one.
    #[inline]
    pub(crate) fn row(&self, of: &Candidates, at: usize) -> Option<usize> {
        match of {
            Candidates::All(range) => (at < range.len()).then_some(range.start + at),
            Candidates::Some(range, _) if at < range.len() => Some(self.by_hash[range.start + at].1),
            Candidates::Some(range, true) => self.nulls.get(at - range.len()).copied(),
            Candidates::Some(..) => None,
        }
    }
}

/// The hash of some values, whose types must be ordered. `key` is a buffer.
pub(crate) fn hash_of<'a>(values: impl IntoIterator<Item = ValueRef<'a>>, key: &mut Vec<u8>) -> u64 {
    key.clear();
    values.into_iter().for_each(|value| append_key(value, key));
    let mut hasher = DefaultHasher::new();
    hasher.write(key);
    hasher.finish()
}
