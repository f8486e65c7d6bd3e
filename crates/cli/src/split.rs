//! Where statements end in what was typed so far.

/// Whether `text` ends with a semicolon that is not inside a string, a name or a comment.
pub(crate) fn is_complete(text: &str) -> bool {
    let mut last = None;
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let skip = match next {
            '\'' | '"' => match quoted(rest, next) {
                Some(len) => len,
                None => return false,
            },
            '-' if rest.starts_with("--") => match rest.find('\n') {
                Some(len) => {
                    rest = &rest[len..];
                    continue;
                }
                None => break,
            },
            '/' if rest.starts_with("/*") => match rest.find("*/") {
                Some(len) => {
                    rest = &rest[len + 2..];
                    continue;
                }
                None => return false,
            },
            _ => next.len_utf8(),
        };
        if !next.is_whitespace() {
            last = Some(next);
        }
        rest = &rest[skip..];
    }
    last == Some(';')
}

/// The length of the quoted text that `text` starts with. A doubled quote stands for one.
fn quoted(text: &str, quote: char) -> Option<usize> {
    let mut at = 1;
    loop {
        at += text[at..].find(quote)? + 1;
        if !text[at..].starts_with(quote) {
            return Some(at);
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_semicolon_of_sql_ends_a_statement() {
        for whole in
            ["SELECT 1;", "SELECT ';';", "SELECT 1; -- done", "SELECT 'it''s'; /* ; */ ", "-- first\nSELECT 1;"]
        {
            assert!(is_complete(whole), "{whole}");
        }
        for open in
            ["", "SELECT 1", "SELECT ';", "SELECT 1 -- ;", "SELECT \"a;", "SELECT 1; /* open", "SELECT 1; SELECT 2"]
        {
            assert!(!is_complete(open), "{open}");
        }
    }
}
