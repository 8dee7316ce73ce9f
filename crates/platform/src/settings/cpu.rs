//! CPUs: frequency, turbo, threads, idle states, vulnerabilities.

use super::text::{is_numbered, members, number, parsed_number};
use crate::lack::{Lack, Reading};
use crate::tree::Tree;
use std::collections::BTreeMap;

const CPUS: &str = "/sys/devices/system/cpu";
/// Longest text read of `/proc/cpuinfo`, which repeats nearly the same for every CPU.
const CPUINFO_BYTES_MAX: usize = 16 << 20;

/// The CPUs of a machine.
#[derive(Clone, Debug)]
pub struct Cpu {
    /// Vendor and model, and whether a hypervisor provides them.
    pub identity: Reading<Identity>,
    /// Number of online CPUs.
    pub online: Reading<usize>,
    /// Groups of CPUs whose frequency is set together; empty if the kernel sets none.
    pub policies: Reading<Vec<Policy>>,
    /// Path of the file that allows turbo, and whether it does.
    pub turbo: Reading<(String, bool)>,
    /// `on`, `off`, `forceoff`, `notsupported` or `notimplemented`.
    pub smt: Reading<String>,
    /// Idle states, for all CPUs together; empty if the kernel knows none.
    pub idle: Reading<Vec<IdleState>>,
    /// The guaranteed frequency without turbo, in kHz.
    pub base_khz: Reading<i64>,
    /// The kernel's text on each vulnerability: name and text.
    pub vulnerabilities: Reading<Vec<(String, String)>>,
}

/// Facts from `/proc/cpuinfo`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Such as `GenuineIntel`; empty if not reported.
    pub vendor: String,
    /// Such as `AMD EPYC 9354`.
    pub model: String,
    /// Whether the CPU reports that a hypervisor provides it.
    pub is_virtual: bool,
}

/// CPUs whose frequency is set together.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Such as `policy0`.
    pub name: String,
    /// Such as `performance`.
    pub governor: Reading<String>,
    /// Such as `intel_pstate`.
    pub driver: Reading<String>,
    /// Preference between energy and performance.
    pub preference: Reading<String>,
    /// Highest frequency that the governor may choose, in kHz.
    pub max_khz: Reading<i64>,
    /// Highest frequency of the hardware, in kHz.
    pub hardware_max_khz: Reading<i64>,
    /// Highest frequency without turbo, in kHz; only some drivers report it.
    pub base_khz: Reading<i64>,
}

/// An idle state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdleState {
    /// Such as `C6`.
    pub name: String,
    /// Time to leave it, in microseconds.
    pub exit_latency_us: i64,
    /// Number of CPUs that may enter it.
    pub enabled: usize,
    /// Number of CPUs that have it.
    pub cpus: usize,
}

impl Cpu {
    /// Reads all settings of the CPUs.
    pub fn read(tree: &Tree) -> Self {
        Self {
            identity: identity(tree),
            online: tree.read(&format!("{CPUS}/online")).and_then(|text| Ok(members(CPUS, &text)?.len())),
            policies: policies(tree),
            turbo: turbo(tree),
            smt: tree.read(&format!("{CPUS}/smt/control")),
            idle: idle(tree),
            base_khz: base_khz(tree),
            vulnerabilities: vulnerabilities(tree),
        }
    }
}

fn identity(tree: &Tree) -> Reading<Identity> {
    let text = tree.read_kept("/proc/cpuinfo", CPUINFO_BYTES_MAX, kept_of_cpuinfo)?;
    let field = |name: &str| {
        let of =
            |line: &str| line.split_once(':').filter(|(key, _)| key.trim() == name).map(|(_, v)| v.trim().to_owned());
        text.lines().find_map(of).unwrap_or_default()
    };
    let is_virtual = field("flags").split_whitespace().any(|flag| flag == "hypervisor");
    Ok(Identity { vendor: field("vendor_id"), model: field("model name"), is_virtual })
}

/// Keeps the vendor, the model and the one flag that rules use, of the first CPU.
fn kept_of_cpuinfo(text: &str) -> Option<String> {
    let mut kept = Vec::new();
    for line in text.lines().take_while(|line| !line.trim().is_empty()) {
        let Some((key, value)) = line.split_once(':') else { continue };
        match key.trim() {
            "vendor_id" | "model name" => kept.push(format!("{}: {}", key.trim(), value.trim())),
            "flags" => {
                let flag = value.split_whitespace().find(|flag| *flag == "hypervisor").unwrap_or("");
                kept.push(format!("flags: {flag}").trim_end().to_owned());
            }
            _ => {}
        }
    }
    Some(kept.join("\n"))
}

fn policies(tree: &Tree) -> Reading<Vec<Policy>> {
    let folder = format!("{CPUS}/cpufreq");
    let listing = match tree.list(&folder, |name| is_numbered(name, "policy")) {
        Ok(listing) => listing,
        Err(Lack::Absent { .. }) => return Ok(Vec::new()),
        Err(lack) => return Err(lack),
    };
    let read = |name: String| {
        let at = |file: &str| format!("{folder}/{name}/{file}");
        Policy {
            governor: tree.read(&at("scaling_governor")),
            driver: tree.read(&at("scaling_driver")),
            preference: tree.read(&at("energy_performance_preference")),
            max_khz: number(tree, &at("scaling_max_freq")),
            hardware_max_khz: number(tree, &at("cpuinfo_max_freq")),
            base_khz: number(tree, &at("base_frequency")),
            name,
        }
    };
    Ok(listing.names.into_iter().map(read).collect())
}

fn turbo(tree: &Tree) -> Reading<(String, bool)> {
    let intel = format!("{CPUS}/intel_pstate/no_turbo");
    match number(tree, &intel) {
        Ok(no_turbo) => return Ok((intel, no_turbo == 0)),
        Err(Lack::Absent { .. }) => {}
        Err(lack) => return Err(lack),
    }
    let boost = format!("{CPUS}/cpufreq/boost");
    number(tree, &boost).map(|is_on| (boost, is_on != 0))
}

fn base_khz(tree: &Tree) -> Reading<i64> {
    match number(tree, &format!("{CPUS}/cpufreq/policy0/base_frequency")) {
        Err(Lack::Absent { .. }) => {
            let nominal_mhz = number(tree, &format!("{CPUS}/cpu0/acpi_cppc/nominal_freq"))?;
            Ok(nominal_mhz.saturating_mul(1000))
        }
        other => other,
    }
}

fn idle(tree: &Tree) -> Reading<Vec<IdleState>> {
    let mut states: BTreeMap<(i64, String), IdleState> = BTreeMap::new();
    for cpu in tree.list(CPUS, |name| is_numbered(name, "cpu"))?.names {
        let folder = format!("{CPUS}/{cpu}/cpuidle");
        let Ok(listing) = tree.list(&folder, |name| is_numbered(name, "state")) else { continue };
        let tolerated_us = tolerated_us(tree, &cpu)?;
        for state in listing.names {
            let at = |file: &str| format!("{folder}/{state}/{file}");
            let name = tree.read(&at("name"))?;
            let exit_latency_us = number(tree, &at("latency"))?;
            let is_enabled =
                number(tree, &at("disable"))? == 0 && tolerated_us.is_none_or(|most_us| exit_latency_us <= most_us);
            let known = states.entry((exit_latency_us, name.clone())).or_insert(IdleState {
                name,
                exit_latency_us,
                enabled: 0,
                cpus: 0,
            });
            known.cpus += 1;
            known.enabled += usize::from(is_enabled);
        }
    }
    Ok(states.into_values().collect())
}

/// The requested limit of the exit latency on this CPU: 0 means no limit, `n/a` means that no latency is tolerated.
fn tolerated_us(tree: &Tree, cpu: &str) -> Reading<Option<i64>> {
    let path = format!("{CPUS}/{cpu}/power/pm_qos_resume_latency_us");
    match tree.read(&path) {
        Ok(text) if text.trim() == "n/a" => Ok(Some(0)),
        Ok(text) => Ok(Some(parsed_number(&path, &text)?).filter(|&wish_us| wish_us > 0)),
        Err(Lack::Absent { .. }) => Ok(None),
        Err(lack) => Err(lack),
    }
}

fn vulnerabilities(tree: &Tree) -> Reading<Vec<(String, String)>> {
    let folder = format!("{CPUS}/vulnerabilities");
    let names = tree.list(&folder, |_| true)?.names;
    names.into_iter().map(|name| Ok((name.clone(), tree.read(&format!("{folder}/{name}"))?))).collect()
}
