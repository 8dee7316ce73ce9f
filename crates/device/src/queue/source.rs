//! A target for the length of a session, from which any number of queues can be made.

use super::hold::Hold;
use super::open::{open_file, open_nbd, open_null, open_shared};
use super::shared_device::Handle;
use super::{BUFFER_MAX_BYTES, BUFFERS_MAX_BYTES, OpenError, OpenedQueues, QUEUES_MAX, QueueOptions, SLOTS_MAX};
use crate::file::OpenMode;
use crate::nbd_client::NbdUri;
use crate::target::{Target, open};
use forebay_block::{Device, lock};
use std::sync::{Arc, Mutex};

/// A target from which queues with different options are made, even while others are in use.
///
/// A file or block device is locked from the first opening on: shared while all openings were read-only, exclusive
/// from the first other one until this value and its last queue are gone. Memory, and a target behind a volatile
/// cache, is opened once, so that every queue sees the writes of earlier ones.
#[derive(Debug)]
pub struct Source {
    name: String,
    kind: Kind,
}

enum Kind {
    File(Arc<Hold>),
    /// Opened by `target` at the first use.
    Device {
        target: Target,
        opened: Mutex<Option<OpenedDevice>>,
    },
    /// Opened by the caller.
    Given(Handle),
    Nbd(NbdUri),
    Null {
        size_bytes: u64,
    },
}

struct OpenedDevice {
    handle: Handle,
    writable: bool,
}

impl std::fmt::Debug for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::File(_) => "file",
            Self::Device { .. } => "device by name",
            Self::Given(_) => "device",
            Self::Nbd(_) => "NBD",
            Self::Null { .. } => "null",
        })
    }
}

impl Source {
    /// A session on a target. Opens nothing yet.
    #[must_use]
    pub fn new(target: Target) -> Self {
        let name = target.to_string();
        let kind = match target {
            Target::Path(path) => Kind::File(Arc::new(Hold::new(path))),
            Target::Nbd(uri) => Kind::Nbd(uri),
            Target::Null { size_bytes } => Kind::Null { size_bytes },
            Target::Ram { .. }
            | Target::Volatile { .. }
            | Target::Emulated(_)
            | Target::Model(_)
            | Target::Bucket(_) => Kind::Device { target, opened: Mutex::new(None) },
        };
        Self { name, kind }
    }

    /// A session on a device of any kind, which must be idle.
    #[must_use]
    pub fn over(device: Box<dyn Device>) -> Self {
        Self { name: device.name().to_owned(), kind: Kind::Given(Handle::new(device)) }
    }

    /// Name of the target, as the user wrote it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Makes `count` queues, at most [`QUEUES_MAX`].
    ///
    /// # Errors
    /// [`OpenError`]: what failed, where, and what to do. Where others hold a file, opening it is retried for a
    /// second.
    pub fn open(&self, options: &QueueOptions, count: usize) -> Result<OpenedQueues, OpenError> {
        check(options, count)?;
        match &self.kind {
            Kind::File(hold) => open_file(hold, options, count),
            Kind::Device { target, opened } => {
                // A thread that panicked while it opened has left nothing.
                let mut opened = lock(opened);
                open_shared(&self.name, &device(target, &mut opened, options.read_only)?, options, count)
            }
            Kind::Given(handle) => open_shared(&self.name, handle, options, count),
            Kind::Nbd(uri) => open_nbd(uri, options, count),
            Kind::Null { size_bytes } => open_null(*size_bytes, options, count),
        }
    }
}

/// Opens `count` queues of a target that is opened just once. Dropping the last queue closes it.
///
/// # Errors
/// [`OpenError`]: what failed, where, and what to do.
pub fn open_queues(target: &Target, options: &QueueOptions, count: usize) -> Result<OpenedQueues, OpenError> {
    Source::new(target.clone()).open(options, count)
}

/// The one device of a session. It is opened for reading and writing from the start, so that a writer may join
/// readers. Where that is refused, readers open it read-only; nothing is lost when a writer opens it again. A bucket
/// is opened read-only for readers, too: opening it to write would fence off the server that uses it.
fn device(target: &Target, opened: &mut Option<OpenedDevice>, read_only: bool) -> Result<Handle, OpenError> {
    if let Some(known) = opened.as_ref().filter(|known| known.writable || read_only) {
        return Ok(known.handle.clone());
    }
    // The lock of the former opening would conflict with the new one.
    *opened = None;
    let is_passive = read_only && target.bucket().is_some();
    let (device, writable) = match open(target, if is_passive { OpenMode::ReadOnly } else { OpenMode::ReadWrite }) {
        Ok(device) => (device, !is_passive),
        Err(error) if is_passive => return Err(error.into()),
        Err(_) if read_only => (open(target, OpenMode::ReadOnly)?, false),
        Err(error) => return Err(error.into()),
    };
    let handle = Handle::new(device);
    *opened = Some(OpenedDevice { handle: handle.clone(), writable });
    Ok(handle)
}

fn check(options: &QueueOptions, count: usize) -> Result<(), OpenError> {
    let buffers_bytes =
        (count as u64).saturating_mul(u64::from(options.slots)).saturating_mul(options.buffer_bytes as u64);
    for (what, value, most) in [
        ("the number of queues", count as u64, QUEUES_MAX as u64),
        ("the depth of a queue", u64::from(options.slots), u64::from(SLOTS_MAX)),
        ("the longest I/O in bytes", options.buffer_bytes as u64, BUFFER_MAX_BYTES as u64),
        ("the memory for all buffers in bytes", buffers_bytes, BUFFERS_MAX_BYTES),
    ] {
        if !(1..=most).contains(&value) {
            return Err(OpenError::Option { what, value, most });
        }
    }
    Ok(())
}
