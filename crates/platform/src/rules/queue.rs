//! The queue of a block device in the kernel.

use super::words::{GUIDE, SYSFS_BLOCK, by_udev};
use crate::finding::{Finding, Outcome, Severity};
use crate::lack::{Lack, Reading, optional, shown};
use crate::machine::Machine;
use crate::settings::device::Device;
use crate::settings::text::chosen;
use std::collections::BTreeSet;

/// The guide's greatest queue depth.
const DEEP: i64 = 32;

fn write_now(device: &Device, file: &str, value: &str) -> String {
    format!("echo {value} > /sys/block/{}/queue/{file}", device.name)
}

/// A number of the queue; `None` if the kernel has no such file.
fn number(device: &Device, file: &str) -> Reading<Option<i64>> {
    Ok(optional(&device.queue_number(file))?.copied())
}

pub(super) fn scheduler(_: &Machine, device: &Device) -> Reading<Outcome> {
    if device.is_stacked() {
        return Ok(Outcome::NotHere);
    }
    let (path, text) = (format!("{}/queue/scheduler", device.path), device.queue("scheduler")?);
    let scheduler = chosen(&path, &text)?;
    // The kernel marks its choice, even if it is the only one, except if there is no scheduler at all.
    if scheduler != "none" && !text.contains('[') {
        return Err(Lack::unreadable(&path, format!("no choice is marked in {:?}", shown(&text))));
    }
    if scheduler == "none" {
        return Ok(Outcome::good("no scheduler sorts its requests"));
    }
    if device.is_rotational() && device.is_virtio() {
        // Virtual disks report that they rotate unless somebody has configured otherwise.
        return Ok(Outcome::Unknown(format!(
            "{} sorts its requests; whether the drive below turns only the host knows",
            shown(&scheduler)
        )));
    }
    if device.is_rotational() {
        return Ok(Outcome::good(format!("{} sorts its requests, and it says that it turns", shown(&scheduler))));
    }
    Ok(Outcome::found(Finding {
        severity: Severity::CostsLatency,
        what: format!("{} sorts its requests", shown(&scheduler)),
        cost: "each request goes through a queue under a lock to save seeks that a drive without moving parts does not have. The \
               guide names the scheduler among what makes up the system's part of a latency"
            .to_owned(),
        source: format!("{GUIDE}; {SYSFS_BLOCK}"),
        now: write_now(device, "scheduler", "none"),
        for_good: by_udev(&device.name, "queue/scheduler", "none"),
        price: "no priorities between processes (ionice), and no preference of reads over writes by the kernel".to_owned(),
    }))
}

pub(super) fn write_throttling(_: &Machine, device: &Device) -> Reading<Outcome> {
    let Some(target_us) = number(device, "wbt_lat_usec")? else { return Ok(Outcome::NotHere) };
    if target_us <= 0 {
        return Ok(Outcome::good("writeback is not throttled"));
    }
    Ok(Outcome::found(Finding {
        severity: Severity::Note,
        what: format!("writeback is throttled for reads of {target_us} us"),
        cost: "where reads take longer, the kernel scales down what it writes back from the page cache. That is good for reads, and \
               takes throughput from buffered writes; direct ones are not concerned"
            .to_owned(),
        source: format!("{SYSFS_BLOCK} (wbt_lat_usec)"),
        now: write_now(device, "wbt_lat_usec", "0"),
        for_good: by_udev(&device.name, "queue/wbt_lat_usec", "0"),
        price: "reads wait behind long trains of writes".to_owned(),
    }))
}

pub(super) fn requests(_: &Machine, device: &Device) -> Reading<Outcome> {
    let Some(requests) = number(device, "nr_requests")? else { return Ok(Outcome::NotHere) };
    if requests < 1 {
        let path = format!("{}/queue/nr_requests", device.path);
        return Err(Lack::unreadable(&path, format!("{requests} is no number of requests")));
    }
    if requests >= DEEP {
        return Ok(Outcome::good(format!("{requests} requests fit into a queue")));
    }
    Ok(Outcome::found(Finding {
        severity: Severity::CostsThroughput,
        what: format!("only {requests} requests fit into a queue"),
        cost: format!(
            "what is deeper waits outside, unsorted and unseen by the drive; the guide loads drives {DEEP} deep"
        ),
        source: format!("{GUIDE}; {SYSFS_BLOCK} (nr_requests)"),
        now: format!("{} (no more than the drive has, without a scheduler)", write_now(device, "nr_requests", "256")),
        for_good: by_udev(&device.name, "queue/nr_requests", "256"),
        price: "requests wait in the drive rather than in the kernel".to_owned(),
    }))
}

pub(super) fn completion_affinity(_: &Machine, device: &Device) -> Reading<Outcome> {
    match number(device, "rq_affinity")? {
        None => Ok(Outcome::NotHere),
        Some(0) => Ok(Outcome::found(Finding {
            severity: Severity::Note,
            what: "I/Os end on whatever CPU the interrupt comes to (rq_affinity 0)".to_owned(),
            cost: "the request's data are in another CPU's cache".to_owned(),
            source: format!("{SYSFS_BLOCK} (rq_affinity)"),
            now: write_now(device, "rq_affinity", "1"),
            for_good: by_udev(&device.name, "queue/rq_affinity", "1"),
            price: "an interrupt between CPUs for some I/Os".to_owned(),
        })),
        Some(value) => Ok(Outcome::good(format!("I/Os end near the CPU that asked (rq_affinity {value})"))),
    }
}

pub(super) fn merges(_: &Machine, device: &Device) -> Reading<Outcome> {
    match number(device, "nomerges")? {
        Some(0) if !device.is_rotational() => Ok(Outcome::found(Finding {
            severity: Severity::Note,
            what: "requests are looked through for neighbours to merge (nomerges 0)".to_owned(),
            cost: "of random I/O there are none: the search costs CPU each time and finds nothing".to_owned(),
            source: format!("{SYSFS_BLOCK} (nomerges)"),
            now: write_now(device, "nomerges", "2"),
            for_good: by_udev(&device.name, "queue/nomerges", "2"),
            price: "sequential I/O in small pieces stays in small pieces".to_owned(),
        })),
        Some(value) => Ok(Outcome::good(format!("nomerges is {value}"))),
        None => Ok(Outcome::NotHere),
    }
}

pub(super) fn statistics(_: &Machine, device: &Device) -> Reading<Outcome> {
    match number(device, "iostats")? {
        None => Ok(Outcome::NotHere),
        Some(0) => Ok(Outcome::good("the kernel does not time its I/Os")),
        Some(_) => Ok(Outcome::found(Finding {
            severity: Severity::Note,
            what: "the kernel times and counts each I/O (iostats 1)".to_owned(),
            cost: "two looks at the clock and some counting for each I/O".to_owned(),
            source: format!("{SYSFS_BLOCK} (iostats)"),
            now: write_now(device, "iostats", "0"),
            for_good: by_udev(&device.name, "queue/iostats", "0"),
            price: "iostat, sar and all that reads /proc/diskstats see nothing of it any more".to_owned(),
        })),
    }
}

pub(super) fn entropy(_: &Machine, device: &Device) -> Reading<Outcome> {
    match number(device, "add_random")? {
        None => Ok(Outcome::NotHere),
        Some(0) => Ok(Outcome::good("its I/Os give no entropy to the kernel")),
        Some(_) => Ok(Outcome::found(Finding {
            severity: Severity::CostsLatency,
            what: "the end of each I/O is mixed into the kernel's random numbers (add_random 1)".to_owned(),
            cost: "some work for each I/O, in its interrupt".to_owned(),
            source: format!("{SYSFS_BLOCK} (add_random)"),
            now: write_now(device, "add_random", "0"),
            for_good: by_udev(&device.name, "queue/add_random", "0"),
            price: "less entropy early at the start, on machines without another source of it".to_owned(),
        })),
    }
}

pub(super) fn polling(machine: &Machine, device: &Device) -> Reading<Outcome> {
    if !device.is_nvme() || machine.kernel.nvme_poll_queues.as_ref().is_ok_and(|&queues| queues == 0) {
        // In this case the rule about the machine reports it.
        return Ok(Outcome::NotHere);
    }
    if device.queue_number("io_poll")? != 0 {
        return Ok(Outcome::good("it can be polled"));
    }
    Ok(Outcome::found(Finding {
        severity: Severity::CostsLatency,
        what: "it cannot be polled (io_poll 0), although the driver was asked for queues to poll".to_owned(),
        cost: "what asks to poll waits for interrupts all the same, or is refused".to_owned(),
        source: format!("{SYSFS_BLOCK} (io_poll)"),
        now: "echo 1 > /sys/class/nvme/nvmeN/reset_controller, while nobody uses the drive: it was set up before"
            .to_owned(),
        for_good: super::words::on_command_line("nvme.poll_queues=N"),
        price: "who polls takes a whole CPU".to_owned(),
    }))
}

pub(super) fn hardware_queues(machine: &Machine, device: &Device) -> Reading<Outcome> {
    let queues = match &device.hardware_queues {
        Err(Lack::Absent { .. }) => return Ok(Outcome::NotHere),
        other => other.as_ref().map_err(Clone::clone)?.len(),
    };
    let cpus = machine.cpu.online.clone()?;
    if queues >= cpus {
        return Ok(Outcome::good(format!("hardware queues: {queues}, CPUs: {cpus}")));
    }
    let is_virtio = device.is_virtio();
    let (now, for_good) = if is_virtio {
        ("nothing in the guest", "more queues on the host: num-queues of QEMU's virtio-blk-pci")
    } else {
        (
            "bind the load to as many CPUs as there are queues (mq/*/cpu_list says which share one)",
            "a drive with more queues",
        )
    };
    Ok(Outcome::found(Finding {
        severity: if device.is_nvme() || is_virtio { Severity::CostsThroughput } else { Severity::Note },
        what: format!("hardware queues: {queues}, CPUs: {cpus}"),
        cost:
            "CPUs share queues, their locks and their interrupts; an I/O may end on another CPU than the one that asked"
                .to_owned(),
        source: "Linux, block/blk-mq.rst".to_owned(),
        now: now.to_owned(),
        for_good: for_good.to_owned(),
        price: "more interrupts and memory on the host".to_owned(),
    }))
}

pub(super) fn interrupts(machine: &Machine, device: &Device) -> Reading<Outcome> {
    let interrupts = device.interrupts.as_ref().map_err(Clone::clone)?;
    if interrupts.is_empty() {
        return Ok(Outcome::NotHere);
    }
    let cpus: BTreeSet<u64> = interrupts.iter().flatten().copied().collect();
    let could = interrupts.len().min(machine.cpu.online.clone()?);
    let said = format!("interrupts of its queues: {}, CPUs that they go to: {}", interrupts.len(), cpus.len());
    // Two interrupts on one CPU are normal; at most half of the possible CPUs with one is a finding.
    if cpus.len() * 2 > could || could < 2 {
        return Ok(Outcome::good(said));
    }
    Ok(Outcome::found(Finding {
        severity: Severity::CostsLatency,
        what: said,
        cost: "I/Os of many CPUs wait for few, and end far from who asked. In the guide's ladder setting affinity by hand takes \
               reads at depth 1 from 8.01 us to 7.96 us, writes at depth 16 from 237 us to 123 us at p99.999"
            .to_owned(),
        source: GUIDE.to_owned(),
        now: "echo CPU > /proc/irq/N/smp_affinity_list for each, where the kernel lets it be changed".to_owned(),
        for_good: "stop what gathers them (irqbalance, irqaffinity= on the command line), and set them at each start".to_owned(),
        price: "CPUs that were kept free of interrupts get some".to_owned(),
    }))
}

pub(super) fn write_cache(_: &Machine, device: &Device) -> Reading<Outcome> {
    match device.queue("write_cache")?.as_str() {
        "write through" => Ok(Outcome::good("it has no volatile write cache, by what the kernel knows")),
        "write back" => Ok(Outcome::found(Finding {
            severity: Severity::Note,
            what: "it has a volatile write cache".to_owned(),
            cost: "a write is durable only after a flush, which fsync and databases ask for, and which takes as long as emptying \
                   the cache. A drive that is protected against power loss has none to declare"
                .to_owned(),
            source: format!("{SYSFS_BLOCK} (write_cache)"),
            now: "nothing that is safe: writing \"write through\" to that file only stops the flushes".to_owned(),
            for_good: "a drive with protection against power loss; or its cache off (nvme set-feature -f 6 -v 0, hdparm -W 0)".to_owned(),
            price: "with the cache off, most writes take longer".to_owned(),
        })),
        other => Ok(Outcome::Unknown(format!("write_cache says {:?}", shown(other)))),
    }
}

pub(super) fn cache_lie(_: &Machine, device: &Device) -> Reading<Outcome> {
    let says = match &device.scsi_cache {
        Err(Lack::Absent { .. }) => return Ok(Outcome::NotHere),
        other => other.clone()?,
    };
    if !says.starts_with("write back") || device.queue("write_cache")? != "write through" {
        return Ok(Outcome::good("disk and kernel agree on the write cache"));
    }
    Ok(Outcome::found(Finding {
        severity: Severity::Safety,
        what: "the disk has a volatile write cache, and the kernel was set not to flush it".to_owned(),
        cost: "what was acknowledged as durable is lost when the power fails, and file systems break".to_owned(),
        source: format!("{SYSFS_BLOCK} (write_cache: \"it might not be safe to toggle\")"),
        now: format!("echo \"write back\" > /sys/block/{}/queue/write_cache", device.name),
        for_good: "find out who wrote to that file: udev rules, tuned, scripts; and restart a server of Forebay that uses the disk, which has asked when it began".to_owned(),
        price: "flushes take time".to_owned(),
    }))
}
