//! Maps the columns of a table to the columns of a file.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use rowmill_base::{Error, ErrorKind, Result, SqlType, nearest};

/// A column that a file is read into.
#[derive(Clone, Debug)]
pub struct TargetColumn {
    /// The name as errors show it. Columns of files are matched ignoring case.
    pub name: String,
    /// The type that values are converted to.
    pub kind: SqlType,
    /// Whether the column may be NULL.
    pub nullable: bool,
    /// One row: the value for files without the column, or for JSON objects without the key. `None` means NULL.
    pub missing: Option<ArrayRef>,
}

impl TargetColumn {
    /// Makes a nullable column without a default.
    pub fn new(name: impl Into<String>, kind: SqlType) -> TargetColumn {
        TargetColumn { name: name.into(), kind, nullable: true, missing: None }
    }

    pub(crate) fn field(&self) -> Field {
        Field::new(&self.name, self.kind.arrow(), self.nullable)
    }

    /// The values of `rows` rows of a file that does not have the column.
    pub(crate) fn filled(&self, rows: usize) -> Result<ArrayRef> {
        match &self.missing {
            None => Ok(new_null_array(&self.kind.arrow(), rows)),
            Some(value) => {
                // Takes the one row again and again.
                let zeros = UInt32Array::from(vec![0; rows]);
                take(value, &zeros, None).map_err(|error| Error::internal(error.to_string()))
            }
        }
    }
}

/// The schema of batches of `target`.
pub(crate) fn schema_of(target: &[TargetColumn]) -> SchemaRef {
    Arc::new(Schema::new(target.iter().map(TargetColumn::field).collect::<Vec<_>>()))
}

/// Makes a batch of `columns`. `rows` is the number of rows, because there may be no columns.
pub(crate) fn batch_of(schema: &SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
        .map_err(|error| Error::internal(format!("a batch of a file does not match its schema: {error}")))
}

/// For every target column, the number of the file's column with the same name.
///
/// The `names` of the file must be unique even if case is ignored. A target column that the file does not have must be
/// nullable or have a default. A file column that the target does not have is refused, unless `ignore_unknown` is set.
pub(crate) fn by_name(
    file: &str,
    names: &[String],
    target: &[TargetColumn],
    ignore_unknown: bool,
) -> Result<Vec<Option<usize>>> {
    let places: HashMap<String, usize> = names.iter().enumerate().map(|(i, name)| (name.to_lowercase(), i)).collect();
    let found: Vec<Option<usize>> =
        target.iter().map(|column| places.get(&column.name.to_lowercase()).copied()).collect();
    if !ignore_unknown {
        for (i, name) in names.iter().enumerate() {
            if !found.contains(&Some(i)) {
                return Err(unknown_column(file, name, target));
            }
        }
    }
    for (column, found) in target.iter().zip(&found) {
        // Such a column would have no value at all.
        if found.is_none() && !column.nullable && column.missing.is_none() {
            return Err(missing_column(file, names, column));
        }
    }
    Ok(found)
}

/// For every target column, the file's column at the same position.
pub(crate) fn by_position(file: &str, columns: usize, target: &[TargetColumn]) -> Result<Vec<Option<usize>>> {
    if columns != target.len() {
        return Err(Error::new(
            ErrorKind::CardinalityViolation,
            format!("{file} has no header and {columns} columns a line, where {} are asked for", target.len()),
        )
        .hint(
            "name the columns that the file has: COPY table (column, ...) FROM ...; if its first line is a header, \
            add WITH (header true)",
        ));
    }
    Ok((0..columns).map(Some).collect())
}

/// The error for a column of a file that the target does not have.
pub(crate) fn unknown_column(file: &str, name: &str, target: &[TargetColumn]) -> Error {
    let near = nearest(name, target.iter().map(|column| column.name.as_str()));
    let error = Error::new(
        ErrorKind::UndefinedColumn,
        format!("{file} has a column {name}, which is not among the columns to load"),
    );
    error.hint(match near.as_slice() {
        [] => format!(
            "the columns to load are {}; WITH (ignore_unknown true) leaves others out",
            listed(target.iter().map(|column| column.name.as_str()))
        ),
        near => format!("did you mean {}? WITH (ignore_unknown true) leaves the column out", near.join(" or ")),
    })
}

fn missing_column(file: &str, names: &[String], column: &TargetColumn) -> Error {
    let error = Error::new(
        ErrorKind::NotNullViolation,
        format!("{file} has no column {}, which is NOT NULL and has no default", column.name),
    );
    match nearest(&column.name, names.iter().map(String::as_str)).as_slice() {
        [] => error.hint(format!("the columns of the file are {}", listed(names.iter().map(String::as_str)))),
        near => error.hint(format!("the file has {}", near.join(" and "))),
    }
}

/// Lists the first names of a list that may be long.
pub(crate) fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    const LISTED_MAX: usize = 20;
    let names: Vec<&str> = names.collect();
    let more = if names.len() > LISTED_MAX { ", ..." } else { "" };
    format!("{}{more}", names[..names.len().min(LISTED_MAX)].join(", "))
}

/// Makes column names unique even if case is ignored. A name that occurred before gets `_1`, `_2`, ... and a notice. An
/// empty name becomes `column` with its number.
pub(crate) fn unique_names(names: Vec<String>) -> (Vec<String>, Vec<String>) {
    let mut taken: HashMap<String, String> = HashMap::new();
    let all: std::collections::HashSet<String> = names.iter().map(|name| name.to_lowercase()).collect();
    let mut notices = Vec::new();
    let mut unique = Vec::with_capacity(names.len());
    for (place, name) in names.into_iter().enumerate() {
        let base = if name.is_empty() { format!("column{}", place + 1) } else { name };
        let mut chosen = base.clone();
        let mut number = 0;
        // A new name must differ from all original names too, or it would rename another column.
        while taken.contains_key(&chosen.to_lowercase()) || number > 0 && all.contains(&chosen.to_lowercase()) {
            number += 1;
            chosen = format!("{base}_{number}");
        }
        if let Some(other) = taken.get(&base.to_lowercase()) {
            notices.push(format!("column {base} is called {chosen}, because {other} has the same name without case"));
        }
        taken.insert(chosen.to_lowercase(), base);
        unique.push(chosen);
    }
    (unique, notices)
}

/// Checks that values of an Arrow type in a file can be converted to a SQL type, before any of them is read.
pub(crate) fn check_convertible(file: &str, name: &str, from: &DataType, to: &TargetColumn) -> Result<()> {
    if crate::convert::is_convertible(from, &to.kind) {
        return Ok(());
    }
    let shown = SqlType::from_arrow(from).map_or_else(|| from.to_string(), |kind| kind.to_string());
    let error = Error::new(
        ErrorKind::DatatypeMismatch,
        format!(
            "column {name} of {file} has the type {shown} and cannot be loaded into {} of the type {}",
            to.name, to.kind
        ),
    );
    Err(error.hint(format!("say how to convert it: INSERT INTO ... SELECT ... FROM '{file}'")))
}

#[cfg(test)]
mod tests {
    use arrow::array::Int64Array;

    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn columns_are_found_without_case() {
        let mut target = vec![TargetColumn::new("UserID", SqlType::Int64), TargetColumn::new("URL", SqlType::TEXT)];
        let found = by_name("a.csv", &names(&["url", "USERID"]), &target, false).expect("both");
        assert_eq!(found, [Some(1), Some(0)]);
        assert_eq!(by_name("a.csv", &names(&["url"]), &target, false).expect("nullable"), [None, Some(0)]);
        target[0].nullable = false;
        let error = by_name("a.csv", &names(&["url"]), &target, false).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotNullViolation);
        target[0].missing = Some(Arc::new(Int64Array::from(vec![7])));
        assert!(by_name("a.csv", &names(&["url"]), &target, false).is_ok());
        assert_eq!(target[0].filled(2).expect("filled").as_ref(), &Int64Array::from(vec![7, 7]));
    }

    #[test]
    fn unknown_columns_are_refused_with_a_suggestion() {
        let target = [TargetColumn::new("UserID", SqlType::Int64)];
        let error = by_name("a.csv", &names(&["UserID", "UsrID"]), &target, false).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UndefinedColumn);
        assert!(error.hint_text().is_some_and(|hint| hint.contains("UserID")), "{error}");
        assert!(by_name("a.csv", &names(&["UserID", "UsrID"]), &target, true).is_ok());
        assert_eq!(by_position("a.csv", 2, &target).unwrap_err().kind(), ErrorKind::CardinalityViolation);
    }

    #[test]
    fn names_become_unique() {
        let (unique, notices) = unique_names(names(&["a", "A", "", "a_1", "A"]));
        assert_eq!(unique, ["a", "A_2", "column3", "a_1", "A_3"]);
        assert_eq!(notices.len(), 2);
    }
}
