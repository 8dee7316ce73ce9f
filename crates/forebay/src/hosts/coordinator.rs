//! The coordinator: leads all hosts through a plan, a group of jobs at a time.

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

/// Hosts of one run.
const HOSTS_MAX: usize = 64;
/// Messages of all hosts that may wait; a histogram with every counter used takes some MiB.
const WAITING_MAX: usize = 16;
/// How long each step of a host may take.
const HELLO: Duration = Duration::from_secs(30);
const ACCEPT: Duration = Duration::from_secs(60);
const READY: Duration = Duration::from_secs(300);
const OFFSETS: Duration = Duration::from_secs(30);
/// After the end of a run by the user, or since another host was lost: what is in flight is waited for five seconds there.
const STOP: Duration = Duration::from_secs(30);
const FINISH: Duration = Duration::from_secs(120);
/// A host that says nothing for so long is lost: it answers a ping each second.
const SILENCE: Duration = Duration::from_secs(15);
const PING_EVERY: Duration = Duration::from_secs(1);
/// Round trips by which clocks are aligned.
const TRIPS: u64 = 16;
/// The least time between the word and the instant at which all begin, in nanoseconds; the longest round trip adds to it.
const LEAD_NS: u64 = 500_000_000;
/// How often the living line is shown, and the user's wish looked for.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What became of a plan on several hosts.
pub struct Coordinated {
    /// Of each job that was begun the results of each host, and that of all together where they are several.
    pub results: Vec<JobResult>,
    /// The hosts.
    pub hosts: Vec<OfHost>,
}

/// What became of a host.
pub struct OfHost {
    /// Its name and target.
    pub name: HostName,
    /// The name that it gives itself.
    pub node: String,
    /// Its clock; none where nothing was begun.
    pub clock: Option<ClockFigures>,
    /// What it said at its end.
    pub done: Done,
    /// Why it was lost.
    pub failure: Option<String>,
}

/// The hosts in a run.
struct Hosts {
    // Dropped first: who waits to say something waits no more.
    events: Receiver<(usize, Event)>,
    links: Vec<Link>,
    lost: Vec<Option<String>>,
    /// They have said all, and go.
    done: Vec<bool>,
    next_ping: Instant,
    stop: Arc<AtomicBool>,
}

impl Drop for Hosts {
    /// All end at the same time, and none is waited for before another knows.
    fn drop(&mut self) {
        self.links.iter_mut().for_each(Link::hang_up);
    }
}

impl Hosts {
    /// What comes next, of a host that is not lost; none where nothing comes for a moment.
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
                // What ssh or a shell says of it comes beside, and perhaps a moment later.
                std::thread::sleep(LOOK_EVERY);
                let complaint = self.links[host].complaint();
                self.lose(host, complaint.map_or_else(|| why.clone(), |complaint| format!("{why}: {complaint}")));
                None
            }
            // Each link has a thread with the other end.
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

    /// The first that was lost, as an error.
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

    /// Waits until each host that is there has said what `take` looks for; pongs are anybody's. Ends early where one is lost, or
    /// the user ends it.
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

    /// How the clocks stand now.
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
            // One after the other: the next does not wait behind it.
            if offsets.is_none() {
                link.ping();
            }
            Ok(offsets)
        })
    }
}

/// A host of the same kind as we are.
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

/// Runs a plan on hosts. `work` says what each is to do, `interval_ns` how long intervals of a group are.
///
/// # Errors
/// What could not be begun on any host; one that was lost before a load began.
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
    // Nobody waits for more.
    let mut done = finish(&mut hosts, &live);
    if found.results.is_empty() {
        hosts.failure()?;
    }
    // Behind the results of a job's hosts stands that of all together, where these are several.
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

/// What is known of a plan so far.
struct Found {
    before: Vec<Option<Offsets>>,
    after: Vec<Option<Offsets>>,
    results: Vec<JobResult>,
}

/// Runs a group where all hosts can begin.
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

/// Takes what all hosts say of a run, until it is over on all that are there. Where one is lost, or the user ends it, the others end
/// with what is known.
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

/// Ends all hosts that are there; what they know besides.
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
