//! Functions of documents by paths of SQL/JSON, as PostgreSQL has them: `jsonb_path_query_array(document, path)`.
//!
//! Two more arguments are an object with the values of `$name`, and whether a document that does not fit the path gives
//! NULL in place of an error.

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::datatypes::DataType;
use rowmill_base::{Error, ErrorKind, Result, json_arrow};
use rowmill_plan::function::{ArgumentKind, CallKinds};
use rowmill_plan::{FunctionSpec, Operand};

use super::documents::{Documents, ListRows, documents, is_document, list_of};
use crate::functions::signatures::{BOOLEAN, TEXT, ordinary};
use crate::json::sql_path::{PathFailure, PathInput, SqlPath};

/// `jsonb_path_exists(document, path [, variables [, silent]])`
pub(super) const JSONB_PATH_EXISTS: FunctionSpec = FunctionSpec {
    name: "jsonb_path_exists",
    can_fail: true,
    signature: |arguments| kinds(arguments, BOOLEAN),
    kernel: |arguments, _, rows| truths(arguments, rows, |values| Ok(Some(!values.is_empty()))),
    doc: "Whether a path of SQL/JSON selects something, as `document @? path` says.",
    example: ("jsonb_path_exists('{\"a\": [1, 2]}', '$.a[*] ? (@ > 1)')", "true"),
    ..ordinary("json")
};

/// `jsonb_path_match(document, path [, variables [, silent]])`
pub(super) const JSONB_PATH_MATCH: FunctionSpec = FunctionSpec {
    name: "jsonb_path_match",
    can_fail: true,
    signature: |arguments| kinds(arguments, BOOLEAN),
    kernel: |arguments, _, rows| {
        truths(arguments, rows, |values| match values {
            [one] if *one == "true" => Ok(Some(true)),
            [one] if *one == "false" => Ok(Some(false)),
            [one] if *one == "null" => Ok(None),
            _ => Err(Error::new(ErrorKind::InvalidParameter, "a path of JSON: the result is no single truth value")),
        })
    },
    doc: "The truth of a comparison that a path of SQL/JSON is, as `document @@ path` says.",
    example: ("jsonb_path_match('{\"a\": 1}', '$.a == 1')", "true"),
    ..ordinary("json")
};

/// `jsonb_path_query_array(document, path [, variables [, silent]])`
pub(super) const JSONB_PATH_QUERY_ARRAY: FunctionSpec = FunctionSpec {
    name: "jsonb_path_query_array",
    can_fail: true,
    signature: |arguments| kinds(arguments, json_arrow()),
    kernel: |arguments, _, rows| {
        let paths = PathArguments::new(arguments);
        documents(rows, |row| Ok(paths.values(row)?.map(|values| Cow::Owned(format!("[{}]", values.join(", "))))))
    },
    doc: "The values that a path of SQL/JSON selects, as an array.",
    example: ("jsonb_path_query_array('{\"a\": [1, 2, 3]}', '$.a[*] ? (@ > $x)', '{\"x\": 1}')", "[2, 3]"),
    ..ordinary("json")
};

/// `jsonb_path_query_first(document, path [, variables [, silent]])`
pub(super) const JSONB_PATH_QUERY_FIRST: FunctionSpec = FunctionSpec {
    name: "jsonb_path_query_first",
    can_fail: true,
    signature: |arguments| kinds(arguments, json_arrow()),
    kernel: |arguments, _, rows| {
        let paths = PathArguments::new(arguments);
        documents(rows, |row| {
            let values = paths.values(row)?;
            Ok(values.and_then(|values| values.into_iter().next()).map(|first| Cow::Owned(first.into_owned())))
        })
    },
    doc: "The first value that a path of SQL/JSON selects.",
    example: ("jsonb_path_query_first('[1, 2, 3]', '$[*] ? (@ > 1)')", "2"),
    ..ordinary("json")
};

/// The list of `jsonb_path_query(document, path [, variables [, silent]])`.
pub(super) const JSONB_PATH_ITEMS: FunctionSpec = FunctionSpec {
    name: "jsonb_path_items",
    can_fail: true,
    signature: |arguments| kinds(arguments, list_of(json_arrow())),
    kernel: |arguments, _, rows| {
        let paths = PathArguments::new(arguments);
        let mut lists = ListRows::new(rows);
        for row in 0..rows {
            let values = paths.values(row)?;
            values.iter().flatten().try_for_each(|value| lists.push(Some(value)))?;
            lists.end(values.is_some())?;
        }
        lists.finish(&json_arrow())
    },
    doc: "The values that a path of SQL/JSON selects, as a list; `jsonb_path_query` gives them as rows.",
    example: ("jsonb_path_items('[1, 2, 3]', '$[*] ? (@ > 1)')", "[2, 3]"),
    ..ordinary("json")
};

fn kinds(arguments: &[ArgumentKind<'_>], result: DataType) -> Option<CallKinds> {
    let [document, path, more @ ..] = arguments else { return None };
    let is_text = |argument: &ArgumentKind<'_>| matches!(argument.kind, DataType::Utf8View | DataType::Null);
    let fits = match more {
        [] => true,
        [variables] => is_document(variables),
        [variables, silent] => is_document(variables) && matches!(silent.kind, DataType::Boolean | DataType::Null),
        _ => false,
    };
    let kinds = [json_arrow(), TEXT, json_arrow(), BOOLEAN];
    let arguments = kinds[..arguments.len().min(kinds.len())].to_vec();
    (is_document(document) && is_text(path) && fits).then_some(CallKinds { arguments, result })
}

/// The arguments of these functions.
struct PathArguments<'a> {
    documents: Documents,
    paths: &'a Operand,
    constant: Option<Result<Rc<SqlPath>>>,
    variables: Option<Documents>,
    silent: Option<&'a Operand>,
}

impl<'a> PathArguments<'a> {
    fn new(arguments: &'a [Operand]) -> PathArguments<'a> {
        let paths = &arguments[1];
        let is_known = paths.is_constant && paths.values.is_valid(0);
        PathArguments {
            documents: Documents::new(&arguments[0]),
            paths,
            constant: is_known.then(|| SqlPath::read(paths.values.as_string_view().value(0)).map(Rc::new)),
            variables: arguments.get(2).map(Documents::new),
            silent: arguments.get(3),
        }
    }

    /// The values that the path of a row selects. `None` if an argument is NULL, or if a silent call fails.
    fn values(&self, row: usize) -> Result<Option<Vec<Cow<'_, str>>>> {
        let place = self.paths.at(row);
        let is_null = |operand: &Operand| operand.values.is_null(operand.at(row));
        let (Some(document), false, false) =
            (self.documents.get(row), self.paths.values.is_null(place), self.silent.is_some_and(is_null))
        else {
            return Ok(None);
        };
        let variables = match &self.variables {
            None => None,
            Some(variables) => match variables.get(row) {
                None => return Ok(None),
                found => found,
            },
        };
        let path = match &self.constant {
            Some(Ok(path)) => Rc::clone(path),
            Some(Err(error)) => return Err(error.clone()),
            None => Rc::new(SqlPath::read(self.paths.values.as_string_view().value(place))?),
        };
        let is_silent = self.silent.is_some_and(|silent| silent.values.as_boolean().value(silent.at(row)));
        match path.values(PathInput { document, variables }) {
            Ok(values) => Ok(Some(values)),
            Err(PathFailure::Misfit(_)) if is_silent => Ok(None),
            Err(failure) => Err(failure.into_error()),
        }
    }
}

fn truths(
    arguments: &[Operand],
    rows: usize,
    truth: impl Fn(&[Cow<'_, str>]) -> Result<Option<bool>>,
) -> Result<ArrayRef> {
    let paths = PathArguments::new(arguments);
    let mut found = Vec::with_capacity(rows);
    for row in 0..rows {
        let values = paths.values(row)?;
        found.push(match values.map(|values| truth(&values)) {
            None => None,
            Some(Ok(truth)) => truth,
            Some(Err(_)) if paths.silent.is_some_and(|silent| silent.values.as_boolean().value(silent.at(row))) => None,
            Some(Err(error)) => return Err(error),
        });
    }
    Ok(Arc::new(BooleanArray::from(found)))
}
