//! The part of an S3 store that a bucket under a pool needs, in memory: objects, conditional writes, ranges, lists; with faults.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

#[derive(Default)]
struct Shared {
    objects: Mutex<BTreeMap<String, Vec<u8>>>,
    is_down: AtomicBool,
    /// Every n-th request is lost; every second of the lost ones after it was carried out. 0: none.
    lost_every: AtomicU64,
    requests: AtomicU64,
}

/// The store; its thread ends with the process.
pub struct Store {
    shared: Arc<Shared>,
    pub endpoint: String,
}

struct Request {
    method: String,
    path: String,
    query: String,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

struct Response {
    status: &'static str,
    headers: String,
    body: Vec<u8>,
}

impl Store {
    pub fn start() -> Self {
        let shared = Arc::<Shared>::default();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let for_thread = shared.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let shared = for_thread.clone();
                std::thread::spawn(move || serve(&shared, stream));
            }
        });
        Self { shared, endpoint }
    }

    pub fn set_down(&self, is_down: bool) {
        self.shared.is_down.store(is_down, Ordering::SeqCst);
    }

    pub fn lose_every(&self, every: u64) {
        self.shared.lost_every.store(every, Ordering::SeqCst);
    }

    /// Number of requests so far.
    pub fn requests(&self) -> u64 {
        self.shared.requests.load(Ordering::SeqCst)
    }

    /// Names of all objects, each with its bucket.
    pub fn names(&self) -> Vec<String> {
        self.shared.objects.lock().unwrap().keys().cloned().collect()
    }

    pub fn put(&self, name: &str, content: &[u8]) {
        self.shared.objects.lock().unwrap().insert(name.to_owned(), content.to_vec());
    }

    pub fn remove(&self, name: &str) {
        self.shared.objects.lock().unwrap().remove(name);
    }
}

fn serve(shared: &Shared, stream: TcpStream) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    while let Some(request) = read_request(&mut reader) {
        let number = shared.requests.fetch_add(1, Ordering::SeqCst) + 1;
        let every = shared.lost_every.load(Ordering::SeqCst);
        let is_lost = every > 0 && number.is_multiple_of(every);
        // A killed server leaves a closed connection.
        if shared.is_down.load(Ordering::SeqCst) || (is_lost && number.is_multiple_of(2 * every)) {
            return;
        }
        let Response { status, headers, body } = answer(shared, &request);
        if is_lost {
            return;
        }
        // The response to a HEAD gives the length of a body that it does not send.
        let head = format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n", body.len());
        let body = if request.method == "HEAD" { Vec::new() } else { body };
        if stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body)).is_err() {
            return;
        }
    }
}

fn read_request(reader: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|bytes| *bytes > 0)?;
    let mut words = line.split_whitespace();
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|bytes| *bytes > 0)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let mut body = vec![0; headers.get("content-length").and_then(|len| len.parse().ok()).unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    Some(Request { method, path: path.trim_start_matches('/').to_owned(), query: query.to_owned(), headers, body })
}

fn plain(status: &'static str, body: String) -> Response {
    Response { status, headers: "content-type: application/xml\r\n".to_owned(), body: body.into_bytes() }
}

fn refused(status: &'static str, code: &str) -> Response {
    plain(status, format!("<Error><Code>{code}</Code><Message>no</Message></Error>"))
}

fn answer(shared: &Shared, request: &Request) -> Response {
    const MADE: &str = "etag: \"1\"\r\nlast-modified: Thu, 26 Nov 2026 00:00:00 GMT\r\n";
    let mut objects = shared.objects.lock().unwrap();
    if !request.headers.get("authorization").is_some_and(|value| value.contains("Credential=an-id/")) {
        return refused("403 Forbidden", "InvalidAccessKeyId");
    }
    match request.method.as_str() {
        "PUT" if request.headers.contains_key("if-none-match") && objects.contains_key(&request.path) => {
            refused("412 Precondition Failed", "PreconditionFailed")
        }
        "PUT" => {
            objects.insert(request.path.clone(), request.body.clone());
            Response { status: "200 OK", headers: MADE.to_owned(), body: Vec::new() }
        }
        "DELETE" => {
            objects.remove(&request.path);
            plain("204 No Content", String::new())
        }
        "GET" if request.query.contains("list-type=2") => {
            let of_query = |name: &str| {
                let values = request.query.split('&').filter_map(|pair| pair.split_once('='));
                values.filter(|(key, _)| *key == name).map(|(_, value)| value.replace("%2F", "/")).next()
            };
            let bucket = request.path.trim_end_matches('/');
            let prefix = format!("{bucket}/{}", of_query("prefix").unwrap_or_default());
            let mut listed = String::new();
            for (name, content) in objects.iter().filter(|(name, _)| name.starts_with(&prefix)) {
                let key = &name[bucket.len() + 1..];
                listed.push_str(&format!(
                    "<Contents><Key>{key}</Key><Size>{}</Size><LastModified>2026-11-26T00:00:00.000Z</LastModified>\
                     <ETag>\"1\"</ETag></Contents>",
                    content.len()
                ));
            }
            plain("200 OK", format!("<ListBucketResult><IsTruncated>false</IsTruncated>{listed}</ListBucketResult>"))
        }
        _ => {
            let Some(content) = objects.get(&request.path) else { return refused("404 Not Found", "NoSuchKey") };
            let range = request.headers.get("range").and_then(|range| range.strip_prefix("bytes=")?.split_once('-'));
            let Some((from, to)) = range else {
                return Response { status: "200 OK", headers: MADE.to_owned(), body: content.clone() };
            };
            let (from, to): (usize, usize) = (from.parse().unwrap(), to.parse().unwrap());
            let (to, len) = (to.min(content.len() - 1), content.len());
            Response {
                status: "206 Partial Content",
                headers: format!("{MADE}content-range: bytes {from}-{to}/{len}\r\n"),
                body: content[from..=to].to_vec(),
            }
        }
    }
}
