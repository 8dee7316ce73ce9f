//! Runs plans on a target one after the other, until all are done or the user interrupts.

use super::generated;
use super::hint_book::HintBook;
use super::interval::{interval_of, interval_within};
use super::live::Live;
use super::machine::{self, BlockLayer};
use super::open::MeasureTarget;
use super::own_cost::{essence, own_cost_ns};
use super::virtual_target::VirtualTarget;
use super::wear::Wear;
use crate::output;
use anyhow::{Context, Result, bail};
use forebay_bench::experiment::{Driver, DriverError};
use forebay_bench::job::model::{Access, Calls, Evidence, Job, Mix, Plan};
use forebay_bench::output::summary::asked;
use forebay_bench::replay::Feed;
use forebay_bench::run::{
    Assignment, Clock, Coordinator, JobResult, Maps, Opened, Settings, TargetFacts, TscClock, Watch, run,
    run_coordinated,
};
use forebay_bench::telemetry::{Header, Recorder, Spill, SpillOptions};
use forebay_block::{OpKind, Queue, VirtualClock, VirtualQueue};
use forebay_daemon::finding::finding;
use forebay_daemon::text::command;
use forebay_device::Target;
use forebay_device::counters::Counters;
use forebay_device::queue::NullQueue;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Memory limit of records that wait to be written, in bytes.
const SPILL_BUDGET_BYTES: u64 = 256 << 20;
/// How long the end of a run waits until the last records are written.
const SPILL_TIMEOUT: Duration = Duration::from_secs(30);

/// Settings of a session.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// Whether data on the target may be lost.
    pub destroy_data: bool,
    /// Interval length in nanoseconds; `None` derives it from the length of each run.
    pub interval_ns: Option<u64>,
    /// File for a record of every I/O.
    pub records: Option<PathBuf>,
    /// Whether kernel probes measure the requests in the block layer.
    pub block_layer: bool,
}

/// A target under measurement.
pub struct Session {
    name: String,
    target: Measured,
    options: SessionOptions,
    clock: TscClock,
    stop: Arc<AtomicBool>,
    measured: Arc<OnceLock<Instant>>,
    live: Live,
    maps: Maps,
    /// Size of a null target. Its queues are called without dynamic dispatch, so that only the tool itself is measured.
    null_bytes: Option<u64>,
    /// Watch of the current run.
    watch: Watch,
    /// What is missing in the file of records because it could not be written, and why.
    unwritten: OnceLock<String>,
}

/// What is measured.
enum Measured {
    /// In real time.
    Real(Box<MeasureTarget>),
    /// In virtual time.
    Virtual(VirtualTarget),
}

/// Lengths that an interval must divide.
fn parts_ns(job: &Job) -> impl Iterator<Item = u64> + use<> {
    job.steady.map(|steady| steady.every_ns).into_iter()
}

/// Interval length of concurrent jobs in nanoseconds, where the user gives none.
pub fn interval_of_jobs(jobs: &[Job]) -> u64 {
    // The shortest of concurrent jobs must have enough intervals.
    let shortest_ns = jobs.iter().filter_map(|job| job.end.after_ns).min();
    interval_within(interval_of(shortest_ns), jobs.iter().flat_map(parts_ns))
}

/// Adds the name that distinguishes targets in results.
fn named<Q>(opened: Opened<Q>, name: &str) -> Opened<Q> {
    Opened { facts: TargetFacts { name: Some(name.to_owned()), ..opened.facts }, ..opened }
}

/// Queues of a null target.
fn null_queues(job: &Job, size_bytes: u64) -> Result<Opened<NullQueue>> {
    let buffer_bytes = (job.max_io_bytes() as usize).max(512);
    let queues = (0..job.threads).map(|_| NullQueue::new(job.depth, buffer_bytes)).collect::<Result<_, _>>()?;
    let facts = TargetFacts {
        size_bytes: size_bytes / 512 * 512,
        logical_block_bytes: 512,
        description: "null: completes at once, touches no data".to_owned(),
        ..TargetFacts::default()
    };
    Ok(Opened { queues, facts })
}

impl Session {
    /// Opens a target by name. From then on SIGINT and SIGTERM end a run and keep its results so far.
    ///
    /// # Errors
    /// The name is not known, or a pool cannot be opened.
    pub fn new(name: &str, options: SessionOptions) -> Result<Self> {
        Self::beside(name, options, &VirtualClock::default())
    }

    /// Opens a target beside others in virtual time, on their common clock.
    ///
    /// # Errors
    /// As [`Session::new`].
    pub fn beside(name: &str, options: SessionOptions, clock: &VirtualClock) -> Result<Self> {
        let interval_ns = options.interval_ns.unwrap_or_else(|| interval_of(None));
        let target = match VirtualTarget::open(name, interval_ns, clock)? {
            Some(target) => Measured::Virtual(target),
            None => Measured::Real(Box::new(MeasureTarget::new(name)?)),
        };
        let (stop, measured) = (Arc::new(AtomicBool::new(false)), Arc::default());
        super::signals::watch_until(&stop, &measured)?;
        let mut seed = [0; 8];
        getrandom::fill(&mut seed).context("the system gives no random numbers")?;
        let maps = Maps::new(u64::from_le_bytes(seed));
        let null_bytes = match name.parse() {
            Ok(Target::Null { size_bytes }) => Some(size_bytes),
            _ => None,
        };
        let (name, clock, live) = (name.to_owned(), TscClock::new(), Live::new());
        let (watch, unwritten) = (Watch::default(), OnceLock::new());
        Ok(Self { name, target, options, clock, stop, measured, live, maps, null_bytes, watch, unwritten })
    }

    /// Marks the measurements as finished: from a second later on, a signal ends the program as by default.
    pub fn measured(&self) {
        self.measured.get_or_init(Instant::now);
    }

    /// Whether the target is in virtual time, which costs only computing.
    pub fn is_virtual(&self) -> bool {
        matches!(self.target, Measured::Virtual(_))
    }

    /// Sets the interval length of later runs.
    pub fn set_interval(&mut self, interval_ns: u64) {
        self.options.interval_ns = Some(interval_ns);
    }

    /// Name of the target.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Checks a whole plan before any of it runs: a refusal of the last job must not come after the work of the first.
    ///
    /// # Errors
    /// A target that must not be written to, or a job that does not fit.
    pub fn check(&self, plan: &Plan) -> Result<()> {
        let jobs = || plan.groups.iter().flatten();
        if jobs().any(|job| job.mix.is_destructive()) {
            self.may_write()?;
        }
        if let Some(interval_ns) = self.options.interval_ns
            && let Some(job) = jobs().find(|job| !parts_ns(job).all(|part_ns| part_ns.is_multiple_of(interval_ns)))
        {
            bail!(
                "job {:?}: steadystate_check_interval: not a multiple of --interval ({} ms): leave out --interval, or choose one \
                 that goes into it",
                job.name,
                interval_ns as f64 / 1e6
            );
        }
        self.check_jobs(jobs())
    }

    fn check_jobs<'a>(&self, mut jobs: impl Iterator<Item = &'a Job>) -> Result<()> {
        match &self.target {
            Measured::Virtual(target) => jobs.try_for_each(|job| target.check(job)),
            Measured::Real(target) => target.check(jobs),
        }
    }

    /// Like [`Session::check`], for the base settings of experiments, which decide on writing themselves.
    ///
    /// # Errors
    /// What does not fit.
    pub fn check_base(&self, base: &Job) -> Result<()> {
        let base = Job { mix: Mix::only(OpKind::Read), ..base.clone() };
        self.check_jobs(std::iter::once(&base))
    }

    /// Size of the target in bytes.
    ///
    /// # Errors
    /// The target cannot be opened.
    pub fn target_bytes(&self) -> Result<u64> {
        match &self.target {
            Measured::Virtual(target) => Ok(target.size_bytes()),
            Measured::Real(target) => target.size_bytes(),
        }
    }

    /// Size of the target and its logical block, both in bytes.
    ///
    /// # Errors
    /// The target cannot be opened.
    pub fn shape(&self) -> Result<(u64, u32)> {
        match &self.target {
            Measured::Virtual(target) => Ok((target.size_bytes(), 512)),
            Measured::Real(target) => target.shape(),
        }
    }

    /// The hint book of the target; none where it is not a pool in this process.
    pub fn hint_book(&self) -> Option<&Arc<HintBook>> {
        match &self.target {
            Measured::Virtual(target) => target.hint_book(),
            Measured::Real(target) => target.hint_book(),
        }
    }

    /// Notes about settings of a job that have no effect on this target.
    pub fn idle_settings(&self, job: &Job) -> Vec<String> {
        let name = &job.name;
        let evidence = (job.evidence != Evidence::None && self.hint_book().is_none()).then(|| {
            format!(
                "job {name:?}: evidence = {:?} reaches pool: targets alone; this one gets kinds, places and sizes",
                job.evidence.name()
            )
        });
        let (has_files, passes_dsync) = match &self.target {
            Measured::Virtual(_) => (false, false),
            Measured::Real(target) => (target.is_of_files(), target.takes_dsync()),
        };
        let writes = job.mix.kinds().any(|kind| matches!(kind, OpKind::Write | OpKind::WriteFua));
        let Access { calls, buffered, dsync } = job.access;
        let of_files = "it is for files and block devices";
        let of_writes = "it writes nothing";
        let idle = [
            ("calls = ring-polled", calls == Calls::RingPolled && !has_files, of_files),
            ("calls = sync-hipri", calls == Calls::Sync { high_priority: true } && !has_files, of_files),
            ("buffered", buffered && !has_files, of_files),
            ("dsync", dsync && !passes_dsync, of_files),
            ("dsync", dsync && passes_dsync && !writes, of_writes),
            ("compressible", job.data.compressible_percent > 0 && !writes, of_writes),
            ("duplicates", job.data.duplicate_percent > 0 && !writes, of_writes),
        ];
        let idle = idle.into_iter().filter(|(_, is_idle, _)| *is_idle);
        let idle = idle.map(|(key, _, why)| format!("job {name:?}: {key} has no effect: {why}"));
        evidence.into_iter().chain(idle).collect()
    }

    /// The flag that the user's interrupt sets.
    pub fn stop(&self) -> &Arc<AtomicBool> {
        &self.stop
    }

    /// Whether the user has interrupted.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Runs the groups of a plan one after the other; ends early where the user interrupts.
    ///
    /// # Errors
    /// A group could not be started.
    pub fn run(&self, plan: &Plan, prefix: &str) -> Result<Vec<JobResult>> {
        self.run_groups(plan, None, prefix)
    }

    /// Runs a plan of one job whose I/Os come from a trace.
    ///
    /// # Errors
    /// The job could not be started.
    pub fn replay(&self, plan: &Plan, feed: &Feed) -> Result<Vec<JobResult>> {
        self.run_groups(plan, Some(feed), "")
    }

    fn run_groups(&self, plan: &Plan, replay: Option<&Feed>, prefix: &str) -> Result<Vec<JobResult>> {
        self.check(plan)?;
        let mut spill = self.options.records.as_deref().map(|path| self.spill(path, plan)).transpose()?;
        let mut results = Vec::new();
        let mut first = 0;
        for group in &plan.groups {
            if self.is_stopped() {
                break;
            }
            results.extend(self.run_group(group, first, spill.as_mut(), replay, prefix)?);
            first += group.len() as u32;
        }
        if let Some(report) = spill.map(|spill| spill.finish(SPILL_TIMEOUT)) {
            if let Some(failure) = &report.failure {
                let missing = output::count(report.missing(), "record");
                _ = self.unwritten.set(format!("{missing} missing in the file of records: {failure}"));
            }
            // The figures cannot be assigned to a job; the last result carries them.
            if let Some(last) = results.last_mut() {
                last.records_dropped = last.records_dropped.saturating_add(report.lost);
            }
        }
        Ok(results)
    }

    fn run_group(
        &self,
        jobs: &[Job],
        first: u32,
        mut spill: Option<&mut Spill>,
        replay: Option<&Feed>,
        prefix: &str,
    ) -> Result<Vec<JobResult>> {
        let mut recorders = Vec::new();
        for (number, job) in (first..).zip(jobs) {
            let of_job = match &mut spill {
                Some(spill) => {
                    (0..job.threads).map(|thread| spill.recorder(number, thread)).collect::<Result<_, _>>()?
                }
                None => Vec::new(),
            };
            recorders.push(of_job);
        }
        let feeds: Vec<Option<Feed>> = match replay {
            Some(feed) => jobs.iter().map(|_| Some(feed.clone())).collect(),
            None => {
                jobs.iter().map(|job| generated::feed(job, || self.shape(), self.hint_book())).collect::<Result<_>>()?
            }
        };
        let results = self.run_fed(jobs, recorders, &feeds, prefix);
        if let Some(book) = self.hint_book() {
            book.clear();
        }
        // The caller closes a recorded trace and reports on it.
        if replay.is_none() {
            feeds.iter().flatten().try_for_each(Feed::close)?;
        }
        results
    }

    fn run_fed(
        &self,
        jobs: &[Job],
        recorders: Vec<Vec<Recorder>>,
        feeds: &[Option<Feed>],
        prefix: &str,
    ) -> Result<Vec<JobResult>> {
        let target = match &self.target {
            Measured::Virtual(target) => {
                let mut show = |progress: &_| self.live.show(prefix, progress);
                return target.run(jobs, recorders, feeds, &self.settings(jobs), &self.stop, &mut show);
            }
            Measured::Real(target) => target,
        };
        if let Some(size_bytes) = self.null_bytes {
            let open = |job: &Job| null_queues(job, size_bytes);
            return self.run_on(jobs, recorders, feeds, open, prefix);
        }
        self.run_on(jobs, recorders, feeds, |job| self.open_on(target, job), prefix)
    }

    fn open_on(&self, target: &MeasureTarget, job: &Job) -> Result<Opened<Box<dyn Queue>>> {
        let opened = target.open(job, self.options.destroy_data);
        opened.with_context(|| format!("job {:?} cannot begin on {}", job.name, self.name))
    }

    /// Opens the target in real time, for a job that runs on other targets at the same time.
    ///
    /// # Errors
    /// The target cannot be opened, or it is in virtual time.
    pub fn open_beside(&self, job: &Job) -> Result<Opened<Box<dyn Queue>>> {
        match &self.target {
            Measured::Real(target) => Ok(named(self.open_on(target, job)?, &self.name)),
            Measured::Virtual(_) => bail!("{} is in virtual time", self.name),
        }
    }

    /// Opens the target in virtual time, for a job that runs on other targets at the same time.
    ///
    /// # Errors
    /// The target cannot be opened, or it is in real time.
    pub fn open_in_virtual_time(&self, job: &Job) -> Result<Opened<Box<dyn VirtualQueue>>> {
        match &self.target {
            Measured::Virtual(target) => Ok(named(target.opened(job)?, &self.name)),
            Measured::Real(_) => bail!("{} is in real time", self.name),
        }
    }

    /// Runs concurrent jobs whose start a coordinator decides by `clock`, and passes all figures to it.
    ///
    /// # Errors
    /// The jobs could not be started, or the target is in virtual time.
    pub fn run_coordinated(
        &self,
        jobs: &[Job],
        clock: &TscClock,
        coordinator: &mut dyn Coordinator,
    ) -> Result<Vec<JobResult>> {
        let assigned = jobs.iter().map(|job| {
            let opened = self.open_beside(job)?;
            Ok(Assignment { job: job.clone(), opened, recorders: Vec::new(), replay: None })
        });
        let assigned = assigned.collect::<Result<_>>()?;
        Ok(run_coordinated(assigned, clock, &self.settings(jobs), &self.stop, coordinator)?)
    }

    /// The clock for real time.
    pub fn clock(&self) -> &TscClock {
        &self.clock
    }

    /// The live line.
    pub fn live(&self) -> &Live {
        &self.live
    }

    fn run_on<Q: Queue + 'static>(
        &self,
        jobs: &[Job],
        recorders: Vec<Vec<Recorder>>,
        feeds: &[Option<Feed>],
        open: impl Fn(&Job) -> Result<Opened<Q>>,
        prefix: &str,
    ) -> Result<Vec<JobResult>> {
        let mut assignments = Vec::new();
        for ((job, recorders), feed) in jobs.iter().zip(recorders).zip(feeds) {
            assignments.push(Assignment { job: job.clone(), opened: open(job)?, recorders, replay: feed.clone() });
        }
        let mut show = |progress: &_| self.live.show(prefix, progress);
        Ok(run(assignments, &self.clock, &self.settings(jobs), &self.stop, &mut show)?)
    }

    /// Whether and how requests in the block layer are measured.
    fn block_layer(&self, jobs: &[Job]) -> BlockLayer {
        match jobs {
            _ if !self.options.block_layer => BlockLayer::Unasked,
            [_] => BlockLayer::Of(self.name.clone()),
            // The probes see the whole process and cannot assign a request to a job.
            _ => BlockLayer::Not("several jobs run at once"),
        }
    }

    /// Measurement settings of concurrent jobs.
    pub fn settings(&self, jobs: &[Job]) -> Settings {
        let interval_ns = self.options.interval_ns.unwrap_or_else(|| interval_of_jobs(jobs));
        let machine = (!self.is_virtual()).then(|| machine::watch(&[&self.name], self.block_layer(jobs)));
        Settings { interval_ns, machine, maps: self.maps.clone(), watch: self.watch.clone(), ..Settings::default() }
    }

    /// Opens the file of records. Its times use this session's clock.
    fn spill(&self, path: &Path, plan: &Plan) -> Result<Spill> {
        let jobs: Vec<&Job> = plan.groups.iter().flatten().collect();
        let threads = jobs.iter().map(|job| job.threads).sum();
        let metadata = serde_json::json!({
            "target": self.name,
            "command": command(),
            "jobs": jobs.iter().map(|job| asked(job)).collect::<Vec<_>>(),
        });
        let mut run_id = [0; 16];
        getrandom::fill(&mut run_id).context("the system gives no random numbers")?;
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock stands before 1970")?;
        let header = Header {
            run_id,
            begin_unix_ns: since_epoch.as_nanos() as u64 - self.clock.now_ns(),
            jobs: jobs.iter().map(|job| job.name.clone()).collect(),
            metadata: metadata.to_string(),
        };
        Ok(Spill::create(path, &header, SpillOptions::within_budget(threads, SPILL_BUDGET_BYTES))?)
    }

    /// Checks whether the target may be written to.
    ///
    /// # Errors
    /// Why it may not.
    pub fn may_write(&self) -> Result<()> {
        match &self.target {
            // A virtual target holds no data that could be lost.
            Measured::Virtual(_) => Ok(()),
            Measured::Real(target) => target.may_write(self.options.destroy_data),
        }
    }

    /// Present counters of the modelled drives below the target, where there are any.
    pub fn wear(&self) -> Option<Wear> {
        match &self.target {
            Measured::Virtual(target) => Some(target.wear()),
            Measured::Real(_) => None,
        }
    }

    /// Counters of the drive below the target, where the target has a path.
    pub fn counters(&self) -> Option<Counters> {
        let target: Target = self.name.parse().ok()?;
        target.path().map(Counters::read)
    }

    /// The tool's own cost for the jobs of results, in nanoseconds per I/O. Measured once for equal settings, and not after the user's
    /// interrupt. Must be called last before results are shown.
    pub fn own_costs_ns<'a>(&self, results: impl IntoIterator<Item = &'a JobResult>) -> Vec<Option<f64>> {
        let mut known: Vec<(Job, u64, Option<f64>)> = Vec::new();
        let mut costs = Vec::new();
        for result in results {
            let (job, bytes) = (essence(&result.job), result.target_bytes);
            let found = known.iter().find(|(found, of_bytes, _)| *found == job && *of_bytes == bytes);
            let cost = match found {
                Some(&(_, _, cost)) => cost,
                None if self.is_stopped() => None,
                None => {
                    self.live.step("measuring the tool itself");
                    let is_recorded = self.options.records.is_some();
                    let cost = own_cost_ns(&job, bytes, is_recorded).ok().filter(|&ns| ns > 0.0);
                    known.push((job, bytes, cost));
                    cost
                }
            };
            costs.push(cost);
        }
        self.live.clear();
        costs
    }

    /// Closes the session, after its results were shown.
    ///
    /// # Errors
    /// A pool cannot be stopped cleanly; a finding where the file of records could not be written.
    pub fn close(self) -> Result<()> {
        match self.target {
            Measured::Virtual(target) => target.close(),
            Measured::Real(target) => target.close(),
        }?;
        self.unwritten.into_inner().map_or(Ok(()), |what| Err(finding(what)))
    }
}

impl Driver for Session {
    fn run(&mut self, step: &str, jobs: &[Job]) -> Result<Vec<JobResult>, DriverError> {
        self.live.step(step);
        self.run_group(jobs, 0, None, None, &format!("{step}: ")).map_err(|error| DriverError(output::chain(&error)))
    }

    fn run_watched(&mut self, step: &str, job: &Job, watch: Watch) -> Result<Vec<JobResult>, DriverError> {
        self.watch = watch;
        let results = self.run(step, std::slice::from_ref(job));
        self.watch = Watch::default();
        results
    }

    fn size_bytes(&mut self) -> Result<u64, DriverError> {
        self.target_bytes().map_err(|error| DriverError(output::chain(&error)))
    }

    fn is_stopped(&self) -> bool {
        Session::is_stopped(self)
    }
}
