//! A pipelined NBD queue. Requests that are submitted together go out in one writev; payloads are read straight into
//! the buffers of slots. The handshake is that of [`crate::nbd_client`].

mod flights;
mod receive;
mod send;

use super::arena::Arena;
use super::{failure, refusal};
use crate::file::kernel;
use crate::nbd_client::stream::Stream;
use crate::nbd_client::{ClientOptions, ExportInfo, NbdClient, NbdError, NbdUri, PAYLOAD_MAX_BYTES};
use flights::{Flight, Flights};
use forebay_block::{Done, Io, IoError, IoErrorKind, OpKind, Queue};
use receive::Receiver;
use send::Sender;
use std::time::{Duration, Instant};

/// How long dropping a queue waits for replies.
const DROP_TIMEOUT: Duration = Duration::from_secs(5);

/// Connects and negotiates. A URI that names another machine counts as permission to connect there.
pub(super) fn connect(uri: &NbdUri) -> Result<(Stream, ExportInfo), NbdError> {
    let options = ClientOptions { remote: true, ..ClientOptions::default() };
    let client = NbdClient::connect(&uri.endpoint, &uri.export, &options)?;
    client.into_parts().ok_or(NbdError::Protocol { what: "it speaks before it is asked" })
}

/// A queue over a connection of its own. When the connection is lost, all I/Os in flight and all later ones fail with
/// [`IoErrorKind::Gone`].
#[derive(Debug)]
pub struct NbdQueue {
    stream: Stream,
    info: ExportInfo,
    flights: Flights,
    sender: Sender,
    receiver: Receiver,
    finished: Vec<Done>,
    read_only: bool,
    dsync: bool,
    /// The error that ended the connection: ECONNRESET and similar, or EPROTO where the server broke the protocol.
    lost: Option<i32>,
}

impl NbdQueue {
    pub(super) fn new(stream: Stream, info: ExportInfo, arena: Arena, read_only: bool, dsync: bool) -> Self {
        let idle = |slot: u32| Flight {
            io: Io { slot, kind: OpKind::Flush, len_bytes: 0, offset_bytes: 0, hint: 0 },
            cookie: u64::from(slot),
            busy: false,
            error: None,
            parts: Vec::with_capacity(1),
        };
        let slots: Vec<Flight> = (0..arena.slots()).map(idle).collect();
        Self {
            stream,
            receiver: Receiver::new(info.structured),
            sender: Sender::new(slots.len()),
            finished: Vec::with_capacity(slots.len()),
            info,
            flights: Flights { arena, slots, busy: 0 },
            read_only,
            dsync,
            lost: None,
        }
    }

    /// The error of an I/O that is not sent.
    #[cold]
    fn why_not(&self, io: &Io) -> Option<Box<IoError>> {
        let fail = |kind, os_error| Some(failure(kind, io.kind, io.offset_bytes, os_error));
        if let Some(os_error) = self.lost {
            return fail(IoErrorKind::Gone, os_error);
        }
        if io.kind.is_destructive() && (self.read_only || self.info.is_read_only()) {
            return fail(IoErrorKind::Unsupported, libc::EROFS);
        }
        if !self.is_offered(io.kind) {
            return fail(IoErrorKind::Unsupported, libc::EOPNOTSUPP);
        }
        if io.kind.has_data() && io.len_bytes > PAYLOAD_MAX_BYTES {
            return fail(IoErrorKind::Invalid, libc::EINVAL);
        }
        refusal(io, self.flights.arena.buffer_bytes())
    }

    #[inline]
    fn is_offered(&self, kind: OpKind) -> bool {
        match kind {
            OpKind::Read => true,
            OpKind::Write => !self.dsync || self.info.can_fua(),
            OpKind::WriteFua => self.info.can_fua(),
            OpKind::Trim => self.info.can_trim(),
            OpKind::Flush | OpKind::Fsync => self.info.can_flush(),
        }
    }

    #[inline]
    fn can_send(&self, io: &Io) -> bool {
        let writable = !io.kind.is_destructive() || !(self.read_only || self.info.is_read_only());
        let most = self.flights.arena.buffer_bytes().min(PAYLOAD_MAX_BYTES as usize);
        let fits = !io.kind.has_data() || io.len_bytes as usize <= most;
        self.lost.is_none() && writable && fits && self.is_offered(io.kind)
    }

    /// Marks the connection as lost, and fails everything in flight.
    #[cold]
    fn lose(&mut self, os_error: i32) {
        self.lost = Some(os_error);
        self.sender.clear();
        for flight in self.flights.slots.iter_mut().filter(|flight| flight.busy) {
            flight.busy = false;
            let error = failure(IoErrorKind::Gone, flight.io.kind, flight.io.offset_bytes, os_error);
            self.finished.push(Done { slot: flight.io.slot, error: Some(error) });
        }
        self.flights.busy = 0;
    }

    fn flush(&mut self) {
        if let Err(os_error) = self.sender.send(&mut self.stream, &self.flights) {
            // Replies that the server sent before it closed the connection can still be read.
            let _ = self.receiver.receive(&mut self.stream, &mut self.flights, &mut self.finished);
            self.lose(os_error);
        }
    }
}

impl Queue for NbdQueue {
    fn slots(&self) -> u32 {
        self.flights.arena.slots()
    }

    fn buffer_bytes(&self) -> usize {
        self.flights.arena.buffer_bytes()
    }

    #[inline]
    fn buffer(&mut self, slot: u32) -> &mut [u8] {
        self.flights.arena.slice_mut(slot)
    }

    /// # Panics
    /// The slot is in flight already.
    fn submit(&mut self, io: &Io) {
        let flight = &mut self.flights.slots[io.slot as usize];
        assert!(!flight.busy, "slot {} is in flight", io.slot);
        flight.io = *io;
        if !self.can_send(io) {
            let error = self.why_not(io);
            self.finished.push(Done { slot: io.slot, error });
            return;
        }
        let flight = &mut self.flights.slots[io.slot as usize];
        flight.busy = true;
        flight.cookie = flight.cookie.wrapping_add(1 << 32);
        flight.error = None;
        flight.parts.clear();
        self.flights.busy += 1;
        self.sender.gather(io, flight.cookie, self.dsync);
    }

    fn kick(&mut self) {
        if !self.sender.is_empty() && self.lost.is_none() {
            self.flush();
        }
    }

    fn reap(&mut self, done: &mut Vec<Done>) {
        if self.flights.busy > 0 && self.lost.is_none() {
            if !self.sender.is_empty() {
                self.flush();
            }
            if self.lost.is_none()
                && let Err(os_error) = self.receiver.receive(&mut self.stream, &mut self.flights, &mut self.finished)
            {
                self.lose(os_error);
            }
        }
        done.append(&mut self.finished);
    }

    fn wait(&mut self, timeout_ns: u64) {
        self.kick();
        if self.flights.busy == 0 || !self.finished.is_empty() {
            return;
        }
        let events = libc::POLLIN | if self.sender.is_empty() { 0 } else { libc::POLLOUT };
        kernel::poll_until(&mut [libc::pollfd { fd: self.stream.fd(), events, revents: 0 }], timeout_ns);
    }

    fn in_flight(&self) -> u32 {
        self.flights.busy + self.finished.len() as u32
    }
}

impl Drop for NbdQueue {
    /// Waits for the replies in flight before it disconnects, as the protocol requires (doc/proto.md, NBD_CMD_DISC).
    /// Also, nbdkit 1.32 fails an assertion where a client disconnects in the middle of replies.
    fn drop(&mut self) {
        let started = Instant::now();
        let mut forgotten = Vec::new();
        while self.flights.busy > 0 && started.elapsed() < DROP_TIMEOUT {
            self.wait(100_000_000);
            self.reap(&mut forgotten);
            forgotten.clear();
        }
        if self.lost.is_none() && self.flights.busy == 0 {
            // An error of the last message does not matter.
            let _ = self.stream.write(&send::disconnect());
        }
    }
}

#[cfg(test)]
mod tests;
