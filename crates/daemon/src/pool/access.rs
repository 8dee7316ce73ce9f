//! How the devices of a pool are opened.

use forebay_device::OpenMode;

/// How the devices of a pool are opened.
#[derive(Clone, Copy)]
pub struct Access {
    /// For what.
    pub mode: OpenMode,
    /// What may be gone is given up, where the user has said so.
    pub accepts_loss: bool,
    /// Members of the mirror that are not there are dropped for good, where the user has said so.
    pub drops_members: bool,
}

impl Access {
    /// Nothing is changed.
    pub const READ_ONLY: Self = Self { mode: OpenMode::ReadOnly, accepts_loss: false, drops_members: false };
}
