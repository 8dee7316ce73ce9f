//! The clocks of a host beside ours: pings that are on their way, and what their answers say.

use super::message::Pong;
use anyhow::{Context, Result};
use forebay_bench::run::{Clock, Offset, OffsetMeter, RoundTrip, TscClock};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Pings that may be on their way at once: a host that answers none gets no more.
const PENDING_MAX: usize = 8;

/// The time of day, in nanoseconds since 1970.
pub fn unix_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

/// The clocks of a host; shared by who sends and who receives.
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

/// How the clocks of load and of day of a host stand against ours.
#[derive(Clone, Copy, Debug)]
pub struct Offsets {
    /// Of the clock by which the load runs; its beginning is any.
    pub run: Offset,
    /// Of the time of day.
    pub unix: Offset,
    /// Round trips that it comes from.
    pub trips: u64,
}

impl Clocks {
    /// Of a host that has said nothing yet.
    pub fn new(clock: TscClock) -> Self {
        let heard_ns = clock.now_ns();
        Self { clock, state: Mutex::new(State { heard_ns, ..State::default() }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Offsets from now on are of round trips from now on: clocks drift.
    pub fn begin(&self) {
        let mut state = self.state();
        (state.run, state.unix) = (OffsetMeter::default(), OffsetMeter::default());
        // Answers to older ones say nothing of now.
        state.pending.values_mut().for_each(|sent| *sent = (0, 0));
    }

    /// The number of a ping that is sent at once; none where too many are on their way.
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

    /// Something came from the host; when that was.
    pub fn hear(&self) -> u64 {
        let now_ns = self.clock.now_ns();
        self.state().heard_ns = now_ns;
        now_ns
    }

    /// An answer that came at `received_ns`.
    ///
    /// # Errors
    /// One to what nobody has asked.
    pub fn answer(&self, pong: &Pong, received_ns: u64) -> Result<()> {
        let mut state = self.state();
        let (sent_ns, sent_unix_ns) = state.pending.remove(&pong.number).context("an answer to what nobody asked")?;
        if sent_ns == 0 {
            return Ok(());
        }
        state.run.add(RoundTrip { sent_ns, there_ns: pong.run_ns, received_ns });
        // Our time of day may be set meanwhile; the length of the round trip is that of the other clock.
        let received_unix_ns = sent_unix_ns.saturating_add(received_ns.saturating_sub(sent_ns));
        state.unix.add(RoundTrip { sent_ns: sent_unix_ns, there_ns: pong.unix_ns, received_ns: received_unix_ns });
        Ok(())
    }

    /// How long nothing has come.
    pub fn silence(&self) -> Duration {
        Duration::from_nanos(self.clock.now_ns().saturating_sub(self.state().heard_ns))
    }

    /// What is known since [`Clocks::begin`]; none before the first answer.
    pub fn offsets(&self) -> Option<Offsets> {
        let state = self.state();
        Some(Offsets { run: state.run.offset()?, unix: state.unix.offset()?, trips: state.run.count() })
    }
}

/// What a result says of a host's clock.
#[derive(Clone, Copy, Debug)]
pub struct ClockFigures {
    /// Before the first group began.
    pub before: Offsets,
    /// After the last one; none where the host was lost.
    pub after: Option<Offsets>,
}

impl ClockFigures {
    /// How much faster than ours its clock ran, and how far off that may be, in parts of a million.
    pub fn drift_ppm(&self) -> Option<(f64, f64)> {
        self.before.run.drift_ppm(&self.after?.run)
    }

    /// For programs.
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
        // The run's clock has just begun, so the other one is ahead by nearly all that it shows.
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
