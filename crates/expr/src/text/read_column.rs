//! Reads columns of texts as columns of another type.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, StringViewArray, new_null_array};
use arrow::datatypes::DataType;
use rowmill_base::{Error, ErrorKind, Result, SqlType};

use super::column_builder::ColumnBuilder;
use crate::kernels::cast::cast;
use crate::kinds::type_name;

/// What to do with a text that is not a value of the type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// The whole read fails.
    Fails,
    /// The value becomes NULL.
    IsNull,
}

/// Reads `texts` as values of type `kind`.
pub(crate) fn read_column(texts: &StringViewArray, kind: &DataType, unreadable: Unreadable) -> Result<ArrayRef> {
    match kind {
        DataType::Null => return Ok(new_null_array(kind, texts.len())),
        DataType::Utf8View => return Ok(Arc::new(texts.clone())),
        _ => {}
    }
    // A list or struct may have parts of no type, as the list `[]` does. No column has such a type.
    let fits = |sql_type: &SqlType| kind.is_nested() || sql_type.arrow() == *kind;
    let Some(sql_type) = SqlType::from_arrow(kind).filter(fits) else {
        let message = format!("TEXT cannot be cast to {}", type_name(kind));
        return Err(Error::new(ErrorKind::DatatypeMismatch, message));
    };
    let mut builder = ColumnBuilder::new(&sql_type, texts.len());
    let mut first = None;
    let mut found = |row, problem| {
        first.get_or_insert((row, problem));
    };
    builder.append_all(&mut &*texts, texts.len(), &mut found);
    match first {
        Some((row, problem)) if unreadable == Unreadable::Fails => {
            Err(super::unreadable(texts.value(row), kind, problem))
        }
        _ => cast(&builder.finish(), kind, unreadable == Unreadable::IsNull),
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, Field, Fields};

    use super::*;
    use crate::text::{format, parse};

    fn list(item: DataType) -> DataType {
        DataType::List(Arc::new(Field::new("item", item, true)))
    }

    fn again(text: &str, kind: &DataType) -> Option<String> {
        parse(text, kind).ok().and_then(|value| format(value.array(), 0))
    }

    #[test]
    fn lists_and_structs_read_back_from_their_text() {
        let ints = list(DataType::Int32);
        for text in ["[]", "[1, null]", "[-5, 2147483647]"] {
            assert_eq!(again(text, &ints).as_deref(), Some(text));
        }
        assert_eq!(again(" [ 1,2 , NULL ] ", &ints).as_deref(), Some("[1, 2, null]"));
        assert_eq!(again("[null]", &list(DataType::Null)).as_deref(), Some("[null]"));
        let texts = list(list(DataType::Utf8View));
        let text = r#"[["x", "a \"b\" \\ , ]", null], [], null]"#;
        assert_eq!(again(text, &texts).as_deref(), Some(text));
        let fields: Fields =
            vec![Field::new("a", DataType::Int8, true), Field::new("b", list(DataType::Date32), true)].into();
        let text = r#"{"a": 1, "b": ["2013-07-31"]}"#;
        assert_eq!(again(text, &DataType::Struct(fields.clone())).as_deref(), Some(text));
        let partial = again(r#"{"B": []}"#, &DataType::Struct(fields));
        assert_eq!(partial.as_deref(), Some(r#"{"a": null, "b": []}"#));
    }

    #[test]
    fn texts_that_are_not_lists_are_refused() {
        let ints = list(DataType::Int8);
        for text in ["", "abc", "[", "[1", "[1,]", "[1] 2", "1", "null", "[[1]]", "{\"a\": 1}", "[x]", "[1 2]"] {
            let error = parse(text, &ints).expect_err(text);
            assert_eq!(error.message(), format!("'{text}' is not a value of type TINYINT[]"));
        }
        assert!(parse(&"[".repeat(100_000), &ints).is_err());
        assert!(parse("[300]", &ints).is_err());
    }
}
