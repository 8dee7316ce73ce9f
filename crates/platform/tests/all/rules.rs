//! For every rule, a tree with a finding and one without.

use crate::support::*;
use forebay_platform::{RULES, Report, Wanted, text};
use std::collections::BTreeSet;

/// The verdicts of the rules about the trees in `contrib/machines`: the Intel server with its NVMe drive, the AMD
/// server with its NVMe drive, the laptop with its drive, and the Intel server with its SATA disk.
const EXPECTED: [(&str, [&str; 4]); 53] = [
    ("virtual-machine", ["good", "good", "good", "good"]),
    ("governor", ["costs-latency", "good", "costs-latency", "costs-latency"]),
    ("energy-preference", ["costs-latency", "not here", "costs-latency", "costs-latency"]),
    ("turbo", ["costs-latency", "good", "note", "costs-latency"]),
    ("base-frequency", ["good", "note", "note", "good"]),
    ("frequency-cap", ["good", "good", "costs-latency", "good"]),
    ("idle-states", ["costs-latency", "good", "costs-latency", "costs-latency"]),
    ("smt", ["costs-latency", "good", "costs-latency", "costs-latency"]),
    ("mitigations", ["note", "good", "note", "note"]),
    ("vulnerable", ["good", "safety", "good", "good"]),
    ("numa", ["note", "good", "good", "note"]),
    ("numa-balancing", ["costs-latency", "not here", "not here", "costs-latency"]),
    ("clock", ["good", "costs-latency", "good", "good"]),
    ("command-line", ["good", "costs-latency", "good", "good"]),
    ("huge-pages", ["good", "costs-latency", "good", "good"]),
    ("swap", ["costs-latency", "good", "costs-latency", "costs-latency"]),
    ("aspm-policy", ["unknown", "good", "costs-latency", "unknown"]),
    ("nvme-sleep", ["note", "good", "note", "note"]),
    ("poll-queues", ["costs-latency", "good", "costs-latency", "costs-latency"]),
    ("array-check", ["good", "costs-throughput", "good", "good"]),
    ("irq-balancing", ["costs-latency", "good", "good", "costs-latency"]),
    ("scanners", ["costs-latency", "costs-latency", "costs-latency", "costs-latency"]),
    ("schedules", ["note", "note", "note", "note"]),
    ("tuners", ["good", "good", "note", "good"]),
    ("battery", ["not here", "not here", "costs-latency", "not here"]),
    ("platform-profile", ["not here", "not here", "costs-latency", "not here"]),
    ("suspend", ["good", "good", "note", "good"]),
    ("usb-suspend", ["not here", "not here", "note", "not here"]),
    ("stacked", ["not here", "not here", "not here", "not here"]),
    ("scheduler", ["good", "costs-latency", "good", "good"]),
    ("write-throttling", ["note", "good", "note", "note"]),
    ("requests", ["good", "costs-throughput", "good", "good"]),
    ("completion-affinity", ["good", "note", "good", "good"]),
    ("merges", ["note", "good", "note", "good"]),
    ("statistics", ["note", "good", "note", "note"]),
    ("entropy", ["good", "costs-latency", "good", "costs-latency"]),
    ("polling", ["not here", "good", "not here", "not here"]),
    ("hardware-queues", ["good", "costs-throughput", "good", "note"]),
    ("interrupts", ["good", "costs-latency", "good", "not here"]),
    ("write-cache", ["good", "good", "note", "note"]),
    ("cache-lie", ["not here", "not here", "not here", "good"]),
    ("node", ["note", "not here", "not here", "note"]),
    ("attachment", ["good", "good", "costs-latency", "good"]),
    ("link-width", ["good", "costs-throughput", "good", "not here"]),
    ("link-speed", ["good", "costs-throughput", "costs-throughput", "not here"]),
    ("link-power", ["good", "good", "costs-latency", "unknown"]),
    ("dma-translation", ["good", "costs-latency", "good", "not here"]),
    ("power-state", ["good", "costs-throughput", "unknown", "not here"]),
    ("drive-sleep", ["good", "good", "costs-latency", "not here"]),
    ("sata-link-power", ["not here", "not here", "not here", "costs-latency"]),
    ("spin-down", ["not here", "not here", "not here", "costs-latency"]),
    ("temperature", ["good", "costs-throughput", "unknown", "not here"]),
    ("wear", ["good", "safety", "unknown", "unknown"]),
];

fn all_shipped() -> [Report; 4] {
    [
        shipped_report("intel-server", "nvme0n1"),
        shipped_report("amd-server", "/dev/nvme0n1"),
        shipped_report("laptop", "nvme0n1"),
        // A partition stands for its disk.
        shipped_report("intel-server", "sda1"),
    ]
}

#[test]
fn the_trees_give_what_is_expected_of_them() {
    let reports = all_shipped();
    assert_eq!(EXPECTED.len(), RULES.len());
    let mut wrong = Vec::new();
    for (rule, (name, expected)) in RULES.iter().zip(EXPECTED) {
        assert_eq!(rule.name, name, "the order of the table");
        for (number, (report, expected)) in reports.iter().zip(expected).enumerate() {
            let verdict = verdict(report, name);
            if verdict != expected {
                wrong.push(format!("{name}, tree {number}: {verdict}, not {expected}: {}", said(report, name)));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Rules for which the table above has only one kind of verdict, with a tree for the other kind.
#[test]
fn what_the_trees_do_not_show_small_ones_do() {
    let disk =
        [("/sys/class/block/sda", "->../../devices/x/host1/block/sda"), ("/sys/devices/x/host1/block/sda/size", "8")];
    let with = |more: &[(&str, &str)]| Small::new(&[&disk[..], more].concat());
    let queue = |file: &str| format!("/sys/devices/x/host1/block/sda/queue/{file}");
    let machine = |path: &str, text: &str, rule: &str| verdict(&Small::new(&[(path, text)]).report(), rule);
    let device = |more: &[(&str, &str)], rule: &str| verdict(&with(more).report_with("sda"), rule);

    assert_eq!(
        machine("/proc/cpuinfo", "vendor_id : AuthenticAMD\nflags : fpu hypervisor\n", "virtual-machine"),
        "note"
    );
    assert_eq!(machine("/proc/cpuinfo", "CPU implementer : 0x41\n", "virtual-machine"), "unknown");
    assert_eq!(machine("/sys/hypervisor/type", "xen\n", "virtual-machine"), "note");
    assert_eq!(machine("/proc/1/comm", "systemd\n", "scanners"), "good");
    assert_eq!(machine("/etc/cron.daily/apt", "", "schedules"), "good");
    assert_eq!(machine("/etc/cron.daily/plocate", "", "schedules"), "note");
    assert_eq!(machine("/sys/module/usbcore/parameters/autosuspend", "-1\n", "usb-suspend"), "good");
    assert_eq!(machine("/sys/firmware/acpi/platform_profile", "performance\n", "platform-profile"), "good");
    assert_eq!(machine("/sys/class/power_supply/BAT0/type", "Battery\n", "battery"), "good");
    let mouse = Small::new(&[
        ("/sys/class/power_supply/hid/type", "Battery\n"),
        ("/sys/class/power_supply/hid/scope", "Device\n"),
        ("/sys/class/power_supply/hid/status", "Discharging\n"),
    ]);
    assert_eq!(verdict(&mouse.report(), "battery"), "not here");
    let nodes = [("/sys/devices/system/node/node0/x", ""), ("/sys/devices/system/node/node1/x", "")];
    let balanced = Small::new(&[&nodes[..], &[("/proc/sys/kernel/numa_balancing", "0\n")]].concat());
    assert_eq!(verdict(&balanced.report(), "numa-balancing"), "good");
    assert_eq!(
        machine(
            "/sys/devices/system/cpu/cpufreq/policy0/energy_performance_preference",
            "performance",
            "energy-preference"
        ),
        "good"
    );

    assert_eq!(device(&[(&queue("scheduler"), "[none] mq-deadline\n")], "scheduler"), "good");
    assert_eq!(device(&[("/sys/devices/x/host1/block/sda/slaves/sdb", "")], "stacked"), "note");
    assert_eq!(
        device(&[("/sys/class/scsi_host/host1/link_power_management_policy", "max_performance\n")], "sata-link-power"),
        "good"
    );
    assert_eq!(device(&[(&queue("rotational"), "1\n")], "spin-down"), "unknown");
    let lie = [
        (&*queue("write_cache"), "write through\n"),
        ("/sys/devices/x/host1/block/sda/device/scsi_disk/0:0:0:0/cache_type", "write back\n"),
    ];
    assert_eq!(device(&lie, "cache-lie"), "safety");
    // A drive that was initialized before polled queues were configured.
    let nvme = Small::new(&[
        ("/sys/class/block/nvme0n1", "->../../devices/nvme0/nvme0n1"),
        ("/sys/devices/nvme0/nvme0n1/device", "->../../nvme0"),
        ("/sys/devices/nvme0/nvme0n1/queue/io_poll", "0\n"),
        ("/sys/module/nvme/parameters/poll_queues", "2\n"),
    ]);
    assert_eq!(verdict(&nvme.report_with("nvme0n1"), "polling"), "costs-latency");
}

#[test]
fn every_rule_has_been_seen_on_both_sides() {
    // Rules with a finding in the small trees above.
    let small_found = ["virtual-machine", "stacked", "cache-lie", "polling"];
    let small_silent =
        ["scanners", "schedules", "usb-suspend", "platform-profile", "battery", "sata-link-power", "spin-down"];
    for (name, verdicts) in EXPECTED {
        let found =
            verdicts.iter().any(|verdict| verdict.starts_with("costs") || matches!(*verdict, "note" | "safety"));
        let silent = verdicts.iter().any(|verdict| matches!(*verdict, "good" | "unknown" | "not here"));
        assert!(found || small_found.contains(&name), "{name} never finds anything");
        assert!(silent || small_silent.contains(&name), "{name} always finds something");
    }
}

#[test]
fn a_finding_says_all_that_it_should() {
    for report in all_shipped() {
        for entry in &report.findings {
            let finding = &entry.finding;
            for text in [&finding.what, &finding.cost, &finding.source, &finding.now, &finding.for_good, &finding.price]
            {
                assert!(!text.trim().is_empty() && !text.contains("  "), "{}: {text:?}", entry.name);
            }
        }
        let severities: Vec<_> = report.findings.iter().map(|entry| entry.finding.severity).collect();
        assert!(severities.is_sorted(), "worst first");
        let text = text(&report);
        for part in ["COSTS LATENCY (", "NOTES (", "GOOD (", "nothing was measured here", "  for good: "] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(text.contains("UNKNOWN ("), !report.unknown.is_empty());
    }
}

#[test]
fn names_of_rules_are_given_once() {
    let names: BTreeSet<&str> = RULES.iter().map(|rule| rule.name).collect();
    assert_eq!(names.len(), RULES.len());
}

#[test]
fn what_findings_say_is_what_the_tree_has() {
    let [intel, amd, laptop, disk] = all_shipped();
    assert_eq!(said(&intel, "idle-states"), "CPUs sleep as deep as C1E (10 us to leave), C6 (133 us to leave)");
    assert_eq!(said(&intel, "node"), "it is attached to node 1 (CPUs 4-7)");
    assert_eq!(said(&intel, "attachment"), "0000:5e:00.0 is on a port of the CPU, 0000:5d:00.0");
    assert_eq!(said(&intel, "mitigations"), "mitigations are in effect: mds, meltdown, spectre_v1, spectre_v2");
    assert_eq!(said(&amd, "link-width"), "its link has 2 of 4 lanes");
    assert_eq!(said(&amd, "link-speed"), "its link runs at 8 of 16 GT/s");
    assert_eq!(said(&amd, "interrupts"), "interrupts of its queues: 4, CPUs that they go to: 1");
    assert_eq!(said(&amd, "hardware-queues"), "hardware queues: 2, CPUs: 4");
    assert_eq!(said(&amd, "temperature"), "79 degrees Celsius, of at most 77");
    assert!(said(&laptop, "attachment").contains("the chipset (PCH)"));
    assert_eq!(said(&laptop, "link-power"), "its link may sleep (l1_aspm, l1_1_aspm, l1_2_aspm)");
    assert!(said(&laptop, "frequency-cap").contains("4 of 4 frequencies are capped, down to 2.4 of 4.2 GHz"));
    assert!(said(&laptop, "swap").contains("zram"));
    assert_eq!(
        said(&intel, "wear"),
        "3 % of its life is used, 100 % of its spare capacity is left, no errors of its medium"
    );
    assert_eq!(said(&amd, "wear"), "104 % of the life that its vendor expects is used");
    assert!(said(&laptop, "wear").contains("with an empty page"));
    assert_eq!(
        said(&intel, "power-state"),
        "it works in power state 0, of at most 18 W; of its 1 states it sleeps in 0"
    );
    assert_eq!(said(&amd, "power-state"), "it is held in power state 1, of at most 12 W; state 0 is of at most 25 W");
    assert_eq!(
        said(&laptop, "drive-sleep"),
        "it puts itself to sleep: after 100 ms in state 3, and takes 1.2 ms to leave it; after 2 s in state 4, and takes 9.5 ms to leave it"
    );
    assert_eq!(said(&disk, "spin-down"), "the kernel stops the disk after 600 s without I/O");
    assert!(disk.findings.iter().all(|entry| entry.device.as_deref().is_none_or(|device| device == "sda")));
}

#[test]
fn an_idle_state_counts_as_it_is_held_back() {
    let state = "/sys/devices/system/cpu/cpu0/cpuidle/state1";
    let files = [("name", "C6\n"), ("latency", "133\n"), ("disable", "0\n")];
    let small = Small::new(&[]);
    files.iter().for_each(|(file, text)| small.put(&format!("{state}/{file}"), text));
    let wish = "/sys/devices/system/cpu/cpu0/power/pm_qos_resume_latency_us";
    for (text, expected) in
        [("0", "costs-latency"), ("n/a", "good"), ("50", "good"), ("200", "costs-latency"), ("?", "unknown")]
    {
        small.put(wish, text);
        assert_eq!(verdict(&small.report(), "idle-states"), expected, "{text}");
    }
}

/// Without turbo, a cap far below the CPU's maximum was judged good, and a governor without a name was a finding.
#[test]
fn regression_a_cap_below_the_base_frequency_is_one_without_turbo_too() {
    let policy = "/sys/devices/system/cpu/cpufreq/policy0";
    let small = Small::new(&[("/sys/devices/system/cpu/intel_pstate/no_turbo", "1")]);
    let files = [("scaling_governor", "performance"), ("cpuinfo_max_freq", "4000000"), ("base_frequency", "3200000")];
    files.iter().for_each(|(file, text)| small.put(&format!("{policy}/{file}"), text));
    for (cap, expected) in [("4000000", "good"), ("3200000", "good"), ("2000000", "costs-latency")] {
        small.put(&format!("{policy}/scaling_max_freq"), cap);
        assert_eq!(verdict(&small.report(), "frequency-cap"), expected, "{cap}");
    }
    for (governor, expected) in
        [("performance", "good"), ("powersave", "costs-latency"), ("", "unknown"), ("a b", "unknown")]
    {
        small.put(&format!("{policy}/scaling_governor"), governor);
        assert_eq!(verdict(&small.report(), "governor"), expected, "{governor}");
    }
}

/// A word that the kernel does not mark was a finding, two rules were good for an empty tree, and a word within
/// quotes counted as a separate parameter.
#[test]
fn regression_what_nothing_says_is_unknown_and_quotes_hold_together() {
    let nothing = Small::new(&[]).report();
    assert!(nothing.good.is_empty(), "{}", text(&nothing));
    for rule in ["numa", "array-check"] {
        assert_eq!(verdict(&nothing, rule), "unknown", "{rule}");
        let machine = Small::new(&[("/sys/devices/system/cpu/cpu0/topology/core_id", "0")]);
        assert_eq!(verdict(&machine.report(), rule), "good", "{rule}");
    }
    let of = |scheduler: &str| {
        let small = Small::new(&[
            ("/sys/class/block/sda", "->/sys/devices/x/sda"),
            ("/sys/devices/x/sda/size", "8"),
            ("/sys/devices/x/sda/queue/rotational", "0"),
            ("/sys/devices/x/sda/queue/scheduler", scheduler),
        ]);
        verdict(&small.report_with("sda"), "scheduler").to_owned()
    };
    let expected = ["unknown", "good", "good", "costs-latency", "costs-latency"];
    assert_eq!(["xyz", "none", "[none]", "[bfq]", "none [mq-deadline]"].map(of), expected);
    for (line, verdict_of_it) in [
        ("ro foo=\"a threadirqs b\"", "good"),
        ("ro foo=\"a\" threadirqs", "costs-latency"),
        ("ro idle=\"poll\"", "costs-latency"),
        ("ro \"idle=poll\"", "costs-latency"),
        ("ro foo=\"threadirqs", "good"),
    ] {
        let small = Small::new(&[("/proc/cmdline", line)]);
        assert_eq!(verdict(&small.report(), "command-line"), verdict_of_it, "{line}");
    }
}

#[test]
fn places_in_pci_are_distinguished() {
    let of = |folders: &[(&str, &str)]| {
        let small = Small::new(&[("/proc/cpuinfo", "vendor_id : GenuineIntel\nflags : fpu\n")]);
        let mut path = "/sys/devices/pci0000:00".to_owned();
        for (address, vendor) in folders {
            path = format!("{path}/{address}");
            small.put(&format!("{path}/vendor"), vendor);
        }
        small.put(&format!("{path}/nvme/nvme0/nvme0n1/size"), "8");
        small.put(&format!("{path}/nvme/nvme0/nvme0n1/device"), "->../../nvme0");
        small.put("/sys/class/block/nvme0n1", &format!("->{path}/nvme/nvme0/nvme0n1"));
        let report = small.report_with("nvme0n1");
        (verdict(&report, "attachment"), said(&report, "attachment"))
    };
    let port = ("0000:00:01.0", "0x8086");
    assert_eq!(of(&[port, ("0000:01:00.0", "0x8086")]).0, "good");
    assert_eq!(of(&[("0000:00:1c.4", "0x8086"), ("0000:01:00.0", "0x8086")]).0, "costs-latency");
    assert_eq!(of(&[("0000:00:1c.4", "0x1022"), ("0000:01:00.0", "0x8086")]).0, "good");
    assert_eq!(of(&[("0000:00:0e.0", "0x8086")]).0, "good");
    let (severity, what) = of(&[
        ("0000:00:02.1", "0x1022"),
        ("0000:03:00.0", "0x1022"),
        ("0000:04:00.0", "0x1022"),
        ("0000:05:00.0", "0x144d"),
    ]);
    assert!(severity == "costs-latency" && what.contains("AMD's chipsets"), "{what}");
    let (severity, what) =
        of(&[port, ("0000:01:00.0", "0x10b5"), ("0000:02:01.0", "0x10b5"), ("0000:03:00.0", "0x144d")]);
    assert!(severity == "costs-latency" && what.contains("PCIe switch (vendor 0x10b5)"), "{what}");
    let (severity, what) = of(&[("0000:00:0e.0", "0x8086"), ("10000:e0:06.0", "0x8086"), ("10000:e1:00.0", "0x144d")]);
    assert!(severity == "unknown" && what.contains("VMD"), "{what}");
}

#[test]
fn a_device_that_is_not_there_is_refused_with_those_that_are() {
    let tree = forebay_platform::Tree::open(&shipped("amd-server")).unwrap();
    for name in ["nvme9n9", "", "..", ".", "/dev/", "../../etc/passwd", "/etc/passwd"] {
        let error = forebay_platform::Machine::read(&tree, Wanted::Device(name)).unwrap_err().to_string();
        assert!(error.contains("there are dm-0, md0, nvme0n1"), "{name}: {error}");
    }
}
