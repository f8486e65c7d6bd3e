//! Arguments and results that the functions of this family share.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, StringViewArray, StringViewBuilder};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, Int64Type};
use rowmill_base::{Result, is_json, json_arrow};
use rowmill_plan::Operand;
use rowmill_plan::function::ArgumentKind;

use crate::functions::rowwise::too_long;
use crate::functions::signatures::{BIGINT, TEXT};
use crate::functions::time::columns::failed;
use crate::json::path::JsonPath;
use crate::json::{of_texts, texts_of};

/// Whether an argument is accepted as a document.
pub(super) fn is_document(argument: &ArgumentKind<'_>) -> bool {
    is_json(argument.kind) || matches!(argument.kind, DataType::Utf8View | DataType::Null)
}

/// A list of texts.
pub(super) fn text_list() -> DataType {
    list_of(TEXT)
}

/// A list of values of a type.
pub(super) fn list_of(item: DataType) -> DataType {
    DataType::List(Arc::new(Field::new("item", item, true)))
}

/// Returns the type in which a path is read: a text, a position, or a list of texts.
pub(super) fn path_kind(argument: &ArgumentKind<'_>) -> Option<DataType> {
    match argument.kind {
        DataType::Utf8View | DataType::Null => Some(TEXT),
        kind if kind.is_integer() => Some(BIGINT),
        DataType::List(item) if matches!(item.data_type(), DataType::Utf8View | DataType::Null) => Some(text_list()),
        _ => None,
    }
}

/// An argument of documents.
pub(super) struct Documents {
    texts: StringViewArray,
    is_constant: bool,
}

impl Documents {
    pub(super) fn new(operand: &Operand) -> Documents {
        Documents { texts: texts_of(&operand.values), is_constant: operand.is_constant }
    }

    /// Returns the document of a row, or `None` for NULL.
    #[inline]
    pub(super) fn get(&self, row: usize) -> Option<&str> {
        let row = if self.is_constant { 0 } else { row };
        self.texts.is_valid(row).then(|| self.texts.value(row))
    }

    /// Returns the document of a row, which must not be NULL.
    #[inline]
    pub(super) fn at(&self, row: usize) -> &str {
        self.get(row).unwrap_or_default()
    }
}

/// An argument of paths, each a text or a position.
pub(super) struct Paths<'a> {
    operand: &'a Operand,
    constant: Option<JsonPath>,
}

impl<'a> Paths<'a> {
    pub(super) fn new(operand: &'a Operand) -> Result<Paths<'a>> {
        let is_known = operand.is_constant && operand.values.is_valid(0);
        let constant = is_known.then(|| path_at(operand, 0)).transpose()?;
        Ok(Paths { operand, constant })
    }

    /// Returns the path of a row, which must not be NULL.
    pub(super) fn at(&self, row: usize) -> Result<Cow<'_, JsonPath>> {
        match &self.constant {
            Some(path) => Ok(Cow::Borrowed(path)),
            None => path_at(self.operand, row).map(Cow::Owned),
        }
    }

    /// Whether the path of a row is NULL.
    pub(super) fn is_null(&self, row: usize) -> bool {
        self.operand.values.is_null(self.operand.at(row))
    }
}

fn path_at(operand: &Operand, row: usize) -> Result<JsonPath> {
    let row = operand.at(row);
    match operand.values.data_type() {
        DataType::Int64 => Ok(JsonPath::of_index(operand.values.as_primitive::<Int64Type>().value(row))),
        _ => JsonPath::read(operand.values.as_string_view().value(row)),
    }
}

/// Returns the texts of a list in a row that is not NULL. NULLs among them are left out.
pub(super) fn words_at(operand: &Operand, row: usize) -> StringViewArray {
    operand.values.as_list::<i32>().value(operand.at(row)).as_string_view().clone()
}

/// Makes a document of each row's text, or NULL.
pub(super) fn documents<'a>(
    rows: usize,
    mut document: impl FnMut(usize) -> Result<Option<Cow<'a, str>>>,
) -> Result<ArrayRef> {
    let mut made = StringViewBuilder::with_capacity(rows);
    for row in 0..rows {
        match document(row)? {
            Some(text) => made.try_append_value(text).map_err(too_long)?,
            None => made.append_null(),
        }
    }
    Ok(of_texts(made.finish()))
}

/// Collects a list for each row.
pub(super) struct ListRows {
    items: StringViewBuilder,
    ends: Vec<i32>,
    valid: Vec<bool>,
}

impl ListRows {
    pub(super) fn new(rows: usize) -> ListRows {
        ListRows { items: StringViewBuilder::new(), ends: Vec::with_capacity(rows), valid: Vec::with_capacity(rows) }
    }

    /// Appends an item, or NULL, to the list of the current row.
    pub(super) fn push(&mut self, item: Option<&str>) -> Result<()> {
        match item {
            Some(item) => self.items.try_append_value(item).map_err(too_long)?,
            None => self.items.append_null(),
        }
        Ok(())
    }

    /// Ends the current row.
    pub(super) fn end(&mut self, is_valid: bool) -> Result<()> {
        use arrow::array::ArrayBuilder;
        self.ends.push(i32::try_from(self.items.len()).map_err(failed)?);
        self.valid.push(is_valid);
        Ok(())
    }

    /// The lists, of texts or of documents.
    pub(super) fn finish(mut self, item: &DataType) -> Result<ArrayRef> {
        let items = self.items.finish();
        let items: ArrayRef = if *item == json_arrow() { of_texts(items) } else { Arc::new(items) };
        let offsets = OffsetBuffer::new(std::iter::once(0).chain(self.ends).collect::<Vec<i32>>().into());
        let field = Arc::new(Field::new("item", item.clone(), true));
        let nulls = NullBuffer::from(self.valid);
        Ok(Arc::new(ListArray::try_new(field, offsets, items, Some(nulls)).map_err(failed)?))
    }
}
