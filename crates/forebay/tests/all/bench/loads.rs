//! Loads from the command line: DiskSpd's options, `--set`, arrivals, and the form of their results.

use super::*;

/// The guide's command lines, as printed there.
const GUIDE: [&str; 7] = [
    "-d600 -b4k -w0 -r -o4 -t8 -h -L #1",
    "-d600 -b4k -w100 -r -o4 -t8 -h -L #1",
    "-d600 -b4k -w30 -r -o4 -t8 -h -L #1",
    "-d600 -b64k -w0 -r -o4 -t8 -h -L #1",
    "-d600 -b64k -w100 -r -o4 -t8 -h -L #1",
    "-d600 -b4k -w0 -r -o1 -t1 -h -L #1",
    "-d600 -b4k -w100 -r -o1 -t1 -h -L #1",
];

fn guide_lines_on(target: &str) {
    for line in GUIDE {
        let mut arguments: Vec<&str> = line.split(' ').collect();
        arguments.push("--destroy-data");
        let output = bench_for_a_while(target, &arguments);
        let result = json(&good(&output));
        let job = &jobs_of(&result)[0];
        assert!(job["ios"].as_u64().unwrap() > 0, "{line}: {job}");
        let (threads, depth) = if line.contains("-t8") { (8, 4) } else { (1, 1) };
        assert_eq!((&job["job"]["threads"], &job["job"]["depth"]), (&threads.into(), &depth.into()), "{line}");
        let size = if line.contains("-b64k") { 65_536 } else { 4096 };
        assert_eq!(job["bytes"].as_u64(), job["ios"].as_u64().map(|ios| ios * size), "{line}");
        let kinds: Vec<&str> =
            job["kinds"].as_array().unwrap().iter().map(|kind| kind["kind"].as_str().unwrap()).collect();
        let expected: &[&str] = match line {
            line if line.contains("-w0 ") => &["read"],
            line if line.contains("-w100") => &["write"],
            _ => &["read", "write"],
        };
        assert_eq!(kinds, expected, "{line}");
        assert_eq!(job["job"]["pattern"], "random", "{line}");
        assert_eq!(result["target"], target, "#1 selects no disk");
        assert!(err(&output).contains("#1"), "{}", err(&output));
    }
}

#[test]
fn the_guides_lines_run_on_nothing() {
    guide_lines_on(NULL);
}

#[test]
fn the_guides_lines_run_on_a_file() {
    guide_lines_on(&Place::new().target());
}

#[test]
fn write_shares_are_as_asked() {
    let result = measured(NULL, &["-b4k", "-w30", "-r", "-o4", "-t2", "-d1", "-W0"]);
    let job = &jobs_of(&result)[0];
    let (writes, all) = (job["kinds"][1]["ios"].as_f64().unwrap(), job["ios"].as_f64().unwrap());
    assert!((writes / all - 0.3).abs() < 4.0 * (0.21 / all).sqrt(), "{writes} of {all}");
}

#[test]
fn reading_leaves_a_file_as_it_is() {
    let place = Place::new();
    let before = std::fs::read(place.target()).unwrap();
    let result = measured(&place.target(), &["--set", "depth=8", "--set", "ios=1000", "--warmup", "0s"]);
    assert!(jobs_of(&result)[0]["ios"].as_u64().unwrap() > 0);
    assert!(std::fs::read(place.target()).unwrap() == before, "reading has changed the file");
    // Also where the file is not writable.
    std::fs::set_permissions(place.target(), std::os::unix::fs::PermissionsExt::from_mode(0o400)).unwrap();
    measured(&place.target(), &["--set", "ios=10", "--warmup", "0s"]);
}

#[test]
fn writing_writes_just_the_region() {
    let place = Place::new();
    let before = std::fs::read(place.target()).unwrap();
    let settings = ["rw=randwrite", "ios=500", "depth=4", "region={ offset = \"4MiB\", size = \"1MiB\" }", "warmup=0s"];
    let arguments: Vec<&str> = settings.iter().flat_map(|setting| ["--set", setting]).collect();
    let result = measured(&place.target(), &arguments);
    assert_eq!(jobs_of(&result)[0]["ios"], 500);
    let after = std::fs::read(place.target()).unwrap();
    let (begin, end) = (4 << 20, 5 << 20);
    assert!(after.len() == before.len() && after[..begin] == before[..begin] && after[end..] == before[end..]);
    assert!(after[begin..end] != before[begin..end], "nothing was written");
}

#[test]
fn percentiles_are_withheld_then_open_then_bounded() {
    for (ios, status, needed_more) in
        [(29_955, "withheld", Some(1)), (29_956, "open", None), (36_887, "open", None), (36_888, "bounded", None)]
    {
        let limit = format!("ios={ios}");
        let result = measured(NULL, &["--set", &limit, "--set", "warmup=0s"]);
        let found = percentile(latency(&jobs_of(&result)[0]), 99.99);
        assert_eq!((&found["status"], found["samples_needed_more"].as_u64()), (&status.into(), needed_more), "{ios}");
        assert_eq!(found["value"].is_null(), status == "withheld", "{ios}: {found}");
        assert_eq!(found["high"].is_null(), status != "bounded", "{ios}: {found}");
        let (low, value, high) = (found["low"].as_u64(), found["value"].as_u64(), found["high"].as_u64());
        assert!(low <= value && high.is_none_or(|high| value <= Some(high)), "{found}");
    }
    // A table says the same.
    let table = good(&forebay(&["bench", "--target", NULL, "--set", "ios=29955", "--set", "warmup=0s"]));
    assert!(table.contains("withheld") && table.contains("p99.99 needs 1 more"), "{table}");
}

#[test]
fn chosen_percentiles_are_shown() {
    let result = measured(NULL, &["--set", "ios=100000", "--set", "warmup=0s", "--percentiles", "50,99.95,99.999,max"]);
    let latency = latency(&jobs_of(&result)[0]);
    let shown: Vec<(f64, &str)> = latency["percentiles"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| (entry["percentile"].as_f64().unwrap(), entry["status"].as_str().unwrap()))
        .collect();
    assert_eq!(shown, [(50.0, "bounded"), (99.95, "bounded"), (99.999, "withheld")]);
    assert_eq!(percentile(latency, 99.999)["samples_needed_more"], 299_572 - 100_000);
}

#[test]
fn the_json_tells_everything_of_a_run() {
    let place = Place::new();
    let result = measured(
        &place.target(),
        &["--set", "rw=randrw", "--set", "depth=4", "--runtime", "400ms", "--warmup", "0s", "--interval", "100ms"],
    );
    assert_eq!(result["schema_version"], 1);
    let job = &jobs_of(&result)[0];
    for key in ["name", "job", "target", "duration_s", "ios", "bytes", "iops", "bytes_per_second", "depth", "cpu"] {
        assert!(!job[key].is_null(), "{key}");
    }
    for key in ["littles_law", "own_cost_ns_per_io", "kinds", "bursts", "failures", "intervals", "interval_s"] {
        assert!(!job[key].is_null(), "{key}");
    }
    assert!(job["partial"].is_null() && job["open_loop"].is_null() && job["verified_units"].is_null());
    assert_eq!(job["failures"]["count"], 0);
    assert!(job["own_cost_ns_per_io"].as_f64().unwrap() > 0.0);
    let (mut ios, mut bytes) = (0, 0);
    for kind in job["kinds"].as_array().unwrap() {
        ios += kind["ios"].as_u64().unwrap();
        bytes += kind["bytes"].as_u64().unwrap();
        for part in ["total", "device", "submission"] {
            let latency = &kind["latency_ns"][part];
            assert_eq!(latency["samples"], kind["ios"], "{part}");
            let (min, mean, max) = (&latency["min"], &latency["mean"], &latency["max"]);
            assert!(min.as_f64() <= mean.as_f64() && mean.as_f64() <= max.as_f64(), "{part}: {latency}");
            let values: Vec<u64> =
                latency["percentiles"].as_array().unwrap().iter().filter_map(|entry| entry["value"].as_u64()).collect();
            assert!(values.is_sorted() && !values.is_empty(), "{part}: {values:?}");
        }
        let mean = |part: &str| kind["latency_ns"][part]["mean"].as_f64().unwrap();
        // A histogram has three significant digits.
        let parts = mean("device") + mean("submission");
        assert!((parts / mean("total") - 1.0).abs() < 0.01, "{parts} against {}", mean("total"));
    }
    assert_eq!((job["ios"].as_u64(), job["bytes"].as_u64()), (Some(ios), Some(bytes)));
    let [seconds, rated] = ["duration_s", "rated_s"].map(|key| job[key].as_f64().unwrap());
    assert!((job["iops"].as_f64().unwrap() * rated / ios as f64 - 1.0).abs() < 1e-6);
    assert!(rated >= 0.4 && rated <= seconds, "{rated} of {seconds}");
    // The run waits for I/Os in flight at its end, however long they take.
    assert!(seconds >= 0.4, "{seconds}");
    let intervals = job["intervals"].as_array().unwrap();
    assert!((1..=(seconds / 0.1) as usize + 1).contains(&intervals.len()), "{} in {seconds} s", intervals.len());
    let in_intervals: u64 = intervals.iter().map(|row| row["ios"].as_u64().unwrap()).sum();
    assert!(in_intervals <= ios && in_intervals > 0, "{in_intervals} of {ios}");
}

#[test]
fn littles_law_holds_or_is_not_judged() {
    let place = Place::new();
    let target = place.target();
    let long = ["--runtime", "500ms", "--set", "warmup=200ms"];
    let short = ["--set", "ios=10", "--set", "warmup=50ms"];
    // A slow I/O that began before the measurement must not spoil a short run: sampling one is a matter of chance.
    let several = std::iter::once(long).chain(std::iter::repeat_n(short, 8));
    for (number, more) in several.enumerate() {
        let depth = if number % 2 == 0 { "depth=1" } else { "depth=16" };
        let arguments = [&more[..], &["--set", depth]].concat();
        let result = measured(&target, &arguments);
        let law = &jobs_of(&result)[0]["littles_law"];
        assert!(!law["verdict"].as_str().unwrap().contains("broken"), "{arguments:?}: {law}");
    }
}

/// Open-loop arrivals, in virtual time because a busy machine would fall behind the schedule.
fn open_loop(arrival: &str) -> Value {
    let arrival = format!("arrival={arrival}");
    let settings = ["rate=50000", "depth=256", "warmup=100ms", &arrival];
    let mut arguments: Vec<&str> = settings.iter().flat_map(|setting| ["--set", setting]).collect();
    arguments.extend(["--runtime", "1s"]);
    let result = measured(MODEL, &arguments);
    jobs_of(&result)[0].clone()
}

#[test]
fn an_open_loop_issues_what_was_scheduled() {
    for arrival in ["constant", "poisson"] {
        let job = open_loop(arrival);
        let open = &job["open_loop"];
        let (scheduled, issued) = (open["scheduled"].as_f64().unwrap(), open["issued"].as_f64().unwrap());
        assert_eq!(scheduled, issued, "{arrival}: {open}");
        assert_eq!(job["ios"], open["issued"], "{arrival}: {open}");
        let rate = open["issued_per_second"].as_f64().unwrap();
        assert!((rate / 50_000.0 - 1.0).abs() <= 4.0 / scheduled.sqrt(), "{arrival}: {rate}");
        assert!(arrival != "constant" || scheduled == 50_000.0, "{scheduled}");
    }
}

/// With a warm-up, an overload reached half the rate of the closed loop, or none.
#[test]
fn regression_an_overload_has_the_rate_of_the_closed_loop_whatever_its_warm_up() {
    let target = "model:p4800x?size=1GiB";
    let run = |more: &[&str]| {
        let result = measured(target, &[&["--set", "depth=4", "--runtime", "100ms"], more].concat());
        jobs_of(&result)[0].clone()
    };
    let closed = run(&[])["iops"].as_f64().unwrap();
    for times in [0.5, 2.0, 10.0] {
        let rate = format!("rate={}", (closed * times) as u64);
        for warmup in ["0s", "100ms"] {
            let job = run(&["--set", &rate, "--warmup", warmup]);
            let wanted = closed * f64::min(times, 1.0);
            let iops = job["iops"].as_f64().unwrap();
            assert!((iops / wanted - 1.0).abs() < 0.01, "{iops} of {wanted}: {rate}, {warmup}");
            assert_eq!(job["littles_law"]["verdict"], "holds", "{job}");
            let rated: f64 = job["kinds"][0]["ios"].as_f64().unwrap() + job["kinds"][0]["backlog"].as_f64().unwrap();
            assert!((rated / job["rated_s"].as_f64().unwrap() / iops - 1.0).abs() < 1e-6, "{job}");
        }
    }
}

#[test]
fn throttled_arrivals_keep_the_rate() {
    let arguments = ["--set", "arrival=throttled", "--set", "rate=2000", "--set", "warmup=0s", "--runtime", "1s"];
    let result = measured(MODEL, &arguments);
    let job = &jobs_of(&result)[0];
    assert!((1900..=2100).contains(&job["ios"].as_u64().unwrap()), "{}", job["ios"]);
    assert!(job["open_loop"].is_null());
}

#[test]
fn a_seed_repeats_the_places() {
    let place = Place::new();
    let mut places = Vec::new();
    for seed in ["5", "5", "6"] {
        std::fs::write(place.target(), vec![0; 16 << 20]).unwrap();
        measured(&place.target(), &["--set", "rw=randwrite", "--set", "ios=200", "--warmup", "0s", "--seed", seed]);
        let written: Vec<bool> = std::fs::read(place.target())
            .unwrap()
            .chunks(4096)
            .map(|block| block.iter().any(|&byte| byte != 0))
            .collect();
        places.push(written);
    }
    assert!(places[0] == places[1], "the same seed went elsewhere");
    assert!(places[0] != places[2], "another seed went to the same places");
}

#[test]
fn fio_json_agrees_with_our_own() {
    let place = Place::new();
    let fio = place.text("out.json");
    let more = ["--set", "rw=randrw", "--set", "read_percent=70", "--set", "depth=4", "--set", "threads=2"];
    let arguments = [&more[..], &["--set", "ios=4000", "--warmup", "0s", "--fio-json", &fio]].concat();
    let ours = measured(&place.target(), &arguments);
    let ours = &jobs_of(&ours)[0];
    let theirs = json(&std::fs::read_to_string(&fio).unwrap());
    assert!(theirs["fio version"].as_str().unwrap().starts_with("fio-3."));
    let job = &jobs_of(&theirs)[0];
    assert_eq!((&job["job options"]["rw"], &job["job options"]["iodepth"]), (&"randrw".into(), &"4".into()));
    assert_eq!((&job["job options"]["bs"], &job["job options"]["numjobs"]), (&"4k".into(), &"2".into()));
    for (kind, name) in [(0, "read"), (1, "write")] {
        let (ours, theirs) = (&ours["kinds"][kind], &job[name]);
        assert_eq!(ours["kind"], name);
        assert_eq!(ours["ios"], theirs["total_ios"]);
        assert_eq!(ours["bytes"], theirs["io_bytes"]);
        assert_eq!(ours["iops"], theirs["iops"]);
        for (part, of_fio) in [("total", "lat_ns"), ("device", "clat_ns"), ("submission", "slat_ns")] {
            let (ours, theirs) = (&ours["latency_ns"][part], &theirs[of_fio]);
            assert_eq!(
                [&ours["samples"], &ours["min"], &ours["max"], &ours["mean"]],
                [&theirs["N"], &theirs["min"], &theirs["max"], &theirs["mean"]],
                "{part}"
            );
            assert_eq!(percentile(ours, 50.0)["value"], theirs["percentile"]["50.000000"], "{part}");
            assert_eq!(percentile(ours, 99.0)["value"], theirs["percentile"]["99.000000"], "{part}");
            let bins: u64 = theirs["bins"].as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum();
            assert_eq!(theirs["N"], bins, "{part}");
        }
    }
    let shares: f64 = ["latency_ns", "latency_us", "latency_ms"]
        .iter()
        .flat_map(|unit| job[unit].as_object().unwrap().values().map(|share| share.as_f64().unwrap()))
        .sum();
    assert!((shares - 100.0).abs() < 0.5, "{shares}");
}

#[test]
fn fio_logs_have_a_line_an_interval() {
    let place = Place::new();
    let prefix = place.text("randread-iodepth-4-numjobs-1");
    let more = ["--set", "depth=4", "--runtime", "500ms", "--warmup", "0s", "--interval", "100ms"];
    measured(MODEL, &[&more[..], &["--fio-logs", &prefix]].concat());
    for kind in ["bw", "iops", "lat"] {
        let log = std::fs::read_to_string(format!("{prefix}_{kind}.1.log")).unwrap();
        let times: Vec<u64> = log.lines().map(|line| line.split(", ").next().unwrap().parse().unwrap()).collect();
        assert!((4..=6).contains(&times.len()) && times.is_sorted() && times[0] == 100, "{kind}: {log}");
        assert!(log.lines().all(|line| line.split(", ").count() == 5 && line.split(", ").nth(2) == Some("0")), "{log}");
    }
}

#[test]
fn targets_and_settings_are_compared() {
    let more = ["--rounds", "3", "--runtime", "100ms", "--warmup", "0s", "--set", "depth=1"];
    let result = measured(NULL, &[&more[..], &["--against", RAM]].concat());
    assert_eq!((&result["schema_version"], &result["failures"]), (&1.into(), &0.into()));
    assert!(result["result"].is_object(), "{result}");
    let result = measured(RAM, &[&more[..], &["--against-set", "size=64KiB"]].concat());
    assert!(result["result"].is_object(), "{result}");
}

/// A comparison's percentiles could not be chosen.
#[test]
fn regression_a_comparison_judges_the_percentiles_that_are_named() {
    let more =
        ["--rounds", "3", "--runtime", "20ms", "--set", "depth=4", "--against", MODEL, "--percentiles", "50,99.5"];
    let result = measured(MODEL, &more);
    let figures: Vec<&str> =
        result["result"]["figures"].as_array().unwrap().iter().map(|of| of["figure"].as_str().unwrap()).collect();
    assert_eq!(figures, ["IOPS", "read mean", "read p50", "read p99.5"]);
    refused(&bench(MODEL, &[&more[..9], &["101"]].concat()), 2, &["101"]);
}

/// The error was "--set: duplicate key": a depth could only be compared with the default.
#[test]
fn regression_against_set_may_set_what_set_does() {
    let more = ["--rounds", "3", "--runtime", "100ms", "--warmup", "0s", "--set", "depth=4", "--set", "size=8KiB"];
    let result = measured(MODEL, &[&more[..], &["--against-set", "depth = 64"]].concat());
    assert!(result["result"].is_object(), "{result}");
    assert!(result["result"].to_string().contains("ratio"), "{result}");
    // A key given twice on one side stays an error.
    let twice = [&more[..], &["--against-set", "depth=8", "--against-set", "depth=16"]].concat();
    refused(&bench(MODEL, &twice), 2, &["duplicate key"]);
}

#[test]
fn experiments_are_listed_and_one_runs() {
    let list = json(&good(&forebay(&["bench", "--list", "--output", "json"])));
    let names: Vec<&str> =
        list["experiments"].as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap()).collect();
    for name in ["qd-sweep", "snia-iops", "wait-methods", "photo-ingest", "rocksdb", "mongodb", "ycsb", "zipf"] {
        assert!(names.contains(&name), "{names:?}");
    }
    let result = measured(RAM, &["qd-sweep", "--quick", "--runtime", "50ms", "--depth-max", "4"]);
    assert_eq!((&result["experiment"], &result["partial"]), (&"qd-sweep".into(), &false.into()));
}

#[test]
fn what_a_job_cost_its_host_is_said_where_the_kernel_shows_it() {
    let place = Place::new();
    let runtime = ["--set", "rate=200", "--set", "depth=16", "--runtime", "1s", "--warmup", "100ms"];
    let result = measured(&place.target(), &runtime);
    let job = &jobs_of(&result)[0];
    let host = &job["host"];
    let count = |figure: &Value| figure["count"].as_u64();
    // It waits two hundred times a second for the next arrival, whatever the machine's load, and sometimes for completions.
    assert!(count(&host["voluntary_switches"]).is_some_and(|count| count >= 50), "{host}");
    let per_io = host["voluntary_switches"]["per_io"].as_f64().unwrap();
    // On a busy machine I/Os of the warm-up end within the measurement, and count here, too.
    let kinds = job["kinds"].as_array().unwrap();
    let ios: u64 = kinds.iter().map(|kind| kind["ios"].as_u64().unwrap() + kind["backlog"].as_u64().unwrap()).sum();
    let expected = count(&host["voluntary_switches"]).unwrap() as f64 / ios as f64;
    assert!((per_io - expected).abs() < 1e-9, "{host}");
    assert_eq!(host["migrations"].is_null(), !Path::new("/proc/self/sched").exists(), "{host}");
    let machine = &host["machine"];
    assert!(count(&machine["interrupts"]).is_some_and(|count| count > 0), "{machine}");
    let sources = machine["interrupts_by_source"].as_array().unwrap();
    let sum: u64 = sources.iter().map(|source| count(source).unwrap()).sum();
    assert_eq!(count(&machine["interrupts"]), Some(sum));
    let unknown = machine["unknown"].as_array().unwrap();
    let says_why = unknown.iter().any(|why| why.as_str().unwrap().starts_with("idle states: "));
    assert_eq!(machine["idle"].is_null(), says_why, "{machine}");
    let table = good(&forebay(&[&["bench", "--target", &place.target()], &runtime[..]].concat()));
    for part in ["voluntary", "migrations", "whole machine meanwhile", "interrupts an I/O"] {
        assert!(table.contains(part), "{part}: {table}");
    }
    let page = place.text("page.html");
    good(&forebay(&["report", &place.write("result.json", &result.to_string()), "-o", &page]));
    assert!(std::fs::read_to_string(&page).unwrap().contains("What it cost the host"));
    // Virtual time has no host figures.
    let modelled = measured(MODEL, &["--runtime", "20ms", "--warmup", "0s"]);
    let host = &jobs_of(&modelled)[0]["host"];
    assert!(
        ["voluntary_switches", "involuntary_switches", "migrations", "machine"].iter().all(|name| host[name].is_null()),
        "{host}"
    );
}

#[test]
fn requests_at_the_block_layer_are_seen_or_it_is_said_why_not() {
    let place = Place::new();
    let job = ["--block-layer", "--set", "rate=200", "--set", "depth=16", "--runtime", "1s", "--warmup", "500ms"];
    let of = |target: &str| {
        let result = measured(target, &job);
        let machine = jobs_of(&result)[0]["host"]["machine"].clone();
        let unknown = machine["unknown"].as_array().unwrap().iter();
        let why = unknown.map(|why| why.as_str().unwrap().to_owned()).find(|why| why.starts_with("the block layer: "));
        (machine["block_layer"].clone(), why)
    };
    let (block, why) = of(&place.target());
    assert_eq!(block.is_null(), why.is_some(), "{block} {why:?}");
    if !block.is_null() {
        // Some requests may be merged or split, and the first ones precede the probes.
        let (requests, device) = (block["requests"].as_u64().unwrap(), &block["device_ns"]);
        assert!((50..=400).contains(&requests) && device["samples"] == requests, "{block}");
        assert!(device["mean"].as_f64().unwrap() > 0.0 && block["probes_ns_per_request"].is_number(), "{block}");
    }
    let (block, why) = of(RAM);
    assert!(block.is_null() && why.as_ref().is_some_and(|why| why.contains("neither a block device nor")), "{why:?}");
    let refuse = |arguments: &[&str], what: &str| {
        refused(&forebay(&[&["bench", "--block-layer", "--runtime", "50ms"], arguments].concat()), 2, &[what]);
    };
    refuse(&["--target", MODEL], "virtual time");
    refuse(&["--target", RAM, "--target", RAM], "--block-layer takes one target");
    refuse(&["qd-sweep", "--target", RAM], "--block-layer has no effect on an experiment");
}
