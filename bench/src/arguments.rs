//! The command line: a command, positions, and `--name value` pairs in any order.

use std::collections::BTreeMap;

use rowmill_base::{Error, ErrorKind, Result, nearest};

/// What a command was given, checked against what it knows.
pub struct Arguments {
    command: &'static str,
    positions: Vec<String>,
    options: BTreeMap<String, String>,
}

impl Arguments {
    /// Reads the arguments behind `command`, which knows `names` as options and wants `positions` values without a name.
    pub fn parse(
        command: &'static str,
        positions: &[&str],
        names: &[&str],
        given: impl Iterator<Item = String>,
    ) -> Result<Arguments> {
        let mut arguments = Arguments {
            command,
            positions: Vec::new(),
            options: BTreeMap::new(),
        };
        let mut given = given;
        while let Some(argument) = given.next() {
            let Some(name) = argument.strip_prefix("--") else {
                arguments.positions.push(argument);
                continue;
            };
            let (name, value) = match name.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (name, given.next()),
            };
            if !names.contains(&name) {
                return Err(unknown_option(command, name, names));
            }
            let value = value.ok_or_else(|| usage(command, format!("--{name} needs a value")))?;
            arguments.options.insert(name.to_owned(), value);
        }
        match (
            arguments.positions.get(positions.len()),
            positions.get(arguments.positions.len()),
        ) {
            (Some(extra), _) => Err(usage(command, format!("'{extra}' is one value too many"))),
            (None, Some(missing)) => Err(usage(command, format!("{missing} is missing"))),
            (None, None) => Ok(arguments),
        }
    }

    /// The value at a position.
    pub fn position(&self, at: usize) -> &str {
        &self.positions[at]
    }

    /// The value of an option that must be given.
    pub fn required(&self, name: &str) -> Result<&str> {
        self.optional(name)
            .ok_or_else(|| usage(self.command, format!("--{name} is missing")))
    }

    /// The value of an option.
    pub fn optional(&self, name: &str) -> Option<&str> {
        self.options.get(name).map(String::as_str)
    }

    /// A number, with `k`, `m` or `g` for thousands, millions and thousands of millions.
    pub fn count(&self, name: &str, default: Option<u64>) -> Result<u64> {
        match (self.optional(name), default) {
            (Some(text), _) => parse_count(text).ok_or_else(|| {
                usage(self.command, format!("--{name} {text}: not a number"))
                    .hint("Write 10000000, 10_000_000 or 10m.")
            }),
            (None, Some(default)) => Ok(default),
            (None, None) => self.required(name).map(|_| 0),
        }
    }

    /// Threads to use: `--threads`, or all cores.
    pub fn threads(&self) -> Result<usize> {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
        Ok(self.count("threads", Some(cores))?.max(1) as usize)
    }
}

fn parse_count(text: &str) -> Option<u64> {
    let text = text.replace('_', "").to_ascii_lowercase();
    let (digits, factor) = match text.char_indices().last()? {
        (at, 'k') => (&text[..at], 1_000),
        (at, 'm') => (&text[..at], 1_000_000),
        (at, 'g') => (&text[..at], 1_000_000_000),
        _ => (text.as_str(), 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

/// A command line that cannot be used.
pub fn usage(command: &str, message: impl std::fmt::Display) -> Error {
    Error::new(
        ErrorKind::InvalidParameter,
        format!("rowmill-bench {command}: {message}"),
    )
    .hint("`rowmill-bench help` lists the commands and their options.")
}

fn unknown_option(command: &str, name: &str, names: &[&str]) -> Error {
    let error = usage(command, format!("there is no option --{name}"));
    match nearest(name, names.iter().copied()).first() {
        Some(meant) => error.hint(format!("Did you mean --{meant}?")),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn parse(given: &[&str]) -> Result<Arguments> {
        Arguments::parse(
            "hits",
            &["FILE"],
            &["rows", "seed"],
            given.iter().map(|text| text.to_string()),
        )
    }

    #[test]
    fn options_and_positions_mix() {
        let arguments = parse(&["--rows", "10m", "a.parquet", "--seed=7"]).unwrap();
        assert_eq!(arguments.position(0), "a.parquet");
        assert_eq!(arguments.count("rows", None).unwrap(), 10_000_000);
        assert_eq!(arguments.count("seed", Some(1)).unwrap(), 7);
    }

    #[test]
    fn mistakes_are_named() {
        let message = |given: &[&str]| parse(given).map(|_| ()).unwrap_err().to_string();
        assert!(message(&["a", "b"]).contains("'b' is one value too many"));
        assert!(message(&[]).contains("FILE is missing"));
        assert!(message(&["a", "--row", "1"]).contains("--rows"));
        assert!(message(&["a", "--rows"]).contains("needs a value"));
        assert!(
            parse(&["a", "--rows", "x"])
                .unwrap()
                .count("rows", None)
                .is_err()
        );
    }
}
