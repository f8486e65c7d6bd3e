//! Literals taken out of a statement's text, so that texts which differ in nothing else are one statement.
//!
//! ```text
//! SELECT name FROM t WHERE id = 17   ->   SELECT name FROM t WHERE id = $1   and 17
//! ```
//!
//! Taken are whole numbers, decimals and texts that a parameter can stand for without another meaning: what columns are compared with
//! or assigned, and the values of an INSERT. All others stay in the text: those that name columns, count rows or are part of a
//! type or pattern. It need not find all, and takes none where it is in doubt.

/// A literal.
#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    /// A whole number.
    Integer(i64),
    /// All digits of a decimal number, and how many of them are behind the point.
    Decimal(i128, u8),
    /// A text.
    Text(String),
}

/// A text without its literals.
#[derive(Clone, Debug, PartialEq)]
pub struct Lifted {
    /// The statement, with parameters.
    pub text: String,
    /// Their values.
    pub literals: Vec<Literal>,
}

/// Longer texts are read as they are.
const TEXT_BYTES_MAX: usize = 1 << 12;
/// Statements of more literals as well.
const LITERALS_MAX: usize = 64;

/// The statement without its literals, if it is one that may be run by a program and has any.
pub fn lift(sql: &str) -> Option<Lifted> {
    let sql = sql.trim_end().trim_end_matches(';');
    if sql.len() > TEXT_BYTES_MAX || !sql.is_ascii() {
        return None;
    }
    let mut reader = Reader { bytes: sql.as_bytes(), at: 0 };
    let mut lifting = Lifting::new(reader.next()??)?;
    while let Some(token) = reader.next()? {
        lifting.take(token, &reader)?;
    }
    let literals = lifting.literals;
    (!literals.is_empty() && lifting.depth == 0).then_some(Lifted { text: lifting.text, literals })
}

/// A piece of the text.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Token<'t> {
    Space,
    Word(&'t str),
    /// In quotes.
    Name(&'t str),
    Number(&'t str),
    Text(&'t str),
    /// One or two characters.
    Sign(&'t str),
}

struct Reader<'t> {
    bytes: &'t [u8],
    at: usize,
}

impl<'t> Reader<'t> {
    /// The next token, `None` within at the end; `None` where it is in doubt.
    fn next(&mut self) -> Option<Option<Token<'t>>> {
        let Some(first) = self.bytes.get(self.at).copied() else { return Some(None) };
        let start = self.at;
        let kind: fn(&'t str) -> Token<'t> = match first {
            b if b.is_ascii_whitespace() => {
                self.pass(|b| b.is_ascii_whitespace());
                |_| Token::Space
            }
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
                self.pass(|b| b.is_ascii_alphanumeric() || b == b'_');
                // A text with a prefix: e'...', b'...'.
                if self.bytes.get(self.at) == Some(&b'\'') {
                    return None;
                }
                Token::Word
            }
            b'0'..=b'9' => {
                self.pass(|b| b.is_ascii_digit() || b == b'.');
                if self.bytes.get(self.at).is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_') {
                    return None;
                }
                Token::Number
            }
            quote @ (b'\'' | b'"') => {
                self.quoted(quote)?;
                if quote == b'"' { Token::Name } else { Token::Text }
            }
            // Parameters, comments, statements behind this one.
            b'$' | b'?' | b';' | b'`' | b'\\' | b'#' => return None,
            b'-' if self.bytes.get(start + 1) == Some(&b'-') => return None,
            b'/' if self.bytes.get(start + 1) == Some(&b'*') => return None,
            _ => {
                let is_pair = |b: &u8| {
                    matches!((first, b), (b'<', b'=' | b'>') | (b'>' | b'!', b'=') | (b':', b':') | (b'|', b'|'))
                };
                self.at += if self.bytes.get(start + 1).is_some_and(is_pair) { 2 } else { 1 };
                Token::Sign
            }
        };
        std::str::from_utf8(&self.bytes[start..self.at]).ok().map(|text| Some(kind(text)))
    }

    fn pass(&mut self, is_part: impl Fn(u8) -> bool) {
        while self.bytes.get(self.at).is_some_and(|byte| is_part(*byte)) {
            self.at += 1;
        }
    }

    /// Passes what is in quotes, in which two of them are one.
    fn quoted(&mut self, quote: u8) -> Option<()> {
        loop {
            self.at += 1;
            if *self.bytes.get(self.at)? == quote {
                self.at += 1;
                if self.bytes.get(self.at) != Some(&quote) {
                    return Some(());
                }
            }
        }
    }

    /// Whether the next sign is a cast.
    fn is_cast(&self) -> bool {
        let rest = &self.bytes[self.at..];
        let blanks = rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        rest[blanks..].starts_with(b"::")
    }
}

/// Which statement it is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Select,
    Insert,
    Update,
    Delete,
}

/// Whether a literal may be taken behind what was read last.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    /// It may.
    Free,
    /// Behind a minus that may be its sign.
    Negative,
    Taken,
}

struct Lifting {
    kind: Kind,
    text: String,
    literals: Vec<Literal>,
    /// Parentheses that are open.
    depth: usize,
    /// Within the part of the statement in which literals are taken.
    is_inside: bool,
    place: Place,
}

impl Lifting {
    fn new(first: Token<'_>) -> Option<Lifting> {
        let Token::Word(word) = first else { return None };
        let kinds =
            [("select", Kind::Select), ("insert", Kind::Insert), ("update", Kind::Update), ("delete", Kind::Delete)];
        let (_, kind) = kinds.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(word))?;
        let text = word.to_owned();
        Some(Lifting { kind, text, literals: Vec::new(), depth: 0, is_inside: false, place: Place::Taken })
    }

    fn take(&mut self, token: Token<'_>, rest: &Reader<'_>) -> Option<()> {
        let place = std::mem::replace(&mut self.place, Place::Taken);
        match token {
            Token::Space => {
                self.text.push(' ');
                self.place = place;
            }
            Token::Word(word) => self.word(word)?,
            Token::Name(name) => self.text.push_str(name),
            Token::Sign(sign) => self.sign(sign, place)?,
            Token::Number(text) | Token::Text(text) => {
                let is_free = self.is_inside && place != Place::Taken && !rest.is_cast();
                match literal(token, place == Place::Negative).filter(|_| is_free) {
                    Some(literal) if self.literals.len() < LITERALS_MAX => {
                        if place == Place::Negative {
                            self.text.truncate(self.text.trim_end().len() - 1);
                        }
                        self.literals.push(literal);
                        self.text.push_str(&format!("${}", self.literals.len()));
                    }
                    _ => self.text.push_str(text),
                }
            }
        }
        Some(())
    }

    fn word(&mut self, word: &str) -> Option<()> {
        let lower = word.to_ascii_lowercase();
        self.text.push_str(word);
        match (&lower[..], self.kind) {
            // Queries within the statement have parts of their own.
            ("select" | "with" | "from", Kind::Insert) | ("select" | "with" | "merge", _) => return None,
            ("where", Kind::Select | Kind::Delete) | ("set", Kind::Update) | ("values", Kind::Insert)
                if self.depth == 0 =>
            {
                self.is_inside = true;
            }
            (
                "group" | "order" | "limit" | "offset" | "fetch" | "having" | "window" | "qualify" | "union" | "except"
                | "intersect" | "for" | "returning" | "on" | "using",
                _,
            ) if self.depth == 0 => self.is_inside = false,
            ("between" | "and" | "or" | "not", _) => self.place = Place::Free,
            _ => {}
        }
        Some(())
    }

    fn sign(&mut self, sign: &str, place: Place) -> Option<()> {
        self.text.push_str(sign);
        match sign {
            "(" => {
                self.depth += 1;
                self.place = self.in_row();
            }
            ")" => self.depth = self.depth.checked_sub(1)?,
            "," => self.place = self.in_row(),
            "=" | "<" | ">" | "<=" | ">=" | "<>" | "!=" => self.place = Place::Free,
            "-" if place == Place::Free => self.place = Place::Negative,
            _ => {}
        }
        Some(())
    }

    /// The place behind a parenthesis or comma: values of rows are in one pair of parentheses.
    fn in_row(&self) -> Place {
        if self.kind == Kind::Insert && self.depth == 1 { Place::Free } else { Place::Taken }
    }
}

fn literal(token: Token<'_>, is_negative: bool) -> Option<Literal> {
    match token {
        Token::Text(_) if is_negative => None,
        Token::Text(text) => Some(Literal::Text(text[1..text.len() - 1].replace("''", "'"))),
        Token::Number(text) => {
            let signed = if is_negative { format!("-{text}") } else { text.to_owned() };
            match text.split_once('.') {
                None => signed.parse().ok().map(Literal::Integer),
                Some((whole, fraction)) if !whole.is_empty() && !fraction.is_empty() && text.len() < 38 => {
                    let digits = signed.replace('.', "").parse().ok()?;
                    Some(Literal::Decimal(digits, fraction.len() as u8))
                }
                Some(_) => None,
            }
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lifted(sql: &str) -> Option<(String, Vec<Literal>)> {
        lift(sql).map(|Lifted { text, literals }| (text, literals))
    }

    #[test]
    fn what_columns_are_compared_with_or_assigned_is_taken() {
        use Literal::{Decimal, Integer, Text};
        let text = |text: &str| Text(text.to_owned());
        let cases = [
            (
                "SELECT a, 5 FROM t WHERE id = 17 AND b > - 3 ORDER BY 1 LIMIT 10;",
                "SELECT a, 5 FROM t WHERE id = $1 AND b > $2 ORDER BY 1 LIMIT 10",
                vec![Integer(17), Integer(-3)],
            ),
            (
                "select * from t where name = 'O''Neil' and (x between 1.50 and 2.25)",
                "select * from t where name = $1 and (x between $2 and $3)",
                vec![text("O'Neil"), Decimal(150, 2), Decimal(225, 2)],
            ),
            (
                "INSERT INTO t (a, b) VALUES (1, 'x', NULL, f(2)), (-4, '', 3.0, 5) ON CONFLICT (a) DO UPDATE SET b = 'y' RETURNING 1",
                "INSERT INTO t (a, b) VALUES ($1, $2, NULL, f(2)), ($3, $4, $5, $6) ON CONFLICT (a) DO UPDATE SET b = 'y' RETURNING 1",
                vec![Integer(1), text("x"), Integer(-4), text(""), Decimal(30, 1), Integer(5)],
            ),
            (
                "UPDATE t SET a = 3, b = b + 1 WHERE \"Id\" = 5 AND c LIKE 'x%' AND d IN (1, 2) AND e = '2020-01-01'::DATE",
                "UPDATE t SET a = $1, b = b + 1 WHERE \"Id\" = $2 AND c LIKE 'x%' AND d IN (1, 2) AND e = '2020-01-01'::DATE",
                vec![Integer(3), Integer(5)],
            ),
            ("DELETE FROM t WHERE id = 9", "DELETE FROM t WHERE id = $1", vec![Integer(9)]),
            (
                "SELECT a FROM t WHERE day = DATE '2020-01-01' AND a = 1 - 2",
                "SELECT a FROM t WHERE day = DATE '2020-01-01' AND a = $1 - 2",
                vec![Integer(1)],
            ),
        ];
        for (sql, text, literals) in cases {
            assert_eq!(lifted(sql), Some((text.to_owned(), literals)), "{sql}");
        }
    }

    #[test]
    fn it_takes_none_where_it_is_in_doubt() {
        for sql in [
            "",
            "SELECT 1",
            "SELECT a FROM t",
            "SELECT a FROM t WHERE a = $1 AND b = 2",
            "SELECT a FROM t WHERE a = 1 -- all",
            "SELECT a FROM t WHERE a = 1; SELECT 2",
            "SELECT a FROM t WHERE a = (SELECT max(a) FROM t WHERE b = 1)",
            "WITH x AS (SELECT 1) SELECT * FROM x WHERE a = 1",
            "INSERT INTO t SELECT 1, 2",
            "SELECT a FROM t WHERE a = E'x'",
            "SELECT a FROM t WHERE a = 1e5",
            "SELECT a FROM t WHERE a = 'open",
            "SELECT a FROM t WHERE a = 'ä'",
            "SELECT a FROM t WHERE (a = 1",
            "SELECT a FROM t WHERE a = 1)",
            "CREATE TABLE t (a INTEGER)",
        ] {
            assert_eq!(lifted(sql), None, "{sql}");
        }
        // What is no number of 64 bits stays.
        assert_eq!(lifted("DELETE FROM t WHERE a = 99999999999999999999"), None);
    }
}
