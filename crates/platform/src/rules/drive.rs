//! The drive itself, as far as files tell.

use super::words::{GUIDE, on_command_line};
use crate::finding::{Finding, Outcome, Severity};
use crate::lack::{Lack, Reading, shown};
use crate::machine::Machine;
use crate::settings::device::Device;

pub(super) fn stacked(_: &Machine, device: &Device) -> Reading<Outcome> {
    if !device.is_stacked() {
        return Ok(Outcome::NotHere);
    }
    let parts = device.parts.clone()?;
    Ok(Outcome::found(Finding {
        severity: Severity::Note,
        what: format!("it is made of {}", shown(&parts.join(", "))),
        cost: "a layer of the kernel is between it and its drives, whose settings are their own: look at each with --device".to_owned(),
        source: "Linux, /sys/block/*/slaves".to_owned(),
        now: format!("forebay doctor --device {}", parts.first().map_or("PART", String::as_str)),
        for_good: "none is needed".to_owned(),
        price: "none".to_owned(),
    }))
}

pub(super) fn sleep(_: &Machine, device: &Device) -> Reading<Outcome> {
    if !device.is_nvme() {
        return Ok(Outcome::NotHere);
    }
    let tolerance = match &device.tolerance {
        Err(Lack::Absent { .. }) => {
            return Ok(Outcome::good(
                "the kernel lets it enter no power states by itself: it has none, or is known to fail",
            ));
        }
        other => other.clone()?,
    };
    if tolerance == "0" {
        return Ok(Outcome::good("it may not put itself to sleep"));
    }
    let controller = device.controller.as_deref().and_then(|path| path.rsplit('/').next()).unwrap_or("nvmeN");
    Ok(Outcome::found(Finding {
        severity: Severity::CostsLatency,
        what: format!("it may put itself to sleep where waking takes up to {} us", shown(&tolerance)),
        cost: "the first I/O after a pause waits for it to wake up. Which states it has, and how long each takes, only a command to \
               it says (nvme id-ctrl)"
            .to_owned(),
        source: "Linux, drivers/nvme/host/core.c (APST); ABI/testing/sysfs-devices-power (pm_qos_latency_tolerance_us)".to_owned(),
        now: format!("echo 0 > /sys/class/nvme/{controller}/power/pm_qos_latency_tolerance_us"),
        for_good: on_command_line("nvme_core.default_ps_max_latency_us=0"),
        price: "more power and heat when idle; on a laptop, hours of battery".to_owned(),
    }))
}

pub(super) fn sata_link(_: &Machine, device: &Device) -> Reading<Outcome> {
    let policy = match &device.sata_link_policy {
        Err(Lack::Absent { .. }) => return Ok(Outcome::NotHere),
        other => other.clone()?,
    };
    if policy == "max_performance" {
        return Ok(Outcome::good("its SATA link does not sleep"));
    }
    Ok(Outcome::found(Finding {
        severity: Severity::CostsLatency,
        what: format!("its SATA link saves power ({})", shown(&policy)),
        cost: "the first command after a pause waits until the link is awake".to_owned(),
        source: "Linux, scsi/link_power_management_policy.rst".to_owned(),
        now: "echo max_performance > /sys/class/scsi_host/hostN/link_power_management_policy".to_owned(),
        for_good:
            "the same by a udev rule: SUBSYSTEM==\"scsi_host\", ATTR{link_power_management_policy}=\"max_performance\""
                .to_owned(),
        price: "some power".to_owned(),
    }))
}

pub(super) fn spin_down(_: &Machine, device: &Device) -> Reading<Outcome> {
    if !device.is_rotational() || device.is_virtio() {
        return Ok(Outcome::NotHere);
    }
    let is_auto = device.runtime_power.as_ref().is_ok_and(|control| control == "auto");
    let delay_ms = device.suspend_delay_ms.clone().unwrap_or(-1);
    if !is_auto || delay_ms < 0 {
        return Ok(Outcome::Unknown(
            "the kernel does not stop it; whether the disk stops itself only a command to it says (hdparm -B)"
                .to_owned(),
        ));
    }
    Ok(Outcome::found(Finding {
        severity: Severity::CostsLatency,
        what: format!("the kernel stops the disk after {} s without I/O", delay_ms / 1000),
        cost: "the next I/O waits for it to turn again. The guide has disks never stop".to_owned(),
        source: format!("{GUIDE}; Linux, ABI/testing/sysfs-devices-power (control, autosuspend_delay_ms)"),
        now: format!("echo on > /sys/block/{}/device/power/control", device.name),
        for_good: super::words::by_udev(&device.name, "device/power/control", "on"),
        price: "power and noise".to_owned(),
    }))
}

pub(super) fn temperature(_: &Machine, device: &Device) -> Reading<Outcome> {
    let (now_mc, max_mc) = match &device.temperature_mc {
        Err(Lack::Absent { .. }) if device.is_nvme() => {
            return Ok(Outcome::Unknown("the kernel shows no temperature of it (CONFIG_NVME_HWMON)".to_owned()));
        }
        Err(Lack::Absent { .. }) => return Ok(Outcome::NotHere),
        other => other.clone()?,
    };
    let celsius = |mc: i64| mc as f64 / 1000.0;
    let said = format!("{:.0} degrees Celsius, of at most {:.0}", celsius(now_mc), celsius(max_mc));
    if now_mc < max_mc {
        return Ok(Outcome::good(said));
    }
    Ok(Outcome::found(Finding {
        severity: Severity::CostsThroughput,
        what: said,
        cost: "a drive that is too hot slows itself down".to_owned(),
        source: "Linux, ABI/testing/sysfs-class-hwmon (temp1_max); the limit is the drive's own".to_owned(),
        now: "let it rest".to_owned(),
        for_good: "air, or a heat sink".to_owned(),
        price: "noise".to_owned(),
    }))
}

pub(super) fn wear(machine: &Machine, device: &Device) -> Reading<Outcome> {
    if machine.is_virtual() || device.is_stacked() {
        return Ok(Outcome::NotHere);
    }
    let name = &device.name;
    let by = if device.is_nvme() { format!("nvme smart-log /dev/{name}") } else { format!("smartctl -a /dev/{name}") };
    Ok(Outcome::Unknown(format!("wear, spare and media errors take a command to the drive: {by}")))
}
