//! The probes in the kernel: loading, attaching, reading their ring, and their cost.

use super::error::CaptureError;
use super::event::Event;
use aya::maps::{Array, HashMap, MapData, RingBuf};
use aya::programs::{BtfTracePoint, ProgramError};
use aya::{Btf, Ebpf, EbpfLoader};
use std::fs;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

/// Most disks that are watched at once (`DISKS_MAX` in the probes).
pub const DISKS_MAX: usize = 8;

/// Length of the ring for issues of writes in bytes: about 20,000 of them.
const WRITES_RING_BYTES: u32 = 2 << 20;
const BTF_PATH: &str = "/sys/kernel/btf/vmlinux";
const LOCKDOWN_PATH: &str = "/sys/kernel/security/lockdown";
static OBJECT: &[u8] = aya::include_bytes_aligned!("../../bpf/capture.bpf.o");

/// Programs for devices with blk-mq, except the one for issues, and their tracepoints.
const REQUEST_PROBES: [(&str, &str); 3] = [
    ("request_complete", "block_rq_complete"),
    ("request_requeue", "block_rq_requeue"),
    ("request_insert", "block_rq_insert"),
];
const REQUEST_ISSUE: [(&str, &str); 1] = [("request_issue", "block_rq_issue")];
/// Programs for devices without blk-mq.
const BIO_PROBES: [(&str, &str); 1] = [("bio_complete", "block_bio_complete")];
const BIO_ISSUE: [(&str, &str); 1] = [("bio_queue", "block_bio_queue")];
/// Program that follows child processes.
const PROCESS_PROBES: [(&str, &str); 1] = [("process_fork", "sched_process_fork")];

/// Kernel functions whose addresses show what a bio is for, and the probes' names for them.
const FUNCTIONS: [(&str, &str); 5] = [
    ("iomap_dio_bio_end_io", "iomap_dio_end"),
    ("blkdev_bio_end_io", "blkdev_end"),
    ("blkdev_bio_end_io_async", "blkdev_end_async"),
    ("bio_chain_endio", "chain_end"),
    ("end_swap_bio_read", "swap_read_end"),
];

/// What is to be watched.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    /// Device numbers of the disks, `major << 20 | minor`.
    pub disks: Vec<u64>,
    /// Whether a disk has blk-mq.
    pub has_request_based: bool,
    /// Whether a disk has no blk-mq.
    pub has_bio_based: bool,
    /// Processes to follow, with their children; empty for all.
    pub processes: Vec<u32>,
    /// Report only issues of writes, as live evidence: the ring is small then, and read before each request.
    pub writes_only: bool,
    /// Whether the kernel measures the cost of the probes, which itself costs about 30 ns per run.
    pub measure_cost: bool,
}

/// What the probes cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProbeCost {
    /// Number of runs.
    pub runs: u64,
    /// Total time in nanoseconds; 0 if it was not measured.
    pub time_ns: u64,
    /// How often a probe was skipped because it was already running on that CPU (an interrupt): these events are missing.
    pub missed: u64,
}

/// Probes in the kernel; they are removed when this is dropped, or the process ends.
pub struct Probes {
    ring: RingBuf<MapData>,
    lost: Array<MapData, u64>,
    attached: Vec<&'static str>,
    ebpf: Ebpf,
    /// Keeps the kernel measuring.
    _measuring: Option<std::os::fd::OwnedFd>,
}

impl Probes {
    /// Loads and attaches the probes. `before_issues` is called when completions are already seen and issues are not.
    ///
    /// # Errors
    /// The kernel lacks or forbids something that the probes need.
    pub fn attach(watch: &Watch, before_issues: impl FnOnce()) -> Result<Self, CaptureError> {
        if watch.disks.len() > DISKS_MAX {
            return Err(CaptureError::TooManyDisks { count: watch.disks.len(), max: DISKS_MAX });
        }
        if !Path::new(BTF_PATH).exists() {
            return Err(CaptureError::NoBtf);
        }
        let btf = Btf::from_sys_fs().map_err(CaptureError::Btf)?;
        let mut ebpf = load(watch, &btf)?;
        if !watch.processes.is_empty() {
            let map = ebpf.map_mut("processes").ok_or(CaptureError::Object { what: "map of processes" })?;
            let map_error = |source| CaptureError::Map { what: "map of processes", source: Box::new(source) };
            let mut processes: HashMap<_, u32, u8> = HashMap::try_from(map).map_err(map_error)?;
            for pid in &watch.processes {
                processes.insert(pid, 1, 0).map_err(map_error)?;
            }
        }
        let ring = ebpf.take_map("events").ok_or(CaptureError::Object { what: "ring" })?;
        let ring =
            RingBuf::try_from(ring).map_err(|source| CaptureError::Map { what: "ring", source: Box::new(source) })?;
        let lost = ebpf.take_map("lost").ok_or(CaptureError::Object { what: "count of losses" })?;
        let lost = Array::try_from(lost)
            .map_err(|source| CaptureError::Map { what: "count of losses", source: Box::new(source) })?;
        let measuring = watch.measure_cost.then(|| aya::sys::enable_stats(aya::sys::Stats::RunTime).ok()).flatten();
        let mut probes = Self { ring, lost, attached: Vec::new(), ebpf, _measuring: measuring };
        if !watch.processes.is_empty() {
            probes.attach_all(&PROCESS_PROBES, &btf)?;
        }
        if watch.has_request_based && !watch.writes_only {
            probes.attach_all(&REQUEST_PROBES, &btf)?;
        }
        if watch.has_bio_based && !watch.writes_only {
            probes.attach_all(&BIO_PROBES, &btf)?;
        }
        before_issues();
        if watch.has_request_based {
            probes.attach_all(&REQUEST_ISSUE, &btf)?;
        }
        if watch.has_bio_based {
            probes.attach_all(&BIO_ISSUE, &btf)?;
        }
        Ok(probes)
    }

    fn attach_all(&mut self, probes: &[(&'static str, &'static str)], btf: &Btf) -> Result<(), CaptureError> {
        for (name, tracepoint) in probes {
            let program = self.ebpf.program_mut(name).ok_or(CaptureError::Object { what: name })?;
            let refused = |source| refused(name, source);
            let program: &mut BtfTracePoint = program.try_into().map_err(refused)?;
            program.load(tracepoint, btf).map_err(refused)?;
            program.attach().map_err(refused)?;
            self.attached.push(name);
        }
        Ok(())
    }

    /// Reads the events in the ring, at most `limit`; returns their number.
    pub fn read(&mut self, limit: usize, mut each: impl FnMut(&Event)) -> usize {
        for count in 0..limit {
            let Some(item) = self.ring.next() else { return count };
            if let Some(event) = Event::decode(&item) {
                each(&event);
            }
        }
        limit
    }

    /// Number of events that had no room in the ring: lost requests, and lost completions.
    #[must_use]
    pub fn lost(&self) -> (u64, u64) {
        let of = |kind| self.lost.get(&kind, 0).unwrap_or_default();
        (of(1), of(2) + of(3))
    }

    /// The cost of the probes so far.
    #[must_use]
    pub fn cost(&self) -> ProbeCost {
        let mut sum = ProbeCost::default();
        for (_, program) in self.ebpf.programs().filter(|(name, _)| self.attached.contains(name)) {
            let Ok(fd) = program.fd() else { continue };
            // Some fields are only available as text in fdinfo in all kernel versions supported here (Documentation/bpf).
            let path = format!("/proc/self/fdinfo/{}", fd.as_fd().as_raw_fd());
            let text = fs::read_to_string(path).unwrap_or_default();
            let field = |name: &str| -> u64 {
                text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok()).unwrap_or_default()
            };
            sum.runs += field("run_cnt:");
            sum.time_ns += field("run_time_ns:");
            sum.missed += field("recursion_misses:");
        }
        sum
    }

    /// Removes the probes from the kernel; events in the ring can still be read.
    pub fn detach(&mut self) {
        for name in self.attached.drain(..) {
            if let Some(Ok(program)) = self.ebpf.program_mut(name).map(<&mut BtfTracePoint>::try_from) {
                // A program that was not loaded needs no removal.
                let _ = program.unload();
            }
        }
    }
}

fn load(watch: &Watch, btf: &Btf) -> Result<Ebpf, CaptureError> {
    let mut disks = [0u64; DISKS_MAX];
    for (to, from) in disks.iter_mut().zip(&watch.disks) {
        *to = *from;
    }
    let count = watch.disks.len() as u32;
    let by_process = u8::from(!watch.processes.is_empty());
    let writes_only = u8::from(watch.writes_only);
    let functions = addresses();
    let mut loader = EbpfLoader::new();
    loader.btf(Some(btf));
    loader.override_global("disks", &disks, true);
    loader.override_global("disk_count", &count, true);
    loader.override_global("by_process", &by_process, true);
    loader.override_global("writes_only", &writes_only, true);
    if watch.writes_only {
        loader.map_max_entries("events", WRITES_RING_BYTES);
    }
    for ((_, name), address) in FUNCTIONS.iter().zip(&functions) {
        loader.override_global(name, address, true);
    }
    loader.load(OBJECT).map_err(|error| forbidden().unwrap_or_else(|| CaptureError::Load(Box::new(error))))
}

/// Addresses of [`FUNCTIONS`]; 0 for a function that the kernel does not have, or whose address it hides (`kernel.kptr_restrict`).
fn addresses() -> [u64; FUNCTIONS.len()] {
    let mut found = [0; FUNCTIONS.len()];
    let text = fs::read("/proc/kallsyms").unwrap_or_default();
    for line in text.split(|&byte| byte == b'\n') {
        let mut words = line.split(|byte| byte.is_ascii_whitespace());
        let (Some(address), Some(_), Some(name)) = (words.next(), words.next(), words.next()) else { continue };
        if let Some(index) = FUNCTIONS.iter().position(|(function, _)| function.as_bytes() == name) {
            let address = str::from_utf8(address).ok().and_then(|text| u64::from_str_radix(text, 16).ok());
            found[index] = address.unwrap_or_default();
        }
    }
    found
}

fn refused(probe: &'static str, source: ProgramError) -> CaptureError {
    forbidden().unwrap_or_else(|| CaptureError::Refused { probe, source: Box::new(source) })
}

/// What forbids probes to this process in general; `None` if nothing known does.
fn forbidden() -> Option<CaptureError> {
    let lockdown = fs::read_to_string(LOCKDOWN_PATH).unwrap_or_default();
    let mode = lockdown.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map_or("none", |(mode, _)| mode);
    if mode == "confidentiality" {
        return Some(CaptureError::LockedDown { mode: mode.to_owned() });
    }
    (!may_load()).then_some(CaptureError::NotPermitted)
}

/// Whether this process has the capabilities that probes need (include/uapi/linux/capability.h: 21 SYS_ADMIN, 38 PERFMON, 39 BPF).
fn may_load() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let Some(bits) = effective.and_then(|text| u64::from_str_radix(text.trim(), 16).ok()) else { return true };
    let has = |bit: u32| bits >> bit & 1 == 1;
    has(21) || (has(38) && has(39))
}
