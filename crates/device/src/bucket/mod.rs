//! A bucket of an S3-compatible store as a block device: a log of immutable objects.
//!
//! `log.rs` decides, free of I/O, what is written, read and deleted. `worker.rs` carries it out on a thread of its
//! own. `open.rs` makes and opens the device, and `epoch.rs` ensures that only one server writes. docs/bucket.md
//! describes the layout and the guarantees.

mod access;
mod crowded;
mod crypto;
mod epoch;
mod error;
mod extents;
mod fetch;
mod flushes;
mod job;
mod listing;
mod log;
mod memory;
mod merge;
mod name;
mod notes;
mod objects;
mod open;
mod puts;
mod reads;
mod roll;
mod scatter;
mod store;
mod uri;
mod worker;

#[cfg(test)]
mod fixture_tests;
#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod log_tests;
#[cfg(test)]
mod log_world_tests;
#[cfg(test)]
mod merge_tests;
#[cfg(test)]
mod opening_tests;
#[cfg(test)]
mod tests;

pub use error::BucketError;
pub(crate) use uri::BucketForm;
pub use uri::BucketUri;

use crate::file::{OpenMode, kernel};
use crate::request::{error, finish, is_mutation, validate};
use forebay_block::{Completion, Device, Geometry, IoErrorKind, Request};
use log::{Limits, Log};
use object_store::ObjectStore;
use std::os::fd::AsFd;
use std::sync::Arc;
use store::Store;
use tokio::runtime::{Builder, Runtime};
use worker::Worker;

/// Most objects visible in a unit before they are merged.
const OBJECTS_MAX: usize = 64;
/// Most requests in flight.
const QUEUE_LIMIT: usize = 256;

/// A block device in a bucket.
pub struct BucketDevice {
    name: String,
    geometry: Geometry,
    log: Log,
    worker: Worker,
    is_writable: bool,
    in_flight: usize,
}

fn runtime() -> Result<Runtime, BucketError> {
    Ok(Builder::new_current_thread().enable_all().build()?)
}

fn store(client: Arc<dyn ObjectStore>, uri: &BucketUri) -> Store {
    Store::new(client, &uri.prefix, uri.to_string(), uri.timeout, u64::from(std::process::id()))
}

/// Makes a device where the bucket, or its part below the prefix, is empty. An existing device stays as it is.
///
/// # Errors
/// Something else lies there, or the device cannot be made.
pub fn create(uri: &BucketUri) -> Result<(), BucketError> {
    create_in(access::client(uri)?, uri)
}

fn create_in(client: Arc<dyn ObjectStore>, uri: &BucketUri) -> Result<(), BucketError> {
    runtime()?.block_on(open::create(&store(client, uri), uri))
}

/// Deletes all data of a device, and fences off the server that uses it.
///
/// # Errors
/// The store refuses a request or does not answer.
pub fn clear(uri: &BucketUri) -> Result<(), BucketError> {
    runtime()?.block_on(open::clear(&store(access::client(uri)?, uri)))
}

impl BucketDevice {
    /// Opens the device. Opening it to write fences off the server that had it open: that server finds out before it
    /// completes another flush.
    ///
    /// # Errors
    /// The device cannot be opened.
    pub fn open(uri: &BucketUri, mode: OpenMode) -> Result<Self, BucketError> {
        Self::open_in(access::client(uri)?, uri, mode)
    }

    fn open_in(client: Arc<dyn ObjectStore>, uri: &BucketUri, mode: OpenMode) -> Result<Self, BucketError> {
        let (runtime, store) = (runtime()?, store(client, uri));
        let is_writable = mode == OpenMode::ReadWrite;
        let found = runtime.block_on(open::open(&store, uri, is_writable))?;
        let open::Found { description, epoch, owner, objects, invalid, damaged } = found;
        let geometry = Geometry {
            size_bytes: description.size_bytes,
            logical_block_bytes: 512,
            optimal_band_bytes: Some(description.object_bytes),
            volatile_cache: true,
            durable_writes: true,
            discards: true,
        };
        let limits =
            Limits { unit_bytes: description.object_bytes, memory_bytes: uri.memory_bytes, objects_max: OBJECTS_MAX };
        let log = Log::new(limits, epoch, &objects, &invalid).with_damaged(damaged);
        let log = if is_writable { log } else { log.for_reading() };
        let worker = Worker::start(runtime, store, epoch, owner)?;
        let mut device = Self { name: uri.to_string(), geometry, log, worker, is_writable, in_flight: 0 };
        device.log.tidy();
        device.pass_on();
        Ok(device)
    }

    /// Count of all objects, and of garbage among them.
    #[must_use]
    pub fn objects(&self) -> (usize, usize) {
        self.log.objects()
    }

    fn pass_on(&mut self) {
        for job in self.log.take_jobs() {
            self.worker.send(job);
        }
        if !self.log.done().is_empty() {
            // A request that completed at once must wake the event loop, too.
            self.worker.answers.bell.ring();
        }
    }

    fn hear(&mut self) {
        for answer in self.worker.answers.take() {
            self.log.answer(answer);
        }
        self.pass_on();
    }
}

impl Device for BucketDevice {
    fn name(&self) -> &str {
        &self.name
    }

    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, request: Request) {
        self.in_flight += 1;
        let refused = match validate(&self.geometry, &request) {
            Err(error) => Some(error),
            Ok(_) if is_mutation(&request.op) && !self.is_writable => Some(error(IoErrorKind::Unsupported, &request)),
            Ok(_) => None,
        };
        match refused {
            Some(error) => self.log.done().push(finish(request, Err(error))),
            None => self.log.submit(request),
        }
        self.pass_on();
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        self.hear();
        self.in_flight -= self.log.done().len();
        done.append(self.log.done());
        // The completions were collected, so the descriptor need not stay readable.
        self.worker.answers.bell.clear();
        if !self.worker.answers.is_empty() {
            self.worker.answers.bell.ring();
        }
    }

    fn wait(&mut self, timeout_ns: u64) {
        if self.in_flight == 0 || !self.log.done().is_empty() {
            return;
        }
        kernel::wait_readable(self.worker.answers.bell.as_fd(), timeout_ns);
    }

    fn wake_fds(&self, out: &mut Vec<i32>) {
        out.push(self.worker.answers.bell.fd());
    }

    fn completes_unseen(&self) -> bool {
        false
    }

    fn queue_limit(&self) -> usize {
        QUEUE_LIMIT
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }
}
