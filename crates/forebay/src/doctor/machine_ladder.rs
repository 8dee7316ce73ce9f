//! The ladder on this machine: cumulative kernel settings, and options of the instrument itself, each alone.

use super::climbing::{LadderOptions, of_pass};
use super::folder::Place;
use crate::measure::{Session, SessionOptions};
use crate::output;
use anyhow::{Context, Result};
use forebay_bench::experiment::{Climb, Driver, DriverError, Pass, Rung, ladder};
use forebay_bench::job::model::{Access, Calls, Job};
use forebay_bench::run::{JobResult, allowed_cpus};
use forebay_block::WaitMethod;
use forebay_platform::change::{
    Hold, HoldError, Plan, SETTINGS, Setting, Side, Step, Store, StoreError, put, put_back,
};
use forebay_platform::{Device, Lack, Machine, Report, audit};

/// How long the hybrid wait polls before it sleeps.
const HYBRID_SPIN_NS: u64 = 20_000;

/// The change of a rung.
#[derive(Clone, Debug, PartialEq)]
enum Change {
    /// None: the machine as found.
    Nothing,
    /// A kernel setting in addition to those of the rungs below.
    Setting(&'static str),
    /// Idle states are kept shallow, in addition to the settings below.
    Hold,
    /// A setting in addition to those below that no other rung builds on: one of several mutually exclusive settings.
    Fixed(&'static str),
    /// Wait method of the instrument.
    Wait(WaitMethod),
    /// I/O system calls of the instrument.
    Calls(Calls),
    /// Threads of the instrument are pinned to CPUs.
    Pinned(Vec<u32>),
}

impl Change {
    /// Whether the rung adds to the rungs below.
    fn adds_up(&self) -> bool {
        matches!(self, Self::Setting(_) | Self::Hold | Self::Fixed(_))
    }

    /// The setting that the rung changes.
    fn setting(&self) -> Option<&'static str> {
        match self {
            Self::Setting(name) | Self::Fixed(name) => Some(name),
            _ => None,
        }
    }

    /// The job as it runs on this rung.
    fn job(&self, job: &Job) -> Job {
        let job = job.clone();
        match self {
            Self::Wait(wait) => Job { wait: *wait, ..job },
            // A synchronous call does one I/O: the queue depth becomes threads.
            Self::Calls(calls @ Calls::Sync { .. }) => Job {
                threads: job.threads * job.depth,
                depth: 1,
                access: Access { calls: *calls, ..job.access },
                ..job
            },
            Self::Calls(calls) => Job { access: Access { calls: *calls, ..job.access }, ..job },
            Self::Pinned(cpus) => Job { cpus: cpus.clone(), ..job },
            _ => job,
        }
    }
}

/// A rung and its change.
type Changed = (Rung, Change);

const CPUIDLE: &str = "Linux, admin-guide/pm/cpuidle.rst (/dev/cpu_dma_latency)";

fn facts(what: &str, cost: &str, source: &str, price: &str) -> Vec<(&'static str, String)> {
    let all = [("what", what), ("cost", cost), ("source", source), ("price", price)];
    all.into_iter().map(|(key, text)| (key, text.to_owned())).collect()
}

/// The rungs of the kernel settings, each added to those below.
fn of_settings(plan: &Plan, place: &Place<'_>, audit: &Report, unrecorded: Option<&str>) -> Vec<Changed> {
    // Without swap or without a deep idle state these settings have no effect, whatever their files contain.
    let so_already = |name: &str| {
        let good = audit.good.iter().find(|one| one.name == name && ["swap", "idle-states"].contains(&name));
        good.map(|one| format!("so already: {}", one.text))
    };
    let mut rungs: Vec<Changed> = Vec::new();
    // Rung 0 is the machine as found; the settings start at 1. No rung builds on a mutually exclusive setting.
    let mut carries = 0;
    let mut add = |name: &str, facts, missing: Option<String>, change| {
        let rung = Rung { name: name.to_owned(), facts, against: Some(carries), published: Vec::new(), missing };
        if !matches!(change, Change::Fixed(_)) {
            carries = rungs.len() + 1;
        }
        rungs.push((rung, change));
    };
    let mut seen: Vec<&str> = Vec::new();
    for setting in SETTINGS {
        if seen.contains(&setting.name) {
            continue;
        }
        seen.push(setting.name);
        if setting.name == "scheduler" {
            let missing = if let Some(why) = so_already("idle-states") {
                Some(why)
            } else if place.tree.is_machine() {
                Hold::begin().err().map(|error| error.to_string())
            } else {
                Some("idle states are those of the machine that this runs on, not of the tree".to_owned())
            };
            let facts = facts(
                "CPUs kept out of idle states that take time to leave",
                "who is woken by an interrupt waits until its CPU has left its idle state: up to hundreds of microseconds",
                CPUIDLE,
                "much more power when idle, and less turbo",
            );
            add("idle-states", facts, missing, Change::Hold);
        }
        let change = if setting.is_alternative() { Change::Fixed } else { Change::Setting };
        let missing = so_already(setting.name).or_else(|| missing(setting, plan, unrecorded));
        add(setting.name, of_setting(setting), missing, change(setting.name));
    }
    rungs
}

fn of_setting(setting: &Setting) -> Vec<(&'static str, String)> {
    facts(setting.what, setting.cost, setting.source, setting.price)
}

/// Why a setting is not measured here.
fn missing(setting: &Setting, plan: &Plan, unrecorded: Option<&str>) -> Option<String> {
    if plan.changed().contains(&setting.name) {
        return unrecorded.map(str::to_owned);
    }
    let left = plan.left.iter().find(|left| left.name == setting.name);
    Some(left.map_or_else(|| "there is no such setting here".to_owned(), |left| left.why.clone()))
}

/// The rungs of the instrument, which are always available; each is compared with the first rung.
fn of_instrument(cpus: Vec<u32>) -> Vec<Changed> {
    let rung = |name: &str, what: &str, cost: &str, price: &str, change| {
        let source = "the instrument's own way, measured here";
        let rung = Rung {
            name: name.to_owned(),
            facts: facts(what, cost, source, price),
            against: Some(0),
            ..Rung::default()
        };
        (rung, change)
    };
    let whole_cpu = "each thread takes a whole CPU";
    let sleep = "io_uring, woken by the interrupt, takes a wake-up and a change of context for each I/O";
    vec![
        rung("wait: spin", "looks without pause", sleep, whole_cpu, Change::Wait(WaitMethod::Spin)),
        rung(
            "wait: hybrid",
            "looks for 20 us and sleeps then",
            sleep,
            "a CPU for 20 us of each I/O",
            Change::Wait(WaitMethod::Hybrid { spin_ns: HYBRID_SPIN_NS }),
        ),
        rung(
            "calls: polled ring",
            "io_uring whose I/Os the kernel polls for (IOPOLL)",
            "an interrupt for each I/O",
            "each thread takes a whole CPU, and the drive needs queues for it (nvme.poll_queues)",
            Change::Calls(Calls::RingPolled),
        ),
        rung(
            "calls: sync",
            "pread and pwrite, a thread for each I/O",
            "a ring is one call of the system for submission and completion too, with its own bookkeeping",
            "one I/O a thread",
            Change::Calls(Calls::Sync { high_priority: false }),
        ),
        rung(
            "calls: sync, high priority",
            "preadv2 and pwritev2 with RWF_HIPRI, as the guide's reads",
            "polling in the kernel until Linux 5.19; since then no other than plain calls",
            "one I/O a thread",
            Change::Calls(Calls::Sync { high_priority: true }),
        ),
        rung(
            "pinned",
            "each thread stays on a CPU of its own",
            "threads move between CPUs, and their data with them",
            "other work on those CPUs gets in the way",
            Change::Pinned(cpus),
        ),
    ]
}

/// The kernel settings that the ladder has changed at the moment.
struct Settings<'a> {
    place: &'a Place<'a>,
    steps: Vec<Step>,
    /// Names of the settings that are changed now.
    applied: Vec<String>,
    /// The record; `None` where nothing is changed.
    store: Option<Store>,
    hold: Option<Hold>,
}

impl Settings<'_> {
    /// Brings all files to the state of a rung: `applied` are the settings to be changed. Values that the kernel changes along with a
    /// setting are left to the kernel while that setting is changed. An error names the setting.
    fn bring(&mut self, applied: &[&str], hold: bool) -> Result<(), (String, String)> {
        let is_applied = |step: &Step| applied.contains(&step.setting.as_str());
        let failed = |step: &Step, lack: Lack| (step.setting.clone(), lack.to_string());
        // A dependent value that another rung changed is restored only while its cause is restored too, because the kernel may refuse it
        // while the cause is in force. The kernel sets the value again when the cause is applied again.
        for (cause, step) in self.steps.iter().filter_map(|step| Some((&self.steps[step.moved_by?], step))) {
            if is_applied(cause) && !is_applied(step) && self.applied.contains(&step.setting) {
                for step in [cause, step] {
                    put(self.place.tree, step, Side::Before).map_err(|lack| failed(step, lack))?;
                }
            }
        }
        self.applied = applied.iter().map(|&name| name.to_owned()).collect();
        for step in &self.steps {
            let is_moved = step.moved_by.is_some_and(|cause| is_applied(&self.steps[cause]));
            let side = if is_applied(step) { Side::After } else { Side::Before };
            // A setting that is not applied may share its file with an alternative that is.
            let is_taken =
                || self.steps.iter().any(|other| is_applied(other) && other.is_change() && other.path == step.path);
            if side == Side::Before && (is_moved || is_taken()) {
                continue;
            }
            put(self.place.tree, step, side).map_err(|lack| failed(step, lack))?;
        }
        let unheld = |error: HoldError| ("idle-states".to_owned(), error.to_string());
        self.hold = match (hold, self.hold.take()) {
            (false, _) => None,
            (true, Some(hold)) => Some(hold),
            (true, None) => Some(Hold::begin().map_err(unheld)?),
        };
        Ok(())
    }

    /// Restores everything, and removes the record where that succeeded.
    fn end(mut self) -> Result<()> {
        self.hold = None;
        let first = put_back(self.place.tree, &self.steps).into_iter().find_map(Result::err);
        match (first, self.store) {
            (None, Some(store)) => {
                store.remove()?;
                self.place.leave(store);
                Ok(())
            }
            (None, None) => Ok(()),
            (Some(lack), _) => Err(anyhow::Error::new(lack))
                .with_context(|| format!("a setting was not put back; repeat: {}", self.place.restore_command())),
        }
    }
}

/// Plans the changes and records the current settings. Where they cannot be recorded, returns the reason, and nothing is changed.
fn recorded(place: &Place<'_>, device: Option<&Device>) -> Result<(Plan, Option<Store>, Option<String>)> {
    // The lock is taken before the settings are read, so that nobody else changes them from here on.
    let store = place.begin();
    let plan = Plan::with(place.tree, device, |_| true);
    if plan.is_empty() {
        store.into_iter().for_each(|store| place.leave(store));
        return Ok((plan, None, None));
    }
    let recorded = store.and_then(|store| place.record(&store, "ladder", &plan.steps).map(|()| store));
    match recorded {
        Ok(store) => Ok((plan, Some(store), None)),
        // Without a place for the record, the rungs of the instrument can still be measured.
        Err(error) if matches!(error.downcast_ref::<StoreError>(), Some(StoreError::Io { .. })) => {
            let why = format!("settings are changed only where they can be recorded: {}", output::chain(&error));
            Ok((plan, None, Some(why)))
        }
        Err(error) => Err(error),
    }
}

/// Measures the ladder.
///
/// # Errors
/// Errors of measuring, recording or restoring.
pub(super) fn climb(
    options: &LadderOptions,
    target: &str,
    place: &Place<'_>,
    machine: &Machine,
) -> Result<forebay_bench::experiment::Report> {
    let device = machine.devices.first();
    let how =
        SessionOptions { destroy_data: options.destroy_data, interval_ns: None, records: None, block_layer: false };
    let mut session = Session::new(target, how)?;
    let [read, write] = options.jobs(session.is_virtual())?;
    session.check_base(&read)?;
    let mut notes = Vec::new();
    let mut jobs = vec![read];
    match session.may_write() {
        Ok(()) => jobs.push(write),
        Err(why) => notes.push(format!("writes at QD16 are left out: {}", output::chain(&why))),
    }
    let (plan, store, unrecorded) = recorded(place, device)?;
    let mut settings = Settings { place, steps: plan.steps.clone(), applied: Vec::new(), store, hold: None };
    if unrecorded.is_some() {
        settings.steps.clear();
    }
    let as_found = Rung {
        name: "as found".to_owned(),
        facts: facts("everything as it was found", "-", "this machine", "none"),
        ..Rung::default()
    };
    let mut all = vec![(as_found, Change::Nothing)];
    all.extend(of_settings(&plan, place, &audit(machine), unrecorded.as_deref()));
    all.extend(of_instrument(allowed_cpus()));
    let (rungs, changes): (Vec<Rung>, Vec<Change>) = all.into_iter().unzip();
    let missing: Vec<bool> = rungs.iter().map(|rung| rung.missing.is_some()).collect();
    let of =
        device.map_or_else(|| "no device was named: --device".to_owned(), |device| format!("and of {}", device.name));
    let conditions = vec![
        format!("target: {target}; settings of the machine, {of}"),
        "each setting stands on those below it; ways of the instrument stand alone, on everything as found".to_owned(),
    ];
    let ladder_of = options.ladder(rungs, conditions, notes);
    let mut climber = Climber { session: &mut session, settings: &mut settings, jobs, changes, missing, own_way: None };
    let report = ladder(&ladder_of, &mut |rung, pass, step| climber.climb(rung, pass, step));
    // The settings are restored first, whatever the result.
    settings.end()?;
    session.close()?;
    Ok(report?)
}

/// Sets a rung and measures on it.
struct Climber<'a, 'b> {
    session: &'a mut Session,
    settings: &'a mut Settings<'b>,
    jobs: Vec<Job>,
    changes: Vec<Change>,
    missing: Vec<bool>,
    /// How the instrument reaches the target on the first rung.
    own_way: Option<String>,
}

impl Climber<'_, '_> {
    fn climb(&mut self, rung: usize, pass: Pass, step: &str) -> Result<Climb, DriverError> {
        let change = self.changes[rung].clone();
        let below: Vec<&Change> = if change.adds_up() {
            let stands =
                |at: &usize| !self.missing[*at] && (*at == rung || !matches!(self.changes[*at], Change::Fixed(_)));
            (0..=rung).filter(stands).map(|at| &self.changes[at]).collect()
        } else {
            Vec::new()
        };
        let applied: Vec<&str> = below.iter().filter_map(|change| change.setting()).collect();
        if let Err((setting, why)) = self.settings.bring(&applied, below.contains(&&Change::Hold)) {
            let own = if change == Change::Hold { "idle-states" } else { change.setting().unwrap_or("") };
            if own != setting {
                return Err(DriverError(format!("{setting}: {why}")));
            }
            // The next rung restores what this one changed.
            self.missing[rung] = true;
            return Ok(Climb::Missing(why));
        }
        let mut results: Vec<JobResult> = Vec::new();
        for job in &self.jobs {
            if self.session.is_stopped() {
                return Ok(Climb::Ended);
            }
            results.extend(self.session.run(step, &[of_pass(&change.job(job), pass)])?);
        }
        if results.len() < self.jobs.len() {
            return Ok(Climb::Ended);
        }
        let way = &results[0].description;
        let own_way = self.own_way.get_or_insert_with(|| way.clone());
        if matches!(change, Change::Calls(_)) && way == own_way {
            self.missing[rung] = true;
            return Ok(Climb::Missing("this target is reached in one way only".to_owned()));
        }
        Ok(Climb::Ran(results))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_platform::Tree;
    use std::fs;
    use std::path::Path;

    const CPU: &str = "sys/devices/system/cpu";

    /// Values of `no_turbo`, `scaling_max_freq` and `scaling_min_freq`.
    fn said(root: &Path) -> [String; 3] {
        ["intel_pstate/no_turbo", "cpufreq/policy0/scaling_max_freq", "cpufreq/policy0/scaling_min_freq"]
            .map(|file| fs::read_to_string(root.join(CPU).join(file)).unwrap().trim().to_owned())
    }

    /// The ladder measured swappiness without any swap, and shallow idle states on machines that have no others.
    #[test]
    fn regression_what_is_good_already_is_no_rung() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("tree");
        for (file, text) in [
            ("proc/swaps", "Filename Type Size Used Priority\n"),
            ("proc/sys/vm/swappiness", "60\n"),
            ("sys/devices/system/cpu/cpu0/cpuidle/state0/name", "C1\n"),
            ("sys/devices/system/cpu/cpu0/cpuidle/state0/latency", "2\n"),
            ("sys/devices/system/cpu/cpu0/cpuidle/state0/disable", "0\n"),
        ] {
            fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
            fs::write(root.join(file), text).unwrap();
        }
        let tree = Tree::open(&root).unwrap();
        let place = Place::new(&tree, &root, Some(&folder.path().join("state"))).unwrap();
        let machine = Machine::read(&tree, forebay_platform::Wanted::Machine).unwrap();
        let plan = Plan::with(&tree, None, |_| true);
        assert!(plan.changed().contains(&"swap"), "its file says something else");
        for (rung, _) in of_settings(&plan, &place, &audit(&machine), None) {
            let is_so = rung.missing.is_some_and(|why| why.starts_with("so already: "));
            assert_eq!(is_so, ["swap", "idle-states"].contains(&&*rung.name), "{}", rung.name);
        }
    }

    #[test]
    fn one_fixed_frequency_at_a_time_and_none_above() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("tree");
        for (file, text) in [
            ("intel_pstate/no_turbo", "0"),
            ("cpufreq/policy0/scaling_max_freq", "4200000"),
            ("cpufreq/policy0/scaling_min_freq", "800000"),
            ("cpufreq/policy0/cpuinfo_min_freq", "800000"),
            ("cpufreq/policy0/cpuinfo_max_freq", "4200000"),
        ] {
            let path = root.join(CPU).join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        }
        let tree = Tree::open(&root).unwrap();
        let place = Place::new(&tree, &root, Some(&folder.path().join("state"))).unwrap();
        let (plan, store, unrecorded) = recorded(&place, None).unwrap();
        assert!(unrecorded.is_none());
        let rungs = of_settings(&plan, &place, &Report::default(), None);
        let at = |name: &str| rungs.iter().position(|(rung, _)| rung.name == name).unwrap();
        // The machine as found is below all rungs.
        for name in ["fixed-2.3-GHz", "fixed-3.0-GHz", "idle-states"] {
            assert_eq!(rungs[at(name)].0.against, Some(at("turbo") + 1), "{name}");
        }
        let mut settings = Settings { place: &place, steps: plan.steps, applied: Vec::new(), store, hold: None };
        let as_found = ["0", "4200000", "800000"];
        let without_turbo = ["1", "4200000", "800000"];
        let slow = ["1", "2300000", "2300000"];
        let fast = ["1", "3000000", "3000000"];
        for (applied, expected) in [
            (&[][..], as_found),
            (&["turbo"], without_turbo),
            (&["turbo", "fixed-2.3-GHz"], slow),
            (&["turbo", "fixed-3.0-GHz"], fast),
            (&["turbo", "fixed-2.3-GHz"], slow),
            (&["turbo", "swap"], without_turbo),
            (&["turbo", "fixed-3.0-GHz"], fast),
            (&[], as_found),
            (&["fixed-2.3-GHz"], ["0", "2300000", "2300000"]),
            (&["fixed-3.0-GHz"], ["0", "3000000", "3000000"]),
        ] {
            settings.bring(applied, false).unwrap();
            assert_eq!(said(&root), expected, "{applied:?}");
        }
        settings.end().unwrap();
        assert_eq!(said(&root), as_found);
    }
}
