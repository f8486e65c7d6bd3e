//! The server's side of SCRAM-SHA-256 (RFC 5802, RFC 7677) and SCRAM-SHA-256-PLUS.
//!
//! ```text
//! client                                        server
//! n,,n=,r=NONCE                            ──►
//!                                          ◄──  r=NONCE+MORE,s=salt,i=rounds
//! c=biws,r=NONCE+MORE,p=proof              ──►
//!                                          ◄──  v=signature
//! ```
//!
//! The server's part of the nonce is random, so the proof of an earlier login is worth nothing. With PLUS, the proof
//! also covers the certificate of the connection, so a host between client and server cannot pass it on.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rowmill::access::{ScramKey, ScramVerifier};

/// The mechanism without a channel binding.
pub(crate) const SCRAM: &str = "SCRAM-SHA-256";
/// The mechanism whose proof covers the certificate of the server.
pub(crate) const SCRAM_PLUS: &str = "SCRAM-SHA-256-PLUS";
/// The only kind of channel binding that PostgreSQL's clients use.
const END_POINT: &str = "tls-server-end-point";
/// The bytes of the server's part of the nonce.
const NONCE_BYTES: usize = 18;
/// The most characters of the client's part of the nonce.
const CLIENT_NONCE_MAX: usize = 1_024;

/// Why an exchange failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ScramFault {
    /// The client does not follow the protocol.
    Malformed(&'static str),
    /// The proof is wrong: it is another password.
    WrongProof,
}

/// An exchange after the first message of the client.
pub(crate) struct ScramExchange {
    verifier: ScramVerifier,
    /// The nonce of both sides.
    nonce: String,
    /// The value of `c=` that the last message must have.
    binding: String,
    /// The first messages of both sides, as the proof covers them.
    messages: String,
}

impl ScramExchange {
    /// Reads the first message of a client, and returns the exchange and the answer. `end_point` is the hash of the
    /// certificate, if the connection offers a channel binding.
    pub(crate) fn begin(
        mechanism: &str,
        message: &[u8],
        verifier: ScramVerifier,
        end_point: Option<&[u8]>,
    ) -> Result<(ScramExchange, String), ScramFault> {
        let mut random = [0; NONCE_BYTES];
        getrandom::fill(&mut random).map_err(|_| ScramFault::Malformed("no random bytes"))?;
        ScramExchange::begin_with(mechanism, message, verifier, end_point, &STANDARD.encode(random))
    }

    fn begin_with(
        mechanism: &str,
        message: &[u8],
        verifier: ScramVerifier,
        end_point: Option<&[u8]>,
        own_nonce: &str,
    ) -> Result<(ScramExchange, String), ScramFault> {
        let malformed = ScramFault::Malformed;
        let text = std::str::from_utf8(message).map_err(|_| malformed("the first message is not UTF-8"))?;
        let mut parts = text.splitn(3, ',');
        let (Some(flag), Some(identity), Some(bare)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(malformed("the first message lacks a part"));
        };
        if !identity.is_empty() {
            return Err(malformed("the client asks for another identity"));
        }
        let mut bound = format!("{flag},,").into_bytes();
        match (mechanism, flag, end_point) {
            (SCRAM, "n", _) | (SCRAM, "y", None) => {}
            // The client supports a channel binding and did not see our offer: it was removed on the way.
            (SCRAM, "y", Some(_)) => return Err(malformed("the offer of a channel binding was removed on the way")),
            (SCRAM_PLUS, flag, Some(end_point)) if flag.strip_prefix("p=") == Some(END_POINT) => {
                bound.extend_from_slice(end_point);
            }
            _ => return Err(malformed("the channel binding is not one that was offered")),
        }
        let mut fields = bare.split(',');
        let name = fields.next().filter(|field| field.starts_with("n="));
        let nonce = fields.next().and_then(|field| field.strip_prefix("r="));
        let (Some(_), Some(nonce)) = (name, nonce) else {
            return Err(malformed("the first message has no name or no nonce"));
        };
        let is_printable = |byte: u8| (0x21..=0x7e).contains(&byte);
        if nonce.is_empty() || nonce.len() > CLIENT_NONCE_MAX || !nonce.bytes().all(is_printable) {
            return Err(malformed("the nonce of the client is empty, too long or not printable"));
        }
        let nonce = format!("{nonce}{own_nonce}");
        let answer = format!("r={nonce},s={},i={}", STANDARD.encode(&verifier.salt), verifier.iterations);
        let messages = format!("{bare},{answer}");
        Ok((ScramExchange { verifier, nonce, binding: STANDARD.encode(bound), messages }, answer))
    }

    /// Checks the last message of the client. Returns the last message of the server.
    pub(crate) fn finish(self, message: &[u8]) -> Result<String, ScramFault> {
        let malformed = ScramFault::Malformed;
        let text = std::str::from_utf8(message).map_err(|_| malformed("the last message is not UTF-8"))?;
        let (unproved, proof) = text.rsplit_once(",p=").ok_or(malformed("the last message has no proof"))?;
        let mut fields = unproved.split(',');
        if fields.next().and_then(|field| field.strip_prefix("c=")) != Some(&self.binding) {
            return Err(malformed("the channel binding of the last message is wrong"));
        }
        if fields.next().and_then(|field| field.strip_prefix("r=")) != Some(&self.nonce) {
            return Err(malformed("the nonce is not the one of this exchange"));
        }
        let proof = STANDARD.decode(proof).ok().and_then(|proof| ScramKey::try_from(proof).ok());
        let proof = proof.ok_or(malformed("the proof does not have 32 bytes in base64"))?;
        let messages = format!("{},{unproved}", self.messages);
        match self.verifier.is_proof(&proof, messages.as_bytes()) {
            true => Ok(format!("v={}", STANDARD.encode(self.verifier.server_signature(messages.as_bytes())))),
            false => Err(ScramFault::WrongProof),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    const VERIFIER: &str = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:\
        wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";
    const FIRST: &[u8] = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
    const OWN_NONCE: &str = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
    const LAST: &[u8] = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
        p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";

    fn verifier() -> ScramVerifier {
        ScramVerifier::parse(VERIFIER).unwrap()
    }

    fn begin(mechanism: &str, first: &[u8], end_point: Option<&[u8]>) -> Result<ScramExchange, ScramFault> {
        ScramExchange::begin_with(mechanism, first, verifier(), end_point, OWN_NONCE).map(|(exchange, _)| exchange)
    }

    /// The example of RFC 7677, section 3.
    #[test]
    fn the_example_of_the_standard_succeeds() {
        let (exchange, answer) = ScramExchange::begin_with(SCRAM, FIRST, verifier(), None, OWN_NONCE).unwrap();
        assert_eq!(answer, "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096");
        assert_eq!(exchange.finish(LAST).unwrap(), "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
    }

    #[test]
    fn a_replayed_message_is_refused() {
        let (exchange, _) = ScramExchange::begin(SCRAM, FIRST, verifier(), None).unwrap();
        let fault = exchange.finish(LAST).unwrap_err();
        assert_eq!(fault, ScramFault::Malformed("the nonce is not the one of this exchange"));
    }

    #[test]
    fn another_proof_is_refused() {
        let other = String::from_utf8(LAST.to_vec()).unwrap().replace("dHzb", "dHzc");
        assert_eq!(begin(SCRAM, FIRST, None).unwrap().finish(other.as_bytes()), Err(ScramFault::WrongProof));
    }

    #[test]
    fn a_channel_binding_that_was_removed_or_changed_is_refused() {
        let end_point: &[u8] = b"hash of the certificate";
        assert!(begin(SCRAM, b"y,,n=,r=abc", None).is_ok());
        assert!(begin(SCRAM, b"y,,n=,r=abc", Some(end_point)).is_err());
        assert!(begin(SCRAM, b"p=tls-server-end-point,,n=,r=abc", Some(end_point)).is_err());
        assert!(begin(SCRAM_PLUS, b"n,,n=,r=abc", Some(end_point)).is_err());
        assert!(begin(SCRAM_PLUS, b"p=tls-unique,,n=,r=abc", Some(end_point)).is_err());
        assert!(begin(SCRAM_PLUS, b"p=tls-server-end-point,,n=,r=abc", None).is_err());
        let exchange = begin(SCRAM_PLUS, b"p=tls-server-end-point,,n=,r=abc", Some(end_point)).unwrap();
        let other = STANDARD.encode(b"p=tls-server-end-point,,hash of another one");
        let last = format!("c={other},r={},p={}", exchange.nonce, STANDARD.encode([0; 32]));
        assert!(matches!(exchange.finish(last.as_bytes()), Err(ScramFault::Malformed(_))));
    }

    #[test]
    fn malformed_messages_are_refused() {
        for first in [
            &b""[..],
            b"n",
            b"n,,",
            b"n,,n=",
            b"n,,r=abc",
            b"n,,n=,r=",
            b"n,a=other,n=,r=abc",
            b"n,,m=ext,n=,r=abc",
            b"n,,n=,r=a\x01c",
            b"n,,n=,r=\xff",
            b"x,,n=,r=abc",
        ] {
            assert!(begin(SCRAM, first, None).is_err(), "{first:?}");
        }
        assert!(begin("PLAIN", FIRST, None).is_err());
        for last in [&b""[..], b"c=biws", b"p=x", b"c=biws,r=x,p=", b",,,p=p=,p=", b"\xff,p=AA=="] {
            assert!(begin(SCRAM, FIRST, None).unwrap().finish(last).is_err(), "{last:?}");
        }
    }

    proptest! {
        #[test]
        fn changed_messages_never_log_in(at in 0..LAST.len(), flip in 1_u8..) {
            let mut last = LAST.to_vec();
            last[at] ^= flip;
            let finished = begin(SCRAM, FIRST, None).unwrap().finish(&last);
            prop_assert!(finished.is_err());
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(first in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = begin(SCRAM, &first, None);
            let _ = begin(SCRAM, FIRST, None).unwrap().finish(&first);
        }
    }
}
