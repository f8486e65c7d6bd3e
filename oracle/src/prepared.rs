//! Statements with marked literals that may become parameters, for example `WHERE k = «3»`.

use rowmill::Value;

/// A statement with parameters, and the values of the parameters.
pub type Parameters = (String, Vec<Value>);

/// A statement in two forms: as a text with literals, and with parameters and their values.
pub struct Prepared {
    pub plain: String,
    /// `None` if the statement has no marked literal.
    pub parameters: Option<Parameters>,
}

impl Prepared {
    /// Removes the marks from `text`.
    pub fn new(text: &str) -> Prepared {
        let (mut plain, mut prepared, mut values) = (String::new(), String::new(), Vec::new());
        let mut rest = text;
        while let Some((before, marked)) = rest.split_once('«') {
            let (literal, after) = marked.split_once('»').expect("marks must come in pairs");
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
