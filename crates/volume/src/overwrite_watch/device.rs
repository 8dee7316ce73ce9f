//! Reads superblock and label of a device, beside what is asked of it.

use super::judge::{Expected, Place, Seen};
use forebay_block::{Buf, Completion, Device, Op, Request, Vectored, lock};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// Time between two looks, in nanoseconds.
const LOOK_EVERY_NS: u64 = 5_000_000_000;
/// Time from a look that found something to the next one.
const LOOK_AGAIN_NS: u64 = 1_000_000_000;
/// The tag of these reads. Nobody else has so many requests in flight.
const OWN_TAG: u64 = u64::MAX;

#[derive(Debug, Default)]
struct State {
    next_ns: u64,
    /// What the device should be.
    expected: Option<Expected>,
    seen: Seen,
    /// What the last look found, which the next is to confirm.
    suspicion: Option<String>,
    /// What two looks in a row have found.
    lost: Option<String>,
    /// What the last look found damaged, on a device that still is what it was.
    blemish: Option<String>,
    /// The same, as two looks in a row have found.
    damaged: Option<String>,
}

#[derive(Debug, Default)]
struct Shared {
    is_asked: AtomicBool,
    state: Mutex<State>,
}

/// A handle: asks for looks, and says what they have found.
#[derive(Clone, Debug, Default)]
pub struct OverwriteWatch(Arc<Shared>);

impl OverwriteWatch {
    fn lock(&self) -> MutexGuard<'_, State> {
        // What lies behind the lock is replaced as a whole.
        lock(&self.0.state)
    }

    /// Asks for a look, where one is due at this time. The device makes it when it is polled.
    pub fn look(&self, now_ns: u64, expected: impl FnOnce() -> Expected) {
        let mut state = self.lock();
        if now_ns < state.next_ns || state.lost.is_some() || self.0.is_asked.load(Ordering::Relaxed) {
            return;
        }
        let wait_ns = if state.suspicion.is_some() { LOOK_AGAIN_NS } else { LOOK_EVERY_NS };
        state.next_ns = now_ns.saturating_add(wait_ns);
        state.expected = Some(expected());
        self.0.is_asked.store(true, Ordering::Relaxed);
    }

    /// Why the device is not what it was, where two looks in a row have found that.
    #[must_use]
    pub fn lost(&self) -> Option<String> {
        self.lock().lost.clone()
    }

    /// What is damaged on a device that still is what it was, as two looks in a row have found. Where it is enough to write something
    /// again, the next opening does: a look writes nothing.
    #[must_use]
    pub fn damaged(&self) -> Option<String> {
        self.lock().damaged.clone()
    }

    fn is_asked(&self) -> bool {
        self.0.is_asked.load(Ordering::Relaxed)
    }

    /// A look has ended.
    fn ended(&self, found: Option<String>) {
        let mut state = self.lock();
        let found = found.or_else(|| state.seen.end());
        let damage = state.seen.damage().filter(|_| found.is_none());
        state.damaged = damage.clone().filter(|_| state.blemish.is_some());
        state.blemish = damage;
        let before = state.suspicion.take();
        match found {
            Some(why) if before.is_some() => state.lost = Some(why),
            Some(why) => {
                state.suspicion = Some(why);
                // The next look comes sooner, whenever it is asked for: there is no other clock here.
                state.next_ns = state.next_ns.saturating_sub(LOOK_EVERY_NS - LOOK_AGAIN_NS);
            }
            None => {}
        }
        state.expected = None;
        self.0.is_asked.store(false, Ordering::Relaxed);
    }
}

/// A look in progress.
struct Look {
    expected: Expected,
    places: VecDeque<Place>,
    /// What was found in it.
    found: Option<String>,
}

/// The device. Of its own reads it shows only that they are in flight: whoever closes it waits for them.
pub struct OverwriteWatchedDevice {
    inner: Box<dyn Device>,
    watch: OverwriteWatch,
    look: Option<Look>,
    is_reading: bool,
}

impl OverwriteWatchedDevice {
    /// Wraps a device; returns it with the handle that asks for looks.
    #[must_use]
    pub fn new(inner: Box<dyn Device>) -> (Self, OverwriteWatch) {
        let watch = OverwriteWatch::default();
        (Self { inner, watch: watch.clone(), look: None, is_reading: false }, watch)
    }

    /// Begins a look that was asked for, or its next read. One read is in flight at a time.
    fn go_on(&mut self) {
        if self.look.is_none() {
            let mut state = self.watch.lock();
            let Some(expected) = state.expected.take() else { return };
            state.seen.begin();
            let fits = |place: &Place| {
                place.offset_bytes + place.len_bytes as u64 <= self.inner.geometry().size_bytes
                    && state.seen.may_read(place)
            };
            let places = expected.places().into_iter().filter(fits).collect();
            drop(state);
            self.look = Some(Look { expected, places, found: None });
        }
        let Some(look) = &self.look else { return };
        match look.places.front() {
            Some(place) if self.inner.in_flight() < self.inner.queue_limit() => {
                let op = Op::read(Vectored::One(Buf::new(place.len_bytes)));
                self.inner.submit(Request { tag: OWN_TAG, offset_bytes: place.offset_bytes, stream: 0, op });
                self.is_reading = true;
            }
            Some(_) => {}
            None => {
                let found = self.look.take().and_then(|look| look.found);
                self.watch.ended(found);
            }
        }
    }

    fn take(&mut self, completion: &Completion) {
        self.is_reading = false;
        let Some(look) = &mut self.look else { return };
        let Some(place) = look.places.pop_front() else { return };
        let read = match (&completion.result, &completion.bufs) {
            (Ok(()), Some(Vectored::One(bytes))) => Ok(&bytes[..]),
            (Err(error), _) => Err(error),
            _ => return,
        };
        let found = self.watch.lock().seen.take(&look.expected, &place, read);
        if found.is_some() {
            look.found = found;
            look.places.clear();
        }
    }
}

impl Device for OverwriteWatchedDevice {
    forebay_block::forward_device!(self => self.inner;
        name geometry submit wait wake_fds completes_unseen queue_limit in_flight virtual_time);

    fn poll(&mut self, done: &mut Vec<Completion>) {
        if self.watch.is_asked() && !self.is_reading {
            self.go_on();
        }
        let before = done.len();
        self.inner.poll(done);
        if self.is_reading
            && let Some(at) = done[before..].iter().position(|completion| completion.tag == OWN_TAG)
        {
            let own = done.remove(before + at);
            self.take(&own);
            self.go_on();
        }
    }
}
