//! Replies of the transmission phase in the three forms that can be negotiated ("Simple reply message", "Structured
//! reply chunk message", and extended headers).

use super::context::ContextSet;
use super::error::Errno;
use super::handshake::Style;
use super::outgoing::Outgoing;
use super::wire::{self, chunk};
use forebay_block::Buf;
use forebay_volume::Extent;

/// Longest text sent with an error, in bytes; well below the protocol's 4096.
const MESSAGE_BYTES_MAX: usize = 512;

/// The request to be answered, and the form of the reply.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// Negotiated form.
    pub style: Style,
    /// The client's identifier of the request.
    pub cookie: u64,
    /// Offset of the request in bytes; extended replies repeat it.
    pub offset_bytes: u64,
}

impl Answer {
    /// Success without payload. A simple reply is allowed beside structured ones, and is shorter.
    pub fn done(self, out: &mut Outgoing) {
        if self.style == Style::Extended {
            self.chunk(out, wire::CHUNK_DONE, chunk::NONE, 0);
        } else {
            self.simple(out, 0);
        }
    }

    /// Data of a read, in one chunk.
    pub fn data(self, out: &mut Outgoing, data: Buf) {
        if self.style == Style::Simple {
            self.simple(out, 0);
        } else {
            self.chunk(out, wire::CHUNK_DONE, chunk::OFFSET_DATA, 8 + data.len());
            out.put(&self.offset_bytes.to_be_bytes());
        }
        out.put_data(data);
    }

    /// An error with a text and, where known, the offset inside the export.
    pub fn error(self, out: &mut Outgoing, errno: Errno, message: &str, at_bytes: Option<u64>) {
        let mut end = message.len().min(MESSAGE_BYTES_MAX);
        while !message.is_char_boundary(end) {
            end -= 1;
        }
        let message = &message.as_bytes()[..end];
        if self.style == Style::Simple {
            // Clients with simple replies do not know EOVERFLOW, which belongs to structured replies.
            let errno = if errno == Errno::Overflow { Errno::Invalid } else { errno };
            self.simple(out, errno as u32);
            return;
        }
        let kind = if at_bytes.is_some() { chunk::ERROR_OFFSET } else { chunk::ERROR };
        let len = 6 + message.len() + if at_bytes.is_some() { 8 } else { 0 };
        self.chunk(out, wire::CHUNK_DONE, kind, len);
        out.put(&(errno as u32).to_be_bytes());
        out.put(&(message.len() as u16).to_be_bytes());
        out.put(message);
        if let Some(at_bytes) = at_bytes {
            out.put(&at_bytes.to_be_bytes());
        }
    }

    /// Extents, one chunk per context. Nothing is reported beyond `limit_bytes`, the length of the request. `one`: at
    /// most one extent per context. `scratch` is working space.
    ///
    /// The caller ensures that there is an extent with a length above 0 and that structured replies were negotiated.
    /// With compact headers `limit_bytes` must fit in 32 bits, as the request's length does.
    pub fn status(
        self,
        out: &mut Outgoing,
        contexts: ContextSet,
        extents: &[Extent],
        limit_bytes: u64,
        one: bool,
        scratch: &mut Vec<(u64, u32)>,
    ) {
        let max = if one { 1 } else { usize::MAX };
        let mut left = contexts.iter().count();
        for context in contexts.iter() {
            context.descriptors(extents, limit_bytes, max, scratch);
            left -= 1;
            let flags = if left == 0 { wire::CHUNK_DONE } else { 0 };
            if self.style == Style::Extended {
                self.chunk(out, flags, chunk::BLOCK_STATUS_EXT, 8 + 16 * scratch.len());
                out.put(&context.id().to_be_bytes());
                out.put(&(scratch.len() as u32).to_be_bytes());
                for (len, flags) in scratch.iter() {
                    out.put(&len.to_be_bytes());
                    out.put(&u64::from(*flags).to_be_bytes());
                }
            } else {
                self.chunk(out, flags, chunk::BLOCK_STATUS, 4 + 8 * scratch.len());
                out.put(&context.id().to_be_bytes());
                for (len, flags) in scratch.iter() {
                    out.put(&(*len as u32).to_be_bytes());
                    out.put(&flags.to_be_bytes());
                }
            }
        }
    }

    fn simple(self, out: &mut Outgoing, error: u32) {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&wire::SIMPLE_REPLY_MAGIC.to_be_bytes());
        bytes[4..8].copy_from_slice(&error.to_be_bytes());
        bytes[8..].copy_from_slice(&self.cookie.to_be_bytes());
        out.put(&bytes);
    }

    fn chunk(self, out: &mut Outgoing, flags: u16, kind: u16, len: usize) {
        let mut bytes = [0; 32];
        bytes[4..6].copy_from_slice(&flags.to_be_bytes());
        bytes[6..8].copy_from_slice(&kind.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        if self.style == Style::Extended {
            bytes[..4].copy_from_slice(&wire::EXTENDED_REPLY_MAGIC.to_be_bytes());
            bytes[16..24].copy_from_slice(&self.offset_bytes.to_be_bytes());
            bytes[24..].copy_from_slice(&(len as u64).to_be_bytes());
            out.put(&bytes);
        } else {
            bytes[..4].copy_from_slice(&wire::STRUCTURED_REPLY_MAGIC.to_be_bytes());
            bytes[16..20].copy_from_slice(&(len as u32).to_be_bytes());
            out.put(&bytes[..20]);
        }
    }
}
