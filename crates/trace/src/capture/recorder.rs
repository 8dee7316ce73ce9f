//! A capture from beginning to end: probes, matching, files, totals.

use super::disk::{Disk, DiskStat, Target};
use super::error::CaptureError;
use super::event::Event;
use super::files::Paths;
use super::ftrace::Ftrace;
use super::matcher::{Counts, Filter, Matched, Matcher};
use super::output::{Output, OutputOptions};
use super::probes::{ProbeCost, Probes, Watch};
use super::processes::{open_files, with_children};
use super::totals::Totals;
use crate::files::WatchState;
use crate::format::segments::Volume;
use rustix::time::{ClockId, clock_gettime};
use std::collections::HashSet;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

/// Most events handled in one iteration.
const TURN_EVENTS: usize = 1 << 18;
/// How often the files that processes have open are looked at.
const OPEN_FILES_EVERY: Duration = Duration::from_secs(1);
/// Most open files that are remembered.
const OPEN_FILES_MAX: usize = 1 << 20;
/// After a disk was idle, a completion may take this long, in nanoseconds, through its interrupt and the ring.
const SETTLED_NS: u64 = 200_000_000;

/// The source of events about requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tracer {
    /// eBPF, or ftrace if eBPF is refused.
    #[default]
    Auto,
    /// Probes by eBPF.
    Ebpf,
    /// The kernel's `blk` tracer: without hints, files and times before the issue.
    Ftrace,
}

/// The source in use.
enum Source {
    Probes(Box<Probes>),
    Ftrace(Box<Ftrace>),
}

impl Source {
    fn attach(
        options: &RecordOptions,
        disks: &[Disk],
        watch: &Watch,
        mut before_issues: impl FnMut(),
    ) -> Result<(Self, Option<CaptureError>), CaptureError> {
        let can_filter = options.processes.is_empty() && options.cgroups.is_empty();
        if options.tracer == Tracer::Ftrace && !can_filter {
            return Err(CaptureError::NeedsEbpf);
        }
        let refused = match options.tracer {
            Tracer::Ftrace => None,
            Tracer::Auto | Tracer::Ebpf => match Probes::attach(watch, &mut before_issues) {
                Ok(probes) => return Ok((Self::Probes(Box::new(probes)), None)),
                Err(error) if options.tracer == Tracer::Ebpf || !can_filter => return Err(error),
                Err(error) => Some(error),
            },
        };
        match (Ftrace::attach(disks, before_issues), refused) {
            (Ok(ftrace), refused) => Ok((Self::Ftrace(Box::new(ftrace)), refused)),
            (Err(error), None) => Err(error),
            (Err(ftrace), Some(ebpf)) => Err(CaptureError::Neither { ebpf: Box::new(ebpf), ftrace: Box::new(ftrace) }),
        }
    }

    fn read(&mut self, limit: usize, each: impl FnMut(&Event)) -> usize {
        match self {
            Self::Probes(probes) => probes.read(limit, each),
            Self::Ftrace(ftrace) => ftrace.read(limit, each),
        }
    }

    /// Makes the source forget requests that have completed without an event.
    fn forget(&mut self, keys: &[u64]) {
        if let Self::Ftrace(ftrace) = self {
            ftrace.forget(keys);
        }
    }

    fn lost(&self) -> (u64, u64) {
        match self {
            Self::Probes(probes) => probes.lost(),
            // ftrace does not say which of the lost events were issues.
            Self::Ftrace(ftrace) => (ftrace.lost(), 0),
        }
    }

    fn cost(&self) -> ProbeCost {
        match self {
            Self::Probes(probes) => probes.cost(),
            Self::Ftrace(_) => ProbeCost::default(),
        }
    }

    fn detach(&mut self) {
        match self {
            Self::Probes(probes) => probes.detach(),
            Self::Ftrace(ftrace) => ftrace.detach(),
        }
    }
}

/// What is recorded, and where it is written.
#[derive(Clone, Debug, Default)]
pub struct RecordOptions {
    /// The devices to record.
    pub targets: Vec<Target>,
    /// Record only requests of these processes and their children; empty for all.
    pub processes: Vec<u32>,
    /// Record only requests that these control groups pay for; empty for all.
    pub cgroups: HashSet<u64>,
    /// The source of events about requests.
    pub tracer: Tracer,
    /// Whether the probes' cost is measured.
    pub measure_cost: bool,
    /// The files to write; `None` for totals only.
    pub output: Option<OutputOptions>,
}

/// Totals of one volume.
#[derive(Clone, Debug)]
pub struct VolumeSummary {
    /// The device.
    pub target: Target,
    /// Totals of the recorded requests.
    pub totals: Totals,
    /// What the kernel itself counted in the same time.
    pub kernel: DiskStat,
    /// Flushes without data, which the kernel counts as writes; for the whole disk.
    pub empty_flushes: u64,
}

/// The result of a capture.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Length of the capture.
    pub elapsed: Duration,
    /// Totals by volume.
    pub volumes: Vec<VolumeSummary>,
    /// Counts of the matcher.
    pub counts: Counts,
    /// Number of requests that are missing because the ring had no room.
    pub dropped_requests: u64,
    /// Number of other events that the ring had no room for.
    pub dropped_completions: u64,
    /// Cost of the probes.
    pub cost: ProbeCost,
    /// CPU time of this process during the capture.
    pub cpu: Duration,
    /// The files that were written.
    pub files: Vec<PathBuf>,
    /// The mounts whose files were named, with the state of their watches.
    pub watches: Vec<(PathBuf, WatchState)>,
    /// Whether all requests of the devices were kept, so that the kernel's counters must agree.
    pub is_unfiltered: bool,
}

/// A capture in progress.
pub struct Recorder {
    options: RecordOptions,
    disks: Vec<Disk>,
    source: Source,
    /// Why probes were refused, if ftrace is used in their place.
    refused: Option<CaptureError>,
    matcher: Matcher,
    output: Option<Output>,
    paths: Option<Paths>,
    totals: Vec<Totals>,
    before: Vec<DiskStat>,
    /// Beginning by CLOCK_MONOTONIC; times of requests count from it.
    begin_ns: u64,
    begun: Instant,
    cpu_before: Duration,
    turn: Vec<Matched>,
    open_files_seen: Instant,
    /// For each disk with overdue requests, when it was seen idle.
    idle_ns: Vec<Option<u64>>,
}

fn clock(id: ClockId) -> Duration {
    let time = clock_gettime(id);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Recorder {
    /// Begins to record.
    ///
    /// # Errors
    /// Probes cannot be attached, or a file cannot be created.
    pub fn begin(options: RecordOptions) -> Result<Self, CaptureError> {
        let mut disks: Vec<Disk> = Vec::new();
        for target in &options.targets {
            if !disks.contains(&target.disk) {
                disks.push(target.disk.clone());
            }
        }
        let watch = Watch {
            disks: disks.iter().map(Disk::kernel_number).collect(),
            has_request_based: disks.iter().any(|disk| disk.has_requests),
            has_bio_based: disks.iter().any(|disk| !disk.has_requests),
            processes: with_children(&options.processes),
            measure_cost: options.measure_cost,
            writes_only: false,
        };
        let ranges = options.targets.iter().map(|target| {
            let disk = disks.iter().position(|disk| *disk == target.disk).unwrap_or_default();
            target.range(disk as u8)
        });
        let ranges = ranges.collect();
        let mut unseen = Vec::new();
        let (source, refused) = Source::attach(&options, &disks, &watch, || {
            unseen = disks.iter().map(|disk| disk.in_flight().unwrap_or(0)).collect()
        })?;
        let begin_ns = nanoseconds(clock(ClockId::Monotonic));
        let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let filter = Filter {
            by_process: !options.processes.is_empty(),
            files: HashSet::new(),
            cgroups: options.cgroups.clone(),
        };
        // Everything that may fail comes before the file is created, so that a recording that does not begin leaves none.
        let before = options.targets.iter().map(Target::stat).collect::<Result<_, _>>()?;
        let output = match &options.output {
            Some(output) => {
                let volumes = options
                    .targets
                    .iter()
                    .map(|target| Volume { name: target.name.clone(), size_bytes: target.sectors.saturating_mul(512) });
                let capture = identity(nanoseconds(unix));
                Some(Output::begin(output.clone(), capture, nanoseconds(unix), volumes.collect())?)
            }
            None => None,
        };
        let paths = output.is_some().then(|| Paths::start(&disks));
        let mut recorder = Self {
            matcher: Matcher::new(begin_ns, ranges, unseen, filter),
            totals: vec![Totals::default(); options.targets.len()],
            options,
            idle_ns: vec![None; disks.len()],
            disks,
            source,
            refused,
            output,
            paths,
            before,
            begin_ns,
            begun: Instant::now(),
            cpu_before: clock(ClockId::ProcessCPUTime),
            turn: Vec::new(),
            open_files_seen: Instant::now(),
        };
        recorder.look_at_open_files();
        Ok(recorder)
    }

    /// Nanoseconds since the recording began, by the clock of its requests.
    #[must_use]
    pub fn elapsed_ns(&self) -> u64 {
        nanoseconds(clock(ClockId::Monotonic)).saturating_sub(self.begin_ns)
    }

    /// Whether ftrace is used instead of eBPF: requests then have no hints, no files and no time before the issue.
    #[must_use]
    pub fn is_ftrace(&self) -> bool {
        matches!(self.source, Source::Ftrace(_))
    }

    /// Why eBPF was refused, if ftrace is used in its place; returned once.
    pub fn take_refusal(&mut self) -> Option<CaptureError> {
        self.refused.take()
    }

    /// Handles the events so far; to be called at least ten times a second. Returns the requests that became complete; their `process` is
    /// not numbered.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn turn(&mut self) -> Result<&[Matched], CaptureError> {
        if self.matcher.filter.by_process && self.open_files_seen.elapsed() > OPEN_FILES_EVERY {
            self.look_at_open_files();
        }
        let now_ns = nanoseconds(clock(ClockId::Monotonic));
        let matcher = &mut self.matcher;
        if self.source.read(TURN_EVENTS, |event| matcher.take(event)) < TURN_EVENTS {
            self.look_for_overdue(now_ns);
        }
        self.turn.clear();
        self.matcher.drain(nanoseconds(clock(ClockId::Monotonic)), &mut self.turn);
        self.keep()?;
        Ok(&self.turn)
    }

    /// The kernel does not run a program for each event in all circumstances: requests that seem to be at a disk that is idle have
    /// completed. All events before `now_ns` must have been handled.
    fn look_for_overdue(&mut self, now_ns: u64) {
        for (number, (disk, idle_ns)) in self.disks.iter().zip(&mut self.idle_ns).enumerate() {
            match *idle_ns {
                Some(idle) if now_ns.saturating_sub(idle) >= SETTLED_NS => {
                    self.source.forget(&self.matcher.take_unheard_before(number as u8, idle));
                    *idle_ns = None;
                }
                None if self.matcher.is_overdue(number as u8) && disk.is_idle() => *idle_ns = Some(now_ns),
                Some(_) | None => {}
            }
        }
    }

    fn look_at_open_files(&mut self) {
        self.open_files_seen = Instant::now();
        if self.matcher.filter.by_process && self.matcher.filter.files.len() < OPEN_FILES_MAX {
            let files = open_files(&with_children(&self.options.processes));
            self.matcher.filter.files.extend(files);
        }
    }

    fn dropped(&self) -> u64 {
        let (requests, completions) = self.source.lost();
        requests.saturating_add(completions)
    }

    /// Adds up and stores the requests of this iteration.
    fn keep(&mut self) -> Result<(), CaptureError> {
        for matched in &self.turn {
            let request = &matched.captured.request;
            if let Some(totals) = self.totals.get_mut(request.volume as usize) {
                totals.add(request);
            }
            if let Some(output) = &mut self.output {
                output.add(matched);
                if let Some(paths) = &mut self.paths {
                    paths.saw(matched.captured.file_system);
                }
            }
        }
        let dropped = self.dropped();
        if let Some(output) = &mut self.output {
            if let Some(paths) = &mut self.paths {
                paths.turn(output);
            }
            output.turn(dropped)?;
        }
        Ok(())
    }

    /// Totals by volume so far.
    #[must_use]
    pub fn totals(&self) -> &[Totals] {
        &self.totals
    }

    /// Number of events dropped so far.
    #[must_use]
    pub fn dropped_up_to_now(&self) -> u64 {
        self.dropped()
    }

    /// Files written so far.
    #[must_use]
    pub fn files(&self) -> &[PathBuf] {
        self.output.as_ref().map_or(&[], |output| output.files())
    }

    /// Ends the recording: removes the probes, reads the rest of their ring, looks for paths once more, and ends the file.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn finish(mut self) -> Result<Summary, CaptureError> {
        let elapsed = self.begun.elapsed();
        let kernel: Vec<DiskStat> = self.options.targets.iter().map(Target::stat).collect::<Result<_, _>>()?;
        let mut cost = self.source.cost();
        let now_ns = nanoseconds(clock(ClockId::Monotonic));
        let idle: Vec<bool> = self.disks.iter().map(Disk::is_idle).collect();
        self.source.detach();
        let matcher = &mut self.matcher;
        while self.source.read(TURN_EVENTS, |event| matcher.take(event)) == TURN_EVENTS {}
        for (disk, is_idle) in idle.into_iter().enumerate() {
            if is_idle {
                matcher.take_unheard_before(disk as u8, now_ns);
            }
        }
        self.turn.clear();
        matcher.finish(&mut self.turn);
        self.keep()?;
        let cpu = clock(ClockId::ProcessCPUTime).saturating_sub(self.cpu_before);
        let dropped = self.dropped();
        let (dropped_requests, dropped_completions) = self.source.lost();
        let (mut files, mut watches) = (Vec::new(), Vec::new());
        if let Some(mut output) = self.output {
            watches = self.paths.map(|paths| paths.finish(&mut output)).unwrap_or_default();
            files = output.finish(dropped)?;
        }
        if !self.options.measure_cost {
            cost.time_ns = 0;
        }
        let is_unfiltered = self.options.processes.is_empty() && self.options.cgroups.is_empty();
        let counts = self.matcher.counts().clone();
        let volumes = self.options.targets.into_iter().zip(self.totals).zip(kernel.iter().zip(&self.before));
        let volumes = volumes.map(|((target, totals), (after, before))| {
            let disk = self.disks.iter().position(|disk| *disk == target.disk);
            let empty_flushes = disk.and_then(|disk| counts.empty_flushes.get(disk)).copied().unwrap_or(0);
            VolumeSummary { target, totals, kernel: after.since(before), empty_flushes }
        });
        Ok(Summary {
            elapsed,
            volumes: volumes.collect(),
            dropped_requests,
            dropped_completions,
            cost,
            cpu,
            files,
            watches,
            is_unfiltered,
            counts,
        })
    }
}

/// An identity that no other capture of this machine has: time, process, and random bytes.
fn identity(unix_ns: u64) -> [u8; 16] {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&unix_ns.to_le_bytes());
    id[8..12].copy_from_slice(&std::process::id().to_le_bytes());
    let mut random = [0; 4];
    // If the system has no random bytes, time and process must suffice.
    if let Ok(mut file) = std::fs::File::open("/dev/urandom")
        && std::io::Read::read_exact(&mut file, &mut random).is_ok()
    {
        id[12..].copy_from_slice(&random);
    }
    id
}
