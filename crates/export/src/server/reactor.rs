//! The event loop. One iteration receives from every readable socket, submits all requests to the backend, polls the
//! backend once, and answers with one send per connection. On an idle server a request is received, carried out and
//! answered within one iteration, without a change of threads.

use super::address::Listen;
use super::clock::monotonic_ns;
use super::config::{ServerConfig, ServerError};
use super::connection::Connection;
use super::connections::Connections;
use super::frontends::{Frontends, TooManyFrontends};
use super::hooks::{Hooks, ServerControl, listen};
use super::listener::Listener;
use super::outcome::{CloseReason, Received};
use super::poller::{Events, Poller, Ready, Source};
use super::shaker::Shaker;
use super::shutdown::Shutdown;
use super::spin::Spin;
use super::stats::ServerStats;
use crate::backend::Backend;
use crate::exports::Exports;
use crate::frontend::Frontend;
use crate::tls::TlsContext;
use forebay_volume::Completion;
use std::sync::atomic::Ordering;

/// Interval of ticks, in nanoseconds.
const TICK_NS: u64 = 50_000_000;
/// Most connections that are polled directly; events of the others come through the poller.
const SPIN_CONNECTIONS_MAX: usize = 4;
/// Polls that find nothing, after which `epoll_wait` is called for listeners, hooks and other connections.
const EMPTY_POLLS_MAX: u32 = 64;
/// Iterations that find requests by polling, after which `epoll_wait` is called.
const ITERATIONS_WITHOUT_EPOLL_MAX: u32 = 64;
/// Longest sleep during a stop, whose steps no descriptor signals, in nanoseconds.
const STOPPING_SLEEP_NS: u64 = 1_000_000;

/// The server.
#[derive(Debug)]
pub struct Reactor {
    pub(super) config: ServerConfig,
    pub(super) poller: Poller,
    pub(super) listeners: Vec<Listener>,
    pub(super) exports: Exports,
    pub(super) connections: Connections,
    frontends: Frontends,
    pub(super) stats: ServerStats,
    /// Whether accepting waits for the next tick, because there are no descriptors left.
    pub(super) accepting_paused: bool,
    pub(super) stop_asked: bool,
    /// The TLS context for new connections; `None`: TLS is not offered.
    pub(super) tls: Option<TlsContext>,
    pub(super) shaker: Shaker,
}

/// State of one run of the event loop.
pub(super) struct Run<'a, B: Backend> {
    pub(super) backend: &'a mut B,
    pub(super) hooks: &'a mut dyn Hooks<B>,
    /// Connections to be handled at the end of the iteration.
    pub(super) listed: Vec<u16>,
    done: Vec<Completion>,
    ready: Vec<Ready>,
    pub(super) now_ns: u64,
    /// Whether requests were submitted after the backend was polled.
    submitted_late: bool,
    /// Whether a client sent anything in this iteration.
    busy: bool,
    /// Connections whose received bytes wait inside the TLS layer, where the poller does not see them.
    held: Vec<Ready>,
}

impl Reactor {
    /// A server without exports and listeners.
    ///
    /// # Errors
    /// An option is out of range, or the system refuses an epoll instance.
    pub fn new(config: ServerConfig) -> Result<Self, ServerError> {
        config.check()?;
        Ok(Self {
            config,
            poller: Poller::new()?,
            listeners: Vec::new(),
            exports: Exports::new(),
            connections: Connections::default(),
            frontends: Frontends::default(),
            stats: ServerStats::default(),
            accepting_paused: false,
            stop_asked: false,
            tls: None,
            shaker: Shaker::default(),
        })
    }

    /// Sets the TLS context for clients that connect from now on; `None`: TLS is not offered.
    pub fn set_tls(&mut self, tls: Option<TlsContext>) {
        self.tls = tls;
    }

    /// The exports.
    pub fn exports(&mut self) -> &mut Exports {
        &mut self.exports
    }

    /// Listens at an address; returns it with the actual port where 0 was given. Clients can connect from now on, and
    /// are served once [`Reactor::run`] runs.
    ///
    /// # Errors
    /// Another server listens there, the address is beyond loopback and not allowed, or the system refuses.
    pub fn listen(&mut self, address: &Listen) -> Result<Listen, ServerError> {
        listen(&self.config, &mut self.poller, &mut self.listeners, address)
    }

    /// Attaches a front end to the export with this index; it is served once [`Reactor::run`] runs.
    ///
    /// # Errors
    /// There are too many front ends.
    pub fn attach(&mut self, frontend: Box<dyn Frontend>, export: u16) -> Result<(), TooManyFrontends> {
        self.frontends.attach(frontend, export)
    }

    /// Serves until a hook asks to stop. Then it stops accepting, completes requests in flight, flushes every
    /// writable exported disk, sends all answers and closes.
    ///
    /// # Errors
    /// A system call of the event loop fails, the last flush fails, or stopping takes too long.
    pub fn run<B: Backend>(&mut self, backend: &mut B, hooks: &mut dyn Hooks<B>) -> Result<(), ServerError> {
        let mut run = Run {
            backend,
            hooks,
            listed: Vec::new(),
            done: Vec::new(),
            ready: Vec::new(),
            now_ns: monotonic_ns(),
            submitted_late: false,
            busy: false,
            held: Vec::new(),
        };
        self.stop_asked = false;
        let mut shutdown: Option<Shutdown> = None;
        let mut next_tick_ns = run.now_ns;
        let mut spin = Spin::default();
        let mut iterations_without_epoll = 0u32;
        loop {
            if run.now_ns >= next_tick_ns {
                self.tick(&mut run);
                next_tick_ns = run.now_ns + TICK_NS;
            }
            if self.stop_asked && shutdown.is_none() {
                shutdown = Some(Shutdown::begin(
                    &mut self.connections,
                    &mut self.frontends,
                    run.now_ns,
                    self.config.stop_timeout_ns,
                ));
                // Dropping a listener removes its socket file.
                for (index, listener) in self.listeners.drain(..).enumerate() {
                    let _ = self.poller.remove(&listener.socket, Source::Listener(index as u16));
                }
            }
            if let Some(shutdown) = &mut shutdown {
                let over =
                    shutdown.advance(&self.connections, &self.frontends, &self.exports, run.backend, run.now_ns)?;
                if over {
                    for index in self.connections.indices() {
                        self.close(&mut run, index, shutdown.reason(index));
                    }
                    self.frontends.close(|reason, peer| run.hooks.closed(&reason, peer));
                    return Ok(());
                }
            }
            let hurry = run.submitted_late || !run.held.is_empty() || run.backend.in_flight();
            run.submitted_late = false;
            run.busy = false;
            let found = !hurry && self.look(&mut run, &mut spin, next_tick_ns);
            iterations_without_epoll = if found { iterations_without_epoll + 1 } else { 0 };
            let mut slept_ns = 0;
            if !found || iterations_without_epoll >= ITERATIONS_WITHOUT_EPOLL_MAX {
                iterations_without_epoll = 0;
                let may_sleep = !hurry && !found && (self.frontends.is_empty() || self.frontends.may_sleep());
                let limit_ns = if shutdown.is_some() { STOPPING_SLEEP_NS } else { TICK_NS };
                let timeout_ns = if may_sleep { next_tick_ns.saturating_sub(run.now_ns).min(limit_ns) } else { 0 };
                self.poller.wait(timeout_ns, &mut run.ready)?;
                let before_ns = std::mem::replace(&mut run.now_ns, monotonic_ns());
                slept_ns = if may_sleep { run.now_ns - before_ns } else { 0 };
                self.frontends.awake();
            }
            run.ready.append(&mut run.held);
            let mut ready = std::mem::take(&mut run.ready);
            for ready in ready.drain(..) {
                self.handle(&mut run, ready);
            }
            run.ready = ready;
            if !self.frontends.is_empty() {
                run.busy |= self.receive(&mut run);
            }
            self.poll_backend(&mut run, &mut shutdown);
            self.finish_turn(&mut run);
            if run.busy {
                spin.busy(run.now_ns, slept_ns, self.config.poll_ns);
            }
        }
    }

    fn tick<B: Backend>(&mut self, run: &mut Run<'_, B>) {
        run.backend.tick(run.now_ns);
        self.refresh_stats();
        let mut control = self.control();
        run.hooks.tick(run.now_ns, run.backend, &mut control);
        self.watch_foreign(run);
        self.expire(run);
        self.connections.sort(&mut self.poller);
        if self.accepting_paused && !self.stop_asked {
            self.resume_accepting();
        }
    }

    fn control(&mut self) -> ServerControl<'_> {
        ServerControl {
            exports: &mut self.exports,
            stop: &mut self.stop_asked,
            connections: &self.connections,
            frontends: &mut self.frontends,
            config: &mut self.config,
            poller: &mut self.poller,
            listeners: &mut self.listeners,
            stats: self.stats,
            tls: &mut self.tls,
        }
    }

    fn refresh_stats(&mut self) {
        (self.stats.connections, self.stats.clients) = (self.connections.open(), self.connections.clients());
        self.stats.in_flight = self.connections.in_flight() + self.frontends.in_flight();
    }

    pub(super) fn watch_foreign<B: Backend>(&mut self, run: &Run<'_, B>) {
        let mut backend = Vec::new();
        run.backend.wake_fds(&mut backend);
        let mut frontends = Vec::new();
        self.frontends.wake_fds(&mut frontends);
        let mut hooks = Vec::new();
        run.hooks.watch(&mut hooks);
        self.poller.set_foreign(&backend, &frontends, self.shaker.wake_fd(), &hooks);
    }

    fn handle<B: Backend>(&mut self, run: &mut Run<'_, B>, ready: Ready) {
        match ready.source {
            Source::Connection { index, generation } => {
                if self.connections.get_same(index, generation).is_some() {
                    self.serve(run, index, ready.hung_up);
                }
            }
            Source::Listener(index) => self.accept(run, index),
            // Examined in every iteration anyway.
            Source::Backend | Source::Frontend => {}
            Source::Handshakes => self.take_shaken(run),
            Source::Hook(fd) => {
                self.refresh_stats();
                let mut control = self.control();
                run.hooks.ready(fd, run.backend, &mut control);
                self.watch_foreign(run);
            }
        }
    }

    /// Submits requests of front ends other than NBD.
    fn receive<B: Backend>(&mut self, run: &mut Run<'_, B>) -> bool {
        let payload_bytes_max = self.config.session.payload_bytes_max;
        self.frontends.receive(&self.exports, payload_bytes_max, self.stop_asked, &mut self.stats.sessions, run.backend)
    }

    /// Receives from a connection and submits its requests.
    pub(super) fn serve<B: Backend>(&mut self, run: &mut Run<'_, B>, index: u16, hung_up: bool) -> bool {
        let mut heard = false;
        for _ in 0..Connection::RECEIVES_MAX {
            let Some(connection) = self.connections.get_mut(index) else {
                return heard;
            };
            if !connection.wants_input() {
                if hung_up {
                    self.close(run, index, CloseReason::Client);
                    return true;
                }
                break;
            }
            let received = match connection.receive() {
                Ok(received) => received,
                Err(reason) => {
                    self.close(run, index, reason);
                    return true;
                }
            };
            if received == Received::Nothing {
                break;
            }
            heard = true;
            connection.heard = true;
            self.submit(run, index);
            if received == Received::Last {
                break;
            }
        }
        if let Some(connection) = self.connections.get_mut(index) {
            connection.list(index, &mut run.listed);
        }
        run.busy |= heard;
        heard
    }

    /// Submits the requests that a connection has received.
    fn submit<B: Backend>(&mut self, run: &mut Run<'_, B>, index: u16) -> bool {
        let mut any = false;
        loop {
            let Some(connection) = self.connections.get_mut(index) else {
                return any;
            };
            let next = connection.session.next(&self.exports);
            if !connection.is_client && connection.session.export().is_some() {
                let parsed = next.as_ref().ok().and_then(Option::as_ref).map(|request| request.token);
                if !self.admit(run, index, parsed) {
                    return any;
                }
            }
            match next {
                Ok(Some(mut request)) => {
                    request.token = self.connections.token(index, request.token);
                    request.session = self.connections.get_mut(index).map_or(0, |connection| connection.number);
                    run.backend.submit(request);
                    any = true;
                }
                Ok(None) => return any,
                Err(error) => {
                    self.close(run, index, CloseReason::Protocol(error));
                    return any;
                }
            }
        }
    }

    fn poll_backend<B: Backend>(&mut self, run: &mut Run<'_, B>, shutdown: &mut Option<Shutdown>) {
        run.backend.poll(&mut run.done);
        let mut done = std::mem::take(&mut run.done);
        for completion in done.drain(..) {
            if Connections::is_own(completion.token) {
                if let Some(shutdown) = shutdown {
                    shutdown.flushed(completion);
                }
                continue;
            }
            if Frontends::is_theirs(completion.token) {
                self.frontends.complete(completion);
                continue;
            }
            let Some((index, token, connection)) = self.connections.resolve(completion.token) else {
                continue;
            };
            connection.session.complete(token, completion.result);
            if connection.socket.is_none() {
                if connection.session.in_flight() == 0 {
                    self.connections.vacate(index);
                }
            } else {
                connection.list(index, &mut run.listed);
            }
        }
        run.done = done;
    }

    /// Ends an iteration: sends answers, continues connections that were held back, and closes those that have ended.
    fn finish_turn<B: Backend>(&mut self, run: &mut Run<'_, B>) {
        let mut listed = std::mem::take(&mut run.listed);
        for index in listed.drain(..) {
            let Some(connection) = self.connections.get_mut(index) else {
                continue;
            };
            connection.listed = false;
            if let Err(reason) = connection.send() {
                self.close(run, index, reason);
                continue;
            }
            if connection.session.is_stalled() {
                run.submitted_late |= self.submit(run, index);
            }
            self.settle(run, index);
        }
        // Keeps the allocation; closing lists no connection.
        listed.append(&mut run.listed);
        run.listed = listed;
        if !self.frontends.is_empty() {
            self.frontends.send(|reason, peer, session| {
                run.hooks.closed(&reason, peer);
                run.backend.end_session(session);
            });
            if self.frontends.take_changed() {
                self.watch_foreign(run);
            }
        }
    }

    /// Closes a connection that has ended, or watches for what it needs next.
    fn settle<B: Backend>(&mut self, run: &mut Run<'_, B>, index: u16) {
        let source = Source::Connection { index, generation: self.connections.generation(index) };
        let Some(connection) = self.connections.get_mut(index) else {
            return;
        };
        if connection.lent.is_some() {
            return;
        }
        if let Some(stream) = connection.lend_tls() {
            return self.pass_on(run, index, stream);
        }
        if connection.is_over() {
            let removed = connection.session.export().is_some_and(|export| self.exports.get(export).is_none());
            let reason = if removed { CloseReason::ExportRemoved } else { CloseReason::Client };
            return self.close(run, index, reason);
        }
        let wanted = Events {
            read: connection.wants_input(),
            // Includes replies that arose after this iteration's send, when a held-back client continued with errors.
            write: connection.send_blocked || connection.has_unsent(),
        };
        if wanted.read && connection.holds_received() {
            run.held.push(Ready { source, hung_up: false });
        }
        if wanted != connection.watched
            && let Some(socket) = &connection.socket
        {
            connection.watched = wanted;
            if let Err(error) = self.poller.modify(socket, source, wanted) {
                let errno = if let ServerError::System { source, .. } = error { source } else { rustix::io::Errno::IO };
                self.close(run, index, CloseReason::Socket(errno));
            }
        }
    }

    pub(super) fn close<B: Backend>(&mut self, run: &mut Run<'_, B>, index: u16, reason: CloseReason) {
        let generation = self.connections.generation(index);
        let source = Source::Connection { index, generation };
        self.announce(run, index);
        let Some(connection) = self.connections.get_mut(index) else {
            return;
        };
        connection.say_goodbye();
        let Some(socket) = connection.socket.take() else {
            return;
        };
        // Fails only where the socket was never added.
        let _ = self.poller.remove(&socket, source);
        let peer = connection.peer;
        drop(socket);
        if let Some(is_wanted) = connection.lent.take() {
            is_wanted.store(false, Ordering::Relaxed);
        }
        connection.session.abandon();
        let (in_flight, was_client, number) = (connection.session.in_flight(), connection.is_client, connection.number);
        self.stats.ended(connection.session.stats(), matches!(reason, CloseReason::Protocol(_)));
        self.connections.closed_one(was_client);
        if was_client {
            run.backend.end_session(number);
        }
        if in_flight == 0 {
            self.connections.vacate(index);
        }
        run.hooks.closed(&reason, peer);
    }

    /// Polls for requests and completions without sleeping, as long as that pays. Returns whether it found any.
    /// Received requests are submitted by then; completions wait in `run.done`.
    fn look<B: Backend>(&mut self, run: &mut Run<'_, B>, spin: &mut Spin, next_tick_ns: u64) -> bool {
        let Some(deadline_ns) = spin.deadline_ns(self.config.poll_ns) else {
            return false;
        };
        let deadline_ns = deadline_ns.min(next_tick_ns);
        let mut direct = [(0u16, 0u32); SPIN_CONNECTIONS_MAX];
        let (used, all_direct) = self.connections.only_reading(&mut direct);
        for round in 1u32.. {
            let mut found = false;
            for &(index, generation) in &direct[..used] {
                if self.connections.get_same(index, generation).is_some() {
                    found |= self.serve(run, index, false);
                }
            }
            if !self.frontends.is_empty() {
                found |= self.receive(run);
            }
            run.backend.poll(&mut run.done);
            found |= !run.done.is_empty();
            if !found && (!all_direct || round.is_multiple_of(EMPTY_POLLS_MAX)) {
                // An error occurs again in the event loop's own wait.
                found = self.poller.wait(0, &mut run.ready).is_ok() && !run.ready.is_empty();
            }
            run.now_ns = monotonic_ns();
            if found {
                return true;
            }
            if run.now_ns >= deadline_ns {
                break;
            }
            std::hint::spin_loop();
        }
        // Polling that was ended by a due tick was not in vain.
        if run.now_ns < next_tick_ns {
            spin.in_vain();
        }
        false
    }
}
