//! Runs the jobs of a plan on several targets at the same time.

use super::generated;
use super::generated_plan::prepare;
use super::machine::{self, BlockLayer};
use super::session::{Session, SessionOptions};
use anyhow::{Context, Result, bail};
use forebay_bench::job::model::{Job, Plan};
use forebay_bench::replay::Feed;
use forebay_bench::run::{Assignment, JobResult, Settings, run, run_virtual};
use forebay_block::VirtualClock;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

/// Maximum number of targets of a run.
const TARGETS_MAX: usize = 64;

/// Targets on which all jobs run at the same time.
pub struct Abreast {
    sessions: Vec<Session>,
    /// Common clock of all targets, where they are in virtual time.
    clock: VirtualClock,
}

/// Results of a job.
pub struct OfJob {
    /// Results on each target, in target order.
    pub on_each: Vec<JobResult>,
    /// Combined result of all targets.
    pub together: JobResult,
}

impl Abreast {
    /// Opens the targets.
    ///
    /// # Errors
    /// A target cannot be opened or occurs twice, or real and virtual time are mixed.
    pub fn new(names: &[String], options: &SessionOptions) -> Result<Self> {
        if names.len() > TARGETS_MAX {
            bail!("{} targets: at most {TARGETS_MAX} at once", names.len());
        }
        let mut seen: Vec<(u64, u64)> = Vec::new();
        for name in names {
            // Every memory or modelled drive is separate; a file or device is the same one under any name.
            let Ok(metadata) = std::fs::metadata(name) else { continue };
            let is_device = metadata.file_type().is_block_device();
            let what = if is_device { (metadata.rdev(), 0) } else { (metadata.dev(), metadata.ino()) };
            if seen.contains(&what) {
                bail!("--target {name}: it is there twice; more load on one target is `threads` or another job");
            }
            seen.push(what);
        }
        let clock = VirtualClock::default();
        let open = |name: &String| Session::beside(name, options.clone(), &clock).with_context(|| name.clone());
        let sessions: Vec<Session> = names.iter().map(open).collect::<Result<_>>()?;
        let in_virtual_time: Vec<bool> = sessions.iter().map(Session::is_virtual).collect();
        if let (Some(modelled), Some(real)) =
            (in_virtual_time.iter().position(|&is| is), in_virtual_time.iter().position(|&is| !is))
        {
            bail!(
                "--target {} is measured in virtual time and {} in real time: they have no second in common; emulated: is a model \
                 in real time",
                names[modelled],
                names[real]
            );
        }
        Ok(Self { sessions, clock })
    }

    /// The sessions, one for each target in order.
    pub fn sessions(&self) -> &[Session] {
        &self.sessions
    }

    /// The session for what is common to all targets.
    fn first(&self) -> &Session {
        &self.sessions[0]
    }

    /// Fits the generators of a plan to all targets: the smallest target decides.
    ///
    /// # Errors
    /// As for one target; also where the targets' block sizes differ.
    pub fn prepare(&self, plan: &mut Plan) -> Result<()> {
        let shapes: Vec<(u64, u32)> = self.sessions.iter().map(Session::shape).collect::<Result<_>>()?;
        let has_feed = plan.groups.iter().flatten().any(|job| job.pattern.is_fed());
        if has_feed && shapes.iter().any(|shape| shape.1 != shapes[0].1) {
            bail!(
                "a generator's I/Os fit targets with logical blocks of one size; these have {shapes:?} (bytes, block)"
            );
        }
        let smallest = self.sessions.iter().zip(&shapes).min_by_key(|(_, shape)| shape.0);
        smallest.map_or(Ok(()), |(session, _)| prepare(session, plan))
    }

    /// Checks that a plan can run on each target.
    ///
    /// # Errors
    /// The first target that must not be written to or that a job does not fit.
    pub fn check(&self, plan: &Plan) -> Result<()> {
        self.sessions.iter().try_for_each(|session| session.check(plan).with_context(|| session.name().to_owned()))
    }

    /// Runs the groups of a plan one after the other; ends early where the user interrupts.
    ///
    /// # Errors
    /// A group could not be started.
    pub fn run(&self, plan: &Plan) -> Result<Vec<OfJob>> {
        let mut found = Vec::new();
        for group in &plan.groups {
            if self.first().is_stopped() {
                break;
            }
            found.extend(self.run_group(group)?);
        }
        Ok(found)
    }

    fn run_group(&self, jobs: &[Job]) -> Result<Vec<OfJob>> {
        let pairs = || jobs.iter().flat_map(|job| self.sessions.iter().map(move |session| (job, session)));
        let feed = |(job, session): (&Job, &Session)| generated::feed(job, || session.shape(), session.hint_book());
        let feeds: Vec<Option<Feed>> = pairs().map(feed).collect::<Result<_>>()?;
        let names: Vec<&str> = self.sessions.iter().map(Session::name).collect();
        let machine = (!self.first().is_virtual()).then(|| machine::watch(&names, BlockLayer::Unasked));
        let settings = Settings { targets: self.sessions.len(), machine, ..self.first().settings(jobs) };
        let stop = self.first().stop();
        let mut show = |progress: &_| self.first().live().show("", progress);
        let fed = || pairs().zip(feeds.iter().cloned());
        let results = if self.first().is_virtual() {
            let assigned = fed().map(|((job, session), replay)| {
                let opened = session.open_in_virtual_time(job)?;
                Ok(Assignment { job: job.clone(), opened, recorders: Vec::new(), replay })
            });
            run_virtual(assigned.collect::<Result<_>>()?, &self.clock, &settings, stop, &mut show)?
        } else {
            let assigned = fed().map(|((job, session), replay)| {
                let opened = session.open_beside(job)?;
                Ok(Assignment { job: job.clone(), opened, recorders: Vec::new(), replay })
            });
            run(assigned.collect::<Result<_>>()?, self.first().clock(), &settings, stop, &mut show)?
        };
        self.sessions.iter().filter_map(Session::hint_book).for_each(|book| book.clear());
        feeds.iter().flatten().try_for_each(Feed::close)?;
        Ok(by_job(results, self.sessions.len()))
    }

    /// Closes all sessions.
    ///
    /// # Errors
    /// A pool cannot be stopped cleanly.
    pub fn close(self) -> Result<()> {
        self.sessions.into_iter().try_for_each(Session::close)
    }
}

/// Groups results by job: those of its targets, followed by the combined one.
pub fn by_job(results: Vec<JobResult>, targets: usize) -> Vec<OfJob> {
    let mut results = results.into_iter();
    let next = || {
        let on_each: Vec<JobResult> = results.by_ref().take(targets).collect();
        Some(OfJob { on_each, together: results.next()? })
    };
    std::iter::from_fn(next).collect()
}
