//! The files of each setting: their paths without links, and how the path in a record is checked to be one of them.

use crate::lack::{Lack, Reading, shown};
use crate::settings::device::{Device, sata_host};
use crate::settings::text::{is_numbered, members, number};
use crate::tree::Tree;

const CPUFREQ: &str = "/sys/devices/system/cpu/cpufreq";
const INTEL: &str = "/sys/devices/system/cpu/intel_pstate";
/// Governors with settings of their own, in a folder of each policy or in one for all policies.
const GOVERNORS: [&str; 3] = ["conservative", "ondemand", "schedutil"];
/// A frequency in the hardware's list counts as the wanted one if it differs by at most this, in kHz.
const NEAR_KHZ: i64 = 50_000;

/// Which files a setting has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Files {
    /// One file, by its path.
    Machine(&'static str),
    /// One file for each group of CPUs whose frequency is set together.
    Policies(&'static str),
    /// The same, if the groups can be kept at a frequency without turbo.
    Fixed {
        /// Name of the file.
        file: &'static str,
        /// The frequency, in kHz.
        khz: i64,
    },
    /// All files of governors, in folders of groups or in one for all groups.
    Governors,
    /// The state of each process of this name.
    Process(&'static str),
    /// One file in the folder `queue` of a device.
    Queue(&'static str),
    /// All files of the device's scheduler.
    Scheduler,
    /// One file of the device's NVMe controller.
    Controller(&'static str),
    /// The policy of the SATA link.
    SataLink,
    /// The affinity of each interrupt of the device's queues.
    Interrupts,
}

/// One file, with the value that is wanted for it alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) path: String,
    pub(super) own: Option<String>,
}

impl Files {
    /// Whether the files belong to a device.
    pub(super) fn is_of_device(self) -> bool {
        !matches!(self, Self::Machine(_) | Self::Policies(_) | Self::Fixed { .. } | Self::Governors | Self::Process(_))
    }

    /// Whether the kernel may change a file along with another: it is in the same folder or below, such as one group
    /// of CPUs or one queue; the setting that disables turbo is above all groups, and some governors' settings apply
    /// to all groups.
    pub(super) fn go_together(cause: &str, path: &str) -> bool {
        let below = |folder: &str| path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
        let folder = cause.rsplit_once('/').map_or("", |(folder, _)| folder);
        let is_for_all = GOVERNORS.iter().any(|governor| below(&format!("{CPUFREQ}/{governor}")));
        below(folder) || folder == INTEL && below(CPUFREQ) || is_for_all && folder.starts_with(CPUFREQ)
    }

    /// The existing files of the setting.
    ///
    /// # Errors
    /// There are none; the error is the reason.
    pub(super) fn places(self, tree: &Tree, device: Option<&Device>) -> Reading<Vec<Place>> {
        let plain = |path: String| Place { path, own: None };
        if let Self::Machine(path) = self {
            let resolved = tree.resolved(path)?;
            return Ok(vec![plain(resolved)]);
        }
        match self {
            Self::Policies(file) => return policies(tree, file, |_, _| Ok(None)),
            Self::Fixed { file, khz } => {
                return policies(tree, file, |tree, policy| kept_at(tree, policy, khz).map(Some));
            }
            Self::Governors => return governors(tree),
            Self::Process(name) => {
                return Ok(super::process::of_name(tree, name)?.into_iter().map(plain).collect());
            }
            _ => {}
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

    /// Whether a path may belong to one of the files.
    pub(super) fn has(self, path: &str) -> bool {
        let below = |prefix: &str| path.strip_prefix(prefix);
        if path.split('/').skip(1).any(|name| matches!(name, "" | "." | "..")) {
            return false;
        }
        match self {
            Self::Machine(known) => path == known,
            Self::Process(_) => super::process::number(path).is_some(),
            Self::Governors => below(CPUFREQ).is_some_and(|rest| {
                let names: Vec<&str> = rest.split('/').skip(1).collect();
                match names[..] {
                    [governor, _] => GOVERNORS.contains(&governor),
                    [policy, governor, _] => is_numbered(policy, "policy") && GOVERNORS.contains(&governor),
                    _ => false,
                }
            }),
            Self::Policies(file) | Self::Fixed { file, .. } => below(CPUFREQ).is_some_and(|rest| {
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

/// A file of each group of CPUs, with the value that is wanted for it.
fn policies(tree: &Tree, file: &str, own: impl Fn(&Tree, &str) -> Reading<Option<String>>) -> Reading<Vec<Place>> {
    let names = tree.list(CPUFREQ, |name| is_numbered(name, "policy"))?.names;
    let place = |name: &String| {
        let folder = format!("{CPUFREQ}/{name}");
        Ok(Place { path: tree.resolved(&format!("{folder}/{file}"))?, own: own(tree, &folder)? })
    };
    // A missing file does not prevent the others from being changed.
    let (found, missing): (Vec<_>, Vec<_>) = names.iter().map(place).partition(Result::is_ok);
    let found: Vec<Place> = found.into_iter().flatten().collect();
    match missing.into_iter().next() {
        Some(Err(lack)) if found.is_empty() => Err(lack),
        _ if found.is_empty() => Err(Lack::absent(&format!("{CPUFREQ}/policy*"))),
        _ => Ok(found),
    }
}

/// The value that keeps a group of CPUs at a frequency without turbo.
fn kept_at(tree: &Tree, policy: &str, khz: i64) -> Reading<String> {
    let file = |name: &str| format!("{policy}/{name}");
    let ghz = |khz: i64| format!("{:.1} GHz", khz as f64 / 1e6);
    let listed = file("scaling_available_frequencies");
    if let Ok(text) = tree.read(&listed) {
        let near = text.split_whitespace().filter_map(|word| word.parse::<i64>().ok());
        let near = near.filter(|other| (other - khz).abs() <= NEAR_KHZ).min_by_key(|other| (other - khz).abs());
        let none = || Lack::unreadable(&listed, format!("{} is not among {}", ghz(khz), shown(&text)));
        return near.map(|khz| khz.to_string()).ok_or_else(none);
    }
    let most = match number(tree, &file("base_frequency")) {
        Err(Lack::Absent { .. }) => number(tree, &file("cpuinfo_max_freq"))?,
        other => other?,
    };
    let least = number(tree, &file("cpuinfo_min_freq"))?;
    if (least..=most).contains(&khz) {
        return Ok(khz.to_string());
    }
    Err(Lack::unreadable(policy, format!("{} is not between {} and {}", ghz(khz), ghz(least), ghz(most))))
}

/// The settings of governors: those of each group, and those for all groups.
fn governors(tree: &Tree) -> Reading<Vec<Place>> {
    let groups = tree.list(CPUFREQ, |name| is_numbered(name, "policy"))?.names;
    let folders = groups.iter().map(|name| format!("{CPUFREQ}/{name}")).chain([CPUFREQ.to_owned()]);
    let mut places = Vec::new();
    for folder in folders {
        for governor in tree.list(&folder, |name| GOVERNORS.contains(&name))?.names {
            let folder = format!("{folder}/{governor}");
            for name in tree.list(&folder, |_| true)?.names {
                places.push(Place { path: tree.resolved(&format!("{folder}/{name}"))?, own: None });
            }
        }
    }
    Ok(places)
}

/// The interrupts of the device's queues; each gets the next of the online CPUs.
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
