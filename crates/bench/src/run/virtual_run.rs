//! Runs in virtual time: one thread runs all workers in turn, each with its own time, and the device between them. The
//! loop that makes the load is the same as in real time.
//!
//! Events happen in the order of their times: the worker with the lowest time goes first, and the device is advanced no
//! further than to the lowest time at which a worker could still submit something. The same jobs, seed and device give
//! the same results to the nanosecond.

use super::thread_use::ThreadUse;
use super::worker::{Turn, Worker};
use super::{Assignment, Group, JobResult, Progress, RunError, Settings};
use forebay_block::{VirtualClock, VirtualQueue};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// How often the observer is called, in real time.
const OBSERVE_EVERY: Duration = Duration::from_millis(250);
/// Iterations between two looks at the real clock.
const TURNS_PER_LOOK: u32 = 4096;
/// Longest time between two checks of a worker's own times (interval, window, drain), in nanoseconds.
const LOOK_NS: u64 = 50_000_000;

struct Player<Q> {
    worker: Worker<Q, VirtualClock>,
    /// The worker's own time.
    now_ns: u64,
    /// When the worker continues if no I/O finishes earlier.
    wakes_ns: u64,
}

impl<Q: VirtualQueue> Player<Q> {
    /// When the worker continues.
    fn next_ns(&self) -> u64 {
        self.wakes_ns.min(self.worker.queue().next_seen_ns()).max(self.now_ns)
    }
}

/// Runs jobs at the same time in virtual time, until all are over or `stop` is set. The queues must have been made with
/// clones of `clock`.
///
/// # Errors
/// [`RunError`]; no I/O was made then.
pub fn run_virtual<Q: VirtualQueue + 'static>(
    assignments: Vec<Assignment<Q>>,
    clock: &VirtualClock,
    settings: &Settings,
    stop: &Arc<AtomicBool>,
    observer: &mut dyn FnMut(&Progress),
) -> Result<Vec<JobResult>, RunError> {
    let (mut group, mut ready, messages) = Group::prepare(assignments, clock, settings, stop)?;
    let start_ns = clock.now_ns();
    group.begin_at(start_ns, &mut ready);
    let mut players: Vec<Player<Q>> = ready
        .into_iter()
        .map(|(parts, _)| {
            let wakes_ns = parts.window.start_ns;
            Player { worker: Worker::new(parts), now_ns: start_ns, wakes_ns }
        })
        .collect();
    let (mut turns, mut observed) = (0u32, Instant::now());
    let mut latest_ns = start_ns;
    while let Some((at, next_ns)) = soonest(&players) {
        // The device goes first: a worker may be waiting for what ends now.
        let events = players.iter().map(|player| player.worker.queue().next_event_ns());
        if let Some((event_ns, owner)) = events.zip(0..).min()
            && event_ns <= next_ns
        {
            // Advanced through one queue only: other queues of the same device must not move it beyond what ends now.
            players[owner].worker.queue_mut().advance(next_ns);
            continue;
        }
        let player = &mut players[at];
        clock.show(next_ns);
        let mut turn = Turn::Moved;
        while turn == Turn::Moved {
            turn = player.worker.turn();
        }
        player.now_ns = clock.now_ns();
        player.wakes_ns = player.worker.due_ns().min(player.now_ns + LOOK_NS).max(player.now_ns + 1);
        latest_ns = latest_ns.max(player.now_ns);
        if turn == Turn::Over {
            players.swap_remove(at).worker.finish_run();
        }
        for message in messages.try_iter() {
            group.take(message);
        }
        turns = turns.wrapping_add(1);
        if turns.is_multiple_of(TURNS_PER_LOOK) && observed.elapsed() >= OBSERVE_EVERY {
            observed = Instant::now();
            observer(&group.jobs.progress(start_ns, latest_ns));
        }
    }
    for message in messages.try_iter() {
        group.take(message);
    }
    // Whatever runs next begins after this run.
    clock.show(latest_ns);
    let mut results = group.jobs.results();
    for result in &mut results {
        // The thread simulates all workers together, so its processor time says nothing about a job; the modelled
        // host's time does.
        result.used = ThreadUse { modelled_ns: result.used.modelled_ns, ..ThreadUse::default() };
    }
    Ok(results)
}

/// The worker that continues first, and when.
fn soonest<Q: VirtualQueue>(players: &[Player<Q>]) -> Option<(usize, u64)> {
    let times = players.iter().enumerate().map(|(at, player)| (player.next_ns(), at));
    times.min().map(|(next_ns, at)| (at, next_ns))
}

#[cfg(test)]
mod tests;
