//! A modelled drive under one host profile after the other.

use super::interval::interval_of;
use super::live::Live;
use super::virtual_target::VirtualTarget;
use anyhow::{Context, Result};
use forebay_bench::job::model::Job;
use forebay_bench::run::{JobResult, Settings};
use forebay_block::VirtualClock;
use forebay_device::{ModelUri, Target};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A separate drive for each host, in virtual time.
pub struct ModelledHosts {
    uri: ModelUri,
    drives: BTreeMap<String, VirtualTarget>,
    stop: Arc<AtomicBool>,
    live: Live,
}

impl ModelledHosts {
    /// For a `model:` target; none for other targets.
    ///
    /// # Errors
    /// The handler for Ctrl-C cannot be installed.
    pub fn new(target: &str) -> Result<Option<Self>> {
        let Ok(Target::Model(uri)) = target.parse() else { return Ok(None) };
        let stop = Arc::new(AtomicBool::new(false));
        super::signals::watch(&stop)?;
        Ok(Some(Self { uri, drives: BTreeMap::new(), stop, live: Live::new() }))
    }

    /// The drive's URI as the user wrote it.
    pub fn uri(&self) -> &ModelUri {
        &self.uri
    }

    /// Whether the user has interrupted the run.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Runs a job under a host.
    ///
    /// # Errors
    /// The drive or host does not exist, or the job cannot run.
    pub fn run(&mut self, host: &str, job: &Job, step: &str) -> Result<JobResult> {
        self.live.step(step);
        let interval_ns = interval_of(job.end.after_ns);
        if !self.drives.contains_key(host) {
            let uri = ModelUri { host: Some(host.to_owned()), ..self.uri.clone() };
            let drive = VirtualTarget::open(&uri.to_string(), interval_ns, &VirtualClock::default())?
                .context("no modelled drive")?;
            self.drives.insert(host.to_owned(), drive);
        }
        let drive = self.drives.get(host).context("the drive was just made")?;
        let settings = Settings { interval_ns, ..Settings::default() };
        let jobs = std::slice::from_ref(job);
        let mut show = |progress: &_| self.live.show(step, progress);
        let mut results = drive.run(jobs, vec![Vec::new()], &[None], &settings, &self.stop, &mut show)?;
        results.pop().context("the job gave no result")
    }
}
