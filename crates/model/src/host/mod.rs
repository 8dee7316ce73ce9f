//! The host's part of the latency: a term of its own, with a named profile for each source.
//!
//! The same drive is published with 7.57, 8.9 and "up to 12" microseconds; the difference is the processor work of the host. A [`Profile`]
//! describes that work and its interruptions; a [`Thread`] spends it in virtual time. A thread does its work one piece after the other, so
//! with more I/Os in flight its processor time becomes a limit.

mod profile;
#[cfg(test)]
mod tests;

#[cfg(test)]
use profile::TEXTS;
pub use profile::{NAMES, Profile, ProfileError, Stall, Wait, names};

use forebay_block::Random;

/// One application thread on a core of its own, in virtual time.
///
/// The caller keeps the order of its times: [`Thread::submit`] when the application wants to submit an I/O, and [`Thread::sees`] once for
/// each I/O, in the order of completion by the drive.
#[derive(Clone, Debug)]
pub struct Thread {
    submit_ns: u64,
    complete_ns: u64,
    between_ns: u64,
    wait: Wait,
    /// The thread is busy until this time.
    free_ns: u64,
    /// All work of the thread, including interruptions.
    worked_ns: u64,
    /// Causes that take the core away, each with its next time.
    stalls: Vec<(Stall, u64)>,
    /// The earliest next time of all stalls.
    next_stall_ns: u64,
    random: Random,
}

impl Thread {
    /// A thread that is idle at time 0. Threads of one host need different seeds.
    #[must_use]
    pub fn new(profile: &Profile, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let stalls: Vec<_> =
            profile.stalls.iter().map(|stall| (stall.clone(), random.below(stall.every_ns.max(1)))).collect();
        Self {
            submit_ns: profile.submit_ns,
            complete_ns: profile.complete_ns,
            between_ns: profile.between_ns,
            wait: profile.wait,
            free_ns: 0,
            worked_ns: 0,
            next_stall_ns: stalls.iter().map(|(_, at_ns)| *at_ns).min().unwrap_or(u64::MAX),
            stalls,
            random,
        }
    }

    /// When the thread is free again, in nanoseconds: the application's own clock.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.free_ns
    }

    /// How long the core was busy since time 0 with the thread's work and its interruptions, in nanoseconds.
    #[must_use]
    pub fn worked_ns(&self) -> u64 {
        self.worked_ns
    }

    /// Processor work of the application itself, such as computing between I/Os. It starts at `now_ns`, or when the thread is free. Returns
    /// its end.
    pub fn compute(&mut self, now_ns: u64, work_ns: u64) -> u64 {
        self.work(now_ns.max(self.free_ns), work_ns)
    }

    /// The application submits an I/O at `now_ns`, or as soon as the thread is free. Returns when the I/O arrives at the drive.
    pub fn submit(&mut self, now_ns: u64) -> u64 {
        self.work(now_ns.max(self.free_ns), self.submit_ns)
    }

    /// The drive completed an I/O at `done_at_ns`. Returns when the application has the result. The thread is then busy for another
    /// [`Profile::between_ns`], which [`Thread::now_ns`] includes and the latency of this I/O does not.
    pub fn sees(&mut self, done_at_ns: u64) -> u64 {
        let busy = self.free_ns > done_at_ns;
        let begin_ns = self.free_ns.max(done_at_ns);
        let notice_ns = match self.wait {
            // The thread's own core serves the interrupt; a thread that is already running needs no wake-up.
            Wait::Interrupt { handler_ns, .. } if busy => handler_ns,
            Wait::Interrupt { handler_ns, wake_ns } => handler_ns + wake_ns,
            Wait::Poll { .. } if busy => 0,
            // The thread polls at intervals; the completion falls anywhere between two polls.
            Wait::Poll { every_ns } => self.random.below(every_ns + 1),
        };
        let seen_ns = self.work(begin_ns, notice_ns + self.complete_ns);
        self.work(seen_ns, self.between_ns);
        seen_ns
    }

    /// Does work on the core from `begin_ns` on; stalls before its end extend it. Returns the end.
    fn work(&mut self, begin_ns: u64, work_ns: u64) -> u64 {
        let asked_ns = begin_ns;
        let mut begin_ns = begin_ns;
        let mut end_ns = begin_ns + work_ns;
        while self.next_stall_ns <= end_ns {
            let Some(index) = (0..self.stalls.len()).min_by_key(|&index| self.stalls[index].1) else { break };
            let (stall, at) = &mut self.stalls[index];
            let at_ns = *at;
            let over_ns = at_ns + stall.cost_ns;
            if at_ns >= begin_ns {
                end_ns += stall.cost_ns;
            } else if over_ns > begin_ns {
                end_ns += over_ns - begin_ns;
                begin_ns = over_ns;
            }
            // The next stall begins after this one has ended.
            *at = over_ns.max(at_ns + 1)
                + if stall.regular { stall.every_ns } else { self.random.below(stall.every_ns.saturating_mul(2)) };
            self.next_stall_ns = self.stalls.iter().map(|(_, at_ns)| *at_ns).min().unwrap_or(u64::MAX);
        }
        self.free_ns = end_ns;
        self.worked_ns += end_ns - asked_ns;
        end_ns
    }
}
