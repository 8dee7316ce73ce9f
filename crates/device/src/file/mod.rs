//! Files and block devices: io_uring with direct I/O, or plain system calls and the page cache where the system
//! forbids or lacks these. [`FileDevice::mode`] says which.

#![allow(unsafe_code)]

mod discards;
mod holder;
pub(crate) mod kernel;
pub(crate) mod open;
mod rewritten;
mod ring;
mod sync;
pub(crate) mod transfer;
mod write_cache;

pub use holder::Holder;
pub use open::{FileOptions, OpenMode};
pub use rewritten::rewrites_larger_sectors;

use crate::open_error::OpenError;
use crate::request::{error, finish, is_mutation, validate};
use forebay_block::{Completion, Device, Geometry, IoError, IoErrorKind, Request};
use open::Medium;
use ring::Ring;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use transfer::Transfer;
use write_cache::CacheWatch;

/// How a device does its I/O, for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileMode {
    /// Whether io_uring is used. Otherwise `ring_refusal` has the reason, or it was not wanted.
    pub ring: bool,
    /// The reason why io_uring could not be used; `None` where it is used or was not wanted.
    pub ring_refusal: Option<String>,
    /// Whether I/O bypasses the page cache.
    pub direct: bool,
    /// Whether it is a block device rather than a file.
    pub block_device: bool,
}

impl std::fmt::Display for FileMode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.block_device { "block device, " } else { "file, " })?;
        match (&self.ring, &self.ring_refusal) {
            (true, _) => f.write_str("io_uring")?,
            (false, Some(reason)) => write!(f, "pread/pwrite (io_uring refused: {reason})")?,
            (false, None) => f.write_str("pread/pwrite (io_uring switched off)")?,
        }
        f.write_str(if self.direct { ", direct" } else { ", through the page cache" })
    }
}

enum Engine {
    Ring(Box<Ring>),
    Calls { fd: OwnedFd, ready: Vec<Completion> },
}

/// A file or block device.
pub struct FileDevice {
    name: String,
    geometry: Geometry,
    medium: Medium,
    mode: FileMode,
    read_only: bool,
    engine: Engine,
    /// Watches a block device that had no volatile cache when it was opened.
    _cache: Option<CacheWatch>,
    /// Holds the file behind a loop device, so that nobody else uses it.
    _behind: Option<File>,
}

impl FileDevice {
    /// Opens a file or block device that exists, exclusively for writing, shared for reading, or beside others.
    ///
    /// # Errors
    /// [`OpenError`], naming the path.
    pub fn open(path: &Path, options: &FileOptions) -> Result<Self, OpenError> {
        let opened = open::open(path, options)?;
        let mut mode = FileMode {
            ring: false,
            ring_refusal: None,
            direct: opened.medium.direct,
            block_device: opened.medium.block_device,
        };
        let cache = opened.cache_says.and_then(|says| CacheWatch::begin(path, says, &opened.file));
        let fd = OwnedFd::from(opened.file);
        let engine = if options.ring {
            match Ring::new(fd) {
                Ok(ring) => {
                    mode.ring = true;
                    Engine::Ring(Box::new(ring))
                }
                // EPERM: forbidden by sysctl or seccomp; ENOSYS: not supported; ENOMEM: RLIMIT_MEMLOCK on old
                // kernels. In any case plain calls do the same work, more slowly.
                Err((refusal, fd)) => {
                    mode.ring_refusal = Some(refusal.to_string());
                    Engine::Calls { fd, ready: Vec::new() }
                }
            }
        } else {
            Engine::Calls { fd, ready: Vec::new() }
        };
        // Without io_uring or direct I/O the system completes a durable write by flushing the device (Linux,
        // generic_write_sync).
        let durable_writes = opened.geometry.durable_writes && mode.ring && mode.direct;
        Ok(Self {
            name: path.display().to_string(),
            geometry: Geometry { durable_writes, ..opened.geometry },
            medium: Medium { writes_through: cache.as_ref().map(CacheWatch::writes_through), ..opened.medium },
            mode,
            read_only: matches!(options.mode, OpenMode::ReadOnly | OpenMode::ReadBeside),
            engine,
            _cache: cache,
            _behind: opened.behind,
        })
    }

    /// Creates a sparse file of `size_bytes`; refuses where the path exists.
    ///
    /// # Errors
    /// The operating system's.
    pub fn create_file(path: &Path, size_bytes: u64) -> io::Result<()> {
        OpenOptions::new().write(true).create_new(true).open(path)?.set_len(size_bytes)
    }

    /// How the device does its I/O.
    pub fn mode(&self) -> &FileMode {
        &self.mode
    }

    fn check(&self, request: &Request) -> Result<u64, IoError> {
        if self.read_only && is_mutation(&request.op) {
            return Err(IoError { os_error: libc::EROFS, ..error(IoErrorKind::Unsupported, request) });
        }
        let len_bytes = validate(&self.geometry, request)?;
        if self.in_flight() >= self.queue_limit() {
            return Err(IoError { os_error: libc::EBUSY, ..error(IoErrorKind::Invalid, request) });
        }
        Ok(len_bytes)
    }
}

impl Device for FileDevice {
    fn name(&self) -> &str {
        &self.name
    }

    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, mut request: Request) {
        let checked = self.check(&request);
        // A write with a stream that the device does not know would fail (Linux 6.16 and later), so this hint is
        // dropped.
        if request.stream > self.medium.streams {
            request.stream = 0;
        }
        let len_bytes = match checked {
            Ok(len_bytes) => len_bytes,
            Err(reason) => {
                let completion = finish(request, Err(reason));
                match &mut self.engine {
                    Engine::Ring(ring) => ring.refuse(completion),
                    Engine::Calls { ready, .. } => ready.push(completion),
                }
                return;
            }
        };
        let mut transfer = Transfer::new(request, len_bytes, self.medium);
        match &mut self.engine {
            Engine::Ring(ring) => ring.accept(transfer),
            Engine::Calls { fd, ready } => {
                let result = sync::run(fd.as_fd(), &mut transfer);
                ready.push(transfer.finish(result));
            }
        }
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        match &mut self.engine {
            Engine::Ring(ring) => ring.poll(done),
            Engine::Calls { ready, .. } => done.append(ready),
        }
    }

    fn wait(&mut self, timeout_ns: u64) {
        if let Engine::Ring(ring) = &mut self.engine {
            ring.wait(timeout_ns);
        }
    }

    fn wake_fds(&self, out: &mut Vec<i32>) {
        if let Engine::Ring(ring) = &self.engine {
            out.push(ring.wake_fd());
        }
    }

    fn completes_unseen(&self) -> bool {
        matches!(self.engine, Engine::Calls { .. }) && self.in_flight() > 0
    }

    fn queue_limit(&self) -> usize {
        ring::QUEUE_LIMIT
    }

    fn in_flight(&self) -> usize {
        match &self.engine {
            Engine::Ring(ring) => ring.in_flight(),
            Engine::Calls { ready, .. } => ready.len(),
        }
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod transfer_tests;
