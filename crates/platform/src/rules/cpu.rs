//! CPUs: their frequencies, idle states, shared threads, and mitigations of vulnerabilities.

use super::words::{GUIDE, at_each_start, different, on_command_line};
use crate::finding::{Finding, Outcome, Severity};
use crate::lack::{Lack, Reading, optional, shown};
use crate::machine::Machine;
use crate::settings::cpu::Policy;

/// The lowest base frequency that the guide recommends.
const GOOD_BASE_KHZ: i64 = 3_000_000;
/// Greatest exit latency that counts as shallow: no longer than a system call.
const SHALLOW_US: i64 = 2;
const CPUFREQ: &str = "/sys/devices/system/cpu/cpufreq";

fn groups(machine: &Machine) -> Reading<&[Policy]> {
    let policies = machine.cpu.policies.as_ref().map_err(Clone::clone)?;
    if policies.is_empty() {
        return Err(Lack::unreadable(CPUFREQ, "the kernel sets no frequency here: firmware or a hypervisor does"));
    }
    Ok(policies)
}

pub(super) fn governor(machine: &Machine) -> Reading<Outcome> {
    let mut governors = Vec::new();
    for policy in groups(machine)? {
        let governor = policy.governor.clone()?;
        if governor.is_empty() || !governor.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            return Ok(Outcome::Unknown(format!("scaling_governor says {:?}", shown(&governor))));
        }
        governors.push(governor);
    }
    let others = different(governors.iter().filter(|governor| *governor != "performance"));
    if others.is_empty() {
        return Ok(Outcome::good("the frequency governor is performance"));
    }
    let others = others.iter().map(|governor| shown(governor)).collect::<Vec<_>>().join(", ");
    Ok(Outcome::found(Finding {
        severity: Severity::CostsLatency,
        what: format!("the frequency governor is {others}"),
        cost: "the CPU runs slower while it waits for the drive, so what follows takes longer. In the guide's ladder the governor \
               performance takes reads at depth 1 from a mean of 8.43 us to 8.16 us and their worst from 139 us to 77 us, \
               writes at depth 16 from 334 us to 119 us at p99.999"
            .to_owned(),
        source: format!("{GUIDE}; Linux, admin-guide/pm/cpufreq.rst"),
        now: format!("echo performance | tee {CPUFREQ}/policy*/scaling_governor"),
        for_good: on_command_line("cpufreq.default_governor=performance"),
        price: "more power and heat when idle".to_owned(),
    }))
}

pub(super) fn energy_preference(machine: &Machine) -> Reading<Outcome> {
    let mut found = Vec::new();
    for policy in groups(machine)? {
        if let Some(preference) = optional(&policy.preference)? {
            found.push(preference.clone());
        }
    }
    let others = different(found.iter().filter(|preference| !matches!(preference.as_str(), "performance" | "0")));
    if found.is_empty() {
        return Ok(Outcome::NotHere);
    }
    if others.is_empty() {
        return Ok(Outcome::good("the CPU is asked for performance rather than energy"));
    }
    let others = others.iter().map(|preference| shown(preference)).collect::<Vec<_>>().join(", ");
    Ok(Outcome::found(Finding {
        severity: Severity::CostsLatency,
        what: format!("the energy preference is {others}"),
        cost: "the CPU itself chooses lower frequencies, and is slower to raise them, the more the preference is for energy. \
               The guide's ladder has no row for it: it is what became of its P-states and power scheme"
            .to_owned(),
        source: "Linux, admin-guide/pm/intel_pstate.rst and amd-pstate.rst".to_owned(),
        now: format!("echo performance | tee {CPUFREQ}/policy*/energy_performance_preference"),
        for_good: at_each_start(&format!("{CPUFREQ}/policy*/energy_performance_preference"), "performance"),
        price: "more power and heat when idle".to_owned(),
    }))
}

pub(super) fn turbo(machine: &Machine) -> Reading<Outcome> {
    let (path, is_on) = match &machine.cpu.turbo {
        Ok(turbo) => turbo,
        Err(Lack::Absent { .. }) => {
            return Ok(Outcome::Unknown("no file of the kernel says whether turbo is on; the firmware may".to_owned()));
        }
        Err(lack) => return Err(lack.clone()),
    };
    if !is_on {
        return Ok(Outcome::good("turbo is off: the frequency does not depend on what other cores do"));
    }
    let base_khz = machine.cpu.base_khz.as_ref().ok().copied();
    let is_fast = base_khz.is_some_and(|khz| khz >= GOOD_BASE_KHZ);
    let base = base_khz.map_or("base frequency unknown".to_owned(), |khz| format!("base {:.1} GHz", khz as f64 / 1e6));
    let off = if path.ends_with("no_turbo") { "1" } else { "0" };
    Ok(Outcome::found(Finding {
        severity: if is_fast { Severity::CostsLatency } else { Severity::Note },
        what: format!("turbo is on ({base})"),
        cost: "the frequency changes with load, heat and neighbours, and so do latencies. In the guide's ladder reads at depth 1 \
               have p99 of 15 us with turbo, 11 us at a fixed 2.3 GHz and 9 us at a fixed 3.0 GHz; their mean goes from 7.96 us \
               to 9.2 us and 7.57 us: off is better where the base is 3.0 GHz or more, else it is the mean against the tail"
            .to_owned(),
        source: GUIDE.to_owned(),
        now: format!("echo {off} > {path}"),
        for_good: format!("{}; or the firmware's setup", at_each_start(path, off)),
        price: "less speed for everything that one core does alone".to_owned(),
    }))
}

pub(super) fn base_frequency(machine: &Machine) -> Reading<Outcome> {
    let base_khz = machine.cpu.base_khz.clone()?;
    let ghz = base_khz as f64 / 1e6;
    if base_khz >= GOOD_BASE_KHZ {
        return Ok(Outcome::good(format!("the base frequency is {ghz:.1} GHz")));
    }
    Ok(Outcome::found(Finding {
        severity: Severity::Note,
        what: format!("the base frequency is {ghz:.1} GHz"),
        cost: "the part of a latency that is not the drive's shrinks with frequency. The guide asks for 3.0 GHz or more; its \
               reads at depth 1 take 9.2 us at 2.3 GHz and 7.57 us at 3.0 GHz, turbo off"
            .to_owned(),
        source: GUIDE.to_owned(),
        now: "nothing but turbo".to_owned(),
        for_good: "another CPU".to_owned(),
        price: "fewer cores for the money".to_owned(),
    }))
}

pub(super) fn frequency_cap(machine: &Machine) -> Reading<Outcome> {
    let (mut capped, mut is_without_turbo) = (Vec::new(), false);
    let policies = groups(machine)?;
    let has_turbo = machine.cpu.turbo.as_ref().map_or(true, |(_, is_on)| *is_on);
    for policy in policies {
        let (max_khz, hardware_khz) = (policy.max_khz.clone()?, policy.hardware_max_khz.clone()?);
        if max_khz >= hardware_khz {
            continue;
        }
        // Without turbo some drivers still report the hardware's maximum, and not all report the real one.
        let can_khz = if has_turbo { hardware_khz } else { policy.base_khz.clone().unwrap_or(0) };
        is_without_turbo |= max_khz >= can_khz;
        if max_khz < can_khz {
            capped.push((max_khz, can_khz));
        }
    }
    let Some((max_khz, hardware_khz)) = capped.iter().min() else {
        return Ok(Outcome::good(match is_without_turbo {
            true => "frequencies are capped, as turbo is off",
            false => "no frequency is capped below what the hardware has",
        }));
    };
    Ok(Outcome::found(Finding {
        severity: Severity::CostsLatency,
        what: format!(
            "{} of {} frequencies are capped, down to {:.1} of {:.1} GHz",
            capped.len(),
            policies.len(),
            *max_khz as f64 / 1e6,
            *hardware_khz as f64 / 1e6
        ),
        cost:
            "whatever the governor asks for, the CPU goes no faster. The guide wants minimum and maximum state at 100 %"
                .to_owned(),
        source: format!("{GUIDE}; Linux, admin-guide/pm/cpufreq.rst"),
        now: format!("for p in {CPUFREQ}/policy*; do cat $p/cpuinfo_max_freq > $p/scaling_max_freq; done"),
        for_good: "find out who sets it: tlp, tuned, power-profiles-daemon, thermald or the firmware".to_owned(),
        price: "more power and heat under load".to_owned(),
    }))
}

pub(super) fn idle_states(machine: &Machine) -> Reading<Outcome> {
    let states = machine.cpu.idle.as_ref().map_err(Clone::clone)?;
    if states.is_empty() {
        return Ok(Outcome::Unknown(
            "the kernel lists no idle states of the CPUs: a hypervisor or the firmware decides how deep they sleep"
                .to_owned(),
        ));
    }
    let deep: Vec<String> = states
        .iter()
        .filter(|state| state.enabled > 0 && state.exit_latency_us > SHALLOW_US)
        .map(|state| {
            let share = if state.enabled < state.cpus {
                format!(", {} of {} CPUs", state.enabled, state.cpus)
            } else {
                String::new()
            };
            format!("{} ({} us to leave{share})", shown(&state.name), state.exit_latency_us)
        })
        .collect();
    if deep.is_empty() {
        return Ok(Outcome::good(format!("no CPU enters a state that takes more than {SHALLOW_US} us to leave")));
    }
    Ok(Outcome::found(Finding {
        severity: Severity::CostsLatency,
        what: format!("CPUs sleep as deep as {}", deep.join(", ")),
        cost: "who waits for an I/O lets its CPU sleep, and the time to wake up comes on top of it: of a drive that answers in \
               10 us the wait doubles with 10 us to leave. The times are the kernel's own. The guide turns all of them off. \
               What /dev/cpu_dma_latency forbids is not seen here"
            .to_owned(),
        source: format!("{GUIDE}; Linux, admin-guide/pm/cpuidle.rst"),
        now: "hold /dev/cpu_dma_latency open with a 0 in it while it matters (tuned's profile latency-performance does), or \
              echo 1 into cpuidle/state*/disable of each CPU"
            .to_owned(),
        for_good: on_command_line("processor.max_cstate=1 intel_idle.max_cstate=1 (AMD: the first alone)"),
        price: "much more power when idle, and less turbo, as sleeping cores leave it to others".to_owned(),
    }))
}

pub(super) fn smt(machine: &Machine) -> Reading<Outcome> {
    match machine.cpu.smt.clone()?.as_str() {
        "off" | "forceoff" | "notsupported" => Ok(Outcome::good("no two threads share a core")),
        "notimplemented" => Ok(Outcome::Unknown("this kernel does not say whether threads share cores".to_owned())),
        "on" => Ok(Outcome::found(Finding {
            severity: Severity::CostsLatency,
            what: "two threads share each core (hyper-threading, SMT)".to_owned(),
            cost: "while the other thread computes, this one has a part of the core, which shows in the slowest I/Os. The guide \
                   turns it off and gives no figure for it alone"
                .to_owned(),
            source: GUIDE.to_owned(),
            now: "echo off > /sys/devices/system/cpu/smt/control".to_owned(),
            for_good: on_command_line("nosmt"),
            price: "half of the CPUs that the system counts, and with them some throughput of what computes".to_owned(),
        })),
        other => Ok(Outcome::Unknown(format!("smt/control says {:?}", shown(other)))),
    }
}

fn with_word(machine: &Machine, word: &str) -> Reading<Vec<String>> {
    let all = machine.cpu.vulnerabilities.as_ref().map_err(Clone::clone)?;
    let of_word =
        all.iter().filter(|(_, text)| text.trim_start().starts_with(word) || text.contains(&format!(": {word}")));
    Ok(of_word.map(|(name, _)| shown(name)).collect())
}

pub(super) fn mitigations(machine: &Machine) -> Reading<Outcome> {
    let guarded = with_word(machine, "Mitigation")?;
    if guarded.is_empty() {
        return Ok(Outcome::good("no mitigation of a CPU's vulnerability is in effect"));
    }
    Ok(Outcome::found(Finding {
        severity: Severity::Note,
        what: format!("mitigations are in effect: {}", guarded.join(", ")),
        cost: "several of them make each call of the system and each switch between processes longer, and an I/O has some of \
               both. How much depends on the CPU: measure with and without. The guide is older than they are"
            .to_owned(),
        source: "Linux, admin-guide/hw-vuln/index.rst".to_owned(),
        now: "nothing: they are chosen at the start".to_owned(),
        for_good: on_command_line("mitigations=off"),
        price: "programs and guests may read each other's memory: only on a machine that runs nothing but its owner's programs"
            .to_owned(),
    }))
}

pub(super) fn vulnerable(machine: &Machine) -> Reading<Outcome> {
    let open = with_word(machine, "Vulnerable")?;
    if open.is_empty() {
        return Ok(Outcome::good("the kernel knows no vulnerability of the CPU that is open"));
    }
    Ok(Outcome::found(Finding {
        severity: Severity::Safety,
        what: format!("the CPU is open to {}", open.join(", ")),
        cost: "programs and guests may read memory that is not theirs. That may be wanted for speed (mitigations=off), or come \
               from old microcode"
            .to_owned(),
        source: "Linux, /sys/devices/system/cpu/vulnerabilities; admin-guide/hw-vuln/index.rst".to_owned(),
        now: "nothing: mitigations are chosen at the start".to_owned(),
        for_good: "new microcode (intel-microcode, amd64-microcode), and no mitigations=off on the command line".to_owned(),
        price: "longer calls of the system".to_owned(),
    }))
}
