//! The rules: each is a pure function from the settings that were read to a result.

mod cpu;
mod drive;
mod kernel;
mod link;
pub(crate) mod pool;
mod power;
mod queue;
mod services;
mod sleep;
mod wear;
mod words;

use crate::finding::Outcome;
use crate::lack::Reading;
use crate::machine::Machine;
use crate::settings::device::Device;
pub(crate) use words::{GUIDE, SYSFS_BLOCK};

/// A rule.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Its name.
    pub name: &'static str,
    /// What it judges, and how. If a setting that it needs was not read, its result is unknown.
    pub of: RuleOf,
}

/// The subject of a rule, with its function.
#[derive(Clone, Copy, Debug)]
pub enum RuleOf {
    /// A machine.
    Machine(fn(&Machine) -> Reading<Outcome>),
    /// A device in its machine.
    Device(fn(&Machine, &Device) -> Reading<Outcome>),
}

const fn machine(name: &'static str, judge: fn(&Machine) -> Reading<Outcome>) -> Rule {
    Rule { name, of: RuleOf::Machine(judge) }
}

const fn device(name: &'static str, judge: fn(&Machine, &Device) -> Reading<Outcome>) -> Rule {
    Rule { name, of: RuleOf::Device(judge) }
}

/// All rules, in the order in which they are reported.
pub const RULES: &[Rule] = &[
    machine("virtual-machine", kernel::virtual_machine),
    machine("governor", cpu::governor),
    machine("energy-preference", cpu::energy_preference),
    machine("turbo", cpu::turbo),
    machine("base-frequency", cpu::base_frequency),
    machine("frequency-cap", cpu::frequency_cap),
    machine("idle-states", cpu::idle_states),
    machine("smt", cpu::smt),
    machine("mitigations", cpu::mitigations),
    machine("vulnerable", cpu::vulnerable),
    machine("numa", kernel::numa),
    machine("numa-balancing", kernel::numa_balancing),
    machine("clock", kernel::clock),
    machine("command-line", kernel::command_line),
    machine("huge-pages", kernel::huge_pages),
    machine("swap", kernel::swap),
    machine("aspm-policy", kernel::aspm_policy),
    machine("nvme-sleep", kernel::nvme_sleep),
    machine("poll-queues", kernel::poll_queues),
    machine("array-check", kernel::array_check),
    machine("irq-balancing", services::irq_balancing),
    machine("scanners", services::scanners),
    machine("schedules", services::schedules),
    machine("tuners", services::tuners),
    machine("battery", power::battery),
    machine("platform-profile", power::platform_profile),
    machine("suspend", power::suspend),
    machine("usb-suspend", power::usb_suspend),
    device("stacked", drive::stacked),
    device("scheduler", queue::scheduler),
    device("write-throttling", queue::write_throttling),
    device("requests", queue::requests),
    device("completion-affinity", queue::completion_affinity),
    device("merges", queue::merges),
    device("statistics", queue::statistics),
    device("entropy", queue::entropy),
    device("polling", queue::polling),
    device("hardware-queues", queue::hardware_queues),
    device("interrupts", queue::interrupts),
    device("write-cache", queue::write_cache),
    device("cache-lie", queue::cache_lie),
    device("node", link::node),
    device("attachment", link::attachment),
    device("link-width", link::width),
    device("link-speed", link::speed),
    device("link-power", link::power_states),
    device("dma-translation", link::translation),
    device("power-state", sleep::power_state),
    device("drive-sleep", sleep::drive_sleep),
    device("sata-link-power", drive::sata_link),
    device("spin-down", sleep::spin_down),
    device("temperature", drive::temperature),
    device("wear", wear::wear),
];
