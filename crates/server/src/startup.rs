//! The start of a connection: requests for encryption, requests to cancel, and the login. Runs on network threads, so
//! that clients which never finish their login hold no session thread.
//!
//! ```text
//! client                          server
//! SSLRequest                  ──► 'S': TLS begins; 'N' without a certificate: the connection goes on without it
//! GSSENCRequest               ──► 'N'
//! CancelRequest               ──► (nothing; the connection ends)
//! Startup                     ──► Authentication OK, ParameterStatus..., BackendKeyData, ReadyForQuery
//! ```

use std::collections::BTreeMap;
use std::io;

use bytes::BytesMut;
use pgwire::messages::response::{GssEncResponse, ReadyForQuery, SslResponse, TransactionStatus};
use pgwire::messages::startup::{Authentication, BackendKeyData, NegotiateProtocolVersion};
use pgwire::messages::{
    DecodeContext, PgWireFrontendMessage, ProtocolVersion, SslNegotiationMetaMessage, cancel, startup,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::backend::put;
use crate::cancel::CancelKey;
use crate::login::ClientLogin;
use crate::session::PgSession;
use crate::tls::ServerTls;
use crate::transport::ClientTransport;
use crate::wire_error::{PROTOCOL_VIOLATION, WireError};

/// The most bytes of a message of the start. PostgreSQL has the same limit.
const START_BYTES_MAX: usize = 10_000;
/// The least bytes of a message of the start: its length and its code.
const START_BYTES_MIN: usize = 8;
/// A client may ask once for each kind of encryption.
const ENCRYPTION_REQUESTS_MAX: usize = 2;

/// What a client asks for.
pub(crate) enum StartRequest {
    /// A session.
    Login(LoginRequest),
    /// The end of another connection's statement.
    Cancel(cancel::CancelRequest),
}

/// The wishes of a client that logs in.
pub(crate) struct LoginRequest {
    pub(crate) parameters: BTreeMap<String, String>,
    /// Whether the client asks for a version of the protocol that is newer than ours.
    is_newer: bool,
}

/// Why a start ended without a request.
#[derive(Debug)]
pub(crate) enum StartFault {
    /// The client has gone.
    Lost(io::Error),
    /// The client broke the protocol and must be told how.
    Refused(WireError),
    /// The client is not let in and must be told so. The reason was reported already.
    NotAdmitted(WireError),
}

impl From<io::Error> for StartFault {
    fn from(error: io::Error) -> Self {
        StartFault::Lost(error)
    }
}

fn broken(what: impl Into<String>) -> StartFault {
    StartFault::Refused(WireError::new(PROTOCOL_VIOLATION, what))
}

/// Reads messages until the client has said what it wants.
pub(crate) async fn read_request(
    stream: &mut ClientTransport,
    tls: Option<&ServerTls>,
) -> Result<StartRequest, StartFault> {
    let mut requests = 0;
    loop {
        let frame = read_frame(stream).await?;
        let answer = match decode(frame).map_err(StartFault::Refused)? {
            PgWireFrontendMessage::SslNegotiation(SslNegotiationMetaMessage::PostgresSsl(_)) => match tls {
                Some(tls) if !stream.is_tls() => {
                    stream.write_all(&[SslResponse::BYTE_ACCEPT]).await?;
                    stream.begin_tls(tls).await?;
                    continue;
                }
                _ => SslResponse::BYTE_REFUSE,
            },
            PgWireFrontendMessage::SslNegotiation(SslNegotiationMetaMessage::PostgresGss(_)) => {
                GssEncResponse::BYTE_REFUSE
            }
            PgWireFrontendMessage::CancelRequest(request) => return Ok(StartRequest::Cancel(request)),
            PgWireFrontendMessage::Startup(startup) => return Ok(StartRequest::Login(LoginRequest::of(startup))),
            _ => return Err(broken("the first message is not one of the start of the protocol")),
        };
        requests += 1;
        if requests > ENCRYPTION_REQUESTS_MAX {
            return Err(broken("the client asks for encryption again and again"));
        }
        stream.write_all(&[answer]).await?;
    }
}

/// Reads one message of the start, which has no type.
async fn read_frame(stream: &mut ClientTransport) -> Result<BytesMut, StartFault> {
    let length = stream.read_u32().await? as usize;
    if !(START_BYTES_MIN..=START_BYTES_MAX).contains(&length) {
        return Err(broken(format!(
            "invalid length of startup packet: {length}; {START_BYTES_MIN} to {START_BYTES_MAX} are allowed"
        )));
    }
    let mut frame = BytesMut::zeroed(length);
    frame[..4].copy_from_slice(&(length as u32).to_be_bytes());
    stream.read_exact(&mut frame[4..]).await?;
    Ok(frame)
}

/// Decodes a message of the start.
fn decode(mut frame: BytesMut) -> Result<PgWireFrontendMessage, WireError> {
    check_startup(&frame)?;
    let mut context = DecodeContext::new(ProtocolVersion::PROTOCOL3_0);
    loop {
        let decoded = PgWireFrontendMessage::decode(&mut frame, &context);
        match decoded {
            // The codec only looks first; the message is still there.
            Ok(Some(PgWireFrontendMessage::SslNegotiation(SslNegotiationMetaMessage::None))) => {
                context.awaiting_frontend_ssl = false;
            }
            Ok(Some(message)) => return Ok(message),
            Ok(None) => return Err(WireError::new(PROTOCOL_VIOLATION, "invalid startup packet: it is incomplete")),
            Err(error) => return Err(WireError::new(PROTOCOL_VIOLATION, format!("invalid startup packet: {error}"))),
        }
    }
}

/// Checks what the codec takes for granted: the version, and that each name has a value.
fn check_startup(frame: &[u8]) -> Result<(), WireError> {
    let is_request = startup::SslRequest::is_ssl_request_packet(frame)
        || startup::GssEncRequest::is_gss_enc_request_packet(frame)
        || cancel::CancelRequest::is_cancel_request_packet(frame);
    if is_request {
        return Ok(());
    }
    let (major, minor) = (u16::from_be_bytes([frame[4], frame[5]]), u16::from_be_bytes([frame[6], frame[7]]));
    if major != 3 {
        let message = format!("unsupported frontend protocol {major}.{minor}: the server supports 3.0");
        return Err(WireError::new("0A000", message));
    }
    let body = &frame[8..];
    let texts = body.strip_suffix(b"\0\0").or(if body == b"\0" { Some(&[]) } else { None });
    let Some(texts) = texts else {
        return Err(WireError::new(
            PROTOCOL_VIOLATION,
            "invalid startup packet layout: expected terminator as last byte",
        ));
    };
    let count = if texts.is_empty() { 0 } else { texts.split(|byte| *byte == 0).count() };
    if count % 2 != 0 || std::str::from_utf8(texts).is_err() {
        return Err(WireError::new(
            PROTOCOL_VIOLATION,
            "invalid startup packet layout: names and values in UTF-8 are expected",
        ));
    }
    Ok(())
}

impl LoginRequest {
    fn of(startup: startup::Startup) -> LoginRequest {
        LoginRequest { is_newer: startup.protocol_number_minor > 0, parameters: startup.parameters }
    }

    /// The settings that the client wants, by name.
    fn settings(&self) -> Result<Vec<(String, String)>, WireError> {
        let mut settings = Vec::new();
        for (name, value) in &self.parameters {
            match name.as_str() {
                "user" | "database" | "replication" => {}
                "options" => settings.extend(options(value)?),
                name if name.starts_with("_pq_.") => {}
                name => settings.push((name.to_owned(), value.clone())),
            }
        }
        Ok(settings)
    }

    /// The name that the client logs in with.
    pub(crate) fn user(&self) -> Result<&str, WireError> {
        let user = self.parameters.get("user").map(String::as_str).filter(|user| !user.is_empty());
        user.ok_or_else(|| WireError::new("28000", "no PostgreSQL user name specified in startup packet"))
    }

    /// Makes the answer to the login: all messages up to the first ReadyForQuery.
    pub(crate) fn answer(
        &self,
        session: &mut PgSession,
        login: &ClientLogin,
        key: &CancelKey,
    ) -> Result<BytesMut, WireError> {
        if self.parameters.get("replication").is_some_and(|value| value != "false") {
            return Err(WireError::new("0A000", "replication is not supported"));
        }
        session.settings.fix("session_authorization", &login.name);
        session.settings.fix("is_superuser", if login.is_superuser { "on" } else { "off" });
        for (name, value) in self.settings()? {
            session.set_at_start(&name, &value)?;
        }
        let mut out = BytesMut::new();
        if self.is_newer {
            let unknown = self.parameters.keys().filter(|name| name.starts_with("_pq_.")).cloned().collect();
            put(&mut out, &NegotiateProtocolVersion::new(0, unknown));
        }
        put(&mut out, &Authentication::Ok);
        session.settings.reported().for_each(|setting| put(&mut out, &setting.message()));
        put(&mut out, &BackendKeyData::new(key.number, key.key.clone()));
        put(&mut out, &ReadyForQuery::new(TransactionStatus::Idle));
        Ok(out)
    }
}

/// Reads the parameter `options`: `-c name=value` and `--name=value`, separated by blanks. A backslash takes the next
/// character as it is.
fn options(text: &str) -> Result<Vec<(String, String)>, WireError> {
    let mut words = vec![String::new()];
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => words.last_mut().expect("a word is open").extend(chars.next()),
            c if c.is_whitespace() => words.push(String::new()),
            c => words.last_mut().expect("a word is open").push(c),
        }
    }
    let mut settings = Vec::new();
    let mut words = words.into_iter().filter(|word| !word.is_empty());
    while let Some(word) = words.next() {
        let assignment = match word.strip_prefix("-c").or_else(|| word.strip_prefix("--")) {
            Some("") => words.next().unwrap_or_default(),
            Some(rest) => rest.to_owned(),
            None => return Err(WireError::new("42601", format!("invalid command-line argument: {word}"))),
        };
        let (name, value) = assignment
            .split_once('=')
            .ok_or_else(|| WireError::new("42601", format!("invalid command-line argument: {assignment}")))?;
        settings.push((name.to_owned(), value.to_owned()));
    }
    Ok(settings)
}

/// Tells a client why it is refused, as far as it listens.
pub(crate) async fn refuse(stream: &mut ClientTransport, error: &WireError) {
    let mut out = BytesMut::new();
    put(&mut out, &error.response("FATAL"));
    // The client may have gone; then it needs no reason.
    let _ = stream.write_all(&out).await;
    let _ = stream.shutdown().await;
}

#[cfg(test)]
mod tests {
    use bytes::BufMut;
    use proptest::prelude::*;

    use super::*;

    fn frame(code: [u8; 4], body: &[u8]) -> BytesMut {
        let mut frame = BytesMut::new();
        frame.put_u32(body.len() as u32 + 8);
        frame.put_slice(&code);
        frame.put_slice(body);
        frame
    }

    #[test]
    fn a_login_has_names_and_values() {
        let message = decode(frame([0, 3, 0, 0], b"user\0me\0database\0\0\0")).expect("a login");
        let PgWireFrontendMessage::Startup(startup) = message else { panic!("{message:?}") };
        assert_eq!(startup.parameters["user"], "me");
        for (code, body) in [
            ([0, 2, 0, 0], &b"user\0me\0\0"[..]),
            ([0, 3, 0, 0], b"user\0me\0"),
            ([0, 3, 0, 0], b"user\0\0"),
            ([0, 3, 0, 0], b"us\xff\0me\0\0"),
            ([0, 3, 0, 0], b""),
            ([4, 210, 22, 46], b"\0\0"),
        ] {
            assert!(decode(frame(code, body)).is_err(), "{body:?}");
        }
    }

    #[test]
    fn options_are_read_as_postgresql_reads_them() {
        let read = options("-c search_path=main  --application_name=a\\ b -cDateStyle=ISO").expect("options");
        let names: Vec<&str> = read.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["search_path", "application_name", "DateStyle"]);
        assert_eq!(read[1].1, "a b");
        assert!(options("-x").is_err() && options("-c x").is_err());
    }

    proptest! {
        #[test]
        fn any_start_is_read_without_a_panic(
            code in prop_oneof![
                Just([0, 3, 0, 0]),
                Just([0, 3, 0, 2]),
                Just([4, 210, 22, 46]),
                Just([4, 210, 22, 47]),
                any::<[u8; 4]>(),
            ],
            body in proptest::collection::vec(prop_oneof![Just(0_u8), any::<u8>()], 0..60),
        ) {
            let _ = decode(frame(code, &body));
        }
    }
}
