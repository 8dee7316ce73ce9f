//! Passes TLS handshakes between the event loop and the thread that computes their steps.

use super::outcome::CloseReason;
use super::poller::{Events, Source};
use super::reactor::{Reactor, Run};
use super::shaker::Job;
use crate::backend::Backend;
use crate::tls::{TlsFailure, TlsStream};
use rustix::io::Errno;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

impl Reactor {
    /// Passes a step of a connection's handshake to the thread.
    pub(super) fn pass_on<B: Backend>(&mut self, run: &mut Run<'_, B>, index: u16, stream: Box<TlsStream>) {
        let generation = self.connections.generation(index);
        // The socket is not watched meanwhile: a hang-up would be reported again and again.
        if let Some(socket) = self.connections.get_mut(index).and_then(|connection| connection.socket.as_ref()) {
            // Fails only where the socket was never added.
            let _ = self.poller.remove(socket, Source::Connection { index, generation });
        }
        let is_wanted = Arc::new(AtomicBool::new(true));
        if let Some(connection) = self.connections.get_mut(index) {
            connection.lent = Some(Arc::clone(&is_wanted));
        }
        match self.shaker.pass_on(Job { index, generation, stream, is_wanted }) {
            Ok(false) => {}
            Ok(true) => self.watch_foreign(run),
            Err(error) => {
                let why = format!("nobody is there to do it: {error}");
                self.close(run, index, CloseReason::Tls(TlsFailure::handshake(&why)));
            }
        }
    }

    /// Continues with the connections whose step is done.
    pub(super) fn take_shaken<B: Backend>(&mut self, run: &mut Run<'_, B>) {
        let mut done = Vec::new();
        self.shaker.take_done(&mut done);
        for (Job { index, generation, stream, .. }, step) in done {
            // The connection has ended meanwhile.
            let Some(connection) = self.connections.get_same(index, generation) else {
                continue;
            };
            let Some(socket) = &connection.socket else {
                continue;
            };
            let is_watched = self.poller.add(socket, Source::Connection { index, generation }, Events::READ).is_ok();
            connection.watched = Events::READ;
            connection.tls = Some(stream);
            connection.lent = None;
            match step {
                Ok(_) if !is_watched => self.close(run, index, CloseReason::Socket(Errno::NOMEM)),
                Ok(identity) => {
                    if let Some(identity) = identity {
                        connection.session.secured(identity);
                    }
                    // This also lists the connection, so that bytes of the step are sent.
                    self.serve(run, index, false);
                }
                Err(failure) => self.close(run, index, failure.into()),
            }
        }
    }
}
