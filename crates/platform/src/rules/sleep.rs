//! How a drive saves power: fixed power states, sleep, and disks that stop.

use super::words::{GUIDE, by_udev, on_command_line};
use crate::finding::{Finding, Outcome, Severity};
use crate::lack::{Lack, Reading, shown};
use crate::machine::Machine;
use crate::settings::answers::{Answer, Answers, PowerState, Transition};
use crate::settings::device::Device;

const SPECIFICATION: &str = "NVM Express Base Specification 2.0, 8.15 (power states), 5.27.1.2 and 5.27.1.9";
/// From this level of Advanced Power Management on, a disk does not stop (ACS-4, 7.47.6).
const LEVEL_WITHOUT_STOP: u8 = 128;

/// The drive's answers; `None` if it was not asked.
fn answers(device: &Device) -> Reading<Option<&Answers>> {
    match &device.answers {
        Ok(answers) => Ok(Some(answers)),
        Err(Lack::Absent { .. }) => Ok(None),
        Err(lack) => Err(lack.clone()),
    }
}

/// A time in a suitable unit.
fn time(us: u64) -> String {
    match us {
        0 => "a time that it does not say".to_owned(),
        1..1000 => format!("{us} us"),
        1000..1_000_000 => format!("{} ms", us as f64 / 1e3),
        _ => format!("{} s", us as f64 / 1e6),
    }
}

fn power(state: &PowerState) -> String {
    if state.max_power_mw == 0 {
        "of a power that it does not say".to_owned()
    } else {
        format!("of at most {} W", f64::from(state.max_power_mw) / 1e3)
    }
}

pub(super) fn power_state(_: &Machine, device: &Device) -> Reading<Outcome> {
    if !device.is_nvme() {
        return Ok(Outcome::NotHere);
    }
    let by = || format!("nvme get-feature /dev/{0} -f 2; nvme id-ctrl /dev/{0}", device.name);
    let Some(Answers { power_states: Some(states), power_state: Some(now), .. }) = answers(device)? else {
        return Ok(Outcome::Unknown(format!("which power state it is in takes a command to the drive: {}", by())));
    };
    let (states, now) = match (states, now) {
        (Answer::Said(states), Answer::Said(now)) => (states, usize::from(*now)),
        (Answer::Unknown(why), _) | (_, Answer::Unknown(why)) => return Ok(Outcome::Unknown(shown(why))),
    };
    let (Some(state), Some(first)) = (states.get(now), states.first()) else {
        return Ok(Outcome::Unknown(format!("it is in power state {now}, of {} that it has", states.len())));
    };
    if !state.is_operational {
        return Ok(Outcome::Unknown(format!(
            "it slept when it was asked, in power state {now}: in which it works is not known"
        )));
    }
    if now == 0 {
        let asleep = states.iter().filter(|state| !state.is_operational).count();
        return Ok(Outcome::good(format!(
            "it works in power state 0, {}; of its {} states it sleeps in {asleep}",
            power(state),
            states.len()
        )));
    }
    Ok(Outcome::found(Finding {
        severity: Severity::CostsThroughput,
        what: format!("it is held in power state {now}, {}; state 0 is {}", power(state), power(first)),
        cost: "a drive that may take less power does less at once: its rates fall, of writes first, and what waits for them takes longer"
            .to_owned(),
        source: SPECIFICATION.to_owned(),
        now: format!("nvme set-feature /dev/{} -f 2 -V 0", device.name),
        for_good: format!("nvme set-feature /dev/{} -f 2 -V 0 --save, where the drive can; else at each start", device.name),
        price: "more power and heat: look at its temperature under load".to_owned(),
    }))
}

/// The states that a drive enters by itself, and the time to leave them. The kernel writes its own limit into the drive's
/// table, so that the table already reflects it.
fn naps(states: &[PowerState], sleep: &[Transition]) -> Vec<String> {
    let mut found: Vec<(u32, u8, u64)> = Vec::new();
    for one in sleep {
        let Some(state) = states.get(usize::from(one.to)) else { continue };
        if state.is_operational {
            continue;
        }
        let known = found.iter().position(|(_, to, _)| *to == one.to);
        match known {
            Some(at) => found[at].0 = found[at].0.min(one.idle_ms),
            None => found.push((one.idle_ms, one.to, u64::from(state.exit_us))),
        }
    }
    found.sort_unstable();
    found
        .iter()
        .map(|(idle_ms, to, us)| {
            format!("after {} in state {to}, and takes {} to leave it", time(u64::from(*idle_ms) * 1000), time(*us))
        })
        .collect()
}

pub(super) fn drive_sleep(_: &Machine, device: &Device) -> Reading<Outcome> {
    if !device.is_nvme() {
        return Ok(Outcome::NotHere);
    }
    let tolerance = match &device.tolerance {
        Err(Lack::Absent { .. }) => None,
        other => Some(other.clone()?),
    };
    let said = match answers(device)? {
        Some(Answers { power_states: Some(Answer::Said(states)), sleep: Some(Answer::Said(sleep)), .. }) => {
            Some(naps(states, sleep))
        }
        _ => None,
    };
    // The drive's own report takes precedence over the kernel's setting: its firmware may have enabled sleep.
    let controller = device.controller.as_deref().and_then(|path| path.rsplit('/').next()).unwrap_or("nvmeN");
    let file = format!("/sys/class/nvme/{controller}/power/pm_qos_latency_tolerance_us");
    let (what, more, now) = match (said, tolerance.as_deref()) {
        (Some(naps), tolerance) if !naps.is_empty() => {
            let is_kernels = tolerance.is_some_and(|tolerance| tolerance != "0");
            let now = match is_kernels {
                true => format!("echo 0 > {file}"),
                false => format!("nvme set-feature /dev/{} -f 0x0c -V 0", device.name),
            };
            (format!("it puts itself to sleep: {}", naps.join("; ")), "", now)
        }
        (_, None) => {
            return Ok(Outcome::good(
                "the kernel lets it enter no power states by itself: it has none, or is known to fail",
            ));
        }
        (_, Some("0")) => return Ok(Outcome::good("it may not put itself to sleep")),
        (Some(_), Some(_)) => {
            return Ok(Outcome::good("it may put itself to sleep, and by its own account does not"));
        }
        (None, Some(tolerance)) => (
            format!("it may put itself to sleep where waking takes up to {} us", shown(tolerance)),
            ". Which states it has, and how long each takes, only a command to it says (nvme id-ctrl)",
            format!("echo 0 > {file}"),
        ),
    };
    Ok(Outcome::found(Finding {
        severity: Severity::CostsLatency,
        what,
        cost: format!("the first I/O after a pause waits for it to wake up{more}"),
        source: "Linux, drivers/nvme/host/core.c (APST); ABI/testing/sysfs-devices-power (pm_qos_latency_tolerance_us)"
            .to_owned(),
        now,
        for_good: on_command_line("nvme_core.default_ps_max_latency_us=0"),
        price: "more power and heat when idle; on a laptop, hours of battery".to_owned(),
    }))
}

pub(super) fn spin_down(_: &Machine, device: &Device) -> Reading<Outcome> {
    if !device.is_rotational() || device.is_virtio() {
        return Ok(Outcome::NotHere);
    }
    let is_auto = device.runtime_power.as_ref().is_ok_and(|control| control == "auto");
    let delay_ms = device.suspend_delay_ms.clone().unwrap_or(-1);
    let cost = "the next I/O waits for it to turn again. The guide has disks never stop".to_owned();
    if is_auto && delay_ms >= 0 {
        return Ok(Outcome::found(Finding {
            severity: Severity::CostsLatency,
            what: format!("the kernel stops the disk after {} s without I/O", delay_ms / 1000),
            cost,
            source: format!("{GUIDE}; Linux, ABI/testing/sysfs-devices-power (control, autosuspend_delay_ms)"),
            now: format!("echo on > /sys/block/{}/device/power/control", device.name),
            for_good: by_udev(&device.name, "device/power/control", "on"),
            price: "power and noise".to_owned(),
        }));
    }
    let name = &device.name;
    let stop = match answers(device)?.and_then(|answers| answers.stop.as_ref()) {
        Some(Answer::Said(stop)) => stop,
        Some(Answer::Unknown(why)) => return Ok(Outcome::Unknown(shown(why))),
        None => {
            return Ok(Outcome::Unknown(format!(
                "the kernel does not stop it; whether the disk stops itself only a command to it says (hdparm -B /dev/{name})"
            )));
        }
    };
    match stop.power_management {
        Some(level) if level < LEVEL_WITHOUT_STOP => Ok(Outcome::found(Finding {
            severity: Severity::CostsLatency,
            what: format!("the disk may stop itself when it is idle (Advanced Power Management, level {level})"),
            cost,
            source: format!("{GUIDE}; ATA Command Set 4, 7.47.6 (levels below 128 permit standby)"),
            now: format!("hdparm -B 254 /dev/{name}"),
            for_good: format!("/etc/hdparm.conf: /dev/{name} {{ apm = 254 }}"),
            price: "power and noise".to_owned(),
        })),
        _ if stop.has_power_conditions => Ok(Outcome::Unknown(format!(
            "the disk has power conditions of its own, whose timers are not read (openSeaChest_PowerControl --showEPCSettings, /dev/{name})"
        ))),
        Some(level) => Ok(Outcome::good(format!(
            "neither the kernel nor Advanced Power Management (level {level}) stops the disk; no disk says whether a timer was set by hdparm -S"
        ))),
        None => Ok(Outcome::Unknown(
            "the kernel does not stop it, and it has no Advanced Power Management; no disk says whether a timer was set by hdparm -S".to_owned(),
        )),
    }
}
