//! A queue of any target in virtual time, so that different kinds run in one world.

use forebay_block::{Done, Io, Queue, VirtualQueue};

/// A queue of any kind.
pub struct AnyVirtualQueue(Box<dyn VirtualQueue>);

impl AnyVirtualQueue {
    /// Wraps queues of one kind.
    pub fn all<Q: VirtualQueue + 'static>(queues: Vec<Q>) -> Vec<Self> {
        queues.into_iter().map(|queue| Self(Box::new(queue))).collect()
    }
}

impl Queue for AnyVirtualQueue {
    fn slots(&self) -> u32 {
        self.0.slots()
    }
    fn buffer_bytes(&self) -> usize {
        self.0.buffer_bytes()
    }
    fn buffer(&mut self, slot: u32) -> &mut [u8] {
        self.0.buffer(slot)
    }
    fn submit(&mut self, io: &Io) {
        self.0.submit(io);
    }
    fn kick(&mut self) {
        self.0.kick();
    }
    fn reap(&mut self, done: &mut Vec<Done>) {
        self.0.reap(done);
    }
    fn wait(&mut self, timeout_ns: u64) {
        self.0.wait(timeout_ns);
    }
    fn is_synchronous(&self) -> bool {
        self.0.is_synchronous()
    }
    fn in_flight(&self) -> u32 {
        self.0.in_flight()
    }
    fn is_modelled(&self) -> bool {
        self.0.is_modelled()
    }
    fn go_on(&mut self) {
        self.0.go_on();
    }
    fn host_work_ns(&self) -> Option<u64> {
        self.0.host_work_ns()
    }
}

impl VirtualQueue for AnyVirtualQueue {
    fn next_seen_ns(&self) -> u64 {
        self.0.next_seen_ns()
    }
    fn next_event_ns(&self) -> u64 {
        self.0.next_event_ns()
    }
    fn advance(&mut self, to_ns: u64) {
        self.0.advance(to_ns);
    }
}
