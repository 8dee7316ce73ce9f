//! What the daemon does in the server's loop: signals, control requests, jobs that wait for checkpoints.

use super::answer::Answerer;
use super::clients::Clients;
use crate::pool::{PoolBackend, now_ns};
use forebay_export::server::{CloseReason, Interest};
use forebay_export::{Hooks, ServerControl};
use forebay_volume::Engine;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use tracing::{debug, error, info, warn};

/// The daemon's part of the loop.
pub struct Daemon {
    /// Readable once a signal to stop has come.
    pub signals: UnixStream,
    /// The control socket.
    pub clients: Clients,
    /// What answers.
    pub answerer: Answerer,
    /// Why the pool takes no writes, as it was said last.
    pub refusal: Option<String>,
    /// Whether it was logged that the capacity-side checkpoint cannot be written.
    pub is_capacity_side_logged: bool,
}

impl Hooks<PoolBackend> for Daemon {
    fn watch(&self, fds: &mut Vec<Interest>) {
        fds.push(Interest { fd: self.signals.as_raw_fd(), read: true, write: false });
        self.clients.watch(fds);
    }

    fn ready(&mut self, fd: i32, backend: &mut PoolBackend, server: &mut ServerControl<'_>) {
        if fd == self.signals.as_raw_fd() {
            let mut bytes = [0; 16];
            // The byte itself says nothing, and another one may come.
            if self.signals.read(&mut bytes).is_ok() {
                info!("stopping: no new connections, then a last flush and a clean checkpoint");
                server.stop();
            }
            return;
        }
        let mut requests = Vec::new();
        self.clients.ready(fd, now_ns(), &mut requests);
        for (client, line) in requests {
            self.answerer.request(client, &line, backend, server);
        }
        self.deliver();
    }

    fn tick(&mut self, now_ns: u64, backend: &mut PoolBackend, server: &mut ServerControl<'_>) {
        self.clients.tick(now_ns);
        self.answerer.tick(now_ns, backend, server);
        self.deliver();
        self.tell_refusal(&backend.pool.engine);
        let failing = backend.pool.engine.capacity_side_error();
        let was_failing = std::mem::replace(&mut self.is_capacity_side_logged, failing.is_some());
        match failing {
            Some(error) if !was_failing => warn!("{error}"),
            None if was_failing => info!("the capacity-side checkpoint is written again"),
            _ => {}
        }
    }

    fn closed(&mut self, reason: &CloseReason) {
        match reason {
            CloseReason::Protocol(error) => info!("a client broke the protocol: {error}"),
            other => debug!("a connection ended: {other:?}"),
        }
    }
}

impl Daemon {
    /// Says once for each reason that the pool takes no writes, and when it takes them again.
    fn tell_refusal(&mut self, engine: &Engine) {
        let reason = engine.read_only_reason();
        match (&self.refusal, reason) {
            (before, Some(reason)) if before.as_deref() != Some(reason) => error!("the pool takes no writes: {reason}"),
            (Some(_), None) => {
                let lost = engine.status().counters.flush_lost_blocks;
                info!("the pool takes writes again: what the failed flush covered was written again, and flushed");
                if lost > 0 {
                    error!("{lost} blocks and map pages were not there any more since the start: reads of them fail");
                }
            }
            _ => return,
        }
        self.refusal = reason.map(str::to_owned);
    }

    fn deliver(&mut self) {
        for (client, answer) in self.answerer.answers.drain(..) {
            self.clients.answer(client, &answer);
        }
    }
}
