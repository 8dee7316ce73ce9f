//! Reports clients to the hooks, for the log.

use super::reactor::{Reactor, Run};
use crate::access::Security;
use crate::backend::Backend;

impl Reactor {
    /// Reports a client in TLS that has chosen an export, once.
    pub(super) fn announce<B: Backend>(&mut self, run: &mut Run<'_, B>, index: u16) {
        let Some(connection) = self.connections.get_mut(index) else {
            return;
        };
        if connection.announced || connection.tls.is_none() {
            return;
        }
        let (true, Some(export), Security::Secured(identity)) =
            (connection.socket.is_some(), connection.session.export(), &connection.session.client().security)
        else {
            return;
        };
        let Some(export) = self.exports.get(export) else {
            return;
        };
        run.hooks.opened(identity, connection.peer, export);
        connection.announced = true;
    }
}
