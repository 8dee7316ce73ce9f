//! Files that the kernel changes along with a setting, imitated by the test, are restored byte for byte.

use crate::support::*;
use forebay_platform::change::{Plan, Profile, SETTINGS, Side, Step, put, put_back};
use forebay_platform::{Machine, Tree, Wanted};
use std::fs;

const CPU: &str = "/sys/devices/system/cpu";

fn plan(tree: &Tree, profile: Profile) -> Vec<Step> {
    Machine::read(tree, Wanted::Machine).unwrap();
    Plan::of(profile, tree, None).steps
}

fn said(small: &Small, path: &str) -> String {
    fs::read_to_string(small.path(&format!("{CPU}/{path}"))).unwrap()
}

fn with(files: &[(&str, &str)]) -> Small {
    let small = Small::new(&[]);
    files.iter().for_each(|(path, text)| small.put(&format!("{CPU}/{path}"), text));
    small
}

/// The governor's settings were not recorded, and a governor that is selected again begins with its defaults.
#[test]
fn regression_tunables_of_a_governor_are_put_back() {
    let files = [
        ("cpufreq/policy0/scaling_governor", "ondemand\n"),
        ("cpufreq/policy0/scaling_setspeed", "<unsupported>\n"),
        ("cpufreq/policy0/ondemand/sampling_rate", "4000\n"),
        ("cpufreq/policy0/ondemand/up_threshold", "81\n"),
        ("cpufreq/policy1/scaling_governor", "userspace\n"),
        ("cpufreq/policy1/scaling_setspeed", "2400000\n"),
        ("cpufreq/schedutil/rate_limit_us", "777\n"),
    ];
    let small = with(&files);
    let tree = small.tree();
    let steps = plan(&tree, Profile::Latency);
    for step in &steps {
        put(&tree, step, Side::After).unwrap();
    }
    assert_eq!(said(&small, "cpufreq/policy0/scaling_governor"), "performance\n");
    // As the kernel does: the folder disappears with its governor, and returns with the governor's default values.
    let folder = small.path(&format!("{CPU}/cpufreq/policy0/ondemand"));
    fs::remove_dir_all(&folder).unwrap();
    small.put(&format!("{CPU}/cpufreq/policy1/scaling_setspeed"), "<unsupported>\n");
    small.put(&format!("{CPU}/cpufreq/schedutil/rate_limit_us"), "1000\n");
    for step in &steps {
        put(&tree, step, Side::Before).unwrap();
        if step.path.ends_with("policy0/scaling_governor") {
            small.put(&format!("{CPU}/cpufreq/policy0/ondemand/sampling_rate"), "10000\n");
            small.put(&format!("{CPU}/cpufreq/policy0/ondemand/up_threshold"), "95\n");
        }
        if step.path.ends_with("policy1/scaling_governor") {
            small.put(&format!("{CPU}/cpufreq/policy1/scaling_setspeed"), "3500000\n");
        }
    }
    for (path, text) in files {
        assert_eq!(said(&small, path), text, "{path}");
    }
}

/// Disabling turbo lowers the minimum performance, and on AMD sets each policy's own files: neither was recorded.
#[test]
fn regression_what_turbo_takes_along_is_put_back() {
    for (files, moved) in [
        (
            &[("intel_pstate/no_turbo", "0\n"), ("intel_pstate/min_perf_pct", "100\n")][..],
            &[("intel_pstate/min_perf_pct", "76\n")][..],
        ),
        (
            &[
                ("cpufreq/boost", "1\n"),
                ("cpufreq/policy0/boost", "1\n"),
                ("cpufreq/policy1/boost", "0\n"),
                ("cpufreq/policy0/scaling_max_freq", "3900000\n"),
                ("cpufreq/policy1/scaling_max_freq", "2000000\n"),
            ],
            &[
                ("cpufreq/policy0/boost", "0\n"),
                ("cpufreq/policy0/scaling_max_freq", "2850000\n"),
                ("cpufreq/policy1/scaling_max_freq", "2850000\n"),
            ],
        ),
    ] {
        let small = with(files);
        let tree = small.tree();
        let steps = plan(&tree, Profile::Measure);
        for step in &steps {
            put(&tree, step, Side::After).unwrap();
        }
        assert!(steps.iter().any(Step::is_change));
        moved.iter().for_each(|(path, text)| small.put(&format!("{CPU}/{path}"), text));
        assert!(put_back(&tree, &steps).iter().all(Result::is_ok));
        for (path, text) in files {
            assert_eq!(said(&small, path), *text, "{path}");
        }
    }
}

#[test]
fn a_fixed_frequency_is_one_that_there_is() {
    let fixed = |small: &Small, name: &str| {
        let plan = Plan::with(&small.tree(), None, |setting| setting.name == name);
        let steps: Vec<_> = plan
            .steps
            .iter()
            .map(|step| (step.path.rsplit('/').next().unwrap().to_owned(), step.to.clone().unwrap()))
            .collect();
        (steps, plan.left.iter().map(|left| left.why.clone()).collect::<Vec<_>>().join("; "))
    };
    let bounds = |khz: &str| {
        vec![("scaling_max_freq".to_owned(), khz.to_owned()), ("scaling_min_freq".to_owned(), khz.to_owned())]
    };
    let small = with(&[
        ("cpufreq/policy0/scaling_max_freq", "4200000\n"),
        ("cpufreq/policy0/scaling_min_freq", "800000\n"),
        ("cpufreq/policy0/cpuinfo_min_freq", "800000\n"),
        ("cpufreq/policy0/cpuinfo_max_freq", "4200000\n"),
        ("cpufreq/policy0/base_frequency", "2600000\n"),
    ]);
    assert_eq!(fixed(&small, "fixed-2.3-GHz"), (bounds("2300000"), String::new()));
    let (none, why) = fixed(&small, "fixed-3.0-GHz");
    assert!(none.is_empty() && why.contains("3.0 GHz is not between 0.8 GHz and 2.6 GHz"), "{why}");
    // The hardware's own list: the nearest value, if one is near enough.
    small.put(&format!("{CPU}/cpufreq/policy0/scaling_available_frequencies"), "3001000 2900000 2200000 \n");
    assert_eq!(fixed(&small, "fixed-3.0-GHz"), (bounds("3001000"), String::new()));
    assert!(fixed(&small, "fixed-2.3-GHz").1.contains("2.3 GHz is not among 3001000"));
    // No profile includes them.
    assert!(SETTINGS.iter().filter(|setting| setting.is_alternative()).all(|setting| setting.profile.is_none()));
}

#[test]
fn processes_of_a_copy_are_nobodys() {
    let small = Small::new(&[("/proc/77/comm", "irqbalance\n"), ("/proc/77/stat", "77 (irqbalance) S 1\n")]);
    let plan = Plan::with(&small.tree(), None, |setting| setting.name == "irq-balancing");
    assert!(plan.steps.is_empty() && plan.left[0].why.contains("not of the tree"), "{:?}", plan.left);
    let step = Step {
        setting: "irq-balancing".to_owned(),
        device: None,
        path: "/proc/77/stat".to_owned(),
        text: "77 (irqbalance) S 1\n".to_owned(),
        from: "running".to_owned(),
        to: Some("stopped".to_owned()),
        moved_by: None,
    };
    assert!(put(&small.tree(), &step, Side::Before).unwrap_err().to_string().contains("on its own machine alone"));
}
