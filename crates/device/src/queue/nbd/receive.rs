//! Receives replies. One read places the rest of a payload straight into the slot's buffer, and what follows into a
//! small staging area. So many small replies arrive at once, and large ones are not copied.

use super::flights::Flights;
use crate::nbd_client::stream::Stream;
use crate::nbd_client::wire::{self, Cursor};
use forebay_block::{Done, OpKind};
use std::io::{self, IoSliceMut};

/// Size of the staging area: bytes that may be read ahead and are then copied.
const STAGING_BYTES: usize = 16 << 10;
/// Longest error chunk: the strings of the protocol and a little more.
const ERROR_MAX_BYTES: usize = 64 << 10;
/// Most parts of one read. Finer parts break no rule, but no server sends them.
const PARTS_MAX: usize = 4096;
/// Most reads in one call: a server that sends without end must not hold the caller for ever.
const READS_MAX: u32 = 4096;

const PROTOCOL: i32 = libc::EPROTO;

#[derive(Debug)]
pub(super) struct Receiver {
    structured: bool,
    staging: Box<[u8]>,
    begin: usize,
    end: usize,
    state: State,
}

/// What is expected next.
#[derive(Clone, Copy, Debug)]
enum State {
    Header,
    /// Data of a read; `last`: the reply ends with it.
    Data {
        slot: u32,
        at: usize,
        left: usize,
        last: bool,
    },
    /// The rest of an error chunk, which is only text.
    Skip {
        slot: u32,
        left: usize,
        last: bool,
    },
}

impl Receiver {
    pub(super) fn new(structured: bool) -> Self {
        let staging = vec![0; STAGING_BYTES].into_boxed_slice();
        Self { structured, staging, begin: 0, end: 0, state: State::Header }
    }

    /// Takes in what has arrived, without waiting.
    ///
    /// # Errors
    /// The errno that ended the connection; EPROTO where the server broke the protocol.
    pub(super) fn receive(
        &mut self,
        stream: &mut Stream,
        flights: &mut Flights,
        finished: &mut Vec<Done>,
    ) -> Result<(), i32> {
        for _ in 0..READS_MAX {
            let (asked, result) = self.read(stream, flights);
            match result {
                Ok(0) => return Err(libc::ECONNRESET),
                Ok(count) => {
                    self.take(count);
                    self.parse(flights, finished)?;
                    // Less than was asked for: nothing more has arrived.
                    if count < asked || flights.busy == 0 {
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error.raw_os_error().unwrap_or(libc::EIO)),
            }
        }
        Ok(())
    }

    /// One read call. The staging area holds less than a header here, and nothing while data is expected.
    fn read(&mut self, stream: &mut Stream, flights: &mut Flights) -> (usize, io::Result<usize>) {
        self.staging.copy_within(self.begin..self.end, 0);
        (self.begin, self.end) = (0, self.end - self.begin);
        let room = &mut self.staging[self.end..];
        if let State::Data { slot, at, left, .. } = self.state {
            let asked = left + room.len();
            let data = &mut flights.arena.slice_mut(slot)[at..at + left];
            return (asked, stream.read_vectored(&mut [IoSliceMut::new(data), IoSliceMut::new(room)]));
        }
        (room.len(), stream.read(room))
    }

    /// Splits the bytes read between the slot's buffer and the staging area.
    fn take(&mut self, count: usize) {
        let mut direct = 0;
        if let State::Data { at, left, .. } = &mut self.state {
            direct = count.min(*left);
            *at += direct;
            *left -= direct;
        }
        self.end += count - direct;
    }

    /// Processes the staged bytes.
    fn parse(&mut self, flights: &mut Flights, finished: &mut Vec<Done>) -> Result<(), i32> {
        loop {
            let staged = self.end - self.begin;
            match &mut self.state {
                State::Header => {
                    if !self.header(flights, finished)? {
                        return Ok(());
                    }
                }
                State::Data { slot, at, left, last } => {
                    let count = staged.min(*left);
                    let from = &self.staging[self.begin..self.begin + count];
                    flights.arena.slice_mut(*slot)[*at..*at + count].copy_from_slice(from);
                    self.begin += count;
                    *at += count;
                    *left -= count;
                    if *left > 0 {
                        return Ok(());
                    }
                    let (slot, last) = (*slot, *last);
                    self.end_of_chunk(slot, last, flights, finished)?;
                }
                State::Skip { slot, left, last } => {
                    let count = staged.min(*left);
                    self.begin += count;
                    *left -= count;
                    if *left > 0 {
                        return Ok(());
                    }
                    let (slot, last) = (*slot, *last);
                    self.end_of_chunk(slot, last, flights, finished)?;
                }
            }
        }
    }

    fn end_of_chunk(
        &mut self,
        slot: u32,
        last: bool,
        flights: &mut Flights,
        finished: &mut Vec<Done>,
    ) -> Result<(), i32> {
        self.state = State::Header;
        if last { flights.end(slot, finished) } else { Ok(()) }
    }

    /// Consumes a header of the staged bytes; false where it is incomplete.
    fn header(&mut self, flights: &mut Flights, finished: &mut Vec<Done>) -> Result<bool, i32> {
        let staged = &self.staging[self.begin..self.end];
        let mut cursor = Cursor(staged);
        let Some(magic) = cursor.u32() else { return Ok(false) };
        if magic == wire::SIMPLE_REPLY_MAGIC {
            let (Some(errno), Some(cookie)) = (cursor.u32(), cursor.u64()) else { return Ok(false) };
            self.begin += 16;
            self.simple(errno, cookie, flights, finished)?;
            return Ok(true);
        }
        if magic != wire::STRUCTURED_REPLY_MAGIC || !self.structured {
            return Err(PROTOCOL);
        }
        let (Some(flags), Some(kind), Some(cookie), Some(len)) =
            (cursor.u16(), cursor.u16(), cursor.u64(), cursor.u32())
        else {
            return Ok(false);
        };
        let Some(used) = self.chunk(flags, kind, cookie, len, flights)? else { return Ok(false) };
        self.begin += used;
        Ok(true)
    }

    fn simple(&mut self, errno: u32, cookie: u64, flights: &mut Flights, finished: &mut Vec<Done>) -> Result<(), i32> {
        let slot = flights.slot_of(cookie)?;
        let io = flights.slots[slot as usize].io;
        if errno != 0 {
            flights.refuse(slot, errno, None);
        } else if io.kind == OpKind::Read {
            if self.structured {
                return Err(PROTOCOL);
            }
            flights.slots[slot as usize].parts.push((0, io.len_bytes));
            self.state = State::Data { slot, at: 0, left: io.len_bytes as usize, last: true };
            return Ok(());
        }
        flights.end(slot, finished)
    }

    /// Begins a chunk of a structured reply. Returns the length of the chunk's own header; `None` where it is
    /// incomplete.
    fn chunk(
        &mut self,
        flags: u16,
        kind: u16,
        cookie: u64,
        len: u32,
        flights: &mut Flights,
    ) -> Result<Option<usize>, i32> {
        const HEAD: usize = 20;
        let slot = flights.slot_of(cookie)?;
        let last = flags & wire::REPLY_FLAG_DONE != 0;
        let mut body = Cursor(&self.staging[self.begin + HEAD..self.end]);
        let read = flights.slots[slot as usize].io.kind == OpKind::Read;
        let used = match kind {
            wire::REPLY_TYPE_NONE if len == 0 => {
                self.state = State::Skip { slot, left: 0, last };
                HEAD
            }
            wire::REPLY_TYPE_OFFSET_DATA if read && len > 8 => {
                let Some(offset_bytes) = body.u64() else { return Ok(None) };
                let left = len as usize - 8;
                let at = part(flights, slot, offset_bytes, left as u64)?;
                self.state = State::Data { slot, at, left, last };
                HEAD + 8
            }
            wire::REPLY_TYPE_OFFSET_HOLE if read && len == 12 => {
                let (Some(offset_bytes), Some(hole)) = (body.u64(), body.u32()) else { return Ok(None) };
                let at = part(flights, slot, offset_bytes, u64::from(hole))?;
                flights.arena.slice_mut(slot)[at..at + hole as usize].fill(0);
                self.state = State::Skip { slot, left: 0, last };
                HEAD + 12
            }
            _ if kind & wire::REPLY_TYPE_ERROR_BIT != 0 && (6..=ERROR_MAX_BYTES).contains(&(len as usize)) => {
                let (Some(errno), Some(text)) = (body.u32(), body.u16()) else { return Ok(None) };
                if usize::from(text) > len as usize - 6 {
                    return Err(PROTOCOL);
                }
                flights.refuse(slot, errno, None);
                self.state = State::Skip { slot, left: len as usize - 6, last };
                HEAD + 6
            }
            _ => return Err(PROTOCOL),
        };
        Ok(Some(used))
    }
}

/// Notes a received part of a read's data; returns its place in the buffer.
fn part(flights: &mut Flights, slot: u32, offset_bytes: u64, len_bytes: u64) -> Result<usize, i32> {
    let flight = &mut flights.slots[slot as usize];
    let begin = offset_bytes.checked_sub(flight.io.offset_bytes).ok_or(PROTOCOL)?;
    let end = begin.checked_add(len_bytes).filter(|&end| end <= u64::from(flight.io.len_bytes) && len_bytes > 0);
    // Both are at most the length of the I/O, so they fit 32 bits.
    let (begin, end) = (begin as u32, end.ok_or(PROTOCOL)? as u32);
    let twice = flight.parts.iter().any(|&(other, other_end)| begin < other_end && other < end);
    if twice || flight.parts.len() >= PARTS_MAX {
        return Err(PROTOCOL);
    }
    flight.parts.push((begin, end));
    Ok(begin as usize)
}
