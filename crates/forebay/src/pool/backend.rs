//! The pool as the server's backend, with a way in for requests of the daemon itself.

use forebay_export::Backend;
use forebay_volume::{Completion, Pool, Request};
use rustix::time::{ClockId, clock_gettime};

/// Tokens from here on belong to the daemon; the server's end far below.
const OWN_TOKENS: u64 = 1 << 63;

/// A pool that is served.
pub struct PoolBackend {
    /// The pool.
    pub pool: Pool,
    own_in_flight: usize,
    next_own: u64,
    own_done: Vec<Completion>,
}

/// Monotonic time in nanoseconds.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    // Since boot: never negative.
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

impl PoolBackend {
    /// Serves `pool`.
    pub fn new(pool: Pool) -> Self {
        Self { pool, own_in_flight: 0, next_own: OWN_TOKENS, own_done: Vec::new() }
    }

    /// Submits a request of the daemon; its token is chosen here and returned.
    pub fn submit_own(&mut self, mut request: Request) -> u64 {
        let token = self.next_own;
        self.next_own += 1;
        request.token = token;
        self.own_in_flight += 1;
        self.pool.submit(request);
        token
    }

    /// The end of a request of the daemon, where it has come.
    pub fn take_own(&mut self, token: u64) -> Option<Completion> {
        let at = self.own_done.iter().position(|completion| completion.token == token)?;
        Some(self.own_done.swap_remove(at))
    }
}

impl Backend for PoolBackend {
    fn submit(&mut self, request: Request) {
        // The engine measures latencies by its clock, which stands still between ticks.
        self.pool.tick(now_ns());
        self.pool.submit(request);
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        let before = done.len();
        self.pool.tick(now_ns());
        self.pool.poll(done);
        if self.own_in_flight > 0 {
            let mut at = before;
            while at < done.len() {
                if done[at].token >= OWN_TOKENS {
                    self.own_in_flight -= 1;
                    self.own_done.push(done.remove(at));
                } else {
                    at += 1;
                }
            }
        }
    }

    fn wake_fds(&self, out: &mut Vec<i32>) {
        self.pool.wake_fds(out);
    }

    fn tick(&mut self, now_ns: u64) {
        self.pool.tick(now_ns);
    }

    fn in_flight(&self) -> bool {
        // Devices with a descriptor announce their completions; the others must be asked.
        let devices = self.pool.devices.list.iter();
        devices.filter(|device| device.wake_fd().is_none()).any(|device| device.in_flight() > 0)
    }
}
