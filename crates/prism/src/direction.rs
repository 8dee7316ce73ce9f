//! The direction of a request.

/// Direction of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The host reads.
    Read,
    /// The host writes.
    Write,
}
