//! Computes columns from the columns of each batch.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use rowmill_base::{Cancel, Result};

use crate::batch::{BatchSource, Batches};
use crate::group::VectorFunction;
use crate::share::{batch_of, share, with_nulls};

/// The source of a result column.
#[derive(Clone, Debug)]
pub(crate) enum Projected {
    /// The column of the input at this position.
    Column(usize),
    /// A function of columns of the input.
    Function(Arc<dyn VectorFunction>),
}

/// Returns the rows of its input with other columns.
#[derive(Debug)]
pub(crate) struct Project {
    input: Arc<dyn BatchSource>,
    columns: Vec<Projected>,
    schema: SchemaRef,
    cancel: Cancel,
}

impl Project {
    /// Makes the operator over `input`. `columns` must match the fields of `schema`. Workers check `cancel` once per
    /// batch.
    pub(crate) fn new(
        input: Arc<dyn BatchSource>,
        columns: Vec<Projected>,
        schema: &SchemaRef,
        cancel: Cancel,
    ) -> Arc<Project> {
        assert_eq!(columns.len(), schema.fields().len(), "the schema must have a field for every result column");
        Arc::new(Project { input, columns, schema: with_nulls(schema), cancel })
    }

    /// The input column by which rows may be left out for a filter on result column `column`. `None` if a function may
    /// fail, because leaving out its row would hide the error.
    fn source_of(&self, column: usize) -> Option<usize> {
        let never_fails = |column: &Projected| match column {
            Projected::Function(function) => function.never_fails(),
            Projected::Column(_) => true,
        };
        match self.columns.get(column)? {
            Projected::Column(column) if self.columns.iter().all(never_fails) => Some(*column),
            _ => None,
        }
    }
}

impl BatchSource for Project {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn parallelism(&self) -> usize {
        self.input.parallelism()
    }

    fn worker(self: Arc<Self>) -> Batches {
        let mut input = Arc::clone(&self.input).worker();
        share(move || {
            self.cancel.check()?;
            let Some(batch) = input.next().transpose()? else { return Ok(None) };
            let made = self.columns.iter().map(|column| match column {
                Projected::Column(column) => Ok(Arc::clone(batch.column(*column))),
                Projected::Function(function) => evaluate(&**function, &batch),
            });
            let columns = made.collect::<Result<_>>()?;
            batch_of("a projection", &self.schema, columns, batch.num_rows()).map(Some)
        })
    }
    fn passes(&self, column: usize) -> Option<(&dyn BatchSource, usize)> {
        Some((&*self.input, self.source_of(column)?))
    }
}

/// Evaluates `function` for the rows of `batch`.
pub(crate) fn evaluate(function: &dyn VectorFunction, batch: &RecordBatch) -> Result<ArrayRef> {
    let columns: Vec<ArrayRef> = function.columns().iter().map(|column| Arc::clone(batch.column(*column))).collect();
    function.evaluate(&columns, batch.num_rows())
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;
    use arrow::datatypes::{DataType, Field, Int64Type, Schema};
    use rowmill_base::ErrorKind;

    use super::*;
    use crate::collect::collect;
    use crate::test_input::{ComputedColumn, Failing, numbers};

    fn projected(input: Arc<dyn BatchSource>) -> Arc<dyn BatchSource> {
        let double = ComputedColumn::new(&[0], |columns, _| {
            let numbers = columns[0].as_primitive::<Int64Type>();
            Ok(Arc::new(numbers.unary::<_, Int64Type>(|n| 2 * n)))
        });
        let columns = vec![Projected::Function(double), Projected::Column(0)];
        let fields = vec![Field::new("c", DataType::Int64, false); 2];
        Project::new(input, columns, &Arc::new(Schema::new(fields)), Cancel::new())
    }

    #[test]
    fn a_projection_may_mix_columns_and_functions() {
        let batches = collect(&projected(numbers(0..25, 10)), 3).expect("nothing fails");
        assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 25);
        for batch in &batches {
            for row in 0..batch.num_rows() {
                let number = |column: usize| batch.column(column).as_primitive::<Int64Type>().value(row);
                assert_eq!(number(0), 2 * number(1));
            }
        }
    }

    #[test]
    fn a_projection_without_columns_keeps_the_number_of_rows() {
        let source: Arc<dyn BatchSource> =
            Project::new(numbers(0..25, 10), Vec::new(), &Arc::new(Schema::empty()), Cancel::new());
        let batches = collect(&source, 1).expect("nothing fails");
        assert_eq!(batches.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [10, 10, 5]);
    }

    #[test]
    fn errors_of_the_input_are_returned() {
        let error = collect(&projected(Arc::new(Failing(numbers(0..100, 10)))), 2).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
    }
}
