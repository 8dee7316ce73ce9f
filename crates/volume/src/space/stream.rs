//! Streams: data that is expected to die together, with a number.

/// Streams with this bit are written by garbage collection.
pub const COLLECTED: u8 = 0x80;

/// Whether a stream is written by garbage collection.
#[must_use]
pub fn is_collected(stream: u8) -> bool {
    stream & COLLECTED != 0
}

/// What a device knows of a stream, so that data which dies together carries the same number whether hosts or moves
/// write it; 0 would be no hint.
#[must_use]
pub fn stream_hint(stream: u8) -> u8 {
    (stream & COLLECTED) | ((stream & !COLLECTED) + 1)
}
