//! Lets the surrounding daemon take part in the event loop, with descriptors of its own and changes while the server
//! runs.

use super::config::{ServerConfig, ServerError};
use super::frontends::{Frontends, TooManyFrontends};
use super::interest::Interest;
use super::listener::Listener;
use super::outcome::CloseReason;
use super::peer::Peer;
use super::poller::{Events, Poller, Source};
use super::stats::ServerStats;
use crate::access::Identity;
use crate::exports::{Export, ExportError, Exports};
use crate::frontend::Frontend;
use crate::server::address::Listen;
use crate::server::connections::Connections;
use crate::tls::TlsContext;

/// Calls from the event loop, on the server's thread. No method may block. `B` is the backend, so that a control
/// request can reach the pool.
pub trait Hooks<B> {
    /// Appends the descriptors to watch. Called at the start and after every call of the other methods.
    fn watch(&self, fds: &mut Vec<Interest>);

    /// A watched descriptor can be read or written.
    fn ready(&mut self, fd: i32, backend: &mut B, server: &mut ServerControl<'_>);

    /// Called about every 50 ms, with a monotonic time in nanoseconds.
    fn tick(&mut self, now_ns: u64, backend: &mut B, server: &mut ServerControl<'_>);

    /// A client in TLS has chosen an export. For the log.
    fn opened(&mut self, identity: &Identity, peer: Peer, export: &Export) {
        let _ = (identity, peer, export);
    }

    /// The connection of this peer has ended. For the log.
    fn closed(&mut self, reason: &CloseReason, peer: Peer) {
        let _ = (reason, peer);
    }
}

/// No hooks: the server runs until its process ends.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHooks;

impl<B> Hooks<B> for NoHooks {
    fn watch(&self, _fds: &mut Vec<Interest>) {}
    fn ready(&mut self, _fd: i32, _backend: &mut B, _server: &mut ServerControl<'_>) {}
    fn tick(&mut self, _now_ns: u64, _backend: &mut B, _server: &mut ServerControl<'_>) {}
}

/// What hooks may change in the running server.
#[derive(Debug)]
pub struct ServerControl<'a> {
    pub(super) exports: &'a mut Exports,
    pub(super) stop: &'a mut bool,
    pub(super) connections: &'a Connections,
    pub(super) frontends: &'a mut Frontends,
    pub(super) config: &'a mut ServerConfig,
    pub(super) poller: &'a mut Poller,
    pub(super) listeners: &'a mut Vec<Listener>,
    pub(super) stats: ServerStats,
    pub(super) tls: &'a mut Option<TlsContext>,
}

impl ServerControl<'_> {
    /// The exports, to read or to change. A change takes effect with the next message of a client.
    pub fn exports(&mut self) -> &mut Exports {
        self.exports
    }

    /// Listens at one more address; returns it with the actual port where 0 was given.
    ///
    /// # Errors
    /// Another server listens there, the address is beyond loopback and not allowed, the server is stopping, or the
    /// system refuses.
    pub fn listen(&mut self, address: &Listen) -> Result<Listen, ServerError> {
        if *self.stop {
            return Err(ServerError::Stopping { address: address.clone() });
        }
        listen(self.config, self.poller, self.listeners, address)
    }

    /// Attaches a front end to the export with this index. It is detached when it ends or the export is removed.
    ///
    /// # Errors
    /// There are too many front ends.
    pub fn attach(&mut self, frontend: Box<dyn Frontend>, export: u16) -> Result<(), TooManyFrontends> {
        self.frontends.attach(frontend, export)
    }

    /// Changes the size of an export, and notifies front ends that can pass it on. NBD clients learn it when they
    /// connect again.
    ///
    /// # Errors
    /// As for [`Exports::resize`].
    pub fn resize(&mut self, name: &str, size_bytes: u64) -> Result<(), ExportError> {
        let export = self.exports.resize(name, size_bytes)?;
        self.frontends.resized(export, size_bytes);
        Ok(())
    }

    /// Sets the limit of connections at a time. Existing connections stay.
    ///
    /// # Errors
    /// The number is out of range.
    pub fn set_connections_max(&mut self, connections_max: u16) -> Result<(), ServerError> {
        let config = ServerConfig { connections_max, ..*self.config };
        config.check()?;
        *self.config = config;
        Ok(())
    }

    /// Sets how long the server polls for requests before it sleeps, in nanoseconds.
    pub fn set_poll_ns(&mut self, poll_ns: u64) {
        self.config.poll_ns = poll_ns;
    }

    /// Sets the TLS context for clients that connect from now on; `None`: TLS is not offered. Existing connections
    /// are not affected.
    pub fn set_tls(&mut self, tls: Option<TlsContext>) {
        *self.tls = tls;
    }

    /// Peers of all clients that use an export now.
    pub fn clients(&self, export: u16) -> impl Iterator<Item = Peer> {
        let all = self.connections.iter().map(|(_, connection)| connection);
        let connected = all.filter(move |c| c.socket.is_some() && c.session.export() == Some(export));
        connected.map(|connection| connection.peer).chain(self.frontends.peers(export))
    }

    /// Stops the server cleanly: no new connections, requests in flight are answered, everything is flushed, and the
    /// server ends.
    pub fn stop(&mut self) {
        *self.stop = true;
    }

    /// Whether a stop was requested.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        *self.stop
    }

    /// Statistics as of this iteration of the event loop.
    #[must_use]
    pub fn stats(&self) -> ServerStats {
        self.stats
    }
}

/// Opens a listener and watches it.
pub(super) fn listen(
    config: &ServerConfig,
    poller: &mut Poller,
    listeners: &mut Vec<Listener>,
    address: &Listen,
) -> Result<Listen, ServerError> {
    let listener = Listener::open(address, config.allow_remote, config.private_sockets)?;
    let index = listeners.len() as u16;
    poller.add(&listener.socket, Source::Listener(index), Events::READ)?;
    let bound = listener.address.clone();
    listeners.push(listener);
    Ok(bound)
}
