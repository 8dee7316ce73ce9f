//! `forebay record`: the requests that a block device actually receives.

mod command;
mod live;
mod report;

use crate::cli::{RecordOptions, Source};
use crate::measure::{check_new_files, signals};
use crate::output::{self, Format};
use crate::verbs::convert::{Converted, capture_to_parquet};
use anyhow::{Context, Result, anyhow, bail, ensure};
use forebay_bench::job::size::size_bytes;
use forebay_block::size::parse_time_ns;
use forebay_daemon::finding::finding;
use forebay_trace::capture::{OutputOptions, RecordOptions as Capture, Recorder, Target, Tracer};
use forebay_trace::format::segments::first_path;
use rustix::fs::{Access, access};
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::{Duration, Instant};

/// Interval of emptying the ring, which holds a quarter of a second at a million requests a second.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Maximum number of control groups below those named.
const CGROUPS_MAX: usize = 65_536;

/// Records until Ctrl-C, the end of the time, or the end of the command.
///
/// # Errors
/// The kernel, the system or the options do not allow it; a finding where requests are missing.
pub fn run(options: &RecordOptions, format: Format) -> Result<()> {
    let plan = Plan::of(options)?;
    let stop = Stop::watched()?;
    let rules = options.rules.as_deref().map(crate::traces::load_rules).transpose()?.unwrap_or_default().rules;
    let recorder = begin(options, &plan)?;
    let begun = Instant::now();
    let child = match stop.is_wanted() && !options.command.is_empty() {
        true => Err(anyhow!("it was ended before it had begun: the command was not started")),
        false => command::start(&options.command),
    };
    let child = match child {
        Ok(child) => child,
        Err(error) => {
            drop(recorder);
            // The file was just created and holds nothing of the command.
            options.file.iter().for_each(|path| drop(fs::remove_file(path)));
            return Err(error);
        }
    };
    if !options.live {
        let names: Vec<&str> = plan.targets.iter().map(|target| target.name.as_str()).collect();
        tracing::info!("recording {}{}", names.join(", "), if child.is_none() { "; Ctrl-C ends it" } else { "" });
    }
    let view =
        options.live.then(|| live::View::new(&plan.targets, &rules, !recorder.is_ftrace(), options.line, format));
    let keeps_file = options.file.is_some();
    let until = plan.duration.and_then(|duration| begun.checked_add(duration));
    let mut recording = Recording { recorder, child, ended: None, view, keeps_file, until, stop };
    loop {
        match recording.look() {
            Ok(false) => std::thread::sleep(LOOK_EVERY),
            Ok(true) => break,
            Err(error) => return Err(recording.give_up(error)),
        }
    }
    recording.finish(options, plan.command_folder.as_deref(), format)
}

/// What is to be recorded: all that can be checked before an hour of recording, and before a file is created.
struct Plan {
    targets: Vec<Target>,
    cgroups: HashSet<u64>,
    duration: Option<Duration>,
    output: Option<OutputOptions>,
    /// The working directory, where there is a command to run in it.
    command_folder: Option<PathBuf>,
}

impl Plan {
    fn of(options: &RecordOptions) -> Result<Self> {
        ensure!(options.file.is_some() || options.live, "name a file to record to (NAME.fbr), or look with --live");
        let time = |name: &str, text: &Option<String>| -> Result<Option<Duration>> {
            let parsed = text.as_deref().map(parse_time_ns).transpose().map_err(|error| anyhow!("{name}: {error}"))?;
            Ok(parsed.map(Duration::from_nanos))
        };
        let duration = time("--for", &options.duration)?;
        let is_zero = duration == Some(Duration::ZERO);
        ensure!(!is_zero, "--for {}: more than 0", options.duration.as_deref().unwrap_or_default());
        let rotate_every = time("--rotate-every", &options.rotate_every)?;
        let rotate_bytes = options.rotate_size.as_deref().map(size_bytes).transpose();
        let rotate_bytes = rotate_bytes.map_err(|error| anyhow!("--rotate-size: {error}"))?;
        let command_folder = match options.command.first() {
            None => None,
            Some(program) => {
                let folder = std::env::current_dir().context("the working directory is not there any more")?;
                ensure_runnable(program)?;
                Some(folder)
            }
        };
        let targets = targets(options, command_folder.as_deref())?;
        let mut cgroups = HashSet::new();
        for folder in &options.cgroup {
            add_cgroups(folder, &mut cgroups)?;
        }
        if let (Some(file), Some(parquet)) = (&options.file, &options.parquet) {
            check_parquet(file, parquet)?;
        }
        let output = options.file.as_ref().map(|path| OutputOptions { path: path.clone(), rotate_bytes, rotate_every });
        Ok(Self { targets, cgroups, duration, output, command_folder })
    }
}

/// Begins to record, and says what the kernel's tracer cannot see.
fn begin(options: &RecordOptions, plan: &Plan) -> Result<Recorder> {
    let mut recorder = Recorder::begin(Capture {
        targets: plan.targets.clone(),
        processes: options.pid.clone(),
        cgroups: plan.cgroups.clone(),
        tracer: match options.source {
            Source::Auto => Tracer::Auto,
            Source::Ebpf => Tracer::Ebpf,
            Source::Ftrace => Tracer::Ftrace,
        },
        measure_cost: options.cost,
        output: plan.output.clone(),
    })?;
    if let Some(why) = recorder.take_refusal() {
        output::complain(format!("note: eBPF is refused: {}", output::chain(&why.into())));
    }
    if recorder.is_ftrace() {
        output::complain(
            "note: the kernel's blk tracer (ftrace) tells of requests: no hints, no files, no DIRECT or SWAP, no \
             zero-filling hints from writing, and no time before the issue",
        );
    }
    Ok(recorder)
}

/// Whether a signal has asked to stop, and which.
struct Stop {
    is_wanted: Arc<AtomicBool>,
    signal: Arc<AtomicI32>,
}

impl Stop {
    /// Set by SIGINT, SIGTERM and SIGHUP from now on.
    fn watched() -> Result<Self> {
        let stop = Self { is_wanted: Arc::new(AtomicBool::new(false)), signal: Arc::new(AtomicI32::new(0)) };
        signals::watch_number(&stop.is_wanted, &stop.signal)?;
        Ok(stop)
    }

    fn is_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::Acquire)
    }
}

/// A recording in progress.
struct Recording {
    recorder: Recorder,
    child: Option<command::Running>,
    /// How the command ended.
    ended: Option<ExitStatus>,
    view: Option<live::View>,
    /// Whether there is a file beside the live view.
    keeps_file: bool,
    until: Option<Instant>,
    stop: Stop,
}

impl Recording {
    /// Takes what was recorded since the last look; returns whether the recording is at its end.
    fn look(&mut self) -> Result<bool> {
        let requests = self.recorder.turn()?;
        if let Some(shown) = &mut self.view {
            requests.iter().for_each(|request| shown.add(request));
            match shown.show(self.recorder.dropped_up_to_now()) {
                // The reader of the live view has gone; the capture file continues.
                Err(error) if self.keeps_file && output::is_broken_pipe(&error) => self.view = None,
                shown => shown?,
            }
        }
        let is_stopped = self.stop.is_wanted();
        if let Some(running) = &mut self.child {
            self.ended = running.ended()?;
            // The end of the command ends the recording.
            if is_stopped && self.ended.is_none() {
                running.pass_on(self.stop.signal.load(Ordering::Relaxed));
            }
        }
        let is_over = self.until.is_some_and(|until| Instant::now() >= until);
        Ok(self.ended.is_some() || is_over || (is_stopped && self.child.is_none()))
    }

    /// Ends after an error: dropping the recorder removes the probes, and the file so far stays readable.
    fn give_up(self, error: anyhow::Error) -> anyhow::Error {
        drop(self.recorder);
        self.child.map(command::Running::end).iter().for_each(|said| output::complain(format!("note: {said}")));
        error
    }

    /// Completes the file and shows what was recorded.
    fn finish(mut self, options: &RecordOptions, command_folder: Option<&Path>, format: Format) -> Result<()> {
        if let (Some(running), None) = (&self.child, &self.ended) {
            output::complain(format!("note: {} goes on; the recording has ended", running.name()));
        }
        if let (Some(_), Some(folder)) = (&self.ended, command_folder) {
            write_back(folder, options, &mut self.recorder)?;
        }
        let summary = self.recorder.finish()?;
        report::show(&summary, self.ended, options.parquet.as_deref(), format, options.live)?;
        if summary.counts.requests == 0 && !summary.is_unfiltered {
            output::complain(
                "note: no request was of the processes and control groups named; what they wrote into the page cache is written by the \
                 kernel, and charged to a group only where its `io` controller is enabled (cgroup.subtree_control of the group above it)",
            );
        }
        if let (Some(file), Some(parquet)) = (&options.file, &options.parquet) {
            to_parquet(file, parquet, summary.counts.requests)?;
        }
        if summary.dropped_requests > 0 {
            return Err(finding(format!(
                "{} missing: more came than could be stored",
                output::count(summary.dropped_requests, "request")
            )));
        }
        match self.ended {
            Some(status) if !status.success() => Err(finding(format!("the command ended with {status}"))),
            _ => Ok(()),
        }
    }
}

/// Checks that the Parquet file can be created and does not collide with the capture.
fn check_parquet(file: &Path, parquet: &Path) -> Result<()> {
    check_new_files(std::iter::once(parquet))?;
    let whole = |path: &Path| std::path::absolute(path).with_context(|| path.display().to_string());
    let (file, whole) = (whole(file)?, whole(parquet)?);
    let is_later = first_path(&whole).is_some_and(|(first, _)| first == file);
    ensure!(whole != file && !is_later, "--parquet {}: the capture itself has this name", parquet.display());
    Ok(())
}

/// Converts the capture to Parquet; all recorded requests must be in it.
fn to_parquet(file: &Path, parquet: &Path, recorded: u64) -> Result<()> {
    let Converted { requests, faults, refused } = capture_to_parquet(file, parquet)?;
    output::complain(format!("written: {}, {}", parquet.display(), output::count(requests, "request")));
    faults.missing_note().iter().for_each(|note| output::complain(format!("note: {note}")));
    if requests == recorded {
        return Ok(());
    }
    let why = faults.first.iter().chain(&refused.first).map(|fault| format!("; {}", fault.what));
    Err(finding(format!(
        "{} has {requests} of {} recorded{}",
        parquet.display(),
        output::count(recorded, "request"),
        why.collect::<String>()
    )))
}

/// The named targets, without duplicates.
fn targets(options: &RecordOptions, command_folder: Option<&Path>) -> Result<Vec<Target>> {
    let mut targets: Vec<Target> = Vec::new();
    let mut add = |target: Target| {
        if !targets.contains(&target) {
            targets.push(target);
        }
    };
    for path in &options.device {
        add(Target::of_device(path)?);
    }
    for path in &options.mount {
        add(Target::of_file(path)?);
    }
    if options.device.is_empty() && options.mount.is_empty() {
        for pid in &options.pid {
            let folder = fs::read_link(format!("/proc/{pid}/cwd"))
                .with_context(|| format!("--pid {pid}: there is no such process, or it may not be looked at"))?;
            add(Target::of_file(&folder)?);
        }
        if let Some(folder) = command_folder {
            add(Target::of_file(folder)?);
        }
    }
    for pid in &options.pid {
        ensure!(Path::new(&format!("/proc/{pid}")).exists(), "--pid {pid}: there is no such process");
    }
    ensure!(!targets.is_empty(), "say what to record: --device, --mount, --pid, or a command behind --");
    Ok(targets)
}

/// Adds the ids of a control group and all groups below it: the inode numbers of their directories.
fn add_cgroups(folder: &Path, found: &mut HashSet<u64>) -> Result<()> {
    let mut folders: Vec<PathBuf> = vec![folder.to_owned()];
    ensure!(
        folder.join("cgroup.procs").exists(),
        "--cgroup {}: not a directory of cgroup2 (it has no cgroup.procs)",
        folder.display()
    );
    while let Some(folder) = folders.pop() {
        if found.len() >= CGROUPS_MAX {
            bail!("--cgroup {}: more than {CGROUPS_MAX} groups", folder.display());
        }
        // A group may disappear during the scan.
        let Ok(metadata) = fs::metadata(&folder) else { continue };
        found.insert(metadata.ino());
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        folders.extend(
            entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()),
        );
    }
    Ok(())
}

/// Refuses a program that execvp(3) would not find or may not run.
fn ensure_runnable(program: &OsStr) -> Result<()> {
    let is_runnable = |path: &Path| path.is_file() && access(path, Access::EXEC_OK).is_ok();
    let is_found = if program.as_encoded_bytes().contains(&b'/') {
        is_runnable(Path::new(program))
    } else {
        let folders = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&folders).any(|folder| is_runnable(&folder.join(program)))
    };
    ensure!(
        is_found,
        "{} cannot be started: there is no such program that may be run; nothing was recorded and no file was made",
        program.display()
    );
    Ok(())
}

/// Makes the kernel write the command's data in the page cache, so that these requests are recorded too.
fn write_back(folder: &Path, options: &RecordOptions, recorder: &mut Recorder) -> Result<()> {
    let folders: Vec<PathBuf> = std::iter::once(folder.to_owned()).chain(options.mount.iter().cloned()).collect();
    let writer = std::thread::spawn(move || {
        for folder in folders {
            // A file system that cannot sync reports that elsewhere; the recording stays valid.
            let _ = File::open(folder).map(rustix::fs::syncfs);
        }
    });
    while !writer.is_finished() {
        recorder.turn()?;
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(())
}
