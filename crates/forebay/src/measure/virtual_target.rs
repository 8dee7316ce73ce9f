//! Targets in virtual time: a modelled drive, or a pool over modelled drives.

use super::hint_book::HintBook;
use super::virtual_pool::VirtualPool;
use super::wear::{DriveState, Role, Wear};
use anyhow::{Result, bail};
use forebay_bench::job::check_fit;
use forebay_bench::job::model::Job;
use forebay_bench::replay::Feed;
use forebay_bench::run::{Assignment, JobResult, Opened, Progress, Settings, TargetFacts, run_virtual};
use forebay_bench::telemetry::Recorder;
use forebay_block::{VirtualClock, VirtualQueue};
use forebay_device::Target;
use forebay_device::queue::ModelSource;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Seed of modelled drives, such as of their refresh.
const MODEL_SEED: u64 = 1;

/// Queues of one kind as queues of any, so that different kinds run in one world.
fn boxed<Q: VirtualQueue + 'static>(queues: Vec<Q>) -> Vec<Box<dyn VirtualQueue>> {
    queues.into_iter().map(|queue| -> Box<dyn VirtualQueue> { Box::new(queue) }).collect()
}

/// A target in virtual time.
pub enum VirtualTarget {
    /// `model:`
    Drive(Box<ModelSource>),
    /// `pool:` over `model:` tiers.
    Pool(Box<VirtualPool>),
}

impl VirtualTarget {
    /// Builds the target of a name on `clock`; `None` where it is in real time or the name is unknown. A pool's writes are recorded once
    /// per interval.
    ///
    /// # Errors
    /// What could not be built, and why.
    pub fn open(name: &str, interval_ns: u64, clock: &VirtualClock) -> Result<Option<Self>> {
        if let Some(config) = name.strip_prefix("pool:") {
            return Ok(
                VirtualPool::open(config, MODEL_SEED, interval_ns, clock)?.map(|pool| Self::Pool(Box::new(pool)))
            );
        }
        match name.parse() {
            Ok(Target::Model(uri)) => Ok(Some(Self::Drive(Box::new(ModelSource::new(&uri, MODEL_SEED, clock)?)))),
            // Opening it in real time reports what is wrong with the name.
            _ => Ok(None),
        }
    }

    /// Size in bytes.
    pub fn size_bytes(&self) -> u64 {
        match self {
            Self::Drive(drive) => drive.size_bytes(),
            Self::Pool(pool) => pool.size_bytes(),
        }
    }

    /// Present counters of its drives.
    pub fn wear(&self) -> Wear {
        match self {
            Self::Drive(drive) => {
                let state = DriveState {
                    role: Role::Alone,
                    name: drive.name(),
                    life: drive.life(),
                    counters: drive.counters(),
                };
                Wear { drives: vec![state], pool: None }
            }
            Self::Pool(pool) => pool.wear(),
        }
    }

    /// The hint book, where the target is a pool.
    pub fn hint_book(&self) -> Option<&Arc<HintBook>> {
        match self {
            Self::Drive(_) => None,
            Self::Pool(pool) => Some(pool.hint_book()),
        }
    }

    /// The clock of the target's world.
    fn clock(&self) -> &VirtualClock {
        match self {
            Self::Drive(drive) => drive.clock(),
            Self::Pool(pool) => pool.clock(),
        }
    }

    /// Checks that a job can run, before any does.
    ///
    /// # Errors
    /// What the target does not support, or has no room for.
    pub fn check(&self, job: &Job) -> Result<()> {
        if job.verify && matches!(self, Self::Drive(_)) {
            bail!(
                "job {:?}: a model keeps no data that could be verified: leave out verify, or take emulated:, or a pool over models",
                job.name
            );
        }
        Ok(check_fit(job, self.size_bytes(), 512, 512)?)
    }

    /// Opens the target for a job.
    ///
    /// # Errors
    /// What the target does not support.
    pub fn opened(&self, job: &Job) -> Result<Opened<Box<dyn VirtualQueue>>> {
        self.check(job)?;
        let bytes = (job.max_io_bytes() as usize).max(512);
        match self {
            Self::Drive(drive) => {
                let queues = drive.queues(job.threads, job.depth, bytes)?;
                Ok(Opened { queues: boxed(queues), facts: facts(drive.size_bytes(), &drive.description(), &[]) })
            }
            Self::Pool(pool) => {
                let queues = pool.queues(job.threads, job.depth, bytes)?;
                Ok(Opened { queues: boxed(queues), facts: facts(pool.size_bytes(), pool.description(), pool.notes()) })
            }
        }
    }

    /// Runs concurrent jobs, each with its recorders; a replaying job takes its I/Os from the feed.
    ///
    /// # Errors
    /// A job could not be started.
    pub fn run(
        &self,
        jobs: &[Job],
        recorders: Vec<Vec<Recorder>>,
        feeds: &[Option<Feed>],
        settings: &Settings,
        stop: &Arc<AtomicBool>,
        observer: &mut dyn FnMut(&Progress),
    ) -> Result<Vec<JobResult>> {
        let mut assignments = Vec::new();
        for ((job, recorders), feed) in jobs.iter().zip(recorders).zip(feeds) {
            assignments.push(Assignment {
                job: job.clone(),
                opened: self.opened(job)?,
                recorders,
                replay: feed.clone(),
            });
        }
        Ok(run_virtual(assignments, self.clock(), settings, stop, observer)?)
    }

    /// Closes the target; a pool is stopped cleanly.
    ///
    /// # Errors
    /// A pool cannot be stopped cleanly.
    pub fn close(&self) -> Result<()> {
        match self {
            Self::Drive(_) => Ok(()),
            Self::Pool(pool) => pool.close(),
        }
    }
}

fn facts(size_bytes: u64, description: &str, notes: &[String]) -> TargetFacts {
    let (description, notes) = (description.to_owned(), notes.to_vec());
    TargetFacts { size_bytes, logical_block_bytes: 512, description, notes, ..TargetFacts::default() }
}
