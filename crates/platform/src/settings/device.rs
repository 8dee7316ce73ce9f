//! A block device: its queue, its interrupts, its place in PCI.

use super::answers::{Answers, Ask};
use super::pci::Pci;
use super::text::{is_numbered, members, number};
use crate::lack::{Lack, Reading};
use crate::tree::{LARGE_FILE_BYTES_MAX, Tree};
use std::collections::{BTreeMap, BTreeSet};

/// Files of the folder `queue` that rules use.
const QUEUE: [&str; 10] = [
    "add_random",
    "io_poll",
    "iostats",
    "nomerges",
    "nr_requests",
    "rotational",
    "rq_affinity",
    "scheduler",
    "wbt_lat_usec",
    "write_cache",
];

/// A block device.
#[derive(Clone, Debug)]
pub struct Device {
    /// Such as `nvme0n1`.
    pub name: String,
    /// Its folder below `/sys`, without links.
    pub path: String,
    queue: BTreeMap<&'static str, Reading<String>>,
    /// Devices of which it consists, as with dm and md.
    pub parts: Reading<Vec<String>>,
    /// CPUs of each of its hardware queues.
    pub hardware_queues: Reading<Vec<String>>,
    /// Numbers of the interrupts of its queues.
    pub interrupt_numbers: Reading<Vec<String>>,
    /// The CPUs to which each of them is delivered.
    pub interrupts: Reading<Vec<BTreeSet<u64>>>,
    /// Its place in PCI; `None` if it has none.
    pub pci: Option<Pci>,
    /// Folder of the NVMe controller; `None` for other devices.
    pub controller: Option<String>,
    /// Latency that its sleep may cost: a number of microseconds, `any` or `auto`.
    pub tolerance: Reading<String>,
    /// The cache type that a SCSI or ATA disk reports.
    pub scsi_cache: Reading<String>,
    /// `auto` if the disk may be suspended when idle.
    pub runtime_power: Reading<String>,
    /// Idle time in milliseconds before it is suspended; negative for never.
    pub suspend_delay_ms: Reading<i64>,
    /// How the SATA link saves power.
    pub sata_link_policy: Reading<String>,
    /// Temperature and warning temperature, in thousandths of a degree Celsius.
    pub temperature_mc: Reading<(i64, i64)>,
    /// Its answers to commands.
    pub answers: Reading<Answers>,
}

impl Device {
    /// Reads the device of this name; for a partition, its disk. `asker`, if any, asks the drive for facts that no
    /// file shows.
    ///
    /// # Errors
    /// There is no such device.
    pub fn read(tree: &Tree, name: &str, asker: Option<&dyn Ask>) -> Reading<Self> {
        let mut path = tree.resolved(&format!("/sys/class/block/{name}"))?;
        if tree.read(&format!("{path}/partition")).is_ok() {
            path.truncate(path.rfind('/').unwrap_or(path.len()));
        }
        let name = path.rsplit('/').next().unwrap_or(name).to_owned();
        let at = |file: &str| format!("{path}/{file}");
        let controller = controller(tree, &path);
        let hardware = controller.clone().unwrap_or_else(|| path.clone());
        let tolerance = match &controller {
            Some(folder) => tree.read(&format!("{folder}/power/pm_qos_latency_tolerance_us")),
            None => Err(Lack::absent("power/pm_qos_latency_tolerance_us")),
        };
        Ok(Self {
            queue: QUEUE.map(|file| (file, tree.read(&at(&format!("queue/{file}"))))).into(),
            parts: parts(tree, &path),
            hardware_queues: hardware_queues(tree, &path, controller.as_deref()),
            interrupts: interrupt_numbers(tree, &hardware).and_then(|numbers| interrupts(tree, &numbers)),
            interrupt_numbers: interrupt_numbers(tree, &hardware),
            pci: Pci::read(tree, &hardware),
            tolerance,
            scsi_cache: scsi_cache(tree, &path),
            runtime_power: tree.read(&at("device/power/control")),
            suspend_delay_ms: number(tree, &at("device/power/autosuspend_delay_ms")),
            sata_link_policy: sata_link_policy(tree, &path),
            temperature_mc: temperature_mc(tree, &path, controller.as_deref()),
            answers: Answers::of(tree, &name, asker),
            controller,
            name,
            path,
        })
    }

    /// The text of a file in the folder `queue`.
    ///
    /// # Errors
    /// The file could not be read.
    pub fn queue(&self, file: &str) -> Reading<String> {
        let unread = || Err(Lack::absent(&format!("{}/queue/{file}", self.path)));
        self.queue.get(file).cloned().unwrap_or_else(unread)
    }

    /// The number in a file of the folder `queue`.
    ///
    /// # Errors
    /// The file could not be read, or is not a number.
    pub fn queue_number(&self, file: &str) -> Reading<i64> {
        super::text::parsed_number(&format!("{}/queue/{file}", self.path), &self.queue(file)?)
    }

    /// Whether it rotates; `false` if not reported.
    pub fn is_rotational(&self) -> bool {
        self.queue("rotational").is_ok_and(|text| text == "1")
    }

    /// Whether it is an NVMe namespace.
    pub fn is_nvme(&self) -> bool {
        self.controller.is_some()
    }

    /// Whether it is a virtio disk.
    pub fn is_virtio(&self) -> bool {
        self.path.split('/').any(|name| is_numbered(name, "virtio"))
    }

    /// Whether it consists of other devices.
    pub fn is_stacked(&self) -> bool {
        self.parts.as_ref().is_ok_and(|parts| !parts.is_empty())
    }
}

/// Names of the disks, without memory disks, images and removable drives.
///
/// # Errors
/// The folder of block devices cannot be listed.
pub fn disks(tree: &Tree) -> Reading<Vec<String>> {
    const BLOCK: &str = "/sys/class/block";
    let is_disk = |name: &str| !["loop", "ram", "zram", "fd", "sr"].iter().any(|prefix| is_numbered(name, prefix));
    let mut names = tree.list(BLOCK, is_disk)?.names;
    names.retain(|name| tree.read(&format!("{BLOCK}/{name}/partition")).is_err());
    Ok(names)
}

/// The folder of the controller of a namespace. With several paths the disk is below a subsystem that lists its
/// controllers; the first of them is used.
fn controller(tree: &Tree, path: &str) -> Option<String> {
    let above = tree.resolved(&format!("{path}/device")).ok()?;
    let name = above.rsplit('/').next()?;
    if is_numbered(name, "nvme") {
        return Some(above);
    }
    if !is_numbered(name, "nvme-subsys") {
        return None;
    }
    let first = tree.list(&above, |name| is_numbered(name, "nvme")).ok()?.names.into_iter().next()?;
    tree.resolved(&format!("{above}/{first}")).ok()
}

fn parts(tree: &Tree, path: &str) -> Reading<Vec<String>> {
    tree.list_for_names(&format!("{path}/slaves"), |_| true).map(|listing| listing.names)
}

fn hardware_queues(tree: &Tree, path: &str, controller: Option<&str>) -> Reading<Vec<String>> {
    let mut folder = format!("{path}/mq");
    if let (Err(Lack::Absent { .. }), Some(controller)) = (tree.resolved(&folder), controller) {
        // With several paths, each has a hidden disk such as nvme0c0n1, which has the queues.
        let hidden = tree.list(controller, |name| name.starts_with("nvme") && name.contains('c'))?;
        let Some(first) = hidden.names.first() else { return Err(Lack::absent(&folder)) };
        folder = format!("{controller}/{first}/mq");
    }
    let names = tree.list(&folder, |name| is_numbered(name, ""))?.names;
    names.iter().map(|name| tree.read(&format!("{folder}/{name}/cpu_list"))).collect()
}

/// How the names of the device's queue interrupts begin in `/proc/interrupts`.
fn interrupt_prefix(path: &str) -> Option<String> {
    let name = path.rsplit('/').find(|name| is_numbered(name, "nvme") || is_numbered(name, "virtio"))?;
    Some(if name.starts_with("nvme") { format!("{name}q") } else { format!("{name}-req.") })
}

/// An interrupt of a queue of an NVMe drive or a virtio disk: its number and its name.
fn queue_interrupt(line: &str) -> Option<(&str, &str)> {
    let (number, rest) = line.trim().split_once(':')?;
    let name = rest.split_whitespace().last()?;
    let is_nvme = name.strip_prefix("nvme").and_then(|rest| rest.split_once('q')).is_some_and(|(drive, queue)| {
        // Queue 0 is for administrative commands.
        is_numbered(drive, "") && is_numbered(queue, "") && queue != "0"
    });
    let is_virtio = name.strip_prefix("virtio").and_then(|rest| rest.split_once("-req.")).is_some();
    (is_numbered(number, "") && (is_nvme || is_virtio)).then_some((number, name))
}

fn interrupt_numbers(tree: &Tree, path: &str) -> Reading<Vec<String>> {
    const INTERRUPTS: &str = "/proc/interrupts";
    let keep = |text: &str| {
        let lines = text.lines().filter_map(queue_interrupt).map(|(number, name)| format!("{number}: {name}"));
        Some(lines.collect::<Vec<_>>().join("\n"))
    };
    let text = tree.read_kept(INTERRUPTS, LARGE_FILE_BYTES_MAX, keep)?;
    let Some(prefix) = interrupt_prefix(path) else { return Ok(Vec::new()) };
    let of_device = text.lines().filter_map(queue_interrupt).filter(|(_, name)| is_numbered(name, &prefix));
    Ok(of_device.map(|(number, _)| number.to_owned()).collect())
}

fn interrupts(tree: &Tree, numbers: &[String]) -> Reading<Vec<BTreeSet<u64>>> {
    let mut found = Vec::new();
    for number in numbers {
        let effective = format!("/proc/irq/{number}/effective_affinity_list");
        let list = match tree.read(&effective) {
            Err(Lack::Absent { .. }) => tree.read(&format!("/proc/irq/{number}/smp_affinity_list"))?,
            other => other?,
        };
        found.push(members(&effective, &list)?);
    }
    Ok(found)
}

fn scsi_cache(tree: &Tree, path: &str) -> Reading<String> {
    let folder = format!("{path}/device/scsi_disk");
    let names = tree.list(&folder, |_| true)?.names;
    let first = names.first().ok_or_else(|| Lack::absent(&folder))?;
    tree.read(&format!("{folder}/{first}/cache_type"))
}

/// The SCSI host in the path of a disk, such as `host0`; `None` if there is none.
pub fn sata_host(path: &str) -> Option<&str> {
    path.split('/').find(|name| is_numbered(name, "host"))
}

fn sata_link_policy(tree: &Tree, path: &str) -> Reading<String> {
    let host = sata_host(path).ok_or_else(|| Lack::absent("link_power_management_policy"))?;
    tree.read(&format!("/sys/class/scsi_host/{host}/link_power_management_policy"))
}

fn temperature_mc(tree: &Tree, path: &str, controller: Option<&str>) -> Reading<(i64, i64)> {
    let mut folders = vec![format!("{path}/device/hwmon")];
    folders.extend(controller.iter().flat_map(|folder| [format!("{folder}/hwmon"), (*folder).to_owned()]));
    for folder in folders {
        let Ok(listing) = tree.list(&folder, |name| is_numbered(name, "hwmon")) else { continue };
        if let Some(first) = listing.names.first() {
            let now_mc = number(tree, &format!("{folder}/{first}/temp1_input"))?;
            return Ok((now_mc, number(tree, &format!("{folder}/{first}/temp1_max"))?));
        }
    }
    Err(Lack::absent(&format!("{path}/device/hwmon")))
}
