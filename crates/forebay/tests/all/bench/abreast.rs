//! Several targets at the same time.

use super::*;

/// Two different models: XPoint, and flash.
const TWO: [&str; 4] = ["--target", "model:p4800x?size=256MiB", "--target", "model:p4610?size=256MiB"];

/// `forebay bench --output json` with these arguments.
fn on_several(arguments: &[&str]) -> Value {
    json(&good(&forebay(&[&["bench", "--output", "json"], arguments].concat())))
}

/// The part of a job's result that depends only on target and load, not on this machine's processor.
fn essence(job: &Value) -> Value {
    let mut job = job.clone();
    job["target"]["name"] = Value::Null;
    for field in ["cpu", "own_cost_ns_per_io", "path_cost_ns_per_io", "generator_busy"] {
        job[field] = Value::Null;
    }
    job
}

#[test]
fn models_share_a_clock_and_each_gives_what_it_gives_alone() {
    let job =
        ["--set", "rw=randrw", "--set", "depth=4", "--set", "threads=2", "--runtime", "200ms", "--warmup", "10ms"];
    let run = || on_several(&[&TWO[..], &job].concat());
    let result = run();
    let jobs = jobs_of(&result);
    assert_eq!(jobs.len(), 2);
    for (job_of_both, target) in jobs.iter().zip([TWO[1], TWO[3]]) {
        let alone = on_several(&[&["--target", target], &job[..]].concat());
        assert_eq!(essence(job_of_both), essence(&jobs_of(&alone)[0]), "{target}");
        assert_eq!(job_of_both["target"]["name"], target);
        assert!(
            alone["together"].is_null() && alone["targets"].is_null() && alone["jobs"][0]["target"]["name"].is_null()
        );
    }
    let together = &result["together"][0];
    let ios = |job: &Value| job["ios"].as_u64().unwrap();
    assert_eq!(ios(together), ios(&jobs[0]) + ios(&jobs[1]));
    assert_eq!((&together["depth"]["asked"], &together["job"]["threads"]), (&16.into(), &4.into()));
    assert_eq!(together["littles_law"]["verdict"], "holds", "{together}");
    assert_eq!(result["targets"][1]["name"], TWO[3]);
    assert!(result["targets"][1]["models"].is_object() && result["models"].is_null());
    let again = run();
    let all = |result: &Value| -> Vec<Value> {
        jobs_of(result).iter().chain(result["together"].as_array().unwrap()).map(essence).collect()
    };
    assert_eq!(all(&again), all(&result), "virtual time repeats itself");
}

#[test]
fn targets_of_real_time_run_at_the_same_time() {
    let place = Place::new();
    let (target, fio) = (place.target(), place.text("fio.json"));
    // 500 I/Os a second on each target, whatever the machine's load.
    let job = ["--set", "rate=500", "--set", "depth=64", "--runtime", "1s", "--warmup", "0s", "--fio-json", &fio];
    let begun = Instant::now();
    let result = on_several(&[&["--target", NULL, "--target", RAM, "--target", &target][..], &job].concat());
    assert!(begun.elapsed() < TIMEOUT, "{:?}", begun.elapsed());
    let scheduled = |job: &Value| job["open_loop"]["scheduled"].as_u64().unwrap();
    assert_eq!(jobs_of(&result).iter().map(scheduled).collect::<Vec<_>>(), [500; 3]);
    assert_eq!(scheduled(&result["together"][0]), 1500);
    let ios: u64 = jobs_of(&result).iter().map(|job| job["ios"].as_u64().unwrap()).sum();
    assert_eq!(result["together"][0]["ios"], ios);
    // fio treats them as the files of one job.
    let fio: Value = serde_json::from_str(&std::fs::read_to_string(&fio).unwrap()).unwrap();
    assert_eq!((fio["jobs"].as_array().unwrap().len(), &fio["jobs"][0]["read"]["total_ios"]), (1, &ios.into()));
    let table = good(&forebay(&["bench", "--target", NULL, "--target", RAM, "--runtime", "50ms", "--warmup", "0s"]));
    for part in ["on null:?size=1GiB", "on ram:?size=64MiB", "on all 2 targets together"] {
        assert!(table.contains(part), "{part}: {table}");
    }
}

#[test]
fn what_one_target_was_written_is_not_looked_for_on_another() {
    let job =
        ["--set", "rw=randrw", "--set", "verify=true", "--set", "ios=20000", "--set", "depth=8", "--warmup", "0s"];
    let two = ["--target", "ram:?size=8MiB", "--target", "ram:?size=8MiB"];
    let result = on_several(&[&two[..], &job].concat());
    let whole = |job: &Value| job["verified_units"]["whole"].as_u64().unwrap();
    for job in jobs_of(&result) {
        assert!(whole(job) > 0 && job["verified_units"]["wrong"] == 0, "{}", job["verified_units"]);
    }
    assert_eq!(whole(&result["together"][0]), jobs_of(&result).iter().map(whole).sum::<u64>());
}

#[test]
fn several_jobs_in_groups_run_on_all_targets_each() {
    let place = Place::new();
    let file = place.write(
        "jobs.toml",
        "[defaults]\nruntime = \"50ms\"\nwarmup = \"0s\"\n[[job]]\nname = \"a\"\n[[job]]\nname = \"b\"\nrw = \"randwrite\"\n[[job]]\nname = \"c\"\nafter = \"b\"\n",
    );
    let result = on_several(&[&[file.as_str()], &TWO[..]].concat());
    let names: Vec<&str> = jobs_of(&result).iter().map(|job| job["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["a", "a", "b", "b", "c", "c"]);
    assert_eq!(result["together"].as_array().unwrap().len(), 3);
    let generated = on_several(&[&["ycsb", "--set", "ios=500"], &TWO[..]].concat());
    assert_eq!(generated["together"][0]["ios"], 1000, "{}", generated["notes"]);
}

#[test]
fn the_report_tells_targets_apart() {
    let place = Place::new();
    let result =
        good(&forebay(&[&["bench", "--output", "json", "--runtime", "50ms", "--warmup", "0s"], &TWO[..]].concat()));
    let (file, page) = (place.write("result.json", &result), place.text("page.html"));
    good(&forebay(&["report", &file, "-o", &page]));
    let page = std::fs::read_to_string(&page).unwrap();
    for part in ["job1 on model:p4800x?size=256MiB", "job1 on model:p4610?size=256MiB", "job1 on all targets"] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn what_cannot_run_on_several_targets_is_refused_beforehand() {
    let place = Place::new();
    let target = place.target();
    let refuse = |arguments: &[&str], parts: &[&str]| {
        refused(&forebay(&[&["bench", "--output", "json"], arguments].concat()), 2, parts);
    };
    refuse(&["--target", MODEL, "--target", RAM], &["virtual time", "real time", "emulated:"]);
    refuse(&["--target", &target, "--target", &target], &["it is there twice"]);
    // Under another name too: two concurrent verifying runs would destroy each other's data.
    let linked = format!("{target}.link");
    std::fs::hard_link(&target, &linked).unwrap();
    refuse(&["--target", &target, "--target", &linked], &["it is there twice"]);
    refuse(&["--target", RAM, "--target", "nonsense:x"], &["nonsense:x"]);
    refuse(&["--target", &target, "--target", RAM, "--set", "rw=randwrite"], &["target.img", "--destroy-data"]);
    refuse(
        &["--target", RAM, "--target", "ram:?size=1MiB", "--set", "region={ offset = \"2MiB\" }"],
        &["size=1MiB", "region"],
    );
    for (more, what) in [
        (&["qd-sweep"][..], "an experiment takes one target"),
        (&["--against", RAM], "--against takes one target"),
        (&["--condition", "purge"], "--condition takes one target"),
        (&["--records", "x.fbrec"], "--records takes one target"),
    ] {
        refuse(&[&TWO[..], more].concat(), &["--target is given 2 times", what]);
    }
}
