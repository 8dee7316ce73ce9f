//! The coordinator: leads all hosts through a plan, one group of jobs at a time.

use super::clocks::{ClockFigures, Clocks, Offsets};
use super::link::{Command, Event, Link};
use super::message::{Done, Facts, FromHost, Group, Hello, PROTOCOL, ToHost, VERSION, Work};
use super::name::HostName;
use crate::measure::{Live, signals};
use anyhow::{Context, Result, anyhow, bail};
use forebay_bench::job::model::{Job, Plan};
use forebay_bench::run::{Clock, Figures, JobResult, RemoteRun, TargetFacts, TscClock, lead_ns};
use forebay_daemon::text::SCHEMA_VERSION;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

/// Maximum number of hosts in a run.
const HOSTS_MAX: usize = 64;
/// Maximum number of queued messages from hosts; a histogram with every counter in use takes some MiB.
const WAITING_MAX: usize = 16;
/// Time limit of each step of a host.
const HELLO: Duration = Duration::from_secs(30);
const ACCEPT: Duration = Duration::from_secs(60);
const READY: Duration = Duration::from_secs(300);
const OFFSETS: Duration = Duration::from_secs(30);
/// Limit after the user ended the run or another host was lost: the host waits up to five seconds for its I/Os in flight.
const STOP: Duration = Duration::from_secs(30);
const FINISH: Duration = Duration::from_secs(120);
/// A host that is silent for this long counts as lost: it should answer a ping every second.
const SILENCE: Duration = Duration::from_secs(15);
const PING_EVERY: Duration = Duration::from_secs(1);
/// Number of round trips for aligning the clocks.
const TRIPS: u64 = 16;
/// Least time between the start message and the common start, in nanoseconds; the longest round trip is added.
const LEAD_NS: u64 = 500_000_000;
/// Interval of updating the live line and checking for the user's interrupt.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Result of a plan on several hosts.
pub struct Coordinated {
    /// For each job that began: the results of each host, followed by the combined result where there are several hosts.
    pub results: Vec<JobResult>,
    /// The hosts.
    pub hosts: Vec<OfHost>,
}

/// Final state of a host.
pub struct OfHost {
    /// Its name and target.
    pub name: HostName,
    /// The host's own node name.
    pub node: String,
    /// Clock figures; none where no group began.
    pub clock: Option<ClockFigures>,
    /// The host's final message.
    pub done: Done,
    /// Why the host was lost; `None` where it was not.
    pub failure: Option<String>,
}

/// The hosts in a run.
struct Hosts {
    // Dropped first, so that a link's thread that waits to send an event stops waiting.
    events: Receiver<(usize, Event)>,
    links: Vec<Link>,
    lost: Vec<Option<String>>,
    /// Hosts that have sent everything and end.
    done: Vec<bool>,
    next_ping: Instant,
    stop: Arc<AtomicBool>,
}

impl Drop for Hosts {
    /// Closes all links before waiting for any, so that all hosts end at the same time.
    fn drop(&mut self) {
        self.links.iter_mut().for_each(Link::hang_up);
    }
}

impl Hosts {
    /// The next message of a host that is not lost; none where none arrives within a moment.
    fn next(&mut self) -> Option<(usize, FromHost)> {
        if Instant::now() >= self.next_ping {
            self.next_ping = Instant::now() + PING_EVERY;
            for link in &self.links {
                link.ping();
            }
        }
        for host in self.there().collect::<Vec<_>>() {
            let silence = self.links[host].clocks.silence();
            if silence > SILENCE {
                self.lose(host, format!("it has said nothing for {} s", silence.as_secs()));
            }
        }
        match self.events.recv_timeout(LOOK_EVERY) {
            Ok((host, _)) if self.lost[host].is_some() || self.done[host] => None,
            Ok((host, Event::Said(said))) => match *said {
                FromHost::Failed(why) => {
                    self.lose(host, why);
                    None
                }
                said => Some((host, said)),
            },
            Ok((host, Event::Closed(why))) => {
                // The explanation of ssh or a shell arrives on another stream, perhaps a moment later.
                std::thread::sleep(LOOK_EVERY);
                let complaint = self.links[host].complaint();
                self.lose(host, complaint.map_or_else(|| why.clone(), |complaint| format!("{why}: {complaint}")));
                None
            }
            // Not reached by disconnection: each link has a thread that holds a sender.
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => None,
        }
    }

    fn lose(&mut self, host: usize, why: String) {
        if self.lost[host].is_none() {
            self.lost[host] = Some(why);
            self.links[host].cut();
        }
    }

    /// Hosts that are neither lost nor done.
    fn there(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.links.len()).filter(|&host| self.lost[host].is_none() && !self.done[host])
    }

    fn is_any_lost(&self) -> bool {
        self.lost.iter().any(Option::is_some)
    }

    /// The first lost host as an error.
    fn failure(&self) -> Result<()> {
        let lost = self.links.iter().zip(&self.lost).find_map(|(link, lost)| Some((&link.name.host, lost.as_ref()?)));
        lost.map_or(Ok(()), |(host, why)| Err(anyhow!("host {host}: {why}")))
    }

    fn send(&mut self, host: usize, message: ToHost) {
        if !self.links[host].send(message) {
            self.lose(host, "it takes nothing any more".to_owned());
        }
    }

    fn send_all(&mut self, message: &ToHost) {
        for host in self.there().collect::<Vec<_>>() {
            self.send(host, message.clone());
        }
    }

    /// Waits until each remaining host has sent what `take` looks for; pongs are handled here. Ends early where a host is lost or the user
    /// interrupts.
    fn each<T>(
        &mut self,
        limit: Duration,
        step: &str,
        mut take: impl FnMut(&mut Self, usize, FromHost) -> Result<Option<T>>,
    ) -> Vec<Option<T>> {
        let until = Instant::now() + limit;
        let mut found: Vec<Option<T>> = self.links.iter().map(|_| None).collect();
        loop {
            let missing: Vec<usize> = self.there().filter(|&host| found[host].is_none()).collect();
            if missing.is_empty() || self.is_any_lost() || self.stop.load(Ordering::Relaxed) {
                return found;
            }
            if Instant::now() > until {
                let why = format!("it did not {step} within {} s", limit.as_secs());
                missing.into_iter().for_each(|host| self.lose(host, why.clone()));
                return found;
            }
            let Some((host, said)) = self.next() else { continue };
            let is_pong = matches!(said, FromHost::Pong(_));
            match take(self, host, said) {
                Ok(Some(value)) => found[host] = Some(value),
                Ok(None) if is_pong => {}
                Ok(None) => self.lose(host, format!("it said something else when it was to {step}")),
                Err(error) => self.lose(host, error.to_string()),
            }
        }
    }

    /// Measures the current offsets of all clocks.
    fn offsets(&mut self) -> Vec<Option<Offsets>> {
        for link in &self.links {
            link.clocks.begin();
            link.ping();
        }
        self.each(OFFSETS, "answer pings", |hosts, host, said| {
            if !matches!(said, FromHost::Pong(_)) {
                return Ok(None);
            }
            let link = &hosts.links[host];
            let offsets = link.clocks.offsets().filter(|offsets| offsets.trips >= TRIPS);
            // One ping after the other, so that no ping waits behind another.
            if offsets.is_none() {
                link.ping();
            }
            Ok(offsets)
        })
    }
}

/// Checks that the host runs the same version.
fn check_hello(hello: &Hello) -> Result<()> {
    if hello.version != VERSION {
        bail!("it has forebay {}, and here is {VERSION}: install the same on all", hello.version);
    }
    if (hello.protocol, hello.schema_version) != (PROTOCOL, SCHEMA_VERSION) {
        bail!(
            "its forebay {} talks by protocol {} with results of schema {}, here {PROTOCOL} and {SCHEMA_VERSION}: install the same on all",
            hello.version,
            hello.protocol,
            hello.schema_version
        );
    }
    Ok(())
}

/// Runs a plan on several hosts. `work` gives the work of each, `interval_ns` the interval length of a group.
///
/// # Errors
/// Nothing could be started on some host, or a host was lost before a load began.
pub fn coordinate(
    names: &[HostName],
    command: &Command,
    plan: &Plan,
    work: impl Fn(&HostName) -> Work,
    interval_ns: impl Fn(&[Job]) -> u64,
) -> Result<Coordinated> {
    if names.len() > HOSTS_MAX {
        bail!("{} hosts: at most {HOSTS_MAX} at once", names.len());
    }
    let stop = Arc::new(AtomicBool::new(false));
    signals::watch(&stop)?;
    let live = Live::new();
    let clock = TscClock::new();
    let (to, events) = sync_channel(WAITING_MAX);
    let next_ping = Instant::now() + PING_EVERY;
    let mut hosts = Hosts {
        events,
        links: Vec::new(),
        lost: vec![None; names.len()],
        done: vec![false; names.len()],
        next_ping,
        stop,
    };
    for (number, name) in names.iter().enumerate() {
        let link = Link::start(name.clone(), number, command, Clocks::new(clock.clone()), &to);
        hosts.links.push(link.with_context(|| format!("host {}", name.host))?);
    }
    live.step("waiting for hosts");
    let nodes = hosts.each(HELLO, "say who it is", |_, _, said| {
        let FromHost::Hello(hello) = said else { return Ok(None) };
        check_hello(&hello)?;
        Ok(Some(hello.node))
    });
    hosts.failure().map_err(|error| {
        let Command { ssh, program } = command;
        anyhow!("{error}; by hand, `{ssh} HOST {program} --version` must print {VERSION} at once, and nothing else")
    })?;
    for (host, name) in names.iter().enumerate() {
        hosts.send(host, ToHost::Work(Box::new(work(name))));
    }
    hosts.each(ACCEPT, "look at its work", |_, _, said| Ok(matches!(said, FromHost::Accepted).then_some(())));
    hosts.failure()?;
    let mut found = Found { before: vec![None; names.len()], after: vec![None; names.len()], results: Vec::new() };
    for (number, jobs) in plan.groups.iter().enumerate() {
        if hosts.stop.load(Ordering::Relaxed) || hosts.is_any_lost() {
            break;
        }
        let group = Group { number, interval_ns: interval_ns(jobs) };
        run_group(&mut hosts, &clock, &live, group, jobs, &mut found);
    }
    // No further messages are expected.
    let mut done = finish(&mut hosts, &live);
    if found.results.is_empty() {
        hosts.failure()?;
    }
    // The results of a job's hosts are followed by the combined one where there are several hosts.
    let of_job = names.len() + usize::from(names.len() > 1);
    for (job, results) in found.results.chunks_mut(of_job).enumerate() {
        for (result, done) in results.iter_mut().zip(&mut done) {
            result.machine = done.machines.get_mut(job).and_then(Option::take);
        }
    }
    let of_host = |(host, name): (usize, &HostName)| OfHost {
        name: name.clone(),
        node: nodes[host].clone().unwrap_or_default(),
        clock: found.before[host].map(|before| ClockFigures { before, after: found.after[host] }),
        done: std::mem::take(&mut done[host]),
        failure: hosts.lost[host].clone(),
    };
    let of_hosts = names.iter().enumerate().map(of_host).collect();
    Ok(Coordinated { results: found.results, hosts: of_hosts })
}

/// Results of a plan so far.
struct Found {
    before: Vec<Option<Offsets>>,
    after: Vec<Option<Offsets>>,
    results: Vec<JobResult>,
}

/// Runs a group, provided that all hosts are ready to begin.
fn run_group(hosts: &mut Hosts, clock: &TscClock, live: &Live, group: Group, jobs: &[Job], found: &mut Found) {
    live.step("making ready");
    hosts.send_all(&ToHost::Prepare(group));
    let facts = hosts.each(READY, "make ready", |hosts, host, said| {
        let FromHost::Ready(facts) = said else { return Ok(None) };
        let named = |facts: Facts| facts.named(hosts.links[host].name.to_string());
        let facts: Vec<TargetFacts> = facts.into_iter().map(named).collect();
        if facts.len() == jobs.len() { Ok(Some(facts)) } else { bail!("it is ready for other jobs") }
    });
    live.step("aligning clocks");
    let offsets = hosts.offsets();
    let (Some(facts), Some(offsets)) = (all(facts), all(offsets)) else {
        hosts.send_all(&ToHost::Start(None));
        return;
    };
    let longest_ns = offsets.iter().map(|offsets| 2 * offsets.run.bound_ns).max().unwrap_or(0);
    let threads: u64 = jobs.iter().map(|job| u64::from(job.threads)).sum();
    let start_ns = clock.now_ns() + LEAD_NS + 10 * longest_ns + lead_ns(threads);
    for (host, offsets) in offsets.iter().enumerate() {
        match offsets.run.there_ns(start_ns) {
            at_ns @ Some(_) => hosts.send(host, ToHost::Start(at_ns)),
            None => hosts.lose(host, "its clock shows no such time".to_owned()),
        }
    }
    for (host, before) in offsets.into_iter().enumerate() {
        found.before[host].get_or_insert(before);
    }
    let mut run = RemoteRun::new(jobs, &facts, group.interval_ns, start_ns);
    gather(hosts, clock, live, &mut run);
    found.results.extend(run.results());
    if !hosts.is_any_lost() && !hosts.stop.load(Ordering::Relaxed) {
        live.step("aligning clocks");
        found.after = hosts.offsets();
    }
}

fn all<T>(found: Vec<Option<T>>) -> Option<Vec<T>> {
    found.into_iter().collect()
}

/// Collects the messages of a run until it is over on all remaining hosts. Where a host is lost or the user interrupts, the others end with
/// the results so far.
fn gather(hosts: &mut Hosts, clock: &TscClock, live: &Live, run: &mut RemoteRun) {
    let (mut over, mut counted_lost) = (BTreeSet::new(), BTreeSet::new());
    let mut stop_by: Option<Instant> = None;
    let mut shown = Instant::now();
    loop {
        for host in (0..hosts.links.len()).filter(|&host| hosts.lost[host].is_some()) {
            if counted_lost.insert(host) {
                run.lose(host);
            }
        }
        let missing: Vec<usize> = hosts.there().filter(|host| !over.contains(host)).collect();
        if missing.is_empty() {
            return;
        }
        if stop_by.is_none() && (hosts.is_any_lost() || hosts.stop.load(Ordering::Relaxed)) {
            stop_by = Some(Instant::now() + STOP);
            hosts.send_all(&ToHost::Stop);
        }
        let is_late = stop_by.is_some_and(|by| Instant::now() > by);
        if is_late || run.limit_ns().is_some_and(|limit_ns| clock.now_ns() > limit_ns) {
            missing.into_iter().for_each(|host| hosts.lose(host, "its run does not end".to_owned()));
            continue;
        }
        if shown.elapsed() >= LOOK_EVERY {
            shown = Instant::now();
            live.show("", &run.progress(clock.now_ns()));
        }
        let Some((host, said)) = hosts.next() else { continue };
        let refused = match said {
            FromHost::Pong(_) => None,
            FromHost::Figures(figures) => take(run, host, &figures, clock),
            FromHost::Over if run.is_over(host) => {
                over.insert(host);
                None
            }
            FromHost::Over => Some("its run is over, and figures are missing".to_owned()),
            _ => Some("it says what has no place in a run".to_owned()),
        };
        if let Some(why) = refused {
            hosts.lose(host, why);
        }
    }
}

fn take(run: &mut RemoteRun, host: usize, figures: &Figures, clock: &TscClock) -> Option<String> {
    run.take(host, figures, clock.now_ns()).err().map(|refused| refused.to_string())
}

/// Ends all remaining hosts; returns their final messages.
fn finish(hosts: &mut Hosts, live: &Live) -> Vec<Done> {
    live.step("measuring the tool itself");
    hosts.send_all(&ToHost::Finish);
    let mut done: Vec<Done> = hosts.links.iter().map(|_| Done::default()).collect();
    let until = Instant::now() + FINISH;
    while hosts.there().next().is_some() && Instant::now() < until {
        if let Some((host, FromHost::Done(said))) = hosts.next() {
            done[host] = said;
            hosts.done[host] = true;
        }
    }
    for host in hosts.there().collect::<Vec<_>>() {
        hosts.lose(host, format!("it did not end within {} s", FINISH.as_secs()));
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(version: &str, protocol: u32, schema_version: u32) -> Hello {
        Hello { protocol, version: version.to_owned(), schema_version, node: "n".to_owned() }
    }

    #[test]
    fn hosts_of_other_versions_are_refused() {
        assert!(check_hello(&hello(VERSION, PROTOCOL, SCHEMA_VERSION)).is_ok());
        let why = |hello: &Hello| check_hello(hello).unwrap_err().to_string();
        assert!(why(&hello("0.0.0", PROTOCOL, SCHEMA_VERSION)).contains("0.0.0"));
        assert!(why(&hello(VERSION, PROTOCOL + 1, SCHEMA_VERSION)).contains("protocol"));
        assert!(why(&hello(VERSION, PROTOCOL, SCHEMA_VERSION + 1)).contains("schema"));
    }
}
