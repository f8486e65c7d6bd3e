//! Secrets: what a connection shows to a store of files to be let in. `CREATE SECRET` makes them.
//!
//! A secret belongs to one connection and ends with it. It is never written to disk and never shown. Of several that
//! fit a URL, the one with the longest scope counts.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::RwLock;
use rowmill_base::{Error, ErrorKind, Result};

use crate::options::{invalid, switch, unknown_option};

/// The kind of store that a secret is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretKind {
    /// S3, and stores with the same interface.
    S3,
    /// Servers of HTTP that want a token.
    Http,
}

/// One secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    kind: SecretKind,
    /// The beginning of the URLs that the secret is for.
    scope: String,
    pub(crate) key_id: Option<String>,
    pub(crate) secret: Option<String>,
    pub(crate) session_token: Option<String>,
    pub(crate) bearer_token: Option<String>,
    pub(crate) region: Option<String>,
    /// The host of the store, perhaps with a port and a scheme.
    endpoint: Option<String>,
    pub(crate) uses_tls: bool,
    /// Whether the name of a bucket is a part of the host's name instead of the path.
    pub(crate) bucket_in_host: bool,
    /// Whether keys come from the environment of the process or from the machine, as programs of AWS look for them.
    pub(crate) uses_chain: bool,
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Keys and tokens must not get into logs.
        f.debug_struct("Secret").field("kind", &self.kind).field("scope", &self.scope).finish_non_exhaustive()
    }
}

impl Secret {
    /// The names of the options that [`Secret::set`] accepts.
    pub const OPTIONS: &'static [&'static str] = &[
        "key_id",
        "secret",
        "session_token",
        "region",
        "endpoint",
        "url_style",
        "use_ssl",
        "provider",
        "scope",
        "bearer_token",
    ];

    /// Makes an empty secret of a type. By default it is for all URLs of the type.
    pub fn new(kind: &str) -> Result<Secret> {
        let (kind, scope) = match kind.to_ascii_lowercase().as_str() {
            "s3" => (SecretKind::S3, "s3://"),
            "http" => (SecretKind::Http, "http"),
            _ => {
                return Err(Error::new(ErrorKind::InvalidParameter, format!("there is no type of secret '{kind}'"))
                    .hint("the types are s3 and http; a store that is like S3 is named by ENDPOINT"));
            }
        };
        Ok(Secret {
            kind,
            scope: scope.to_owned(),
            key_id: None,
            secret: None,
            session_token: None,
            bearer_token: None,
            region: None,
            endpoint: None,
            uses_tls: true,
            bucket_in_host: false,
            uses_chain: false,
        })
    }

    /// Sets one option.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let lower = name.to_ascii_lowercase();
        let text = Some(value.to_owned());
        let is_http = matches!(lower.as_str(), "bearer_token");
        let is_known = Secret::OPTIONS.contains(&lower.as_str());
        if is_known && lower != "scope" && is_http != (self.kind == SecretKind::Http) {
            let kind = if is_http { "http" } else { "s3" };
            return Err(Error::new(
                ErrorKind::InvalidParameter,
                format!("the option {lower} belongs to secrets of the type {kind}"),
            ));
        }
        match lower.as_str() {
            "key_id" => self.key_id = text,
            "secret" => self.secret = text,
            "session_token" => self.session_token = text,
            "region" => self.region = text,
            "endpoint" => self.endpoint = text,
            "bearer_token" => self.bearer_token = text,
            "use_ssl" => self.uses_tls = switch(&lower, value)?,
            "url_style" => {
                self.bucket_in_host = match value.to_ascii_lowercase().as_str() {
                    "path" => false,
                    "vhost" => true,
                    _ => return Err(invalid(&lower, value, "'path' or 'vhost'")),
                }
            }
            "provider" => {
                self.uses_chain = match value.to_ascii_lowercase().as_str() {
                    "config" => false,
                    "credential_chain" => true,
                    _ => return Err(invalid(&lower, value, "'config' or 'credential_chain'")),
                }
            }
            "scope" => value.clone_into(&mut self.scope),
            _ => return Err(unknown_option(name, Secret::OPTIONS)),
        }
        Ok(())
    }

    /// Checks that the options fit together.
    pub fn check(&self) -> Result<()> {
        let wrong = |message: &str| Err(Error::new(ErrorKind::InvalidParameter, message));
        match self.kind {
            SecretKind::S3 if self.key_id.is_some() != self.secret.is_some() => {
                wrong("a secret needs both KEY_ID and SECRET, or neither of them")
            }
            SecretKind::S3 if self.uses_chain && self.key_id.is_some() => {
                wrong("a secret with PROVIDER credential_chain finds its keys itself, so it has no KEY_ID")
            }
            SecretKind::Http if self.bearer_token.is_none() => wrong("a secret of the type http needs BEARER_TOKEN"),
            _ => Ok(()),
        }
    }

    /// The URL of the store, if it is not that of AWS.
    #[cfg(any(test, feature = "remote"))]
    pub(crate) fn endpoint_url(&self) -> Option<String> {
        let endpoint = self.endpoint.as_deref()?.trim_end_matches('/');
        if endpoint.contains("://") {
            return Some(endpoint.to_owned());
        }
        Some(format!("{}://{endpoint}", if self.uses_tls { "https" } else { "http" }))
    }
}

/// The secrets of a connection. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Secrets(Arc<RwLock<BTreeMap<String, Secret>>>);

impl Secrets {
    /// Keeps a secret under a name. Returns whether the name was free; if it was not and `replaces` is false, keeps the
    /// old one.
    pub fn put(&self, name: &str, secret: Secret, replaces: bool) -> bool {
        let mut secrets = self.0.write();
        let is_free = !secrets.contains_key(name);
        if is_free || replaces {
            secrets.insert(name.to_owned(), secret);
        }
        is_free
    }

    /// Forgets a secret. Returns whether it was there.
    pub fn remove(&self, name: &str) -> bool {
        self.0.write().remove(name).is_some()
    }

    /// Forgets all secrets.
    pub fn clear(&self) {
        self.0.write().clear();
    }

    /// The names, in order.
    pub fn names(&self) -> Vec<String> {
        self.0.read().keys().cloned().collect()
    }

    /// The secret for a URL.
    #[cfg_attr(not(feature = "remote"), expect(dead_code, reason = "only files over the network need secrets"))]
    pub(crate) fn of_url(&self, kind: SecretKind, url: &str) -> Option<Secret> {
        let secrets = self.0.read();
        let fitting = secrets.values().filter(|secret| secret.kind == kind && url.starts_with(&secret.scope));
        fitting.max_by_key(|secret| secret.scope.len()).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(kind: &str, options: &[(&str, &str)]) -> Result<Secret> {
        let mut secret = Secret::new(kind)?;
        options.iter().try_for_each(|(name, value)| secret.set(name, value))?;
        secret.check()?;
        Ok(secret)
    }

    #[test]
    fn options_are_checked() {
        let good = secret("S3", &[("KEY_ID", "a"), ("secret", "b"), ("endpoint", "host:9000"), ("use_ssl", "false")]);
        assert_eq!(good.expect("sound").endpoint_url().as_deref(), Some("http://host:9000"));
        let with_scheme = secret("s3", &[("endpoint", "https://host/")]).expect("sound");
        assert_eq!(with_scheme.endpoint_url().as_deref(), Some("https://host"));
        for (kind, options, message) in [
            ("gcs", &[][..], "no type of secret"),
            ("s3", &[("key_id", "a")][..], "both KEY_ID and SECRET"),
            ("s3", &[("bearer_token", "a")][..], "type http"),
            ("http", &[][..], "BEARER_TOKEN"),
            ("http", &[("region", "a")][..], "type s3"),
            ("s3", &[("url_style", "host")][..], "'path' or 'vhost'"),
            ("s3", &[("regoin", "a")][..], "no option"),
            ("s3", &[("key_id", "a"), ("secret", "b"), ("provider", "credential_chain")][..], "finds its keys"),
        ] {
            let error = secret(kind, options).expect_err(message);
            assert!(error.message().contains(message), "{error}");
        }
    }

    #[test]
    fn the_longest_scope_counts_and_keys_are_not_shown() {
        let secrets = Secrets::default();
        let keys = |id: &str| secret("s3", &[("key_id", id), ("secret", "hidden")]).expect("sound");
        assert!(secrets.put("all", keys("general"), false));
        let mut narrow = keys("narrow");
        narrow.set("scope", "s3://bucket/deep").expect("a scope");
        assert!(secrets.put("one", narrow, false));
        assert!(!secrets.put("one", keys("other"), false), "the name is taken");
        let key_of = |url: &str| secrets.of_url(SecretKind::S3, url).and_then(|secret| secret.key_id);
        assert_eq!(key_of("s3://bucket/deep/a.csv").as_deref(), Some("narrow"));
        assert_eq!(key_of("s3://bucket/a.csv").as_deref(), Some("general"));
        assert_eq!(key_of("https://bucket/a.csv"), None);
        assert!(!format!("{secrets:?}").contains("hidden"));
        assert!(secrets.remove("one") && !secrets.remove("one"));
        assert_eq!(secrets.names(), ["all"]);
    }
}
