//! The pool as the backend of the server, and the entry for the daemon's own requests.

use crate::evidence::Evidence;
use forebay_block::DiskId;
use forebay_export::Backend;
use forebay_export::server::monotonic_ns as now_ns;
use forebay_prism::HostHints;
use forebay_volume::engine::{RequestCounts, RequestKind};
use forebay_volume::{Completion, HintPart, HintParts, Op, Pool, Request};
use std::collections::BTreeSet;

/// First token of the daemon's own requests. The server's tokens stay far below.
const OWN_TOKENS: u64 = 1 << 63;

/// Limits of class corrections in progress: how many, and at how many blocks in total no more are added. They leave
/// room for hosts' requests.
const CORRECTIONS_MAX: usize = 32;
const CORRECTION_BLOCKS_MAX: u64 = 6400;

/// A served pool.
pub struct PoolBackend {
    /// The pool.
    pub pool: Pool,
    /// What the pool's hosts report of their data.
    pub evidence: Evidence,
    /// Token and count of blocks of each correction in progress.
    corrections: Vec<(u64, u64)>,
    own_in_flight: usize,
    /// The daemon has submitted requests since the engine was polled last.
    own_unpolled: bool,
    next_own: u64,
    own_done: Vec<Completion>,
    /// Tokens of the daemon's requests whose completions nobody waits for any more.
    forgotten: BTreeSet<u64>,
    /// Counts of requests by export, indexed by the export's number.
    asked: Vec<RequestCounts>,
}

impl PoolBackend {
    /// A backend that serves `pool`.
    pub fn new(pool: Pool, evidence: Evidence) -> Self {
        let (corrections, own_done, asked) = (Vec::new(), Vec::new(), Vec::new());
        Self {
            pool,
            evidence,
            corrections,
            own_in_flight: 0,
            own_unpolled: false,
            next_own: OWN_TOKENS,
            own_done,
            forgotten: BTreeSet::new(),
            asked,
        }
    }

    /// Requests that came through an export, completed or not.
    pub fn asked(&self, export: u16) -> RequestCounts {
        self.asked.get(usize::from(export)).copied().unwrap_or_default()
    }

    /// Submits reclassifications of blocks whose file is known now, and counts finished ones.
    fn correct(&mut self) {
        let mut at = 0;
        while at < self.corrections.len() {
            let (token, blocks) = self.corrections[at];
            match self.take_own(token) {
                Some(completion) => {
                    self.evidence.corrected(blocks, completion.result.is_ok());
                    self.corrections.swap_remove(at);
                }
                None => at += 1,
            }
        }
        while self.corrections.len() < CORRECTIONS_MAX
            && self.corrections.iter().map(|(_, blocks)| blocks).sum::<u64>() < CORRECTION_BLOCKS_MAX
            && let Some((disk, correction)) = self.evidence.next_correction()
        {
            let hints = HostHints {
                file: Some(correction.file),
                file_offset_bytes: correction.file_offset_bytes,
                is_by_map: true,
                ..HostHints::default()
            };
            let blocks = correction.blocks;
            let token = self.submit_own(Request {
                hints: Some(Box::new(HintParts::from_iter([HintPart { blocks, hints }]))),
                ..Request::new(0, disk, correction.first * 4096, blocks * 4096, Op::Reclass)
            });
            self.corrections.push((token, blocks));
        }
    }

    /// Submits a request of the daemon under a new token, and returns the token.
    pub fn submit_own(&mut self, mut request: Request) -> u64 {
        let token = self.next_own;
        self.next_own += 1;
        request.token = token;
        self.own_in_flight += 1;
        self.own_unpolled = true;
        self.pool.submit(request);
        token
    }

    /// The completion of a request of the daemon; `None` where it has not come yet.
    pub fn take_own(&mut self, token: u64) -> Option<Completion> {
        let at = self.own_done.iter().position(|completion| completion.token == token)?;
        Some(self.own_done.swap_remove(at))
    }

    /// Drops the completion of a request of the daemon, now or when it comes.
    pub fn forget_own(&mut self, token: u64) {
        if self.take_own(token).is_none() {
            self.forgotten.insert(token);
        }
    }
}

impl Backend for PoolBackend {
    fn begin_session(&mut self, disk: Option<DiskId>) -> u64 {
        self.pool.tick(now_ns());
        self.pool.engine.begin_session(disk)
    }

    fn end_session(&mut self, session: u64) {
        self.pool.tick(now_ns());
        self.pool.engine.end_session(session);
    }

    fn submit(&mut self, mut request: Request) {
        // The engine measures latencies by its own clock, which stands still between ticks.
        self.pool.tick(now_ns());
        let export = usize::from(request.export);
        if export >= self.asked.len() {
            // The vector grows once per export: indices are not used again.
            self.asked.resize(export + 1, RequestCounts::default());
        }
        self.asked[export].count(RequestKind::of_op(&request.op), request.len_bytes);
        if matches!(request.op, Op::Write(_)) && !self.evidence.is_empty() {
            // Live evidence knows more than the hints that came with the request; where it knows nothing, those stay.
            let hints = self.evidence.hints(request.disk, request.offset_bytes, request.len_bytes);
            request.hints = hints.or(request.hints);
        }
        self.pool.submit(request);
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        let mut at = done.len();
        self.pool.tick(now_ns());
        self.own_unpolled = false;
        self.pool.poll(done);
        if self.own_in_flight == 0 {
            return;
        }
        while at < done.len() {
            if done[at].token >= OWN_TOKENS {
                self.own_in_flight -= 1;
                let completion = done.remove(at);
                if !self.forgotten.remove(&completion.token) {
                    self.own_done.push(completion);
                }
            } else {
                at += 1;
            }
        }
        if !self.corrections.is_empty() && !self.own_done.is_empty() {
            self.correct();
        }
    }

    fn wake_fds(&self, out: &mut Vec<i32>) {
        self.pool.wake_fds(out);
    }

    fn tick(&mut self, now_ns: u64) {
        self.pool.tick(now_ns);
        if !self.evidence.is_empty() {
            self.evidence.tick(self.pool.engine.prism());
            self.correct();
        }
    }

    fn in_flight(&self) -> bool {
        // Devices with a descriptor signal their completions; the others must be polled.
        let mut devices = self.pool.devices.list.iter();
        let computes = self.own_unpolled || self.pool.engine.computes();
        computes || devices.any(|device| device.completes_unseen())
    }
}

#[cfg(test)]
// In tests a panic is the failure.
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::pool::{Ids, Opening, format, open, open_devices};
    use forebay_block::Random;
    use forebay_device::OpenMode;

    fn served() -> (PoolBackend, DiskId) {
        let text = "[pool]\nname = \"own\"\n[[fast]]\ntarget = \"ram:?size=64MiB\"\n[[capacity]]\ntarget = \"ram:?size=64MiB\"\n\
                    [[disk]]\nname = \"d\"\nsize = \"16MiB\"\n[memory]\nlimit = \"64MiB\"\n";
        let config: Config = toml::from_str(text).unwrap();
        let mut devices = open_devices(&config, OpenMode::ReadWrite).unwrap();
        format(&config, &mut devices, &mut Ids::Seeded(&mut Random::new(1))).unwrap();
        let (engine, _) = open(&config, &mut devices, Opening::Recover).unwrap();
        let disk = engine.disk_named("d").unwrap().id;
        (PoolBackend::new(Pool::new(engine, devices), Evidence::new(1 << 20)), disk)
    }

    fn submit_reclass(backend: &mut PoolBackend, disk: DiskId) -> u64 {
        let (offset_bytes, len_bytes, op) = (0, 16 << 20, Op::Reclass);
        let request = Request::new(0, disk, offset_bytes, len_bytes, op);
        backend.submit_own(request)
    }

    #[test]
    fn regression_own_requests_do_not_wait_for_a_tick() {
        let (mut backend, disk) = served();
        assert!(!backend.in_flight());
        let token = submit_reclass(&mut backend, disk);
        assert!(backend.in_flight(), "the server polls at once");
        let mut done = Vec::new();
        for _ in 0..1000 {
            backend.poll(&mut done);
        }
        assert!(done.is_empty(), "no client has asked for it");
        assert!(backend.take_own(token).unwrap().result.is_ok());
        assert!(!backend.in_flight());
    }

    /// Regression: the completion of a request whose job had timed out was kept for ever.
    #[test]
    fn regression_the_end_of_a_request_that_nobody_waits_for_is_not_kept() {
        let (mut backend, disk) = served();
        let [early, late] = [(); 2].map(|()| submit_reclass(&mut backend, disk));
        backend.forget_own(early);
        for _ in 0..1000 {
            backend.poll(&mut Vec::new());
        }
        assert_eq!(backend.own_done.len(), 1);
        backend.forget_own(late);
        assert!(backend.own_done.is_empty() && backend.forgotten.is_empty());
        assert!(!backend.in_flight());
    }
}
