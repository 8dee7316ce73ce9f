//! How much of a drive's life is used, according to its answers.

use crate::finding::{Finding, Outcome, Severity};
use crate::lack::{Lack, Reading, shown};
use crate::machine::Machine;
use crate::settings::answers::{Answer, Health};
use crate::settings::device::Device;

const SOURCE: &str = "NVM Express Base Specification 2.0, 5.16.1.3 (SMART / Health Information)";
/// From this percentage on, a replacement should be planned.
const USED_MUCH_PERCENT: u8 = 90;
/// Bits of the critical warning about wear and data, with the meaning of each; heat belongs to another rule.
const WARNINGS: [(u8, &str); 5] = [
    (0, "its spare capacity is below its threshold"),
    (2, "it is unreliable, by its own account"),
    (3, "it takes no writes any more"),
    (4, "what is in its memory is not saved at a power cut any more"),
    (5, "a persistent region of its memory is unreliable"),
];

/// The command that shows the same facts.
fn by(device: &Device) -> String {
    let name = &device.name;
    if device.is_nvme() { format!("nvme smart-log /dev/{name}") } else { format!("smartctl -x /dev/{name}") }
}

pub(super) fn wear(machine: &Machine, device: &Device) -> Reading<Outcome> {
    if device.is_stacked() {
        return Ok(Outcome::NotHere);
    }
    let unasked =
        || Outcome::Unknown(format!("wear, spare and media errors take a command to the drive: {}", by(device)));
    let health = match &device.answers {
        Ok(answers) => answers.health.as_ref(),
        Err(Lack::Absent { .. }) => None,
        Err(lack) => return Err(lack.clone()),
    };
    match health {
        Some(Answer::Said(health)) => Ok(judged(device, health)),
        Some(Answer::Unknown(why)) => Ok(Outcome::Unknown(shown(why))),
        // The wear of a hypervisor's disk cannot be seen here.
        None if machine.is_virtual() => Ok(Outcome::NotHere),
        None => Ok(unasked()),
    }
}

/// The finding for a drive that is (nearly) worn out.
fn worn(device: &Device, severity: Severity, what: String, cost: &str) -> Outcome {
    Outcome::found(Finding {
        severity,
        what,
        cost: cost.to_owned(),
        source: SOURCE.to_owned(),
        now: format!("look at it: {}; have what it holds elsewhere too", by(device)),
        for_good: "another drive".to_owned(),
        price: "the drive".to_owned(),
    })
}

fn judged(device: &Device, health: &Health) -> Outcome {
    let used = match health.percentage_used_percent {
        u8::MAX => "more than 254 %".to_owned(),
        percent => format!("{percent} %"),
    };
    let mut bad: Vec<String> = WARNINGS
        .iter()
        .filter(|(bit, _)| health.critical_warning_bits >> bit & 1 == 1)
        .map(|(_, what)| (*what).to_owned())
        .collect();
    if let Some((left, threshold)) = health.spare_percent
        && left < threshold
        && health.critical_warning_bits & 1 == 0
    {
        bad.push(format!("its spare capacity is {left} %, below its threshold of {threshold} %"));
    }
    if health.percentage_used_percent >= 100 {
        bad.push(format!("{used} of the life that its vendor expects is used"));
    }
    if !bad.is_empty() {
        let cost = "it may fail, keep data without power for a shorter time than it is made for, or turn read-only";
        return worn(device, Severity::Safety, bad.join("; "), cost);
    }
    if let Some(errors) = health.media_errors.filter(|&errors| errors > 0) {
        let what =
            format!("it counts {errors} errors of its medium that it could not mend; {used} of its life is used");
        return worn(
            device,
            Severity::Note,
            what,
            "what was there was lost, or was read again from elsewhere. A number that grows is a drive that fails",
        );
    }
    if health.percentage_used_percent >= USED_MUCH_PERCENT {
        let what = format!("{used} of the life that its vendor expects is used");
        return worn(
            device,
            Severity::Note,
            what,
            "from 100 % on its vendor expects it to fail, or to keep data for a shorter time",
        );
    }
    let spare =
        health.spare_percent.map_or(String::new(), |(left, _)| format!(", {left} % of its spare capacity is left"));
    let errors = health.media_errors.map_or("", |_| ", no errors of its medium");
    Outcome::good(format!("{used} of its life is used{spare}{errors}"))
}
