//! What the server counts.

use crate::nbd::session::SessionStats;
use rustix::io::Errno;

/// Numbers of the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerStats {
    /// Connections now.
    pub connections: usize,
    /// Those of them that have chosen an export.
    pub clients: usize,
    /// Requests in flight now.
    pub in_flight: usize,
    /// Connections accepted since the start.
    pub accepted: u64,
    /// Connections refused for the limit since the start.
    pub refused: u64,
    /// Clients that there were when the last one was refused.
    pub clients_at_refusal: usize,
    /// Why connections that wait could not be accepted since the last tick, such as for want of descriptors. It is tried again
    /// with each tick.
    pub not_accepted: Option<Errno>,
    /// Connections ended for a breach of the protocol since the start.
    pub protocol_errors: u64,
    /// What all sessions did since the start.
    pub sessions: SessionStats,
}

impl ServerStats {
    /// A connection is refused, as there are so many clients.
    pub(super) fn refuse(&mut self, clients: usize) {
        self.refused += 1;
        self.clients_at_refusal = clients;
    }

    /// A session has ended.
    pub(super) fn ended(&mut self, session: SessionStats, by_breach: bool) {
        self.sessions.requests += session.requests;
        self.sessions.read_bytes += session.read_bytes;
        self.sessions.written_bytes += session.written_bytes;
        self.protocol_errors += u64::from(by_breach);
    }
}
