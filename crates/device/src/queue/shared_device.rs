//! One device that several queues share. Requests are submitted under a lock; completions of another queue are put
//! aside for it. Queues come and go.

use crate::bell::Bell;
use crate::file::kernel;
use forebay_block::{Completion, Device, Geometry, Request, lock};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Polls of a device that completes in `poll` before `carry_out` leaves the rest to `take`.
const ROUNDS_MAX: u32 = 100_000;
/// Pause between two polls of a device that cannot signal its completions.
const LOOK_PAUSE: Duration = Duration::from_micros(100);

/// A device and its queues.
pub(super) struct SharedDevice {
    device: Box<dyn Device>,
    /// Requests that the device had no room for yet, in order. Bounded by the slots of all queues.
    backlog: VecDeque<Request>,
    /// Completions put aside, one outbox per queue.
    outboxes: BTreeMap<QueueNumber, Outbox>,
    /// Number of the next queue.
    next_number: QueueNumber,
    scratch: Vec<Completion>,
}

struct Outbox {
    ready: Vec<Completion>,
    /// The queue sleeps, and is to be woken by `wake`.
    waiting: bool,
    wake: Arc<Bell>,
}

/// A shared handle with a lock. A queue that panicked leaves the device usable, because each step is complete.
#[derive(Clone)]
pub(super) struct Handle(Arc<Mutex<SharedDevice>>);

/// Number of a queue, in the upper half of its requests' tags. Each is used once, so that a late completion of a
/// queue that is gone reaches no other one; after 2^32 queues the numbers wrap.
pub(super) type QueueNumber = u32;

fn number_of(tag: u64) -> QueueNumber {
    (tag >> 32) as QueueNumber
}

impl Handle {
    /// Takes over a device, which must be idle.
    pub(super) fn new(device: Box<dyn Device>) -> Self {
        let (backlog, outboxes, scratch) = (VecDeque::new(), BTreeMap::new(), Vec::new());
        Self(Arc::new(Mutex::new(SharedDevice { device, backlog, outboxes, next_number: 0, scratch })))
    }

    fn lock(&self) -> MutexGuard<'_, SharedDevice> {
        lock(&self.0)
    }

    pub(super) fn geometry(&self) -> Geometry {
        self.lock().device.geometry().clone()
    }

    /// Count of queues.
    pub(super) fn queues(&self) -> usize {
        self.lock().outboxes.len()
    }

    /// Registers a new queue and returns its number.
    ///
    /// # Errors
    /// The operating system gives no eventfd.
    pub(super) fn enter(&self) -> io::Result<QueueNumber> {
        let outbox = Outbox { ready: Vec::new(), waiting: false, wake: Arc::new(Bell::new()?) };
        let mut shared = self.lock();
        // The loop ends: there are fewer queues than numbers, since each has a descriptor.
        while shared.outboxes.contains_key(&shared.next_number) {
            shared.next_number = shared.next_number.wrapping_add(1);
        }
        let number = shared.next_number;
        shared.next_number = number.wrapping_add(1);
        shared.outboxes.insert(number, outbox);
        Ok(number)
    }

    /// Removes a queue with `outstanding` requests. Those that were not submitted to the device never start. For the
    /// others it waits, at most `timeout`, so that they do not disturb the I/O of later queues.
    pub(super) fn leave(&self, number: QueueNumber, outstanding: usize, timeout: Duration) {
        let started = Instant::now();
        let mut left = {
            let mut shared = self.lock();
            let before = shared.backlog.len();
            shared.backlog.retain(|request| number_of(request.tag) != number);
            outstanding.saturating_sub(before - shared.backlog.len())
        };
        let mut forgotten = Vec::new();
        while left > 0 && started.elapsed() < timeout {
            self.take(number, &mut forgotten);
            left = left.saturating_sub(forgotten.len());
            if left > 0 && forgotten.is_empty() {
                if self.is_synchronous() {
                    std::thread::sleep(LOOK_PAUSE);
                } else {
                    self.wait(number, 100_000_000);
                }
            }
            forgotten.clear();
        }
        self.lock().outboxes.remove(&number);
    }

    /// Submits requests.
    pub(super) fn give(&self, requests: &mut Vec<Request>) {
        let mut shared = self.lock();
        shared.backlog.extend(requests.drain(..));
        shared.pump();
    }

    /// Submits one request and polls until it has ended, where the device progresses only by polling.
    pub(super) fn carry_out(&self, request: Request, number: QueueNumber, into: &mut Vec<Completion>) {
        let tag = request.tag;
        let mut shared = self.lock();
        shared.backlog.push_back(request);
        for _ in 0..ROUNDS_MAX {
            shared.pump();
            let ready = |outbox: &Outbox| outbox.ready.iter().any(|completion| completion.tag == tag);
            if shared.outboxes.get(&number).is_none_or(ready) {
                break;
            }
        }
        shared.empty(number, into);
    }

    /// Takes the completions of a queue.
    pub(super) fn take(&self, number: QueueNumber, into: &mut Vec<Completion>) {
        let mut shared = self.lock();
        shared.pump();
        shared.empty(number, into);
    }

    /// Sleeps until a request of the queue has completed, or the time is over.
    pub(super) fn wait(&self, number: QueueNumber, timeout_ns: u64) {
        let started = Instant::now();
        let timeout = Duration::from_nanos(timeout_ns);
        loop {
            let mut fds = Vec::new();
            let wake = {
                let mut shared = self.lock();
                shared.stop_waiting(number);
                shared.pump();
                shared.device.wake_fds(&mut fds);
                let completes_unseen = fds.is_empty() || shared.device.completes_unseen();
                let Some(outbox) = shared.outboxes.get_mut(&number) else { return };
                // What no descriptor signals progresses only by polling, so this does not sleep.
                if completes_unseen || !outbox.ready.is_empty() {
                    return;
                }
                outbox.waiting = true;
                Arc::clone(&outbox.wake)
            };
            let left = timeout.saturating_sub(started.elapsed());
            let want = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
            // The device lives as long as `self`, and its descriptors with it.
            let mut wanted: Vec<_> = [wake.fd()].into_iter().chain(fds).map(want).collect();
            kernel::poll_until(&mut wanted, u64::try_from(left.as_nanos()).unwrap_or(u64::MAX));
            if wanted[0].revents != 0 {
                wake.clear();
            }
            if started.elapsed() >= timeout {
                self.lock().stop_waiting(number);
                return;
            }
        }
    }

    /// Whether requests complete inside the calls, on the caller's time.
    pub(super) fn is_synchronous(&self) -> bool {
        let mut fds = Vec::new();
        self.lock().device.wake_fds(&mut fds);
        fds.is_empty()
    }
}

impl SharedDevice {
    /// Moves the completions of a queue.
    fn empty(&mut self, number: QueueNumber, into: &mut Vec<Completion>) {
        if let Some(outbox) = self.outboxes.get_mut(&number) {
            into.append(&mut outbox.ready);
        }
    }

    fn stop_waiting(&mut self, number: QueueNumber) {
        if let Some(outbox) = self.outboxes.get_mut(&number) {
            outbox.waiting = false;
        }
    }

    /// Submits as many requests as the device has room for, and sorts completions by queue.
    fn pump(&mut self) {
        while self.device.in_flight() < self.device.queue_limit() {
            let Some(request) = self.backlog.pop_front() else { break };
            self.device.submit(request);
        }
        self.device.poll(&mut self.scratch);
        for completion in self.scratch.drain(..) {
            // The completion of a queue that did not wait for it is dropped.
            let Some(outbox) = self.outboxes.get_mut(&number_of(completion.tag)) else { continue };
            outbox.ready.push(completion);
            if std::mem::take(&mut outbox.waiting) {
                outbox.wake.ring();
            }
        }
    }
}
