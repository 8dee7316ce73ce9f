//! `forebay doctor` with changes, on copied trees: apply, kill, restore, verify, and the ladder.

use crate::support::*;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

const BOOT_ID: &str = "proc/sys/kernel/random/boot_id";
const GOVERNOR: &str = "sys/devices/system/cpu/cpufreq/policy0/scaling_governor";
const DRIVE: &str = "nvme0n1";

/// A copy of a machine's tree, with a folder for records.
struct Copy {
    folder: TempDir,
}

impl Copy {
    fn new() -> Self {
        let copy = Self { folder: TempDir::new().unwrap() };
        let from = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/machines/laptop"));
        copied(from, &copy.root());
        copy.put(BOOT_ID, "the first boot\n");
        copy
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("tree")
    }

    fn put(&self, path: &str, text: &str) {
        let place = self.root().join(path);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(place, text).unwrap();
    }

    fn governor(&self) -> String {
        fs::read_to_string(self.root().join(GOVERNOR)).unwrap()
    }

    /// The command line for this tree.
    fn words(&self, words: &[&str]) -> Vec<String> {
        let (root, state) = (self.root(), self.folder.path().join("state"));
        let own = ["--root", root.to_str().unwrap(), "--state", state.to_str().unwrap()];
        ["doctor"].iter().chain(words).chain(&own).map(|&word| word.to_owned()).collect()
    }

    fn doctor(&self, words: &[&str]) -> std::process::Output {
        let words = self.words(words);
        forebay(&words.iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn all(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        let mut waiting = vec![self.root()];
        while let Some(folder) = waiting.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_symlink() {
                    found.insert(path.clone(), fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes());
                } else if path.is_dir() {
                    waiting.push(path);
                } else {
                    found.insert(path.clone(), fs::read(&path).unwrap());
                }
            }
        }
        found
    }

    /// A ladder that runs on, started until it has changed a setting.
    fn climbing(&self) -> Child {
        let before = self.governor();
        let words = self.words(&["--ladder", "--target", "null:?size=1GiB", "--device", DRIVE, "--runtime", "1h"]);
        let mut child = Command::new(env!("CARGO_BIN_EXE_forebay"));
        let child = child.args(words).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        crate::support::client::until("the governor is changed", || self.governor() != before);
        child
    }
}

fn copied(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let place = to.join(path.file_name().unwrap());
        if path.is_symlink() {
            symlink(fs::read_link(&path).unwrap(), place).unwrap();
        } else if path.is_dir() {
            copied(&path, &place);
        } else {
            fs::write(place, fs::read(&path).unwrap()).unwrap();
        }
    }
}

fn json(output: &std::process::Output) -> Value {
    serde_json::from_str(&out(output)).unwrap()
}

#[test]
fn a_profile_is_shown_applied_verified_and_put_back() {
    let copy = Copy::new();
    let before = copy.all();
    let shown = good(&copy.doctor(&["--apply", "measure", "--device", DRIVE, "--dry-run"]));
    for part in ["setting", "governor", "powersave", "performance", "price:", "source:", "Nothing was changed"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert_eq!(copy.all(), before, "--dry-run changes nothing");
    refused(&copy.doctor(&["--restore"]), 2, &["no record", "--state"]);
    let applied = json(&copy.doctor(&["--apply", "measure", "--device", DRIVE, "--output", "json"]));
    assert_eq!(applied["schema_version"], 1);
    let changes = applied["changes"].as_array().unwrap();
    assert!(changes.iter().all(|change| change["is_changed"] == true && change["refused"].is_null()), "{applied}");
    assert!(changes.iter().any(|change| change["name"] == "merges" && change["device"] == DRIVE));
    assert_ne!(copy.all(), before);
    copy.put(GOVERNOR, "powersave\n");
    refused(&copy.doctor(&["--apply", "latency"]), 2, &["measure are in force", "forebay doctor --restore --root "]);
    copy.put(GOVERNOR, "performance\n");
    let held = good(&copy.doctor(&["--verify"]));
    assert!(held.contains("files hold"), "{held}");
    let back = good(&copy.doctor(&["--restore"]));
    assert!(back.contains("Files put back: "), "{back}");
    assert_eq!(copy.all(), before);
    let again = good(&copy.doctor(&["--apply", "default-safe"]));
    assert!(again.contains("Files changed") || again.contains("There is nothing to change"), "{again}");
}

/// A closed pipe ended it with exit code 0 between the plan and the change.
#[test]
fn a_change_is_made_though_nobody_reads_the_plan() {
    let copy = Copy::new();
    let before = copy.governor();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    let status = command.args(copy.words(&["--apply", "measure", "--device", DRIVE])).stdout(writer).status().unwrap();
    assert_eq!(status.code(), Some(0));
    assert_ne!(copy.governor(), before);
    good(&copy.doctor(&["--restore"]));
    assert_eq!(copy.governor(), before);
}

#[test]
fn who_fights_back_is_named_and_what_changed_since_is_said() {
    let copy = Copy::new();
    let before = copy.all();
    copy.put("proc/4242/comm", "tuned\n");
    let before_tuned = copy.all();
    assert!(before_tuned.len() > before.len());
    copy.doctor(&["--apply", "latency"]);
    copy.put(GOVERNOR, "schedutil\n");
    refused(&copy.doctor(&["--verify"]), 1, &["did not hold: 1"]);
    let said = out(&copy.doctor(&["--verify"]));
    assert!(said.contains("says schedutil") && said.contains("tuned runs here"), "{said}");
    let lost = json(&copy.doctor(&["--verify", "--output", "json"]));
    let suspects = lost["lost"][0]["suspects"].as_array().unwrap();
    assert!(suspects.iter().any(|name| name == "tuned"), "{lost}");
    let back = good(&copy.doctor(&["--restore"]));
    assert!(back.contains("somebody else made it schedutil"), "{back}");
    assert_eq!(copy.all(), before_tuned);
}

#[test]
fn a_ladder_that_is_killed_is_put_back_by_restore() {
    let copy = Copy::new();
    let before = copy.all();
    let mut child = copy.climbing();
    refused(&copy.doctor(&["--restore"]), 2, &["another forebay doctor is changing settings"]);
    child.kill().unwrap();
    child.wait().unwrap();
    good(&copy.doctor(&["--restore"]));
    assert_eq!(copy.all(), before);
}

#[test]
fn a_ladder_that_is_interrupted_puts_back_itself() {
    let copy = Copy::new();
    let before = copy.all();
    let child = copy.climbing();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(out(&output).contains("PARTIAL"), "{}", out(&output));
    assert_eq!(copy.all(), before);
    refused(&copy.doctor(&["--restore"]), 2, &["no record"]);
}

#[test]
fn a_record_of_another_boot_or_tree_is_not_put_back() {
    let (copy, other) = (Copy::new(), Copy::new());
    copy.doctor(&["--apply", "latency"]);
    let changed = copy.all();
    let state = copy.folder.path().join("state");
    let root = other.root();
    let of_other =
        forebay(&["doctor", "--restore", "--root", root.to_str().unwrap(), "--state", state.to_str().unwrap()]);
    refused(&of_other, 2, &["of the tree", "--root"]);
    copy.put(BOOT_ID, "the second boot\n");
    refused(&copy.doctor(&["--restore"]), 2, &["another boot", "is gone", "--apply writes over"]);
    copy.put(BOOT_ID, "the first boot\n");
    assert_eq!(copy.all(), changed, "nothing was written");
    // After a boot the kernel has reset all settings; an older record must not block anything.
    let fresh = Copy::new();
    copied(&state, &fresh.folder.path().join("state"));
    fresh.put(BOOT_ID, "the second boot\n");
    let text = fs::read_to_string(state.join("settings.json")).unwrap();
    let (old, new) = (copy.root().canonicalize().unwrap(), fresh.root().canonicalize().unwrap());
    let text = text.replace(old.to_str().unwrap(), new.to_str().unwrap());
    fs::write(fresh.folder.path().join("state/settings.json"), text).unwrap();
    let before = fresh.all();
    good(&fresh.doctor(&["--apply", "latency"]));
    good(&fresh.doctor(&["--restore"]));
    assert_eq!(fresh.all(), before);
}

#[test]
fn unknown_profiles_and_records_that_cannot_be_written_are_refused() {
    let copy = Copy::new();
    let before = copy.all();
    refused(&copy.doctor(&["--apply", "fast"]), 2, &["fast", "default-safe", "latency", "measure"]);
    fs::write(copy.folder.path().join("state"), "a file").unwrap();
    refused(&copy.doctor(&["--apply", "latency"]), 2, &["recorded first", "--state FOLDER"]);
    refused(&copy.doctor(&["--apply", "latency", "--restore"]), 2, &["cannot be used with"]);
    refused(&copy.doctor(&["--ladder"]), 2, &["--target is missing"]);
    assert_eq!(copy.all(), before);
}

#[test]
fn the_ladder_names_what_is_not_there_and_leaves_nothing_behind() {
    let copy = Copy::new();
    let before = copy.all();
    let words = ["--ladder", "--target", "null:?size=1GiB", "--device", DRIVE, "--rounds", "3", "--runtime", "20ms"];
    let text = good(&copy.doctor(&words));
    for part in [
        "4 KiB random read QD1",
        "as found",
        "1 governor",
        "wait: spin",
        "not there: irq-balancing",
        "RUNGS",
        "source:",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(copy.all(), before);
    let result = json(&copy.doctor(&[&words[..], &["--output", "json"]].concat()));
    assert_eq!((&result["schema_version"], &result["experiment"]), (&1.into(), &"ladder".into()));
    let rungs = result["result"]["rungs"].as_array().unwrap();
    let of = |name: &str| rungs.iter().find(|rung| rung["name"] == name).unwrap();
    assert_eq!(of("calls: sync")["missing"], "this target is reached in one way only");
    assert!(of("idle-states")["missing"].as_str().unwrap().contains("not of the tree"));
    assert_eq!(of("governor")["against"], "as found");
    assert!(
        of("fixed-3.0-GHz")["missing"].is_string()
            && of("irq-balancing")["missing"].as_str().unwrap().contains("not of the tree")
    );
    assert!(result["result"]["machine"].is_null(), "a copy's settings are nobody's");
    assert!(rungs.iter().all(|rung| rung["source"].is_string() && rung["cost"].is_string()));
    // Whether so short a run has enough samples depends on the machine.
    let effect = &of("wait: spin")["jobs"][0]["effects"][0];
    assert_ne!(effect["comparison"].is_null(), effect["not_compared"].is_null(), "{effect}");
    assert!(!effect["not_compared"].as_str().unwrap_or_default().contains("too few rounds"), "{effect}");
    assert_eq!(copy.all(), before);
    // Without a place for records nothing is changed, but the instrument is measured. An empty folder remained of the removed record.
    assert!(!copy.folder.path().join("state").exists());
    fs::write(copy.folder.path().join("state"), "a file").unwrap();
    let unrecorded = json(&copy.doctor(&[&words[..], &["--output", "json"]].concat()));
    let governor = &unrecorded["result"]["rungs"][1];
    assert!(governor["missing"].as_str().unwrap().contains("recorded"), "{governor}");
    assert_eq!(copy.all(), before);
}

/// The file's drive was not recognised, so ten rungs were left out.
#[test]
fn regression_a_target_that_is_a_file_names_the_drive_below() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let file = folder.path().join("file");
    fs::write(&file, vec![7; 1 << 20]).unwrap();
    let state = folder.path().join("a file");
    fs::write(&state, "so that nothing can be recorded, and nothing is changed").unwrap();
    let result = json(&forebay(&[
        "doctor",
        "--ladder",
        "--target",
        file.to_str().unwrap(),
        "--state",
        state.to_str().unwrap(),
        "--rounds",
        "3",
        "--runtime",
        "20ms",
        "--output",
        "json",
    ]));
    let machine = &result["result"]["machine"];
    assert!(machine["kernel"].is_string() && machine["boot_id"].is_string(), "{machine}");
    // Where these files lie on no single drive (overlay, tmpfs), none is named.
    let Ok(name) = forebay_device::counters::drive_below(&file) else { return };
    assert_eq!(result["result"]["device"], name.as_str());
    let text = result.to_string();
    assert!(!text.contains("no device was named") && text.contains(&format!("and of {name}")), "{text}");
}

#[test]
fn what_a_ladder_measured_stands_beside_the_audit_of_the_same_machine() {
    let copy = Copy::new();
    copy.put("proc/sys/kernel/osrelease", "6.12.9\n");
    let effect = serde_json::json!({ "figure": "mean", "comparison": {
        "ratio": 0.9, "ratio_low": 0.85, "ratio_high": 0.95, "verdict": "b better", "would_show": 1.05 } });
    let write = |boot: &str| {
        let ladder = serde_json::json!({ "result": {
            "experiment": "ladder", "confidence_percent": 95.0, "device": DRIVE,
            "machine": { "boot_id": boot, "cpu": null, "kernel": null },
            "rungs": [{ "name": "governor", "against": "as found", "jobs": [{ "job": "reads", "effects": [effect] }] }],
        } });
        fs::write(copy.folder.path().join("ladder.json"), ladder.to_string()).unwrap();
    };
    let (root, file) = (copy.root(), copy.folder.path().join("ladder.json"));
    let doctor = |more: &[&str]| {
        let words = ["doctor", "--root", root.to_str().unwrap(), "--measured", file.to_str().unwrap()];
        forebay(&[&words[..], more].concat())
    };
    write("the first boot");
    let audit = json(&doctor(&["--output", "json"]));
    assert_eq!((&audit["measured"], &audit["measured_place"]), (&true.into(), &"this-boot".into()));
    let found = audit["findings"].as_array().unwrap();
    assert!(found.iter().all(|found| found["measured"] == (found["name"] == "governor")), "{audit}");
    assert!(out(&doctor(&[])).contains("measured here: reads: mean on rung \"governor\" is 0.900 (0.850 - 0.950)"));
    write("another boot");
    refused(&doctor(&[]), 2, &["ladder.json", "measured on another machine or kernel"]);
    refused(&doctor(&["--restore"]), 2, &["cannot be used with"]);
    fs::write(&file, "{}").unwrap();
    refused(&doctor(&[]), 2, &["no result of forebay doctor --ladder"]);
}

#[test]
fn the_ladder_of_a_model_gives_the_guides_means() {
    let words = ["doctor", "--ladder", "--target", "model:p4800x", "--rounds", "3", "--runtime", "60ms"];
    let result = json(&forebay(&[&words[..], &["--output", "json"]].concat()));
    let rungs = result["result"]["rungs"].as_array().unwrap();
    assert_eq!(rungs.len(), 6);
    for rung in rungs {
        for job in rung["jobs"].as_array().unwrap() {
            let (ours, theirs) = (job["mean_ns"].as_f64().unwrap(), job["published"]["mean_ns"].as_f64().unwrap());
            assert!((ours / theirs - 1.0).abs() <= 0.05, "{} {}: {ours} {theirs}", rung["name"], job["job"]);
        }
    }
    // The guide's table.
    let published = rungs.iter().map(|rung| rung["jobs"][0]["published"]["mean_ns"].as_f64().unwrap());
    assert_eq!(published.collect::<Vec<_>>(), [8430.0, 8160.0, 8010.0, 7960.0, 9200.0, 7570.0]);
    let turbo = rungs.iter().filter(|rung| rung["against"] == "SMP affinity set").count();
    assert_eq!(turbo, 2, "the rows without turbo are alternatives");
    assert!(result["notes"][0].as_str().unwrap().starts_with("CALIBRATED, NOT PREDICTED"), "{}", result["notes"]);
    let text = good(&forebay(&words));
    assert!(text.contains("CALIBRATED, NOT PREDICTED") && text.contains("beside what was published"), "{text}");
}

/// It reported means of 0 ns, "off by -100.0 %" from published figures, with exit code 0.
#[test]
fn a_ladder_of_no_time_is_refused() {
    let output = forebay(&["doctor", "--ladder", "--target", "model:p4800x", "--rounds", "3", "--runtime", "0s"]);
    refused(&output, 2, &["--runtime 0s", "from 1 ns to a year"]);
}

/// A file that was absent only for a moment counted as removed, and the record was deleted.
#[test]
fn regression_what_is_missing_of_the_machine_itself_keeps_the_record() {
    let copy = Copy::new();
    let before = copy.all();
    good(&copy.doctor(&["--apply", "latency"]));
    let (here, away) = (copy.root().join("sys/devices/system/cpu/cpufreq"), copy.folder.path().join("away"));
    fs::rename(&here, &away).unwrap();
    refused(&copy.doctor(&["--restore"]), 2, &["were not put back", "the record stays"]);
    fs::rename(&away, &here).unwrap();
    good(&copy.doctor(&["--restore"]));
    assert!(copy.all() == before);
}

/// A termination signal did not reach the command, which continued without this process.
#[test]
fn regression_a_request_to_end_reaches_the_command_that_idle_states_are_held_for() {
    if !Path::new("/dev/cpu_dma_latency").exists() {
        refused(&forebay(&["doctor", "--hold", "--", "true"]), 2, &["/dev/cpu_dma_latency"]);
        return;
    }
    let words = ["doctor", "--hold", "--", "sleep", "600"];
    let mut child = Command::new(env!("CARGO_BIN_EXE_forebay")).args(words).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(500));
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let begin = std::time::Instant::now();
    while child.try_wait().unwrap().is_none() {
        assert!(begin.elapsed().as_secs() < 60, "it goes on");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}
