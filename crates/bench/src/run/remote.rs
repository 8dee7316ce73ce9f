//! The jobs of a run that other hosts make. The messages of their workers arrive as [`Figures`] and are added up like those of this
//! process; each host is a target. Figures are accepted only if a worker could have reported them at that time: a host that lies can spoil
//! its own figures, and nothing else.

use super::facts::TargetFacts;
use super::failures::KEPT_MAX;
use super::figures::{EndFigures, Figures, ShareFigures};
use super::jobs::Jobs;
use super::progress::Progress;
use super::result::{Backlog, JobResult};
use super::share::FINE_NS;
use super::watch::Watch;
use super::window::Window;
use crate::job::model::Job;
use crate::job::validate::{MAX_IN_FLIGHT, MAX_IO_BYTES};
use forebay_block::OpKind;

/// Most I/Os of one host in one run: more than any host makes in a year.
const IOS_MAX: u64 = 1 << 48;
/// Most bytes of one host in one run.
const BYTES_MAX: u64 = 1 << 56;
/// How far a host's clock may be ahead of our estimate, in nanoseconds, since clocks drift.
const SLACK_NS: u64 = 1_000_000_000;

/// Why no more figures are accepted from a host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it says what no worker could: {0}")]
pub struct Refused(&'static str);

/// A worker on another host.
#[derive(Clone, Debug)]
struct Remote {
    job: usize,
    /// The first interval that it may still report.
    next: u64,
    said_last: bool,
    ended: bool,
}

/// A host.
#[derive(Clone, Debug)]
struct Host {
    workers: Vec<Remote>,
    ios: u64,
    bytes: u64,
    lost: bool,
}

/// Jobs that run at the same time on several hosts.
pub struct RemoteRun {
    jobs: Jobs,
    of_jobs: Vec<Job>,
    hosts: Vec<Host>,
    /// For each job, the index of its first worker on the first host.
    first_worker: Vec<usize>,
    interval_ns: u64,
    start_ns: u64,
}

impl RemoteRun {
    /// `facts` has a list for each host, with the target facts of each job. The load begins at `start_ns`.
    #[must_use]
    pub fn new(of_jobs: &[Job], facts: &[Vec<TargetFacts>], interval_ns: u64, start_ns: u64) -> Self {
        let mut jobs = Jobs::new(facts.len(), interval_ns);
        let (mut first_worker, mut workers) = (Vec::new(), 0);
        for (number, job) in of_jobs.iter().enumerate() {
            first_worker.push(workers);
            workers += job.threads as usize * facts.len();
            for of_host in facts {
                let facts = of_host.get(number).cloned().unwrap_or_default();
                let window = Window::new(job.start_delay_ns, job.warmup_ns, job.end.after_ns, job.cooldown_ns);
                jobs.join(job, facts, window, &Watch::default());
            }
        }
        jobs.begin_at(start_ns);
        let remote = |(job, asked): (usize, &Job)| {
            vec![Remote { job, next: 0, said_last: false, ended: false }; asked.threads as usize]
        };
        let workers: Vec<Remote> = of_jobs.iter().enumerate().flat_map(remote).collect();
        let host = Host { workers, ios: 0, bytes: 0, lost: false };
        let hosts = vec![host; facts.len()];
        Self { jobs, of_jobs: of_jobs.to_vec(), hosts, first_worker, interval_ns: interval_ns.max(1), start_ns }
    }

    /// Adds the figures of a host's worker, received at `now_ns` of our clock.
    ///
    /// # Errors
    /// Figures that no worker could report; none of them are counted.
    pub fn take(&mut self, host: usize, figures: &Figures, now_ns: u64) -> Result<(), Refused> {
        let number = figures.worker();
        let remote = self.hosts[host].workers.get(number).ok_or(Refused("there is no such worker"))?;
        if remote.ended || self.hosts[host].lost {
            return Err(Refused("the worker has ended"));
        }
        let worker = self.worker(remote.job, number, host);
        let elapsed_ns = now_ns.saturating_sub(self.start_ns).saturating_add(SLACK_NS);
        match figures {
            Figures::Share(share) => self.take_share(host, worker, share, elapsed_ns),
            Figures::End(end) => self.take_end(host, worker, end, elapsed_ns),
        }
    }

    /// Index, among all workers of all hosts, of worker `number` of a host.
    fn worker(&self, job: usize, number: usize, host: usize) -> usize {
        let threads = |job: &Job| job.threads as usize;
        let before: usize = self.of_jobs[..job].iter().map(threads).sum();
        self.first_worker[job] + host * threads(&self.of_jobs[job]) + (number - before)
    }

    fn take_share(
        &mut self,
        host: usize,
        worker: usize,
        figures: &ShareFigures,
        elapsed_ns: u64,
    ) -> Result<(), Refused> {
        let of_host = &mut self.hosts[host];
        let remote = &mut of_host.workers[figures.worker];
        let job = &self.of_jobs[remote.job];
        let ensure = |holds: bool, what: &'static str| if holds { Ok(()) } else { Err(Refused(what)) };
        ensure(!remote.said_last, "figures behind its last ones")?;
        ensure(figures.interval >= remote.next, "an interval twice")?;
        let measured_ns = (elapsed_ns + self.start_ns).saturating_sub(self.jobs.window(worker).begin_ns);
        let now = measured_ns / self.interval_ns;
        ensure(figures.interval <= now, "an interval that has not begun")?;
        // `interval` is the first of several intervals if the coordinator of that host lagged.
        ensure((1..=now - figures.interval + 1).contains(&figures.span), "an interval longer than the run")?;
        ensure(figures.last_completion_ns <= elapsed_ns, "a completion in times to come")?;
        ensure(figures.fine.len() as u64 <= self.interval_ns.div_ceil(FINE_NS).max(1), "too many milliseconds")?;
        let share = figures.share(worker, self.start_ns).ok_or(Refused("a histogram that is none"))?;
        let found =
            || OpKind::ALL.into_iter().zip(&share.kinds).filter_map(|(kind, found)| Some((kind, found.as_ref()?)));
        ensure(found().all(|(kind, _)| job.mix.kinds().any(|asked| asked == kind)), "a kind that the job has not")?;
        let in_bounds = found().all(|(_, found)| {
            found.errors <= IOS_MAX
                && found.ios <= IOS_MAX
                && found.bytes <= found.ios.saturating_mul(MAX_IO_BYTES.into())
                && found.backlog.errors <= IOS_MAX
        });
        ensure(in_bounds, "too many I/Os or bytes")?;
        let (ios, bytes) =
            found().fold((0u64, 0u64), |(ios, bytes), (_, found)| (ios + found.ios, bytes.saturating_add(found.bytes)));
        let in_bounds = share
            .carried
            .ways()
            .into_iter()
            .all(|way| way.sum.ios <= IOS_MAX && way.sum.bytes <= way.sum.ios.saturating_mul(MAX_IO_BYTES.into()));
        ensure(in_bounds, "more of the warm-up than there can be")?;
        let carried = share.carried.all();
        // The backlog is a part of the warm-up's I/Os that ended.
        let backlog =
            |of: fn(&Backlog) -> u64| found().fold(0u64, |sum, (_, found)| sum.saturating_add(of(&found.backlog)));
        let in_bounds = backlog(|found| found.ios) <= carried.ios && backlog(|found| found.bytes) <= carried.bytes;
        ensure(in_bounds, "more of the warm-up than there can be")?;
        let of_fine = figures
            .fine
            .iter()
            .fold((0u64, 0u64), |(ios, bytes), fine| (ios + u64::from(fine.0), bytes.saturating_add(fine.1)));
        let (all_ios, all_bytes) = (ios + carried.ios, bytes.saturating_add(carried.bytes));
        ensure(of_fine.0 <= all_ios && of_fine.1 <= all_bytes, "more in milliseconds than in all")?;
        let levels = figures.depth_levels.iter().fold(0, |sum: u64, &level| sum.saturating_add(level));
        ensure(levels <= ios, "more depths than I/Os")?;
        let errors: u64 = found().map(|(_, found)| found.errors + found.backlog.errors).sum();
        let late = figures.late.saturating_add(figures.no_slot);
        let ios = of_host.ios.saturating_add(all_ios + errors).saturating_add(late);
        let bytes = of_host.bytes.saturating_add(all_bytes);
        ensure(ios <= IOS_MAX && bytes <= BYTES_MAX, "too many I/Os or bytes")?;
        (of_host.ios, of_host.bytes) = (ios, bytes);
        (remote.next, remote.said_last) = (figures.interval + 1, figures.is_last);
        self.jobs.add(&share);
        Ok(())
    }

    fn take_end(&mut self, host: usize, worker: usize, figures: &EndFigures, elapsed_ns: u64) -> Result<(), Refused> {
        let ensure = |holds: bool, what: &'static str| if holds { Ok(()) } else { Err(Refused(what)) };
        let remote = &mut self.hosts[host].workers[figures.worker];
        ensure(remote.said_last, "an end before its last figures")?;
        let judged: [u64; 4] = figures.judged.unwrap_or_default();
        let counts = [figures.failures, figures.mismatches, figures.scheduled, figures.issued, figures.backlog];
        let (voluntary, involuntary) = figures.switches.unwrap_or_default();
        let scheduled = [voluntary, involuntary, figures.migrations.unwrap_or(0)];
        ensure(scheduled.iter().all(|&count| count <= IOS_MAX), "too many context switches")?;
        ensure(counts.iter().chain(&judged).all(|&count| count <= IOS_MAX), "too many I/Os")?;
        ensure(u64::from(figures.hung) <= MAX_IN_FLIGHT, "too many I/Os in flight")?;
        ensure(figures.first.len() <= KEPT_MAX, "too many failures at once")?;
        ensure(figures.ended_ns <= elapsed_ns, "an end in times to come")?;
        let cpu_ns = figures.cpu_ns.0.saturating_add(figures.cpu_ns.1);
        ensure(cpu_ns <= elapsed_ns, "more processor time than there was")?;
        ensure(
            figures.waited_ns.is_none_or(|ns| ns <= elapsed_ns),
            "more waiting for a processor than there was time",
        )?;
        let end = figures.end(worker, self.start_ns).ok_or(Refused("a failure that is none"))?;
        remote.ended = true;
        self.jobs.end(end);
        Ok(())
    }

    /// Notes that nothing more will come from a host.
    pub fn lose(&mut self, host: usize) {
        self.hosts[host].lost = true;
        self.jobs.lose(host);
    }

    /// Whether all workers of a host have ended, or the host is lost.
    #[must_use]
    pub fn is_over(&self, host: usize) -> bool {
        self.hosts[host].lost || self.hosts[host].workers.iter().all(|worker| worker.ended)
    }

    /// Progress of the run at `now_ns`.
    #[must_use]
    pub fn progress(&self, now_ns: u64) -> Progress {
        self.jobs.progress(self.start_ns, now_ns)
    }

    /// When the last worker must have ended: the time at which I/Os that hang are given up, and one minute more. `None` where a number of
    /// I/Os or bytes ends a job.
    #[must_use]
    pub fn limit_ns(&self) -> Option<u64> {
        let windows = || self.first_worker.iter().map(|&worker| self.jobs.window(worker));
        let ends = windows().all(|window| window.stop_ns != u64::MAX);
        let last = windows().map(|window| Window::drain_until_ns(window.give_up_ns(), false)).max();
        last.filter(|_| ends).map(|last| last.saturating_add(60_000_000_000))
    }

    /// The results of each job: one for each host, followed by the joint one if there are several hosts.
    #[must_use]
    pub fn results(self) -> Vec<JobResult> {
        self.jobs.results()
    }
}

#[cfg(test)]
mod tests;
