//! Jobs that run at once, each on one target or on several. The figures of their workers, on this host or on others, are added up for each
//! target, and for all targets of a job together.

use super::collect::Collector;
use super::facts::TargetFacts;
use super::ledger::WorkerEnd;
use super::machine::MachineUse;
use super::progress::Progress;
use super::result::{AllRan, JobResult};
use super::share::Share;
use super::together::Together;
use super::warnings;
use super::watch::{Watch, Watched};
use super::window::Window;
use crate::job::model::Job;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A job in progress on one target.
struct Running {
    name: String,
    collector: Collector,
    facts: TargetFacts,
    window: Window,
    watched: Watched,
    /// Workers that have not ended.
    left: u32,
    machine: Option<MachineUse>,
}

/// Jobs that run at once.
pub(super) struct Jobs {
    running: Vec<Running>,
    /// For each worker, the index of its job and its own index within the job.
    of_worker: Vec<(usize, usize)>,
    /// Number of targets of each job: this many consecutive entries of `running` are one job.
    targets: usize,
    /// The joint figures of each job, if jobs have several targets.
    together: Vec<Together>,
    /// Length of an interval in nanoseconds.
    interval_ns: u64,
}

impl Jobs {
    /// Makes an empty set of jobs, each with this number of targets.
    pub fn new(targets: usize, interval_ns: u64) -> Self {
        let targets = targets.max(1);
        Self { running: Vec::new(), of_worker: Vec::new(), targets, together: Vec::new(), interval_ns }
    }

    /// Index, among the targets of its job, of the target that joins next.
    pub fn next_target(&self) -> usize {
        self.running.len() % self.targets
    }

    /// Adds a job, or the next target of the newest job, with a worker for each of its threads. Returns the flag that ends these workers.
    pub fn join(&mut self, job: &Job, facts: TargetFacts, window: Window, watch: &Watch) -> Arc<AtomicBool> {
        let watched = self.watched(job, &facts, window, watch);
        let enough = watched.flag();
        let number = self.running.len();
        self.of_worker.extend((0..job.threads as usize).map(|thread| (number, thread)));
        let collector = Collector::new(job.clone(), window, self.interval_ns);
        self.running.push(Running {
            name: job.name.clone(),
            collector,
            facts,
            window,
            watched,
            left: job.threads,
            machine: None,
        });
        enough
    }

    /// How the next job is watched. A job on several targets is watched by its joint figures.
    fn watched(&mut self, job: &Job, facts: &TargetFacts, window: Window, watch: &Watch) -> Watched {
        if self.targets == 1 {
            return Watched::new(watch.clone(), job.steady);
        }
        if self.next_target() == 0 {
            self.together.push(Together::new(job, self.targets, window, self.interval_ns));
        }
        self.together.last_mut().map_or_else(|| Watched::new(Watch::default(), None), |together| together.join(facts))
    }

    /// Facts about the targets.
    pub fn facts(&self) -> Vec<&TargetFacts> {
        self.running.iter().map(|running| &running.facts).collect()
    }

    /// Sets the beginning of the run.
    pub fn begin_at(&mut self, start_ns: u64) {
        for running in &mut self.running {
            running.window = running.window.later(start_ns);
            running.collector.begin(running.window);
        }
        for (together, first) in self.together.iter_mut().zip(self.running.chunks(self.targets)) {
            together.begin(first[0].window);
        }
    }

    /// The window of each job.
    pub fn windows(&self) -> Vec<Window> {
        self.running.iter().map(|running| running.window).collect()
    }

    /// Sets what the machine did while job number `job` was measured.
    pub fn add_machine(&mut self, job: usize, machine: MachineUse) {
        self.running[job].machine = Some(machine);
    }

    /// The window of a worker's job.
    pub fn window(&self, worker: usize) -> Window {
        self.running[self.of_worker[worker].0].window
    }

    /// Adds a worker's share.
    pub fn add(&mut self, share: &Share) {
        let (job, number) = self.of_worker[share.worker];
        let running = &mut self.running[job];
        running.collector.add(number, share);
        running.watched.look(&running.collector, &running.facts);
        if let Some(together) = self.together.get_mut(job / self.targets) {
            together.add(job % self.targets, number, share);
        }
    }

    /// Adds the end of a worker; returns the index of its job if this was the job's last worker.
    pub fn end(&mut self, end: WorkerEnd) -> Option<usize> {
        let (job, number) = self.of_worker[end.worker];
        if let Some(together) = self.together.get_mut(job / self.targets) {
            together.end(job % self.targets, number, end.clone());
        }
        self.running[job].collector.end(number, end);
        self.running[job].left -= 1;
        (self.running[job].left == 0).then_some(job)
    }

    /// Notes that no job will get figures from target number `target` any more.
    pub fn lose(&mut self, target: usize) {
        for (number, running) in
            self.running.iter_mut().enumerate().filter(|(number, _)| number % self.targets == target)
        {
            running.collector.lose(0..usize::MAX);
            if let Some(together) = self.together.get_mut(number / self.targets) {
                together.lose(target);
            }
        }
    }

    /// Progress of the run at `now_ns`.
    pub fn progress(&self, start_ns: u64, now_ns: u64) -> Progress {
        let end = self.running.iter().map(|job| job.window.stop_ns).max().filter(|&end| end != u64::MAX);
        let name = |job: &Running| match &job.facts.name {
            Some(target) => format!("{} on {target}", job.name),
            None => job.name.clone(),
        };
        let of = |job: &Running| (name(job), job.collector.last_row().copied(), job.collector.failures());
        Progress {
            elapsed_s: now_ns.saturating_sub(start_ns) as f64 / 1e9,
            total_s: end.map(|end| (end - start_ns) as f64 / 1e9),
            jobs: self.running.iter().map(of).collect(),
        }
    }

    /// The results of each job: one for each target, followed by the joint one if there are several targets.
    pub fn results(self) -> Vec<JobResult> {
        let finish = |mut running: Running| {
            if running.watched.has_ended_it() {
                running.collector.ended_by_watch();
            }
            let mut result = running.collector.finish(running.facts);
            result.machine = running.machine;
            result.steady = running.watched.steady_state(&result);
            result.notes.extend(warnings::afterwards(&result));
            result
        };
        if self.together.is_empty() {
            return self.running.into_iter().map(finish).collect();
        }
        let (mut jobs, mut results) = (self.running.into_iter().map(finish), Vec::new());
        for together in self.together {
            let on_each: Vec<JobResult> = jobs.by_ref().take(self.targets).collect();
            let mut all = together.finish();
            all.all_ran = AllRan::of(&on_each, &all);
            results.extend(on_each);
            results.push(all);
        }
        results
    }
}
