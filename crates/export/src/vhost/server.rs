//! The export's thread: a socket that admits one client at a time, and the loop that serves this client.

use super::VhostError;
use super::client::{Device, IN_FLIGHT_MAX, wait};
use super::watchdog::Watchdog;
use crate::frontend::{Door, open_door};
use crate::server::{Listen, Listener, Peer, peer};
use forebay_block::lock;
use rustix::event::{PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{self, RecvFlags, SocketFlags};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use vhost::vhost_user::{BackendReqHandler, Error as ProtocolError};

/// How long a client may take to send the rest of a message, or to read an answer.
const MESSAGE_LIMIT: Duration = Duration::from_secs(1);
/// The same limit, as a timeout for poll(2).
const ANSWER_LIMIT: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
/// Length of a message's header.
const HEADER_BYTES: usize = 12;
/// Most events that `take_events` has not yet returned; further ones are dropped.
const EVENTS_MAX: usize = 64;
/// How long the threads of all devices may take to end.
const END_LIMIT: Duration = Duration::from_secs(5);
/// Pause after the system failed to accept a client.
const PAUSE: Duration = Duration::from_secs(1);
/// Pause after a client was sent away and before the next one is accepted, which would most often be the same client.
const SENT_AWAY_PAUSE: Duration = Duration::from_secs(1);

/// The device that a caller wants to open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Path of the socket.
    pub path: PathBuf,
    /// Name of the export, whose first 20 bytes guests see as the device's serial number.
    pub name: String,
    /// Size of the export.
    pub size_bytes: u64,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Whether only this user may connect to the socket, until the owner sets another mode.
    pub private: bool,
}

/// An event about a device's clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VhostEvent {
    /// A client was accepted.
    Opened(Peer),
    /// The client's connection ended; with a reason if the server sent it away.
    Closed(Peer, Option<String>),
    /// Another client connected while one was served, and was refused.
    Refused(Peer),
    /// A client waits to be accepted, but the system refuses, for example because no descriptors are left. The server
    /// tries again each second.
    NotAccepted(Errno),
}

#[derive(Clone, Debug, Default)]
struct Events(Arc<Mutex<VecDeque<VhostEvent>>>);

impl Events {
    fn locked(&self) -> MutexGuard<'_, VecDeque<VhostEvent>> {
        lock(&self.0)
    }

    fn push(&self, event: VhostEvent) {
        let mut events = self.locked();
        if events.len() < EVENTS_MAX {
            events.push_back(event);
        }
    }
}

/// A device being served, for its owner. The server's side of it is the door.
#[derive(Debug)]
pub struct Vhost {
    events: Events,
    watchdog: Watchdog,
    thread: JoinHandle<()>,
}

impl Vhost {
    /// Listens on the socket, and starts to serve once the door is attached.
    ///
    /// # Errors
    /// The socket is in use, or the system refuses.
    pub fn open(wanted: &Wanted) -> Result<(Self, Door), VhostError> {
        let listener = Listener::open(&Listen::Unix(wanted.path.clone()), false, wanted.private)?;
        let (door, side) = open_door(IN_FLIGHT_MAX)?;
        let device = Device::new(side, &wanted.name, wanted.size_bytes, wanted.read_only);
        let (events, watchdog) = (Events::default(), device.watchdog.clone());
        let server = Server::new(Some(listener), device, events.clone());
        let thread = std::thread::Builder::new()
            .name("vhost".to_owned())
            .spawn(move || server.run())
            .map_err(|source| VhostError::Thread { source: Errno::from_io_error(&source).unwrap_or(Errno::AGAIN) })?;
        Ok((Self { events, watchdog, thread }, door))
    }

    /// Returns the events since the last call, oldest first. The owner should call this each second, since it also
    /// runs the watchdog, which sends away a client that keeps its thread waiting.
    #[must_use]
    pub fn take_events(&self) -> Vec<VhostEvent> {
        self.watchdog.look();
        self.events.locked().drain(..).collect()
    }

    /// Waits until the thread has ended, for which the door must have been dropped. Returns whether it ended within 5
    /// s of `since`: several devices share one time limit.
    #[must_use]
    pub fn has_ended(&self, since: Instant) -> bool {
        while !self.thread.is_finished() {
            if since.elapsed() > END_LIMIT {
                return false;
            }
            self.watchdog.look();
            std::thread::sleep(Duration::from_millis(1));
        }
        true
    }
}

/// Why the server stops serving a client.
enum End {
    /// The client closed the connection.
    Gone,
    /// The server sends the client away, for this reason.
    Refused(String),
    /// The server stops.
    Stopping,
}

impl From<Errno> for End {
    fn from(why: Errno) -> Self {
        Self::Refused(why.to_string())
    }
}

struct Server {
    /// `None` once the server stops.
    listener: RefCell<Option<Listener>>,
    /// No client is accepted before this instant, because the system refused to accept one.
    paused_until: Cell<Option<Instant>>,
    device: Arc<Mutex<Device>>,
    events: Events,
}

impl Server {
    fn new(listener: Option<Listener>, device: Device, events: Events) -> Self {
        Self {
            listener: RefCell::new(listener),
            paused_until: Cell::new(None),
            device: Arc::new(Mutex::new(device)),
            events,
        }
    }

    fn device(&self) -> MutexGuard<'_, Device> {
        // The thread has it for itself; the crate that reads messages wants it shared.
        lock(&self.device)
    }

    fn run(self) {
        let mut not_before = Instant::now();
        while let Some(stream) = self.next_client(not_before) {
            let who = peer_of(&stream);
            self.device().side().set_peer(Some(who));
            self.events.push(VhostEvent::Opened(who));
            let end = self.serve(stream);
            let mut device = self.device();
            device.forget_client();
            // Requests in flight must not complete during the next client's connection.
            let _ = device.drain(None);
            device.side().set_peer(None);
            drop(device);
            if let End::Refused(_) = end {
                not_before = Instant::now() + SENT_AWAY_PAUSE;
            }
            self.events.push(match end {
                End::Gone | End::Stopping => VhostEvent::Closed(who, None),
                End::Refused(why) => VhostEvent::Closed(who, Some(why)),
            });
        }
    }

    /// Waits for a client, and accepts it no earlier than `not_before`; `None` if the server has gone.
    fn next_client(&self, not_before: Instant) -> Option<UnixStream> {
        loop {
            let mut device = self.device();
            // Without a client no ring is set up, so that no ring can be broken.
            let _ = device.turn();
            if device.side().is_closed() {
                return None;
            }
            if device.is_stopping() {
                self.stop_listening();
            }
            let pause = not_before.saturating_duration_since(Instant::now()).max(self.pause());
            let limit = Timespec::try_from(pause).ok().filter(|_| !pause.is_zero());
            let mut fds = vec![(device.side().fd(), PollFlags::IN)];
            fds.extend(self.listener_fd().filter(|_| limit.is_none()).map(|fd| (fd, PollFlags::IN)));
            let ready = if device.side().may_sleep() { wait(&fds, limit.as_ref()) } else { Ok(Vec::new()) };
            device.side().awake();
            drop(device);
            if ready.is_ok_and(|ready| ready.get(1).is_some_and(|ready| !ready.is_empty()))
                && let Some(stream) = self.accept()
            {
                return Some(stream);
            }
        }
    }

    /// How much longer no client is accepted.
    fn pause(&self) -> Duration {
        self.paused_until.get().map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()))
    }

    fn listener_fd(&self) -> Option<RawFd> {
        self.listener.borrow().as_ref().map(|listener| listener.socket.as_raw_fd())
    }

    /// Closes the socket: machines that connect from now on fail and try again, rather than wait for an answer.
    fn stop_listening(&self) {
        drop(self.listener.take());
    }

    fn accept(&self) -> Option<UnixStream> {
        let listener = self.listener.borrow();
        match net::accept_with(&listener.as_ref()?.socket, SocketFlags::CLOEXEC) {
            Ok(socket) => Some(UnixStream::from(socket)),
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => None,
            Err(why) => {
                // For example no descriptors are left: the server tries again, but not at once. The client being
                // served does not wait for this.
                self.events.push(VhostEvent::NotAccepted(why));
                self.paused_until.set(Some(Instant::now() + PAUSE));
                None
            }
        }
    }

    fn serve(&self, stream: UnixStream) -> End {
        let limits = [stream.set_read_timeout(Some(MESSAGE_LIMIT)), stream.set_write_timeout(Some(MESSAGE_LIMIT))];
        if let Some(why) = limits.into_iter().find_map(Result::err) {
            return End::Refused(why.to_string());
        }
        let (Ok(looked_at), Ok(watched)) = (stream.try_clone(), stream.try_clone()) else {
            return End::Refused("no descriptors left".to_owned());
        };
        let watchdog = self.device().watchdog.clone();
        watchdog.watch(Some(watched));
        let mut messages = BackendReqHandler::from_stream(stream, Arc::clone(&self.device));
        let end = loop {
            match self.step(&looked_at, &mut messages) {
                Ok(()) => {}
                Err(end) => break end,
            }
        };
        watchdog.watch(None);
        end
    }

    /// Performs the work that is ready, and waits if there was none.
    fn step(&self, stream: &UnixStream, messages: &mut BackendReqHandler<Mutex<Device>>) -> Result<(), End> {
        let mut device = self.device();
        let has_moved = device.turn().map_err(|why| End::Refused(why.to_string()))?;
        if device.is_stopping() {
            self.stop_listening();
            if device.side().in_flight() == 0 || device.side().is_closed() {
                return Err(End::Stopping);
            }
        }
        let mut fds = vec![(device.side().fd(), PollFlags::IN), (stream.as_raw_fd(), PollFlags::IN)];
        let kicks: Vec<usize> =
            (0..device.rings.len()).filter(|&index| device.rings[index].kick_fd().is_some()).collect();
        fds.extend(kicks.iter().filter_map(|&index| Some((device.rings[index].kick_fd()?, PollFlags::IN))));
        let pause = self.pause();
        fds.extend(self.listener_fd().filter(|_| pause.is_zero()).map(|fd| (fd, PollFlags::IN)));
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let is_quiet = !has_moved && device.side().may_sleep();
        let again = Timespec::try_from(pause).ok().filter(|_| !pause.is_zero());
        let ready = wait(&fds, if is_quiet { again.as_ref() } else { Some(&now) });
        device.side().awake();
        let ready = ready?;
        for (&index, flags) in kicks.iter().zip(&ready[2..]) {
            if flags.contains(PollFlags::IN) {
                device.rings[index].kicked().map_err(|why| End::Refused(why.to_string()))?;
            } else if !flags.is_empty() {
                return Err(End::Refused("its kick is no event that works".to_owned()));
            }
        }
        let watchdog = device.watchdog.clone();
        drop(device);
        if !ready[1].is_empty() {
            self.answer_message(stream, messages, &watchdog)?;
        }
        if ready.get(2 + kicks.len()).is_some_and(|ready| !ready.is_empty())
            && let Some(other) = self.accept()
        {
            self.events.push(VhostEvent::Refused(peer_of(&other)));
        }
        Ok(())
    }

    fn answer_message(
        &self,
        stream: &UnixStream,
        messages: &mut BackendReqHandler<Mutex<Device>>,
        watchdog: &Watchdog,
    ) -> Result<(), End> {
        if !is_message(stream)? {
            return Err(End::Gone);
        }
        // A writable socket has room for some 100 KiB; no answer has more than a few.
        let begun = Instant::now();
        // A signal may have ended the wait: it is repeated.
        while !wait(&[(stream.as_raw_fd(), PollFlags::OUT)], Some(&ANSWER_LIMIT))?[0].contains(PollFlags::OUT) {
            if begun.elapsed() >= MESSAGE_LIMIT {
                return Err(End::Refused("it takes no answers".to_owned()));
            }
        }
        watchdog.begin();
        let handled = messages.handle_request();
        if watchdog.end() {
            return Err(End::Refused(
                "one of its messages, or what came with it, could not be taken in time".to_owned(),
            ));
        }
        handled.map_err(|why| match why {
            ProtocolError::Disconnected => End::Gone,
            why => End::Refused(reason(&why)),
        })
    }
}

/// Whether a message has arrived; `false` if the client has gone. Half a header is an error, since the crate would
/// wait for the rest without end.
fn is_message(stream: &UnixStream) -> Result<bool, End> {
    let mut header = [0; HEADER_BYTES];
    match net::recv(stream, &mut header, RecvFlags::PEEK | RecvFlags::DONTWAIT) {
        Ok((_, HEADER_BYTES)) => Ok(true),
        Ok((_, 0)) | Err(Errno::CONNRESET) => Ok(false),
        Ok(_) => Err(End::Refused("half a message".to_owned())),
        Err(why) => Err(why.into()),
    }
}

fn reason(why: &ProtocolError) -> String {
    match why {
        ProtocolError::ReqHandlerError(why) => why.to_string(),
        why => why.to_string(),
    }
}

fn peer_of(stream: &UnixStream) -> Peer {
    stream.try_clone().map_or(Peer::Unknown, |stream| peer(&stream.into()))
}

#[cfg(test)]
mod tests;
