//! Queues of a modelled SSD in virtual time. A queue is a thread of the modelled host: its CPU time advances the
//! clock, and it sees completions of the drive when the host's profile says so.

use super::arena::Arena;
use super::error::OpenError;
use crate::modelled::{ModelError, ModelUri};
use forebay_block::{Done, Io, OpKind, Queue, Random, VirtualClock, VirtualQueue, lock};
use forebay_model::endurance::Life;
use forebay_model::host::{Profile, Thread};
use forebay_model::ssd::{Command, Counters, Done as Ended, Op, Ssd};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// A modelled drive and its users.
struct Shared {
    ssd: Box<dyn Ssd>,
    ended: Vec<Ended>,
    /// For each queue, time and slot of the drive's completions, in order of time.
    lines: Vec<VecDeque<(u64, u32)>>,
}

/// A modelled SSD for a session: its state and its time continue from job to job.
pub struct ModelSource {
    uri: ModelUri,
    profile: Profile,
    clock: VirtualClock,
    shared: Arc<Mutex<Shared>>,
    size_bytes: u64,
    random: Mutex<Random>,
}

impl std::fmt::Debug for ModelSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ModelSource").field("uri", &self.uri).finish_non_exhaustive()
    }
}

impl ModelSource {
    /// Builds the drive with this clock. The same name and seed give the same times to the nanosecond.
    ///
    /// # Errors
    /// [`ModelError`]: there is no such drive, not in this size, or no such host.
    pub fn new(uri: &ModelUri, seed: u64, clock: &VirtualClock) -> Result<Self, ModelError> {
        let profile = uri.profile()?;
        let ssd = uri.build(seed)?;
        let size_bytes = ssd.capacity_bytes();
        let shared = Arc::new(Mutex::new(Shared { ssd, ended: Vec::new(), lines: Vec::new() }));
        let (clock, random) = (clock.clone(), Mutex::new(Random::new(seed)));
        Ok(Self { uri: uri.clone(), profile, clock, shared, size_bytes, random })
    }

    /// The virtual clock of the drive.
    #[must_use]
    pub fn clock(&self) -> &VirtualClock {
        &self.clock
    }

    /// Size in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// The target as the user wrote it.
    #[must_use]
    pub fn name(&self) -> String {
        self.uri.to_string()
    }

    /// Rated endurance of the drive; `None` where its preset has none.
    #[must_use]
    pub fn life(&self) -> Option<Life> {
        self.uri.drive().ok()?.life()
    }

    /// The drive's counters.
    #[must_use]
    pub fn counters(&self) -> Counters {
        lock(&self.shared).ssd.counters()
    }

    /// A description for results.
    #[must_use]
    pub fn description(&self) -> String {
        self.uri.description(self.size_bytes)
    }

    /// Queues for `threads` threads, each with `slots` buffers of `buffer_bytes`. Data is neither stored nor
    /// returned.
    ///
    /// # Errors
    /// [`OpenError::Buffers`].
    pub fn queues(&self, threads: u32, slots: u32, buffer_bytes: usize) -> Result<Vec<ModelQueue>, OpenError> {
        (0..threads)
            .map(|_| {
                let mut shared = lock(&self.shared);
                shared.lines.push(VecDeque::with_capacity(slots as usize));
                let line = shared.lines.len() as u32 - 1;
                Ok(ModelQueue {
                    line,
                    arena: Arena::new(slots, buffer_bytes, false)?,
                    thread: Thread::new(&self.profile, lock(&self.random).next_u64()),
                    clock: self.clock.clone(),
                    shared: self.shared.clone(),
                    in_flight: 0,
                })
            })
            .collect()
    }
}

/// The queue of one thread.
pub struct ModelQueue {
    line: u32,
    arena: Arena,
    thread: Thread,
    clock: VirtualClock,
    shared: Arc<Mutex<Shared>>,
    in_flight: u32,
}

impl Queue for ModelQueue {
    fn slots(&self) -> u32 {
        self.arena.slots()
    }

    fn buffer_bytes(&self) -> usize {
        self.arena.buffer_bytes()
    }

    fn buffer(&mut self, slot: u32) -> &mut [u8] {
        self.arena.slice_mut(slot)
    }

    fn submit(&mut self, io: &Io) {
        let op = match io.kind {
            OpKind::Read => Op::Read,
            OpKind::Write | OpKind::WriteFua => Op::Write,
            OpKind::Trim => Op::Trim,
            OpKind::Flush | OpKind::Fsync => Op::Flush,
        };
        let at_ns = self.thread.submit(self.clock.now_ns());
        self.clock.show(at_ns);
        let tag = u64::from(self.line) << 32 | u64::from(io.slot);
        let command = Command { tag, op, offset_bytes: io.offset_bytes, len_bytes: io.len_bytes, stream: 0 };
        lock(&self.shared).ssd.submit(at_ns, command);
        self.in_flight += 1;
    }

    fn kick(&mut self) {}

    /// Returns one completion at a time: the thread sees each at a time of its own.
    fn reap(&mut self, done: &mut Vec<Done>) {
        let now = self.clock.now_ns();
        let mut shared = lock(&self.shared);
        let line = &mut shared.lines[self.line as usize];
        if let Some((done_ns, slot)) = line.pop_front_if(|(done_ns, _)| *done_ns <= now) {
            self.clock.show(self.thread.sees(done_ns).max(now));
            self.in_flight -= 1;
            done.push(Done { slot, error: None });
        }
    }

    fn wait(&mut self, _timeout_ns: u64) {}

    fn in_flight(&self) -> u32 {
        self.in_flight
    }

    fn is_modelled(&self) -> bool {
        true
    }

    fn go_on(&mut self) {
        self.clock.show(self.thread.now_ns().max(self.clock.now_ns()));
    }

    fn host_work_ns(&self) -> Option<u64> {
        Some(self.thread.worked_ns())
    }
}

impl VirtualQueue for ModelQueue {
    fn next_seen_ns(&self) -> u64 {
        lock(&self.shared).lines[self.line as usize].front().map_or(u64::MAX, |(done_ns, _)| *done_ns)
    }

    fn next_event_ns(&self) -> u64 {
        lock(&self.shared).ssd.next_event_ns()
    }

    fn advance(&mut self, to_ns: u64) {
        let Shared { ssd, ended, lines } = &mut *lock(&self.shared);
        loop {
            let next_ns = ssd.next_event_ns();
            if next_ns > to_ns {
                return;
            }
            ssd.advance(next_ns, ended);
            if !ended.is_empty() {
                break;
            }
        }
        for Ended { tag, at_ns } in ended.drain(..) {
            lines[(tag >> 32) as usize].push_back((at_ns, tag as u32));
        }
    }
}
