//! A descriptor that another thread makes readable.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// An eventfd. Errors of ringing and clearing do not matter: a full counter is readable, an empty one is not
/// (eventfd(2)).
#[derive(Debug)]
pub(crate) struct Bell(OwnedFd);

impl Bell {
    /// A bell that is not rung.
    ///
    /// # Errors
    /// The operating system gives no descriptor.
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: eventfd takes no pointers.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a fresh descriptor that nobody else owns.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Makes the descriptor readable.
    pub(crate) fn ring(&self) {
        let one = 1u64;
        // SAFETY: eight valid bytes.
        unsafe { libc::write(self.fd(), (&raw const one).cast(), 8) };
    }

    /// Makes the descriptor unreadable.
    pub(crate) fn clear(&self) {
        let mut count = 0u64;
        // SAFETY: room for eight bytes.
        unsafe { libc::read(self.fd(), (&raw mut count).cast(), 8) };
    }

    /// The descriptor to wait for.
    pub(crate) fn fd(&self) -> i32 {
        self.0.as_raw_fd()
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
