//! A clean stop: finish what is in flight, flush every exported disk, let clients take their answers.

use super::config::ServerError;
use super::connections::Connections;
use super::frontends::Frontends;
use super::outcome::CloseReason;
use crate::backend::Backend;
use crate::exports::Exports;
use forebay_volume::{Completion, Op, Request, RequestError};
use std::collections::{BTreeMap, BTreeSet};

/// All is flushed, and a client whose socket takes nothing of its answers for so long reads none: it is not waited for. One that takes them
/// slowly is, to the end of the time for the whole stop.
const SILENCE_NS: u64 = 3_000_000_000;

/// A client that has not taken all its answers.
#[derive(Debug)]
struct Unsent {
    /// What its socket had taken at the last change.
    taken_bytes: u64,
    since_ns: u64,
}

/// Where a stop has got to.
#[derive(Debug)]
pub struct Shutdown {
    deadline_ns: u64,
    timeout_ns: u64,
    /// Flushes not yet completed; `None` before they were submitted.
    flushes: Option<usize>,
    failure: Option<RequestError>,
    /// By the places of connections, in which nobody follows another any more.
    unsent: BTreeMap<u16, Unsent>,
}

impl Shutdown {
    /// Starts to stop: from now on clients get an error that says so.
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

    /// Does the next step; returns whether all is done and connections can be closed.
    ///
    /// # Errors
    /// Where the flush failed, or requests did not finish in time.
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

    /// Whether each client has its answers, or takes none.
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

    /// Why a connection ends that is there when all is done.
    pub fn reason(&self, index: u16) -> CloseReason {
        if self.unsent.contains_key(&index) { CloseReason::Unread } else { CloseReason::Stopped }
    }

    /// Takes note of a flush's end.
    pub fn flushed(&mut self, completion: Completion) {
        if let Some(left) = &mut self.flushes {
            *left = left.saturating_sub(1);
        }
        if let Err(error) = completion.result {
            self.failure.get_or_insert(error);
        }
    }
}
