//! Runs with an unplanned end: by the user, by a failing target, by content that differs from what was written.

use super::*;
use rustix::process::Signal;
use std::os::unix::fs::FileExt;

#[test]
fn ctrl_c_ends_with_what_is_known() {
    for signal in [Signal::INT, Signal::TERM] {
        let more = ["--set", "depth=4", "--warmup", "0s", "--runtime", "60s"];
        let run = Running::start(&[&["bench", "--output", "json", "--target", NULL][..], &more].concat());
        std::thread::sleep(Duration::from_millis(700));
        run.signal(signal);
        let output = run.end();
        let result = json(&good(&output));
        let job = &jobs_of(&result)[0];
        assert_eq!(job["partial"], "interrupted");
        let seconds = job["duration_s"].as_f64().unwrap();
        assert!(job["ios"].as_u64().unwrap() > 1000 && (0.1..5.0).contains(&seconds), "{seconds}");
    }
}

#[test]
fn ctrl_c_is_said_in_a_table_and_ends_the_jobs_that_follow() {
    let place = Place::new();
    let jobs =
        "[defaults]\nruntime = \"30s\"\nwarmup = \"0s\"\n[[job]]\nname = \"a\"\n[[job]]\nname = \"b\"\nafter = \"a\"\n";
    let run = Running::start(&["bench", &place.write("j.toml", jobs), "--target", NULL]);
    std::thread::sleep(Duration::from_millis(700));
    run.signal(Signal::INT);
    let table = good(&run.end());
    assert!(table.contains("PARTIAL (interrupted)"), "{table}");
    assert!(table.starts_with("a: ") && !table.contains("\nb: "), "{table}");
    assert!(table.contains("never started, since the run was ended: b"), "{table}");
    let run = Running::start(&["bench", &place.text("j.toml"), "--target", NULL, "--output", "json"]);
    std::thread::sleep(Duration::from_millis(700));
    run.signal(Signal::INT);
    assert_eq!(json(&good(&run.end()))["not_started"], serde_json::json!(["b"]));
}

#[test]
fn ctrl_c_while_warming_up_has_nothing_to_tell() {
    let run = Running::start(&["bench", "--output", "json", "--target", NULL, "--warmup", "60s"]);
    std::thread::sleep(Duration::from_millis(500));
    run.signal(Signal::INT);
    let result = json(&good(&run.end()));
    let job = &jobs_of(&result)[0];
    assert_eq!((&job["partial"], &job["ios"]), (&"interrupted".into(), &0.into()));
    assert_eq!(percentile(latency_or_none(job), 50.0)["status"], "withheld");
}

/// The latency of reads, even where there were none.
fn latency_or_none(job: &Value) -> &Value {
    assert_eq!(job["kinds"][0]["kind"], "read", "{job}");
    latency(job)
}

#[test]
fn ctrl_c_keeps_what_records_there_are() {
    let place = Place::new();
    let (records, parquet) = (place.text("r.fbt"), place.text("r.parquet"));
    let more = ["--set", "rate=20000", "--set", "depth=64", "--warmup", "0s", "--runtime", "60s"];
    let run = Running::start(
        &[&["bench", "--output", "json", "--target", NULL, "--records", &records, "--parquet", &parquet][..], &more]
            .concat(),
    );
    std::thread::sleep(Duration::from_millis(800));
    run.signal(Signal::INT);
    let result = json(&good(&run.end()));
    let ios = jobs_of(&result)[0]["ios"].as_u64().unwrap();
    let found = json(&good(&forebay(&[
        "bench",
        "--records",
        &records,
        "--parquet",
        &place.text("again.parquet"),
        "--output",
        "json",
    ])));
    assert_eq!((&found["records"], &found["is_whole"]), (&ios.into(), &true.into()));
    assert!(std::fs::read(parquet).unwrap().starts_with(b"PAR1"));
}

#[test]
fn a_file_that_shrinks_gives_failures_with_their_place() {
    let place = Place::new();
    let target = place.target();
    let more = ["--set", "rate=2000", "--set", "depth=32", "--warmup", "0s", "--runtime", "2s"];
    let run = Running::start(&[&["bench", "--output", "json", "--target", &target][..], &more].concat());
    std::thread::sleep(Duration::from_millis(800));
    std::fs::File::options().write(true).open(&target).unwrap().set_len(4 * MIB).unwrap();
    let output = run.end();
    assert_eq!(code(&output), 1, "{}", err(&output));
    let result = json(&out(&output));
    let job = &jobs_of(&result)[0];
    let failures = &job["failures"];
    let count = failures["count"].as_u64().unwrap();
    assert!(count > 0 && failures["mismatches"] == 0, "{failures}");
    assert_eq!(job["kinds"][0]["errors"], count);
    for failure in failures["first"].as_array().unwrap() {
        assert!(failure["offset_bytes"].as_u64().unwrap() >= 4 * MIB, "{failure}");
        assert_eq!((&failure["kind"], &failure["size_bytes"]), (&"read".into(), &4096.into()));
        assert!(!failure["what"].as_str().unwrap().is_empty() && failure["at_s"].as_f64().unwrap() > 0.0);
    }
    assert!(job["ios"].as_u64().unwrap() > 0, "what succeeded is reported");
    assert!(err(&output).contains("failed"), "{}", err(&output));
    // The table reports it too.
    std::fs::write(&target, vec![1; 64 << 10]).unwrap();
    let run = Running::start(&[&["bench", "--target", &target][..], &more].concat());
    std::thread::sleep(Duration::from_millis(800));
    std::fs::File::options().write(true).open(&target).unwrap().set_len(0).unwrap();
    let output = run.end();
    assert_eq!(code(&output), 1);
    assert!(out(&output).contains("FAILURES") && out(&output).contains("at byte"), "{}", out(&output));
}

/// Fills, waits, and checks.
const FILL_THEN_CHECK: &str = "[defaults]\nsize = \"64KiB\"\ndepth = 4\npasses = 1.0\nwarmup = \"0s\"\nverify = true\n\
    [[job]]\nname = \"fill\"\nrw = \"write\"\nflush_every = 1\n[[job]]\nname = \"check\"\nafter = \"fill\"\nrw = \"read\"\n\
    start_delay = \"2s\"\n";

#[test]
fn a_flipped_byte_is_found_and_its_place_named() {
    let place = Place::new();
    let target = place.target();
    std::fs::write(&target, vec![0; 4 << 20]).unwrap();
    let jobs = place.write("j.toml", FILL_THEN_CHECK);
    let run = Running::start(&["bench", &jobs, "--output", "json", "--target", &target]);
    let file = std::fs::File::options().read(true).write(true).open(&target).unwrap();
    let mut last = [0; 4096];
    wait_until("the fill", || {
        file.read_exact_at(&mut last, 4 * MIB - 4096).unwrap();
        last.iter().any(|&byte| byte != 0)
    });
    // I/Os in flight when the last one failed.
    std::thread::sleep(Duration::from_millis(300));
    let at = MIB + 1000;
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 1], at).unwrap();
    file.sync_all().unwrap();
    let output = run.end();
    assert_eq!(code(&output), 1, "{}", err(&output));
    let result = json(&out(&output));
    let (fill, check) = (&jobs_of(&result)[0], &jobs_of(&result)[1]);
    assert_eq!((&fill["failures"]["count"], &check["ios"]), (&0.into(), &64.into()));
    let failures = &check["failures"];
    assert_eq!((&failures["count"], &failures["mismatches"]), (&1.into(), &1.into()), "{failures}");
    let failure = &failures["first"][0];
    let (begin, len) = (failure["offset_bytes"].as_u64().unwrap(), failure["size_bytes"].as_u64().unwrap());
    assert!((begin..begin + len).contains(&at), "{failure}");
    let whole = check["verified_units"]["whole"].as_u64().unwrap();
    assert!(whole > 900 && whole < 1024 + 1, "{}", check["verified_units"]);
}

#[test]
fn what_was_there_before_is_not_taken_for_this_runs() {
    // Two runs over the same file: the second must not accept data of the first.
    let place = Place::new();
    let target = place.target();
    let jobs = place.write("j.toml", &FILL_THEN_CHECK.replace("start_delay = \"2s\"\n", ""));
    let result = measured(&target, &[&jobs]);
    assert_eq!(jobs_of(&result)[1]["verified_units"]["whole"], 16 * MIB / 4096);
    let reading = place
        .write("r.toml", "[[job]]\nrw = \"read\"\nsize = \"64KiB\"\npasses = 1.0\nverify = true\nwarmup = \"0s\"\n");
    let result = measured(&target, &[&reading]);
    let units = &jobs_of(&result)[0]["verified_units"];
    // All blocks are valid and in their places, from whichever run.
    let all = 16 * MIB / 4096;
    assert_eq!((&units["whole"], &units["partly"], &units["unjudged"]), (&0.into(), &all.into(), &0.into()));
    // A byte changed since is detected by another process too; blocks without our header are not judged.
    let file = std::fs::File::options().read(true).write(true).open(&target).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, 5 * MIB + 2000).unwrap();
    file.write_all_at(&[byte[0] ^ 1], 5 * MIB + 2000).unwrap();
    file.write_all_at(&[7; 4096], 6 * MIB).unwrap();
    file.sync_all().unwrap();
    let output = bench(&target, &[&reading]);
    assert_eq!(code(&output), 1, "{}", err(&output));
    let result = json(&out(&output));
    let (units, failures) = (&jobs_of(&result)[0]["verified_units"], &jobs_of(&result)[0]["failures"]);
    assert_eq!((&units["wrong"], &units["partly"], &units["unjudged"]), (&1.into(), &(all - 2).into(), &1.into()));
    assert!(failures["first"][0]["what"].as_str().unwrap().contains("damaged content"), "{failures}");
}

#[test]
fn regression_to_verify_nothing_is_a_finding() {
    let place = Place::new();
    let reading = ["--set", "verify=true", "--set", "passes=1", "--set", "rw=read", "--warmup", "0s"];
    let output = bench(&place.target(), &reading);
    assert_eq!(code(&output), 1, "{}", err(&output));
    assert!(err(&output).contains("nothing was verified"), "{}", err(&output));
    assert!(out(&output).contains("NOTHING WAS VERIFIED"), "{}", out(&output));
    // fio's options for the same.
    let fio = "[v]\nrw=randread\nbs=4k\nsize=4m\nioengine=io_uring\ndirect=1\nverify=crc32c\nverify_only=1\n";
    let jobs = place.write("v.fio", &fio.replace("randread", "randwrite"));
    let output = bench(&place.target(), &[&jobs]);
    assert_eq!(code(&output), 1, "{}", err(&output));
    assert!(out(&output).contains("NOTHING WAS VERIFIED"), "{}", out(&output));
}

#[test]
fn regression_nothing_measured_is_a_finding() {
    let place = Place::new();
    let times = place.write("times.txt", "0\n0.01\n");
    let trace = format!("trace={{ file = \"{times}\" }}");
    let output = bench(NULL, &["--set", &trace, "--warmup", "1s"]);
    assert_eq!(code(&output), 1, "{}", err(&output));
    assert!(err(&output).contains("no I/O was measured"), "{}", err(&output));
    assert!(out(&output).contains("the trace was over before the measurement began"), "{}", out(&output));
    // The job alone is measured from its start to its end.
    let started = Instant::now();
    let result = measured(NULL, &["--set", &trace]);
    let job = &jobs_of(&result)[0];
    assert_eq!((&job["ios"], &job["job"]["warmup_s"]), (&2.into(), &0.0.into()));
    let seconds = job["duration_s"].as_f64().unwrap();
    assert!((0.01..0.2).contains(&seconds) && started.elapsed() < Duration::from_secs(5), "{seconds}");
}

#[test]
fn regression_a_second_signal_at_once_is_the_same_wish() {
    // As timeout(1): signals the child, then its whole group.
    let run = Running::start(&["bench", "--output", "json", "--target", NULL, "--warmup", "0s", "--runtime", "60s"]);
    std::thread::sleep(Duration::from_millis(500));
    run.signal(Signal::INT);
    std::thread::sleep(Duration::from_millis(2));
    run.signal(Signal::INT);
    let result = json(&good(&run.end()));
    let job = &jobs_of(&result)[0];
    assert_eq!(job["partial"], "interrupted");
    // After an interrupt the tool's own cost is not measured.
    assert!(job["own_cost_ns_per_io"].is_null(), "{job}");
}

/// On a shared machine `null:` got a saturation depth, because a thread that waited for a processor was taken for idle; and a modelled
/// drive got that of its host's single thread.
#[test]
fn regression_a_generator_that_waits_for_a_processor_or_is_modelled_is_seen_to_be_the_limit() {
    let job = &measured("null:?size=1GiB", &["--set", "depth=8", "--runtime", "300ms"])["jobs"][0];
    assert_eq!(job["limited_by_generator"], true, "{job}");
    let sweep = |target: &str| {
        let words =
            ["bench", "qd-sweep", "--target", target, "--read-percent", "70", "--depth-max", "16", "--destroy-data"];
        let result = json(&good(&forebay(&[&words[..], &["--runtime", "50ms", "--output", "json"]].concat())));
        let notes = result["notes"].to_string();
        let limited = result["result"]["results"]["saturation"]["limited_by_generator"].as_bool().unwrap();
        (limited, notes.contains("THE GENERATOR IS THE LIMIT"), notes.contains("saturation depth"))
    };
    assert_eq!(sweep("model:p4800x?size=1GiB"), (true, true, false));
    assert_eq!(sweep("model:p4800x?size=1GiB&host=none"), (false, false, true));
    let two = measured("model:p4800x?size=1GiB", &["--set", "depth=8", "--set", "threads=2", "--runtime", "50ms"]);
    let one = measured("model:p4800x?size=1GiB", &["--set", "depth=1", "--runtime", "50ms"]);
    let of = |result: &Value| result["jobs"][0]["generator_occupied"].as_f64().unwrap();
    assert!((0.3..0.9).contains(&of(&one)) && of(&two) > of(&one), "{} {}", of(&one), of(&two));
    assert_eq!(one["jobs"][0]["limited_by_generator"], false);
}
