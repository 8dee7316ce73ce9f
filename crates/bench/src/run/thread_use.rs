//! The processor time of a thread, and how often the thread lost its processor.

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

/// Processor use of this thread since its beginning, or within a period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadUse {
    /// Processor time, user and system, in nanoseconds.
    pub cpu_ns: (u64, u64),
    /// Voluntary and involuntary context switches; `None` where they are not known.
    pub switches: Option<(u64, u64)>,
    /// How often the thread moved to another processor; `None` where that is not known.
    pub migrations: Option<u64>,
    /// Time in which the thread was runnable and waited for a processor, in nanoseconds; `None` where that is not
    /// known.
    pub waited_ns: Option<u64>,
    /// Virtual time only: how long the thread of the modelled host has worked, in nanoseconds.
    pub modelled_ns: Option<u64>,
}

/// Below this, user or system time is no reliable split: the kernel divides the processor time by the clock ticks that
/// met each of them, and this is ten ticks of the longest kind (10 ms).
const SPLIT_MIN_NS: u64 = 100_000_000;

impl ThreadUse {
    /// Processor time, user and system together, in nanoseconds.
    #[must_use]
    pub fn cpu_all_ns(&self) -> u64 {
        self.cpu_ns.0 + self.cpu_ns.1
    }

    /// User and system time in nanoseconds; `None` if too few clock ticks met one of the two.
    #[must_use]
    pub fn split_ns(&self) -> Option<(u64, u64)> {
        let (user_ns, system_ns) = self.cpu_ns;
        (user_ns.min(system_ns) >= SPLIT_MIN_NS || user_ns + system_ns == 0).then_some(self.cpu_ns)
    }

    /// The use of this thread up to now (getrusage(2), RUSAGE_THREAD), without the figures of `Scheduled`.
    pub fn now() -> Self {
        getrusage(UsageWho::RUSAGE_THREAD).map_or_else(
            |_| Self::default(),
            |usage| {
                let ns = |time: nix::sys::time::TimeVal| u64::try_from(time.num_nanoseconds()).unwrap_or(0);
                let count = |switches: i64| u64::try_from(switches).unwrap_or(0);
                Self {
                    cpu_ns: (ns(usage.user_time()), ns(usage.system_time())),
                    switches: Some((
                        count(usage.voluntary_context_switches()),
                        count(usage.involuntary_context_switches()),
                    )),
                    ..Self::default()
                }
            },
        )
    }

    /// The use between `before` and this value.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let less = |now: (u64, u64), then: (u64, u64)| (now.0.saturating_sub(then.0), now.1.saturating_sub(then.1));
        let less_of = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        Self {
            cpu_ns: less(self.cpu_ns, before.cpu_ns),
            switches: self.switches.zip(before.switches).map(|(now, then)| less(now, then)),
            migrations: less_of(self.migrations, before.migrations),
            waited_ns: less_of(self.waited_ns, before.waited_ns),
            modelled_ns: less_of(self.modelled_ns, before.modelled_ns),
        }
    }

    /// The sum with another thread's use. A figure that is unknown for one thread is unknown for the sum.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let sum = |one: (u64, u64), two: (u64, u64)| (one.0 + two.0, one.1 + two.1);
        let sum_of = |one: Option<u64>, two: Option<u64>| Some(one?.saturating_add(two?));
        Self {
            cpu_ns: sum(self.cpu_ns, other.cpu_ns),
            switches: self.switches.zip(other.switches).map(|(one, two)| sum(one, two)),
            migrations: sum_of(self.migrations, other.migrations),
            waited_ns: sum_of(self.waited_ns, other.waited_ns),
            modelled_ns: sum_of(self.modelled_ns, other.modelled_ns),
        }
    }
}

/// What the scheduler did with this thread since its beginning.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scheduled {
    migrations: Option<u64>,
    waited_ns: Option<u64>,
}

impl Scheduled {
    /// The figures up to now (Linux has them if it was built with CONFIG_SCHED_DEBUG and CONFIG_SCHED_INFO). Takes some
    /// tens of microseconds, so it is not called while I/Os are measured.
    pub fn now() -> Self {
        let read = |name: &str| std::fs::read_to_string(format!("/proc/thread-self/{name}")).ok();
        Self {
            migrations: read("sched").and_then(|text| migrations_in(&text)),
            waited_ns: read("schedstat").and_then(|text| waited_in(&text)),
        }
    }

    /// Adds these figures to the thread's use.
    pub fn and(self, used: ThreadUse) -> ThreadUse {
        ThreadUse { migrations: self.migrations, waited_ns: self.waited_ns, ..used }
    }
}

/// The fields of /proc/pid/schedstat: time on the processor, time waiting for one, number of time slices (proc(5)).
fn waited_in(text: &str) -> Option<u64> {
    text.split_ascii_whitespace().nth(1)?.parse().ok()
}

fn migrations_in(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with("se.nr_migrations"))?;
    line.rsplit_once(':')?.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migrations_stand_in_their_line() {
        let text = "load-0 (12, #threads: 3)\n----\nse.exec_start       :   47.11\nse.nr_migrations                             :                   17\nnuma_pages_migrated : 4\n";
        assert_eq!(migrations_in(text), Some(17));
        assert_eq!(migrations_in("nr_switches : 5\n"), None);
        assert_eq!((waited_in("7021 485 12\n"), waited_in("")), (Some(485), None));
    }

    /// A result had "0.00 us user" of 598 us, beside 860 ns of the tool's own: the kernel splits by ticks, and none had
    /// met user time.
    #[test]
    fn regression_a_few_ticks_are_no_split() {
        let of = |user_ms: u64, system_ms: u64| ThreadUse {
            cpu_ns: (user_ms * 1_000_000, system_ms * 1_000_000),
            ..ThreadUse::default()
        };
        for (user_ms, system_ms, known) in
            [(0, 240, false), (240, 0, false), (99, 5000, false), (100, 100, true), (0, 0, true)]
        {
            let used = of(user_ms, system_ms);
            assert_eq!(used.split_ns(), known.then_some(used.cpu_ns), "{user_ms} {system_ms}");
            assert_eq!(used.cpu_all_ns(), (user_ms + system_ms) * 1_000_000);
        }
    }

    #[test]
    fn a_thread_that_sleeps_gives_up_its_processor() {
        let before = ThreadUse::now();
        for _ in 0..20 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let used = ThreadUse::now().since(&before);
        assert!(used.switches.is_some_and(|(voluntary, _)| voluntary >= 20), "{used:?}");
        let unknown = ThreadUse { switches: None, ..used };
        assert_eq!(
            (used.and(&unknown).switches, used.and(&used).switches.map(|both| both.0)),
            (None, used.switches.map(|one| one.0 * 2))
        );
    }
}
