//! A device whose requests execute inside `submit`, over any byte store.

use crate::request::{finish, validate};
use forebay_block::{Completion, Device, Geometry, Op, Request};

/// Most completions that wait to be collected.
const QUEUE_LIMIT: usize = 4096;

/// A byte store that is read and written at once. The device checks ranges before the store sees them.
pub trait Store: Send {
    /// Copies bytes out.
    fn read(&self, offset_bytes: u64, into: &mut [u8]);
    /// Copies bytes in.
    fn write(&mut self, offset_bytes: u64, from: &[u8]);
    /// Makes a range read as zeros, and gives its memory back where `free` is set.
    fn zero(&mut self, offset_bytes: u64, len_bytes: u64, free: bool);

    /// Carries out a request that was found valid.
    fn carry_out(&mut self, request: &mut Request) {
        let mut at = request.offset_bytes;
        match &mut request.op {
            Op::Read { bufs, .. } => {
                for buf in bufs.as_mut_slice() {
                    self.read(at, buf);
                    at += buf.len() as u64;
                }
            }
            Op::Write { bufs, .. } => {
                for buf in bufs.as_slice() {
                    self.write(at, buf);
                    at += buf.len() as u64;
                }
            }
            Op::Flush => {}
            Op::Discard { len_bytes } => self.zero(at, *len_bytes, true),
            Op::WriteZeroes { len_bytes } => self.zero(at, *len_bytes, false),
        }
    }
}

/// A device over a [`Store`], without a volatile cache: a completed write is as durable as memory can be.
#[derive(Debug)]
pub struct InstantDevice<S> {
    name: String,
    geometry: Geometry,
    store: S,
    ready: Vec<Completion>,
}

impl<S: Store> InstantDevice<S> {
    /// A device of `size_bytes`, rounded down to whole logical blocks of 512 bytes.
    pub(crate) fn over(name: String, size_bytes: u64, store: S) -> Self {
        let geometry = Geometry {
            size_bytes: size_bytes / 512 * 512,
            logical_block_bytes: 512,
            optimal_band_bytes: None,
            volatile_cache: false,
            durable_writes: true,
            discards: true,
        };
        Self { name, geometry, store, ready: Vec::new() }
    }

    /// The bytes behind the device.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Gives up the device and keeps the bytes.
    #[must_use]
    pub fn into_store(self) -> S {
        self.store
    }
}

impl<S: Store> Device for InstantDevice<S> {
    fn name(&self) -> &str {
        &self.name
    }

    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, mut request: Request) {
        let result = validate(&self.geometry, &request).map(|_| self.store.carry_out(&mut request));
        self.ready.push(finish(request, result));
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        done.append(&mut self.ready);
    }

    fn wait(&mut self, _timeout_ns: u64) {}

    fn queue_limit(&self) -> usize {
        QUEUE_LIMIT
    }

    fn in_flight(&self) -> usize {
        self.ready.len()
    }
}
