//! Scans JSON in a text: values are checked and delimited, but not built.
//!
//! [`Scanner`] walks over a text and returns the text of each value after checking that it is JSON (RFC 8259). Nested
//! objects and arrays are walked without recursion, so that their depth needs no stack. The column that a value goes to
//! decides its meaning.
//!
//! [`items`] and [`members`] take the texts of lists and structs apart. People write these by hand, so their values may
//! be words without quotes, as in `[2013-07-31, NULL]`. A list may also have PostgreSQL's braces, as in `{1,NULL}`.

use memchr::memchr2;

/// The maximum depth of nesting.
pub(crate) const DEPTH_MAX: usize = 512;

/// The position where a text stops being JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotJson {
    /// The byte position in the text.
    pub at: usize,
    /// The part that is missing there.
    pub expected: &'static str,
}

type Scanned<T> = Result<T, NotJson>;

/// A walk over a text.
#[derive(Clone, Debug)]
pub struct Scanner<'a> {
    text: &'a str,
    at: usize,
    /// Whether values may be words without quotes.
    takes_words: bool,
}

impl<'a> Scanner<'a> {
    /// Starts at byte `at` of `text`.
    pub fn new(text: &'a str, at: usize) -> Scanner<'a> {
        Scanner { text, at, takes_words: false }
    }

    /// Starts at the beginning of `text`, whose values may be words without quotes.
    fn with_words(text: &'a str) -> Scanner<'a> {
        Scanner { text, at: 0, takes_words: true }
    }

    /// The byte position in the text.
    pub fn position(&self) -> usize {
        self.at
    }

    /// The next byte that is not white space. Does not skip it.
    #[inline]
    pub fn peek(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while let Some(byte) = bytes.get(self.at) {
            if !matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
                return Some(*byte);
            }
            self.at += 1;
        }
        None
    }

    /// Skips the next byte if it is `byte`, and returns whether it was.
    #[inline]
    pub fn pass(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    /// Skips the next byte, which must be `byte`.
    #[inline]
    pub fn expect(&mut self, byte: u8, expected: &'static str) -> Scanned<()> {
        if self.pass(byte) { Ok(()) } else { Err(self.error(expected)) }
    }

    /// The error for a text that ends or goes on differently here.
    pub fn error(&self, expected: &'static str) -> NotJson {
        NotJson { at: self.at, expected }
    }

    /// The inside of the string that comes next, with its escapes.
    #[inline]
    pub(crate) fn string(&mut self, expected: &'static str) -> Scanned<&'a str> {
        self.expect(b'"', expected)?;
        let start = self.at;
        let bytes = self.text.as_bytes();
        match closing_quote(bytes, start, b'"', b'\\') {
            Some(end) => {
                self.at = end + 1;
                Ok(&self.text[start..end])
            }
            None => {
                self.at = bytes.len();
                Err(self.error("the quote that ends the string"))
            }
        }
    }

    /// The text of the value that comes next, without the white space around it.
    #[inline]
    pub fn value(&mut self) -> Scanned<&'a str> {
        let first = self.peek();
        let start = self.at;
        match first {
            Some(b'{' | b'[') => self.container()?,
            _ => self.scalar()?,
        }
        Ok(&self.text[start..self.at])
    }

    #[inline]
    fn scalar(&mut self) -> Scanned<()> {
        match self.peek() {
            Some(b'"') => self.string("a string").map(drop),
            _ if self.takes_words => self.bare_word(),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word("true"),
            Some(b'f') => self.word("false"),
            Some(b'n') => self.word("null"),
            _ => Err(self.error("a value")),
        }
    }

    fn word(&mut self, word: &'static str) -> Scanned<()> {
        if !self.text.as_bytes()[self.at..].starts_with(word.as_bytes()) {
            return Err(self.error(word));
        }
        self.at += word.len();
        Ok(())
    }

    /// Skips a word without quotes. It ends at a comma, a bracket or a quote.
    fn bare_word(&mut self) -> Scanned<()> {
        let rest = &self.text[self.at..];
        let end = rest.find([',', ']', '}', '[', '{', '"']).unwrap_or(rest.len());
        let word = rest[..end].trim_ascii_end();
        self.at += word.len();
        if word.is_empty() { Err(self.error("a value")) } else { Ok(()) }
    }

    fn number(&mut self) -> Scanned<()> {
        self.at += usize::from(self.text.as_bytes().get(self.at) == Some(&b'-'));
        let start = self.at;
        self.digits()?;
        if self.at - start > 1 && self.text.as_bytes()[start] == b'0' {
            self.at = start;
            return Err(self.error("a number without leading zeros"));
        }
        if self.text.as_bytes().get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.text.as_bytes().get(self.at) {
            self.at += 1;
            self.at += usize::from(matches!(self.text.as_bytes().get(self.at), Some(b'+' | b'-')));
            self.digits()?;
        }
        Ok(())
    }

    #[inline]
    fn digits(&mut self) -> Scanned<()> {
        let bytes = &self.text.as_bytes()[self.at..];
        let count = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        if count == 0 { Err(self.error("a digit")) } else { Ok(()) }
    }

    /// Skips an object or array with everything inside.
    fn container(&mut self) -> Scanned<()> {
        // The closing bracket of every open container.
        let mut open: Vec<u8> = Vec::with_capacity(8);
        loop {
            // A value must start here.
            match self.peek() {
                Some(bracket @ (b'{' | b'[')) => {
                    self.at += 1;
                    if open.len() == DEPTH_MAX {
                        return Err(self.error("less than 512 levels of nesting"));
                    }
                    // In ASCII, each closing bracket is two after its opening one.
                    let closing = bracket + 2;
                    open.push(closing);
                    if self.pass(closing) {
                        open.pop();
                    } else {
                        self.key_in(closing)?;
                        continue;
                    }
                }
                _ => self.scalar()?,
            }
            // A value has just ended here.
            loop {
                // The value was the outermost one.
                let Some(closing) = open.last().copied() else { return Ok(()) };
                if self.pass(b',') {
                    self.key_in(closing)?;
                    break;
                }
                let expected = if closing == b'}' { "a comma or }" } else { "a comma or ]" };
                self.expect(closing, expected)?;
                open.pop();
            }
        }
    }

    /// The text of the list in braces that comes next. Its items are checked when they are read.
    fn braces(&mut self) -> Scanned<&'a str> {
        let start = self.at;
        let mut depth = 0_usize;
        while let Some(byte) = self.peek() {
            match byte {
                b'"' => drop(self.string("a string")?),
                b'{' => {
                    depth += 1;
                    self.at += 1;
                }
                b'}' => {
                    depth -= 1;
                    self.at += 1;
                    if depth == 0 {
                        return Ok(&self.text[start..self.at]);
                    }
                }
                _ => self.at += 1,
            }
        }
        Err(self.error("}"))
    }

    /// Skips the key and the colon before a value of an object.
    fn key_in(&mut self, closing: u8) -> Scanned<()> {
        if closing == b'}' {
            self.string("a key in quotes")?;
            self.expect(b':', "a colon")?;
        }
        Ok(())
    }
}

/// Checks that a text is one JSON value, also inside of its strings, and returns it without the white space around it.
pub(crate) fn checked(text: &str) -> Scanned<&str> {
    let mut scanner = Scanner::new(text, 0);
    let value = scanner.value()?;
    if scanner.peek().is_some() {
        return Err(scanner.error("the end"));
    }
    if value.bytes().any(|byte| byte == b'\\' || byte < b' ') {
        let before = value.as_ptr().addr() - text.as_ptr().addr();
        check_strings(value).map_err(|wrong| NotJson { at: wrong.at + before, ..wrong })?;
    }
    Ok(value)
}

/// Returns where and why a text is not JSON, for an error. `None` if it is.
pub fn why_not(text: &str) -> Option<String> {
    checked(text).err().map(|wrong| format!("byte {} should be {}", wrong.at, wrong.expected))
}

/// Checks the escapes and control characters of all strings in a value, which is well-formed otherwise.
fn check_strings(value: &str) -> Scanned<()> {
    let mut scratch = String::new();
    let mut at = 0;
    while let Some(quote) = memchr::memchr(b'"', &value.as_bytes()[at..]) {
        let start = at + quote + 1;
        let Some(end) = closing_quote(value.as_bytes(), start, b'"', b'\\') else { break };
        let inside = &value[start..end];
        if let Some(control) = inside.bytes().position(|byte| byte < b' ') {
            return Err(NotJson { at: start + control, expected: "an escape such as \\n for a control character" });
        }
        scratch.clear();
        unescape(inside, &mut scratch).map_err(|wrong| NotJson { at: wrong.at + start, ..wrong })?;
        at = end + 1;
    }
    Ok(())
}

/// The kind of a value, as its first byte tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonKind {
    /// `null`
    Null,
    /// `true` or `false`
    Boolean,
    /// A number.
    Number,
    /// A text in quotes.
    String,
    /// Values in brackets.
    Array,
    /// Keys and values in braces.
    Object,
}

impl JsonKind {
    /// The kind of a value whose text was checked.
    #[inline]
    pub fn of(value: &str) -> JsonKind {
        match value.as_bytes().first() {
            Some(b'n') | None => JsonKind::Null,
            Some(b't' | b'f') => JsonKind::Boolean,
            Some(b'"') => JsonKind::String,
            Some(b'[') => JsonKind::Array,
            Some(b'{') => JsonKind::Object,
            Some(_) => JsonKind::Number,
        }
    }
}

/// The texts of the items of an array.
pub fn items(array: &str) -> impl Iterator<Item = Scanned<&str>> {
    let mut scanner = Scanner::with_words(array);
    let mut closing = None;
    let mut ended = false;
    std::iter::from_fn(move || {
        if ended {
            return None;
        }
        let item = next_item(&mut scanner, &mut closing);
        ended = !matches!(item, Ok(Some(_)));
        item.transpose()
    })
}

/// The next item of the array that `scanner` is in. `closing` is the bracket that ends the array, once it has begun.
fn next_item<'a>(scanner: &mut Scanner<'a>, closing: &mut Option<u8>) -> Scanned<Option<&'a str>> {
    let end = match *closing {
        Some(end) => {
            if scanner.pass(end) {
                return ended(scanner);
            }
            scanner.expect(b',', "a comma or the end of the list")?;
            end
        }
        None => {
            let end = if scanner.pass(b'{') { b'}' } else { b']' };
            if end == b']' {
                scanner.expect(b'[', "[")?;
            }
            *closing = Some(end);
            if scanner.pass(end) {
                return ended(scanner);
            }
            end
        }
    };
    match (end, scanner.peek()) {
        // In braces, an inner list has braces, too, so it is no object.
        (b'}', Some(b'{')) => scanner.braces().map(Some),
        _ => scanner.value().map(Some),
    }
}

/// The keys, with their escapes, and the values of an object.
pub fn members(object: &str) -> impl Iterator<Item = Scanned<(&str, &str)>> {
    let mut scanner = Scanner::with_words(object);
    let mut started = false;
    let mut ended = false;
    std::iter::from_fn(move || {
        if ended {
            return None;
        }
        let member = next_member(&mut scanner, &mut started);
        ended = !matches!(member, Ok(Some(_)));
        member.transpose()
    })
}

/// The next key and value of the object that `scanner` is in. `None` after its closing bracket.
#[inline]
pub fn next_member_in<'a>(scanner: &mut Scanner<'a>, started: &mut bool) -> Scanned<Option<(&'a str, &'a str)>> {
    if *started {
        if scanner.pass(b'}') {
            return Ok(None);
        }
        scanner.expect(b',', "a comma or }")?;
    } else {
        scanner.expect(b'{', "an object in { }")?;
        *started = true;
        if scanner.pass(b'}') {
            return Ok(None);
        }
    }
    let key = scanner.string("a key in quotes")?;
    scanner.expect(b':', "a colon")?;
    Ok(Some((key, scanner.value()?)))
}

fn next_member<'a>(scanner: &mut Scanner<'a>, started: &mut bool) -> Scanned<Option<(&'a str, &'a str)>> {
    match next_member_in(scanner, started)? {
        Some(member) => Ok(Some(member)),
        None => ended(scanner),
    }
}

fn ended<T>(scanner: &mut Scanner<'_>) -> Scanned<Option<T>> {
    match scanner.peek() {
        None => Ok(None),
        Some(_) => Err(scanner.error("the end")),
    }
}

/// The position of the quote that closes a string, or a field of a CSV file. Its text starts at `from`.
#[inline]
pub fn closing_quote(bytes: &[u8], from: usize, quote: u8, escape: u8) -> Option<usize> {
    let mut at = from;
    loop {
        at += memchr2(quote, escape, bytes.get(at..)?)?;
        if quote == escape {
            if bytes.get(at + 1) != Some(&quote) {
                return Some(at);
            }
        } else if bytes[at] == quote {
            return Some(at);
        }
        // Skip the escape and the character that it protects.
        at += 2;
    }
}

/// Appends the meaning of the inside of a string to `out`. The error has the position of an invalid escape.
pub fn unescape(inside: &str, out: &mut String) -> Scanned<()> {
    let mut rest = inside;
    while let Some(at) = memchr2(b'\\', b'\\', rest.as_bytes()) {
        out.push_str(&rest[..at]);
        let position = inside.len() - rest.len() + at;
        let (c, length) =
            escaped(&rest[at..]).ok_or(NotJson { at: position, expected: "an escape such as \\n or \\u00e9" })?;
        out.push(c);
        rest = &rest[at + length..];
    }
    out.push_str(rest);
    Ok(())
}

/// The character of the escape at the start of `text`, and the length of the escape.
fn escaped(text: &str) -> Option<(char, usize)> {
    let simple = match text.as_bytes().get(1)? {
        b'"' => '"',
        b'\\' => '\\',
        b'/' => '/',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => return unicode(text),
        _ => return None,
    };
    Some((simple, 2))
}

/// Decodes `\uXXXX`, or two of them that form one character.
fn unicode(text: &str) -> Option<(char, usize)> {
    let unit = |from: usize| {
        let digits = text.get(from..from + 4)?;
        if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        u32::from_str_radix(digits, 16).ok()
    };
    let first = unit(2)?;
    // Not the first half of a surrogate pair. A lone second half is refused by `from_u32`.
    if !(0xD800..0xDC00).contains(&first) {
        return Some((char::from_u32(first)?, 6));
    }
    if text.get(6..8) != Some("\\u") {
        return None;
    }
    let second = unit(8)?.checked_sub(0xDC00).filter(|low| *low < 0x400)?;
    Some((char::from_u32(0x1_0000 + ((first - 0xD800) << 10) + second)?, 12))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Scanned<&str> {
        Scanner::new(text, 0).value()
    }

    #[test]
    fn values_are_delimited() {
        for text in ["1", "-1.5e+3", "0", "true", "null", "\"a\\\"b\"", "[]", "{}", "[1, [2, {\"a\": []}], \"]\"]"] {
            assert_eq!(value(&format!(" {text} , more")), Ok(text));
        }
    }

    #[test]
    fn invalid_json_is_found_at_its_position() {
        for (text, at, expected) in [
            ("", 0, "a value"),
            ("tru", 0, "true"),
            ("01", 0, "a number without leading zeros"),
            ("-", 1, "a digit"),
            ("1.", 2, "a digit"),
            ("\"abc", 4, "the quote that ends the string"),
            ("[1 2]", 3, "a comma or ]"),
            ("{\"a\" 1}", 5, "a colon"),
            ("{\"a\": 1", 7, "a comma or }"),
            ("{a: 1}", 1, "a key in quotes"),
            ("[1,]", 3, "a value"),
        ] {
            assert_eq!(value(text), Err(NotJson { at, expected }), "{text}");
        }
        let deep = "[".repeat(100_000);
        assert_eq!(value(&deep).map_err(|error| error.expected), Err("less than 512 levels of nesting"));
        assert!(value(&format!("{}{}", "[".repeat(500), "]".repeat(500))).is_ok());
    }

    #[test]
    fn items_and_members_are_delimited() {
        let list: Result<Vec<_>, _> = items("[1, \"a\", [2]]").collect();
        assert_eq!(list, Ok(vec!["1", "\"a\"", "[2]"]));
        assert_eq!(items("[]").count(), 0);
        let pairs: Result<Vec<_>, _> = members("{\"a\": 1, \"b\": {}}").collect();
        assert_eq!(pairs, Ok(vec![("a", "1"), ("b", "{}")]));
        assert!(items("[1] 2").any(|item| item.is_err()));
        assert!(items("[1").any(|item| item.is_err()));
        assert!(members("[1]").any(|member| member.is_err()));
    }

    #[test]
    fn items_may_be_words_without_quotes() {
        let list: Result<Vec<_>, _> = items("[ 2013-07-31 , NULL, [a b, nan], \"c\" ]").collect();
        assert_eq!(list, Ok(vec!["2013-07-31", "NULL", "[a b, nan]", "\"c\""]));
        let pairs: Result<Vec<_>, _> = members("{\"a\": 12:30:45}").collect();
        assert_eq!(pairs, Ok(vec![("a", "12:30:45")]));
        for bad in ["[a,]", "[a \"b\"]", "[,]", "[a", "[a}", "[a]b"] {
            assert!(items(bad).any(|item| item.is_err()), "{bad}");
        }
        assert!(value("[a]").is_err());
    }

    #[test]
    fn escapes_are_decoded_or_refused() {
        let mut out = String::new();
        assert_eq!(unescape(r#"a\"\\\/\n\u00e9\ud83d\ude00z"#, &mut out), Ok(()));
        assert_eq!(out, "a\"\\/\né😀z");
        for bad in [r"\x", r"\u12", r"\ud83d", r"\ud83d\u0041", r"\u+123", "ab\\"] {
            assert!(unescape(bad, &mut String::new()).is_err(), "{bad}");
        }
    }
}
