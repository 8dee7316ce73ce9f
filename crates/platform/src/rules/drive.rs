//! The drive itself.

use crate::finding::{Finding, Outcome, Severity};
use crate::lack::{Lack, Reading, shown};
use crate::machine::Machine;
use crate::settings::answers::Answer;
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

/// Temperature and warning temperature from the drive's answer, in thousandths of a degree Celsius.
fn answered_mc(device: &Device) -> Option<(i64, i64)> {
    let Ok(Some(Answer::Said(health))) = device.answers.as_ref().map(|answers| &answers.health) else { return None };
    let mc = |celsius: i32| i64::from(celsius) * 1000;
    Some((mc(health.temperature_celsius?), mc(health.warning_celsius?)))
}

pub(super) fn temperature(_: &Machine, device: &Device) -> Reading<Outcome> {
    let (now_mc, max_mc) = match (&device.temperature_mc, answered_mc(device)) {
        (Err(Lack::Absent { .. }), Some(answered)) => answered,
        (Err(Lack::Absent { .. }), None) if device.is_nvme() => {
            return Ok(Outcome::Unknown(
                "neither the kernel (CONFIG_NVME_HWMON) nor the drive says its temperature and its limit".to_owned(),
            ));
        }
        (Err(Lack::Absent { .. }), None) => return Ok(Outcome::NotHere),
        (other, _) => other.clone()?,
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
        source: "the limit is the drive's own (Linux, ABI/testing/sysfs-class-hwmon, temp1_max; NVMe: WCTEMP)"
            .to_owned(),
        now: "let it rest".to_owned(),
        for_good: "air, or a heat sink".to_owned(),
        price: "noise".to_owned(),
    }))
}
