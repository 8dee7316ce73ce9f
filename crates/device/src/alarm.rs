//! A descriptor that becomes readable at a given time, for event loops that wait for a device in real time.
//!
//! The system wakes sleepers late: by 5 us on bare hardware, by 20 to 100 us in a guest. So the descriptor becomes
//! readable early, by as much as nearly all wake-ups were late so far (the lead). It stays readable, and the event
//! loop polls for the rest of the time. Setting a timer takes 6 us in a guest. So it is not set for a time that is
//! near, and an alarm that rang keeps ringing for a moment after the last request, because the next one may come at
//! once.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// How long before its time the alarm rings: the upper limit, the initial value, the lower limit.
const LEAD_MAX_NS: u64 = 100_000;
const LEAD_FIRST_NS: u64 = 60_000;
const LEAD_MIN_NS: u64 = 5_000;
/// A wake-up that was later than the lead raises the lead by the difference divided by this.
const LEAD_UP: u64 = 4;
/// A wake-up in time lowers the lead by its value divided by this, so that a few wake-ups in a hundred are late.
const LEAD_DOWN: u64 = 512;
/// No timer is set where the alarm would ring within this time.
const NEAR_NS: u64 = 15_000;
/// How long the alarm keeps ringing after nothing is waited for any more.
const LINGER_NS: u64 = 50_000;

/// When the event loop has to look next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// The earliest completion is expected at this time, in nanoseconds.
    At(u64),
    /// The device must be polled all the time.
    Always,
    /// Nothing is in flight, or another descriptor signals the completion.
    Never,
}

/// The alarm. Times are those of the caller's clock in nanoseconds, which runs at the speed of the system's.
pub(crate) struct Alarm {
    timer: OwnedFd,
    /// An epoll descriptor over the timer and other descriptors; `None` where there are no others.
    together: Option<OwnedFd>,
    /// Time from which on the timer is readable; `None` where it is not set.
    rings_ns: Option<u64>,
    /// A sleep may end with this timer; its lateness has not been measured yet.
    is_set: bool,
    /// When something was waited for last.
    wanted_ns: u64,
    lead: Lead,
}

/// Estimate of the lateness that nearly all wake-ups stay below.
struct Lead {
    lead_ns: u64,
}

impl Lead {
    fn woken(&mut self, late_ns: u64) {
        if late_ns > self.lead_ns {
            self.lead_ns += (late_ns - self.lead_ns) / LEAD_UP;
        } else {
            self.lead_ns -= self.lead_ns / LEAD_DOWN;
        }
        self.lead_ns = self.lead_ns.clamp(LEAD_MIN_NS, LEAD_MAX_NS);
    }
}

fn owned(fd: i32) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a fresh descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn watch(epoll: &OwnedFd, fd: i32) -> io::Result<()> {
    let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
    // SAFETY: a valid event, which the kernel copies; the descriptors are open.
    match unsafe { libc::epoll_ctl(epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &raw mut event) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

impl Alarm {
    /// An alarm that is not set. Its descriptor is also readable whenever one of `others` is; these must stay open as
    /// long as the alarm.
    ///
    /// # Errors
    /// The operating system gives no descriptor.
    pub(crate) fn new(others: &[i32]) -> io::Result<Self> {
        // SAFETY: takes no pointers.
        let timer =
            owned(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC | libc::TFD_NONBLOCK) })?;
        let together = if others.is_empty() {
            None
        } else {
            // SAFETY: takes no pointers.
            let epoll = owned(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
            watch(&epoll, timer.as_raw_fd())?;
            others.iter().try_for_each(|&other| watch(&epoll, other))?;
            Some(epoll)
        };
        let lead = Lead { lead_ns: LEAD_FIRST_NS };
        Ok(Self { timer, together, rings_ns: None, is_set: false, wanted_ns: 0, lead })
    }

    /// The descriptor to wait for.
    pub(crate) fn fd(&self) -> i32 {
        self.together.as_ref().unwrap_or(&self.timer).as_raw_fd()
    }

    /// Sets the alarm for what is waited for now.
    pub(crate) fn set(&mut self, now_ns: u64, due: Due) {
        if self.is_set
            && let Some(late_ns) = self.rings_ns.and_then(|at_ns| now_ns.checked_sub(at_ns))
        {
            self.is_set = false;
            self.lead.woken(late_ns);
        }
        let at_ns = match due {
            Due::Never if self.rings_ns.is_some() && now_ns.saturating_sub(self.wanted_ns) > LINGER_NS => {
                self.rings_ns = None;
                return self.set_timer(0);
            }
            Due::Never => return,
            Due::Always => now_ns,
            Due::At(due_ns) => due_ns.saturating_sub(self.lead.lead_ns),
        };
        self.wanted_ns = now_ns;
        let is_near = at_ns <= now_ns + NEAR_NS;
        if self.rings_ns.is_some_and(|rings_ns| if is_near { rings_ns <= now_ns } else { rings_ns == at_ns }) {
            return;
        }
        self.is_set = !is_near;
        self.rings_ns = Some(if is_near { now_ns } else { at_ns });
        self.set_timer(if is_near { 1 } else { at_ns - now_ns });
    }

    /// Sets the timer and makes it unreadable until it expires. A delay of 0 disarms it (timerfd_settime(2)).
    fn set_timer(&self, delay_ns: u64) {
        let delay = libc::timespec {
            tv_sec: (delay_ns / 1_000_000_000) as libc::time_t,
            tv_nsec: (delay_ns % 1_000_000_000) as libc::c_long,
        };
        let never = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let value = libc::itimerspec { it_interval: never, it_value: delay };
        // SAFETY: a valid itimerspec, and nothing is written back. It cannot fail for a timer of our own and such times.
        unsafe { libc::timerfd_settime(self.timer.as_raw_fd(), 0, &raw const value, std::ptr::null_mut()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::kernel;

    fn is_readable(alarm: &Alarm, within_ns: u64) -> bool {
        let mut wanted = [libc::pollfd { fd: alarm.fd(), events: libc::POLLIN, revents: 0 }];
        kernel::poll_until(&mut wanted, within_ns);
        wanted[0].revents != 0
    }

    #[test]
    fn it_rings_before_the_time_and_until_nothing_is_waited_for() {
        let mut alarm = Alarm::new(&[]).unwrap();
        assert!(!is_readable(&alarm, 0));
        alarm.set(1_000, Due::At(20_000_000 + LEAD_MAX_NS));
        assert!(!is_readable(&alarm, 0), "20 ms are left");
        assert!(is_readable(&alarm, 2_000_000_000));
        alarm.set(20_001_000, Due::At(20_000_000 + LEAD_MAX_NS));
        assert!(is_readable(&alarm, 0), "it goes on");
        alarm.set(20_010_000, Due::Never);
        assert!(is_readable(&alarm, 0), "the next may come at once");
        alarm.set(20_010_000 + LINGER_NS, Due::Never);
        assert!(!is_readable(&alarm, 0));
        alarm.set(30_000_000, Due::At(30_000_000 + LEAD_MIN_NS));
        assert!(is_readable(&alarm, 1_000_000), "it is near");
        alarm.set(30_000_001, Due::At(90_000_000_000));
        assert!(!is_readable(&alarm, 0), "a later time is set anew");
        alarm.set(30_000_002, Due::Always);
        assert!(is_readable(&alarm, 1_000_000));
    }

    #[test]
    fn it_is_readable_where_one_of_the_others_is() {
        let other = std::fs::File::open("/dev/null").unwrap();
        // epoll cannot watch a regular file (epoll_ctl(2)). That must be an error: taken for a descriptor that is
        // never ready, it would hang.
        assert!(Alarm::new(&[other.as_raw_fd()]).is_err());
        let mut inner = Alarm::new(&[]).unwrap();
        let quiet = Alarm::new(&[]).unwrap();
        let outer = Alarm::new(&[quiet.fd(), inner.fd()]).unwrap();
        assert!(!is_readable(&outer, 0));
        inner.set(0, Due::Always);
        assert!(is_readable(&outer, 1_000_000_000));
    }

    #[test]
    fn the_lead_is_as_long_as_nearly_all_wakes_are_late() {
        let mut lead = Lead { lead_ns: LEAD_MAX_NS };
        let mut random = forebay_block::Random::new(1);
        let mut late = 0;
        for i in 0..20_000u32 {
            // Lateness of 10 to 50 us, and of 90 us once in fifty.
            let late_ns = if random.chance(1, 50) { 90_000 } else { 10_000 + random.below(40_000) };
            late += u32::from(i >= 10_000 && late_ns > lead.lead_ns);
            lead.woken(late_ns);
        }
        assert!((40_000..70_000).contains(&lead.lead_ns), "{}", lead.lead_ns);
        assert!(late < 500, "{late} of 10,000 were late");
        for _ in 0..10_000 {
            lead.woken(3_000);
        }
        assert!(lead.lead_ns <= LEAD_MIN_NS + LEAD_DOWN);
    }
}
