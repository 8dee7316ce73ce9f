//! Reports clients to the hooks, for the log.

use super::peer::peer;
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
        let (Some(socket), Some(export), Security::Secured(identity)) =
            (&connection.socket, connection.session.export(), &connection.session.client().security)
        else {
            return;
        };
        let Some(export) = self.exports.get(export) else {
            return;
        };
        run.hooks.opened(identity, peer(socket), export);
        connection.announced = true;
    }
}
