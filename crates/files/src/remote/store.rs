//! From a URL to the store that has the file.

use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::http::HttpBuilder;
use object_store::path::Path;
use object_store::{BackoffConfig, ObjectStore, RetryConfig};
use reqwest::header::HeaderValue;
use rowmill_base::{Error, ErrorKind, Result};

use super::transport::Transport;
use crate::folders::FileFolders;
use crate::secret::{Secret, SecretKind, Secrets};
use crate::url_name::{scheme_of, without_query};

/// The schemes that are read.
const SCHEMES: &str = "https, http and s3";
/// Variables by which programs of AWS find keys without having them.
const CHAIN_VARIABLES: [&str; 3] =
    ["AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI"];

/// A file, or a folder, of a store.
#[derive(Clone, Debug)]
pub(super) struct RemoteObject {
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) path: Path,
    /// The URL as messages show it.
    pub(super) name: String,
    pub(super) kind: SecretKind,
}

/// The parts of a URL of S3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct S3Url<'u> {
    pub(super) bucket: &'u str,
    pub(super) key: &'u str,
}

impl<'u> S3Url<'u> {
    /// Splits a URL. `None` if it is not one of S3.
    pub(super) fn of(url: &'u str) -> Result<Option<S3Url<'u>>> {
        if scheme_of(url).as_deref() != Some("s3") {
            return Ok(None);
        }
        let rest = &url["s3://".len()..];
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() || key.is_empty() {
            return Err(Error::new(ErrorKind::UndefinedFile, format!("'{url}' names no file"))
                .hint("name the bucket and the file: 's3://bucket/folder/file.parquet'"));
        }
        Ok(Some(S3Url { bucket, key }))
    }
}

/// Who asks for files.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asker<'a> {
    pub(super) folders: &'a FileFolders,
    pub(super) secrets: &'a Secrets,
}

impl Asker<'_> {
    /// Opens the store of a URL of HTTP, which has this file only.
    pub(super) fn http(&self, url: &str) -> Result<RemoteObject> {
        let scheme = scheme_of(url).unwrap_or_default();
        if !matches!(scheme.as_str(), "http" | "https") {
            return Err(Error::new(ErrorKind::Unsupported, format!("files cannot be read over {scheme}")).hint(
                format!("the schemes are {SCHEMES}; CREATE SECRET (TYPE s3, ENDPOINT '...') names a store like S3"),
            ));
        }
        let name = without_query(url).to_owned();
        let wrong = |reason: String| {
            Error::new(ErrorKind::InvalidParameter, format!("'{name}' is not a URL that can be read: {reason}"))
        };
        let parsed = reqwest::Url::parse(url).map_err(|error| wrong(error.to_string()))?;
        if !parsed.username().is_empty() || parsed.password().is_some() {
            // They would be shown in messages and in lists of statements.
            let what = "a URL with the name or the password of a user cannot be read";
            return Err(Error::new(ErrorKind::InvalidParameter, what)
                .hint("CREATE SECRET (TYPE http, BEARER_TOKEN '...') keeps a token"));
        }
        let secret = self.secrets.of_url(SecretKind::Http, url);
        let token = secret.and_then(|secret| secret.bearer_token);
        let authorization = match token.map(|token| HeaderValue::from_str(&format!("Bearer {token}"))) {
            None => None,
            Some(Ok(mut header)) => {
                header.set_sensitive(true);
                Some(header)
            }
            Some(Err(_)) => {
                let what = "BEARER_TOKEN has characters that a token cannot have";
                return Err(Error::new(ErrorKind::InvalidParameter, what));
            }
        };
        let transport = Transport { follows_redirects: !self.folders.is_limited(), authorization };
        let builder = HttpBuilder::new().with_url(parsed).with_retry(retries()).with_http_connector(transport);
        let store = builder.build().map_err(|error| wrong(error.to_string()))?;
        Ok(RemoteObject { store: Arc::new(store), path: Path::default(), name, kind: SecretKind::Http })
    }

    /// Opens the store of a bucket. `path` is a file or folder of it.
    pub(super) fn s3(&self, url: &str, bucket: &str, path: Path) -> Result<RemoteObject> {
        let secret = self.secrets.of_url(SecretKind::S3, url);
        let (builder, signs) = match &secret {
            None => from_environment(),
            Some(secret) if secret.uses_chain => (with_secret(AmazonS3Builder::from_env(), secret, bucket), true),
            Some(secret) => (with_secret(AmazonS3Builder::new(), secret, bucket), secret.key_id.is_some()),
        };
        if let Some(endpoint) = secret.as_ref().and_then(Secret::endpoint_url) {
            // A role that may read one bucket must not make the server send requests elsewhere.
            self.folders.check_pattern(&endpoint)?;
        }
        let builder = builder
            .with_bucket_name(bucket)
            // What an anonymous client may read needs no signature.
            .with_skip_signature(!signs)
            .with_retry(retries())
            .with_http_connector(Transport::default());
        let store = builder.build().map_err(|error| {
            Error::new(ErrorKind::InvalidParameter, format!("the store of '{url}' cannot be used: {error}"))
        })?;
        Ok(RemoteObject { store: Arc::new(store), path, name: url.to_owned(), kind: SecretKind::S3 })
    }
}

/// A store by the variables of the environment, and whether they have keys.
fn from_environment() -> (AmazonS3Builder, bool) {
    let builder = AmazonS3Builder::from_env();
    let has_keys = builder.get_config_value(&AmazonS3ConfigKey::AccessKeyId).is_some()
        || CHAIN_VARIABLES.iter().any(|name| std::env::var_os(name).is_some());
    (builder, has_keys)
}

fn with_secret(mut builder: AmazonS3Builder, secret: &Secret, bucket: &str) -> AmazonS3Builder {
    if let (Some(key), Some(own)) = (&secret.key_id, &secret.secret) {
        builder = builder.with_access_key_id(key).with_secret_access_key(own);
    }
    if let Some(token) = &secret.session_token {
        builder = builder.with_token(token);
    }
    if let Some(region) = &secret.region {
        builder = builder.with_region(region);
    }
    if let Some(endpoint) = secret.endpoint_url() {
        // The library takes a whole host, which has the bucket in its name in this style.
        let (scheme, host) = endpoint.split_once("://").unwrap_or(("https", &endpoint));
        let host = if secret.bucket_in_host { format!("{bucket}.{host}") } else { host.to_owned() };
        builder = builder.with_endpoint(format!("{scheme}://{host}"));
    }
    builder.with_virtual_hosted_style_request(secret.bucket_in_host)
}

/// Few repetitions, because a person waits: about three seconds of pauses.
fn retries() -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(100),
            max_backoff: Duration::from_secs(2),
            base: 3.0,
        },
        max_retries: 4,
        retry_timeout: Duration::from_secs(120),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_s3_have_a_bucket_and_a_key() {
        let parts = |url| S3Url::of(url).expect("sound").map(|parts| (parts.bucket, parts.key));
        assert_eq!(parts("s3://bucket/a/b.csv"), Some(("bucket", "a/b.csv")));
        assert_eq!(parts("https://host/a.csv"), None);
        for bad in ["s3://", "s3://bucket", "s3://bucket/", "s3:///a.csv"] {
            assert_eq!(S3Url::of(bad).expect_err(bad).kind(), ErrorKind::UndefinedFile);
        }
    }

    #[test]
    fn wrong_urls_are_errors_that_show_no_secret() {
        let (folders, secrets) = (FileFolders::default(), Secrets::default());
        let asker = Asker { folders: &folders, secrets: &secrets };
        for (url, kind) in [
            ("ftp://host/a.csv", ErrorKind::Unsupported),
            ("http://", ErrorKind::InvalidParameter),
            ("http://ann:hidden@host/a.csv", ErrorKind::InvalidParameter),
            ("http://host:port/a.csv", ErrorKind::InvalidParameter),
        ] {
            assert_eq!(asker.http(url).expect_err(url).kind(), kind, "{url}");
        }
        let object = asker.http("http://host/a.csv?key=hidden").expect("sound");
        assert_eq!(object.name, "http://host/a.csv");
    }
}
