//! A bucket of an S3-compatible store as a block device: a log of objects that never change.
//!
//! `log.rs` decides what is written, read and deleted, free of I/O; `worker.rs` does it, on a thread of its own; `open.rs` makes and opens
//! the device, and `epoch.rs` sees to it that one server writes. docs/bucket.md has the layout and what is promised.

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
mod fixture;
#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod log_tests;
#[cfg(test)]
mod log_world;
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

/// Objects that may show in as much of the device as one object can hold.
const OBJECTS_MAX: usize = 64;
/// Requests in flight.
const QUEUE_LIMIT: usize = 256;

/// The device.
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

/// Makes a device where a bucket, or the part of it that the prefix names, holds nothing. One that is there is left as it is.
///
/// # Errors
/// What lies there instead, or why it cannot be made.
pub fn create(uri: &BucketUri) -> Result<(), BucketError> {
    create_in(access::client(uri)?, uri)
}

fn create_in(client: Arc<dyn ObjectStore>, uri: &BucketUri) -> Result<(), BucketError> {
    runtime()?.block_on(open::create(&store(client, uri), uri))
}

/// Deletes everything that is on a device, and takes it from whoever serves it.
///
/// # Errors
/// Why that cannot be done.
pub fn clear(uri: &BucketUri) -> Result<(), BucketError> {
    runtime()?.block_on(open::clear(&store(access::client(uri)?, uri)))
}

impl BucketDevice {
    /// Opens the device. To write, it is taken from whoever had it open, who finds out before anything is promised again.
    ///
    /// # Errors
    /// Why it cannot be opened.
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

    /// How many objects there are, garbage included, and how many of them are garbage.
    #[must_use]
    pub fn objects(&self) -> (usize, usize) {
        self.log.objects()
    }

    fn pass_on(&mut self) {
        for job in self.log.take_jobs() {
            self.worker.send(job);
        }
        if !self.log.done().is_empty() {
            // What has ended at once wakes whoever waits for the descriptor, too.
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
        // They are handed out: the descriptor need not tell of them.
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

    fn wake_fd(&self) -> Option<i32> {
        Some(self.worker.answers.bell.fd())
    }

    fn queue_limit(&self) -> usize {
        QUEUE_LIMIT
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }
}
