//! Lines that a `COPY ... WITH (on_error 'skip')` skips, and the table that keeps them.
//!
//! Readers report from their own threads while the statement's thread writes batches. So the rejects of a batch wait in
//! a list. The statement's thread writes them to the table, in its own transaction, before the next batch.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, StringViewBuilder};
use parking_lot::Mutex;
use rowmill_base::{Result, SqlType};
use rowmill_plan::write::{WriteAction, WriteSource};
use rowmill_txn::roles::{ObjectId, Rights};
use rowmill_txn::{ColumnSpec, Transaction};

use super::copy::STATEMENT;
use super::relation::{self, NamedRelation};
use super::write::binder::{WriteBinder, targets};
use super::write::executor::WriteExecutor;
use crate::access::Access;
use crate::files::{Reject, RejectSink};
use crate::names::{DEFAULT_SCHEMA, QualifiedName, lower};
use crate::session::Work;

/// The columns that a reject table must have. Other columns get their defaults.
const COLUMNS: [(&str, SqlType); 5] = [
    ("file", SqlType::TEXT),
    ("line", SqlType::Int64),
    ("column_name", SqlType::TEXT),
    ("text", SqlType::TEXT),
    ("message", SqlType::TEXT),
];

/// The table that stores rejects.
pub(super) struct RejectTable {
    executor: WriteExecutor,
}

/// Opens the table `name` and creates it if it does not exist.
pub(super) fn open(work: &Work<'_>, transaction: &mut Transaction, name: &str) -> Result<RejectTable> {
    let name = qualified_text(name);
    let view = transaction.view()?;
    let table = match relation::find(view.catalog(), &name) {
        Some(NamedRelation::Table(table)) => table,
        Some(NamedRelation::View(_) | NamedRelation::Materialized(_) | NamedRelation::Sequence(_)) => {
            relation::table(view.catalog(), &name)?
        }
        None => {
            let schema = relation::schema(view.catalog(), &name.schema)?.id;
            Access::of(view.catalog(), work.actor()).require(Rights::CREATE, ObjectId::Schema(schema), None)?;
            let columns = COLUMNS.iter().map(|(name, kind)| ColumnSpec::new(*name, kind.clone())).collect();
            let id = transaction.create_table(schema, &name.spelled, columns)?;
            let view = transaction.view()?;
            Arc::clone(view.catalog().table_by_id(id).expect("the table was created in this transaction"))
        }
    };
    let targets = targets(&table, COLUMNS.iter().map(|(name, _)| *name)).map_err(|error| {
        error.hint("a reject table has the columns file TEXT, line BIGINT, column_name TEXT, text TEXT, message TEXT")
    })?;
    let view = transaction.view()?;
    let binder = WriteBinder::new(work, &view, &[]);
    let row = binder.row_of(&table, &targets)?;
    let source = WriteSource::Files("skipped lines".to_owned());
    let write = binder.plan(STATEMENT, table, source, vec![WriteAction::Insert(row)], None)?;
    Ok(RejectTable { executor: WriteExecutor::new(work, write.tag, write.table, &write.plan)? })
}

/// Reads `table` or `schema.table` from a text.
fn qualified_text(text: &str) -> QualifiedName {
    let (schema, name) = text.split_once('.').unwrap_or((DEFAULT_SCHEMA, text));
    QualifiedName { schema: lower(schema), name: lower(name), spelled: name.to_string() }
}

impl RejectTable {
    pub(super) fn write(&mut self, transaction: &mut Transaction, rejects: Vec<Reject>) -> Result<()> {
        if rejects.is_empty() {
            return Ok(());
        }
        let text = |of: &dyn Fn(&Reject) -> Option<&str>| {
            let mut texts = StringViewBuilder::with_capacity(rejects.len());
            rejects.iter().for_each(|reject| texts.append_option(of(reject)));
            Arc::new(texts.finish()) as ArrayRef
        };
        let columns: [ArrayRef; COLUMNS.len()] = [
            text(&|reject| Some(&reject.file)),
            Arc::new(Int64Array::from_iter_values(rejects.iter().map(|reject| reject.line as i64))),
            text(&|reject| reject.column.as_deref()),
            text(&|reject| Some(&reject.text)),
            text(&|reject| Some(&reject.message)),
        ];
        self.executor.insert(transaction, &columns, rejects.len())
    }
}

/// The lines that were skipped: their number, the first one, and those that wait for the table.
pub(super) struct Skipped {
    shared: Arc<Mutex<RejectState>>,
}

struct RejectState {
    keep: bool,
    count: u64,
    first: Option<Reject>,
    waiting: Vec<Reject>,
}

impl Skipped {
    /// With `keep`, every reject waits to be taken. Otherwise we remember only the first one.
    pub(super) fn new(keep: bool) -> Self {
        Skipped { shared: Arc::new(Mutex::new(RejectState { keep, count: 0, first: None, waiting: Vec::new() })) }
    }

    /// Returns the function that readers report to.
    pub(super) fn sink(&self) -> RejectSink {
        let shared = Arc::clone(&self.shared);
        Arc::new(move |reject| {
            let mut state = shared.lock();
            state.count += 1;
            if state.first.is_none() {
                state.first = Some(reject.clone());
            }
            // Without a table we keep only the first reject, so that a bad file cannot fill the memory.
            if state.keep {
                state.waiting.push(reject);
            }
            Ok(())
        })
    }

    /// Returns the rejects since the last call.
    pub(super) fn take(&self) -> Vec<Reject> {
        std::mem::take(&mut self.shared.lock().waiting)
    }

    /// Returns a notice with the number of skipped lines, and either the table that has them or the first error.
    pub(super) fn notice(&self, table: Option<&str>) -> Option<String> {
        let state = self.shared.lock();
        let first = state.first.as_ref()?;
        let lines = if state.count == 1 { "line was" } else { "lines were" };
        Some(match table {
            Some(table) => format!("{} {lines} left out and written to table \"{table}\"", state.count),
            None => format!(
                "{} {lines} left out; {}, line {}: {}; WITH (reject_table 'name') keeps them",
                state.count, first.file, first.line, first.message
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_have_a_schema() {
        let name = qualified_text("Bad Lines");
        assert_eq!(
            (name.schema.as_str(), name.name.as_str(), name.spelled.as_str()),
            ("main", "bad lines", "Bad Lines")
        );
        assert_eq!(qualified_text("S.t").schema, "s");
    }
}
