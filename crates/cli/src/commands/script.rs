//! Commands for scripts: other files, texts and variables.

use std::path::Path;

use rowmill::text::{LexemeKind, lexemes};
use rowmill::{Error, ErrorKind, Result};

use super::Next;
use crate::input::SqlStream;
use crate::runner::Runner;
use crate::terminal::say;

pub(super) fn include(file: &str, runner: &mut Runner) -> Result<Next> {
    runner.run_stream(SqlStream::file(Path::new(file))?)?;
    Ok(Next::Continue)
}

pub(super) fn echo(text: &str, runner: &mut Runner) -> Result<Next> {
    say(&format!("{}\n", runner.variables.expand(text)))?;
    Ok(Next::Continue)
}

pub(super) fn set(argument: &str, runner: &mut Runner) -> Result<Next> {
    let (name, value) = argument.split_once(char::is_whitespace).unwrap_or((argument, ""));
    if name.is_empty() {
        let lines: String =
            runner.variables.all().map(|(name, value)| format!("{name} = '{}'\n", value.replace('\'', "''"))).collect();
        say(&lines)?;
        return Ok(Next::Continue);
    }
    if !name.chars().all(|c| c.is_alphanumeric() || c == '_') {
        let message =
            format!("\"{name}\" cannot be the name of a variable: it has other signs than letters, digits and _");
        return Err(Error::new(ErrorKind::InvalidParameter, message));
    }
    let value = value.trim();
    let unquoted =
        value.strip_prefix('\'').and_then(|value| value.strip_suffix('\'')).map(|text| text.replace("''", "'"));
    runner.variables.set(name, &unquoted.unwrap_or_else(|| value.to_owned()));
    Ok(Next::Continue)
}

pub(super) fn unset(name: &str, runner: &mut Runner) -> Result<Next> {
    if runner.variables.unset(name) {
        return Ok(Next::Continue);
    }
    Err(Error::new(ErrorKind::UndefinedObject, format!("there is no variable \"{name}\"")).hint("\\set lists them"))
}

pub(super) fn copy(argument: &str, runner: &mut Runner) -> Result<Next> {
    runner.run_text(&format!("COPY {}", with_quoted_file(argument)))?;
    Ok(Next::Continue)
}

/// Puts quotes around the file after FROM or TO. `\copy` may name it without quotes.
fn with_quoted_file(argument: &str) -> String {
    let (mut at, mut depth) = (0, 0_usize);
    let mut lexemes = lexemes(argument);
    for lexeme in lexemes.by_ref() {
        at += lexeme.text.len();
        match lexeme.text {
            "(" => depth += 1,
            ")" => depth = depth.saturating_sub(1),
            text if depth == 0 && ["from", "to"].contains(&text.to_lowercase().as_str()) => break,
            _ => {}
        }
    }
    at += lexemes.take_while(|lexeme| lexeme.kind == LexemeKind::Blank).map(|lexeme| lexeme.text.len()).sum::<usize>();
    let (before, rest) = argument.split_at(at);
    let file = rest.split_whitespace().next().unwrap_or_default();
    let is_quoted = rest.starts_with(['\'', '$']) || ["stdin", "stdout"].contains(&file.to_lowercase().as_str());
    match file.is_empty() || is_quoted {
        true => argument.to_owned(),
        false => format!("{before}'{}'{}", file.replace('\'', "''"), &rest[file.len()..]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_a_copy_needs_no_quotes() {
        for (typed, sql) in [
            ("t FROM data/a.csv", "t FROM 'data/a.csv'"),
            ("t (a, b) from /tmp/x.csv (header true)", "t (a, b) from '/tmp/x.csv' (header true)"),
            ("(SELECT a FROM t) TO out.csv", "(SELECT a FROM t) TO 'out.csv'"),
            ("t FROM 'a b.csv' CSV", "t FROM 'a b.csv' CSV"),
            ("t TO stdout", "t TO stdout"),
            ("t", "t"),
            ("t FROM", "t FROM"),
        ] {
            assert_eq!(with_quoted_file(typed), sql);
        }
    }
}
