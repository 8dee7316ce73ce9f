//! The mixed throughput test of S-PASS: bursts of sequential reads, alone and beside a light write load.

use super::found::{Data, Found, Value};
use super::setting::{Effort, Live, host};
use crate::conformance::table::ConformanceError;
use crate::host::{Profile, Thread};
use crate::ssd::{Command, Done, Op, Ssd};
use forebay_block::Random;

/// Size of a burst and rate of the scheduled writes, as published.
const BURST_BYTES: u64 = 400_000_000;
const WRITE_BYTES_PER_S: u64 = 20_000_000;
/// Size of reads and writes, as in `forebay bench mixed`. Not published.
const IO_BYTES: u32 = 128 << 10;
/// Reads in flight from one thread, as in `forebay bench mixed`. Not published.
const DEPTH: u64 = 8;
/// The writes run for the lead before the first burst; the pause is the least time between bursts.
const LEAD_NS: u64 = 2_000_000_000;
const PAUSE_NS: u64 = 2_000_000_000;
const BURSTS: u32 = 5;
/// Published order of the drives by the share of burst throughput that is left beside the writes, best first.
const ORDER: [&str; 2] = ["800p", "960evo-250"];
/// Also shown; nothing is published about this drive.
const BESIDES: &str = "960evo";
/// The same host profile as for the surface.
const HOST: &str = "windows-inbox";
/// The drives were filled to 90 % in sequence (low-queue-depth-method.md).
const FILLED: f64 = 0.9;

/// Throughput of each burst in bytes a second.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bursts {
    /// Bursts without writes.
    pub alone: Vec<f64>,
    /// Bursts beside the writes.
    pub beside: Vec<f64>,
    /// Rate that the writes reached, in bytes a second.
    pub written_bytes_per_s: f64,
}

fn mean(rates: &[f64]) -> f64 {
    rates.iter().sum::<f64>() / rates.len().max(1) as f64
}

impl Bursts {
    /// Share of the throughput alone that remains beside the writes.
    #[must_use]
    pub fn left(&self) -> f64 {
        mean(&self.beside) / mean(&self.alone)
    }
}

/// Kendall's rank correlation between the order of `values` and a falling order: 1 the same, -1 the reverse, 0 for fewer than two values.
/// Ties count as neither.
#[must_use]
pub fn rank(values: &[f64]) -> f64 {
    let mut sum = 0.0;
    let mut pairs = 0.0;
    for (at, first) in values.iter().enumerate() {
        for second in &values[at + 1..] {
            pairs += 1.0;
            sum += f64::from(i8::from(first > second) - i8::from(first < second));
        }
    }
    if pairs > 0.0 { sum / pairs } else { 0.0 }
}

/// One thread that reads bursts and one that writes on a schedule.
struct Load<'a> {
    ssd: &'a mut dyn Ssd,
    reader: Thread,
    writer: Thread,
    /// Byte offsets of the next read and the next write, and the end of the filled region.
    read_at: u64,
    write_at: u64,
    end: u64,
    writes: bool,
    next_write_ns: u64,
    writing: u64,
    written_bytes: u64,
    random: Random,
}

const READ: u64 = 1;
const WRITE: u64 = 2;

impl Load<'_> {
    /// The writer submits all writes that are scheduled up to `to_ns`. It does not wait for the drive.
    fn write_until(&mut self, to_ns: u64) {
        while self.writes && self.next_write_ns <= to_ns {
            let at_ns = self.writer.submit(self.next_write_ns);
            // Random writes into the second half of the filled region, as in `crates/bench/jobs/background-writes.toml`.
            let half = self.end / 2 / u64::from(IO_BYTES);
            self.write_at = (half + self.random.below(half)) * u64::from(IO_BYTES);
            self.ssd.submit(
                at_ns,
                Command { tag: WRITE, op: Op::Write, offset_bytes: self.write_at, len_bytes: IO_BYTES, stream: 0 },
            );
            self.writing += 1;
            self.next_write_ns += u64::from(IO_BYTES) * 1_000_000_000 / WRITE_BYTES_PER_S;
        }
    }

    fn read(&mut self) {
        let at_ns = self.reader.submit(self.reader.now_ns());
        let offset_bytes = self.read_at;
        self.read_at += u64::from(IO_BYTES);
        if self.read_at + u64::from(IO_BYTES) > self.end / 2 {
            self.read_at = 0;
        }
        self.ssd.submit(at_ns, Command { tag: READ, op: Op::Read, offset_bytes, len_bytes: IO_BYTES, stream: 0 });
    }

    /// Goes on to the next event or write, up to `limit_ns`; false where there is none.
    fn step(&mut self, limit_ns: u64, done: &mut Vec<Done>) -> bool {
        let event_ns = self.ssd.next_event_ns();
        let write_ns = if self.writes { self.next_write_ns } else { u64::MAX };
        let now_ns = event_ns.min(write_ns);
        if now_ns > limit_ns {
            return false;
        }
        self.write_until(now_ns);
        self.ssd.advance(now_ns, done);
        for one in done.iter().filter(|one| one.tag == WRITE) {
            self.writer.sees(one.at_ns);
            self.writing -= 1;
            self.written_bytes += u64::from(IO_BYTES);
        }
        done.retain(|one| one.tag == READ);
        true
    }

    fn idle_until(&mut self, to_ns: u64) {
        let mut done = Vec::new();
        while self.step(to_ns, &mut done) {}
        self.ssd.advance(to_ns, &mut done);
        self.reader.compute(to_ns, 0);
    }

    /// Reads a burst from `from_ns` on. Returns its bytes a second and its end time.
    fn burst(&mut self, from_ns: u64, bytes: u64) -> (f64, u64) {
        self.idle_until(from_ns);
        let reads = (bytes / u64::from(IO_BYTES)).max(1);
        let (mut asked, mut ended, mut end_ns) = (0, 0, from_ns);
        while asked < DEPTH.min(reads) {
            self.read();
            asked += 1;
        }
        let mut done = Vec::new();
        while ended < reads && self.step(u64::MAX - 1, &mut done) {
            for one in done.drain(..) {
                end_ns = self.reader.sees(one.at_ns);
                ended += 1;
                if asked < reads {
                    self.read();
                    asked += 1;
                }
            }
        }
        let rate = (ended * u64::from(IO_BYTES)) as f64 * 1e9 / (end_ns - from_ns).max(1) as f64;
        (rate, end_ns)
    }
}

fn measure(drive: &str, profile: &Profile, effort: Effort) -> Result<Bursts, ConformanceError> {
    let mut live = Live::new(drive, effort)?;
    live.age(FILLED, 0.0);
    let end = (live.ssd.capacity_bytes() as f64 * FILLED) as u64;
    let mut load = Load {
        ssd: live.ssd.as_mut(),
        reader: Thread::new(profile, effort.seed),
        writer: Thread::new(profile, effort.seed + 1),
        read_at: 0,
        write_at: 0,
        end,
        writes: false,
        next_write_ns: 0,
        writing: 0,
        written_bytes: 0,
        random: Random::new(effort.seed + 2),
    };
    let mut bursts = Bursts::default();
    let mut now_ns = 0;
    for _ in 0..BURSTS {
        let (rate, end_ns) = load.burst(now_ns, BURST_BYTES);
        bursts.alone.push(rate);
        now_ns = end_ns + PAUSE_NS;
    }
    load.writes = true;
    let begun_ns = now_ns;
    load.next_write_ns = now_ns;
    now_ns += LEAD_NS;
    for _ in 0..BURSTS {
        let (rate, end_ns) = load.burst(now_ns, BURST_BYTES);
        bursts.beside.push(rate);
        now_ns = end_ns + PAUSE_NS;
    }
    let elapsed_ns = (now_ns - PAUSE_NS).saturating_sub(begun_ns).max(1);
    bursts.written_bytes_per_s = load.written_bytes as f64 * 1e9 / elapsed_ns as f64;
    Ok(bursts)
}

pub(super) fn run(effort: Effort) -> Result<Found, ConformanceError> {
    let profile = host(HOST)?;
    let mut found = Found::default();
    let mut rows = Vec::new();
    let mut left = Vec::new();
    for drive in ORDER.into_iter().chain([BESIDES]) {
        let bursts = measure(drive, &profile, effort)?;
        if drive != BESIDES {
            left.push(bursts.left());
        }
        found.set(format!("{drive} alone bytes_per_s"), Some(mean(&bursts.alone)));
        found.set(format!("{drive} beside bytes_per_s"), Some(mean(&bursts.beside)));
        found.set(format!("{drive} left"), Some(bursts.left()));
        rows.push(vec![
            Value::Text(drive.to_owned()),
            Value::Number(mean(&bursts.alone) / 1e6, 0),
            Value::Number(mean(&bursts.beside) / 1e6, 0),
            Value::Number(bursts.beside.iter().copied().fold(f64::INFINITY, f64::min) / 1e6, 0),
            Value::Number(bursts.left() * 100.0, 1),
            Value::Number(bursts.written_bytes_per_s / 1e6, 1),
        ]);
    }
    found.set("rank of what is left", Some(rank(&left)));
    let columns = ["drive", "alone MB/s", "beside writes MB/s", "slowest burst MB/s", "left %", "written MB/s"];
    found.data.push(Data {
        title: format!(
            "bursts of {} MB at {HOST}; published order of what is left: {}",
            BURST_BYTES / 1_000_000,
            ORDER.join(", ")
        ),
        columns: columns.map(str::to_owned).to_vec(),
        rows,
    });
    Ok(found)
}
