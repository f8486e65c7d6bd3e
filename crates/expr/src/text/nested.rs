//! Reads lists and structs from their text, which is JSON.
//!
//! We first parse a text to a tree whose leaves are texts, and then convert the tree to a value of the type. The reader
//! of a leaf's own type reads the leaf. For example, `["2013-07-31"]` is a `DATE[]`.

use std::iter::Peekable;
use std::str::Chars;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ListArray, StringViewArray, StructArray, new_empty_array, new_null_array};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, FieldRef, Fields};

use super::read_column::{Unreadable, read_column};
use super::reader::Problem;

/// The deepest nesting of lists and structs that we read.
const DEPTH_MAX: usize = 100;

/// A JSON value, with numbers and words as texts.
#[derive(Debug)]
enum JsonTree {
    Null,
    Leaf(String),
    Items(Vec<JsonTree>),
    Fields(Vec<(String, JsonTree)>),
}

/// Reads `text` as a value of a list or struct type. Returns an array of one row.
pub(super) fn read(text: &str, kind: &DataType) -> Result<ArrayRef, Problem> {
    let mut reader = JsonReader { chars: text.chars().peekable() };
    let tree = reader.value(0)?;
    reader.skip_blanks();
    if reader.chars.next().is_some() || matches!(tree, JsonTree::Null) {
        return Err(Problem::Malformed);
    }
    column(&[&tree], kind)
}

struct JsonReader<'a> {
    chars: Peekable<Chars<'a>>,
}

impl JsonReader<'_> {
    fn skip_blanks(&mut self) {
        while self.chars.next_if(|c| c.is_ascii_whitespace()).is_some() {}
    }

    /// Takes the next character that is not blank, if it is `wanted`. Returns whether it did.
    fn takes(&mut self, wanted: char) -> bool {
        self.skip_blanks();
        self.chars.next_if_eq(&wanted).is_some()
    }

    fn value(&mut self, depth: usize) -> Result<JsonTree, Problem> {
        // The reader recurses, so the depth must be limited.
        if depth > DEPTH_MAX {
            return Err(Problem::Malformed);
        }
        self.skip_blanks();
        match self.chars.peek() {
            Some('[') => {
                self.chars.next();
                let mut items = Vec::new();
                self.separated(']', |reader| {
                    items.push(reader.value(depth + 1)?);
                    Ok(())
                })?;
                Ok(JsonTree::Items(items))
            }
            Some('{') => {
                self.chars.next();
                let mut fields = Vec::new();
                self.separated('}', |reader| {
                    reader.skip_blanks();
                    let name = reader.string()?;
                    if !reader.takes(':') {
                        return Err(Problem::Malformed);
                    }
                    fields.push((name, reader.value(depth + 1)?));
                    Ok(())
                })?;
                Ok(JsonTree::Fields(fields))
            }
            Some('"') => Ok(JsonTree::Leaf(self.string()?)),
            _ => {
                let mut word = String::new();
                while let Some(next) = self.chars.next_if(|c| !matches!(c, ',' | ']' | '}' | '[' | '{' | '"')) {
                    word.push(next);
                }
                let word = word.trim_ascii_end();
                match word {
                    "" => Err(Problem::Malformed),
                    word if word.eq_ignore_ascii_case("null") => Ok(JsonTree::Null),
                    word => Ok(JsonTree::Leaf(word.to_owned())),
                }
            }
        }
    }

    /// Reads a list of elements, each with `one`, separated by commas and ended by `end`. The list may be empty.
    fn separated(&mut self, end: char, mut one: impl FnMut(&mut Self) -> Result<(), Problem>) -> Result<(), Problem> {
        if self.takes(end) {
            return Ok(());
        }
        loop {
            one(self)?;
            if self.takes(end) {
                return Ok(());
            }
            if !self.takes(',') {
                return Err(Problem::Malformed);
            }
        }
    }

    fn string(&mut self) -> Result<String, Problem> {
        if self.chars.next() != Some('"') {
            return Err(Problem::Malformed);
        }
        let mut text = String::new();
        loop {
            match self.chars.next().ok_or(Problem::Malformed)? {
                '"' => return Ok(text),
                '\\' => text.push(self.escaped()?),
                other => text.push(other),
            }
        }
    }

    fn escaped(&mut self) -> Result<char, Problem> {
        Ok(match self.chars.next().ok_or(Problem::Malformed)? {
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'u' => {
                let first = self.code_unit()?;
                if !(0xd800..0xdc00).contains(&first) {
                    return char::from_u32(first).ok_or(Problem::Malformed);
                }
                // A character beyond the first 65,536 is written as two units.
                if self.chars.next() != Some('\\') || self.chars.next() != Some('u') {
                    return Err(Problem::Malformed);
                }
                let second = self.code_unit()?;
                let low = second.checked_sub(0xdc00).filter(|low| *low < 0x400).ok_or(Problem::Malformed)?;
                return char::from_u32(0x10000 + ((first - 0xd800) << 10) + low).ok_or(Problem::Malformed);
            }
            other @ ('"' | '\\' | '/') => other,
            _ => return Err(Problem::Malformed),
        })
    }

    fn code_unit(&mut self) -> Result<u32, Problem> {
        (0..4).try_fold(0, |unit, _| {
            let digit = self.chars.next().and_then(|c| c.to_digit(16)).ok_or(Problem::Malformed)?;
            Ok(unit * 16 + digit)
        })
    }
}

/// Converts trees to a column of type `kind`.
fn column(trees: &[&JsonTree], kind: &DataType) -> Result<ArrayRef, Problem> {
    match kind {
        DataType::List(item) => list_column(trees, item),
        DataType::Struct(fields) => struct_column(trees, fields),
        _ => leaf_column(trees, kind),
    }
}

fn leaf_column(trees: &[&JsonTree], kind: &DataType) -> Result<ArrayRef, Problem> {
    let leaves: Result<StringViewArray, Problem> = trees
        .iter()
        .map(|tree| match tree {
            JsonTree::Null => Ok(None),
            JsonTree::Leaf(text) => Ok(Some(text.as_str())),
            _ => Err(Problem::Malformed),
        })
        .collect();
    let leaves = leaves?;
    let values = read_column(&leaves, kind, Unreadable::IsNull).map_err(|_| Problem::Malformed)?;
    if values.null_count() == leaves.null_count() || *kind == DataType::Null {
        return Ok(values);
    }
    // We read again, now with errors, to find out why a value is unreadable.
    let failed = read_column(&leaves, kind, Unreadable::Fails).err();
    let is_range = failed.is_some_and(|error| error.kind() == rowmill_base::ErrorKind::NumericOutOfRange);
    Err(if is_range { Problem::OutOfRange } else { Problem::Malformed })
}

fn list_column(trees: &[&JsonTree], item: &FieldRef) -> Result<ArrayRef, Problem> {
    let mut items: Vec<&JsonTree> = Vec::new();
    let mut lengths = Vec::with_capacity(trees.len());
    let mut valid = Vec::with_capacity(trees.len());
    for tree in trees {
        match tree {
            JsonTree::Items(all) => {
                items.extend(all);
                lengths.push(all.len());
            }
            JsonTree::Null => lengths.push(0),
            _ => return Err(Problem::Malformed),
        }
        valid.push(!matches!(tree, JsonTree::Null));
    }
    let values = if items.is_empty() { new_empty_array(item.data_type()) } else { column(&items, item.data_type())? };
    let offsets = OffsetBuffer::from_lengths(lengths);
    let list = ListArray::try_new(Arc::clone(item), offsets, values, nulls(valid)).map_err(|_| Problem::Malformed)?;
    Ok(Arc::new(list))
}

fn struct_column(trees: &[&JsonTree], fields: &Fields) -> Result<ArrayRef, Problem> {
    let mut columns: Vec<Vec<&JsonTree>> = vec![vec![&JsonTree::Null; trees.len()]; fields.len()];
    let mut valid = Vec::with_capacity(trees.len());
    for (row, tree) in trees.iter().enumerate() {
        match tree {
            JsonTree::Fields(named) => {
                for (name, value) in named {
                    let exact = fields.iter().position(|field| field.name() == name);
                    let place = exact
                        .or_else(|| fields.iter().position(|field| field.name().eq_ignore_ascii_case(name)))
                        .ok_or(Problem::Malformed)?;
                    columns[place][row] = value;
                }
            }
            JsonTree::Null => {}
            _ => return Err(Problem::Malformed),
        }
        valid.push(!matches!(tree, JsonTree::Null));
    }
    if fields.is_empty() {
        return Ok(Arc::new(StructArray::new_empty_fields(trees.len(), nulls(valid))));
    }
    let columns: Result<Vec<ArrayRef>, Problem> = columns
        .iter()
        .zip(fields)
        .map(|(trees, field)| match trees.is_empty() {
            true => Ok(new_null_array(field.data_type(), 0)),
            false => column(trees, field.data_type()),
        })
        .collect();
    let array = StructArray::try_new(fields.clone(), columns?, nulls(valid)).map_err(|_| Problem::Malformed)?;
    Ok(Arc::new(array))
}

fn nulls(valid: Vec<bool>) -> Option<NullBuffer> {
    Some(NullBuffer::from(valid)).filter(|nulls| nulls.null_count() > 0)
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::Field;

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
