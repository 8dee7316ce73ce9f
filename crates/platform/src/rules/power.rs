//! Power supply and power saving.

use super::words::{GUIDE, at_each_start, on_command_line};
use crate::finding::{Finding, Outcome, Severity};
use crate::lack::{Lack, Reading, shown};
use crate::machine::Machine;

pub(super) fn battery(machine: &Machine) -> Reading<Outcome> {
    match machine.power.battery.clone()? {
        None => Ok(Outcome::NotHere),
        Some(false) => Ok(Outcome::good("there is a battery, and it is not being emptied")),
        Some(true) => Ok(Outcome::found(Finding {
            severity: Severity::CostsLatency,
            what: "the machine runs on its battery".to_owned(),
            cost: "firmware and daemons hold frequencies, links and drives down, each in ways of its own".to_owned(),
            source: "Linux, ABI/testing/sysfs-class-power (status Discharging)".to_owned(),
            now: "plug it in".to_owned(),
            for_good: "measure only when plugged in".to_owned(),
            price: "none".to_owned(),
        })),
    }
}

pub(super) fn platform_profile(machine: &Machine) -> Reading<Outcome> {
    let profile = match &machine.power.profile {
        Err(Lack::Absent { .. }) => return Ok(Outcome::NotHere),
        other => other.clone()?,
    };
    if profile == "performance" {
        return Ok(Outcome::good("the firmware's profile is performance"));
    }
    Ok(Outcome::found(Finding {
        severity: Severity::CostsLatency,
        what: format!("the firmware's profile is {}", shown(&profile)),
        cost: "the firmware limits power, and so frequency, for the sake of heat, noise or energy. The guide asks for the power \
               scheme performance"
            .to_owned(),
        source: format!("{GUIDE}; Linux, ABI/testing/sysfs-platform_profile"),
        now: "echo performance > /sys/firmware/acpi/platform_profile".to_owned(),
        for_good: at_each_start("/sys/firmware/acpi/platform_profile", "performance"),
        price: "heat, noise and power".to_owned(),
    }))
}

pub(super) fn suspend(machine: &Machine) -> Reading<Outcome> {
    if machine.power.sleep_target.as_ref().is_ok_and(|target| target == "/dev/null") {
        return Ok(Outcome::good("the machine is not suspended: sleep.target is masked"));
    }
    let states = match &machine.power.sleep_states {
        Err(Lack::Absent { .. }) => return Ok(Outcome::NotHere),
        other => other.clone()?,
    };
    let sleeps: Vec<&str> =
        states.split_whitespace().filter(|state| matches!(*state, "mem" | "disk" | "standby")).collect();
    if sleeps.is_empty() {
        return Ok(Outcome::good("the kernel offers no suspend to memory or disk"));
    }
    Ok(Outcome::found(Finding {
        severity: Severity::Note,
        what: format!("the machine can be suspended ({})", sleeps.join(", ")),
        cost: "a desktop's session, a lid or a key may end a run of hours. The guide turns sleep and hibernation off"
            .to_owned(),
        source: GUIDE.to_owned(),
        now: "systemd-inhibit forebay bench ...".to_owned(),
        for_good: "systemctl mask sleep.target suspend.target hibernate.target".to_owned(),
        price: "an idle machine stays on".to_owned(),
    }))
}

pub(super) fn usb_suspend(machine: &Machine) -> Reading<Outcome> {
    let after_s = match &machine.power.usb_autosuspend_s {
        Err(Lack::Absent { .. }) => return Ok(Outcome::NotHere),
        other => other.clone()?,
    };
    if after_s < 0 {
        return Ok(Outcome::good("USB devices are not suspended"));
    }
    Ok(Outcome::found(Finding {
        severity: Severity::Note,
        what: format!("USB devices may be suspended after {after_s} s"),
        cost: "a drive behind USB takes time to come back; others are not concerned. The guide turns it off".to_owned(),
        source: format!("{GUIDE}; Linux, driver-api/usb/power-management.rst"),
        now: "echo on > power/control of the USB device".to_owned(),
        for_good: on_command_line("usbcore.autosuspend=-1"),
        price: "some power".to_owned(),
    }))
}
