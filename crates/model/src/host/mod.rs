//! What the host adds to a drive's time: a term of its own, with a named profile for each source.
//!
//! The same drive is published with 7.57, 8.9 and "up to 12" microseconds: what differs is the processor work around it.
//! A [`Profile`] says what that work is and what interrupts it; a [`Thread`] spends it in virtual time. All work of a
//! thread is done one after the other, so with more I/Os in flight its processor time becomes a limit by itself.

mod profile;
#[cfg(test)]
mod tests;

#[cfg(test)]
use profile::TEXTS;
pub use profile::{NAMES, Profile, ProfileError, Stall, Wait, names};

use forebay_block::Random;

/// One application thread on a core of its own, in virtual time.
///
/// The caller asks in the order of its times: [`Thread::submit`] when the application wants to submit an I/O, and
/// [`Thread::sees`] once for each I/O, in the order in which the drive completed them.
#[derive(Clone, Debug)]
pub struct Thread {
    submit_ns: u64,
    complete_ns: u64,
    between_ns: u64,
    wait: Wait,
    /// Up to when the thread has work.
    free_ns: u64,
    /// All its work, and what kept it from it.
    worked_ns: u64,
    /// Causes that take the core away, and when each does so next.
    stalls: Vec<(Stall, u64)>,
    /// The earliest of those times.
    next_stall_ns: u64,
    random: Random,
}

impl Thread {
    /// A thread that begins at time 0 with nothing to do. Threads of one host have different seeds.
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

    /// When the thread can do something next: the application's own clock, in nanoseconds.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.free_ns
    }

    /// How long the core was taken since time 0, by the thread's work and by what interrupted it, in nanoseconds.
    #[must_use]
    pub fn worked_ns(&self) -> u64 {
        self.worked_ns
    }

    /// Processor work of the application itself, such as think time spent computing: from `now_ns`, or from when the
    /// thread is free. Returns when it is done.
    pub fn compute(&mut self, now_ns: u64, work_ns: u64) -> u64 {
        self.work(now_ns.max(self.free_ns), work_ns)
    }

    /// The application submits an I/O at `now_ns`, or as soon as the thread is free. Returns when it arrives at the
    /// drive.
    pub fn submit(&mut self, now_ns: u64) -> u64 {
        self.work(now_ns.max(self.free_ns), self.submit_ns)
    }

    /// The drive ended an I/O at `done_at_ns`. Returns when the application has it. After that the thread is busy for
    /// [`Profile::between_ns`] more, which [`Thread::now_ns`] shows and the latency of this I/O does not.
    pub fn sees(&mut self, done_at_ns: u64) -> u64 {
        let busy = self.free_ns > done_at_ns;
        let begin_ns = self.free_ns.max(done_at_ns);
        let notice_ns = match self.wait {
            // The interrupt is served on the thread's own core; where it works at something else it need not be woken.
            Wait::Interrupt { handler_ns, .. } if busy => handler_ns,
            Wait::Interrupt { handler_ns, wake_ns } => handler_ns + wake_ns,
            Wait::Poll { .. } if busy => 0,
            // It looks every so often; the end falls anywhere between two looks.
            Wait::Poll { every_ns } => self.random.below(every_ns + 1),
        };
        let seen_ns = self.work(begin_ns, notice_ns + self.complete_ns);
        self.work(seen_ns, self.between_ns);
        seen_ns
    }

    /// Work on the core from `begin_ns`; what takes the core away before the end makes it longer.
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
            // A stall cannot begin while it runs.
            *at = over_ns.max(at_ns + 1)
                + if stall.regular { stall.every_ns } else { self.random.below(stall.every_ns.saturating_mul(2)) };
            self.next_stall_ns = self.stalls.iter().map(|(_, at_ns)| *at_ns).min().unwrap_or(u64::MAX);
        }
        self.free_ns = end_ns;
        self.worked_ns += end_ns - asked_ns;
        end_ns
    }
}
