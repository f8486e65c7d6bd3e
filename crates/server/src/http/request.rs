//! The body of a request: SQL as plain text, or JSON with SQL and values.

use rowmill::Value;
use serde_json::Value as Json;

/// A statement with values for its parameters.
#[derive(Debug, PartialEq)]
pub(super) struct QueryRequest {
    pub(super) sql: String,
    pub(super) params: Vec<Value>,
    /// The format that the body asks for.
    pub(super) format: Option<String>,
}

impl QueryRequest {
    /// Reads a body. Only one of the type `application/json` is JSON; any other one is SQL.
    pub(super) fn read(content_type: Option<&str>, body: &[u8]) -> Result<QueryRequest, String> {
        let is_json = content_type.is_some_and(|kind| {
            let kind = kind.split(';').next().unwrap_or_default().trim();
            kind.eq_ignore_ascii_case("application/json")
        });
        if !is_json {
            let sql = std::str::from_utf8(body)
                .map_err(|error| format!("the body is not UTF-8 at byte {}", error.valid_up_to()))?;
            if sql.trim().is_empty() {
                return Err("the body is empty: it must be a statement, as curl -d 'SELECT 1' sends it".to_owned());
            }
            if sql.trim_start().starts_with('{') {
                let found = content_type.unwrap_or("none");
                return Err(format!(
                    "the body is JSON and not SQL: send it with Content-Type: application/json, as curl --json does \
                     (found: {found})"
                ));
            }
            return Ok(QueryRequest { sql: sql.to_owned(), params: Vec::new(), format: None });
        }
        let read: Json = serde_json::from_slice(body).map_err(|error| format!("the body is not JSON: {error}"))?;
        let Json::Object(mut fields) = read else {
            return Err("the body must be an object: {\"sql\": \"SELECT $1\", \"params\": [1]}".to_owned());
        };
        let sql = match fields.remove("sql") {
            Some(Json::String(sql)) => sql,
            _ => return Err("the body must have the text \"sql\"".to_owned()),
        };
        let params = match fields.remove("params") {
            None | Some(Json::Null) => Vec::new(),
            Some(Json::Array(values)) => values.into_iter().map(value_of).collect(),
            Some(_) => return Err("\"params\" must be a list of values".to_owned()),
        };
        let format = match fields.remove("format") {
            None | Some(Json::Null) => None,
            Some(Json::String(format)) => Some(format),
            Some(_) => return Err("\"format\" must be a text".to_owned()),
        };
        match fields.keys().next() {
            Some(unknown) => Err(format!("the body has an unknown field \"{unknown}\"")),
            None => Ok(QueryRequest { sql, params, format }),
        }
    }
}

/// Returns the value of a parameter. Lists and objects are texts, which the engine reads as lists and structs.
fn value_of(json: Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Boolean(value),
        Json::String(text) => Value::Text(text),
        Json::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => Value::Integer(integer),
            // A number that is too large for a whole number must not lose digits.
            (None, Some(double)) if !number.is_u64() => Value::Double(double),
            _ => Value::Text(number.to_string()),
        },
        nested @ (Json::Array(_) | Json::Object(_)) => Value::Text(nested.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_sql_or_json() {
        let read = |kind: Option<&str>, body: &'static str| QueryRequest::read(kind, body.as_bytes());
        assert_eq!(read(None, "SELECT 1").expect("SQL").sql, "SELECT 1");
        let body = r#"{"sql": "SELECT $1", "params": [1, null, "x", 1.5, true, [1], 18446744073709551615]}"#;
        let request = read(Some("application/json; charset=utf-8"), body).expect("JSON");
        let expected = [
            Value::Integer(1),
            Value::Null,
            Value::Text("x".into()),
            Value::Double(1.5),
            Value::Boolean(true),
            Value::Text("[1]".into()),
            Value::Text("18446744073709551615".into()),
        ];
        assert_eq!(request.params, expected);
        for wrong in ["", "[]", "{}", r#"{"sql": 1}"#, r#"{"sql": "", "params": 1}"#, r#"{"sql": "", "x": 1}"#] {
            assert!(read(Some("application/json"), wrong).is_err(), "{wrong}");
        }
        assert!(QueryRequest::read(None, b"\xff").is_err());
        let error = read(Some("application/x-www-form-urlencoded"), r#"{"sql": "SELECT 1"}"#).err();
        assert!(error.is_some_and(|error| error.contains("Content-Type: application/json")));
    }
}
