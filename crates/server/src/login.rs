//! Who a client is: the check of passwords and tokens, for all protocols.
//!
//! A wrong password, an unknown name, a role that may not log in and one whose time is over all get the same answer
//! after the same work, so that a client cannot learn which names exist. The log must have the reason.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use rowmill::access::{Actor, Authority, FileFolders, LoginRole, ScramVerifier};
use rowmill::{Database, Error, Result};
use sha2::{Digest, Sha256};

use crate::login_throttle::LoginThrottle;

/// The password checks that are remembered at most. After that, all are forgotten.
const REMEMBERED_MAX: usize = 1_024;

/// Checks who clients are.
pub(crate) struct Doorkeeper {
    /// A secret of this process. It makes the verifiers of names that do not exist if the database has no secret for
    /// it.
    secret: [u8; 32],
    /// The folders whose files roles may use that are no superusers.
    folders: FileFolders,
    /// The hashes of passwords that were right, with the verifiers that they fit. A request over HTTP brings its
    /// password each time, and a verifier costs thousands of hashes.
    remembered: Mutex<HashSet<[u8; 32]>>,
    pub(crate) throttle: LoginThrottle,
}

/// A client that was let in.
#[derive(Clone, Debug)]
pub(crate) struct ClientLogin {
    /// The name for logs and for `session_authorization`.
    pub(crate) name: Arc<str>,
    pub(crate) is_superuser: bool,
    pub(crate) authority: Authority,
    /// The address of the client, for logs, where the protocol has no session that knows it.
    pub(crate) client: Option<SocketAddr>,
}

impl ClientLogin {
    /// Whether the client has proved who it is.
    pub(crate) fn has_proof(&self) -> bool {
        matches!(self.authority.actor, Actor::Role(_))
    }
}

/// Why a client was not let in. Clients are not told which of them it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoginFault {
    /// The client did not say who it is.
    Missing,
    /// It cannot be read.
    Malformed,
    UnknownRole,
    UnknownToken,
    WrongPassword,
    NoPassword,
    MayNotLogIn,
    Ended,
    /// There were too many failed logins of the name from the client's address.
    Locked,
    /// There are no users, and the client is on another machine.
    NoUsers,
}

impl LoginFault {
    /// Whether a password was checked and did not let the client in.
    pub(crate) fn is_of_password(self) -> bool {
        !matches!(self, LoginFault::Missing | LoginFault::Malformed | LoginFault::Locked | LoginFault::NoUsers)
    }

    /// The reason for the log.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            LoginFault::Missing => "no password and no token was given",
            LoginFault::Malformed => "the proof of the password cannot be read",
            LoginFault::UnknownRole => "there is no such role",
            LoginFault::UnknownToken => "there is no such token",
            LoginFault::WrongPassword => "the password is wrong",
            LoginFault::NoPassword => "the role has no password",
            LoginFault::MayNotLogIn => "the role has no LOGIN",
            LoginFault::Ended => "the role or its token has ended",
            LoginFault::Locked => "too many logins of this name from this address have failed",
            LoginFault::NoUsers => "there are no users, so only clients of this machine are let in",
        }
    }
}

/// The facts about a client that wants to log in with a password.
pub(crate) struct Candidate {
    /// The verifier to check against: the role's, or one that no password fits.
    pub(crate) verifier: ScramVerifier,
    /// The login, or why it fails whatever the password is.
    pub(crate) role: std::result::Result<LoginRole, LoginFault>,
}

impl Doorkeeper {
    pub(crate) fn new(folders: FileFolders) -> Result<Doorkeeper> {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).map_err(|error| Error::internal(format!("no random bytes: {error}")))?;
        Ok(Doorkeeper { secret, folders, remembered: Mutex::default(), throttle: LoginThrottle::default() })
    }

    /// Lets a client in without a login, if there are no users yet. `None` if it must log in.
    pub(crate) fn guest(
        &self,
        database: &Database,
        name: &str,
        client: IpAddr,
    ) -> Result<Option<std::result::Result<ClientLogin, LoginFault>>> {
        if database.requires_login()? {
            return Ok(None);
        }
        // The last user may have been dropped since the server began to listen.
        if !client.to_canonical().is_loopback() {
            return Ok(Some(Err(LoginFault::NoUsers)));
        }
        let authority = Authority { actor: Actor::Guest, folders: FileFolders::default() };
        Ok(Some(Ok(ClientLogin { name: name.into(), is_superuser: true, authority, client: None })))
    }

    /// Looks up a client that wants to log in with a password.
    pub(crate) fn candidate(&self, database: &Database, name: &str) -> Result<Candidate> {
        let role = database.login_role(name)?;
        let secret = database.secret_of_nobody()?.unwrap_or(self.secret);
        let nobody = || ScramVerifier::of_nobody(&secret, &name.to_lowercase());
        let Some(role) = role else {
            return Ok(Candidate { verifier: nobody(), role: Err(LoginFault::UnknownRole) });
        };
        let verifier = role.verifier.clone();
        let fault = match verifier {
            None => Some(LoginFault::NoPassword),
            Some(_) => fault_of(&role),
        };
        Ok(Candidate { verifier: verifier.unwrap_or_else(nobody), role: fault.map_or(Ok(role), Err) })
    }

    /// Checks a name and a password of a client.
    pub(crate) fn check_password(
        &self,
        database: &Database,
        client: IpAddr,
        name: &str,
        password: &str,
    ) -> Result<std::result::Result<ClientLogin, LoginFault>> {
        let Candidate { verifier, role } = self.candidate(database, name)?;
        let mut hash = Sha256::new_with_prefix(self.secret);
        [verifier.text().as_bytes(), b"\0", password.as_bytes()].iter().for_each(|part| hash.update(part));
        let hash: [u8; 32] = hash.finalize().into();
        let is_known = self.remembered.lock().contains(&hash);
        // A program that has logged in before must go on while another one tries passwords from the same address.
        if !is_known && self.throttle.is_locked(client, name) {
            return Ok(Err(LoginFault::Locked));
        }
        if !is_known && !verifier.is_password(password) {
            return Ok(Err(role.err().unwrap_or(LoginFault::WrongPassword)));
        }
        Ok(role.map(|role| {
            if !is_known {
                let mut remembered = self.remembered.lock();
                if remembered.len() >= REMEMBERED_MAX {
                    remembered.clear();
                }
                remembered.insert(hash);
            }
            self.login(&role)
        }))
    }

    /// Checks a token.
    pub(crate) fn check_token(
        &self,
        database: &Database,
        token: &str,
    ) -> Result<std::result::Result<ClientLogin, LoginFault>> {
        let Some(role) = database.role_of_token(token)? else { return Ok(Err(LoginFault::UnknownToken)) };
        Ok(fault_of(&role).map_or_else(|| Ok(self.login(&role)), Err))
    }

    /// The login of a role that has proved who it is.
    pub(crate) fn login(&self, role: &LoginRole) -> ClientLogin {
        let authority = Authority { actor: Actor::Role(role.id), folders: self.folders.clone() };
        let (name, is_superuser) = (role.name.as_str().into(), role.is_superuser);
        ClientLogin { name, is_superuser, authority, client: None }
    }
}

/// Why a role may not log in now.
fn fault_of(role: &LoginRole) -> Option<LoginFault> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros());
    if !role.can_login {
        return Some(LoginFault::MayNotLogIn);
    }
    role.has_ended(i64::try_from(now).unwrap_or(i64::MAX)).then_some(LoginFault::Ended)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn only_the_right_password_of_a_role_in_its_time_is_let_in() {
        let database = Database::memory().unwrap();
        let keeper = Doorkeeper::new(FileFolders::only(&[]).unwrap()).unwrap();
        let here = IpAddr::from([127, 0, 0, 1]);
        assert!(matches!(keeper.guest(&database, "x", here), Ok(Some(Ok(_)))));
        assert!(matches!(
            keeper.guest(&database, "x", IpAddr::from([10, 0, 0, 1])),
            Ok(Some(Err(LoginFault::NoUsers)))
        ));
        let mut connection = database.connect().unwrap();
        for sql in [
            "CREATE USER ann PASSWORD 'right'",
            "CREATE USER old PASSWORD 'right' VALID UNTIL '2020-01-01'",
            "CREATE USER blank",
            "CREATE ROLE group_of_users PASSWORD 'right'",
        ] {
            connection.execute_batch(sql).unwrap();
        }
        assert!(matches!(keeper.guest(&database, "x", here), Ok(None)));
        let fault = |name: &str, password: &str| keeper.check_password(&database, here, name, password).unwrap().err();
        for _ in 0..2 {
            assert_eq!(fault("ann", "right"), None);
            assert_eq!(fault("Ann", "wrong"), Some(LoginFault::WrongPassword));
            assert_eq!(fault("old", "right"), Some(LoginFault::Ended));
            assert_eq!(fault("blank", ""), Some(LoginFault::NoPassword));
            assert_eq!(fault("group_of_users", "right"), Some(LoginFault::MayNotLogIn));
            assert_eq!(fault("eve", "right"), Some(LoginFault::UnknownRole));
        }
        for _ in 0..100 {
            keeper.throttle.failed(here, "ann");
        }
        // The password was right before, so it is right without a check.
        assert_eq!(fault("ann", "right"), None);
        assert_eq!(fault("ann", "wrong"), Some(LoginFault::Locked));
        assert_eq!(fault("blank", ""), Some(LoginFault::NoPassword));
        let here = IpAddr::from([127, 0, 0, 2]);
        let fault = |name: &str, password: &str| keeper.check_password(&database, here, name, password).unwrap().err();
        connection.execute_batch("ALTER ROLE ann PASSWORD 'other'").unwrap();
        assert_eq!(fault("ann", "right"), Some(LoginFault::WrongPassword));
    }

    #[test]
    fn a_name_that_does_not_exist_keeps_its_salt_when_the_server_starts_again() {
        let database = Database::memory().unwrap();
        let users = "CREATE USER ann PASSWORD 'right'; CREATE USER blank; CREATE USER bob PASSWORD 'x'";
        database.connect().unwrap().execute_batch(users).unwrap();
        let salt = |name: &str| {
            let keeper = Doorkeeper::new(FileFolders::default()).unwrap();
            keeper.candidate(&database, name).unwrap().verifier.salt
        };
        assert_eq!((salt("eve"), salt("Blank")), (salt("EVE"), salt("blank")));
        assert_ne!(salt("eve"), salt("mallory"));
        let before = salt("eve");
        database.connect().unwrap().execute_batch("DROP ROLE bob; CREATE USER carl PASSWORD 'y'").unwrap();
        assert_eq!(salt("eve"), before);
    }

    #[test]
    fn tokens_end_with_their_time_and_with_their_role() {
        let database = Database::memory().unwrap();
        let keeper = Doorkeeper::new(FileFolders::default()).unwrap();
        let mut connection = database.connect().unwrap();
        connection.execute_batch("CREATE USER app").unwrap();
        let mut token = |name: &str, until: &str| {
            let rows = connection.query(&format!("CREATE TOKEN {name} FOR app VALID UNTIL '{until}'")).unwrap();
            rows.rows().unwrap()[0].get::<String>(0).unwrap()
        };
        let (good, ended) = (token("good", "infinity"), token("ended", "2020-01-01"));
        let check = |token: &str| keeper.check_token(&database, token).unwrap().map(|login| login.name.to_string());
        assert_eq!(check(&good), Ok("app".to_owned()));
        assert_eq!(check(&ended), Err(LoginFault::Ended));
        assert_eq!(check(&format!("{good}x")), Err(LoginFault::UnknownToken));
        connection.execute_batch("ALTER ROLE app NOLOGIN").unwrap();
        assert_eq!(check(&good), Err(LoginFault::MayNotLogIn));
        connection.execute_batch("DROP TOKEN good FOR app").unwrap();
        assert_eq!(check(&good), Err(LoginFault::UnknownToken));
    }
}
