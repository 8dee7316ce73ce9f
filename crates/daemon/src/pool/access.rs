//! How the devices of a pool are opened.

use forebay_device::OpenMode;

/// Mode and permissions with which a pool's devices are opened.
#[derive(Clone, Copy)]
pub struct Access {
    /// Whether the devices are opened to read, to write or to serve.
    pub mode: OpenMode,
    /// The user has agreed to give up data that may be lost.
    pub accepts_loss: bool,
    /// The user has agreed to drop missing members of the mirror for good.
    pub drops_members: bool,
}

impl Access {
    /// Opens for reading and changes nothing.
    pub const READ_ONLY: Self = Self { mode: OpenMode::ReadOnly, accepts_loss: false, drops_members: false };
}
