//! The check of a client of the wire protocol: SCRAM-SHA-256, or nothing while there are no users.
//!
//! Runs on network threads, so that clients which never finish their login hold no session thread. Only the look-ups of
//! roles go to session threads.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use pgwire::messages::startup::Authentication;
use rowmill::access::LoginRole;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::backend::put;
use crate::event::ServerEvent;
use crate::login::{Candidate, ClientLogin, LoginFault};
use crate::scram::{SCRAM, SCRAM_PLUS, ScramExchange, ScramFault};
use crate::server::ServerShared;
use crate::startup::StartFault;
use crate::transport::ClientTransport;
use crate::wire_error::{PROTOCOL_VIOLATION, WireError};

/// The most bytes of a message with a proof.
const PROOF_BYTES_MAX: usize = 4_096;

/// Checks a client. Returns its login, and the messages that must come before the answer to it. A failed login is
/// answered later and later.
pub(crate) async fn authenticate(
    stream: &mut ClientTransport,
    user: &str,
    client: SocketAddr,
    shared: &Arc<ServerShared>,
) -> Result<(ClientLogin, BytesMut), StartFault> {
    let (guest, candidate) = look_up(user, client, shared).await?;
    match guest {
        Some(Ok(login)) => return Ok((login, BytesMut::new())),
        Some(Err(fault)) => {
            shared.report(&ServerEvent::LoginRefused { client, user: user.to_owned(), reason: fault.reason() });
            let message = "the server has no users, so it lets in clients of its own machine only";
            return Err(StartFault::NotAdmitted(WireError::new("28000", message)));
        }
        None => {}
    }
    let proved = match candidate {
        _ if shared.doorkeeper.throttle.is_locked(client.ip(), user) => Err(ProofFault::Login(LoginFault::Locked)),
        None => Err(ProofFault::Login(LoginFault::UnknownRole)),
        Some(candidate) => prove(stream, candidate).await,
    };
    let fault = match proved {
        Ok((role, proof)) => return Ok((shared.doorkeeper.login(&role), proof)),
        Err(ProofFault::Start(fault)) => return Err(fault),
        Err(ProofFault::Login(fault)) => fault,
    };
    shared.report(&ServerEvent::LoginRefused { client, user: user.to_owned(), reason: fault.reason() });
    if fault == LoginFault::Locked {
        let message = format!("too many logins of user \"{user}\" from this address have failed: try again later");
        return Err(StartFault::NotAdmitted(WireError::new("28P01", message)));
    }
    sleep(shared.doorkeeper.throttle.failed(client.ip(), user)).await;
    let message = format!("password authentication failed for user \"{user}\"");
    Err(StartFault::NotAdmitted(WireError::new("28P01", message)))
}

/// Why a client did not prove who it is.
enum ProofFault {
    /// It has gone, or does not follow the protocol.
    Start(StartFault),
    Login(LoginFault),
}

impl From<StartFault> for ProofFault {
    fn from(fault: StartFault) -> Self {
        ProofFault::Start(fault)
    }
}

/// Exchanges the messages of SCRAM with a client. Returns its role, and the message that proves the server to it.
async fn prove(stream: &mut ClientTransport, candidate: Candidate) -> Result<(LoginRole, BytesMut), ProofFault> {
    let Candidate { verifier, role } = candidate;
    let end_point = stream.end_point();
    let mut mechanisms = vec![SCRAM.to_owned()];
    if end_point.is_some() {
        mechanisms.insert(0, SCRAM_PLUS.to_owned());
    }
    send(stream, &Authentication::SASL(mechanisms)).await?;
    let first = read_proof(stream).await?;
    let (mechanism, first) = initial_response(&first).ok_or_else(|| malformed("the choice of a mechanism"))?;
    let begun = ScramExchange::begin(mechanism, first, verifier, end_point.as_deref());
    let (exchange, answer) = begun.map_err(|fault| fault_of(&fault))?;
    send(stream, &Authentication::SASLContinue(Bytes::from(answer))).await?;
    let last = read_proof(stream).await?;
    let signature = exchange.finish(&last).map_err(|fault| match (&fault, &role) {
        // A name that does not exist has a proof that is wrong, but the log should say why.
        (ScramFault::WrongProof, Err(reason)) => ProofFault::Login(*reason),
        _ => fault_of(&fault),
    })?;
    let role = role.map_err(ProofFault::Login)?;
    let mut proof = BytesMut::new();
    put(&mut proof, &Authentication::SASLFinal(Bytes::from(signature)));
    Ok((role, proof))
}

type LookedUp = (Option<Result<ClientLogin, LoginFault>>, Option<Candidate>);

async fn look_up(user: &str, client: SocketAddr, shared: &Arc<ServerShared>) -> Result<LookedUp, StartFault> {
    let (user, shared) = (user.to_owned(), Arc::clone(shared));
    let found = spawn_blocking(move || {
        let (keeper, database) = (&shared.doorkeeper, &shared.database);
        match keeper.guest(database, &user, client.ip())? {
            Some(guest) => Ok((Some(guest), None)),
            None => Ok((None, Some(keeper.candidate(database, &user)?))),
        }
    });
    let found = found.await.map_err(|error| WireError::new("XX000", format!("the login failed: {error}")));
    found
        .and_then(|found: rowmill::Result<LookedUp>| found.map_err(|error| WireError::of(&error)))
        .map_err(StartFault::NotAdmitted)
}

fn fault_of(fault: &ScramFault) -> ProofFault {
    match fault {
        ScramFault::WrongProof => ProofFault::Login(LoginFault::WrongPassword),
        ScramFault::Malformed(what) => ProofFault::Start(malformed(what)),
    }
}

fn malformed(what: &str) -> StartFault {
    StartFault::Refused(WireError::new(PROTOCOL_VIOLATION, format!("malformed SCRAM message: {what}")))
}

async fn send(stream: &mut ClientTransport, message: &Authentication) -> Result<(), StartFault> {
    let mut out = BytesMut::new();
    put(&mut out, message);
    stream.write_all(&out).await?;
    Ok(stream.flush().await?)
}

/// Reads the body of a message with a proof.
async fn read_proof(stream: &mut ClientTransport) -> Result<Vec<u8>, StartFault> {
    let kind = stream.read_u8().await?;
    let length = stream.read_u32().await? as usize;
    if kind != b'p' || !(4..=PROOF_BYTES_MAX).contains(&length) {
        let what = format!("expected a proof of the password, got a message {:?} of {length} bytes", char::from(kind));
        return Err(StartFault::Refused(WireError::new(PROTOCOL_VIOLATION, what)));
    }
    let mut body = vec![0; length - 4];
    stream.read_exact(&mut body).await?;
    Ok(body)
}

/// Reads the first message of a client: the mechanism, and the first message of SCRAM with its length.
fn initial_response(body: &[u8]) -> Option<(&str, &[u8])> {
    let end = body.iter().position(|byte| *byte == 0)?;
    let mechanism = std::str::from_utf8(&body[..end]).ok()?;
    let (length, message) = body[end + 1..].split_first_chunk::<4>()?;
    (u32::from_be_bytes(*length) as usize == message.len()).then_some((mechanism, message))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_first_message_has_a_mechanism_and_a_length() {
        assert_eq!(initial_response(b"SCRAM\0\0\0\0\x02ab"), Some(("SCRAM", &b"ab"[..])));
        for bad in
            [&b""[..], b"SCRAM", b"SCRAM\0", b"SCRAM\0\0\0\0\x03ab", b"SCRAM\0\xff\xff\xff\xff", b"\xff\0\0\0\0\0"]
        {
            assert_eq!(initial_response(bad), None, "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(body in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = initial_response(&body);
        }
    }
}
