//! The kernel as a whole: command line, clock, memory, nodes, swap, parameters of its drivers.

use super::text::{chosen, is_numbered, number};
use crate::lack::{Lack, Reading};
use crate::tree::{FILE_BYTES_MAX, Tree};

/// Parameters of the command line that rules use; others are neither reported nor captured.
const PARAMETERS: [&str; 25] = [
    "amd_pstate",
    "clocksource",
    "cpufreq.default_governor",
    "cpuidle.off",
    "idle",
    "init_on_alloc",
    "init_on_free",
    "intel_idle.max_cstate",
    "intel_iommu",
    "intel_pstate",
    "iommu",
    "iommu.passthrough",
    "iommu.strict",
    "irqaffinity",
    "isolcpus",
    "mitigations",
    "nohz",
    "nohz_full",
    "nosmt",
    "nvme.poll_queues",
    "pcie_aspm",
    "pcie_aspm.policy",
    "processor.max_cstate",
    "slub_debug",
    "threadirqs",
];

/// The kernel's own settings.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Parameters of the command line that rules use.
    pub command_line: Reading<Vec<String>>,
    /// Its release, such as `6.12.9`.
    pub release: Reading<String>,
    /// The clock source in use.
    pub clock: Reading<String>,
    /// The available clock sources.
    pub clocks: Reading<String>,
    /// Whether huge pages are created without a request: `always`, `madvise` or `never`.
    pub huge_pages: Reading<String>,
    /// Which allocations of huge pages wait for compaction.
    pub huge_pages_defrag: Reading<String>,
    /// Kinds of swap areas.
    pub swap: Reading<Vec<String>>,
    /// Number of NUMA nodes with memory or CPUs.
    pub nodes: Reading<usize>,
    /// NUMA balancing: not 0 if the kernel unmaps pages to observe which node uses them.
    pub numa_balancing: Reading<i64>,
    /// Policy for the power states of PCIe links.
    pub aspm_policy: Reading<String>,
    /// Number of polled queues of NVMe drives.
    pub nvme_poll_queues: Reading<i64>,
    /// Latency up to which NVMe drives may enter power states by themselves, in microseconds.
    pub nvme_sleep_latency_us: Reading<i64>,
    /// Arrays of md that are being checked or rebuilt.
    pub array_work: Reading<Vec<String>>,
    /// Maker of the machine, according to its firmware.
    pub maker: Reading<String>,
    /// Kind of hypervisor, if reported.
    pub hypervisor: Reading<String>,
}

impl Kernel {
    /// Reads all settings of the kernel.
    pub fn read(tree: &Tree) -> Self {
        let choice = |path: &str| tree.read(path).and_then(|text| chosen(path, &text));
        Self {
            command_line: command_line(tree),
            release: tree.read("/proc/sys/kernel/osrelease"),
            clock: tree.read("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
            clocks: tree.read("/sys/devices/system/clocksource/clocksource0/available_clocksource"),
            huge_pages: choice("/sys/kernel/mm/transparent_hugepage/enabled"),
            huge_pages_defrag: choice("/sys/kernel/mm/transparent_hugepage/defrag"),
            swap: swap(tree),
            nodes: nodes(tree),
            numa_balancing: number(tree, "/proc/sys/kernel/numa_balancing"),
            aspm_policy: choice("/sys/module/pcie_aspm/parameters/policy"),
            nvme_poll_queues: number(tree, "/sys/module/nvme/parameters/poll_queues"),
            nvme_sleep_latency_us: number(tree, "/sys/module/nvme_core/parameters/default_ps_max_latency_us"),
            array_work: array_work(tree),
            maker: tree.read("/sys/class/dmi/id/sys_vendor"),
            hypervisor: tree.read("/sys/hypervisor/type"),
        }
    }
}

/// The name of a parameter; the kernel treats `-` and `_` in it alike.
fn parameter(word: &str) -> String {
    word.split('=').next().unwrap_or(word).replace('-', "_")
}

fn command_line(tree: &Tree) -> Reading<Vec<String>> {
    let keep = |text: &str| {
        let kept = words(text).into_iter().filter(|word| PARAMETERS.contains(&parameter(word).as_str()));
        Some(kept.collect::<Vec<_>>().join(" "))
    };
    let text = tree.read_kept("/proc/cmdline", FILE_BYTES_MAX, keep)?;
    Ok(words(&text))
}

/// The words of a command line as the kernel splits them (`next_arg`, lib/cmdline.c): not at spaces between quotes.
/// Quotes around a value without spaces have no effect and are removed.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let (mut word, mut is_quoted) = (String::new(), false);
    for letter in text.chars().chain([' ']) {
        if letter == '"' {
            is_quoted = !is_quoted;
        }
        if letter.is_whitespace() && !is_quoted {
            if !word.contains(char::is_whitespace) {
                word.retain(|letter| letter != '"');
            }
            if !word.is_empty() {
                words.push(std::mem::take(&mut word));
            }
        } else {
            word.push(letter);
        }
    }
    // An unclosed quote extends to the end.
    if !word.trim().is_empty() {
        words.push(word.trim_end().to_owned());
    }
    words
}

fn swap(tree: &Tree) -> Reading<Vec<String>> {
    // Names of swap files may contain people's names: the kind of each is kept, and its name only if it is in memory.
    let keep = |text: &str| {
        let line = |line: &str| {
            let mut words = line.split_whitespace();
            let (name, kind) = (words.next()?, words.next()?);
            let name = if name.starts_with("/dev/zram") { "/dev/zram" } else { "-" };
            Some(format!("{name} {kind}"))
        };
        let kept: Vec<String> = text.lines().filter(|line| !line.starts_with("Filename")).filter_map(line).collect();
        Some([vec!["Filename Type".to_owned()], kept].concat().join("\n"))
    };
    let text = tree.read_kept("/proc/swaps", FILE_BYTES_MAX, keep)?;
    let kind = |line: &str| {
        let (name, kind) = line.split_once(' ')?;
        Some(if name == "/dev/zram" { "zram".to_owned() } else { kind.to_owned() })
    };
    Ok(text.lines().skip(1).filter_map(kind).collect())
}

/// Whether the tree has the files that every machine has.
fn is_machine(tree: &Tree) -> bool {
    tree.list("/sys/devices/system", |name| name == "cpu").is_ok_and(|found| !found.names.is_empty())
}

fn nodes(tree: &Tree) -> Reading<usize> {
    match tree.list_for_names("/sys/devices/system/node", |name| is_numbered(name, "node")) {
        Ok(listing) => Ok(listing.names.len().max(1)),
        // A kernel without NUMA; a tree without any file of a machine says nothing.
        Err(lack @ Lack::Absent { .. }) => {
            if is_machine(tree) {
                Ok(1)
            } else {
                Err(lack)
            }
        }
        Err(lack) => Err(lack),
    }
}

fn array_work(tree: &Tree) -> Reading<Vec<String>> {
    let listing = match tree.list("/sys/class/block", |name| is_numbered(name, "md")) {
        Ok(listing) => listing,
        // A machine without block devices; a tree without any file of a machine says nothing.
        Err(lack @ Lack::Absent { .. }) => {
            return if is_machine(tree) { Ok(Vec::new()) } else { Err(lack) };
        }
        Err(lack) => return Err(lack),
    };
    let work = |name: String| {
        let action = tree.read(&format!("/sys/class/block/{name}/md/sync_action")).ok()?;
        (action != "idle" && action != "frozen").then(|| format!("{name} ({action})"))
    };
    Ok(listing.names.into_iter().filter_map(work).collect())
}
