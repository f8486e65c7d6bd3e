//! Text functions.

use rowmill_base::{Result, SqlType};
use rowmill_expr::functions::part_of_text;
use rowmill_plan::program::TextFunction;
use rowmill_storage::keyed::ValueRef;

use super::{Env, Expr};

/// A text function and its arguments.
#[derive(Debug)]
pub(crate) struct TextCall {
    function: TextFunction,
    arguments: Box<[Expr]>,
    /// The place of the text that it makes.
    place: usize,
}

impl TextCall {
    /// Compiles a call. Returns `None` if the function does not take arguments of these types.
    pub(super) fn new(
        function: TextFunction,
        kinds: &[&SqlType],
        kind: &SqlType,
        arguments: Box<[Expr]>,
        place: usize,
    ) -> Option<TextCall> {
        let is_text = |kind: &SqlType| matches!(kind, SqlType::Text { .. });
        let takes_them = match function {
            TextFunction::Concat => kinds.iter().all(|kind| is_text(kind)),
            TextFunction::Lower | TextFunction::Upper => matches!(kinds, [text] if is_text(text)),
            TextFunction::Substring => match kinds {
                [text, numbers @ ..] => {
                    let are_numbers = numbers.iter().all(|kind| **kind == SqlType::Int64);
                    is_text(text) && (1..=2).contains(&numbers.len()) && are_numbers
                }
                [] => false,
            },
            TextFunction::Length => matches!(kinds, [text] if is_text(text)),
        };
        let gives_it = match function {
            TextFunction::Length => matches!(kind, SqlType::Int32 | SqlType::Int64),
            _ => is_text(kind),
        };
        (takes_them && gives_it).then_some(TextCall { function, arguments, place })
    }

    pub(super) fn value<'a>(&'a self, env: Env<'a>) -> Result<ValueRef<'a>> {
        if self.function == TextFunction::Concat {
            return self.joined(env);
        }
        let ValueRef::Text(text) = self.arguments[0].value(env)? else { return Ok(ValueRef::Null) };
        Ok(match self.function {
            TextFunction::Lower => self.made(env, text, str::make_ascii_lowercase, str::to_lowercase),
            TextFunction::Upper => self.made(env, text, str::make_ascii_uppercase, str::to_uppercase),
            TextFunction::Length => ValueRef::Int(text.chars().count() as i64),
            TextFunction::Substring => return self.part(text, env),
            TextFunction::Concat => unreachable!("CONCAT was handled above"),
        })
    }

    /// Changes the case of `text`: in place if it is ASCII, by the rules of Unicode otherwise.
    fn made<'a>(&'a self, env: Env<'a>, text: &str, ascii: fn(&mut str), any: fn(&str) -> String) -> ValueRef<'a> {
        ValueRef::Text(env.texts.make(self.place, |made| match text.is_ascii() {
            true => {
                made.push_str(text);
                ascii(made);
            }
            false => made.push_str(&any(text)),
        }))
    }

    fn joined<'a>(&'a self, env: Env<'a>) -> Result<ValueRef<'a>> {
        let mut has_null = false;
        let mut failed = None;
        // The closure cannot return an error, so we keep the first one and return it afterwards.
        let text = env.texts.make(self.place, |made| {
            for argument in &self.arguments {
                match argument.value(env) {
                    Ok(ValueRef::Text(text)) => made.push_str(text),
                    Ok(_) => has_null = true,
                    Err(error) => drop(failed.get_or_insert(error)),
                }
            }
        });
        match failed {
            Some(error) => Err(error),
            None if has_null => Ok(ValueRef::Null),
            None => Ok(ValueRef::Text(text)),
        }
    }

    /// Computes `substring(text, start [, length])`.
    fn part<'a>(&'a self, text: &'a str, env: Env<'a>) -> Result<ValueRef<'a>> {
        let ValueRef::Int(start) = self.arguments[1].value(env)? else { return Ok(ValueRef::Null) };
        let length = match self.arguments.get(2).map(|length| length.value(env)).transpose()? {
            None => None,
            Some(ValueRef::Int(length)) => Some(length),
            Some(_) => return Ok(ValueRef::Null),
        };
        part_of_text(text, start, length).map(ValueRef::Text)
    }
}
