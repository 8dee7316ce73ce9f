//! A command in flight and the parts of its reply.

use super::error::NbdError;
use super::wire::{self, Cursor};
use std::collections::BTreeMap;

/// What a command asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Read.
    Read,
    /// Write.
    Write,
    /// Flush.
    Flush,
    /// Trim.
    Trim,
    /// Write zeroes.
    WriteZeroes,
}

impl Command {
    pub(super) fn code(self) -> u16 {
        match self {
            Self::Read => wire::CMD_READ,
            Self::Write => wire::CMD_WRITE,
            Self::Flush => wire::CMD_FLUSH,
            Self::Trim => wire::CMD_TRIM,
            Self::WriteZeroes => wire::CMD_WRITE_ZEROES,
        }
    }
}

/// A server's error for a command.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server reports error {errno}{}{message}", if message.is_empty() { "" } else { ": " })]
pub struct ServerError {
    /// Error number of the protocol, with the values of Linux: 1, 5, 12, 22, 28, 75, 95 or 108.
    pub errno: u32,
    /// The server's message, escaped; may be empty.
    pub message: String,
}

/// The end of a command.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The command's cookie, as its submission returned it.
    pub cookie: u64,
    /// The kind of the command.
    pub command: Command,
    /// Offset of the command, in bytes.
    pub offset_bytes: u64,
    /// Success, or the server's error.
    pub result: Result<(), ServerError>,
    /// Data of a read, in full length; empty for other commands and on an error.
    pub data: Vec<u8>,
}

#[derive(Debug)]
pub(super) struct Pending {
    command: Command,
    offset_bytes: u64,
    len_bytes: u32,
    data: Vec<u8>,
    /// Received parts of the data: end by start.
    parts: BTreeMap<u64, u64>,
    error: Option<ServerError>,
}

fn protocol(what: &'static str) -> NbdError {
    NbdError::Protocol { what }
}

impl Pending {
    pub(super) fn new(command: Command, offset_bytes: u64, len_bytes: u32) -> Self {
        let data = if command == Command::Read { vec![0; len_bytes as usize] } else { Vec::new() };
        Self { command, offset_bytes, len_bytes, data, parts: BTreeMap::new(), error: None }
    }

    /// Count of payload bytes that follow a simple reply.
    pub(super) fn simple_payload_len(&self, errno: u32) -> usize {
        if self.command == Command::Read && errno == 0 { self.len_bytes as usize } else { 0 }
    }

    pub(super) fn simple(&mut self, errno: u32, payload: &[u8]) {
        if errno != 0 {
            self.error = Some(ServerError { errno, message: String::new() });
        } else if self.command == Command::Read {
            self.data.copy_from_slice(payload);
            self.parts.insert(0, u64::from(self.len_bytes));
        }
    }

    /// Longest payload of a chunk of this type in this reply.
    pub(super) fn chunk_max_bytes(&self, kind: u16) -> u32 {
        match kind {
            wire::REPLY_TYPE_OFFSET_DATA => self.len_bytes.saturating_add(8),
            _ => 64 << 10,
        }
    }

    pub(super) fn chunk(&mut self, kind: u16, payload: &[u8]) -> Result<(), NbdError> {
        let mut cursor = Cursor(payload);
        let short = || protocol("a truncated chunk");
        match (kind, self.command) {
            (wire::REPLY_TYPE_NONE, _) if payload.is_empty() => {}
            (wire::REPLY_TYPE_OFFSET_DATA, Command::Read) => {
                let offset = cursor.u64().ok_or_else(short)?;
                let start = self.part(offset, cursor.0.len() as u64)?;
                self.data[start..start + cursor.0.len()].copy_from_slice(cursor.0);
            }
            (wire::REPLY_TYPE_OFFSET_HOLE, Command::Read) if payload.len() == 12 => {
                let (offset, len) = (cursor.u64().ok_or_else(short)?, cursor.u32().ok_or_else(short)?);
                // The buffer is zero already, and no other part may cover this one.
                self.part(offset, u64::from(len))?;
            }
            (kind, _) if kind & wire::REPLY_TYPE_ERROR_BIT != 0 => {
                let (errno, len) = (cursor.u32().ok_or_else(short)?, cursor.u16().ok_or_else(short)?);
                let message = cursor.take(usize::from(len)).ok_or_else(short)?;
                let message = String::from_utf8_lossy(message).escape_debug().to_string();
                // An error with number 0 is an error all the same.
                let errno = if errno == 0 { libc::EINVAL as u32 } else { errno };
                self.error.get_or_insert(ServerError { errno, message });
            }
            _ => return Err(protocol("a chunk that does not belong to its command")),
        }
        Ok(())
    }

    /// Notes a received part of the data; returns its place in the buffer.
    fn part(&mut self, offset_bytes: u64, len_bytes: u64) -> Result<usize, NbdError> {
        let start =
            offset_bytes.checked_sub(self.offset_bytes).ok_or_else(|| protocol("data before what was asked"))?;
        let end = start.checked_add(len_bytes).filter(|&end| end <= u64::from(self.len_bytes) && len_bytes > 0);
        let end = end.ok_or_else(|| protocol("data beyond what was asked, or none"))?;
        // Parts are disjoint, so only the last one that begins before `end` can overlap.
        if self.parts.range(..end).next_back().is_some_and(|(_, &before)| before > start) {
            return Err(protocol("the same data twice"));
        }
        self.parts.insert(start, end);
        Ok(start as usize)
    }

    pub(super) fn finish(mut self, cookie: u64) -> Result<Reply, NbdError> {
        let result = match self.error {
            Some(error) => {
                self.data.clear();
                Err(error)
            }
            None if self.command == Command::Read => {
                // Parts lie inside the range and are disjoint, so their sum shows whether the data is complete.
                let sum: u64 = self.parts.iter().map(|(start, end)| end - start).sum();
                if sum != u64::from(self.len_bytes) {
                    return Err(protocol("a read with a gap"));
                }
                Ok(())
            }
            None => Ok(()),
        };
        let Self { command, offset_bytes, data, .. } = self;
        Ok(Reply { cookie, command, offset_bytes, result, data })
    }
}
