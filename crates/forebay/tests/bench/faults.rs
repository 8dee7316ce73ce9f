//! Runs that end otherwise than planned: by the user, by a target that fails, by content that is not what was written.

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

/// The latency of reads, also where there were none.
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
    assert_eq!((&found["records"], &found["whole"]), (&ios.into(), &true.into()));
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
    assert!(job["ios"].as_u64().unwrap() > 0, "what succeeded is told");
    assert!(err(&output).contains("failed"), "{}", err(&output));
    // And in the words of the table.
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
    // Those that were in flight with the last one.
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
    // Two runs over the same file: the second must not accept what the first has left.
    let place = Place::new();
    let target = place.target();
    let jobs = place.write("j.toml", &FILL_THEN_CHECK.replace("start_delay = \"2s\"\n", ""));
    let result = measured(&target, &[&jobs]);
    assert_eq!(jobs_of(&result)[1]["verified_units"]["whole"], 16 * MIB / 4096);
    let reading = place
        .write("r.toml", "[[job]]\nrw = \"read\"\nsize = \"64KiB\"\npasses = 1.0\nverify = true\nwarmup = \"0s\"\n");
    let result = measured(&target, &[&reading]);
    let units = &jobs_of(&result)[0]["verified_units"];
    assert_eq!((&units["whole"], &units["unjudged"]), (&0.into(), &(16 * MIB / 4096).into()));
}
