//! Statistics of the server.

use crate::nbd::session::SessionStats;
use rustix::io::Errno;

/// Statistics of the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerStats {
    /// Open connections now.
    pub connections: usize,
    /// Open connections that have chosen an export.
    pub clients: usize,
    /// Requests in flight now.
    pub in_flight: usize,
    /// Connections accepted since the start.
    pub accepted: u64,
    /// Connections refused because of the limit, since the start.
    pub refused: u64,
    /// Count of clients when the last connection was refused.
    pub clients_at_refusal: usize,
    /// The error of accepting since the last tick, most often a lack of descriptors; `None` where there was none.
    /// Accepting is tried again at each tick.
    pub not_accepted: Option<Errno>,
    /// Connections ended because of protocol violations, since the start.
    pub protocol_errors: u64,
    /// Sums over all sessions since the start.
    pub sessions: SessionStats,
}

impl ServerStats {
    /// Counts a refused connection; there were this many clients.
    pub(super) fn refuse(&mut self, clients: usize) {
        self.refused += 1;
        self.clients_at_refusal = clients;
    }

    /// Adds the statistics of a session that has ended.
    pub(super) fn ended(&mut self, session: SessionStats, by_breach: bool) {
        self.sessions.requests += session.requests;
        self.sessions.read_bytes += session.read_bytes;
        self.sessions.written_bytes += session.written_bytes;
        self.protocol_errors += u64::from(by_breach);
    }
}
