//! `forebay doctor` on captured trees of other machines: exit codes, JSON, captures. `crates/platform` tests the rules.

use crate::support::*;
use serde_json::Value;
use tempfile::TempDir;

const TREES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/machines");

fn tree(name: &str) -> String {
    format!("{TREES}/{name}")
}

#[test]
fn what_costs_is_a_finding() {
    let output = forebay(&["doctor", "--root", &tree("laptop"), "--device", "nvme0n1"]);
    assert_eq!(code(&output), 1);
    assert!(err(&output).contains("settings that cost latency, throughput or safety: "), "{}", err(&output));
    let text = out(&output);
    for part in [
        "COSTS LATENCY (",
        "governor: ",
        "link-power of nvme0n1: ",
        "source: ",
        "now: echo ",
        "for good: ",
        "price: ",
        "UNKNOWN (",
    ] {
        assert!(text.contains(part), "{part} is missing in: {text}");
    }
}

#[test]
fn json_has_findings_with_all_their_parts() {
    let output = forebay(&["doctor", "--root", &tree("amd-server"), "--device", "nvme0n1", "--output", "json"]);
    assert_eq!(code(&output), 1);
    let value: Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!(value["schema_version"], 1);
    assert_eq!(value["device"], "nvme0n1");
    // Findings about the whole machine lacked this key.
    for list in ["findings", "unknown", "good"] {
        for entry in value[list].as_array().unwrap() {
            assert!(entry.get("device").is_some_and(|device| device.is_string() || device.is_null()), "{entry}");
        }
    }
    assert_eq!(value["findings"][0]["severity"], "safety", "worst first");
    for finding in value["findings"].as_array().unwrap() {
        for key in ["name", "severity", "what", "cost", "source", "now", "for_good", "price"] {
            assert!(finding[key].as_str().is_some_and(|text| !text.is_empty()), "{key}: {finding}");
        }
    }
    // The tree contains the drive's answers.
    assert!(value["findings"].as_array().unwrap().iter().any(|found| found["name"] == "wear"));
}

#[test]
fn nothing_known_is_no_finding_and_nothing_good() {
    let folder = TempDir::new().unwrap();
    std::fs::create_dir(folder.path().join("proc")).unwrap();
    std::fs::write(folder.path().join("proc/swaps"), "").unwrap();
    let text = good(&forebay(&["doctor", "--root", folder.path().to_str().unwrap()]));
    assert!(text.contains("UNKNOWN (") && text.contains("is not there"), "{text}");
}

/// An empty folder, such as the parent of the intended one, was reported as a machine without findings.
#[test]
fn regression_a_folder_that_is_no_tree_is_no_good_machine() {
    let folder = TempDir::new().unwrap();
    let root = folder.path().to_str().unwrap();
    for more in [&[][..], &["--output", "json"], &["--capture", "/nonexistent/copy"]] {
        let output = forebay(&[&["doctor", "--root", root], more].concat());
        refused(&output, 2, &[root, "holds no file that is looked at", "--capture"]);
    }
    let above = tree("");
    refused(&forebay(&["doctor", "--root", &above]), 2, &["no tree of a machine"]);
}

#[test]
fn a_capture_can_be_read_again() {
    let folder = TempDir::new().unwrap();
    let copy = folder.path().join("copy");
    let copy = copy.to_str().unwrap();
    let text = good(&forebay(&["doctor", "--root", &tree("intel-server"), "--capture", copy]));
    assert!(text.contains("files in ") && text.contains("forebay doctor --root "), "{text}");
    let of = |root: &str| out(&forebay(&["doctor", "--root", root, "--device", "sda"]));
    assert_eq!(of(&tree("intel-server")), of(copy));
    refused(&forebay(&["doctor", "--capture", copy]), 2, &["is not empty"]);
}

#[test]
fn what_is_not_there_is_refused() {
    refused(&forebay(&["doctor", "--root", "/nonexistent"]), 2, &["/nonexistent", "cannot be opened as a directory"]);
    let root = tree("laptop");
    refused(&forebay(&["doctor", "--root", &root, "--device", "sdx"]), 2, &["sdx", "no such block device", "nvme0n1"]);
    refused(&forebay(&["doctor", "--device", "/etc/passwd"]), 2, &["no such block device"]);
}

#[test]
fn a_pool_is_looked_at_with_its_machine() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::File::create(path("capacity")).unwrap().set_len(1 << 40).unwrap();
    let config = path("pool.toml");
    let text = format!(
        "[pool]\nname = \"p\"\n[[fast]]\ntarget = \"/dev/nvme0n1\"\n[[capacity]]\ntarget = \"{}\"\n[[disk]]\nname = \"d\"\n\
         size = \"1GiB\"\n[memory]\nlimit = \"64MiB\"\n[[class]]\nname = \"wal\"\nplace = \"fast\"\nmatch = [\"path:**/*.log\"]\n",
        path("capacity")
    );
    std::fs::write(&config, &text).unwrap();
    let output = forebay(&["doctor", &config, "--root", &tree("laptop"), "--output", "json"]);
    assert_eq!(code(&output), 1, "{}", err(&output));
    let value: Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!(value["config"], config.as_str());
    let said = |list: &str, name: &str| {
        let all = value[list].as_array().unwrap();
        let found = all.iter().find(|entry| entry["name"] == name).unwrap_or_else(|| panic!("{name}: {value}"));
        found["what"].as_str().or(found["text"].as_str()).unwrap().to_owned()
    };
    assert!(said("findings", "pool-evidence").contains("wal: path:**/*.log"));
    // The laptop's tree does not contain the size of its drive.
    assert!(said("unknown", "pool-map").contains("size"));
    assert!(said("unknown", "pool-band").contains("no capacity device"));
    refused(&forebay(&["doctor", &path("none.toml")]), 2, &["none.toml"]);
    refused(&forebay(&["doctor", &config, "--restore"]), 2, &["cannot be used with"]);
}
