//! Connections of the control socket. Their number is limited, and the event loop never waits for them.

use super::access::SocketAccess;
use super::listen::ControlSocket;
use crate::control::REQUEST_MAX_BYTES;
use anyhow::Result;
use forebay_export::server::Interest;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Connections at a time. A further one replaces the connection that has been silent longest, where that has no
/// request waiting and no answer to receive.
const CLIENTS_MAX: usize = 16;
/// Silence after which a connection without a waiting request is closed, in nanoseconds.
const IDLE_MAX_NS: u64 = 60_000_000_000;
const READ_BYTES: usize = 64 << 10;

struct Client {
    id: u64,
    stream: UnixStream,
    input: Vec<u8>,
    output: Vec<u8>,
    /// A request of this client was passed on and is not answered yet.
    waiting: bool,
    heard_ns: u64,
    /// The client has closed its writing side.
    asks_no_more: bool,
    over: bool,
}

/// The control sockets and their connections.
pub struct Clients {
    /// The socket of the start, and a second one where the configuration has moved it since.
    sockets: Vec<ControlSocket>,
    clients: Vec<Client>,
    next_id: u64,
    /// The error of accepting since the last tick. Until the next tick no listener is watched: it would stay
    /// readable, and the event loop would spin.
    not_accepted: Option<Errno>,
}

impl Clients {
    /// Serves the control socket of the start.
    pub fn new(socket: ControlSocket) -> Self {
        Self { sockets: vec![socket], clients: Vec::new(), next_id: 1, not_accepted: None }
    }

    /// Listens at `path`, too, after the configuration has moved the control socket: clients derive the path from the
    /// configuration. The socket of the start stays for clients that read the configuration before. Returns whether
    /// `path` is new.
    ///
    /// # Errors
    /// The server cannot listen there. Nothing has changed then.
    pub fn follow(&mut self, path: &Path, access: &SocketAccess) -> Result<bool> {
        if self.sockets.iter().any(|socket| socket.is_at(path)) {
            return Ok(false);
        }
        let socket = ControlSocket::open(path, access)?;
        self.sockets.truncate(1);
        self.sockets.push(socket);
        Ok(true)
    }

    /// Path of the control socket of the start.
    pub fn first_path(&self) -> Option<&Path> {
        self.sockets.first().map(ControlSocket::path)
    }

    /// Adds the descriptors to watch.
    pub fn watch(&self, fds: &mut Vec<Interest>) {
        if self.has_room() && self.not_accepted.is_none() {
            let listeners = self.sockets.iter().map(|socket| socket.listener().as_raw_fd());
            fds.extend(listeners.map(|fd| Interest { fd, read: true, write: false }));
        }
        fds.extend(self.clients.iter().map(|client| Interest {
            fd: client.stream.as_raw_fd(),
            read: !client.waiting && client.output.is_empty(),
            write: !client.output.is_empty(),
        }));
    }

    /// Serves a ready descriptor. Complete request lines are appended to `requests` with the number of their client.
    pub fn ready(&mut self, fd: i32, now_ns: u64, requests: &mut Vec<(u64, Vec<u8>)>) {
        if let Some(at) = self.sockets.iter().position(|socket| socket.listener().as_raw_fd() == fd) {
            self.accept(at, now_ns, requests);
        } else if let Some(client) = self.clients.iter_mut().find(|client| client.stream.as_raw_fd() == fd) {
            client.heard_ns = now_ns;
            client.send();
            if client.output.is_empty() {
                client.receive();
                client.next_request(requests);
            }
        }
        self.clients.retain(|client| !client.is_over());
    }

    fn has_room(&self) -> bool {
        // One connection above the limit is accepted where a silent one can give way to it; the newcomer itself may
        // be that one.
        let count = self.clients.len();
        count < CLIENTS_MAX || count == CLIENTS_MAX && self.clients.iter().any(Client::gives_way)
    }

    /// Accepts all connections that wait at one of the sockets.
    fn accept(&mut self, at: usize, now_ns: u64, requests: &mut Vec<(u64, Vec<u8>)>) {
        while self.has_room() {
            let stream = match self.sockets[at].listener().accept() {
                Ok((stream, _)) => stream,
                Err(why) => {
                    let is_nobody_there = matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionAborted);
                    self.not_accepted = Errno::from_io_error(&why).filter(|_| !is_nobody_there);
                    return;
                }
            };
            self.make_room(requests);
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            self.clients.push(Client {
                id: self.next_id,
                stream,
                input: Vec::new(),
                output: Vec::new(),
                waiting: false,
                heard_ns: now_ns,
                asks_no_more: false,
                over: false,
            });
            self.next_id += 1;
        }
    }

    /// Closes the connection that has been silent longest until there is room for one more. A connection that came a
    /// moment ago may have sent a request meanwhile, so each is read before it is closed. Where all of them have a
    /// request, there is one connection above the limit.
    fn make_room(&mut self, requests: &mut Vec<(u64, Vec<u8>)>) {
        while self.clients.len() >= CLIENTS_MAX {
            let silent = self.clients.iter_mut().filter(|client| client.gives_way());
            let Some(client) = silent.min_by_key(|client| (client.heard_ns, client.id)) else {
                return;
            };
            client.receive();
            client.next_request(requests);
            client.over |= client.gives_way();
            self.clients.retain(|client| !client.is_over());
        }
    }

    /// Sends an answer; does nothing where the client has gone. The client's next request, where it has arrived, is
    /// appended to `requests`.
    pub fn answer(&mut self, id: u64, answer: &serde_json::Value, requests: &mut Vec<(u64, Vec<u8>)>) {
        if let Some(client) = self.clients.iter_mut().find(|client| client.id == id) {
            client.waiting = false;
            client.output.extend_from_slice(answer.to_string().as_bytes());
            client.output.push(b'\n');
            client.send();
            client.next_request(requests);
        }
        self.clients.retain(|client| !client.is_over());
    }

    /// Closes connections that have been silent too long. Returns the error of accepting since the last tick, and
    /// allows accepting again.
    pub fn tick(&mut self, now_ns: u64) -> Option<Errno> {
        self.clients.retain(|client| client.waiting || now_ns.saturating_sub(client.heard_ns) < IDLE_MAX_NS);
        self.not_accepted.take()
    }
}

/// Whether the other end has closed the connection as a whole, not just its writing side.
fn has_gone(stream: &UnixStream) -> bool {
    let mut polled = [PollFd::new(stream, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut polled, Some(&now)).is_ok() && polled[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
}

impl Client {
    /// Whether the connection may be closed for another one: it has no request waiting and no answer to receive.
    fn gives_way(&self) -> bool {
        !self.waiting && self.output.is_empty()
    }

    /// Whether the connection can be dropped.
    fn is_over(&self) -> bool {
        self.over || self.asks_no_more && !self.waiting && self.output.is_empty()
    }

    fn receive(&mut self) {
        let mut bytes = vec![0; READ_BYTES];
        loop {
            match self.stream.read(&mut bytes) {
                // Only its writing side may be closed: it may still read the answer.
                Ok(0) => {
                    self.asks_no_more = true;
                    self.over = has_gone(&self.stream);
                    return;
                }
                Ok(count) => self.input.extend_from_slice(&bytes[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    self.over = error.kind() != ErrorKind::WouldBlock;
                    return;
                }
            }
            if self.input.len() > REQUEST_MAX_BYTES {
                self.over = true;
                return;
            }
        }
    }

    fn next_request(&mut self, requests: &mut Vec<(u64, Vec<u8>)>) {
        // The next request is taken only when the answer to the last one has been sent.
        if self.waiting || self.over || !self.output.is_empty() {
            return;
        }
        if let Some(end) = self.input.iter().position(|&byte| byte == b'\n') {
            let mut line: Vec<u8> = self.input.drain(..=end).collect();
            line.pop();
            self.waiting = true;
            requests.push((self.id, line));
        }
    }

    fn send(&mut self) {
        while !self.output.is_empty() {
            match self.stream.write(&self.output) {
                Ok(count) => {
                    self.output.drain(..count);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    self.over |= error.kind() != ErrorKind::WouldBlock;
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(path: &Path) -> Clients {
        Clients::new(ControlSocket::open(path, &SocketAccess::default()).unwrap())
    }

    /// Descriptor of the newest listener.
    fn door(clients: &Clients) -> i32 {
        clients.sockets.last().unwrap().listener().as_raw_fd()
    }

    /// Regression: without `server.control`, a reload that changed the first address of an export moved the derived
    /// path, and verbs found no server there.
    #[test]
    fn regression_the_control_socket_follows_the_configuration() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let (first, second, third) = (path("first.control"), path("second.control"), path("third.control"));
        let access = SocketAccess::default();
        let mut clients = at(&first);
        assert!(!clients.follow(&first, &access).unwrap(), "it is there");
        assert!(clients.follow(&second, &access).unwrap());
        let mut asked = Vec::new();
        for path in [&first, &second] {
            let mut stream = UnixStream::connect(path).unwrap();
            stream.write_all(b"1\n").unwrap();
            let mut fds = Vec::new();
            clients.watch(&mut fds);
            let fds: Vec<i32> = fds.iter().map(|interest| interest.fd).collect();
            fds.into_iter().for_each(|fd| clients.ready(fd, 0, &mut asked));
            let fd = clients.clients.last().unwrap().stream.as_raw_fd();
            clients.ready(fd, 0, &mut asked);
        }
        assert_eq!(asked.len(), 2);
        // The socket of the start stays, an intermediate one goes. Where a new one cannot be opened, nothing changes.
        assert!(clients.follow(&third, &access).unwrap());
        assert!(first.exists() && !second.exists() && third.exists());
        std::fs::write(&second, "a file").unwrap();
        assert!(clients.follow(&second, &access).is_err());
        assert!(first.exists() && third.exists());
        assert!(!clients.follow(&first, &access).unwrap(), "it was there all the time");
        drop(clients);
        assert!(!first.exists() && !third.exists());
    }

    /// Sixteen silent connections once kept everybody else out for a minute.
    #[test]
    fn silent_connections_give_way_and_those_that_wait_for_answers_do_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control");
        let mut clients = at(&path);
        let fd = door(&clients);
        let mut asked = Vec::new();
        let mut streams = Vec::new();
        for now_ns in 0..CLIENTS_MAX as u64 {
            streams.push(UnixStream::connect(&path).unwrap());
            clients.ready(fd, now_ns, &mut asked);
        }
        // The first client has sent a request and waits.
        streams[0].write_all(b"{}\n").unwrap();
        let first = clients.clients[0].stream.as_raw_fd();
        clients.ready(first, 100, &mut asked);
        assert_eq!(asked, [(1, b"{}".to_vec())]);
        // The second client has sent a request, too, which was not read yet.
        streams[1].write_all(b"2\n").unwrap();
        let mut last = UnixStream::connect(&path).unwrap();
        clients.ready(fd, 101, &mut asked);
        assert_eq!(asked.last().unwrap(), &(2, b"2".to_vec()));
        let ids: Vec<u64> = clients.clients.iter().map(|client| client.id).collect();
        assert_eq!((ids.len(), ids[0], ids[1], ids[2], ids[15]), (CLIENTS_MAX, 1, 2, 4, 17));
        last.write_all(b"1\n").unwrap();
        let last = clients.clients[15].stream.as_raw_fd();
        clients.ready(last, 102, &mut asked);
        assert_eq!(asked.last().unwrap(), &(17, b"1".to_vec()));
    }

    /// Regression: sixteen connections gave way per second, so that a request behind a hundred silent ones waited six
    /// seconds.
    #[test]
    fn regression_a_hundred_silent_connections_keep_nobody_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control");
        let mut clients = at(&path);
        let mut asked = Vec::new();
        let _silent: Vec<UnixStream> = (0..100).map(|_| UnixStream::connect(&path).unwrap()).collect();
        let mut one = UnixStream::connect(&path).unwrap();
        one.write_all(b"1\n").unwrap();
        clients.ready(door(&clients), 0, &mut asked);
        let client = clients.clients.last().unwrap();
        assert_eq!(client.id, 101);
        clients.ready(client.stream.as_raw_fd(), 0, &mut asked);
        assert_eq!(asked, [(101, b"1".to_vec())]);
    }

    /// Regression: a newcomer gives way to the next until its request is read, so that all connections with a request
    /// were kept without a limit.
    #[test]
    fn regression_newcomers_that_have_all_asked_are_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control");
        let mut clients = at(&path);
        let mut asked = Vec::new();
        let connect = |_| {
            let mut stream = UnixStream::connect(&path).unwrap();
            stream.write_all(b"1\n").unwrap();
            stream
        };
        let _all: Vec<UnixStream> = (0..50).map(connect).collect();
        clients.ready(door(&clients), 0, &mut asked);
        assert_eq!(clients.clients.len(), CLIENTS_MAX + 1);
    }

    /// Regression: a request was dropped with its connection where the client closed its writing side after it, as
    /// `nc -N` does. Of two requests that came at once the second was ignored.
    #[test]
    fn regression_requests_before_an_end_and_at_once_are_answered() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control");
        let mut clients = at(&path);
        let (fd, mut asked) = (door(&clients), Vec::new());
        let mut stream = UnixStream::connect(&path).unwrap();
        clients.ready(fd, 0, &mut asked);
        stream.write_all(b"1\n2\n").unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let fd = clients.clients[0].stream.as_raw_fd();
        clients.ready(fd, 1, &mut asked);
        assert_eq!(asked, [(1, b"1".to_vec())]);
        clients.answer(1, &serde_json::Value::from("one"), &mut asked);
        assert_eq!(asked.last().unwrap(), &(1, b"2".to_vec()));
        clients.answer(1, &serde_json::Value::from("two"), &mut asked);
        assert!(asked.len() == 2 && clients.clients.is_empty());
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert_eq!(text, "\"one\"\n\"two\"\n");
        // A client that has gone gets no answer.
        let mut stream = UnixStream::connect(&path).unwrap();
        clients.ready(door(&clients), 2, &mut asked);
        stream.write_all(b"3\n").unwrap();
        clients.ready(clients.clients[0].stream.as_raw_fd(), 2, &mut asked);
        drop(stream);
        clients.ready(clients.clients[0].stream.as_raw_fd(), 3, &mut asked);
        assert!(clients.clients.is_empty());
    }
}
