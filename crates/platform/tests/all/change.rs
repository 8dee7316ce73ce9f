//! Settings that are changed and restored: on trees of all kinds, with a crash after every step, and against
//! malicious trees.

use crate::support::*;
use forebay_platform::change::{Plan, Profile, Record, SETTINGS, Side, Step, Store, StoreError, boot_id, put, verify};
use forebay_platform::{Machine, RULES, Tree, Wanted};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use tempfile::TempDir;

const QUEUE: &str = "/sys/devices/pci0000:00/0000:00:01.0/nvme/nvme0/nvme0n1/queue";
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Files of a machine with a drive, with the texts that each may have.
const FILES: [(&str, &[&str]); 24] = [
    ("/sys/devices/system/cpu/cpufreq/policy0/scaling_governor", &["powersave\n", "performance\n", "schedutil"]),
    ("/sys/devices/system/cpu/cpufreq/policy4/scaling_governor", &["powersave\n", "ondemand\n"]),
    (
        "/sys/devices/system/cpu/cpufreq/policy0/energy_performance_preference",
        &["balance_performance\n", "performance\n"],
    ),
    ("/sys/devices/system/cpu/cpufreq/policy4/energy_performance_preference", &["power\n"]),
    ("/sys/devices/system/cpu/intel_pstate/no_turbo", &["0\n", "1\n"]),
    (
        "/sys/kernel/mm/transparent_hugepage/defrag",
        &["[always] defer madvise never\n", "always defer [madvise] never\n"],
    ),
    ("/proc/sys/kernel/numa_balancing", &["1\n", "0\n"]),
    ("/proc/sys/vm/swappiness", &["60\n", "0\n", "1"]),
    (
        "/sys/module/pcie_aspm/parameters/policy",
        &["[default] performance powersave \n", "default [performance] powersave\n"],
    ),
    ("scheduler", &["none [mq-deadline] kyber\n", "[none] mq-deadline\n", "bfq [mq-deadline]\n"]),
    ("wbt_lat_usec", &["2000\n", "0\n", "-1\n"]),
    ("nr_requests", &["256\n", "16\n", "1023\n"]),
    ("rq_affinity", &["0\n", "1\n", "2\n"]),
    ("nomerges", &["0\n", "2\n"]),
    ("iostats", &["1\n", "0\n"]),
    ("add_random", &["1\n", "0\n", "what is this\n"]),
    ("rotational", &["0\n", "1\n"]),
    ("iosched/read_expire", &["500\n", "77\n"]),
    ("/sys/devices/system/cpu/cpufreq/policy4/ondemand/up_threshold", &["95\n", "81\n"]),
    ("/sys/devices/system/cpu/cpufreq/conservative/freq_step", &["5\n"]),
    ("/sys/devices/system/cpu/cpufreq/policy0/scaling_setspeed", &["<unsupported>\n", "2400000\n"]),
    ("/sys/devices/system/cpu/intel_pstate/min_perf_pct", &["100\n", "9\n"]),
    ("/sys/devices/system/cpu/cpufreq/boost", &["1\n", "0\n"]),
    ("/sys/devices/system/cpu/cpufreq/policy4/scaling_max_freq", &["3100000\n"]),
];

/// A tree with those files for which a text is chosen.
fn tree_of(choices: &[Option<usize>]) -> Small {
    let small = Small::new(&[
        ("/sys/class/block/nvme0n1", "->../../devices/pci0000:00/0000:00:01.0/nvme/nvme0/nvme0n1"),
        (&format!("{QUEUE}/../size"), "8"),
        ("/sys/devices/pci0000:00/0000:00:01.0/nvme/nvme0/power/pm_qos_latency_tolerance_us", "100000\n"),
        (BOOT_ID, "a boot"),
    ]);
    symlink("../../nvme0", small.path(QUEUE).parent().unwrap().join("device")).unwrap();
    for ((path, texts), choice) in FILES.iter().zip(choices) {
        let Some(choice) = choice else { continue };
        let path = if path.starts_with('/') { (*path).to_owned() } else { format!("{QUEUE}/{path}") };
        small.put(&path, texts[choice % texts.len()]);
    }
    small
}

/// The content of every file and the target of every link below a folder.
fn all_of(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.display().to_string();
            if path.is_symlink() {
                found.insert(name, fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes());
            } else if path.is_dir() {
                waiting.push(path);
            } else {
                found.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    found
}

fn plan_of(profile: Profile, tree: &Tree) -> Plan {
    let machine = Machine::read(tree, Wanted::Device("nvme0n1")).unwrap();
    Plan::of(profile, tree, machine.devices.first())
}

fn record_of(tree: &Tree, plan: &Plan) -> Record {
    Record::new(boot_id(tree).unwrap(), "the tree".to_owned(), "measure".to_owned(), plan.steps.clone())
}

fn said<'a>(plan: &'a Plan, name: &str) -> Option<&'a Step> {
    plan.steps.iter().find(|step| step.setting == name)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// A crash after each step of applying, in the middle of a write, after each step of restoring, and before the
    /// record is removed: the restored tree is the old one, byte for byte.
    #[test]
    fn what_was_changed_is_put_back_exactly(
        choices in proptest::collection::vec(proptest::option::weighted(0.85, 0_usize..3), FILES.len()),
        profile in 0_usize..3,
        torn in any::<bool>(),
    ) {
        let small = tree_of(&choices);
        let state = TempDir::new().unwrap();
        let before = all_of(small.folder.path());
        let steps = plan_of(Profile::ALL[profile].0, &small.tree()).steps;
        for crash in 0..=steps.len() {
            let tree = small.tree();
            let plan = plan_of(Profile::ALL[profile].0, &tree);
            prop_assert_eq!(&plan.steps, &steps);
            {
                let store = Store::open(state.path()).unwrap();
                prop_assert!(store.load().unwrap().is_none());
                // A file that a crash between writing and renaming a record leaves behind.
                fs::write(state.path().join("settings.json.new"), "half a rec").unwrap();
                store.save(&record_of(&tree, &plan)).unwrap();
                for step in &steps[..crash] {
                    put(&tree, step, Side::After).unwrap();
                }
                if let (true, Some(step)) = (torn, steps.get(crash)) {
                    let whole = fs::read(small.path(&step.path)).unwrap();
                    fs::write(small.path(&step.path), &whole[..whole.len() / 2]).unwrap();
                }
            }
            for second in 0..=steps.len() {
                let store = Store::open(state.path()).unwrap();
                let record = store.load().unwrap().unwrap();
                record.check(Some("a boot"), "the tree").unwrap();
                for step in &record.steps[..second] {
                    put(&tree, step, Side::Before).unwrap();
                }
                // Here the restoring process is killed again, each time one step later.
            }
            let store = Store::open(state.path()).unwrap();
            prop_assert_eq!(&all_of(small.folder.path()), &before);
            store.remove().unwrap();
            prop_assert!(store.load().unwrap().is_none());
        }
    }

    /// A plan that is applied whole has the values of the plan, and a second plan has nothing to change.
    #[test]
    fn what_was_applied_has_held_and_is_not_wanted_again(
        choices in proptest::collection::vec(proptest::option::weighted(0.85, 0_usize..3), FILES.len()),
    ) {
        let small = tree_of(&choices);
        let tree = small.tree();
        let plan = plan_of(Profile::Measure, &tree);
        for step in &plan.steps {
            put(&tree, step, Side::After).unwrap();
        }
        prop_assert!(plan.steps.iter().filter_map(|step| verify(&tree, step)).all(|held| held.has_held));
        prop_assert!(plan_of(Profile::Measure, &tree).is_empty());
    }
}

#[test]
fn profiles_hold_one_another_and_settings_have_rules() {
    for setting in SETTINGS {
        // The guide's fixed frequencies belong to the rule about the base frequency.
        let rule = if setting.name.starts_with("fixed-") { "base-frequency" } else { setting.name };
        assert!(RULES.iter().any(|known| known.name == rule), "{}", setting.name);
        for text in [setting.what, setting.cost, setting.source, setting.price] {
            assert!(!text.is_empty(), "{}", setting.name);
        }
    }
    let small = tree_of(&[Some(0); FILES.len()]);
    let counts = Profile::ALL.map(|(profile, ..)| plan_of(profile, &small.tree()).changed().len());
    assert!(counts[0] > 0 && counts[0] < counts[1] && counts[1] < counts[2], "{counts:?}");
    assert_eq!(counts[2], 14, "{:?}", plan_of(Profile::Measure, &small.tree()).changed());
}

#[test]
fn what_the_kernel_moves_along_is_put_back_too() {
    let small = tree_of(&[Some(0); FILES.len()]);
    let tree = small.tree();
    let plan = plan_of(Profile::DefaultSafe, &tree);
    let requests = said(&plan, "requests").unwrap();
    assert_eq!((requests.to.as_deref(), requests.from.as_str()), (None, "256"), "recorded, not changed");
    assert!(!plan.changed().contains(&"requests"));
    let scheduler = said(&plan, "scheduler").unwrap();
    put(&tree, scheduler, Side::After).unwrap();
    assert_eq!(tree.read(&format!("{QUEUE}/scheduler")).unwrap(), "[none] mq-deadline kyber");
    // As the kernel does for a new scheduler.
    fs::write(small.path(&format!("{QUEUE}/nr_requests")), "1023\n").unwrap();
    assert!(!put(&tree, requests, Side::After).unwrap().is_written);
    let done = put(&tree, requests, Side::Before).unwrap();
    assert_eq!((done.found.as_str(), done.is_written), ("1023", true));
    assert_eq!(tree.read(&format!("{QUEUE}/nr_requests")).unwrap(), "256");
    // A scheduler that is selected again has its own settings again, and meanwhile `none` has no folder for them.
    let tunable = plan.steps.iter().find(|step| step.path.ends_with("iosched/read_expire")).unwrap();
    fs::remove_file(small.path(&tunable.path)).unwrap();
    assert!(!put(&tree, tunable, Side::After).unwrap().is_written);
    small.put(&tunable.path, "123\n");
    assert!(put(&tree, tunable, Side::Before).unwrap().is_written);
    assert_eq!(tree.read(&tunable.path).unwrap(), "500");
}

#[test]
fn regression_a_length_that_suffices_is_not_written_again_with_another_scheduler() {
    // null_blk has 64 requests without a scheduler, and refuses the 77 that it had with one.
    let small = tree_of(&[Some(0); FILES.len()]);
    small.put(&format!("{QUEUE}/nr_requests"), "77\n");
    let plan = plan_of(Profile::Measure, &small.tree());
    assert_eq!(said(&plan, "requests").unwrap().to, None);
    small.put(&format!("{QUEUE}/wbt_lat_usec"), "0\n");
    let plan = plan_of(Profile::Measure, &small.tree());
    assert_eq!(said(&plan, "write-throttling").unwrap().to.as_deref(), Some("0"), "the kernel turns it on again");
}

/// An offline group of CPUs, whose files cannot be read, prevented the governor of all others from being changed.
#[test]
fn regression_one_policy_that_cannot_be_read_keeps_no_other_from_being_changed() {
    let small = tree_of(&[Some(0); FILES.len()]);
    small.put("/sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "no one word\n");
    let plan = plan_of(Profile::Latency, &small.tree());
    assert!(said(&plan, "governor").unwrap().path.contains("/policy4/"));
    assert!(plan.left.iter().any(|left| left.name == "governor" && left.why.contains("policy0")), "{:?}", plan.left);
}

/// The store wrote a record longer than it could read: nothing could be restored.
#[test]
fn regression_a_record_that_could_not_be_read_is_not_written() {
    let small = tree_of(&[Some(0); FILES.len()]);
    let mut plan = plan_of(Profile::Latency, &small.tree());
    plan.steps[0].text = "x".repeat(17 << 20);
    let state = TempDir::new().unwrap();
    let store = Store::open(state.path()).unwrap();
    let saved = store.save(&record_of(&small.tree(), &plan));
    assert!(matches!(saved, Err(StoreError::TooLong { .. })), "{saved:?}");
    assert!(store.load().unwrap().is_none());
}

#[test]
fn values_that_are_not_known_or_not_offered_are_left_alone() {
    let mut choices = [Some(0); FILES.len()];
    choices[9] = Some(2);
    choices[15] = Some(2);
    let small = tree_of(&choices);
    small.put("/sys/devices/system/cpu/cpufreq/policy0/scaling_available_governors", "powersave ondemand\n");
    let plan = plan_of(Profile::Measure, &small.tree());
    let why = |name: &str| plan.left.iter().find(|left| left.name == name).map(|left| left.why.clone()).unwrap();
    assert!(why("scheduler").contains("none is not among what the kernel offers: bfq"), "{}", why("scheduler"));
    assert!(why("governor").contains("performance is not among what the kernel offers"), "{}", why("governor"));
    assert!(why("entropy").contains("is not a number"), "{}", why("entropy"));
    for name in ["scheduler", "entropy"] {
        assert!(said(&plan, name).is_none(), "{name}");
    }
    // One group of CPUs does not prevent the others from being changed.
    let governors: Vec<&Step> =
        plan.steps.iter().filter(|step| step.setting == "governor" && step.is_change()).collect();
    assert!(governors.len() == 1 && governors[0].path.contains("/policy4/"), "{governors:?}");
    assert!(plan.left.iter().filter(|left| left.name == "turbo").count() <= 1);
    // A rotating disk keeps its scheduler.
    choices[9] = Some(0);
    choices[16] = Some(1);
    let turning = plan_of(Profile::Measure, &tree_of(&choices).tree());
    assert!(said(&turning, "scheduler").is_none() && said(&turning, "statistics").is_some());
    // Without a device, the settings of devices are left out, with that reason.
    let alone = Plan::of(Profile::Measure, &small.tree(), None);
    assert!(alone.left.iter().any(|left| left.name == "merges" && left.why.contains("no device was named")));
}

#[test]
fn regression_links_and_second_names_are_not_written_through() {
    let outside = Small::new(&[("/secret", "0\n")]);
    let place = format!("{QUEUE}/iostats");
    let change = |small: &Small, by: &dyn Fn(&Path)| {
        let tree = small.tree();
        let plan = plan_of(Profile::Measure, &tree);
        let step = said(&plan, "statistics").unwrap();
        fs::remove_file(small.path(&place)).unwrap();
        by(&small.path(&place));
        let (after, before) = (put(&tree, step, Side::After), put(&tree, step, Side::Before));
        assert_eq!(fs::read_to_string(outside.path("/secret")).unwrap(), "0\n");
        [after.unwrap_err().to_string(), before.unwrap_err().to_string()]
    };
    let small = || tree_of(&[Some(0); FILES.len()]);
    let secret = outside.path("/secret");
    for why in change(&small(), &|place| symlink(&secret, place).unwrap()) {
        assert!(why.contains("is not there"), "{why}");
    }
    for why in change(&small(), &|place| symlink("nr_requests", place).unwrap()) {
        assert!(why.contains("a link is on the way"), "{why}");
    }
    for why in change(&small(), &|place| fs::hard_link(&secret, place).unwrap()) {
        assert!(why.contains("another name"), "{why}");
    }
    for why in change(&small(), &|place| fs::create_dir(place).unwrap()) {
        assert!(why.contains("a directory"), "{why}");
    }
    // A folder on the way that has become a link.
    let tree_small = small();
    let tree = tree_small.tree();
    let plan = plan_of(Profile::Measure, &tree);
    let queue = tree_small.path(QUEUE);
    fs::rename(&queue, tree_small.path("/moved")).unwrap();
    symlink("/moved", &queue).unwrap();
    let why = put(&tree, said(&plan, "statistics").unwrap(), Side::After).unwrap_err().to_string();
    assert!(why.contains("a link is on the way"), "{why}");
}

#[test]
fn a_record_that_means_harm_names_no_other_file() {
    let small = tree_of(&[Some(0); FILES.len()]);
    small.put("/etc/passwd", "root");
    let step = |setting: &str, path: &str| Step {
        setting: setting.to_owned(),
        device: None,
        path: path.to_owned(),
        text: "harm".to_owned(),
        from: "harm".to_owned(),
        to: Some("harm".to_owned()),
        moved_by: None,
    };
    for (setting, path) in [
        ("scheduler", "/etc/passwd"),
        ("scheduler", "/sys/devices/../../etc/passwd/queue/scheduler"),
        ("scheduler", "/sys/devices//queue/scheduler"),
        ("governor", "/sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq"),
        ("interrupts", "/proc/irq/default_smp_affinity/smp_affinity_list"),
        ("governor", "/sys/devices/system/cpu/cpufreq"),
        ("governor", "/sys/devices/system/cpu/cpufreq/policy0/ondemand/deep/er"),
        ("governor", "/sys/devices/system/cpu/cpufreq/policy0/userspace/x"),
        ("irq-balancing", "/proc/1/stat"),
        ("irq-balancing", "/proc/self/stat"),
        ("swap", "/proc/sys/vm/drop_caches"),
        ("unheard", "/proc/sys/vm/swappiness"),
    ] {
        for side in [Side::Before, Side::After] {
            let why = put(&small.tree(), &step(setting, path), side).unwrap_err().to_string();
            assert!(why.contains("that is known here"), "{path}: {why}");
        }
    }
    assert_eq!(fs::read_to_string(small.path("/etc/passwd")).unwrap(), "root");
}

#[test]
fn on_the_machine_itself_only_files_of_the_kernel_are_written() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().canonicalize().unwrap().join("file");
    fs::write(&file, "old").unwrap();
    let why = Tree::open("/".as_ref()).unwrap().write(file.to_str().unwrap(), "new", "new").unwrap_err().to_string();
    assert!(why.contains("not a file of the kernel's"), "{why}");
    assert_eq!(fs::read_to_string(file).unwrap(), "old");
}

#[test]
fn records_of_other_boots_and_trees_are_refused() {
    let small = tree_of(&[Some(0); FILES.len()]);
    let record = record_of(&small.tree(), &plan_of(Profile::Measure, &small.tree()));
    record.check(Some("a boot"), "the tree").unwrap();
    let boot = record.check(Some("another"), "the tree").unwrap_err().to_string();
    assert!(boot.contains("another boot") && boot.contains("is gone"), "{boot}");
    assert!(record.check(Some("a boot"), "elsewhere").unwrap_err().to_string().contains("--root"));
    fs::remove_file(small.path(BOOT_ID)).unwrap();
    assert_eq!(boot_id(&small.tree()).unwrap(), None, "a copy without one");
    assert!(boot_id(&Tree::open("/".as_ref()).unwrap()).unwrap().is_some());
}

#[test]
fn a_store_has_one_user_and_one_record() {
    let folder = TempDir::new().unwrap();
    let place = folder.path().join("a/b");
    let small = tree_of(&[Some(0); FILES.len()]);
    let record = record_of(&small.tree(), &plan_of(Profile::Measure, &small.tree()));
    let store = Store::open(&place).unwrap();
    assert!(matches!(Store::open(&place), Err(StoreError::Busy(_))));
    store.save(&record).unwrap();
    assert_eq!(store.load().unwrap().as_ref(), Some(&record));
    let again = store.save(&record).unwrap_err().to_string();
    assert!(again.contains("--restore"), "{again}");
    drop(store);
    fs::write(place.join("settings.json"), "{}").unwrap();
    assert!(matches!(Store::open(&place).unwrap().load(), Err(StoreError::Garbage { .. })));
    fs::remove_file(place.join("settings.json")).unwrap();
    symlink("/etc/passwd", place.join("settings.json")).unwrap();
    assert!(matches!(Store::open(&place).unwrap().load(), Err(StoreError::Io { .. })));
}
