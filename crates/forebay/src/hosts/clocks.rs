//! Offsets between a host's clocks and ours, measured by pings.

use super::message::Pong;
use anyhow::{Context, Result};
use forebay_bench::run::{Clock, Offset, OffsetMeter, RoundTrip, TscClock};
use forebay_block::lock;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Maximum number of unanswered pings: a host that answers none gets no more.
const PENDING_MAX: usize = 8;

/// The time of day in nanoseconds since 1970.
pub fn unix_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

/// State of the clocks of a host; shared by the threads that send and receive.
pub struct Clocks {
    clock: TscClock,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// When each ping was sent: by the clock of the load, and by the time of day.
    pending: BTreeMap<u64, (u64, u64)>,
    next: u64,
    run: OffsetMeter,
    unix: OffsetMeter,
    heard_ns: u64,
}

/// Offsets of a host's load clock and time of day from ours.
#[derive(Clone, Copy, Debug)]
pub struct Offsets {
    /// Offset of the clock that the load runs by; its zero is arbitrary.
    pub run: Offset,
    /// Offset of the time of day.
    pub unix: Offset,
    /// Number of round trips measured.
    pub trips: u64,
}

impl Clocks {
    /// Clocks of a host before its first message.
    pub fn new(clock: TscClock) -> Self {
        let heard_ns = clock.now_ns();
        Self { clock, state: Mutex::new(State { heard_ns, ..State::default() }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Starts a new measurement: because clocks drift, offsets use only round trips from now on.
    pub fn begin(&self) {
        let mut state = self.state();
        (state.run, state.unix) = (OffsetMeter::default(), OffsetMeter::default());
        // Answers to older pings do not describe the present offset.
        state.pending.values_mut().for_each(|sent| *sent = (0, 0));
    }

    /// Registers a ping that is sent at once; returns its number, or none where too many are unanswered.
    pub fn send(&self) -> Option<u64> {
        let mut state = self.state();
        if state.pending.len() >= PENDING_MAX {
            return None;
        }
        let number = state.next;
        state.next += 1;
        state.pending.insert(number, (self.clock.now_ns(), unix_ns()));
        Some(number)
    }

    /// Records that the host sent something; returns when.
    pub fn hear(&self) -> u64 {
        let now_ns = self.clock.now_ns();
        self.state().heard_ns = now_ns;
        now_ns
    }

    /// Records an answer that arrived at `received_ns`.
    ///
    /// # Errors
    /// An answer without a ping.
    pub fn answer(&self, pong: &Pong, received_ns: u64) -> Result<()> {
        let mut state = self.state();
        let (sent_ns, sent_unix_ns) = state.pending.remove(&pong.number).context("an answer to what nobody asked")?;
        if sent_ns == 0 {
            return Ok(());
        }
        state.run.add(RoundTrip { sent_ns, there_ns: pong.run_ns, received_ns });
        // Our time of day may be set meanwhile, so the length of the round trip comes from the other clock.
        let received_unix_ns = sent_unix_ns.saturating_add(received_ns.saturating_sub(sent_ns));
        state.unix.add(RoundTrip { sent_ns: sent_unix_ns, there_ns: pong.unix_ns, received_ns: received_unix_ns });
        Ok(())
    }

    /// Time since the host's last message.
    pub fn silence(&self) -> Duration {
        Duration::from_nanos(self.clock.now_ns().saturating_sub(self.state().heard_ns))
    }

    /// The offsets since [`Clocks::begin`]; none before the first answer.
    pub fn offsets(&self) -> Option<Offsets> {
        let state = self.state();
        Some(Offsets { run: state.run.offset()?, unix: state.unix.offset()?, trips: state.run.count() })
    }
}

/// The clock figures of a host in results.
#[derive(Clone, Copy, Debug)]
pub struct ClockFigures {
    /// Offsets before the first group began.
    pub before: Offsets,
    /// Offsets after the last group; none where the host was lost.
    pub after: Option<Offsets>,
}

impl ClockFigures {
    /// Drift of the host's clock against ours and its uncertainty, in parts per million; positive where it ran faster.
    pub fn drift_ppm(&self) -> Option<(f64, f64)> {
        self.before.run.drift_ppm(&self.after?.run)
    }

    /// The JSON of results.
    pub fn json(&self) -> Value {
        let drift = self.drift_ppm();
        json!({
            "ahead_s": self.before.unix.ahead_ns as f64 / 1e9,
            "bound_s": self.before.unix.bound_ns as f64 / 1e9,
            "round_trips": self.before.trips,
            "drift_ppm": drift.map(|(ppm, _)| ppm),
            "drift_bound_ppm": drift.map(|(_, bound)| bound),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pong(number: u64, run_ns: u64) -> Pong {
        Pong { number, run_ns, unix_ns: run_ns }
    }

    #[test]
    fn an_answer_belongs_to_a_ping() {
        let clocks = Clocks::new(TscClock::new());
        let number = clocks.send().unwrap();
        assert!(clocks.answer(&pong(number + 1, 5), clocks.hear()).is_err());
        assert!(clocks.offsets().is_none());
        clocks.answer(&pong(number, 7_000_000_000), clocks.hear()).unwrap();
        assert!(clocks.answer(&pong(number, 5), clocks.hear()).is_err(), "once");
        let found = clocks.offsets().unwrap();
        assert_eq!(found.trips, 1);
        // Our clock has just started, so the host's is ahead by nearly its full value.
        assert!(found.run.ahead_ns > 6_000_000_000 && found.run.ahead_ns <= 7_000_000_000, "{found:?}");
        assert!((0..PENDING_MAX).all(|_| clocks.send().is_some()) && clocks.send().is_none());
    }

    #[test]
    fn older_round_trips_say_nothing_of_now() {
        let clocks = Clocks::new(TscClock::new());
        let (old, older) = (clocks.send().unwrap(), clocks.send().unwrap());
        clocks.answer(&pong(older, 1), clocks.hear()).unwrap();
        clocks.begin();
        clocks.answer(&pong(old, 1), clocks.hear()).unwrap();
        assert!(clocks.offsets().is_none());
    }
}
