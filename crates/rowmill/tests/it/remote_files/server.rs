//! A server of HTTP and of S3 for tests, which can misbehave.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// How the server answers.
#[derive(Clone, Debug)]
pub(crate) struct Manners {
    /// Whether it knows ranges.
    pub(crate) ranges: bool,
    /// Whether it says how long an answer is.
    pub(crate) lengths: bool,
    /// Whether it sends tags of the contents.
    pub(crate) tags: bool,
    /// The number of requests that get 503 before others are answered.
    pub(crate) unavailable: usize,
    /// The number of answers that end in the middle.
    pub(crate) cut: usize,
    /// The number of answers after which the tags change.
    pub(crate) changes_after: Option<usize>,
    /// The pause before each kilobyte.
    pub(crate) pause: Option<Duration>,
    /// The access key that requests must be signed with, for S3.
    pub(crate) key_id: Option<String>,
    /// The token that requests must have.
    pub(crate) token: Option<String>,
}

impl Default for Manners {
    fn default() -> Self {
        Manners {
            ranges: true,
            lengths: true,
            tags: true,
            unavailable: 0,
            cut: 0,
            changes_after: None,
            pause: None,
            key_id: None,
            token: None,
        }
    }
}

/// A request that came in.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) target: String,
    pub(crate) range: Option<String>,
    /// The bytes of the body that went out.
    pub(crate) sent: usize,
}

#[derive(Default)]
struct Contents {
    files: BTreeMap<String, Arc<Vec<u8>>>,
    /// Paths that lead to other URLs.
    redirects: BTreeMap<String, String>,
    /// The parts of objects that are not complete.
    uploads: BTreeMap<String, BTreeMap<usize, Vec<u8>>>,
    seen: Vec<Seen>,
    manners: Manners,
    answered: usize,
}

/// A server on a port of its own. It ends with the process.
#[derive(Clone)]
pub(crate) struct TestServer {
    address: SocketAddr,
    contents: Arc<Mutex<Contents>>,
}

impl TestServer {
    pub(crate) fn start() -> TestServer {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let server = TestServer { address: listener.local_addr().expect("an address"), contents: Arc::default() };
        let own = server.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let server = own.clone();
                // A client may leave at any time.
                std::thread::spawn(move || server.serve(stream).ok());
            }
        });
        server
    }

    fn contents(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().expect("no test panics while it holds the lock")
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.address)
    }

    pub(crate) fn put(&self, path: &str, bytes: impl Into<Vec<u8>>) {
        self.contents().files.insert(path.to_owned(), Arc::new(bytes.into()));
    }

    pub(crate) fn get(&self, path: &str) -> Option<Arc<Vec<u8>>> {
        self.contents().files.get(path).cloned()
    }

    pub(crate) fn redirect(&self, path: &str, url: String) {
        self.contents().redirects.insert(path.to_owned(), url);
    }

    pub(crate) fn behave(&self, manners: Manners) {
        let mut contents = self.contents();
        contents.manners = manners;
        contents.answered = 0;
    }

    /// The requests since the last call.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        std::mem::take(&mut self.contents().seen)
    }

    pub(crate) fn unfinished_uploads(&self) -> usize {
        self.contents().uploads.len()
    }

    fn serve(&self, stream: TcpStream) -> std::io::Result<()> {
        stream.set_nodelay(true)?;
        let mut reader = BufReader::new(stream.try_clone()?);
        let mut writer = stream;
        while let Some(request) = Request::read(&mut reader)? {
            let answer = self.answer(&request);
            let manners = self.contents().manners.clone();
            let (sent, goes_on) = answer.write(&mut writer, &request, &manners)?;
            if let Some(last) = self.contents().seen.iter_mut().rev().find(|seen| seen.target == request.target) {
                last.sent = sent;
            }
            if !goes_on {
                return Ok(());
            }
        }
        Ok(())
    }

    fn answer(&self, request: &Request) -> Answer {
        let mut contents = self.contents();
        let Request { method, target, .. } = request;
        let range = request.header("range");
        contents.seen.push(Seen { target: target.clone(), range: range.clone(), sent: 0 });
        if contents.manners.unavailable > 0 {
            contents.manners.unavailable -= 1;
            return Answer::of(503, "");
        }
        let authorization = request.header("authorization").unwrap_or_default();
        if let Some(key) = &contents.manners.key_id
            && !(authorization.starts_with(&format!("AWS4-HMAC-SHA256 Credential={key}/"))
                && authorization.contains("Signature="))
        {
            return Answer::of(403, "<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>");
        }
        if contents.manners.token.as_ref().is_some_and(|token| authorization != format!("Bearer {token}")) {
            return Answer::of(401, "no token");
        }
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let path = decoded(path.trim_start_matches('/'));
        let query: BTreeMap<String, String> = query
            .split('&')
            .filter(|pair| !pair.is_empty())
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
            .map(|(name, value)| (decoded(name), decoded(value)))
            .collect();
        match method.as_str() {
            "GET" | "HEAD" if query.contains_key("list-type") => contents.list(&path, &query),
            "GET" | "HEAD" => contents.get(&path, range.as_deref()),
            "PUT" | "POST" | "DELETE" => contents.change(method, &path, &query, &request.body),
            _ => Answer::of(405, ""),
        }
    }
}

impl Contents {
    fn get(&mut self, path: &str, range: Option<&str>) -> Answer {
        if let Some(url) = self.redirects.get(path) {
            let mut answer = Answer::of(302, "");
            answer.headers.push(("location".to_owned(), url.clone()));
            return answer;
        }
        let Some(bytes) = self.files.get(path).cloned() else {
            return Answer::of(404, "<Error><Code>NoSuchKey</Code><Message>The key does not exist.</Message></Error>");
        };
        self.answered += 1;
        let changed = self.manners.changes_after.is_some_and(|count| self.answered > count);
        let mut headers = Vec::new();
        if self.manners.tags {
            headers.push(("etag".to_owned(), format!("\"{:x}-{}\"", bytes.len(), u8::from(changed))));
        }
        headers.push(("last-modified".to_owned(), "Sun, 29 Nov 2026 03:00:00 GMT".to_owned()));
        let whole = Answer {
            status: 200,
            headers: headers.clone(),
            body: Arc::clone(&bytes),
            part: 0..bytes.len(),
            cut: false,
        };
        let mut answer = match range.filter(|_| self.manners.ranges).map(|range| part_of(range, bytes.len())) {
            None => whole,
            Some(None) => Answer::of(416, ""),
            Some(Some(part)) => {
                let stated = format!("bytes {}-{}/{}", part.start, part.end - 1, bytes.len());
                headers.push(("content-range".to_owned(), stated));
                Answer { status: 206, headers, part, ..whole }
            }
        };
        if self.manners.cut > 0 && answer.part.len() > 1000 {
            self.manners.cut -= 1;
            answer.cut = true;
        }
        answer
    }

    /// The answer to ListObjectsV2, at most three keys at a time.
    fn list(&self, bucket: &str, query: &BTreeMap<String, String>) -> Answer {
        let prefix = query.get("prefix").map_or("", String::as_str);
        let after = query.get("continuation-token").map_or("", String::as_str);
        let own = format!("{}/", bucket.trim_end_matches('/'));
        let keys = self.files.iter().filter_map(|(path, bytes)| Some((path.strip_prefix(&own)?, bytes.len())));
        let keys: Vec<_> = keys.filter(|(key, _)| key.starts_with(prefix) && *key > after).collect();
        let mut xml = String::from("<?xml version=\"1.0\"?><ListBucketResult>");
        for (key, bytes) in keys.iter().take(3) {
            xml.push_str(&format!(
                "<Contents><Key>{key}</Key><Size>{bytes}</Size><ETag>&quot;{bytes:x}-0&quot;</ETag>\
                 <LastModified>2026-11-29T03:00:00.000Z</LastModified></Contents>"
            ));
        }
        if keys.len() > 3 {
            xml.push_str(&format!("<NextContinuationToken>{}</NextContinuationToken>", keys[2].0));
        }
        xml.push_str("</ListBucketResult>");
        Answer::of(200, &xml)
    }

    fn change(&mut self, method: &str, path: &str, query: &BTreeMap<String, String>, body: &[u8]) -> Answer {
        let upload = query.get("uploadId");
        match (method, upload, query.get("partNumber")) {
            ("POST", None, _) if query.contains_key("uploads") => {
                let id = format!("upload-{}", self.uploads.len());
                self.uploads.insert(id.clone(), BTreeMap::new());
                let xml =
                    format!("<InitiateMultipartUploadResult><UploadId>{id}</UploadId></InitiateMultipartUploadResult>");
                Answer::of(200, &xml)
            }
            ("PUT", Some(id), Some(part)) => {
                // A part can arrive after its upload was aborted, because the client does not wait for the parts that
                // are under way. S3 answers such a part with this error.
                let Some(parts) = self.uploads.get_mut(id) else {
                    return Answer::of(
                        404,
                        "<Error><Code>NoSuchUpload</Code><Message>no such upload</Message></Error>",
                    );
                };
                parts.insert(part.parse().expect("a number"), body.to_vec());
                let mut answer = Answer::of(200, "");
                answer.headers.push(("etag".to_owned(), format!("\"part-{part}\"")));
                answer
            }
            ("POST", Some(id), _) => {
                let parts = self.uploads.remove(id).expect("the upload was started");
                self.files.insert(path.to_owned(), Arc::new(parts.into_values().flatten().collect()));
                Answer::of(200, "<CompleteMultipartUploadResult><ETag>\"whole\"</ETag></CompleteMultipartUploadResult>")
            }
            ("DELETE", Some(id), _) => {
                self.uploads.remove(id);
                Answer::of(204, "")
            }
            ("PUT", None, _) => {
                self.files.insert(path.to_owned(), Arc::new(body.to_vec()));
                let mut answer = Answer::of(200, "");
                answer.headers.push(("etag".to_owned(), "\"put\"".to_owned()));
                answer
            }
            _ => Answer::of(400, ""),
        }
    }
}

/// The part of a file that a header asks for.
fn part_of(range: &str, bytes: usize) -> Option<std::ops::Range<usize>> {
    let (start, end) = range.strip_prefix("bytes=")?.split_once('-')?;
    let (start, end) = match (start.parse::<usize>(), end.parse::<usize>()) {
        (Ok(start), Ok(end)) => (start, (end + 1).min(bytes)),
        (Ok(start), Err(_)) => (start, bytes),
        (Err(_), Ok(last)) => (bytes.saturating_sub(last), bytes),
        (Err(_), Err(_)) => return None,
    };
    (start < end).then_some(start..end)
}

/// A text without percent signs.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, more)) = rest.split_first() {
        let code = (*first == b'%').then(|| std::str::from_utf8(more.get(..2)?).ok()).flatten();
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &more[2..];
            }
            None => {
                bytes.push(if *first == b'+' { b' ' } else { *first });
                rest = more;
            }
        }
    }
    String::from_utf8(bytes).expect("names are UTF-8")
}

struct Request {
    method: String,
    target: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request {
    fn read(reader: &mut impl BufRead) -> std::io::Result<Option<Request>> {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let mut words = line.split_whitespace().map(str::to_owned);
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let mut request = Request { method, target, headers: Vec::new(), body: Vec::new() };
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            request.headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let length = request.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        request.body = vec![0; length];
        reader.read_exact(&mut request.body)?;
        Ok(Some(request))
    }

    fn header(&self, name: &str) -> Option<String> {
        self.headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.clone())
    }
}

struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    body: Arc<Vec<u8>>,
    part: std::ops::Range<usize>,
    /// Whether only half of the body is sent.
    cut: bool,
}

impl Answer {
    fn of(status: u16, text: &str) -> Answer {
        let body = Arc::new(text.as_bytes().to_vec());
        Answer { status, headers: Vec::new(), part: 0..body.len(), body, cut: false }
    }

    /// Sends the answer. Returns the bytes of the body, and whether the connection goes on.
    fn write(&self, out: &mut TcpStream, request: &Request, manners: &Manners) -> std::io::Result<(usize, bool)> {
        let mut head = format!("HTTP/1.1 {} Answer\r\n", self.status);
        self.headers.iter().for_each(|(name, value)| head.push_str(&format!("{name}: {value}\r\n")));
        match manners.lengths {
            true => head.push_str(&format!("content-length: {}\r\n\r\n", self.part.len())),
            false => head.push_str("connection: close\r\n\r\n"),
        }
        out.write_all(head.as_bytes())?;
        if request.method == "HEAD" {
            return Ok((0, manners.lengths));
        }
        let body = &self.body[self.part.clone()];
        let body = if self.cut { &body[..body.len() / 2] } else { body };
        for piece in body.chunks(1024) {
            if let Some(pause) = manners.pause {
                std::thread::sleep(pause);
            }
            out.write_all(piece)?;
        }
        Ok((body.len(), manners.lengths && !self.cut))
    }
}
