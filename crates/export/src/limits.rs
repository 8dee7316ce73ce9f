//! Limits on what one client may ask for.

use crate::nbd::wire;

/// Limits of one session. The server's memory is at most the number of connections times `in_flight_bytes_max`, plus
/// the fixed buffers. Memory is only touched as bytes are really received or sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionLimits {
    /// Most requests in flight per connection, 1 to 65,535. At the limit the socket is not read.
    pub requests_max: u16,
    /// Most payload bytes in flight per connection: writes being received or executed, and reads until they are sent.
    /// At the limit the socket is not read. A single request is always accepted.
    pub in_flight_bytes_max: usize,
    /// Longest payload of one request, advertised as the maximum payload; 1 MiB to 32 MiB.
    pub payload_bytes_max: u32,
    /// Most options that a client may send before it chooses an export.
    pub options_max: u32,
}

impl Default for SessionLimits {
    fn default() -> Self {
        // 2^25 bytes: "Size constraints" of the protocol requires every server to accept them.
        Self { requests_max: 1024, in_flight_bytes_max: 64 << 20, payload_bytes_max: 32 << 20, options_max: 512 }
    }
}

/// Smallest unit of a request, in bytes; advertised as the minimum block size.
pub const MIN_BLOCK_BYTES: u32 = 512;
/// Preferred block size that is advertised, in bytes.
pub const PREFERRED_BLOCK_BYTES: u32 = 4096;
/// Longest option that is parsed, in bytes; a longer one is skipped and refused. Two strings of the longest kind and
/// a list fit easily.
pub const OPTION_BYTES_MAX: usize = 8 * wire::STRING_BYTES_MAX;
/// Longest option that is skipped, in bytes; an option that announces more ends the connection.
pub const OPTION_SKIP_BYTES_MAX: usize = 1 << 20;
/// Most bytes of headers and small replies that wait for a client that does not read. Beyond, nothing is read from
/// it.
pub const REPLY_BACKLOG_BYTES_MAX: usize = 1 << 20;
/// Receive buffer of a connection that has not chosen an export, in bytes.
pub const HANDSHAKE_BUFFER_BYTES: usize = 2 * OPTION_BYTES_MAX;
/// Receive buffer of a client, in bytes: some sixty writes of 4 KiB in one call.
pub const RECEIVE_BUFFER_BYTES: usize = 256 << 10;
/// Most extents requested of the backend for one BLOCK_STATUS.
pub const STATUS_EXTENTS_MAX: usize = 1024;

const _: () = assert!(RECEIVE_BUFFER_BYTES >= HANDSHAKE_BUFFER_BYTES, "what was received has to fit");
