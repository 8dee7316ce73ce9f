//! The attached front ends, beside the NBD connections: passes on their requests and the results.

use super::outcome::CloseReason;
use crate::backend::Backend;
use crate::exports::Exports;
use crate::frontend::{FrontRequest, Frontend, judge};
use crate::nbd::session::SessionStats;
use crate::server::Peer;
use forebay_volume::{Completion, Op, Request, RequestError};
use thiserror::Error;

/// Most front ends at a time. Their tokens lie between those of connections and the server's own.
pub const FRONTENDS_MAX: usize = 0xff;
/// First place of front ends in a token, see `Connections::token`.
const PLACE_FIRST: u64 = 0xff00;

/// There are as many front ends as allowed.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("no more than {FRONTENDS_MAX} front ends at a time")]
pub struct TooManyFrontends;

#[derive(Debug)]
struct Attached {
    frontend: Box<dyn Frontend>,
    export: u16,
    /// The backend's session number of the client; 0 before the first client.
    number: u64,
    /// Count of clients so far.
    clients: u64,
    in_flight: usize,
    /// The reason for detaching it, once it has nothing in flight.
    over: Option<CloseReason>,
    /// Whether any request completed since the last send.
    listed: bool,
}

/// A place for a front end. The generation distinguishes its successive front ends.
#[derive(Debug, Default)]
struct Place {
    generation: u32,
    attached: Option<Attached>,
}

/// All attached front ends.
#[derive(Debug, Default)]
pub struct Frontends {
    places: Vec<Place>,
    used: usize,
    /// Whether the set of front ends has changed since the descriptors were collected.
    changed: bool,
    received: Vec<FrontRequest>,
}

impl Frontends {
    /// Attaches a front end to an export.
    pub fn attach(&mut self, frontend: Box<dyn Frontend>, export: u16) -> Result<(), TooManyFrontends> {
        let attached =
            Some(Attached { frontend, export, number: 0, clients: 0, in_flight: 0, over: None, listed: false });
        match self.places.iter().position(|place| place.attached.is_none()) {
            Some(free) => self.places[free].attached = attached,
            None if self.places.len() >= FRONTENDS_MAX => return Err(TooManyFrontends),
            None => self.places.push(Place { generation: 0, attached }),
        }
        self.used += 1;
        self.changed = true;
        Ok(())
    }

    /// Whether there is none; this common case costs one comparison.
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Whether a token belongs to a front end.
    pub fn is_theirs(token: u64) -> bool {
        let place = token >> 16 & 0xffff;
        (PLACE_FIRST..PLACE_FIRST + FRONTENDS_MAX as u64).contains(&place)
    }

    /// Count of requests in flight.
    pub fn in_flight(&self) -> usize {
        self.iter().map(|attached| attached.in_flight).sum()
    }

    /// Clients that use an export through front ends now.
    pub fn peers(&self, export: u16) -> impl Iterator<Item = Peer> {
        self.iter().filter(move |attached| attached.export == export).filter_map(|attached| attached.frontend.peer())
    }

    /// Whether the descriptors must be collected again; resets the answer.
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Appends descriptors that signal requests.
    pub fn wake_fds(&self, out: &mut Vec<i32>) {
        self.iter().filter(|attached| attached.over.is_none()).for_each(|attached| attached.frontend.wake_fds(out));
    }

    /// Submits waiting requests. Returns whether there were any.
    pub fn receive<B: Backend>(
        &mut self,
        exports: &Exports,
        payload_bytes_max: u32,
        is_stopping: bool,
        stats: &mut SessionStats,
        backend: &mut B,
    ) -> bool {
        let mut any = false;
        for (place, slot) in (PLACE_FIRST..).zip(&mut self.places) {
            let Some(attached) = slot.attached.as_mut().filter(|attached| attached.over.is_none()) else {
                continue;
            };
            let Some(export) = exports.get(attached.export) else {
                attached.over = Some(CloseReason::ExportRemoved);
                continue;
            };
            if let Err(error) = attached.frontend.receive(&mut self.received) {
                attached.over = Some(CloseReason::Frontend(error));
            }
            any |= !self.received.is_empty();
            // The received requests belong to the newest client: a client only follows another when all requests of
            // that one have ended.
            let clients = attached.frontend.clients();
            if clients != attached.clients {
                backend.end_session(attached.number);
                (attached.clients, attached.number) = (clients, backend.begin_session(export.writable_disk()));
            }
            for request in self.received.drain(..) {
                let judged = if is_stopping { Err(RequestError::ShuttingDown) } else { Ok(()) };
                if let Err(error) = judged.and_then(|()| judge(&request, export, payload_bytes_max)) {
                    attached.frontend.complete(request.token, Err(error));
                    attached.listed = true;
                    continue;
                }
                attached.in_flight += 1;
                stats.requests += 1;
                match &request.op {
                    Op::Read => stats.read_bytes += request.len_bytes,
                    Op::Write(_) => stats.written_bytes += request.len_bytes,
                    _ => {}
                }
                backend.submit(Request {
                    token: u64::from(slot.generation) << 32 | place << 16 | u64::from(request.token),
                    disk: export.disk,
                    offset_bytes: request.offset_bytes,
                    len_bytes: request.len_bytes,
                    op: request.op,
                    fua: request.fua,
                    export: attached.export,
                    session: attached.number,
                    tag: export.tag,
                    hints: request.hints,
                });
            }
        }
        any
    }

    /// Passes a completion to its front end.
    pub fn complete(&mut self, completion: Completion) {
        // The caller has checked `is_theirs`.
        let place = ((completion.token >> 16 & 0xffff) - PLACE_FIRST) as usize;
        let same = |place: &&mut Place| u64::from(place.generation) == completion.token >> 32;
        let Some(attached) = self.places.get_mut(place).filter(same).and_then(|place| place.attached.as_mut()) else {
            return;
        };
        attached.in_flight -= 1;
        attached.listed = true;
        attached.frontend.complete(completion.token as u16, completion.result);
    }

    /// Ends an iteration: results go to the clients. Calls `ended` with reason, peer and session number of each front
    /// end that was detached.
    pub fn send(&mut self, mut ended: impl FnMut(CloseReason, Peer, u64)) {
        for place in &mut self.places {
            let Some(attached) = &mut place.attached else {
                continue;
            };
            if std::mem::take(&mut attached.listed)
                && let Err(error) = attached.frontend.send()
            {
                attached.over.get_or_insert(CloseReason::Frontend(error));
            }
            if attached.over.is_none() || attached.in_flight > 0 {
                continue;
            }
            if let Some(Attached { frontend, over: Some(reason), number, .. }) = place.attached.take() {
                place.generation = place.generation.wrapping_add(1);
                self.used -= 1;
                self.changed = true;
                ended(reason, frontend.peer().unwrap_or(Peer::Unknown), number);
            }
        }
    }

    /// Whether the front ends allow the server to sleep. [`Frontends::awake`] must follow.
    pub fn may_sleep(&mut self) -> bool {
        let mut all = true;
        for attached in self.iter_mut().filter(|attached| attached.over.is_none()) {
            // All of them are called, because each must signal from now on.
            all &= attached.frontend.may_sleep();
        }
        all
    }

    /// Called after the server's sleep, or instead of it.
    pub fn awake(&mut self) {
        self.iter_mut().for_each(|attached| attached.frontend.awake());
    }

    /// Passes on the new size of an export.
    pub fn resized(&mut self, export: u16, size_bytes: u64) {
        let of_export = self.iter_mut().filter(|attached| attached.export == export);
        of_export.for_each(|attached| attached.frontend.resized(size_bytes));
    }

    /// Notifies all front ends that the server is stopping.
    pub fn begin_shutdown(&mut self) {
        self.iter_mut().for_each(|attached| attached.frontend.begin_shutdown());
    }

    /// Detaches all front ends.
    pub fn close(&mut self, mut ended: impl FnMut(CloseReason, Peer)) {
        for place in &mut self.places {
            if let Some(attached) = place.attached.take() {
                place.generation = place.generation.wrapping_add(1);
                ended(CloseReason::Stopped, attached.frontend.peer().unwrap_or(Peer::Unknown));
            }
        }
        self.used = 0;
    }

    fn iter(&self) -> impl Iterator<Item = &Attached> {
        self.places.iter().filter_map(|place| place.attached.as_ref())
    }

    fn iter_mut(&mut self) -> impl Iterator<Item = &mut Attached> {
        self.places.iter_mut().filter_map(|place| place.attached.as_mut())
    }
}
