//! The cost of a queue itself. `queue_cost [TARGET...]` prints nanoseconds per I/O of the null queue. For each target
//! it prints IOPS and CPU time of 4 KiB random reads at several queue depths and ways of waiting, best of three runs.
//!
//! Compare a file with `fio --ioengine=io_uring --direct=1 --fixedbufs=1 --registerfiles=1 --rw=randread --bs=4k`.

use forebay_block::{Done, Io, OpKind, Queue, Random, WaitMethod};
use forebay_device::Target;
use forebay_device::queue::{Calls, NullQueue, QueueOptions, open_queues};
use std::time::{Duration, Instant};

const BLOCK_BYTES: u32 = 4096;
const RUN: Duration = Duration::from_millis(1500);

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    println!("null, known type: {:.2} ns per I/O", null(&mut NullQueue::new(32, 4096)?));
    let mut boxed: Box<dyn Queue> = Box::new(NullQueue::new(32, 4096)?);
    println!("null, boxed:      {:.2} ns per I/O", null(&mut boxed));
    for text in std::env::args().skip(1) {
        let target: Target = text.parse()?;
        for depth in [1, 16] {
            for (calls, wait) in [
                (Calls::Ring { polled: false }, WaitMethod::Sleep),
                (Calls::Ring { polled: false }, WaitMethod::Spin),
                (Calls::Sync { hipri: false }, WaitMethod::Sleep),
            ] {
                if depth > 1 && calls == (Calls::Sync { hipri: false }) {
                    continue;
                }
                let (mut best, mut description) = ((0.0, 0.0), String::new());
                for seed in 0..3 {
                    let options = QueueOptions { slots: depth, calls, wait, read_only: true, ..Default::default() };
                    let mut opened = open_queues(&target, &options, 1)?;
                    let Some(queue) = opened.queues.first_mut() else { continue };
                    let found = load(queue, opened.size_bytes, wait == WaitMethod::Spin, seed)?;
                    if found.0 > best.0 {
                        best = found;
                    }
                    description = opened.description;
                }
                println!(
                    "{text} depth {depth}, {wait}: {:.0} IOPS, {:.2} us of CPU each ({description})",
                    best.0, best.1
                );
            }
        }
    }
    Ok(())
}

/// Nanoseconds per I/O at queue depth 1.
fn null<Q: Queue>(queue: &mut Q) -> f64 {
    const COUNT: u64 = 50_000_000;
    let mut done: Vec<Done> = Vec::with_capacity(32);
    let started = Instant::now();
    for number in 0..COUNT {
        queue.submit(&Io { slot: 0, kind: OpKind::Read, len_bytes: BLOCK_BYTES, offset_bytes: number, hint: 0 });
        queue.kick();
        queue.reap(&mut done);
        std::hint::black_box(&done);
        done.clear();
    }
    started.elapsed().as_nanos() as f64 / COUNT as f64
}

/// IOPS, and microseconds of CPU time per I/O.
fn load(queue: &mut Box<dyn Queue>, size_bytes: u64, spin: bool, seed: u64) -> Result<(f64, f64), Failure> {
    let mut random = Random::new(seed);
    let mut done: Vec<Done> = Vec::new();
    let mut io = |slot| {
        let offset_bytes = random.below(size_bytes / u64::from(BLOCK_BYTES)) * u64::from(BLOCK_BYTES);
        Io { slot, kind: OpKind::Read, len_bytes: BLOCK_BYTES, offset_bytes, hint: 0 }
    };
    (0..queue.slots()).for_each(|slot| queue.submit(&io(slot)));
    let (mut count, started, cpu) = (0u64, Instant::now(), cpu_seconds()?);
    while started.elapsed() < RUN {
        queue.kick();
        if !spin {
            queue.wait(100_000_000);
        }
        queue.reap(&mut done);
        for one in done.drain(..) {
            if let Some(error) = one.error {
                return Err(error);
            }
            count += 1;
            queue.submit(&io(one.slot));
        }
    }
    let (seconds, used) = (started.elapsed().as_secs_f64(), cpu_seconds()? - cpu);
    Ok((count as f64 / seconds, used * 1e6 / count.max(1) as f64))
}

/// CPU seconds, user and system, of this process (proc_pid_stat(5), fields 14 and 15, in hundredths of a second on
/// Linux).
fn cpu_seconds() -> Result<f64, Failure> {
    let text = std::fs::read_to_string("/proc/self/stat")?;
    let after = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: Vec<f64> = after.split_whitespace().skip(11).take(2).filter_map(|text| text.parse().ok()).collect();
    Ok(ticks.iter().sum::<f64>() / 100.0)
}
