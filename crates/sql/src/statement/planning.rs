//! Plans that a statement makes beside its own query.

use std::sync::Arc;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use rowmill_base::{Error, Result};
use rowmill_txn::{Snapshot, ViewDef};

use super::sql_text::{self, quoted};
use crate::session::Work;

impl Work<'_> {
    /// Plans `view` over `snapshot` as its readers do. Returns the names of its columns.
    pub(super) fn plan_view(&self, view: &ViewDef, snapshot: &Arc<Snapshot>) -> Result<Vec<String>> {
        let schema = snapshot.catalog().schema_by_id(view.schema).expect("a view lives in a schema");
        let sql = format!("SELECT * FROM {}.{}", quoted(&schema.name), quoted(&view.name));
        let ready = self.ready_own(Arc::clone(snapshot), &sql_text::query(&sql, self.settings())?)?;
        Ok(ready.schema().fields().iter().map(|field| field.name().clone()).collect())
    }

    /// Runs a query that returns one number.
    pub(super) fn number(&self, snapshot: Arc<Snapshot>, sql: &str) -> Result<i64> {
        let mut number = None;
        for batch in self.rows(snapshot, &sql_text::query(sql, self.settings())?)? {
            let batch = batch?;
            number = batch.column(0).as_primitive_opt::<Int64Type>().and_then(|column| column.iter().next().flatten());
        }
        number.ok_or_else(|| Error::internal(format!("a number was expected from: {sql}")))
    }
}
