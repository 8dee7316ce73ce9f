//! A load in the shape of a database's: a log, metadata, temporary files, and cold data that is written once.

use super::line::Line;
use anyhow::Result;
use forebay_block::Random;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Blocks of a temporary file: 8 MiB.
const TEMP_BLOCKS: usize = 2048;
/// Blocks of a large request: 256 KiB.
const LARGE_BLOCKS: usize = 64;
/// Limit on cold bytes written a second, so that the other loads stay visible beside them.
const COLD_BYTES_PER_SECOND: f64 = 40e6;

/// State that the threads of a phase share.
pub struct Phase {
    /// Set at the end of the phase.
    pub stop: AtomicBool,
    /// Bytes written so far, for the progress shown.
    pub written_bytes: AtomicU64,
}

impl Phase {
    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    fn count(&self, line: &Line, before: &mut u64) {
        self.written_bytes.fetch_add(line.written_bytes - *before, Ordering::Relaxed);
        *before = line.written_bytes;
    }
}

/// Where the load of a part continues in the next phase.
#[derive(Clone, Copy, Debug, Default)]
pub struct Position {
    next: usize,
    files: u64,
}

/// Runs the load of a line's class until the phase ends or the connection breaks.
pub fn run(line: &mut Line, position: &mut Position, random: &mut Random, phase: &Phase) -> Result<()> {
    let mut before = line.written_bytes;
    let result = match line.class {
        "log" => log(line, position, random, phase, &mut before),
        "metadata" => metadata(line, random, phase, &mut before),
        "temp" => temp(line, position, phase, &mut before),
        _ => cold(line, position, random, phase, &mut before),
    };
    phase.count(line, &mut before);
    result
}

/// A commit log: small appends to a ring, each made durable, by a flush or by FUA.
fn log(line: &mut Line, position: &mut Position, random: &mut Random, phase: &Phase, before: &mut u64) -> Result<()> {
    while phase.goes_on() {
        let blocks = 1 + random.index(4);
        if position.next + blocks > line.len() {
            position.next = 0;
        }
        if random.chance(1, 4) {
            line.write_durably(position.next, blocks)?;
        } else {
            line.write(position.next, blocks, false)?;
            line.flush()?;
        }
        position.next += blocks;
        phase.count(line, before);
    }
    Ok(())
}

/// Metadata: single blocks are rewritten at random, preferring the start of the part, with a flush from time to time.
fn metadata(line: &mut Line, random: &mut Random, phase: &Phase, before: &mut u64) -> Result<()> {
    let len = line.len();
    let mut batch = 0u64;
    while phase.goes_on() {
        for _ in 0..8 {
            // The product of two uniform numbers prefers small indices.
            let index = random.index(len) * random.index(len) / len;
            line.write(index, 1, false)?;
        }
        line.settle(0)?;
        batch += 1;
        if batch.is_multiple_of(8) {
            line.flush()?;
        }
        line.read(random.index(len))?;
        phase.count(line, before);
        sleep(Duration::from_millis(3));
    }
    Ok(())
}

/// Temporary files as of compactions and sorts: each is written sequentially, and discarded two files later.
fn temp(line: &mut Line, position: &mut Position, phase: &Phase, before: &mut u64) -> Result<()> {
    let places = (line.len() / TEMP_BLOCKS) as u64;
    while phase.goes_on() {
        let start = (position.files % places) as usize * TEMP_BLOCKS;
        for at in (0..TEMP_BLOCKS).step_by(LARGE_BLOCKS) {
            line.write(start + at, LARGE_BLOCKS, false)?;
            line.settle(8)?;
            phase.count(line, before);
        }
        line.flush()?;
        if position.files >= 2 {
            let old = ((position.files - 2) % places) as usize * TEMP_BLOCKS;
            line.trim(old, TEMP_BLOCKS)?;
            line.settle(0)?;
        }
        position.files += 1;
        sleep(Duration::from_millis(150));
    }
    Ok(())
}

/// Data written once, in order, and read at random afterwards.
fn cold(line: &mut Line, position: &mut Position, random: &mut Random, phase: &Phase, before: &mut u64) -> Result<()> {
    let started = Instant::now();
    let first = line.written_bytes;
    while phase.goes_on() {
        if position.next + LARGE_BLOCKS <= line.len() {
            line.write(position.next, LARGE_BLOCKS, false)?;
            position.next += LARGE_BLOCKS;
            line.settle(4)?;
            phase.count(line, before);
            if position.next.is_multiple_of(16 * LARGE_BLOCKS) {
                line.flush()?;
            }
            let due = (line.written_bytes - first) as f64 / COLD_BYTES_PER_SECOND;
            let ahead = due - started.elapsed().as_secs_f64();
            if ahead > 0.0 {
                sleep(Duration::from_secs_f64(ahead));
            }
        } else {
            sleep(Duration::from_millis(1));
        }
        if position.next > 0 {
            line.read(random.index(position.next))?;
        }
    }
    Ok(())
}
