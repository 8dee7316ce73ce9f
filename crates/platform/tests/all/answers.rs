//! Facts that drives report only when a command asks for them: judged, captured, and read from another machine's
//! capture.

use crate::support::*;
use forebay_platform::answers::{Answer, Answers, Ask, FOLDER, Health, PowerState, Stop, Transition};
use forebay_platform::{Machine, Tree, Wanted, audit, capture};
use std::cell::RefCell;
use std::fs;

/// A drive that answers, and the names that were asked.
struct Drive(Answers, RefCell<Vec<String>>);

impl Drive {
    fn new(answers: Answers) -> Self {
        Self(answers, RefCell::default())
    }
}

impl Ask for Drive {
    fn ask(&self, name: &str) -> Answers {
        self.1.borrow_mut().push(name.to_owned());
        self.0.clone()
    }
}

fn nvme() -> Small {
    Small::new(&[
        ("/sys/class/block/nvme0n1", "->../../devices/pci0/nvme/nvme0/nvme0n1"),
        ("/sys/devices/pci0/nvme/nvme0/nvme0n1/size", "8"),
        ("/sys/devices/pci0/nvme/nvme0/nvme0n1/device", "->../../nvme0"),
        ("/sys/devices/pci0/nvme/nvme0/power/pm_qos_latency_tolerance_us", "100000\n"),
        ("/proc/cpuinfo", "vendor_id : GenuineIntel\nflags : fpu\n"),
    ])
}

fn disk() -> Small {
    Small::new(&[
        ("/sys/class/block/sda", "->/sys/devices/x/sda"),
        ("/sys/devices/x/sda/size", "8"),
        ("/sys/devices/x/sda/queue/rotational", "1"),
        ("/proc/cpuinfo", "vendor_id : GenuineIntel\nflags : fpu\n"),
    ])
}

/// The verdict and the text of a rule about a drive with these answers.
fn of(small: &Small, device: &str, answers: Answers, rule: &str) -> (String, String) {
    let drive = Drive::new(answers);
    let machine = Machine::read_asking(&small.tree(), Wanted::Device(device), Some(&drive)).unwrap();
    let report = audit(&machine);
    (verdict(&report, rule), said(&report, rule))
}

fn healthy() -> Health {
    Health { spare_percent: Some((100, 10)), media_errors: Some(0), ..Health::default() }
}

#[test]
fn wear_is_judged_from_its_worst_side() {
    let small = nvme();
    let with = |health: Health| Answers { health: Some(Answer::Said(health)), ..Answers::default() };
    for (health, expected, part) in [
        (healthy(), "good", "0 % of its life"),
        (Health { percentage_used_percent: 89, ..healthy() }, "good", "89 %"),
        (Health { percentage_used_percent: 90, ..healthy() }, "note", "90 %"),
        (Health { percentage_used_percent: 100, ..healthy() }, "safety", "100 %"),
        (Health { percentage_used_percent: 255, ..healthy() }, "safety", "more than 254 %"),
        (Health { spare_percent: Some((9, 10)), ..healthy() }, "safety", "9 %, below its threshold of 10 %"),
        (Health { spare_percent: Some((10, 10)), ..healthy() }, "good", "10 %"),
        (Health { media_errors: Some(3), ..healthy() }, "note", "3 errors"),
        // Heat belongs to the rule temperature.
        (Health { critical_warning_bits: 0b10, ..healthy() }, "good", "0 %"),
        (Health { critical_warning_bits: 0b1000, ..healthy() }, "safety", "takes no writes"),
        (
            Health { critical_warning_bits: 1, spare_percent: Some((1, 10)), ..healthy() },
            "safety",
            "below its threshold",
        ),
        (Health { spare_percent: None, media_errors: None, ..healthy() }, "good", "0 % of its life is used"),
    ] {
        let (verdict, said) = of(&small, "nvme0n1", with(health), "wear");
        assert!(verdict == expected && said.contains(part), "{health:?}: {verdict}: {said}");
    }
    let refused = Answers { health: Some(Answer::Unknown("run as root".to_owned())), ..Answers::default() };
    assert_eq!(of(&small, "nvme0n1", refused, "wear"), ("unknown".to_owned(), "run as root".to_owned()));
    let heat = Health { temperature_celsius: Some(80), warning_celsius: Some(70), ..healthy() };
    assert_eq!(of(&small, "nvme0n1", with(heat), "temperature").0, "costs-throughput");
    assert_eq!(of(&small, "nvme0n1", with(healthy()), "temperature").0, "unknown");
}

#[test]
fn sleep_is_what_the_drive_does_not_what_it_may() {
    let small = nvme();
    let state = |is_operational, exit_us| PowerState { max_power_mw: 1000, is_operational, entry_us: 10, exit_us };
    let states = vec![state(true, 0), state(true, 0), state(false, 5000)];
    let answers = |now: u8, sleep: &[Transition]| Answers {
        power_states: Some(Answer::Said(states.clone())),
        power_state: Some(Answer::Said(now)),
        sleep: Some(Answer::Said(sleep.to_vec())),
        ..Answers::default()
    };
    let nap = Transition { from: 0, to: 2, idle_ms: 50 };
    let state_of = |now| of(&small, "nvme0n1", answers(now, &[]), "power-state").0;
    assert_eq!([0, 1, 2, 3].map(state_of), ["good", "costs-throughput", "unknown", "unknown"]);
    let (verdict, said) = of(&small, "nvme0n1", answers(0, &[nap]), "drive-sleep");
    assert_eq!(
        (&*verdict, &*said),
        ("costs-latency", "it puts itself to sleep: after 50 ms in state 2, and takes 5 ms to leave it")
    );
    // States that it does not have, and operational states, are not sleep.
    for to in [0, 1, 7] {
        assert_eq!(of(&small, "nvme0n1", answers(0, &[Transition { to, ..nap }]), "drive-sleep").0, "good", "{to}");
    }
    assert_eq!(of(&small, "nvme0n1", answers(0, &[]), "drive-sleep").0, "good");
    assert_eq!(verdict_of(&small, "drive-sleep"), "costs-latency", "what it does is not known");
    assert_eq!(verdict_of(&small, "power-state"), "unknown");
    // The firmware may have enabled it, even if the kernel forbids it.
    small.put("/sys/devices/pci0/nvme/nvme0/power/pm_qos_latency_tolerance_us", "0");
    assert_eq!(verdict_of(&small, "drive-sleep"), "good");
    assert_eq!(of(&small, "nvme0n1", answers(0, &[nap]), "drive-sleep").0, "costs-latency");
}

fn verdict_of(small: &Small, rule: &str) -> String {
    verdict(&small.report_with("nvme0n1"), rule)
}

#[test]
fn a_disk_that_may_stop_itself_is_a_finding() {
    let small = disk();
    let with = |power_management, has_power_conditions| Answers {
        stop: Some(Answer::Said(Stop { power_management, has_power_conditions })),
        ..Answers::default()
    };
    for (answers, expected) in [
        (with(Some(127), false), "costs-latency"),
        (with(Some(1), true), "costs-latency"),
        (with(Some(128), false), "good"),
        (with(Some(254), true), "unknown"),
        (with(None, false), "unknown"),
        (Answers::default(), "unknown"),
    ] {
        assert_eq!(of(&small, "sda", answers.clone(), "spin-down").0, expected, "{answers:?}");
    }
}

#[test]
fn what_was_answered_is_captured_and_read_again() {
    let small = nvme();
    let drive = Drive::new(Answers { health: Some(Answer::Said(healthy())), ..Answers::default() });
    let tree = small.tree();
    let machine = Machine::read_asking(&tree, Wanted::All, Some(&drive)).unwrap();
    assert_eq!(*drive.1.borrow(), ["nvme0n1"]);
    let to = Small::new(&[]);
    capture(&tree, &to.path("/tree")).unwrap();
    let again = Machine::read(&Tree::open(&to.path("/tree")).unwrap(), Wanted::Device("nvme0n1")).unwrap();
    assert_eq!(machine.devices[0].answers, again.devices[0].answers);
    assert_eq!(again.devices[0].answers.as_ref().unwrap(), &drive.0);
    // A machine's own root has no such file; one that is there is not read.
    let own = Machine::read(&Tree::open("/".as_ref()).unwrap(), Wanted::All).unwrap();
    assert!(own.devices.iter().all(|device| device.answers.is_err()));
}

#[test]
fn answers_of_somebody_who_means_harm_are_unknown() {
    let small = nvme();
    let file = format!("{FOLDER}/nvme0n1.json");
    let many = format!("{{\"power_states\": {{\"said\": [{}]}}}}", vec!["{}"; 40_000].join(","));
    for text in ["", "{", "[]", "{\"health\": 7}", "{\"health\": {\"said\": {\"critical_warning_bits\": 256}}}", &many]
    {
        let _ = fs::remove_file(small.path(&file));
        small.put(&file, text);
        for rule in ["wear", "power-state", "drive-sleep"] {
            assert_eq!(verdict_of(&small, rule), "unknown", "{rule}: {text:.40}");
        }
    }
    fs::remove_file(small.path(&file)).unwrap();
    small.put(&file, "->/etc/passwd");
    assert_eq!(verdict_of(&small, "wear"), "unknown");
    fs::remove_file(small.path(&file)).unwrap();
    small.put(&file, "{\"health\": {\"unknown\": \"");
    let long = format!("{{\"health\": {{\"unknown\": \"{}\"}}}}", "long ".repeat(1000));
    fs::write(small.path(&file), long).unwrap();
    assert!(said(&small.report_with("nvme0n1"), "wear").len() < 200, "it is cut");
}
