//! Connections of the control socket: bounded, never waited for.

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

/// Connections at a time; for further ones the one that has been silent longest gives way, where it has asked nothing and
/// is owed no answer.
const CLIENTS_MAX: usize = 16;
/// Time without a request after which a connection is closed, in nanoseconds.
const IDLE_MAX_NS: u64 = 60_000_000_000;
const READ_BYTES: usize = 64 << 10;

struct Client {
    id: u64,
    stream: UnixStream,
    input: Vec<u8>,
    output: Vec<u8>,
    /// A request was handed out and not answered yet.
    waiting: bool,
    heard_ns: u64,
    /// It has closed its writing side.
    asks_no_more: bool,
    over: bool,
}

/// The control sockets and who is connected to them.
pub struct Clients {
    /// The one of the start, and another one where the configuration has it elsewhere by now.
    sockets: Vec<ControlSocket>,
    clients: Vec<Client>,
    next_id: u64,
    /// Why nobody could be accepted since the last tick. No socket is watched until then: it would be ready without end.
    not_accepted: Option<Errno>,
}

impl Clients {
    /// Over the control socket of the start.
    pub fn new(socket: ControlSocket) -> Self {
        Self { sockets: vec![socket], clients: Vec::new(), next_id: 1, not_accepted: None }
    }

    /// Listens at `path` as well, where the configuration has the control socket by now: whoever asks looks for it there. The one of the start stays, for
    /// those who read the configuration before. Returns whether it is a new place.
    ///
    /// # Errors
    /// Why it cannot be listened there; then nothing has changed.
    pub fn follow(&mut self, path: &Path, access: &SocketAccess) -> Result<bool> {
        if self.sockets.iter().any(|socket| socket.is_at(path)) {
            return Ok(false);
        }
        let socket = ControlSocket::open(path, access)?;
        self.sockets.truncate(1);
        self.sockets.push(socket);
        Ok(true)
    }

    /// Where the control socket of the start is.
    pub fn first_path(&self) -> Option<&Path> {
        self.sockets.first().map(ControlSocket::path)
    }

    /// What to watch.
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

    /// A descriptor is ready; request lines that are complete are appended with the client's number.
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
        // One too many is taken, and no more: the newcomers themselves give way.
        let count = self.clients.len();
        count < CLIENTS_MAX || count == CLIENTS_MAX && self.clients.iter().any(Client::gives_way)
    }

    /// Accepts who waits at one of the sockets.
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

    /// Closes the connection that has been silent longest, where there is no room for one more. Those that came a moment
    /// ago may have asked meanwhile: each is heard before it goes. Where all turn out to have asked there is one too many.
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

    /// Sends an answer; nothing happens where the client has gone. What it asked for meanwhile goes to `requests`.
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

    /// Closes connections that have been silent for too long. Returns why nobody could be accepted since the last tick, where that
    /// is so; it is tried again from now on.
    pub fn tick(&mut self, now_ns: u64) -> Option<Errno> {
        self.clients.retain(|client| client.waiting || now_ns.saturating_sub(client.heard_ns) < IDLE_MAX_NS);
        self.not_accepted.take()
    }
}

/// Whether the other end is closed, and not its writing side alone.
fn has_gone(stream: &UnixStream) -> bool {
    let mut polled = [PollFd::new(stream, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut polled, Some(&now)).is_ok() && polled[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
}

impl Client {
    /// Silent, and owed nothing: it has asked nothing, or was answered.
    fn gives_way(&self) -> bool {
        !self.waiting && self.output.is_empty()
    }

    /// Nothing is left to be done for it.
    fn is_over(&self) -> bool {
        self.over || self.asks_no_more && !self.waiting && self.output.is_empty()
    }

    fn receive(&mut self) {
        let mut bytes = vec![0; READ_BYTES];
        loop {
            match self.stream.read(&mut bytes) {
                // It may still read.
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
        // The next is looked at when the answer has gone.
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

    /// The descriptor of the newest socket.
    fn door(clients: &Clients) -> i32 {
        clients.sockets.last().unwrap().listener().as_raw_fd()
    }

    /// Where a reload changed the first address of an export, and no `server.control` was set, verbs looked beside the new address, and found no server.
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
        // The one of the start stays, the one between goes; where it cannot follow all stays as it is.
        assert!(clients.follow(&third, &access).unwrap());
        assert!(first.exists() && !second.exists() && third.exists());
        std::fs::write(&second, "a file").unwrap();
        assert!(clients.follow(&second, &access).is_err());
        assert!(first.exists() && third.exists());
        assert!(!clients.follow(&first, &access).unwrap(), "it was there all the time");
        drop(clients);
        assert!(!first.exists() && !third.exists());
    }

    /// Sixteen connections that asked nothing kept everybody else out for a minute.
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
        // The first has asked and waits.
        streams[0].write_all(b"{}\n").unwrap();
        let first = clients.clients[0].stream.as_raw_fd();
        clients.ready(first, 100, &mut asked);
        assert_eq!(asked, [(1, b"{}".to_vec())]);
        // The second has asked, too, and nobody has looked at it yet.
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

    /// Sixteen of them gave way each second, so that the one that asked waited for its turn: behind a hundred six seconds.
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

    /// Each newcomer gives way to the next until it is heard: as many were kept as had asked, without a limit.
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

    /// A request whose sender closed his writing side, as `nc -N` does, was dropped with the connection, and of two that came at once the second was
    /// not looked at.
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
        // Who has gone is owed nothing.
        let mut stream = UnixStream::connect(&path).unwrap();
        clients.ready(door(&clients), 2, &mut asked);
        stream.write_all(b"3\n").unwrap();
        clients.ready(clients.clients[0].stream.as_raw_fd(), 2, &mut asked);
        drop(stream);
        clients.ready(clients.clients[0].stream.as_raw_fd(), 3, &mut asked);
        assert!(clients.clients.is_empty());
    }
}
