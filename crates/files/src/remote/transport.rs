//! Sends the requests of `object_store`.

use std::error::Error as StdError;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use http_body_util::BodyExt;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody, HttpService,
};
use reqwest::header::{AUTHORIZATION, CONTENT_LENGTH, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Body, Client, Method, Request, Url};
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;

/// How long a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a server may send nothing.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// The most redirects of a request.
const REDIRECTS_MAX: usize = 10;

/// The size that a file seems to have if the server does not say it. `object_store` asks for one; the end of the body
/// ends the file.
pub(super) const UNKNOWN_BYTES: u64 = i64::MAX as u64;

/// Makes clients of one kind.
#[derive(Clone, Debug, Default)]
pub(super) struct Transport {
    /// Whether redirects are followed. Signatures fit one host only, and a redirect could lead a role to a host that is
    /// not allowed to it.
    pub(super) follows_redirects: bool,
    /// The header that lets a client in. Not sent to other hosts.
    pub(super) authorization: Option<HeaderValue>,
}

impl HttpConnector for Transport {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        static FOLLOWING: OnceLock<Result<Client, String>> = OnceLock::new();
        static DIRECT: OnceLock<Result<Client, String>> = OnceLock::new();
        let (kept, policy) = match self.follows_redirects {
            true => (&FOLLOWING, Policy::limited(REDIRECTS_MAX)),
            false => (&DIRECT, Policy::none()),
        };
        // Connections are shared by all statements of the process.
        let client = kept.get_or_init(|| client(policy).map_err(|error| deepest(&error)));
        let client =
            client.clone().map_err(|error| object_store::Error::Generic { store: "HTTP", source: error.into() })?;
        Ok(HttpClient::new(Sender { client, authorization: self.authorization.clone() }))
    }
}

fn client(redirects: Policy) -> reqwest::Result<Client> {
    Client::builder()
        .tls_backend_preconfigured(tls())
        .connect_timeout(CONNECT_TIMEOUT)
        .read_timeout(READ_TIMEOUT)
        .redirect(redirects)
        .user_agent(concat!("rowmill/", env!("CARGO_PKG_VERSION")))
        .build()
}

/// TLS that trusts the certificates of the system. Without any, it trusts none, so that plain HTTP works still.
fn tls() -> ClientConfig {
    let builder = || {
        let versions = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        versions.with_safe_default_protocol_versions().expect("ring has the default versions of TLS")
    };
    let trusting = builder().with_platform_verifier().ok();
    match trusting {
        Some(trusting) => trusting.with_no_client_auth(),
        None => builder().with_root_certificates(RootCertStore::empty()).with_no_client_auth(),
    }
}

/// Sends requests.
#[derive(Debug)]
struct Sender {
    client: Client,
    authorization: Option<HeaderValue>,
}

#[async_trait]
impl HttpService for Sender {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (parts, body) = request.into_parts();
        let url = Url::parse(&parts.uri.to_string()).map_err(|error| HttpError::new(HttpErrorKind::Unknown, error))?;
        let is_get = parts.method == Method::GET;
        let mut request = Request::new(parts.method, url);
        *request.headers_mut() = parts.headers;
        if let Some(authorization) = &self.authorization {
            request.headers_mut().insert(AUTHORIZATION, authorization.clone());
        }
        *request.body_mut() = match body.as_bytes() {
            Some(bytes) if bytes.is_empty() => None,
            Some(bytes) => Some(Body::from(bytes.clone())),
            None => Some(Body::wrap(body)),
        };
        let response = self.client.execute(request).await.map_err(failed)?;
        let (mut parts, body) = http::Response::<Body>::from(response).into_parts();
        if is_get && parts.status.is_success() && !parts.headers.contains_key(CONTENT_LENGTH) {
            parts.headers.insert(CONTENT_LENGTH, HeaderValue::from(UNKNOWN_BYTES));
        }
        Ok(HttpResponse::from_parts(parts, HttpResponseBody::new(body.map_err(failed))))
    }
}

fn failed(error: reqwest::Error) -> HttpError {
    let kind = if error.is_timeout() {
        HttpErrorKind::Timeout
    } else if error.is_connect() {
        HttpErrorKind::Connect
    } else if error.is_decode() || error.is_redirect() || error.is_builder() {
        HttpErrorKind::Unknown
    } else {
        // The connection broke. Requests that read are repeated then.
        HttpErrorKind::Interrupted
    };
    // The URL of the request may have a signature in it.
    HttpError::new(kind, error.without_url())
}

/// What went wrong at the bottom: the other errors say only that something did.
pub(super) fn deepest(error: &(dyn StdError + 'static)) -> String {
    let mut deepest = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
}
