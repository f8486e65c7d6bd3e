//! Functions that turn lists into texts, and texts into lists.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayBuilder, ArrayRef, AsArray, NullBufferBuilder, StringViewBuilder};
use arrow::datatypes::DataType;
use rowmill_base::Result;
use rowmill_plan::function::{ArgumentKind, CallKinds};
use rowmill_plan::{FunctionSpec, Operand};

use super::maker::{ListRanges, check_size, item_kind, list_of, lists_of};
use crate::functions::signatures::ordinary;

/// `array_to_string(list, separator [, null_text])`
pub(super) const ARRAY_TO_STRING: FunctionSpec = FunctionSpec {
    name: "array_to_string",
    aliases: &["list_to_string", "array_join", "list_join"],
    can_fail: true,
    strict: false,
    signature: |arguments| {
        let [list, texts @ ..] = arguments else { return None };
        if !(1..=2).contains(&texts.len()) || !texts.iter().all(is_text) {
            return None;
        }
        let mut kinds = vec![with_texts(&list_of(item_kind(list.kind)?))];
        kinds.resize(arguments.len(), DataType::Utf8View);
        Some(CallKinds { arguments: kinds, result: DataType::Utf8View })
    },
    kernel: join,
    doc: "The items of a list, and of the lists in it, as text with a separator between them. NULLs are left out, or \
          written as a text that is given for them.",
    example: ("array_to_string([1, NULL, 3], ', ', '-')", "1, -, 3"),
    ..ordinary("list")
};

/// `string_to_array(text, separator [, null_text])`
pub(super) const STRING_TO_ARRAY: FunctionSpec = FunctionSpec {
    name: "string_to_array",
    aliases: &["string_to_list", "string_split", "str_split", "split"],
    strict: false,
    signature: |arguments| {
        let fits = (2..=3).contains(&arguments.len()) && arguments.iter().all(is_text);
        let kinds = vec![DataType::Utf8View; arguments.len()];
        fits.then(|| CallKinds { arguments: kinds, result: list_of(DataType::Utf8View) })
    },
    kernel: split,
    doc: "The parts of a text between separators; a part that is the third argument is NULL. With NULL as separator \
        the \
          parts are the characters.",
    example: ("string_to_array('a,b,c', ',')", "[\"a\", \"b\", \"c\"]"),
    ..ordinary("list")
};

fn is_text(argument: &ArgumentKind<'_>) -> bool {
    matches!(argument.kind, DataType::Utf8View | DataType::Null)
}

/// Returns the list type with texts as its innermost items.
fn with_texts(kind: &DataType) -> DataType {
    match kind {
        DataType::List(item) => list_of(with_texts(item.data_type())),
        _ => DataType::Utf8View,
    }
}

/// Returns the text of an operand in a row.
fn text_at(operand: &Operand, row: usize) -> Option<&str> {
    let at = operand.at(row);
    operand.values.is_valid(at).then(|| operand.values.as_string_view().value(at))
}

fn join(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let lists = ListRanges::of(&arguments[0]);
    let mut texts = StringViewBuilder::with_capacity(rows);
    let (mut joined, mut bytes) = (String::new(), 0_u64);
    for row in 0..rows {
        let (Some(items), Some(separator)) = (lists.at(row), text_at(&arguments[1], row)) else {
            texts.append_null();
            continue;
        };
        joined.clear();
        let null_text = arguments.get(2).and_then(|operand| text_at(operand, row));
        let mut joining = Joining { separator, null_text, joined: &mut joined, is_first: true, bytes_before: bytes };
        joining.items(lists.items(), items)?;
        bytes += joined.len() as u64;
        texts.append_value(&joined);
    }
    Ok(Arc::new(texts.finish()))
}

/// Builds the text of one list.
struct Joining<'a> {
    separator: &'a str,
    null_text: Option<&'a str>,
    joined: &'a mut String,
    is_first: bool,
    /// The bytes of the texts of all earlier lists.
    bytes_before: u64,
}

impl Joining<'_> {
    fn items(&mut self, items: &ArrayRef, range: Range<usize>) -> Result<()> {
        if let DataType::List(_) = items.data_type() {
            let lists = items.as_list::<i32>();
            let offsets = lists.value_offsets();
            for row in range.filter(|row| lists.is_valid(*row)) {
                self.items(lists.values(), offsets[row] as usize..offsets[row + 1] as usize)?;
            }
            return Ok(());
        }
        let texts = items.as_string_view();
        for item in range {
            let text = if texts.is_valid(item) { Some(texts.value(item)) } else { self.null_text };
            let Some(text) = text else { continue };
            let separator = if std::mem::take(&mut self.is_first) { "" } else { self.separator };
            // We check before we write, because a long separator between many items may not fit the memory.
            let bytes = self.joined.len() + separator.len() + text.len();
            check_size("array_to_string", self.bytes_before + bytes as u64, 1)?;
            self.joined.push_str(separator);
            self.joined.push_str(text);
        }
        Ok(())
    }
}

fn split(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let mut parts = StringViewBuilder::new();
    let mut offsets = vec![0];
    let mut nulls = NullBufferBuilder::new(rows);
    for row in 0..rows {
        match text_at(&arguments[0], row) {
            None => nulls.append_null(),
            Some(text) => {
                nulls.append_non_null();
                let null_text = arguments.get(2).and_then(|operand| text_at(operand, row));
                let mut add = |part: &str| {
                    if null_text == Some(part) { parts.append_null() } else { parts.append_value(part) }
                };
                match text_at(&arguments[1], row) {
                    _ if text.is_empty() => {}
                    Some("") => add(text),
                    Some(separator) => text.split(separator).for_each(add),
                    None => {
                        let ends = text.char_indices().skip(1).map(|(at, _)| at).chain([text.len()]);
                        let mut start = 0;
                        for end in ends {
                            add(&text[start..end]);
                            start = end;
                        }
                    }
                }
            }
        }
        offsets.push(parts.len() as i32);
    }
    lists_of(kind, offsets, Arc::new(parts.finish()), nulls.finish())
}
