//! `rowmill_functions()` and `SHOW FUNCTIONS`: lists the scalar functions and aggregates that queries may call.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringViewArray};
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::{Constant, aggregate_kinds, item_function};

use crate::outcome::nullable_batch;

/// The name of the table function.
pub(crate) const NAME: &str = "rowmill_functions";

/// Returns the functions as rows, ordered by family and name, or `None` if `name` is another table function.
pub(crate) fn rows(name: &str, arguments: &[Constant]) -> Result<Option<RecordBatch>> {
    if name != NAME {
        return Ok(None);
    }
    if !arguments.is_empty() {
        return Err(Error::new(ErrorKind::UndefinedFunction, format!("{NAME} takes no argument"))
            .hint(format!("SELECT * FROM {NAME}()")));
    }
    batch().map(Some)
}

/// Returns the functions as rows, ordered by family and name.
pub(crate) fn batch() -> Result<RecordBatch> {
    let mut rows: Vec<[Option<String>; 6]> = rowmill_expr::functions::all()
        .map(|function| {
            let (example, result) = function.example;
            let text = |text: &str| Some(text.to_owned());
            let aliases = Some(function.aliases.join(", ")).filter(|aliases| !aliases.is_empty());
            [text(function.name), text(function.family), aliases, text(function.doc), text(example), text(result)]
        })
        .collect();
    rows.extend(item_function::ITEM_FUNCTIONS.iter().map(|function| {
        let (example, result) = function.example;
        let text = |text: &str| Some(text.to_owned());
        [
            text(function.name),
            text("list"),
            text(&function.aliases.join(", ")),
            text(function.doc),
            text(example),
            text(result),
        ]
    }));
    let aggregate = |name: &str| [Some(name.to_owned()), Some("aggregate".to_owned()), None, None, None, None];
    rows.extend(aggregate_kinds::names().map(aggregate));
    rows.sort_by(|one, other| (&one[1], &one[0]).cmp(&(&other[1], &other[0])));
    let names = ["name", "family", "aliases", "description", "example", "result"];
    let columns = names.iter().enumerate().map(|(place, name)| {
        let values = rows.iter().map(|row| row[place].as_deref());
        (*name, Arc::new(values.collect::<StringViewArray>()) as ArrayRef)
    });
    nullable_batch(columns)
}
