//! A clean stop: complete requests in flight, flush every writable exported disk, and let clients receive their
//! answers.

use super::config::ServerError;
use super::connections::Connections;
use super::frontends::Frontends;
use super::outcome::CloseReason;
use crate::backend::Backend;
use crate::exports::Exports;
use forebay_volume::{Completion, Op, Request, RequestError};
use std::collections::{BTreeMap, BTreeSet};

/// After the flush, a client whose socket takes nothing for this long counts as one that does not read, and is not
/// waited for. A client that reads slowly is waited for until the time limit of the whole stop.
const SILENCE_NS: u64 = 3_000_000_000;

/// A client that has not received all its answers.
#[derive(Debug)]
struct Unsent {
    /// Count of bytes that its socket had taken at the last change.
    taken_bytes: u64,
    since_ns: u64,
}

/// Progress of a stop.
#[derive(Debug)]
pub struct Shutdown {
    deadline_ns: u64,
    timeout_ns: u64,
    /// Flushes in flight; `None` before they are submitted.
    flushes: Option<usize>,
    failure: Option<RequestError>,
    /// By the place of the connection; no place gets another connection during a stop.
    unsent: BTreeMap<u16, Unsent>,
}

impl Shutdown {
    /// Begins the stop: from now on requests are answered by an error that says so.
    pub fn begin(connections: &mut Connections, frontends: &mut Frontends, now_ns: u64, timeout_ns: u64) -> Self {
        for index in connections.indices() {
            if let Some(connection) = connections.get_mut(index) {
                connection.session.begin_shutdown();
            }
        }
        frontends.begin_shutdown();
        Self {
            deadline_ns: now_ns.saturating_add(timeout_ns),
            timeout_ns,
            flushes: None,
            failure: None,
            unsent: BTreeMap::new(),
        }
    }

    /// Advances the stop. Returns whether everything is done, so that connections can be closed.
    ///
    /// # Errors
    /// The flush failed, or requests did not complete in time.
    pub fn advance<B: Backend>(
        &mut self,
        connections: &Connections,
        frontends: &Frontends,
        exports: &Exports,
        backend: &mut B,
        now_ns: u64,
    ) -> Result<bool, ServerError> {
        let in_flight = connections.in_flight() + frontends.in_flight();
        let late = now_ns >= self.deadline_ns;
        match self.flushes {
            None if in_flight == 0 => {
                let disks: BTreeSet<_> =
                    exports.iter().filter(|(_, e)| !e.read_only).map(|(index, e)| (e.disk, index)).collect();
                let mut last = None;
                let mut submitted = 0u16;
                for (disk, export) in disks {
                    if last == Some(disk) {
                        continue;
                    }
                    last = Some(disk);
                    backend.submit(Request {
                        export,
                        ..Request::new(Connections::own_token(submitted), disk, 0, 0, Op::Flush)
                    });
                    submitted += 1;
                }
                self.flushes = Some(usize::from(submitted));
                Ok(false)
            }
            Some(0) => {
                if let Some(source) = self.failure.take() {
                    return Err(ServerError::FinalFlush { source });
                }
                Ok(self.all_have_answers(connections, now_ns) || late)
            }
            _ if late => Err(ServerError::StopTimedOut {
                requests: in_flight + self.flushes.unwrap_or(0),
                timeout_ns: self.timeout_ns,
            }),
            _ => Ok(false),
        }
    }

    /// Whether each client has received its answers, or has stopped reading.
    fn all_have_answers(&mut self, connections: &Connections, now_ns: u64) -> bool {
        let mut all = true;
        for (index, connection) in connections.iter() {
            if connection.session.in_flight() > 0 {
                all = false;
            } else if connection.has_unsent() {
                let taken_bytes = connection.taken_bytes;
                let unsent = self.unsent.entry(index).or_insert(Unsent { taken_bytes, since_ns: now_ns });
                if unsent.taken_bytes != taken_bytes {
                    *unsent = Unsent { taken_bytes, since_ns: now_ns };
                }
                all &= now_ns - unsent.since_ns >= SILENCE_NS;
            } else {
                self.unsent.remove(&index);
            }
        }
        all
    }

    /// The reason with which a connection is closed that still exists at the end.
    pub fn reason(&self, index: u16) -> CloseReason {
        if self.unsent.contains_key(&index) { CloseReason::Unread } else { CloseReason::Stopped }
    }

    /// Takes the completion of a flush.
    pub fn flushed(&mut self, completion: Completion) {
        if let Some(left) = &mut self.flushes {
            *left = left.saturating_sub(1);
        }
        if let Err(error) = completion.result {
            self.failure.get_or_insert(error);
        }
    }
}
