//! Closed loop: threads that each keep a number of I/Os in flight, in virtual time.

use super::latency::Latencies;
use crate::host::{Profile, Thread};
use crate::ssd::{Command, Op, Ssd};
use forebay_block::Random;
use serde::Deserialize;

/// Addresses of the I/Os.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    /// Uniformly random, aligned to the I/O size.
    #[default]
    Random,
    /// Each thread continues after its previous I/O; the threads start at equal parts of the drive.
    Sequential,
}

/// Load of a closed loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Number of threads, each on a core of its own; 1 to 1024.
    pub threads: u32,
    /// I/Os that each thread keeps in flight; 1 to 4096.
    pub depth: u32,
    /// Share of reads, in percent.
    pub read_percent: u8,
    /// Bytes of an I/O, a multiple of 512.
    pub size_bytes: u32,
    /// Address pattern; random where left out.
    #[serde(default)]
    pub pattern: Pattern,
}

/// Results of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// I/Os a second.
    pub iops: f64,
    /// Bytes a second.
    pub bytes_per_s: f64,
    /// Latencies of reads.
    pub reads: Latencies,
    /// Latencies of writes.
    pub writes: Latencies,
    /// Latencies of both.
    pub all: Latencies,
    /// Virtual time of the measurement, in nanoseconds.
    pub elapsed_ns: u64,
}

/// I/Os that run before counting begins: enough to fill the queues and to get the threads out of step.
const WARM_UP_IOS: u64 = 20_000;

/// The period of the drive's life and the region of its capacity that a run covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Start time in nanoseconds; not before the drive's last event.
    pub start_ns: u64,
    /// I/Os before counting begins.
    pub warm_up_ios: u64,
    /// I/Os that are counted.
    pub ios: u64,
    /// The I/Os stay within this many bytes from the start of the drive; cut to the capacity.
    pub region_bytes: u64,
}

/// Runs `ios` I/Os after a warm-up and returns their figures. The same arguments give the same figures.
///
/// Numbers outside the ranges of [`Workload`] are clamped to them.
pub fn closed_loop(ssd: &mut dyn Ssd, profile: &Profile, workload: &Workload, seed: u64, ios: u64) -> Figures {
    let span = Span { start_ns: 0, warm_up_ios: WARM_UP_IOS, ios, region_bytes: ssd.capacity_bytes() };
    closed_loop_over(ssd, profile, workload, seed, span).0
}

/// Like [`closed_loop`], over a period and a region of the drive. Also returns the time of the last completion in nanoseconds: nothing is
/// in flight then, and the next run may begin there or later.
pub fn closed_loop_over(
    ssd: &mut dyn Ssd,
    profile: &Profile,
    workload: &Workload,
    seed: u64,
    span: Span,
) -> (Figures, u64) {
    let threads = workload.threads.clamp(1, 1024);
    let depth = workload.depth.clamp(1, 4096);
    let size = u64::from(workload.size_bytes.max(512) / 512 * 512);
    let places = (ssd.capacity_bytes().min(span.region_bytes) / size).max(1);
    let mut random = Random::new(seed);
    let mut hosts: Vec<_> = (0..threads).map(|_| Thread::new(profile, random.next_u64())).collect();
    if span.start_ns > 0 {
        for host in &mut hosts {
            host.compute(span.start_ns, 0);
        }
    }
    let mut next: Vec<u64> = (0..threads).map(|thread| u64::from(thread) * (places / u64::from(threads))).collect();
    // By tag: when the application began to submit the I/O, and whether it is a read.
    let mut flying = vec![(0_u64, false); (threads * depth) as usize];
    let mut issue = |host: &mut Thread, ssd: &mut dyn Ssd, flying: &mut [(u64, bool)], tag: u32| {
        let thread = (tag / depth) as usize;
        let place = match workload.pattern {
            Pattern::Random => random.below(places),
            Pattern::Sequential => {
                next[thread] = (next[thread] + 1) % places;
                next[thread]
            }
        };
        let read = random.below(100) < u64::from(workload.read_percent);
        let from_ns = host.now_ns();
        let at_ns = host.submit(from_ns);
        flying[tag as usize] = (from_ns, read);
        let op = if read { Op::Read } else { Op::Write };
        let command = Command { tag: tag.into(), op, offset_bytes: place * size, len_bytes: size as u32, stream: 0 };
        ssd.submit(at_ns, command);
    };
    for tag in 0..threads * depth {
        issue(&mut hosts[(tag / depth) as usize], ssd, &mut flying, tag);
    }
    let (mut reads, mut writes) = (Latencies::default(), Latencies::default());
    let mut done = Vec::with_capacity(flying.len());
    let wanted = span.warm_up_ios + span.ios;
    let (mut ended, mut begin_ns, mut end_ns, mut last_ns) = (0_u64, span.start_ns, span.start_ns, span.start_ns);
    let mut inside = threads * depth;
    while inside > 0 {
        let now_ns = ssd.next_event_ns();
        if now_ns == u64::MAX {
            break;
        }
        ssd.advance(now_ns, &mut done);
        for one in done.drain(..) {
            let tag = one.tag as u32;
            let host = &mut hosts[(tag / depth) as usize];
            let seen_ns = host.sees(one.at_ns);
            let (from_ns, read) = flying[tag as usize];
            ended += 1;
            last_ns = one.at_ns;
            if ended <= span.warm_up_ios {
                begin_ns = one.at_ns;
            } else if ended <= wanted {
                let kind = if read { &mut reads } else { &mut writes };
                kind.record(seen_ns - from_ns);
                end_ns = one.at_ns;
            }
            if ended < wanted {
                issue(host, ssd, &mut flying, tag);
            } else {
                inside -= 1;
            }
        }
    }
    let elapsed_ns = end_ns.saturating_sub(begin_ns).max(1);
    let mut all = reads.clone();
    all.add(&writes);
    let iops = all.count() as f64 * 1e9 / elapsed_ns as f64;
    (Figures { iops, bytes_per_s: iops * size as f64, reads, writes, all, elapsed_ns }, last_ns)
}
