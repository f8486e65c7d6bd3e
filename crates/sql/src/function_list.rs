//! `rowmill_functions()` and `SHOW FUNCTIONS`: lists the scalar functions and aggregates that queries may call.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringViewArray};
use rowmill_base::Result;
use rowmill_exec::aggregate;
use rowmill_plan::{Constant, expansion, item_function};

use crate::log_functions::takes_no_argument;
use crate::outcome::nullable_batch;

/// The name of the table function.
pub(crate) const NAME: &str = "rowmill_functions";

/// Returns the functions as rows, ordered by family and name, or `None` if `name` is another table function.
pub(crate) fn rows(name: &str, arguments: &[Constant]) -> Result<Option<RecordBatch>> {
    if name != NAME {
        return Ok(None);
    }
    if !arguments.is_empty() {
        return Err(takes_no_argument(NAME));
    }
    batch().map(Some)
}

/// Returns the functions as rows, ordered by family and name.
pub(crate) fn batch() -> Result<RecordBatch> {
    let scalar = rowmill_expr::functions::all()
        .map(|function| row(function.name, function.family, function.aliases, function.doc, function.example));
    let of_items = item_function::ITEM_FUNCTIONS
        .iter()
        .map(|function| row(function.name, "list", function.aliases, function.doc, function.example));
    let aggregates = aggregate::all()
        .map(|function| row(function.name, "aggregate", function.aliases, function.doc, function.example));
    let expansions = expansion::EXPANSIONS
        .iter()
        .map(|function| row(function.name, function.family, function.aliases, function.doc, function.example));
    let mut rows: Vec<[Option<String>; 6]> = scalar.chain(of_items).chain(aggregates).chain(expansions).collect();
    rows.sort_by(|one, other| (&one[1], &one[0]).cmp(&(&other[1], &other[0])));
    let names = ["name", "family", "aliases", "description", "example", "result"];
    let columns = names.iter().enumerate().map(|(place, name)| {
        let values = rows.iter().map(|row| row[place].as_deref());
        (*name, Arc::new(values.collect::<StringViewArray>()) as ArrayRef)
    });
    nullable_batch(columns)
}

/// The row of one function.
fn row(name: &str, family: &str, aliases: &[&str], doc: &str, (example, result): (&str, &str)) -> [Option<String>; 6] {
    let text = |text: &str| Some(text.to_owned());
    let aliases = Some(aliases.join(", ")).filter(|aliases| !aliases.is_empty());
    [text(name), text(family), aliases, text(doc), text(example), text(result)]
}
