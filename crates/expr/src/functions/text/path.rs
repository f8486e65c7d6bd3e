//! Functions of paths of files, whose separators are `/` and `\` unless a call names one.

use std::sync::Arc;

use arrow::array::{ArrayRef, ListBuilder, StringViewBuilder, new_null_array};
use arrow::datatypes::{DataType, Field};
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::function::{ArgumentKind, CallKinds};
use rowmill_plan::{FunctionSpec, Operand};

use crate::functions::rowwise::{TextArgument, pieces, texts, too_long, valid_rows};
use crate::functions::signatures::{BOOLEAN, TEXT};
use crate::functions::signatures::{optional, ordinary, variadic};

/// The functions of this file.
pub(in crate::functions) static PATHS: &[FunctionSpec] = &[
    FunctionSpec {
        name: "parse_filename",
        can_fail: true,
        signature: |arguments| filename_kinds(arguments),
        kernel: filename,
        doc: "The last part of a path, without its extension if the second argument is true. A further argument \
          names the separator.",
        example: ("parse_filename('/var/data/mill.csv', true)", "mill"),
        ..ordinary("text")
    },
    FunctionSpec {
        name: "parse_dirname",
        can_fail: true,
        signature: |arguments| optional(arguments, 1, &[TEXT, TEXT], TEXT),
        kernel: dirname,
        doc: "The first part of a path.",
        example: ("parse_dirname('data/2013/mill.csv')", "data"),
        ..ordinary("text")
    },
    FunctionSpec {
        name: "parse_dirpath",
        can_fail: true,
        signature: |arguments| optional(arguments, 1, &[TEXT, TEXT], TEXT),
        kernel: dirpath,
        doc: "The path without its last part.",
        example: ("parse_dirpath('/var/data/mill.csv')", "/var/data"),
        ..ordinary("text")
    },
    FunctionSpec {
        name: "parse_path",
        can_fail: true,
        signature: |arguments| {
            optional(arguments, 1, &[TEXT, TEXT], DataType::List(Arc::new(Field::new("item", TEXT, true))))
        },
        kernel: components,
        doc: "The parts of a path, and first / for an absolute one.",
        example: ("parse_path('/var/mill.csv')", "[\"/\", \"var\", \"mill.csv\"]"),
        ..ordinary("text")
    },
    FunctionSpec {
        name: "path_join",
        can_fail: true,
        signature: |arguments| variadic(arguments, 1, &TEXT, TEXT),
        kernel: join,
        doc: "The parts joined to one path. A part .. takes back the part before it.",
        example: ("path_join('data', '2013', '../2014')", "data/2014"),
        ..ordinary("text")
    },
];

/// The separators of a row.
#[derive(Clone, Copy)]
struct Separators<'a>(Option<TextArgument<'a>>);

impl Separators<'_> {
    fn at(self, row: usize) -> Result<&'static [char]> {
        let Some(names) = self.0 else { return Ok(&['/', '\\']) };
        Ok(match names.at(row) {
            "system" | "forward_slash" | "/" => &['/'],
            "backslash" | "\\" => &['\\'],
            "both_slash" => &['/', '\\'],
            other => {
                let other: String = other.chars().take(60).collect();
                let error = Error::new(ErrorKind::InvalidParameter, format!("'{other}' is not a separator of paths"));
                return Err(error.hint("it is 'system', 'both_slash', 'forward_slash' or 'backslash'"));
            }
        })
    }
}

/// Accepts a path, maybe whether to cut the extension, and maybe a separator.
pub(super) fn filename_kinds(arguments: &[ArgumentKind<'_>]) -> Option<CallKinds> {
    let is_text = |argument: &ArgumentKind<'_>| matches!(argument.kind, DataType::Utf8View | DataType::Null);
    let kinds = match arguments {
        [path] if is_text(path) => vec![TEXT],
        [path, option] if is_text(path) && *option.kind == BOOLEAN => vec![TEXT, BOOLEAN],
        [path, option] if is_text(path) && is_text(option) => vec![TEXT, TEXT],
        [path, flag, separator] if is_text(path) && *flag.kind == BOOLEAN && is_text(separator) => {
            vec![TEXT, BOOLEAN, TEXT]
        }
        _ => return None,
    };
    Some(CallKinds { arguments: kinds, result: TEXT })
}

pub(super) fn filename(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let paths = TextArgument::new(&arguments[0]);
    let is_text = |operand: &&Operand| *operand.values.data_type() == TEXT;
    let separators = Separators(arguments[1..].iter().find(is_text).map(TextArgument::new));
    let cuts = arguments[1..].iter().find(|operand| *operand.values.data_type() == BOOLEAN);
    pieces(arguments, rows, |row| {
        let name = split_last(paths.at(row), separators.at(row)?).1;
        let is_cut = cuts.is_some_and(|cuts| arrow::array::AsArray::as_boolean(&cuts.values).value(cuts.at(row)));
        Ok(match name.rfind('.') {
            Some(point) if is_cut => &name[..point],
            _ => name,
        })
    })
}

pub(super) fn dirpath(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let (paths, separators) = (TextArgument::new(&arguments[0]), Separators(arguments.get(1).map(TextArgument::new)));
    pieces(arguments, rows, |row| {
        let path = paths.at(row);
        Ok(split_last(path, separators.at(row)?).0)
    })
}

pub(super) fn dirname(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let (paths, separators) = (TextArgument::new(&arguments[0]), Separators(arguments.get(1).map(TextArgument::new)));
    pieces(arguments, rows, |row| {
        let (path, separators) = (paths.at(row), separators.at(row)?);
        let Some(end) = path.find(separators) else { return Ok("") };
        Ok(if end == 0 { &path[..1] } else { &path[..end] })
    })
}

pub(super) fn components(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let Some(valid) = valid_rows(arguments) else { return Ok(new_null_array(kind, rows)) };
    let (paths, separators) = (TextArgument::new(&arguments[0]), Separators(arguments.get(1).map(TextArgument::new)));
    let mut made =
        ListBuilder::with_capacity(StringViewBuilder::new(), rows).with_field(Field::new("item", TEXT, true));
    for row in 0..rows {
        if valid.as_ref().is_some_and(|valid| valid.is_null(row)) {
            made.append_null();
            continue;
        }
        let (path, separators) = (paths.at(row), separators.at(row)?);
        let root = if path.starts_with(separators) { Some(&path[..1]) } else { None };
        for part in root.into_iter().chain(path.split(separators).filter(|part| !part.is_empty())) {
            made.values().try_append_value(part).map_err(too_long)?;
        }
        made.append(true);
    }
    Ok(Arc::new(made.finish()))
}

/// Joins parts with `/`, and resolves `.` and `..`. Only the first part may be absolute.
pub(super) fn join(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let parts: Vec<TextArgument<'_>> = arguments.iter().map(TextArgument::new).collect();
    let mut steps: Vec<&str> = Vec::new();
    texts("path_join", arguments, rows, |row, made| {
        steps.clear();
        let is_absolute = parts[0].at(row).starts_with('/');
        for (place, part) in parts.iter().enumerate() {
            let part = part.at(row);
            if place > 0 && part.starts_with('/') {
                let message = format!("path_join: '{part}' is absolute, and only the first part may be");
                return Err(Error::new(ErrorKind::InvalidParameter, message));
            }
            for step in part.split('/') {
                match step {
                    "" | "." => {}
                    ".." if steps.last().is_some_and(|last| *last != "..") => drop(steps.pop()),
                    // The directory above the root is the root.
                    ".." if is_absolute => {}
                    step => steps.push(step),
                }
            }
        }
        made.push(if is_absolute { "/" } else { "" })?;
        for (place, step) in steps.iter().enumerate() {
            made.push(if place == 0 { "" } else { "/" })?;
            made.push(step)?;
        }
        Ok(())
    })
}

/// Returns the part of a path before its last separator, and the part after it.
fn split_last<'a>(path: &'a str, separators: &[char]) -> (&'a str, &'a str) {
    match path.rfind(separators) {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => ("", path),
    }
}
