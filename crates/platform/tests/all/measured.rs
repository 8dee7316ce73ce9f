//! Measurements of a ladder are shown beside an audit of the same machine, and of no other.

use crate::support::*;
use forebay_platform::{Fingerprint, Measured, Place, text};
use serde_json::{Value, json};

fn here() -> Fingerprint {
    let of = |text: &str| Some(text.to_owned());
    Fingerprint { boot_id: of("a boot"), cpu: of("GenuineIntel Some CPU"), kernel: of("6.12.9") }
}

fn ladder(machine: &Value) -> Value {
    let effect = |figure: &str, verdict: &str| json!({ "figure": figure, "comparison": { "ratio": 0.9, "ratio_low": 0.85, "ratio_high": 0.95, "verdict": verdict, "would_show": 1.05 } });
    let rung = |name: &str| {
        json!({ "name": name, "against": "as found", "jobs": [{ "job": "4 KiB random read QD1", "effects": [
            effect("mean", "b better"), effect("p99", "no difference shown"), { "figure": "max", "comparison": null },
        ] }] })
    };
    json!({ "experiment": "ladder", "result": {
        "experiment": "ladder", "machine": machine, "device": "nvme0n1", "confidence_percent": 95.0,
        "rungs": [
            { "name": "as found", "against": null, "jobs": [] },
            rung("governor"), rung("interrupts"), rung("fixed-2.3-GHz"),
            { "name": "swap", "against": "as found", "jobs": [] },
        ],
    } })
}

#[test]
fn what_was_measured_here_is_shown_with_its_interval() {
    let measured = Measured::read(&ladder(&json!(here())).to_string(), &here()).unwrap();
    assert_eq!(measured.place, Place::ThisBoot);
    let report = shipped_report("laptop", "nvme0n1").with_measured(&measured);
    let entry = |name: &str| report.findings.iter().find(|entry| entry.name == name).unwrap();
    assert!(entry("governor").is_measured && entry("base-frequency").is_measured && !entry("swap").is_measured);
    assert_eq!(report.measured(), 2, "the interrupts are good there");
    let json = serde_json::to_value(&report).unwrap();
    let governor = json["findings"].as_array().unwrap().iter().find(|found| found["name"] == "governor").unwrap();
    assert_eq!(governor["measured"], true);
    let effects = governor["effects"].as_array().unwrap();
    assert_eq!(effects.len(), 2);
    assert_eq!((&effects[0]["ratio_low"], &effects[0]["verdict"]), (&json!(0.85), &json!("faster")));
    let text = text(&report);
    for part in [
        "  measured here: 4 KiB random read QD1: mean on rung \"governor\" is 0.900 (0.850 - 0.950) times that on \"as found\": faster",
        "no difference shown (1.050 x would have been)",
        "Measured on this machine, in this boot: 2;",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_ladder_of_another_drive_says_nothing_of_this_one() {
    let measured = Measured::read(&ladder(&json!(here())).to_string(), &here()).unwrap();
    assert_eq!(measured.of("interrupts", Some("nvme0n1")).len(), 2);
    assert!(measured.of("interrupts", Some("nvme1n1")).is_empty());
    assert!(measured.of("turbo", None).is_empty());
}

#[test]
fn another_machines_ladder_is_refused() {
    let read = |machine: &Value| Measured::read(&ladder(machine).to_string(), &here());
    let other_boot = Fingerprint { boot_id: Some("another".to_owned()), ..here() };
    assert_eq!(read(&json!(other_boot)).unwrap().place, Place::Alike);
    for machine in [
        json!(Fingerprint { cpu: Some("another".to_owned()), ..other_boot.clone() }),
        json!(Fingerprint { kernel: Some("6.1.1".to_owned()), ..other_boot.clone() }),
        json!(Fingerprint { kernel: None, ..other_boot.clone() }),
    ] {
        let why = read(&machine).unwrap_err().to_string();
        assert!(why.contains("measured on another machine or kernel") && why.contains("6.12.9"), "{why}");
    }
    assert!(read(&Value::Null).unwrap_err().to_string().contains("a model's"));
    // Facts missing in both fingerprints do not make the machines alike.
    let nobody = Measured::read(&ladder(&json!(Fingerprint::default())).to_string(), &Fingerprint::default());
    assert!(nobody.is_err());
    for text in ["", "{}", "[]", "{\"result\": {\"experiment\": \"check\", \"confidence_percent\": 95, \"rungs\": []}}"]
    {
        assert!(
            Measured::read(text, &here()).unwrap_err().to_string().contains("no result of forebay doctor --ladder"),
            "{text}"
        );
    }
}
