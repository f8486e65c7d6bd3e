//! Statements whose literals in marks may be parameters: `WHERE k = «3»`.

use rowmill::Value;

/// A statement with parameters, and their values.
pub type Parameters = (String, Vec<Value>);

/// A statement as a text with literals, and as one with parameters and their values.
pub struct Prepared {
    pub plain: String,
    /// Nothing where the statement has no literal in marks.
    pub parameters: Option<Parameters>,
}

impl Prepared {
    /// Takes the marks out of `text`.
    pub fn new(text: &str) -> Prepared {
        let (mut plain, mut prepared, mut values) = (String::new(), String::new(), Vec::new());
        let mut rest = text;
        while let Some((before, marked)) = rest.split_once('«') {
            let (literal, after) = marked.split_once('»').expect("marks come in pairs");
            values.push(match literal.strip_prefix('\'') {
                Some(text) => Value::Text(text.trim_end_matches('\'').to_owned()),
                None => literal.parse().map_or(Value::Null, Value::Integer),
            });
            plain.push_str(before);
            plain.push_str(literal);
            prepared.push_str(before);
            prepared.push_str(&format!("${}", values.len()));
            rest = after;
        }
        plain.push_str(rest);
        prepared.push_str(rest);
        let parameters = (!values.is_empty()).then_some((prepared, values));
        Prepared { plain, parameters }
    }
}
