//! New connections: accepting, making room, and pausing while the system has no descriptors left.

use super::address::Listen;
use super::connection::Connection;
use super::outcome::CloseReason;
use super::poller::Source;
use super::reactor::{Reactor, Run};
use crate::access::{Client, Security};
use crate::backend::Backend;
use crate::nbd::session::Session;

/// Connections accepted per listener and turn.
const ACCEPTS_MAX: usize = 16;
/// Age from which a connection in its handshake may give way to a new one.
const EVICT_AGE_NS: u64 = 1_000_000_000;

impl Reactor {
    /// Accepts what waits at a listener.
    pub(super) fn accept<B: Backend>(&mut self, run: &mut Run<'_, B>, listener: u16) {
        for _ in 0..ACCEPTS_MAX {
            let Some(open) = self.listeners.get(usize::from(listener)) else {
                return;
            };
            let socket = match open.accept() {
                Ok(Some(socket)) => socket,
                Ok(None) => return,
                Err(_) => {
                    // Out of descriptors or memory: the listener stays readable and would be reported without end.
                    self.pause_accepting();
                    return;
                }
            };
            let network = matches!(open.address, Listen::Tcp(_));
            if self.connections.open() >= usize::from(self.config.connections_max) {
                self.evict(run);
            }
            if self.connections.open() >= usize::from(self.config.connections_max) || self.connections.is_full() {
                self.stats.refused += 1;
                continue;
            }
            self.stats.accepted += 1;
            let security = if self.tls.is_some() { Security::Offered } else { Security::Plain };
            let client = Client { network, security };
            let session = Session::with(self.config.session, client);
            let connection = Connection { offer: self.tls.clone(), ..Connection::new(socket, session, run.now_ns) };
            let (index, generation) = self.connections.insert(connection);
            let Some(connection) = self.connections.get_mut(index) else {
                return;
            };
            let source = Source::Connection { index, generation };
            let watched = connection.socket.as_ref().map(|socket| self.poller.add(socket, source, true, false));
            if let Some(Ok(())) = watched {
                connection.list(index, &mut run.listed);
            } else {
                self.close(run, index, CloseReason::Socket(rustix::io::Errno::NOMEM));
            }
        }
    }

    /// Ends the oldest connection that has chosen no export within a second, to make room.
    fn evict<B: Backend>(&mut self, run: &mut Run<'_, B>) {
        let oldest = self
            .connections
            .iter()
            .filter(|(_, c)| c.socket.is_some() && c.session.in_handshake())
            .filter(|(_, c)| run.now_ns.saturating_sub(c.accepted_ns) >= EVICT_AGE_NS)
            .min_by_key(|(_, c)| c.accepted_ns)
            .map(|(index, _)| index);
        if let Some(index) = oldest {
            self.close(run, index, CloseReason::Evicted);
        }
    }

    fn pause_accepting(&mut self) {
        self.accepting_paused = true;
        for (index, listener) in (0u16..).zip(&self.listeners) {
            // Not registered: nothing to pause.
            let _ = self.poller.remove(&listener.socket, Source::Listener(index));
        }
    }

    /// Takes up accepting again after a pause.
    pub(super) fn resume_accepting(&mut self) {
        self.accepting_paused = false;
        for (index, listener) in (0u16..).zip(&self.listeners) {
            let source = Source::Listener(index);
            // Where an earlier attempt succeeded for this one already, it is registered.
            let _ = self.poller.remove(&listener.socket, source);
            // A failure leaves it paused until the next tick.
            self.accepting_paused |= self.poller.add(&listener.socket, source, true, false).is_err();
        }
    }
}
