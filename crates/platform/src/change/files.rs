//! Where a setting stands: paths without links, and how a path of a record is known to be one of them.

use crate::lack::{Lack, Reading};
use crate::settings::device::{Device, sata_host};
use crate::settings::text::{is_numbered, members};
use crate::tree::Tree;

const CPUFREQ: &str = "/sys/devices/system/cpu/cpufreq";

/// The files of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Files {
    /// One, by its path.
    Machine(&'static str),
    /// One of each group of CPUs whose frequency is set together.
    Policies(&'static str),
    /// One in the folder `queue` of a device.
    Queue(&'static str),
    /// All those of the device's scheduler.
    Scheduler,
    /// One of the device's NVMe controller.
    Controller(&'static str),
    /// The policy of the SATA link.
    SataLink,
    /// Of each interrupt of the device's queues.
    Interrupts,
}

/// One file, with what belongs to it alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) path: String,
    pub(super) own: Option<String>,
}

impl Files {
    /// It belongs to a device.
    pub(super) fn is_of_device(self) -> bool {
        !matches!(self, Self::Machine(_) | Self::Policies(_))
    }

    /// The files that there are.
    ///
    /// # Errors
    /// Where there are none, and why.
    pub(super) fn places(self, tree: &Tree, device: Option<&Device>) -> Reading<Vec<Place>> {
        let plain = |path: String| Place { path, own: None };
        if let Self::Machine(path) = self {
            let resolved = tree.resolved(path)?;
            return Ok(vec![plain(resolved)]);
        }
        if let Self::Policies(file) = self {
            let names = tree.list(CPUFREQ, |name| is_numbered(name, "policy"))?.names;
            let paths = names.iter().map(|name| tree.resolved(&format!("{CPUFREQ}/{name}/{file}")).map(plain));
            // One that is not there keeps no other from being changed.
            let (found, missing): (Vec<_>, Vec<_>) = paths.partition(Result::is_ok);
            let paths: Vec<Place> = found.into_iter().flatten().collect();
            if let (true, Some(Err(lack))) = (paths.is_empty(), missing.into_iter().next()) {
                return Err(lack);
            }
            return if paths.is_empty() { Err(Lack::absent(&format!("{CPUFREQ}/policy*"))) } else { Ok(paths) };
        }
        let device = device.ok_or_else(|| Lack::unreadable("--device", "no device was named"))?;
        let one = |path: String| tree.resolved(&path).map(|path| vec![plain(path)]);
        match self {
            Self::Queue(file) => one(format!("{}/queue/{file}", device.path)),
            Self::Scheduler => {
                let folder = format!("{}/queue/iosched", device.path);
                let names = tree.list(&folder, |_| true)?.names;
                names.iter().map(|name| tree.resolved(&format!("{folder}/{name}")).map(plain)).collect()
            }
            Self::Controller(file) => {
                let folder =
                    device.controller.as_deref().ok_or_else(|| Lack::absent("an NVMe controller of the device"))?;
                one(format!("{folder}/{file}"))
            }
            Self::SataLink => {
                let host = sata_host(&device.path).ok_or_else(|| Lack::absent("a SATA link of the device"))?;
                one(format!("/sys/class/scsi_host/{host}/link_power_management_policy"))
            }
            _ => interrupts(tree, device),
        }
    }

    /// Whether a path may be one of them.
    pub(super) fn has(self, path: &str) -> bool {
        let below = |prefix: &str| path.strip_prefix(prefix);
        if path.split('/').skip(1).any(|name| matches!(name, "" | "." | "..")) {
            return false;
        }
        match self {
            Self::Machine(known) => path == known,
            Self::Policies(file) => below(CPUFREQ).is_some_and(|rest| {
                rest.strip_prefix('/')
                    .and_then(|rest| rest.split_once('/'))
                    .is_some_and(|(policy, name)| is_numbered(policy, "policy") && name == file)
            }),
            Self::Queue(file) => below("/sys/devices/").is_some_and(|rest| rest.ends_with(&format!("/queue/{file}"))),
            Self::Scheduler => below("/sys/devices/").is_some_and(|rest| {
                rest.rsplit_once('/').is_some_and(|(folder, _)| folder.ends_with("/queue/iosched"))
            }),
            Self::Controller(file) => below("/sys/devices/").is_some_and(|rest| rest.ends_with(&format!("/{file}"))),
            Self::SataLink => {
                below("/sys/devices/").is_some_and(|rest| rest.ends_with("/link_power_management_policy"))
            }
            Self::Interrupts => below("/proc/irq/")
                .and_then(|rest| rest.split_once('/'))
                .is_some_and(|(number, file)| is_numbered(number, "") && file == "smp_affinity_list"),
        }
    }
}

/// Interrupts of the device's queues, each with the next of the CPUs that are online.
fn interrupts(tree: &Tree, device: &Device) -> Reading<Vec<Place>> {
    const ONLINE: &str = "/sys/devices/system/cpu/online";
    let cpus: Vec<u64> = members(ONLINE, &tree.read(ONLINE)?)?.into_iter().collect();
    let numbers = device.interrupt_numbers.clone()?;
    if numbers.is_empty() || cpus.is_empty() {
        return Err(Lack::absent("an interrupt of the device's queues"));
    }
    let place = |(at, number): (usize, &String)| {
        let path = tree.resolved(&format!("/proc/irq/{number}/smp_affinity_list"))?;
        Ok(Place { path, own: Some(cpus[at % cpus.len()].to_string()) })
    };
    numbers.iter().enumerate().map(place).collect()
}
