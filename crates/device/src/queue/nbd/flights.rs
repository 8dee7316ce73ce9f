//! I/Os in flight and their buffers.

use crate::file::transfer::kind_of;
use crate::queue::arena::Arena;
use crate::queue::failure;
use forebay_block::{Done, Io, IoError, OpKind};

/// All I/Os in flight and their buffers.
#[derive(Debug)]
pub(super) struct Flights {
    pub arena: Arena,
    pub slots: Vec<Flight>,
    pub busy: u32,
}

/// One I/O in flight.
#[derive(Debug)]
pub(super) struct Flight {
    pub io: Io,
    /// Cookie of the request; its lower half is the slot.
    pub cookie: u64,
    pub busy: bool,
    /// The server's error. The reply may continue after it.
    pub error: Option<Box<IoError>>,
    /// Received parts of a read: begin and end.
    pub parts: Vec<(u32, u32)>,
}

impl Flights {
    /// Completes an I/O after the server's last message on it.
    pub fn end(&mut self, slot: u32, finished: &mut Vec<Done>) -> Result<(), i32> {
        let flight = &mut self.slots[slot as usize];
        let error = flight.error.take();
        if error.is_none() && flight.io.kind == OpKind::Read {
            // Parts lie inside the range and are disjoint, so their sum shows whether the data is complete.
            let sum: u32 = flight.parts.iter().map(|(begin, end)| end - begin).sum();
            if sum != flight.io.len_bytes {
                return Err(libc::EPROTO);
            }
        }
        flight.busy = false;
        self.busy -= 1;
        finished.push(Done { slot, error });
        Ok(())
    }

    /// The slot of a reply.
    #[inline]
    pub fn slot_of(&self, cookie: u64) -> Result<u32, i32> {
        let slot = cookie as u32;
        match self.slots.get(slot as usize) {
            Some(flight) if flight.busy && flight.cookie == cookie => Ok(slot),
            _ => Err(libc::EPROTO),
        }
    }

    /// Notes an error that the server reports.
    pub fn refuse(&mut self, slot: u32, errno: u32, offset_bytes: Option<u64>) {
        // Errors of the protocol have the numbers of Linux (doc/proto.md, "Error values"). An error with number 0 is
        // an error all the same.
        let os_error = i32::try_from(errno).ok().filter(|&errno| errno != 0).unwrap_or(libc::EINVAL);
        let flight = &mut self.slots[slot as usize];
        let at = offset_bytes.unwrap_or(flight.io.offset_bytes);
        flight.error.get_or_insert_with(|| failure(kind_of(os_error), flight.io.kind, at, os_error));
    }
}
