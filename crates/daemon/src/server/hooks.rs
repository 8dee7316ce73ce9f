//! The daemon's part of the event loop: signals, control requests, and jobs that wait for checkpoints.

use super::answer::{Answerer, leaving};
use super::clients::Clients;
use super::handle::{Announce, Asked, Wish};
use super::reload::Reloader;
use super::service_manager;
use super::snapshot::snapshot;
use super::ublk::BlockDevices;
use super::vhost::MachineDevices;
use super::watch::Watch;
use crate::metrics::Publisher;
use crate::pool::{PoolBackend, now_ns};
use forebay_export::frontend::FrontendError;
use forebay_export::server::{CloseReason, Interest, Peer};
use forebay_export::{Export, Hooks, Identity, ServerControl};
use std::time::SystemTime;
use tracing::info;

/// The daemon's state in the event loop.
pub struct Daemon {
    /// Requests to stop and to reload.
    pub asked: Asked,
    /// Receives a line for each export that can be used.
    pub announce: Announce,
    /// Connections of the control socket.
    pub clients: Clients,
    /// Answers control requests.
    pub answerer: Answerer,
    /// The configuration in force.
    pub reloader: Reloader,
    /// Block devices of this machine's kernel.
    pub block_devices: BlockDevices,
    /// Block devices of virtual machines.
    pub machine_devices: MachineDevices,
    /// Whether the capacity tier is a bucket, which keeps unflushed writes in this process's memory.
    pub is_over_bucket: bool,
    /// Whether the service manager was notified that all exports can be used.
    pub is_ready: bool,
    /// Watches for events worth logging.
    pub watch: Watch,
    /// Passes statuses to the metrics; `None` where metrics are off.
    pub publisher: Option<Publisher>,
}

impl Daemon {
    /// Turns write-through on while a block device could outlive the server. Such a device continues with the next
    /// server, and must not lose writes that this one completed in its own memory.
    pub fn write_through(&self, backend: &mut PoolBackend) {
        let is_outlived = !self.block_devices.are_none() || !self.machine_devices.are_none();
        backend.pool.engine.write_through(self.is_over_bucket && is_outlived);
    }
}

impl Hooks<PoolBackend> for Daemon {
    fn watch(&self, fds: &mut Vec<Interest>) {
        fds.extend(self.asked.fds().map(|fd| Interest { fd, read: true, write: false }));
        self.clients.watch(fds);
    }

    fn ready(&mut self, fd: i32, backend: &mut PoolBackend, server: &mut ServerControl<'_>) {
        match self.asked.read(fd) {
            Some(Wish::Stop) => return self.stop(server),
            // A client that connects while the server stops would not be notified of its end.
            Some(Wish::Reload) if server.is_stopping() => {
                return info!("the server stops, and reads no configuration any more");
            }
            Some(Wish::Reload) => return self.reloader.begin(self.is_ready),
            None => {}
        }
        let mut requests = Vec::new();
        self.clients.ready(fd, now_ns(), &mut requests);
        for (client, line) in requests {
            self.answerer.request(client, &line, backend, server, &mut self.block_devices);
        }
        self.deliver(backend, server);
    }

    fn tick(&mut self, now_ns: u64, backend: &mut PoolBackend, server: &mut ServerControl<'_>) {
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        backend.pool.engine.set_unix_time(since_1970.as_secs());
        self.watch.look_at_door(now_ns, "exports", server.stats().not_accepted);
        self.watch.look_at_door(now_ns, "the control socket", self.clients.tick(now_ns));
        self.answerer.tick(now_ns, backend, server, &self.reloader.config);
        self.deliver(backend, server);
        let Answerer { fixed, jobs, .. } = &mut self.answerer;
        let leaving = || leaving(jobs);
        if !server.is_stopping() {
            let clients = &mut self.clients;
            self.reloader.advance(backend, (server, clients), (fixed, leaving), &mut self.watch, self.is_ready);
        }
        self.block_devices.serve_opened(server);
        self.write_through(backend);
        // Devices that were attached after the start are reported, too.
        let are_reported = self.block_devices.are_reported(&mut self.announce);
        if !self.is_ready && are_reported {
            self.is_ready = true;
            service_manager::notify_ready();
        }
        if self.block_devices.may_stop() {
            server.stop();
        }
        self.machine_devices.report();
        self.watch.tick(now_ns, backend, &self.answerer.fixed, server.stats());
        if let Some(publisher) = &self.publisher {
            publisher.tick(|| snapshot(&self.answerer.fixed, backend, server, &self.block_devices, now_ns));
        }
    }

    fn opened(&mut self, identity: &Identity, peer: Peer, export: &Export) {
        self.watch.opened(now_ns(), identity, peer, export);
    }

    fn closed(&mut self, reason: &CloseReason, peer: Peer) {
        if let (CloseReason::Frontend(FrontendError::Gone), Peer::Ublk(number)) = (reason, peer) {
            info!("/dev/ublkb{number} was taken away");
            self.block_devices.forget(number);
            return;
        }
        self.watch.closed(now_ns(), reason, peer);
    }
}

impl Daemon {
    fn stop(&mut self, server: &mut ServerControl<'_>) {
        if self.block_devices.are_leaving() {
            // A second request to stop does not wait for block devices.
            return server.stop();
        }
        match self.answerer.fixed.is_for_service {
            true => info!("stopping: no new connections, then a last flush and a clean checkpoint"),
            false => info!("stopping: no new connections; the pool was read alone, and nothing is written to it"),
        }
        service_manager::notify_stopping();
        self.publisher.iter().for_each(Publisher::stopping);
        self.block_devices.begin_release();
        if self.block_devices.are_none() {
            server.stop();
        }
    }

    /// Sends answers, and starts the requests that arrived behind them. Their answers leave with the next iteration
    /// of the event loop, so that no client can occupy it.
    fn deliver(&mut self, backend: &mut PoolBackend, server: &mut ServerControl<'_>) {
        let mut requests = Vec::new();
        for (client, answer) in self.answerer.answers.drain(..) {
            self.clients.answer(client, &answer, &mut requests);
        }
        for (client, line) in requests {
            self.answerer.request(client, &line, backend, server, &mut self.block_devices);
        }
    }
}
