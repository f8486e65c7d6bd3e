//! Functions that replace matches.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, StringViewBuilder, new_null_array};
use arrow::datatypes::DataType;
use rowmill_base::Result;
use rowmill_plan::Operand;

use super::pattern::{PatternCache, library_flags, prepared};
use crate::functions::result_limit::ResultLimit;
use crate::functions::rowwise::{TextArgument, too_long, valid_rows};
use crate::regexp::Replacer;

thread_local! {
    static REPLACERS: PatternCache<Replacer> = const { RefCell::new(Vec::new()) };
}

pub(super) fn regexp_replace(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let Some(valid) = valid_rows(arguments) else { return Ok(new_null_array(kind, rows)) };
    let (patterns, replacements) = (TextArgument::new(&arguments[1]), TextArgument::new(&arguments[2]));
    let flags = arguments.get(3).map(TextArgument::new);
    let limit = ResultLimit::of("regexp_replace");
    let constant_flags = flags.map_or(Some(""), |flags| flags.constant());
    if !arguments[0].is_constant
        && let Some((pattern, replacement)) = patterns.constant().zip(replacements.constant())
        && let Some(flags) = constant_flags
    {
        let check = |bytes: usize| limit.check(bytes as u128);
        let texts = arguments[0].values.as_string_view();
        return Ok(Arc::new(replacer(pattern, replacement, flags)?.replace(texts, &check)?));
    }
    let texts = arguments[0].values.as_string_view();
    let mut made = StringViewBuilder::with_capacity(rows);
    let mut bytes = 0;
    for row in 0..rows {
        if valid.as_ref().is_some_and(|valid| valid.is_null(row)) {
            made.append_null();
            continue;
        }
        let replacer = replacer(patterns.at(row), replacements.at(row), flags.map_or("", |flags| flags.at(row)))?;
        // Each row is a call of its own, so the limit must count the rows before it.
        let check = |more: usize| limit.check((bytes + more) as u128);
        let replaced = replacer.replace(&texts.slice(arguments[0].at(row), 1), &check)?;
        bytes += replaced.value(0).len();
        made.try_append_value(replaced.value(0)).map_err(too_long)?;
    }
    Ok(Arc::new(made.finish()))
}

fn replacer(pattern: &str, replacement: &str, flags: &str) -> Result<Rc<Replacer>> {
    prepared(&REPLACERS, &[pattern, replacement, flags], || {
        let flags = library_flags(flags);
        Replacer::new(pattern, replacement, (!flags.is_empty()).then_some(&flags))
    })
}
