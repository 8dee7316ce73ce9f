//! Keeps CPUs out of deep idle states while a file is open.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use thiserror::Error;

const PATH: &str = "/dev/cpu_dma_latency";

/// The error if idle states cannot be limited.
#[derive(Debug, Error)]
#[error("{PATH}: {source}: idle states stay as deep as they are. It takes root, and a kernel with CONFIG_CPU_IDLE")]
pub struct HoldError {
    source: io::Error,
}

/// While this exists, no CPU enters an idle state that takes time to leave: the kernel drops the request when the
/// file is closed, also after a crash (Linux, admin-guide/pm/cpuidle.rst, "Power Management Quality of Service for
/// CPUs").
#[derive(Debug)]
pub struct Hold {
    _file: File,
}

impl Hold {
    /// Requests this of the kernel.
    ///
    /// # Errors
    /// The kernel has no such file, or it may not be written.
    pub fn begin() -> Result<Self, HoldError> {
        let failed = |source| HoldError { source };
        // The open neither creates a file nor waits, in case the path is something else.
        let file = OpenOptions::new().write(true).custom_flags(nonblocking()).open(PATH).map_err(failed)?;
        if !file.metadata().map_err(failed)?.file_type().is_char_device() {
            return Err(failed(io::Error::other("no device")));
        }
        // A latency of 0 us, as a number of 32 bits.
        (&file).write_all(&0_i32.to_ne_bytes()).map_err(failed)?;
        Ok(Self { _file: file })
    }
}

fn nonblocking() -> i32 {
    (rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOFOLLOW).bits() as i32
}
