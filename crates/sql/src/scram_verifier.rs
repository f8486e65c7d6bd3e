//! What proves a password: a verifier of SCRAM-SHA-256 (RFC 5802, RFC 7677), in PostgreSQL's form.
//!
//! ```text
//! SCRAM-SHA-256$iterations:salt$stored key:server key      the last three in base64
//!
//! salted password = PBKDF2(HMAC-SHA-256, password, salt, iterations)
//! client key      = HMAC(salted password, "Client Key")      stored key = SHA-256(client key)
//! server key      = HMAC(salted password, "Server Key")
//! ```
//!
//! Who reads a verifier cannot log in with it, but can try passwords at the speed of the iterations.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use rowmill_base::{Error, Result};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// The rounds of new verifiers, as in PostgreSQL.
const ITERATIONS: u32 = 4_096;
/// The rounds that we compute at most, because a client decides when they are computed.
const ITERATIONS_MAX: u32 = 1_000_000;
/// The bytes of a new salt, as in PostgreSQL.
const SALT_BYTES: usize = 16;
const MECHANISM: &str = "SCRAM-SHA-256";

/// A key or a hash.
pub type ScramKey = [u8; 32];

/// What a server knows of a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScramVerifier {
    /// The rounds.
    pub iterations: u32,
    /// The salt.
    pub salt: Vec<u8>,
    /// The hash of the key by which a client proves that it knows the password.
    pub stored_key: ScramKey,
    /// The key by which the server proves that it knows the verifier.
    pub server_key: ScramKey,
}

impl ScramVerifier {
    /// Makes the verifier of a password, with a random salt.
    pub(crate) fn of_password(password: &str) -> Result<ScramVerifier> {
        let mut salt = vec![0; SALT_BYTES];
        getrandom::fill(&mut salt).map_err(|error| Error::internal(format!("no random bytes: {error}")))?;
        Ok(ScramVerifier::with_salt(password, salt, ITERATIONS))
    }

    fn with_salt(password: &str, salt: Vec<u8>, iterations: u32) -> ScramVerifier {
        // As PostgreSQL does, a password that cannot be prepared is taken as it is.
        let prepared = stringprep::saslprep(password).unwrap_or(password.into());
        let salted = salted_password(prepared.as_bytes(), &salt, iterations);
        let stored_key = sha256(&hmac(&salted, &[b"Client Key"]));
        ScramVerifier { iterations, salt, stored_key, server_key: hmac(&salted, &[b"Server Key"]) }
    }

    /// Makes the verifier for a role that does not exist. No password fits it, but it answers like any other. `secret`
    /// is the server's, so that a role has the same salt each time.
    pub fn of_nobody(secret: &[u8], name: &str) -> ScramVerifier {
        let salt = hmac(secret, &[b"salt", name.as_bytes()])[..SALT_BYTES].to_vec();
        let key = |what: &[u8]| hmac(secret, &[what, name.as_bytes()]);
        ScramVerifier { iterations: ITERATIONS, salt, stored_key: key(b"stored"), server_key: key(b"server") }
    }

    /// Reads a verifier. `None` if the text is none.
    pub fn parse(text: &str) -> Option<ScramVerifier> {
        let rest = text.strip_prefix(MECHANISM)?.strip_prefix('$')?;
        let (head, keys) = rest.split_once('$')?;
        let (iterations, salt) = head.split_once(':')?;
        let (stored, server) = keys.split_once(':')?;
        let decode = |text: &str| STANDARD.decode(text).ok();
        let iterations: u32 = iterations.parse().ok().filter(|rounds| (1..=ITERATIONS_MAX).contains(rounds))?;
        let (stored_key, server_key) = (decode(stored)?.try_into().ok()?, decode(server)?.try_into().ok()?);
        Some(ScramVerifier { iterations, salt: decode(salt)?, stored_key, server_key })
    }

    /// The text of the verifier.
    pub fn text(&self) -> String {
        let [salt, stored, server] =
            [&self.salt[..], &self.stored_key, &self.server_key].map(|bytes| STANDARD.encode(bytes));
        format!("{MECHANISM}${}:{salt}${stored}:{server}", self.iterations)
    }

    /// Whether this is the password. Takes the same time for a right and a wrong one.
    pub fn is_password(&self, password: &str) -> bool {
        let other = ScramVerifier::with_salt(password, self.salt.clone(), self.iterations);
        bool::from(other.stored_key.ct_eq(&self.stored_key))
    }

    /// Whether `proof` shows that a client knows the password: it is the client key, exclusive-or the signature of the
    /// messages that were exchanged.
    pub fn is_proof(&self, proof: &ScramKey, messages: &[u8]) -> bool {
        let mut client_key = hmac(&self.stored_key, &[messages]);
        client_key.iter_mut().zip(proof).for_each(|(byte, proof)| *byte ^= proof);
        bool::from(sha256(&client_key).ct_eq(&self.stored_key))
    }

    /// The signature by which the server proves to the client that it knows the verifier.
    pub fn server_signature(&self, messages: &[u8]) -> ScramKey {
        hmac(&self.server_key, &[messages])
    }
}

/// The hash under which a token is stored.
pub fn token_hash(token: &str) -> ScramKey {
    sha256(token.as_bytes())
}

fn sha256(bytes: &[u8]) -> ScramKey {
    Sha256::digest(bytes).into()
}

fn hmac(key: &[u8], parts: &[&[u8]]) -> ScramKey {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

/// PBKDF2 for a result of one block: `Hi` of RFC 5802.
fn salted_password(password: &[u8], salt: &[u8], iterations: u32) -> ScramKey {
    let key = Hmac::<Sha256>::new_from_slice(password).expect("HMAC takes keys of any length");
    let round = |parts: &[&[u8]]| -> ScramKey {
        let mut mac = key.clone();
        parts.iter().for_each(|part| mac.update(part));
        mac.finalize().into_bytes().into()
    };
    let mut last = round(&[salt, &1_u32.to_be_bytes()]);
    let mut sum = last;
    for _ in 1..iterations {
        last = round(&[&last]);
        sum.iter_mut().zip(last).for_each(|(sum, byte)| *sum ^= byte);
    }
    sum
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_verifier_knows_its_password_and_no_other() {
        let verifier = ScramVerifier::of_password("pencil").unwrap();
        assert!(verifier.is_password("pencil"));
        assert!(!verifier.is_password("Pencil"));
        assert_eq!(ScramVerifier::parse(&verifier.text()), Some(verifier));
    }

    /// The example of RFC 7677, section 3.
    #[test]
    fn the_example_of_the_standard_is_proved() {
        let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let verifier = ScramVerifier::with_salt("pencil", salt, 4_096);
        let messages = "n=user,r=rOprNGfwEbeRWgbNEkqO,\
            r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,\
            c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        let proof = STANDARD.decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=").unwrap().try_into().unwrap();
        assert!(verifier.is_proof(&proof, messages.as_bytes()));
        assert!(!verifier.is_proof(&proof, &messages.as_bytes()[1..]));
        let signature = STANDARD.encode(verifier.server_signature(messages.as_bytes()));
        assert_eq!(signature, "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
    }

    #[test]
    fn texts_that_are_no_verifiers_are_refused() {
        let good = ScramVerifier::of_password("x").unwrap().text();
        for bad in [
            "",
            "x",
            "SCRAM-SHA-256$4096:",
            "SCRAM-SHA-256$0:AA==$AA==:AA==",
            &good.replace("$4096:", "$99999999:"),
            &good[..good.len() - 4],
            &good.replace("SHA-256", "SHA-1"),
        ] {
            assert_eq!(ScramVerifier::parse(bad), None, "{bad}");
        }
    }
}
