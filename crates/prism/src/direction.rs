//! Which way data goes.

/// Direction of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Host reads.
    Read,
    /// Host writes.
    Write,
}
