//! Takes literals out of a statement's text, so that texts that differ only in their literals are one statement.
//!
//! ```text
//! SELECT name FROM t WHERE id = 17   ->   SELECT name FROM t WHERE id = $1   and 17
//! ```
//!
//! We take whole numbers, decimals and texts only where a parameter means the same: values that columns are compared
//! with or assigned, numbers that an UPDATE adds to a column, and the values of an INSERT. All others stay in the text,
//! for example literals that name columns, count rows or are part of a type or pattern. The lifter may miss a literal,
//! but it must never take one in doubt.

use crate::lexer::{Lexeme, LexemeKind, lexemes};

/// A literal that was taken.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Literal {
    /// A whole number.
    Integer(i64),
    /// All digits of a decimal number, and how many of them come after the point.
    Decimal(i128, u8),
    /// A text.
    Text(String),
}

/// A text after its literals were taken out.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Lifted {
    /// The statement, with a parameter in place of each literal.
    pub(crate) text: String,
    /// The values of these parameters.
    pub(crate) literals: Vec<Literal>,
}

/// The longest text that is lifted. Longer ones are parsed as they are.
const TEXT_BYTES_MAX: usize = 1 << 12;
/// The most literals that are taken. Further ones stay in the text. A statement with more should be prepared instead.
const LITERALS_MAX: usize = 64;

/// Returns the statement without its literals, or `None` if no program may run it or it has no literal to take.
#[inline]
pub(crate) fn lift(sql: &str) -> Option<Lifted> {
    let sql = sql.trim_ascii_end().trim_end_matches(';');
    if sql.len() > TEXT_BYTES_MAX {
        return None;
    }
    let mut lexemes = lexemes(sql);
    let mut lifting = Lifting::new(lexemes.next()?)?;
    let mut at = lifting.text.len();
    for lexeme in lexemes {
        at += lexeme.text.len();
        lifting.take(lexeme, &sql[at..])?;
    }
    let literals = lifting.literals;
    (!literals.is_empty() && lifting.depth == 0).then_some(Lifted { text: lifting.text, literals })
}

/// Whether `rest` begins with a cast of the value before it.
#[inline]
fn is_cast(rest: &str) -> bool {
    rest.trim_ascii_start().starts_with("::")
}

/// Whether `rest` begins after the end of an assigned value.
#[inline]
fn is_after_value(rest: &str) -> bool {
    let rest = rest.trim_ascii_start();
    let word = &rest[..rest.find(|sign: char| !sign.is_ascii_alphabetic()).unwrap_or(rest.len())];
    let clauses = ["where", "from", "returning"];
    rest.is_empty() || rest.starts_with(',') || clauses.iter().any(|clause| clause.eq_ignore_ascii_case(word))
}

/// Whether the parser surely sees a value or a name in a lexeme with signs other than ASCII. Some of these signs are
/// blanks, and `ſelect` is a keyword to the parser, because its upper-case form is.
#[inline]
fn is_plain(kind: LexemeKind, text: &str) -> bool {
    match kind {
        LexemeKind::Text | LexemeKind::QuotedName => true,
        LexemeKind::Word => {
            text.chars().all(|sign| sign.is_ascii() || sign.is_alphabetic()) && !text.to_uppercase().is_ascii()
        }
        _ => false,
    }
}

/// The kind of the statement.
#[derive(Clone, Copy, Debug, PartialEq)]
enum LiftedKind {
    Select,
    Insert,
    Update,
    Delete,
}

/// Whether a literal may be taken at this place.
#[derive(Clone, Copy, Debug, PartialEq)]
enum LiteralContext {
    /// A literal may be taken.
    Free,
    /// After a minus that may be the literal's sign.
    Negative,
    /// After `a = a +` in an assignment. A number may be taken if nothing else follows it.
    Added,
    Taken,
}

/// How far the text is in an assignment that adds to a column, such as `a = a + 1`. The sum must fit the column whose
/// value it changes, so the type of the number cannot change the result: a sum that overflows in one of two types does
/// not fit the column.
#[derive(Debug, Default)]
enum SumStep {
    #[default]
    Other,
    /// The name of the column comes next.
    Begin,
    Named(String),
    Assigned(String),
    /// The same name came after the equals sign.
    Repeated,
}

/// A query: the statement itself, or one within it.
#[derive(Clone, Copy, Debug)]
struct LiftedQuery {
    /// The number of open parentheses around its clauses.
    depth: usize,
    /// Whether the text is in a clause in which literals may be taken.
    is_inside: bool,
}

struct Lifting {
    kind: LiftedKind,
    text: String,
    literals: Vec<Literal>,
    /// The number of open parentheses.
    depth: usize,
    /// The queries around this place, the innermost last. The first is the statement.
    queries: Vec<LiftedQuery>,
    place: LiteralContext,
    sum: SumStep,
    /// Whether a parenthesis was opened just before.
    is_opened: bool,
}

impl Lifting {
    #[inline]
    fn new(first: Lexeme<'_>) -> Option<Lifting> {
        let Lexeme { kind: LexemeKind::Word, text: word, .. } = first else { return None };
        let kinds = [
            ("select", LiftedKind::Select),
            ("insert", LiftedKind::Insert),
            ("update", LiftedKind::Update),
            ("delete", LiftedKind::Delete),
        ];
        let (_, kind) = kinds.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(word))?;
        let text = word.to_owned();
        let statement = LiftedQuery { depth: 0, is_inside: false };
        Some(Lifting {
            kind,
            text,
            literals: Vec::new(),
            depth: 0,
            queries: vec![statement],
            place: LiteralContext::Taken,
            sum: SumStep::Other,
            is_opened: false,
        })
    }

    /// The innermost query around this place.
    #[inline]
    fn query(&mut self) -> &mut LiftedQuery {
        self.queries.last_mut().expect("the statement is never removed")
    }

    /// Processes the next lexeme. Returns `None` in doubt. `rest` is the text after it.
    #[inline]
    fn take(&mut self, lexeme: Lexeme<'_>, rest: &str) -> Option<()> {
        let place = std::mem::replace(&mut self.place, LiteralContext::Taken);
        let Lexeme { kind, text, is_closed } = lexeme;
        if !is_closed || !text.is_ascii() && !is_plain(kind, text) {
            return None;
        }
        if kind == LexemeKind::Blank {
            self.text.push(' ');
            self.place = place;
            return Some(());
        }
        let (step, is_opened) = (std::mem::take(&mut self.sum), std::mem::take(&mut self.is_opened));
        match kind {
            LexemeKind::Blank => unreachable!("a blank changes nothing"),
            LexemeKind::Word => {
                self.sum = step.after_name(&text.to_ascii_lowercase());
                self.word(text, is_opened)?;
            }
            LexemeKind::QuotedName => {
                self.sum = step.after_name(text);
                self.text.push_str(text);
            }
            LexemeKind::Symbol => self.sign(text, place, step)?,
            LexemeKind::Number | LexemeKind::Text => {
                let is_free = self.query().is_inside
                    && match place {
                        LiteralContext::Taken => false,
                        LiteralContext::Added => is_addend(lexeme) && is_after_value(rest),
                        LiteralContext::Free | LiteralContext::Negative => !is_cast(rest),
                    };
                match literal(lexeme, place == LiteralContext::Negative).filter(|_| is_free) {
                    Some(literal) if self.literals.len() < LITERALS_MAX => {
                        // The minus belongs to the literal now, so it must leave the text.
                        if place == LiteralContext::Negative {
                            self.text.truncate(self.text.trim_end().len() - 1);
                        }
                        self.literals.push(literal);
                        self.text.push_str(&format!("${}", self.literals.len()));
                    }
                    _ => self.text.push_str(text),
                }
            }
            // We refuse comments because they may be hints, parameters because they have numbers already, and special
            // texts because they have their own rules.
            LexemeKind::Comment | LexemeKind::Parameter | LexemeKind::SpecialText => return None,
        }
        Some(())
    }

    #[inline]
    fn word(&mut self, word: &str, is_opened: bool) -> Option<()> {
        let lower = word.to_ascii_lowercase();
        self.text.push_str(word);
        let is_clause = self.depth == self.query().depth;
        let is_nested = self.queries.len() > 1;
        match (&lower[..], self.kind) {
            ("select" | "from", LiftedKind::Insert) | ("with" | "merge", _) => return None,
            // A query within the statement has its own clauses.
            ("select", _) if is_opened => self.queries.push(LiftedQuery { depth: self.depth, is_inside: false }),
            ("select", _) => return None,
            ("where", _) if is_clause && is_nested => self.query().is_inside = true,
            ("where", LiftedKind::Select | LiftedKind::Delete) if is_clause => self.query().is_inside = true,
            ("set", LiftedKind::Update) if is_clause && !is_nested => {
                self.query().is_inside = true;
                self.sum = SumStep::Begin;
            }
            ("values", LiftedKind::Insert) if is_clause => self.query().is_inside = true,
            (
                "group" | "order" | "limit" | "offset" | "fetch" | "having" | "window" | "qualify" | "union" | "except"
                | "intersect" | "for" | "returning" | "on" | "using",
                _,
            ) if is_clause => self.query().is_inside = false,
            // A value may follow these words, for example in `BETWEEN 1 AND 2`.
            ("between" | "and" | "or" | "not", _) => self.place = LiteralContext::Free,
            _ => {}
        }
        Some(())
    }

    #[inline]
    fn sign(&mut self, sign: &str, place: LiteralContext, step: SumStep) -> Option<()> {
        // These begin parameters, further statements and operators of only some dialects.
        if sign.starts_with(['?', ';', '`', '\\', '#']) {
            return None;
        }
        self.text.push_str(sign);
        match sign {
            "(" => {
                self.depth += 1;
                self.is_opened = true;
                // A value may be in parentheses.
                self.place = if place == LiteralContext::Free { place } else { self.in_row() };
            }
            ")" => {
                self.depth = self.depth.checked_sub(1)?;
                let depth = self.depth;
                self.queries.retain(|query| query.depth <= depth);
            }
            "," => {
                self.place = self.in_row();
                if self.kind == LiftedKind::Update && self.depth == 0 {
                    self.sum = SumStep::Begin;
                }
            }
            "+" | "-" if matches!(step, SumStep::Repeated) => self.place = LiteralContext::Added,
            "=" | "<" | ">" | "<=" | ">=" | "<>" | "!=" => {
                self.place = LiteralContext::Free;
                if let (SumStep::Named(name), "=") = (step, sign) {
                    self.sum = SumStep::Assigned(name);
                }
            }
            "-" if place == LiteralContext::Free => self.place = LiteralContext::Negative,
            _ => {}
        }
        Some(())
    }

    /// Returns the place after a parenthesis or comma. Only the values of rows are directly inside one pair of
    /// parentheses.
    #[inline]
    fn in_row(&self) -> LiteralContext {
        if self.kind == LiftedKind::Insert && self.depth == 1 { LiteralContext::Free } else { LiteralContext::Taken }
    }
}

impl SumStep {
    #[inline]
    fn after_name(self, name: &str) -> SumStep {
        match self {
            SumStep::Begin => SumStep::Named(name.to_owned()),
            SumStep::Assigned(column) if column == name => SumStep::Repeated,
            _ => SumStep::Other,
        }
    }
}

/// The most digits of a number that a double holds exactly, so that it has the same double in every form.
const ADDEND_DIGITS_MAX: usize = 15;

#[inline]
fn is_addend(lexeme: Lexeme<'_>) -> bool {
    lexeme.kind == LexemeKind::Number && lexeme.text.len() <= ADDEND_DIGITS_MAX
}

#[inline]
fn literal(lexeme: Lexeme<'_>, is_negative: bool) -> Option<Literal> {
    let text = lexeme.text;
    match lexeme.kind {
        LexemeKind::Text if is_negative => None,
        LexemeKind::Text => Some(Literal::Text(text[1..text.len() - 1].replace("''", "'"))),
        LexemeKind::Number => {
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
    fn literals_compared_with_or_assigned_to_columns_are_taken() {
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
                "INSERT INTO t (a, b) VALUES (1, 'x', NULL, f(2)), (-4, '', 3.0, 5) ON CONFLICT (a) DO UPDATE SET b = \
                 'y' RETURNING 1",
                "INSERT INTO t (a, b) VALUES ($1, $2, NULL, f(2)), ($3, $4, $5, $6) ON CONFLICT (a) DO UPDATE SET b = \
                 'y' RETURNING 1",
                vec![Integer(1), text("x"), Integer(-4), text(""), Decimal(30, 1), Integer(5)],
            ),
            (
                "UPDATE t SET a = 3, b = b + 1 WHERE \"Id\" = 5 AND c LIKE 'x%' AND d IN (1, 2) AND e = \
                 '2020-01-01'::DATE",
                "UPDATE t SET a = $1, b = b + $2 WHERE \"Id\" = $3 AND c LIKE 'x%' AND d IN (1, 2) AND e = \
                 '2020-01-01'::DATE",
                vec![Integer(3), Integer(1), Integer(5)],
            ),
            (
                "UPDATE t SET a = A - 1.5, \"b\" = \"b\" + 7, c = b + 1, d = d + 1 * 2, e = e * 3, f = f + 1 + g",
                "UPDATE t SET a = A - $1, \"b\" = \"b\" + $2, c = b + 1, d = d + 1 * 2, e = e * 3, f = f + 1 + g",
                vec![Decimal(15, 1), Integer(7)],
            ),
            (
                "SELECT a FROM t WHERE a = (SELECT max(a) + 1 FROM t WHERE b = 1 LIMIT 1) AND (c >= (30 - 20) OR c = \
                 (-4))",
                "SELECT a FROM t WHERE a = (SELECT max(a) + 1 FROM t WHERE b = $1 LIMIT 1) AND (c >= ($2 - 20) OR c = \
                 ($3))",
                vec![Integer(1), Integer(30), Integer(-4)],
            ),
            (
                "SELECT (SELECT 5 FROM u WHERE b = 6), 7 FROM t WHERE EXISTS (SELECT 1 FROM u GROUP BY c HAVING c = 2)",
                "SELECT (SELECT 5 FROM u WHERE b = $1), 7 FROM t WHERE EXISTS (SELECT 1 FROM u GROUP BY c HAVING c = \
                 2)",
                vec![Integer(6)],
            ),
            (
                "SELECT größe FROM \"städte\" WHERE name = 'Łódź ☃' AND größe > 7 AND b = 'ä'::TEXT",
                "SELECT größe FROM \"städte\" WHERE name = $1 AND größe > $2 AND b = 'ä'::TEXT",
                vec![text("Łódź ☃"), Integer(7)],
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
    fn no_literal_is_taken_in_doubt() {
        for sql in [
            "",
            "SELECT 1",
            "SELECT a FROM t",
            "SELECT a FROM t WHERE a = $1 AND b = 2",
            "SELECT a FROM t WHERE a = 1 -- all",
            "SELECT a FROM t WHERE a = 1; SELECT 2",
            "SELECT a FROM t WHERE a = 1 UNION SELECT 2",
            "SELECT a FROM t WHERE a = (WITH x AS (SELECT 1) SELECT 1)",
            "WITH x AS (SELECT 1) SELECT * FROM x WHERE a = 1",
            "INSERT INTO t SELECT 1, 2",
            "SELECT a FROM t WHERE a = E'x'",
            "SELECT a FROM t WHERE a = 1e5",
            "SELECT a FROM t WHERE a = 'open",
            "SELECT a FROM t WHERE a = 1\u{a0}GROUP\u{a0}BY b",
            "SELECT a FROM t WHERE a = 1 AND b\u{a0}= 2",
            "SELECT a FROM t WHERE a = 1 havıng b = 2",
            "ſelect a FROM t WHERE a = 1",
            "SELECT a FROM t WHERE a = 1 AND b ≤ 2",
            "SELECT a FROM t WHERE (a = 1",
            "SELECT a FROM t WHERE a = 1)",
            "CREATE TABLE t (a INTEGER)",
        ] {
            assert_eq!(lifted(sql), None, "{sql}");
        }
        // A number that does not fit 64 bits stays in the text.
        assert_eq!(lifted("DELETE FROM t WHERE a = 99999999999999999999"), None);
    }
}
