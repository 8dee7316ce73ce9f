//! A modelled SSD in real time. Data goes to memory or to a file at once, and the completion is delayed until the
//! model ends the command. Where the store is slower than the model, the store decides.
//!
//! Event loops sleep until the drive may end a command ([`Ssd::earliest_end_ns`]), and poll for the last part of the
//! time (`Alarm`). A caller that waits for a single request uses [`Device::wait`], which does the same without a
//! descriptor.

use crate::alarm::{Alarm, Due};
use forebay_block::{Completion, Device, Geometry, Op, Request};
use forebay_model::ssd::{Command, Done, Op as Asked, Ssd};
use std::time::{Duration, Instant};

/// A wait shorter than this spins, because the system wakes a sleeping thread some 50 us late.
const SPIN_BELOW_NS: u64 = 120_000;

/// The wrapper. Tags must be unique among the requests in flight, as for every device.
pub struct EmulatedDevice<D> {
    store: D,
    ssd: Box<dyn Ssd>,
    name: String,
    begin: Instant,
    flights: Vec<Flight>,
    ended: Vec<Done>,
    stored: Vec<Completion>,
    next: u64,
    /// `None` where the system gives no descriptor for it; callers must poll then.
    alarm: Option<Alarm>,
    earliest: Earliest,
}

/// Cached time of the drive's earliest completion. Valid while next event and count of commands are unchanged.
#[derive(Clone, Copy, Default)]
struct Earliest {
    next_event_ns: u64,
    commands: u64,
    end_ns: u64,
}

/// A request that the store or the model has not completed yet.
struct Flight {
    /// The model's tag.
    number: u64,
    tag: u64,
    /// Time at which the model ended the command; `None` while it has not.
    due_ns: Option<u64>,
    completion: Option<Completion>,
}

fn command(number: u64, request: &Request) -> Command {
    let op = match &request.op {
        Op::Read { .. } => Asked::Read,
        Op::Write { .. } => Asked::Write,
        Op::Flush => Asked::Flush,
        Op::Discard { .. } | Op::WriteZeroes { .. } => Asked::Trim,
    };
    // Only a discard can be longer than the length field of a command. The rest costs the drive no more work.
    let len_bytes = u32::try_from(request.op.len_bytes()).unwrap_or(1 << 31);
    Command { tag: number, op, offset_bytes: request.offset_bytes, len_bytes, stream: request.stream }
}

impl<D: Device> EmulatedDevice<D> {
    /// A device whose data is in `store` and whose timing comes from `ssd`, which must be at least as large.
    pub fn new(store: D, ssd: Box<dyn Ssd>, name: &str) -> Self {
        let mut store_fds = Vec::new();
        store.wake_fds(&mut store_fds);
        let alarm = Alarm::new(&store_fds).ok();
        Self {
            alarm,
            earliest: Earliest::default(),
            store,
            ssd,
            name: name.to_owned(),
            begin: Instant::now(),
            flights: Vec::new(),
            ended: Vec::new(),
            stored: Vec::new(),
            next: 0,
        }
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.begin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// When the earliest command ends. Cached while nothing happens, because a polling caller asks often.
    fn earliest_end_ns(&mut self) -> u64 {
        let (next_event_ns, commands) = (self.ssd.next_event_ns(), self.next);
        if (self.earliest.next_event_ns, self.earliest.commands) != (next_event_ns, commands) {
            let end_ns = self.ssd.earliest_end_ns();
            self.earliest = Earliest { next_event_ns, commands, end_ns };
        }
        self.earliest.end_ns
    }

    fn set_alarm(&mut self, now_ns: u64) {
        let due = if self.flights.iter().any(|flight| flight.due_ns.is_none()) {
            Due::At(self.earliest_end_ns())
        } else if self.store.completes_unseen() {
            // The store is late, and no descriptor signals its completions.
            Due::Always
        } else {
            Due::Never
        };
        if let Some(alarm) = &mut self.alarm {
            alarm.set(now_ns, due);
        }
    }

    /// Advances the model to the present; returns the present time.
    fn advance(&mut self) -> u64 {
        let now = self.now_ns();
        self.ssd.advance(now, &mut self.ended);
        for Done { tag, at_ns } in self.ended.drain(..) {
            if let Some(flight) = self.flights.iter_mut().find(|flight| flight.number == tag) {
                flight.due_ns = Some(at_ns);
            }
        }
        self.store.poll(&mut self.stored);
        for completion in self.stored.drain(..) {
            if let Some(flight) = self.flights.iter_mut().find(|flight| flight.tag == completion.tag) {
                flight.completion = Some(completion);
            }
        }
        now
    }
}

impl<D: Device> Device for EmulatedDevice<D> {
    fn name(&self) -> &str {
        &self.name
    }

    fn geometry(&self) -> &Geometry {
        self.store.geometry()
    }

    fn submit(&mut self, request: Request) {
        let number = self.next;
        self.next += 1;
        let geometry = self.store.geometry();
        let command = command(number, &request);
        // A request that the store refuses fails at once: the model must not see addresses beyond its end.
        let inside = command.offset_bytes.checked_add(u64::from(command.len_bytes));
        let is_valid = inside.is_some_and(|end| end <= geometry.size_bytes.min(self.ssd.capacity_bytes()));
        let due_ns = (!is_valid).then_some(0);
        self.flights.push(Flight { number, tag: request.tag, due_ns, completion: None });
        if is_valid {
            let now = self.now_ns();
            self.ssd.advance(now, &mut self.ended);
            self.ssd.submit(now, command);
        }
        self.store.submit(request);
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        let now_ns = self.advance();
        let mut at = 0;
        while at < self.flights.len() {
            let flight = &mut self.flights[at];
            match (flight.due_ns, flight.completion.take()) {
                (Some(_), Some(completion)) => {
                    done.push(completion);
                    self.flights.swap_remove(at);
                }
                (_, completion) => {
                    flight.completion = completion;
                    at += 1;
                }
            }
        }
        self.set_alarm(now_ns);
    }

    fn wake_fds(&self, out: &mut Vec<i32>) {
        out.extend(self.alarm.as_ref().map(Alarm::fd));
    }

    fn completes_unseen(&self) -> bool {
        self.alarm.is_none() && !self.flights.is_empty()
    }

    fn wait(&mut self, timeout_ns: u64) {
        self.advance();
        if self.flights.iter().any(|flight| flight.due_ns.is_some() && flight.completion.is_some()) {
            return;
        }
        if self.flights.iter().any(|flight| flight.due_ns.is_some()) {
            return self.store.wait(timeout_ns);
        }
        let left_ns = self.earliest_end_ns().saturating_sub(self.now_ns()).min(timeout_ns);
        if left_ns > SPIN_BELOW_NS {
            std::thread::sleep(Duration::from_nanos(left_ns - SPIN_BELOW_NS));
        } else {
            let until = self.now_ns() + left_ns;
            while self.now_ns() < until {
                std::hint::spin_loop();
            }
        }
    }

    fn queue_limit(&self) -> usize {
        self.store.queue_limit()
    }

    fn in_flight(&self) -> usize {
        self.flights.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::kernel;
    use crate::modelled::ModelUri;
    use crate::{RamDevice, blocking};
    use forebay_block::Vectored;

    #[test]
    fn data_is_kept_and_takes_the_models_time() {
        let uri = ModelUri::parse("p4800x?size=64MiB", true).unwrap();
        let store = RamDevice::new(64 << 20).unwrap();
        let mut device = EmulatedDevice::new(store, uri.build(1).unwrap(), "emulated");
        blocking::write(&mut device, 4096, &[7; 4096]).unwrap();
        let begin = Instant::now();
        for _ in 0..50 {
            assert_eq!(blocking::read(&mut device, 4096, 4096).unwrap()[..], [7; 4096]);
        }
        let each = begin.elapsed() / 50;
        // The modelled drive takes some 6 us. A busy machine may take longer, but never less.
        assert!(each >= Duration::from_micros(5), "{each:?}");
        blocking::flush(&mut device).unwrap();
    }

    /// Polls, and waits for the descriptor, until `count` requests have ended. Returns when each ended, measured from
    /// `begin`, which must lie before the first submission, since the machine may be busy right after it.
    fn ended(device: &mut EmulatedDevice<RamDevice>, begin: Instant, count: usize) -> Vec<Duration> {
        let (mut ends, mut done) = (Vec::new(), Vec::new());
        while ends.len() < count {
            device.poll(&mut done);
            ends.extend(done.drain(..).map(|_| begin.elapsed()));
            if ends.len() < count {
                let mut fds = Vec::new();
                device.wake_fds(&mut fds);
                assert_eq!(fds.len(), 1);
                let wanted = libc::pollfd { fd: fds[0], events: libc::POLLIN, revents: 0 };
                kernel::poll_until(&mut [wanted], 5_000_000_000);
            }
        }
        ends
    }

    fn cpu_time() -> Duration {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: room for a timespec.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }

    #[test]
    fn the_descriptor_tells_when_and_who_waits_for_it_sleeps() {
        // A drive without capacitors: a flush waits for the flash, which takes a millisecond or more.
        let uri = ModelUri::parse("960evo?size=256MiB", true).unwrap();
        let mut device = EmulatedDevice::new(RamDevice::new(256 << 20).unwrap(), uri.build(1).unwrap(), "emulated");
        let (began, before) = (Instant::now(), cpu_time());
        for round in 0..60 {
            let data = Vectored::One(forebay_block::Buf::copy_of(&[7; 4096]).freeze());
            let write = Op::Write { bufs: data, fua: false };
            device.submit(Request { tag: 1, offset_bytes: round << 16, stream: 0, op: write });
            ended(&mut device, began, 1);
            let begin = Instant::now();
            device.submit(Request { tag: 2, offset_bytes: 0, stream: 0, op: Op::Flush });
            let flushed = ended(&mut device, begin, 1)[0];
            assert!(flushed > Duration::from_micros(200), "{flushed:?}");
        }
        let (wall, cpu) = (began.elapsed(), cpu_time() - before);
        assert!(cpu < wall / 2, "{cpu:?} of {wall:?}");
    }

    #[test]
    fn requests_in_flight_together_take_the_time_of_one() {
        let uri = ModelUri::parse("p4800x?size=64MiB", true).unwrap();
        let mut device = EmulatedDevice::new(RamDevice::new(64 << 20).unwrap(), uri.build(1).unwrap(), "emulated");
        let mut least = [Duration::MAX; 2];
        for _ in 0..200 {
            for (depth, least) in [1u64, 8].into_iter().zip(&mut least) {
                let begin = Instant::now();
                for tag in 0..depth {
                    let op = Op::read(Vectored::One(forebay_block::Buf::zeroed(4096)));
                    device.submit(Request { tag, offset_bytes: tag << 20, stream: 0, op });
                }
                *least = (*least).min(*ended(&mut device, begin, depth as usize).last().unwrap());
            }
        }
        // The best of many runs, because the machine may be busy. Eight requests one after the other would take eight
        // times as long.
        assert!(least[0] >= Duration::from_micros(5) && least[1] < least[0] * 4, "{least:?}");
    }

    #[test]
    fn what_lies_beyond_the_end_is_refused() {
        let uri = ModelUri::parse("p4800x?size=64MiB", true).unwrap();
        let mut device = EmulatedDevice::new(RamDevice::new(64 << 20).unwrap(), uri.build(1).unwrap(), "emulated");
        assert!(blocking::read(&mut device, 64 << 20, 4096).is_err());
        assert!(blocking::read(&mut device, 0, 4096).is_ok());
    }
}
