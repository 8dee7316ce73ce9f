//! Several drives on one host.

use super::found::{Data, Found, Value};
use super::setting::{Effort, host};
use crate::conformance::closed::Pattern;
use crate::conformance::closed::{Workload, closed_loop};
use crate::conformance::table::ConformanceError;
use crate::preset::Drive;
use crate::ssd::{Command, Counters, Done, Past, Ssd};

/// Drives striped into one address space. A command goes as a whole to the drive on which it begins: the host must not let it cross a
/// stripe. A flush goes to the first drive only.
pub struct Array {
    drives: Vec<Box<dyn Ssd>>,
    stripe_bytes: u64,
}

impl Array {
    /// Uses as many bytes of each drive as the smallest one has. `None` without a drive or with a stripe of 0 bytes.
    #[must_use]
    pub fn new(drives: Vec<Box<dyn Ssd>>, stripe_bytes: u64) -> Option<Self> {
        (!drives.is_empty() && stripe_bytes > 0).then_some(Self { drives, stripe_bytes })
    }
}

impl Ssd for Array {
    fn capacity_bytes(&self) -> u64 {
        let least = self.drives.iter().map(|drive| drive.capacity_bytes()).min().unwrap_or(0);
        least / self.stripe_bytes * self.stripe_bytes * self.drives.len() as u64
    }

    fn submit(&mut self, at_ns: u64, command: Command) {
        let drives = self.drives.len() as u64;
        let (stripe, within) = (command.offset_bytes / self.stripe_bytes, command.offset_bytes % self.stripe_bytes);
        let offset_bytes = stripe / drives * self.stripe_bytes + within;
        self.drives[(stripe % drives) as usize].submit(at_ns, Command { offset_bytes, ..command });
    }

    fn next_event_ns(&self) -> u64 {
        self.drives.iter().map(|drive| drive.next_event_ns()).min().unwrap_or(u64::MAX)
    }

    fn advance(&mut self, to_ns: u64, done: &mut Vec<Done>) {
        let first = done.len();
        for drive in &mut self.drives {
            drive.advance(to_ns, done);
        }
        done[first..].sort_by_key(|one| one.at_ns);
    }

    fn counters(&self) -> Counters {
        self.drives.iter().map(|drive| drive.counters()).fold(Counters::default(), |sum, one| Counters {
            host_read_bytes: sum.host_read_bytes + one.host_read_bytes,
            host_written_bytes: sum.host_written_bytes + one.host_written_bytes,
            media_written_bytes: sum.media_written_bytes + one.media_written_bytes,
            erases: sum.erases + one.erases,
            cycles_max: sum.cycles_max.max(one.cycles_max),
        })
    }

    fn reset_counters(&mut self) {
        for drive in &mut self.drives {
            drive.reset_counters();
        }
    }

    fn age(&mut self, past: Past) {
        for drive in &mut self.drives {
            drive.age(past);
        }
    }
}

/// The evaluation guide's load for one drive and for the pair.
const THREADS_A_DRIVE: u32 = 8;
const DEPTH: u32 = 4;
const STRIPE_BYTES: u64 = 4096;
const HOST: &str = "windows-intel";

pub(super) fn run(effort: Effort) -> Result<Found, ConformanceError> {
    let profile = host(HOST)?;
    let mut found = Found::default();
    let mut rows = Vec::new();
    for drives in 1..=2_u32 {
        for read_percent in [100, 70, 0] {
            let fault = |source| ConformanceError::Drive { test: "pair".to_owned(), source };
            let built: Result<Vec<_>, _> = (0..drives)
                .map(|at| Drive::named("p4800x").and_then(|drive| drive.build(effort.seed + u64::from(at))))
                .collect();
            let Some(mut array) = Array::new(built.map_err(fault)?, STRIPE_BYTES) else { continue };
            let threads = THREADS_A_DRIVE * drives;
            let workload = Workload { threads, depth: DEPTH, read_percent, size_bytes: 4096, pattern: Pattern::Random };
            let figures = closed_loop(&mut array, &profile, &workload, effort.seed, effort.ios * 4);
            found.set(format!("{drives} drives {read_percent} % reads iops"), Some(figures.iops));
            rows.push(vec![
                Value::Number(drives.into(), 0),
                Value::Number(read_percent.into(), 0),
                Value::Number(threads.into(), 0),
                Value::Number((threads * DEPTH).into(), 0),
                Value::Number(figures.iops, 0),
                Value::Number(figures.all.mean_ns().unwrap_or_default() / 1e3, 1),
            ]);
        }
    }
    let columns = ["drives", "reads %", "threads", "QD", "IOPS", "mean us"].map(str::to_owned).to_vec();
    found.data.push(Data { title: format!("p4800x at {HOST}, 4 KiB random"), columns, rows });
    Ok(found)
}
