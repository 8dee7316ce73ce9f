//! Sends requests: headers and payloads of many requests in one writev.

use super::flights::Flights;
use crate::nbd_client::stream::Stream;
use crate::nbd_client::wire;
use forebay_block::{Io, OpKind};
use std::collections::VecDeque;
use std::io::{self, IoSlice};

const HEADER_BYTES: usize = 28;
/// Most pieces of memory in one call; far below UIO_MAXIOV.
const PIECES_MAX: usize = 128;
/// Most calls in one submission: a socket that takes a little each time must not hold the caller for ever.
const CALLS_MAX: u32 = 4096;

#[derive(Debug)]
pub(super) struct Sender {
    headers: Vec<[u8; HEADER_BYTES]>,
    queue: VecDeque<u32>,
    /// Bytes of the first request that were sent.
    sent_bytes: usize,
}

/// The header of a request (doc/proto.md, "Request message").
fn header(flags: u16, command: u16, cookie: u64, offset_bytes: u64, len_bytes: u32) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[0..4].copy_from_slice(&wire::REQUEST_MAGIC.to_be_bytes());
    header[4..6].copy_from_slice(&flags.to_be_bytes());
    header[6..8].copy_from_slice(&command.to_be_bytes());
    header[8..16].copy_from_slice(&cookie.to_be_bytes());
    header[16..24].copy_from_slice(&offset_bytes.to_be_bytes());
    header[24..28].copy_from_slice(&len_bytes.to_be_bytes());
    header
}

/// The request that ends a connection.
pub(super) fn disconnect() -> [u8; HEADER_BYTES] {
    header(0, wire::CMD_DISC, 0, 0, 0)
}

fn payload_bytes(io: &Io) -> usize {
    if matches!(io.kind, OpKind::Write | OpKind::WriteFua) { io.len_bytes as usize } else { 0 }
}

impl Sender {
    pub(super) fn new(slots: usize) -> Self {
        Self { headers: vec![[0; HEADER_BYTES]; slots], queue: VecDeque::with_capacity(slots), sent_bytes: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.queue.clear();
        self.sent_bytes = 0;
    }

    #[inline]
    pub(super) fn gather(&mut self, io: &Io, cookie: u64, dsync: bool) {
        let command = match io.kind {
            OpKind::Read => wire::CMD_READ,
            OpKind::Write | OpKind::WriteFua => wire::CMD_WRITE,
            OpKind::Trim => wire::CMD_TRIM,
            OpKind::Flush | OpKind::Fsync => wire::CMD_FLUSH,
        };
        let durable = io.kind == OpKind::WriteFua || (dsync && io.kind == OpKind::Write);
        let flags = if durable { wire::CMD_FLAG_FUA } else { 0 };
        // A flush has neither offset nor length (doc/proto.md, NBD_CMD_FLUSH).
        let flush = matches!(io.kind, OpKind::Flush | OpKind::Fsync);
        let (offset_bytes, len_bytes) = if flush { (0, 0) } else { (io.offset_bytes, io.len_bytes) };
        self.headers[io.slot as usize] = header(flags, command, cookie, offset_bytes, len_bytes);
        self.queue.push_back(io.slot);
    }

    /// Sends as much as the socket takes.
    ///
    /// # Errors
    /// The errno that ended the connection.
    pub(super) fn send(&mut self, stream: &mut Stream, flights: &Flights) -> Result<(), i32> {
        for _ in 0..CALLS_MAX {
            if self.queue.is_empty() {
                return Ok(());
            }
            let mut pieces = [IoSlice::new(&[]); PIECES_MAX];
            let mut count = 0;
            let mut skip = self.sent_bytes;
            for &slot in self.queue.iter().take(PIECES_MAX / 2) {
                let payload = payload_bytes(&flights.slots[slot as usize].io);
                let parts = [&self.headers[slot as usize][..], &flights.arena.slice(slot)[..payload]];
                for part in parts {
                    let rest = &part[skip.min(part.len())..];
                    skip -= skip.min(part.len());
                    if !rest.is_empty() {
                        pieces[count] = IoSlice::new(rest);
                        count += 1;
                    }
                }
            }
            match stream.write_vectored(&pieces[..count]) {
                Ok(0) => return Err(libc::EPIPE),
                Ok(taken) => self.advance(taken, flights),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error.raw_os_error().unwrap_or(libc::EIO)),
            }
        }
        Ok(())
    }

    fn advance(&mut self, taken: usize, flights: &Flights) {
        self.sent_bytes += taken;
        while let Some(&slot) = self.queue.front() {
            let whole = HEADER_BYTES + payload_bytes(&flights.slots[slot as usize].io);
            if self.sent_bytes < whole {
                return;
            }
            self.sent_bytes -= whole;
            self.queue.pop_front();
        }
    }
}
