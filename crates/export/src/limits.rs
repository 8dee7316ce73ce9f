//! How much one client may ask for.

use crate::nbd::wire;

/// Limits of one session. The worst case of the server's memory is the number of connections times
/// `in_flight_bytes_max` plus the fixed buffers; memory is only touched as a client really sends or is sent bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionLimits {
    /// Requests in flight per connection, 1 to 65,535. At the limit the socket is not read.
    pub requests_max: u16,
    /// Bytes of payload in flight per connection: writes being received or executed, reads until sent. At the limit
    /// the socket is not read. A single request is always let in.
    pub in_flight_bytes_max: usize,
    /// Longest payload of one request, advertised as the maximum payload; 1 MiB to 32 MiB.
    pub payload_bytes_max: u32,
    /// Options a client may send before it chooses an export.
    pub options_max: u32,
}

impl Default for SessionLimits {
    fn default() -> Self {
        // 2^25 bytes is what "Size constraints" of the protocol asks every server to take.
        Self { requests_max: 1024, in_flight_bytes_max: 64 << 20, payload_bytes_max: 32 << 20, options_max: 512 }
    }
}

/// Smallest unit of a request in bytes, advertised as the minimum block size.
pub const MIN_BLOCK_BYTES: u32 = 512;
/// Advertised as the preferred block size, in bytes.
pub const PREFERRED_BLOCK_BYTES: u32 = 4096;
/// Longest option that is looked at, in bytes; longer ones are skipped and refused. Two strings of the longest kind
/// and a list fit well.
pub const OPTION_BYTES_MAX: usize = 8 * wire::STRING_BYTES_MAX;
/// Longest option that is skipped, in bytes; announcing more ends the connection.
pub const OPTION_SKIP_BYTES_MAX: usize = 1 << 20;
/// Bytes of headers and small replies that may wait for a client that does not read; beyond, it is not read from.
pub const REPLY_BACKLOG_BYTES_MAX: usize = 1 << 20;
/// Receive buffer of a connection that has not chosen an export, in bytes.
pub const HANDSHAKE_BUFFER_BYTES: usize = 2 * OPTION_BYTES_MAX;
/// Receive buffer of a client in bytes: some sixty 4 KiB writes in one call.
pub const RECEIVE_BUFFER_BYTES: usize = 256 << 10;
/// Extents asked of the backend for one BLOCK_STATUS.
pub const STATUS_EXTENTS_MAX: usize = 1024;

const _: () = assert!(RECEIVE_BUFFER_BYTES >= HANDSHAKE_BUFFER_BYTES, "what was received has to fit");
