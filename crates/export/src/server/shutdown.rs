//! A clean stop: finish what is in flight, flush every exported disk, let clients take their answers.

use super::config::ServerError;
use super::connections::Connections;
use super::frontends::Frontends;
use crate::backend::Backend;
use crate::exports::Exports;
use forebay_volume::{Completion, Op, Request, RequestError};
use std::collections::BTreeSet;

/// Where a stop has got to.
#[derive(Debug)]
pub struct Shutdown {
    deadline_ns: u64,
    timeout_ns: u64,
    /// Flushes not yet completed; `None` before they were submitted.
    flushes: Option<usize>,
    failure: Option<RequestError>,
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
        Self { deadline_ns: now_ns.saturating_add(timeout_ns), timeout_ns, flushes: None, failure: None }
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
                // Answers that clients do not take are no reason to wait for ever.
                let answered = connections.iter().all(|(_, c)| c.session.in_flight() == 0 && !c.has_unsent());
                Ok(answered || late)
            }
            _ if late => Err(ServerError::StopTimedOut {
                requests: in_flight + self.flushes.unwrap_or(0),
                timeout_ns: self.timeout_ns,
            }),
            _ => Ok(false),
        }
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
