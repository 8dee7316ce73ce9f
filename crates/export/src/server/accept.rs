//! New connections: accepts them, makes room for them, counts those that have become clients, and pauses while the
//! system has no descriptors left.

use super::address::Listen;
use super::admission::{Origin, gives_way};
use super::connection::Connection;
use super::outcome::CloseReason;
use super::peer::peer;
use super::poller::{Events, Source};
use super::reactor::{Reactor, Run};
use crate::access::{Client, Security};
use crate::backend::Backend;
use crate::exports::Export;
use crate::nbd::session::Session;
use forebay_volume::RequestError;
use rustix::io::Errno;

/// Most connections accepted per listener and iteration, so that many at once do not hold up existing ones.
const ACCEPTS_MAX: usize = 4;

impl Reactor {
    /// Accepts the connections that wait at a listener.
    pub(super) fn accept<B: Backend>(&mut self, run: &mut Run<'_, B>, listener: u16) {
        for _ in 0..ACCEPTS_MAX {
            let Some(open) = self.listeners.get(usize::from(listener)) else {
                return;
            };
            let socket = match open.accept() {
                Ok(Some(socket)) => socket,
                Ok(None) => return,
                Err(why) => {
                    // Out of descriptors or memory. The listener would stay readable, and the loop would spin.
                    self.pause_accepting(why);
                    return;
                }
            };
            let network = matches!(open.address, Listen::Tcp(_));
            if self.connections.clients() >= usize::from(self.config.connections_max) || self.connections.is_full() {
                self.stats.refuse(self.connections.clients());
                continue;
            }
            let peer = peer(&socket);
            let origin = Origin::of(network, peer);
            self.make_room(run, origin);
            self.stats.accepted += 1;
            let security = if self.tls.is_some() { Security::Offered } else { Security::Plain };
            let client = Client { network, security };
            let session = Session::with(self.config.session, client);
            let connection =
                Connection { offer: self.tls.clone(), ..Connection::new(socket, session, (peer, origin), run.now_ns) };
            let (index, generation) = self.connections.insert(connection);
            let Some(connection) = self.connections.get_mut(index) else {
                return;
            };
            let source = Source::Connection { index, generation };
            let watched = connection.socket.as_ref().map(|socket| self.poller.add(socket, source, Events::READ));
            if let Some(Ok(())) = watched {
                connection.list(index, &mut run.listed);
            } else {
                self.close(run, index, CloseReason::Socket(Errno::NOMEM));
            }
        }
    }

    /// Ends a handshake where as many are in progress as allowed.
    fn make_room<B: Backend>(&mut self, run: &mut Run<'_, B>, newcomer: Origin) {
        let shaking = self.connections.iter().filter(|(_, c)| c.is_shaking_hands() && c.origin.shares_limit(newcomer));
        let shaking: Vec<_> = shaking.map(|(index, c)| (index, c.origin, c.accepted_ns)).collect();
        if shaking.len() >= self.config.handshakes_max()
            && let Some(index) = gives_way(&shaking, newcomer)
        {
            self.close(run, index, CloseReason::Evicted);
        }
    }

    /// Counts a connection that has just chosen an export as a client. Returns whether it may stay. Otherwise the
    /// request that arrived right behind the choice (`parsed`) is completed, too.
    pub(super) fn admit<B: Backend>(&mut self, run: &mut Run<'_, B>, index: u16, parsed: Option<u64>) -> bool {
        let Some(connection) = self.connections.get_mut(index) else {
            return false;
        };
        connection.is_client = true;
        let clients = self.connections.chose_one();
        if clients > usize::from(self.config.connections_max) {
            // Without the new one.
            self.stats.refuse(clients - 1);
            if let (Some(token), Some(connection)) = (parsed, self.connections.get_mut(index)) {
                connection.session.complete(token, Err(RequestError::ShuttingDown));
            }
            self.close(run, index, CloseReason::Full);
            return false;
        }
        if let Some(connection) = self.connections.get_mut(index) {
            let export = connection.session.export().and_then(|export| self.exports.get(export));
            connection.number = run.backend.begin_session(export.and_then(Export::writable_disk));
        }
        true
    }

    /// Ends connections that have taken too long to choose an export, and those whose export is gone.
    pub(super) fn expire<B: Backend>(&mut self, run: &mut Run<'_, B>) {
        for index in self.connections.indices() {
            let Some(connection) = self.connections.get_mut(index) else {
                continue;
            };
            if connection.socket.is_none() {
                continue;
            }
            let age_ns = run.now_ns.saturating_sub(connection.accepted_ns);
            match connection.session.export() {
                None if age_ns > self.config.handshake_timeout_ns => {
                    self.close(run, index, CloseReason::HandshakeTimeout);
                }
                Some(export) if self.exports.get(export).is_none() => {
                    connection.session.end();
                    connection.list(index, &mut run.listed);
                }
                _ => self.announce(run, index),
            }
        }
    }

    fn pause_accepting(&mut self, why: Errno) {
        self.accepting_paused = true;
        self.stats.not_accepted = Some(why);
        for (index, listener) in (0u16..).zip(&self.listeners) {
            // Fails where the listener is not registered; then there is nothing to pause.
            let _ = self.poller.remove(&listener.socket, Source::Listener(index));
        }
    }

    /// Resumes accepting after a pause.
    pub(super) fn resume_accepting(&mut self) {
        self.accepting_paused = false;
        self.stats.not_accepted = None;
        for (index, listener) in (0u16..).zip(&self.listeners) {
            let source = Source::Listener(index);
            // The listener may be registered already by an earlier attempt.
            let _ = self.poller.remove(&listener.socket, source);
            // Where this fails, accepting stays paused until the next tick.
            self.accepting_paused |= self.poller.add(&listener.socket, source, Events::READ).is_err();
        }
    }
}
