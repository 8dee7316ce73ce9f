//! A capture reads like the original tree, and contains nothing that was not requested.

use crate::support::*;
use forebay_platform::{Machine, Tree, Wanted, audit, capture, text};
use std::fs;
use std::path::Path;

fn captured(root: &Path) -> (Small, usize) {
    let tree = Tree::open(root).unwrap();
    Machine::read(&tree, Wanted::All).unwrap();
    let small = Small::new(&[]);
    let files = capture(&tree, &small.path("/tree")).unwrap();
    (small, files)
}

#[test]
fn a_capture_gives_the_same_report() {
    for (name, device) in
        [("intel-server", "nvme0n1"), ("intel-server", "sda"), ("amd-server", "nvme0n1"), ("laptop", "nvme0n1")]
    {
        let (first, files) = captured(&shipped(name));
        assert!(files > 50, "{name}: {files}");
        let original = report_of(&shipped(name), Wanted::Device(device));
        let copy = report_of(&first.path("/tree"), Wanted::Device(device));
        assert_eq!(text(&original), text(&copy), "{name}");
        // A capture of the capture is the same.
        let (second, again) = captured(&first.path("/tree"));
        assert_eq!(files, again, "{name}");
        assert_eq!(text(&copy), text(&report_of(&second.path("/tree"), Wanted::Device(device))), "{name}");
    }
}

#[test]
fn this_machine_can_be_captured() {
    let tree = Tree::open("/".as_ref()).unwrap();
    let machine = Machine::read(&tree, Wanted::All).unwrap();
    let small = Small::new(&[]);
    capture(&tree, &small.path("/tree")).unwrap();
    let copy = Tree::open(&small.path("/tree")).unwrap();
    let again = Machine::read(&copy, Wanted::All).unwrap();
    assert_eq!(machine.devices.len(), again.devices.len());
    // Programs come and go, and temperatures change; everything else is the same.
    let names = |machine: &Machine| {
        let report = audit(machine);
        report.findings.iter().map(|entry| (entry.name, entry.finding.what.clone())).collect::<Vec<_>>()
    };
    let steady = |list: Vec<(&'static str, String)>| {
        list.into_iter()
            .filter(|(name, _)| !matches!(*name, "scanners" | "tuners" | "temperature" | "array-check"))
            .collect::<Vec<_>>()
    };
    assert_eq!(steady(names(&machine)), steady(names(&again)));
}

#[test]
fn nothing_is_captured_that_no_rule_reads() {
    let small = Small::new(&[
        ("/proc/cmdline", "root=UUID=1234 password=secret mitigations=off init=/secret ro"),
        ("/proc/cpuinfo", "vendor_id : X\nserial : secret\nflags : fpu secret\n\nvendor_id : Y\n"),
        ("/proc/swaps", "Filename Type Size\n/home/secret/swap file 1 0 -2\n"),
        ("/proc/77/comm", "secret"),
        ("/proc/78/comm", "irqbalance"),
        ("/proc/interrupts", " CPU0\n 5: 1 secret\n 6: 2 PCI-MSI nvme0q1\n"),
        ("/etc/cron.daily/secret", ""),
        ("/sys/class/block/sda/serial", "secret"),
        ("/sys/class/block/sda/queue/scheduler", "[none]"),
    ]);
    let (copy, _) = captured(small.folder.path());
    let mut waiting = vec![copy.path("/tree")];
    while let Some(path) = waiting.pop() {
        assert!(!path.to_str().unwrap().contains("secret"), "{}", path.display());
        if path.is_dir() {
            waiting.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            let text = fs::read_to_string(&path).unwrap();
            assert!(!text.contains("secret") && !text.contains("1234"), "{}: {text}", path.display());
        }
    }
    assert_eq!(fs::read_to_string(copy.path("/tree/proc/cmdline")).unwrap(), "mitigations=off\n");
    assert!(copy.path("/tree/proc/78/comm").exists() && !copy.path("/tree/proc/77").exists());
}

#[test]
fn a_folder_that_holds_something_is_refused() {
    let small = Small::new(&[("/full/x", "y")]);
    let tree = Tree::open(&shipped("laptop")).unwrap();
    Machine::read(&tree, Wanted::Machine).unwrap();
    let error = capture(&tree, &small.path("/full")).unwrap_err().to_string();
    assert!(error.contains("is not empty"), "{error}");
    let error = capture(&tree, &small.path("/full/x")).unwrap_err().to_string();
    assert!(error.contains("/full/x"), "{error}");
    fs::create_dir(small.path("/empty")).unwrap();
    capture(&tree, &small.path("/empty")).unwrap();
}

/// The capture of a virtual machine is recognised as that of a virtual machine.
#[test]
fn the_captured_virtual_machine_knows_what_it_is() {
    let report = shipped_report("vm-captured", "vda");
    for (rule, expected) in [
        ("virtual-machine", "note"),
        ("governor", "unknown"),
        ("idle-states", "unknown"),
        ("turbo", "unknown"),
        ("clock", "good"),
        ("smt", "good"),
        ("mitigations", "note"),
        ("scheduler", "unknown"),
        ("hardware-queues", "costs-throughput"),
        ("interrupts", "good"),
        ("write-cache", "note"),
        ("spin-down", "not here"),
        ("attachment", "not here"),
        ("wear", "not here"),
    ] {
        assert_eq!(verdict(&report, rule), expected, "{rule}: {}", said(&report, rule));
    }
}
