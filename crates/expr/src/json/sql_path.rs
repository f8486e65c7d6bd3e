//! The path language of SQL/JSON (SQL:2016, as PostgreSQL has it): `$.a[*] ? (@.b > 1 && @.c starts with "x").size()`.
//!
//! ```text
//! path       [lax | strict] or
//! or         and {|| and}                     and       not {&& not}
//! not        [!] comparison
//! comparison sum [{== | = | != | <> | < | <= | > | >=} sum | like_regex "pattern" [flag "flags"] | starts with sum
//!            | is unknown]
//! sum        product {{+ | -} product}        product   sign {{* | / | %} sign}
//! sign       [+ | -] accessed                 accessed  primary {accessor}
//! primary    $ | @ | $name | last | "text" | number | true | false | null | (or) | exists (or)
//! accessor   .key | ."key" | .* | .** | .**{n} | .**{n to m} | [*] | [sum [to sum], ...] | ? (or) | .method()
//! ```
//!
//! A path in lax mode, the default, takes an array for its items and a value for an array of one where that helps, and
//! leaves out what a document does not have. In strict mode these are errors. [`evaluation`] has the values.

mod evaluation;

use std::rc::Rc;

use regex::Regex;
use rowmill_base::{Error, ErrorKind, Result};

use crate::regexp::compile;
use crate::text::json::unescape;

pub(crate) use evaluation::{PathFailure, PathInput};

/// The most parts that enclose each other. Parsing and evaluation are recursive.
const DEPTH_MAX: usize = 100;

/// A parsed path.
#[derive(Debug)]
pub(crate) struct SqlPath {
    is_lax: bool,
    root: PathExpr,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PathOp {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PathComparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Debug)]
enum PathExpr {
    Root,
    Current,
    Variable(String),
    Last,
    /// The text of a JSON value.
    Literal(String),
    Access(Box<PathExpr>, PathAccess),
    Negated(Box<PathExpr>),
    Positive(Box<PathExpr>),
    Arithmetic(PathOp, Box<[PathExpr; 2]>),
    Compare(PathComparison, Box<[PathExpr; 2]>),
    And(Box<[PathExpr; 2]>),
    Or(Box<[PathExpr; 2]>),
    Not(Box<PathExpr>),
    IsUnknown(Box<PathExpr>),
    Exists(Box<PathExpr>),
    LikeRegex(Box<PathExpr>, Rc<Regex>),
    StartsWith(Box<[PathExpr; 2]>),
}

#[derive(Debug)]
enum PathAccess {
    Key(String),
    Members,
    Items,
    /// Positions, each one or from one to another.
    Positions(Vec<(PathExpr, Option<PathExpr>)>),
    /// The value and all values in it, from a depth to another.
    Deep {
        first: usize,
        last: usize,
    },
    Filter(Box<PathExpr>),
    Method(PathMethod),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PathMethod {
    Type,
    Size,
    Double,
    Number,
    Integer,
    String,
    Boolean,
    Ceiling,
    Floor,
    Abs,
    KeyValue,
}

const METHODS: &[(&str, PathMethod)] = &[
    ("type", PathMethod::Type),
    ("size", PathMethod::Size),
    ("double", PathMethod::Double),
    ("number", PathMethod::Number),
    ("decimal", PathMethod::Number),
    ("integer", PathMethod::Integer),
    ("bigint", PathMethod::Integer),
    ("string", PathMethod::String),
    ("boolean", PathMethod::Boolean),
    ("ceiling", PathMethod::Ceiling),
    ("floor", PathMethod::Floor),
    ("abs", PathMethod::Abs),
    ("keyvalue", PathMethod::KeyValue),
];

impl PathExpr {
    /// Whether it is true, false or unknown, and not values of the document.
    fn is_predicate(&self) -> bool {
        use PathExpr::{And, Compare, Exists, IsUnknown, LikeRegex, Not, Or, StartsWith};
        matches!(self, And(_) | Or(_) | Not(_) | IsUnknown(_) | Exists(_) | Compare(..) | LikeRegex(..) | StartsWith(_))
    }
}

impl SqlPath {
    /// Reads a path.
    pub(crate) fn read(text: &str) -> Result<SqlPath> {
        let mut reader = SqlPathReader { text, at: 0, depth: 0 };
        let is_lax = !reader.takes_word("strict");
        if is_lax {
            reader.takes_word("lax");
        }
        let root = reader.or()?;
        match reader.peek() {
            None => Ok(SqlPath { is_lax, root }),
            Some(_) => Err(reader.error("the end of the path")),
        }
    }
}

struct SqlPathReader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl SqlPathReader<'_> {
    /// The next character that is no blank.
    fn peek(&mut self) -> Option<char> {
        let rest = self.text[self.at..].trim_start();
        self.at = self.text.len() - rest.len();
        rest.chars().next()
    }

    /// Passes over a sign, if it comes next.
    fn takes(&mut self, sign: &str) -> bool {
        self.peek();
        let is_next = self.text[self.at..].starts_with(sign);
        self.at += if is_next { sign.len() } else { 0 };
        is_next
    }

    fn expect(&mut self, sign: &str) -> Result<()> {
        if self.takes(sign) { Ok(()) } else { Err(self.error(sign)) }
    }

    /// The name that comes next. A name ends at a blank or a sign of the language.
    fn word(&mut self) -> &str {
        self.peek();
        let rest = &self.text[self.at..];
        let is_end = |ch: char| ch.is_whitespace() || "?%$.[]{}()|&!=<>@#,*:-+/\\\"'".contains(ch);
        &rest[..rest.find(is_end).unwrap_or(rest.len())]
    }

    fn takes_word(&mut self, wanted: &str) -> bool {
        let is_next = self.word() == wanted;
        self.at += if is_next { wanted.len() } else { 0 };
        is_next
    }

    fn error(&mut self, wanted: &str) -> Error {
        self.peek();
        let rest: String = self.text[self.at..].chars().take(20).collect();
        let found = if rest.is_empty() { "its end".to_owned() } else { format!("\"{rest}\"") };
        let message = format!("the path '{}' needs {wanted} in place of {found}", self.text);
        Error::new(ErrorKind::Syntax, message).hint("for example $.a[*] ? (@.b > 1), see SQL/JSON paths of PostgreSQL")
    }

    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth == DEPTH_MAX {
            let message = format!("a path has more than {DEPTH_MAX} parts inside of each other");
            return Err(Error::new(ErrorKind::StatementTooComplex, message));
        }
        self.depth += 1;
        let read = read(self);
        self.depth -= 1;
        read
    }

    fn predicate(&mut self, read: fn(&mut Self) -> Result<PathExpr>) -> Result<PathExpr> {
        let expr = read(self)?;
        if expr.is_predicate() { Ok(expr) } else { Err(self.error("a comparison")) }
    }

    fn value(&mut self, read: fn(&mut Self) -> Result<PathExpr>) -> Result<PathExpr> {
        let expr = read(self)?;
        if expr.is_predicate() { Err(self.error("a value before a comparison")) } else { Ok(expr) }
    }

    fn or(&mut self) -> Result<PathExpr> {
        let mut left = self.deeper(Self::and)?;
        while left.is_predicate() && self.takes("||") {
            left = PathExpr::Or(Box::new([left, self.predicate(Self::and)?]));
        }
        Ok(left)
    }

    fn and(&mut self) -> Result<PathExpr> {
        let mut left = self.not()?;
        while left.is_predicate() && self.takes("&&") {
            left = PathExpr::And(Box::new([left, self.predicate(Self::not)?]));
        }
        Ok(left)
    }

    fn not(&mut self) -> Result<PathExpr> {
        if self.peek() == Some('!') && !self.text[self.at..].starts_with("!=") {
            self.at += 1;
            let of = self.deeper(|reader| reader.predicate(Self::not))?;
            return Ok(PathExpr::Not(Box::new(of)));
        }
        self.comparison()
    }

    fn comparison(&mut self) -> Result<PathExpr> {
        let left = self.sum()?;
        if left.is_predicate() {
            let is_unknown = self.takes_word("is");
            if is_unknown && !self.takes_word("unknown") {
                return Err(self.error("unknown"));
            }
            return Ok(if is_unknown { PathExpr::IsUnknown(Box::new(left)) } else { left });
        }
        if self.takes_word("starts") {
            if !self.takes_word("with") {
                return Err(self.error("with"));
            }
            return Ok(PathExpr::StartsWith(Box::new([left, self.value(Self::sum)?])));
        }
        if self.takes_word("like_regex") {
            let pattern = self.quoted()?;
            let flags = if self.takes_word("flag") { self.quoted()? } else { String::new() };
            let regex = self.regex(&pattern, &flags)?;
            return Ok(PathExpr::LikeRegex(Box::new(left), Rc::new(regex)));
        }
        use PathComparison::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
        let signs = [
            ("==", Equal),
            ("!=", NotEqual),
            ("<>", NotEqual),
            ("<=", LessOrEqual),
            (">=", GreaterOrEqual),
            ("=", Equal),
            ("<", Less),
            (">", Greater),
        ];
        for (sign, op) in signs {
            if self.takes(sign) {
                return Ok(PathExpr::Compare(op, Box::new([left, self.value(Self::sum)?])));
            }
        }
        Ok(left)
    }

    fn regex(&mut self, pattern: &str, flags: &str) -> Result<Regex> {
        let pattern = if flags.contains('q') { regex::escape(pattern) } else { pattern.to_owned() };
        if let Some(other) = flags.chars().find(|flag| !"isqmx".contains(*flag)) {
            return Err(self.error(&format!("the flags i, s, m, q or x, not {other},")));
        }
        compile(&pattern, &flags.replace('q', ""))
    }

    fn sum(&mut self) -> Result<PathExpr> {
        let mut left = self.product()?;
        while !left.is_predicate() {
            let op = match self.peek() {
                Some('+') => PathOp::Add,
                Some('-') => PathOp::Subtract,
                _ => break,
            };
            self.at += 1;
            left = PathExpr::Arithmetic(op, Box::new([left, self.value(Self::product)?]));
        }
        Ok(left)
    }

    fn product(&mut self) -> Result<PathExpr> {
        let mut left = self.sign()?;
        while !left.is_predicate() {
            let op = match self.peek() {
                Some('*') => PathOp::Multiply,
                Some('/') => PathOp::Divide,
                Some('%') => PathOp::Remainder,
                _ => break,
            };
            self.at += 1;
            left = PathExpr::Arithmetic(op, Box::new([left, self.value(Self::sign)?]));
        }
        Ok(left)
    }

    fn sign(&mut self) -> Result<PathExpr> {
        match self.peek() {
            Some(sign @ ('+' | '-')) => {
                self.at += 1;
                let of = Box::new(self.deeper(|reader| reader.value(Self::sign))?);
                Ok(if sign == '-' { PathExpr::Negated(of) } else { PathExpr::Positive(of) })
            }
            _ => self.accessed(),
        }
    }

    fn accessed(&mut self) -> Result<PathExpr> {
        let mut value = self.primary()?;
        let mut accesses = 0;
        while let Some(access) = self.access()? {
            if value.is_predicate() {
                return Err(self.error("no accessor after a comparison"));
            }
            // The tree is as deep as it has accessors.
            accesses += 1;
            if accesses > DEPTH_MAX {
                return Err(self.error(&format!("at most {DEPTH_MAX} accessors")));
            }
            value = PathExpr::Access(Box::new(value), access);
        }
        Ok(value)
    }

    fn primary(&mut self) -> Result<PathExpr> {
        match self.peek() {
            Some('(') => {
                self.at += 1;
                let inner = self.deeper(Self::or)?;
                self.expect(")")?;
                Ok(inner)
            }
            Some('@') => {
                self.at += 1;
                Ok(PathExpr::Current)
            }
            Some('$') => {
                self.at += 1;
                if self.text[self.at..].starts_with('"') {
                    return self.quoted().map(PathExpr::Variable);
                }
                let has_name = self.text[self.at..].starts_with(|ch: char| ch.is_alphabetic() || ch == '_');
                let name = if has_name { self.word().to_owned() } else { String::new() };
                self.at += name.len();
                Ok(if has_name { PathExpr::Variable(name) } else { PathExpr::Root })
            }
            Some('"') => {
                let start = self.at;
                self.quoted()?;
                Ok(PathExpr::Literal(self.text[start..self.at].to_owned()))
            }
            Some('0'..='9' | '.') => self.number(),
            _ => {
                for literal in ["true", "false", "null"] {
                    if self.takes_word(literal) {
                        return Ok(PathExpr::Literal(literal.to_owned()));
                    }
                }
                if self.takes_word("last") {
                    return Ok(PathExpr::Last);
                }
                if self.takes_word("exists") {
                    self.expect("(")?;
                    let of = self.deeper(|reader| reader.value(Self::or))?;
                    self.expect(")")?;
                    return Ok(PathExpr::Exists(Box::new(of)));
                }
                Err(self.error("$, @, a value or ("))
            }
        }
    }

    /// A number as JSON writes it, or with a point at its beginning or end.
    fn number(&mut self) -> Result<PathExpr> {
        let rest = &self.text.as_bytes()[self.at..];
        let digits = |from: usize| rest[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let whole = digits(0);
        let mut end = whole;
        if rest.get(end) == Some(&b'.') && (digits(end + 1) > 0 || whole == 0) {
            end += 1 + digits(end + 1);
        }
        if end > 0 && matches!(rest.get(end), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(rest.get(end + 1), Some(b'+' | b'-')));
            let exponent = digits((end + 1 + sign).min(rest.len()));
            end += if exponent > 0 { 1 + sign + exponent } else { 0 };
        }
        let written = &self.text[self.at..self.at + end];
        let padded = if whole == 0 { format!("0{written}") } else { written.trim_start_matches('0').to_owned() };
        let number = if padded.starts_with(|ch: char| ch.is_ascii_digit()) { padded } else { format!("0{padded}") };
        if number.parse::<f64>().is_err() || end == 0 || written == "." {
            return Err(self.error("a number"));
        }
        self.at += end;
        Ok(PathExpr::Literal(number))
    }

    /// A text in double quotes, without its escapes.
    fn quoted(&mut self) -> Result<String> {
        if self.peek() != Some('"') {
            return Err(self.error("a text in double quotes"));
        }
        let rest = &self.text[self.at + 1..];
        let mut is_escaped = false;
        let end = rest.bytes().position(|byte| {
            let is_end = byte == b'"' && !is_escaped;
            is_escaped = byte == b'\\' && !is_escaped;
            is_end
        });
        let Some(end) = end else { return Err(self.error("a text that ends")) };
        let mut text = String::new();
        if unescape(&rest[..end], &mut text).is_err() {
            return Err(self.error("a text with the escapes of JSON"));
        }
        self.at += end + 2;
        Ok(text)
    }

    fn access(&mut self) -> Result<Option<PathAccess>> {
        match self.peek() {
            Some('.') => {
                self.at += 1;
                self.after_dot().map(Some)
            }
            Some('[') => {
                self.at += 1;
                let access = match self.takes("*") {
                    true => PathAccess::Items,
                    false => PathAccess::Positions(self.deeper(Self::positions)?),
                };
                self.expect("]")?;
                Ok(Some(access))
            }
            Some('?') => {
                self.at += 1;
                self.expect("(")?;
                let condition = self.deeper(|reader| reader.predicate(Self::or))?;
                self.expect(")")?;
                Ok(Some(PathAccess::Filter(Box::new(condition))))
            }
            _ => Ok(None),
        }
    }

    fn positions(&mut self) -> Result<Vec<(PathExpr, Option<PathExpr>)>> {
        let mut positions = Vec::new();
        loop {
            let first = self.value(Self::sum)?;
            let last = if self.takes_word("to") { Some(self.value(Self::sum)?) } else { None };
            positions.push((first, last));
            if !self.takes(",") {
                return Ok(positions);
            }
        }
    }

    fn after_dot(&mut self) -> Result<PathAccess> {
        if self.takes("**") {
            let (mut first, mut last) = (0, usize::MAX);
            if self.takes("{") {
                first = self.depth_of_level()?;
                last = if self.takes_word("to") { self.depth_of_level()? } else { first };
                self.expect("}")?;
            }
            return Ok(PathAccess::Deep { first, last });
        }
        if self.takes("*") {
            return Ok(PathAccess::Members);
        }
        if self.peek() == Some('"') {
            return self.quoted().map(PathAccess::Key);
        }
        let name = self.word().to_owned();
        if name.is_empty() {
            return Err(self.error("a key after the point"));
        }
        self.at += name.len();
        if !self.takes("(") {
            return Ok(PathAccess::Key(name));
        }
        let Some((_, method)) = METHODS.iter().find(|(known, _)| *known == name) else {
            let known: Vec<&str> = METHODS.iter().map(|(known, _)| *known).collect();
            let message = format!("a path has no method {name}()");
            return Err(Error::new(ErrorKind::Unsupported, message).hint(format!("it has {}", known.join(", "))));
        };
        self.expect(")")?;
        Ok(PathAccess::Method(*method))
    }

    /// A level of `.**{...}`: a number, or `last` for the deepest one.
    fn depth_of_level(&mut self) -> Result<usize> {
        if self.takes_word("last") {
            return Ok(usize::MAX);
        }
        let digits = self.word().to_owned();
        match digits.parse() {
            Ok(level) => {
                self.at += digits.len();
                Ok(level)
            }
            Err(_) => Err(self.error("a level")),
        }
    }
}
