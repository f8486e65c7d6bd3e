//! `CHECK DATABASE`: reads everything on disk and compares it with the catalog and the checksums. Returns a row for
//! each object and for each problem.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, StringViewArray};
use rowmill_base::Result;

use crate::outcome::{Outcome, RowStream, nullable_batch};
use crate::session::Work;

pub(crate) fn run(work: &Work<'_>) -> Result<Outcome> {
    let checked = work.engine().check(&work.cancel)?;
    let text = |values: StringViewArray| Arc::new(values) as ArrayRef;
    let columns = [
        ("object", text(checked.iter().map(|checked| Some(checked.object.as_str())).collect())),
        ("bytes", Arc::new(checked.iter().map(|checked| checked.bytes as i64).collect::<Int64Array>())),
        ("problem", text(checked.iter().map(|checked| checked.problem.as_deref()).collect())),
        ("note", text(checked.iter().map(|checked| checked.note.as_deref()).collect())),
    ];
    nullable_batch(columns).map(|batch| Outcome::Rows(RowStream::ready(batch)))
}
