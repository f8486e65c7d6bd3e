//! The console: one page for a browser, whose files are in the binary.
//!
//! `console/README.md` tells how the files are built. They name no other host, and the browser is told to load nothing
//! from elsewhere and to run no script of the page itself.

use std::io::Write;
use std::sync::OnceLock;

use axum::body::Bytes;
use axum::extract::Path;
use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, VARY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use flate2::Compression;
use flate2::write::GzEncoder;

use super::answer_writer::ContentCoding;
use super::{failure, header_text};

/// What the page may load: only what this server sends. Other pages may not show it in a frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A file of the console.
struct ConsoleFile {
    name: &'static str,
    content_type: &'static str,
    content: &'static str,
    gzip: OnceLock<Bytes>,
}

impl ConsoleFile {
    const fn new(name: &'static str, content_type: &'static str, content: &'static str) -> ConsoleFile {
        ConsoleFile { name, content_type, content, gzip: OnceLock::new() }
    }
}

static PAGE: ConsoleFile =
    ConsoleFile::new("index.html", "text/html; charset=utf-8", include_str!("../../console/dist/index.html"));

static FILES: [ConsoleFile; 4] = [
    ConsoleFile::new("console.js", "text/javascript; charset=utf-8", include_str!("../../console/dist/console.js")),
    ConsoleFile::new("console.css", "text/css; charset=utf-8", include_str!("../../console/dist/console.css")),
    ConsoleFile::new("icon.svg", "image/svg+xml", include_str!("../../console/dist/icon.svg")),
    ConsoleFile::new("licenses.txt", "text/plain; charset=utf-8", include_str!("../../console/dist/licenses.txt")),
];

pub(super) async fn page(headers: HeaderMap) -> Response {
    answer(&PAGE, &headers)
}

pub(super) async fn file(Path(name): Path<String>, headers: HeaderMap) -> Response {
    match FILES.iter().find(|file| file.name == name) {
        Some(file) => answer(file, &headers),
        None => failure(StatusCode::NOT_FOUND, "58P01", "the console has no such file"),
    }
}

fn answer(file: &'static ConsoleFile, request: &HeaderMap) -> Response {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(file.content_type));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    // A newer server has newer files under the same names.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
    // All browsers take gzip, so one compressed form is enough.
    let takes_gzip = header_text(request, ACCEPT_ENCODING)
        .is_some_and(|accept| accept.contains("gzip") && ContentCoding::of_accept(accept) != ContentCoding::Identity);
    if !takes_gzip {
        return (headers, file.content).into_response();
    }
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    let packed = file.gzip.get_or_init(|| {
        let mut packer = GzEncoder::new(Vec::new(), Compression::best());
        let packed = packer.write_all(file.content.as_bytes()).and_then(|()| packer.finish());
        packed.expect("a vector takes all bytes").into()
    });
    (headers, packed.clone()).into_response()
}
