//! Descriptors of the daemon around the server that its loop watches.

/// A descriptor whose events hooks want.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interest {
    /// The descriptor; stays open until it is no longer named by [`crate::Hooks::watch`].
    pub fd: i32,
    /// Report when it can be read (hang-up and errors are always reported).
    pub read: bool,
    /// Tell when it can be written.
    pub write: bool,
}
