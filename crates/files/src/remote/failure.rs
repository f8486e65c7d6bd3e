//! Errors of files over the network: they name the URL, what the server answered and what helps.

use rowmill_base::{Error, ErrorKind};

use super::store::RemoteObject;
use super::transport::deepest;
use crate::secret::SecretKind;

/// What was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attempt {
    Read,
    List,
    Write,
}

/// Makes the error for a request that failed, after the repetitions.
pub(super) fn failed(attempt: Attempt, object: &RemoteObject, error: &object_store::Error) -> Error {
    let name = &object.name;
    let what = match attempt {
        Attempt::Read => format!("'{name}' cannot be read"),
        Attempt::List => format!("the files of '{name}' cannot be listed"),
        Attempt::Write => format!("'{name}' cannot be written"),
    };
    let texts = texts_of(error);
    let Some(answer) = texts.iter().find_map(|text| HttpAnswer::of(text)) else {
        let reason = texts.last().cloned().unwrap_or_default();
        let is_redirect = reason.starts_with("Received redirect");
        let reason = if is_redirect { "the server sends the request to another region".to_owned() } else { reason };
        let hint = match () {
            () if is_redirect => "CREATE SECRET (TYPE s3, ..., REGION '...') names the region of the bucket",
            () if reason.contains("certificate") => {
                "the system must trust the certificate: install ca-certificates, or name the file of the authority in \
                 SSL_CERT_FILE"
            }
            () => "check the name of the host, its port and the network",
        };
        return Error::new(ErrorKind::Io, format!("{what}: {reason}")).hint(hint);
    };
    let is_s3 = object.kind == SecretKind::S3;
    let kind = match answer.status {
        401 | 403 => ErrorKind::InsufficientPrivilege,
        404 | 410 => ErrorKind::UndefinedFile,
        _ => ErrorKind::Io,
    };
    let error = Error::new(kind, format!("{what}: the server answered {}", answer.text()));
    match (answer.status, attempt) {
        (404 | 410, _) if answer.reason.contains("NoSuchBucket") => error.hint("check the name of the bucket"),
        (404 | 410, Attempt::Read) => error.hint("check the path; names of files on servers are case-sensitive"),
        (404 | 410, _) => error.hint("check the path"),
        (401 | 403, _) if is_s3 => error.hint(
            "give keys that may do this: CREATE SECRET (TYPE s3, KEY_ID '...', SECRET '...', REGION '...'), or the \
             variables AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        ),
        (401 | 403, _) => {
            error.hint("a server that wants a token gets it by CREATE SECRET (TYPE http, BEARER_TOKEN '...')")
        }
        (300..=399, _) if is_s3 => {
            error.hint("CREATE SECRET (TYPE s3, ..., REGION '...') names the region of the bucket")
        }
        (300..=399, _) => {
            error.hint("name the URL that the server redirects to; redirects are followed only for superusers")
        }
        (429 | 500..=599, _) => error.hint("the request was repeated; try again later"),
        _ => error,
    }
}

/// The error for a file that another program has changed in the meantime.
pub(super) fn changed(object: &RemoteObject) -> Error {
    Error::new(ErrorKind::Io, format!("'{}' was changed while it was read", object.name))
        .hint("run the statement again")
}

/// The error for an answer that ends early or has too many bytes.
pub(super) fn wrong_length(object: &RemoteObject, got: u64, expected: u64) -> Error {
    Error::new(ErrorKind::Io, format!("'{}' cannot be read: the server sent {got} of {expected} bytes", object.name))
        .hint("run the statement again")
}

/// The texts of an error and of the errors below it, down to the deepest.
fn texts_of(error: &object_store::Error) -> Vec<String> {
    let mut texts = vec![error.to_string()];
    let mut next = std::error::Error::source(error);
    while let Some(error) = next {
        texts.push(error.to_string());
        next = error.source();
    }
    debug_assert_eq!(texts.last(), Some(&deepest(error)), "the texts should end with the deepest");
    texts
}

/// What a server answered instead of success.
struct HttpAnswer {
    status: u16,
    /// The status in words.
    words: String,
    /// The reason that the body gives, if it is short.
    reason: String,
}

/// The longest part of a body that messages show, in characters.
const REASON_CHARS_MAX: usize = 200;

impl HttpAnswer {
    /// Reads the text of an error of `object_store`, which has the status and the body of the answer.
    fn of(text: &str) -> Option<HttpAnswer> {
        let rest = text.strip_prefix("Server returned non-2xx status code: ")?;
        let (status, body) = rest.split_once(": ").unwrap_or((rest.trim_end_matches(": "), ""));
        let status = status.trim_end_matches(':');
        let number = status.split(' ').next()?.parse().ok()?;
        let words = status.split_once(' ').map_or("", |(_, words)| words);
        Some(HttpAnswer { status: number, words: words.to_owned(), reason: reason_of(body) })
    }

    fn text(&self) -> String {
        let colon = if self.reason.is_empty() { "" } else { ": " };
        format!("{} {}{colon}{}", self.status, self.words, self.reason)
    }
}

/// The reason in the body of an answer: code and message of S3's XML, or a short text.
fn reason_of(body: &str) -> String {
    let element = |name: &str| {
        let start = body.find(&format!("<{name}>"))? + name.len() + 2;
        Some(&body[start..start + body[start..].find(&format!("</{name}>"))?])
    };
    let reason = match (element("Code"), element("Message")) {
        (Some(code), Some(message)) => format!("{code}: {message}"),
        (Some(code), None) => code.to_owned(),
        // Pages for people have no place in a message.
        _ if body.trim_start().starts_with('<') => String::new(),
        _ => body.trim().to_owned(),
    };
    let is_short = reason.chars().count() <= REASON_CHARS_MAX && !reason.contains('\n');
    if is_short { reason } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read() {
        let answer = HttpAnswer::of(
            "Server returned non-2xx status code: 404 Not Found: <Error><Code>NoSuchKey</Code><Message>It is \
             missing.</Message></Error>",
        );
        assert_eq!(answer.expect("an answer").text(), "404 Not Found: NoSuchKey: It is missing.");
        let answer = HttpAnswer::of("Server returned non-2xx status code: 503 Service Unavailable: ");
        assert_eq!(answer.expect("an answer").text(), "503 Service Unavailable");
        let page = HttpAnswer::of("Server returned non-2xx status code: 403 Forbidden: <html><p>No</p></html>");
        assert_eq!(page.expect("an answer").text(), "403 Forbidden");
        assert!(HttpAnswer::of("error sending request").is_none());
    }
}
