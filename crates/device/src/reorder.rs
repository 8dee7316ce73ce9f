//! Delays requests and completions and releases them out of order, as a device with a deep queue may.
//!
//! A request waits before it starts, and its completion waits after it has finished. A seeded scheduler, or the test
//! itself, decides when each moves on. Put this *around* a [`crate::VolatileDevice`]: a power cut then meets writes
//! that never started, and writes that took effect but were not acknowledged.

use crate::request::{error, finish, validate};
use forebay_block::Random;
use forebay_block::{Completion, Device, IoErrorKind, Request};

/// Most requests in flight.
const QUEUE_LIMIT: usize = 1024;
/// Most polls in succession in which a seeded scheduler moves nothing.
const IDLE_POLLS_MAX: u32 = 8;

#[derive(Debug)]
enum Schedule {
    Seeded { random: Random, idle_polls: u32 },
    Manual { released: Vec<u64> },
}

/// The wrapper.
#[derive(Debug)]
pub struct ReorderDevice<D> {
    inner: D,
    schedule: Schedule,
    held: Vec<Request>,
    finished: Vec<Completion>,
    /// Completions of refused requests, which are not delayed.
    refused: Vec<Completion>,
}

impl<D: Device> ReorderDevice<D> {
    /// Scheduled by chance from `seed`. Every request completes after finitely many polls.
    pub fn seeded(inner: D, seed: u64) -> Self {
        Self::with(inner, Schedule::Seeded { random: Random::new(seed), idle_polls: 0 })
    }

    /// Nothing moves until the test calls [`Self::start`] and [`Self::release`].
    pub fn manual(inner: D) -> Self {
        Self::with(inner, Schedule::Manual { released: Vec::new() })
    }

    fn with(inner: D, schedule: Schedule) -> Self {
        Self { inner, schedule, held: Vec::new(), finished: Vec::new(), refused: Vec::new() }
    }

    /// The wrapped device.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    /// The wrapped device, mutable.
    pub fn inner_mut(&mut self) -> &mut D {
        &mut self.inner
    }

    /// Drops all requests in flight, as a power cut does, and returns the wrapped device. Requests that had started
    /// there may have taken effect.
    pub fn into_inner(self) -> D {
        self.inner
    }

    /// Drops all requests in flight, as a power cut does. Requests that had started in the wrapped device may have
    /// taken effect. Cut the wrapped device's power next, so that it drops them, too.
    pub fn forget(&mut self) {
        self.held.clear();
        self.finished.clear();
        self.refused.clear();
        if let Schedule::Manual { released } = &mut self.schedule {
            released.clear();
        }
    }

    /// Passes the held request `tag` to the device within. False where there is none.
    pub fn start(&mut self, tag: u64) -> bool {
        let Some(index) = self.held.iter().position(|request| request.tag == tag) else { return false };
        let request = self.held.remove(index);
        self.inner.submit(request);
        self.inner.poll(&mut self.finished);
        true
    }

    /// Releases the completion of `tag` at the next poll after it has finished, and starts the request where it
    /// waits. Only for a manual schedule; false for a seeded one.
    pub fn release(&mut self, tag: u64) -> bool {
        let manual = if let Schedule::Manual { released } = &mut self.schedule {
            released.push(tag);
            true
        } else {
            false
        };
        if manual {
            self.start(tag);
        }
        manual
    }

    fn poll_seeded(&mut self, done: &mut Vec<Completion>) {
        let Schedule::Seeded { random, idle_polls } = &mut self.schedule else { return };
        let forced = *idle_polls >= IDLE_POLLS_MAX;
        let starts = if forced { self.held.len().min(1) } else { random.index(self.held.len() + 1) };
        for _ in 0..starts {
            if self.inner.in_flight() >= self.inner.queue_limit() {
                break;
            }
            let index = random.index(self.held.len());
            self.inner.submit(self.held.remove(index));
        }
        self.inner.poll(&mut self.finished);
        let ends = if forced { self.finished.len().min(1) } else { random.index(self.finished.len() + 1) };
        for _ in 0..ends {
            let index = random.index(self.finished.len());
            done.push(self.finished.swap_remove(index));
        }
        *idle_polls = if starts + ends == 0 { *idle_polls + 1 } else { 0 };
    }
}

impl<D: Device> Device for ReorderDevice<D> {
    forebay_block::forward_device!(self => self.inner; name geometry);

    fn submit(&mut self, request: Request) {
        match validate(self.inner.geometry(), &request) {
            Err(reason) => self.refused.push(finish(request, Err(reason))),
            Ok(_) if self.in_flight() >= QUEUE_LIMIT => {
                let reason = error(IoErrorKind::Invalid, &request);
                self.refused.push(finish(request, Err(reason)));
            }
            Ok(_) => self.held.push(request),
        }
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        done.append(&mut self.refused);
        if matches!(self.schedule, Schedule::Seeded { .. }) {
            self.poll_seeded(done);
            return;
        }
        self.inner.poll(&mut self.finished);
        if let Schedule::Manual { released } = &mut self.schedule {
            released.retain(|tag| match self.finished.iter().position(|completion| completion.tag == *tag) {
                Some(index) => {
                    done.push(self.finished.remove(index));
                    false
                }
                None => true,
            });
        }
    }

    fn wait(&mut self, timeout_ns: u64) {
        if self.held.is_empty() && self.finished.is_empty() && self.refused.is_empty() {
            self.inner.wait(timeout_ns);
        }
    }

    fn queue_limit(&self) -> usize {
        QUEUE_LIMIT
    }

    fn in_flight(&self) -> usize {
        self.held.len() + self.finished.len() + self.refused.len() + self.inner.in_flight()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Image, ImageDevice, blocking};
    use forebay_block::{Op, SharedBuf, Vectored};

    fn device() -> ImageDevice {
        ImageDevice::new(Image::zeroed(1 << 20))
    }

    fn write(tag: u64, offset_bytes: u64) -> Request {
        let bufs: Vectored<SharedBuf> = Vectored::One(forebay_block::Buf::copy_of(&[tag as u8; 512]).freeze());
        Request { tag, offset_bytes, stream: 0, op: Op::Write { bufs, fua: false } }
    }

    #[test]
    fn a_seeded_schedule_reorders_and_loses_nothing() {
        let order = |seed| {
            let mut device = ReorderDevice::seeded(device(), seed);
            (0..64).for_each(|tag| device.submit(write(tag, tag * 512)));
            let mut done = Vec::new();
            while device.in_flight() > 0 {
                device.poll(&mut done);
            }
            done.iter().map(|completion| completion.tag).collect::<Vec<u64>>()
        };
        let first = order(1);
        let mut sorted = first.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..64).collect::<Vec<u64>>());
        assert_ne!(first, sorted, "nothing was reordered");
        assert_eq!(first, order(1), "the same seed gave another order");
        assert_ne!(first, order(2));
    }

    #[test]
    fn a_manual_schedule_moves_as_it_is_set() {
        let mut device = ReorderDevice::manual(device());
        device.submit(write(1, 0));
        device.submit(write(2, 0));
        let mut done = Vec::new();
        device.poll(&mut done);
        assert!(done.is_empty());
        assert!(device.start(2));
        let held: Vec<u64> = device.held.iter().map(|request| request.tag).collect();
        let finished: Vec<u64> = device.finished.iter().map(|completion| completion.tag).collect();
        assert_eq!((held, finished), (vec![1], vec![2]));
        device.release(1);
        device.poll(&mut done);
        assert_eq!(done.iter().map(|c| c.tag).collect::<Vec<_>>(), [1]);
        device.release(2);
        device.poll(&mut done);
        assert_eq!((done.len(), device.in_flight()), (2, 0));
        // It started last, so its content is on the device.
        assert_eq!(device.into_inner().store().to_bytes()[0], 1);
    }

    #[test]
    fn an_invalid_request_is_refused_without_the_scheduler() {
        let mut device = ReorderDevice::manual(device());
        assert_eq!(blocking::write(&mut device, 7, &[0; 512]).unwrap_err().kind, IoErrorKind::Invalid);
    }
}
