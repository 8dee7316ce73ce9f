//! Programs that run besides the load.

use super::words::GUIDE;
use crate::finding::{Finding, Outcome, Severity};
use crate::lack::Reading;
use crate::machine::Machine;
use crate::settings::services::{BALANCER, SCANNERS, TUNERS};

/// The result if nothing was found, which depends on whether all processes were examined.
fn none(machine: &Machine, what: &str) -> Outcome {
    if machine.services.is_whole {
        Outcome::good(what)
    } else {
        Outcome::Unknown("there are more processes than are looked at".to_owned())
    }
}

pub(super) fn irq_balancing(machine: &Machine) -> Reading<Outcome> {
    let running = machine.services.running.clone()?;
    if !running.contains(BALANCER) {
        return Ok(none(machine, "no daemon moves interrupts between CPUs"));
    }
    Ok(Outcome::found(Finding {
        severity: Severity::CostsLatency,
        what: "irqbalance is running".to_owned(),
        cost: "interrupts move between CPUs, away from who waits for them. In the guide's ladder turning it off takes reads at \
               depth 1 from 45 us to 39 us at p99.999 and from 77 us to 69 us at worst; writes at depth 16 got worse at p99.999 \
               (119 us to 237 us) until affinity was set by hand (123 us). Interrupts that today's kernels manage themselves, such as those \
               of NVMe queues, it cannot move"
            .to_owned(),
        source: format!("{GUIDE}; Linux, commit 11ea68f553e2 (managed interrupts cannot be changed from user space)"),
        now: "systemctl stop irqbalance".to_owned(),
        for_good: "systemctl disable irqbalance".to_owned(),
        price: "other devices' interrupts stay where they are: set them by hand (/proc/irq/N/smp_affinity_list)".to_owned(),
    }))
}

pub(super) fn scanners(machine: &Machine) -> Reading<Outcome> {
    let running = machine.services.running.clone()?;
    let found: Vec<String> = SCANNERS
        .iter()
        .filter(|(name, _)| running.contains(*name))
        .map(|(name, what)| format!("{name} ({what})"))
        .collect();
    if found.is_empty() {
        return Ok(none(machine, "nothing is running that is known to scan or index"));
    }
    Ok(Outcome::found(Finding {
        severity: Severity::CostsLatency,
        what: format!("running: {}", found.join(", ")),
        cost: "I/O and CPU beside the load, at times nobody chose. By the guide the longest latencies depend on services of the \
               system, and management tools read the drive's counters"
            .to_owned(),
        source: GUIDE.to_owned(),
        now: "systemctl stop the service while measuring".to_owned(),
        for_good: "systemctl disable it, or keep it off the drive (PRUNEPATHS in updatedb.conf)".to_owned(),
        price: "stale indexes; unseen malware or wear".to_owned(),
    }))
}

pub(super) fn schedules(machine: &Machine) -> Reading<Outcome> {
    let scheduled = machine.services.scheduled.clone()?;
    if scheduled.is_empty() {
        return Ok(Outcome::good("nothing is scheduled that is known to scan, trim or check"));
    }
    let names: Vec<&str> = scheduled.iter().map(String::as_str).collect();
    Ok(Outcome::found(Finding {
        severity: Severity::Note,
        what: format!("scheduled: {}", names.join(", ")),
        cost:
            "when their time comes they read, trim or check disks beside the load. The guide turns scheduled work off"
                .to_owned(),
        source: GUIDE.to_owned(),
        now: "systemctl list-timers says when; systemctl stop the timer for a long run".to_owned(),
        for_good: "systemctl mask the timer, or move its time".to_owned(),
        price: "what it was there for: trimmed space, found damage, fresh indexes".to_owned(),
    }))
}

pub(super) fn tuners(machine: &Machine) -> Reading<Outcome> {
    let running = machine.services.running.clone()?;
    let found: Vec<&str> = TUNERS.into_iter().filter(|name| running.contains(*name)).collect();
    if found.is_empty() {
        return Ok(none(machine, "no daemon is running that is known to change such settings"));
    }
    Ok(Outcome::found(Finding {
        severity: Severity::Note,
        what: format!("running: {}", found.join(", ")),
        cost:
            "it sets frequencies, preferences or links by rules of its own, and may set back what was changed by hand"
                .to_owned(),
        source: "the daemons' own documentation".to_owned(),
        now: "tuned: tuned-adm profile latency-performance; power-profiles-daemon: powerprofilesctl set performance"
            .to_owned(),
        for_good: "the same, or systemctl disable it and set what other findings say".to_owned(),
        price: "power".to_owned(),
    }))
}
