//! Whether this process has a standard output. Where it was closed, Rust's runtime opens /dev/null in its place
//! before `main`; writes then succeed, and the output is lost. So the descriptor is checked before the runtime
//! starts.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering};

static WAS_CLOSED: AtomicBool = AtomicBool::new(false);

extern "C" fn look() {
    // SAFETY: it asks for the flags of a descriptor, which may be closed, and takes no memory.
    let is_open = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) } != -1;
    WAS_CLOSED.store(!is_open, Ordering::Relaxed);
}

// SAFETY: what this section names is called once before `main`, on the only thread there is, with arguments that `look` does not take;
// it needs nothing of Rust's runtime.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

/// Whether standard output was closed when the process started (`>&-` in a shell).
#[must_use]
pub fn was_closed() -> bool {
    WAS_CLOSED.load(Ordering::Relaxed)
}
