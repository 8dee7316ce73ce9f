//! The HTTP server. It runs on one thread, never blocks the pool, and limits what each client may use.

use super::exposition;
use super::health;
use super::publish::Source;
use crate::log::{Causes, not_accepted};
use crate::pool::now_ns;
use crate::text;
use anyhow::{Context, Result};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::io::Errno;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::{Semaphore, oneshot};
use tracing::warn;

/// Connections at a time. Further ones wait until one of these ends.
const CONNECTIONS_MAX: usize = 64;
/// Time limit for the header of a request, and for the pause between two requests.
const HEADER_TIMEOUT: Duration = Duration::from_secs(3);
/// Lifetime of a connection, whatever its client does: it may read slowly, or not at all.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest header of a request, all lines together, and number of these lines.
const HEADER_MAX_BYTES: usize = 16 << 10;
const HEADER_LINES_MAX: usize = 64;
/// Pause before the next attempt, where the system refuses to accept connections.
const ACCEPT_AGAIN: Duration = Duration::from_millis(200);

const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";
/// Content security policy of the page: style, script and the script's requests come from this server, and nothing
/// else may be loaded.
const PAGE_POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; \
                           base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A running HTTP server. Dropping it stops the server.
pub struct Server {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens at `address` and serves on a thread of its own.
    ///
    /// # Errors
    /// The address is in use, or does not belong to this machine.
    pub fn start(address: SocketAddr, source: Source) -> Result<Self> {
        let listener = listen(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let (stop, stopped) = oneshot::channel();
        let serve = move || {
            let visitor = Visitor { source, is_local: address.ip().is_loopback() };
            runtime.spawn(accept(listener, visitor));
            // The only event is that the sender is dropped. Connections in progress end with the runtime.
            let _ = runtime.block_on(stopped);
        };
        let thread = std::thread::Builder::new().name("metrics".to_owned()).spawn(serve)?;
        Ok(Self { address, stop: Some(stop), thread: Some(thread) })
    }

    /// Checks that a server could listen at `address`, and frees the address again.
    ///
    /// # Errors
    /// As for [`Self::start`].
    pub fn can_start(address: SocketAddr) -> Result<()> {
        listen(address).map(drop)
    }

    /// The address at which it listens, with the actual port where 0 was configured.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // The thread has printed its panic already, and the pool is not affected.
            let _ = thread.join();
        }
    }
}

fn listen(address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address)
        .with_context(|| format!("cannot serve metrics at {address}: set metrics.listen to a free address"))
}

async fn accept(listener: TcpListener, visitor: Visitor) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return warn!(cause = "metrics", "metrics are not served: {error}"),
    };
    let mut causes = Causes::default();
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        // Fails only where the semaphore is closed, which never happens.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(why) => {
                // Most often a lack of file descriptors, which become free again.
                let why = Errno::from_io_error(&why).unwrap_or(Errno::IO);
                causes.happened(now_ns(), &not_accepted("metrics", why));
                tokio::time::sleep(ACCEPT_AGAIN).await;
                continue;
            }
        };
        let visitor = visitor.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let visitor = visitor.clone();
                async move { Ok::<_, Infallible>(visitor.answer(&request).await) }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADER_TIMEOUT)
                .max_buf_size(HEADER_MAX_BYTES)
                // A client that has closed its sending side may still read the answer.
                .half_close(true)
                .max_headers(HEADER_LINES_MAX)
                .serve_connection(TokioIo::new(stream), service);
            // Errors of a client are answered or end its connection; they are not logged.
            let _ = tokio::time::timeout(CONNECTION_TIMEOUT, connection).await;
            drop(place);
        });
    }
}

/// The service for one connection.
#[derive(Clone)]
struct Visitor {
    source: Source,
    /// The server listens on loopback, so only this machine can connect.
    is_local: bool,
}

impl Visitor {
    async fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        if request.method() != Method::GET && request.method() != Method::HEAD {
            let mut refused =
                response(StatusCode::METHOD_NOT_ALLOWED, TEXT, "only GET and HEAD: nothing can be changed here\n");
            refused.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
            return refused;
        }
        let host = request.headers().get(header::HOST).map(|host| host.to_str().unwrap_or("?"));
        if self.is_local && !host.is_none_or(is_this_machine) {
            // Otherwise a web page from elsewhere could read this through a host name of its own that resolves to
            // this machine (DNS rebinding).
            return response(StatusCode::FORBIDDEN, TEXT, "ask by an address or as localhost, not by another name\n");
        }
        match request.uri().path() {
            "/" => page("text/html; charset=utf-8", include_str!("page/page.html")),
            "/page.css" => page("text/css; charset=utf-8", include_str!("page/page.css")),
            "/page.js" => page("text/javascript; charset=utf-8", include_str!("page/page.js")),
            "/metrics" => match self.source.status().await.map(|status| exposition::text(&status)) {
                Some(Ok(text)) => response(StatusCode::OK, exposition::CONTENT_TYPE, text),
                _ => silent(),
            },
            "/status.json" => match self.source.status().await {
                Some(status) => response(StatusCode::OK, JSON, text::documented((*status).clone()).to_string()),
                None => silent(),
            },
            "/healthz" => self.health().await,
            _ => response(StatusCode::NOT_FOUND, TEXT, "here are /, /metrics, /healthz and /status.json\n"),
        }
    }

    async fn health(&self) -> Response<Full<Bytes>> {
        if self.source.is_stopping() {
            return response(StatusCode::SERVICE_UNAVAILABLE, TEXT, "stopping\n");
        }
        match self.source.status().await.map(|status| health::trouble(&status)) {
            Some(None) => response(StatusCode::OK, TEXT, "ok\n"),
            Some(Some(trouble)) => {
                let line: String = trouble.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
                response(StatusCode::SERVICE_UNAVAILABLE, TEXT, line + "\n")
            }
            None => silent(),
        }
    }
}

/// Whether a `Host` header names this machine by address or as localhost, with or without a port.
fn is_this_machine(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.is_empty() => name,
        _ => host,
    };
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    let is_address = |text: &str| text.parse::<IpAddr>().is_ok();
    name.eq_ignore_ascii_case("localhost") || is_address(bare) || is_address(host)
}

fn silent() -> Response<Full<Bytes>> {
    response(StatusCode::SERVICE_UNAVAILABLE, TEXT, "the pool does not answer\n")
}

fn page(kind: &'static str, text: &'static str) -> Response<Full<Bytes>> {
    let mut response = response(StatusCode::OK, kind, text);
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(PAGE_POLICY));
    response
}

fn response(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    for (name, value) in headers {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_localhost_are_this_machine_and_no_other_name_is() {
        for host in ["localhost", "LocalHost:9650", "127.0.0.1", "127.0.0.1:9650", "[::1]:9650", "[::1]", "::1"] {
            assert!(is_this_machine(host), "{host}");
        }
        for host in
            ["", "example.org", "example.org:9650", "localhost.example.org", "127.0.0.1.nip.io:9650", ":80", "?"]
        {
            assert!(!is_this_machine(host), "{host}");
        }
    }
}
