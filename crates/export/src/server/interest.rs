//! Descriptors of the surrounding daemon that the event loop watches.

/// A descriptor to be watched for the hooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interest {
    /// The descriptor. It must stay open until [`crate::Hooks::watch`] no longer returns it.
    pub fd: i32,
    /// Report when it can be read. Hang-ups and errors are always reported.
    pub read: bool,
    /// Report when it can be written.
    pub write: bool,
}
