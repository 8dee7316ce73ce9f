//! Records of every I/O: written, converted, and recovered after a kill.

use super::*;
use rustix::process::Signal;

/// Converts records; returns the program's message.
#[track_caller]
fn converted(place: &Place, records: &str) -> Value {
    let parquet = place.text("converted.parquet");
    let output = forebay(&["bench", "--records", records, "--parquet", &parquet, "--output", "json"]);
    let found = json(&good(&output));
    let bytes = std::fs::read(&parquet).unwrap();
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"), "this is no Parquet file");
    // An existing file is never overwritten.
    let again = forebay(&["bench", "--records", records, "--parquet", &parquet]);
    refused(&again, 2, &["converted.parquet", "never overwritten"]);
    std::fs::remove_file(parquet).unwrap();
    found
}

/// The records of a run of 200,000 I/Os.
fn recorded(place: &Place) -> String {
    let (records, parquet) = (place.text("r.fbt"), place.text("r.parquet"));
    let more = ["--set", "ios=200000", "--set", "rw=randrw", "--set", "warmup=0s", "--set", "depth=4"];
    let result = measured(NULL, &[&more[..], &["--records", &records, "--parquet", &parquet]].concat());
    let job = &jobs_of(&result)[0];
    let (ios, dropped) = (job["ios"].as_u64().unwrap(), job["records_dropped"].as_u64().unwrap());
    let found = converted(place, &records);
    assert_eq!((found["records"].as_u64(), &found["dropped"]), (Some(ios - dropped), &dropped.into()));
    assert_eq!(
        (&found["is_whole"], &found["torn_tail_bytes"], &found["damaged_bytes"]),
        (&(dropped == 0).into(), &0.into(), &0.into())
    );
    let of_run = std::fs::read(parquet).unwrap();
    assert!(of_run.starts_with(b"PAR1") && of_run.ends_with(b"PAR1"));
    records
}

/// Records lost to a full disk were not counted in the result, and later the exit code was that of a good run.
#[test]
fn regression_records_that_could_not_be_written_are_counted() {
    let place = Place::new();
    let records = place.text("r.fbt");
    // Limits the file to that many 512-byte blocks, and turns the signal at the limit into an error.
    let script = "trap '' XFSZ; ulimit -f 64; exec \"$0\" bench --target null:?size=1GiB --set ios=200000 --set warmup=0s --output json --records \"$1\"";
    let output = std::process::Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_forebay"), &records])
        .output()
        .unwrap();
    assert_eq!(code(&output), 1);
    let result = json(&out(&output));
    let dropped = jobs_of(&result)[0]["records_dropped"].as_u64().unwrap();
    assert!(dropped > 100_000, "{dropped}");
    assert!(err(&output).contains("records missing"), "{}", err(&output));
}

#[test]
fn records_are_converted_whole_torn_and_damaged() {
    let place = Place::new();
    let records = recorded(&place);
    let bytes = std::fs::read(&records).unwrap();
    let all = converted(&place, &records)["records"].as_u64().unwrap();

    let torn = place.text("torn.fbt");
    std::fs::write(&torn, &bytes[..bytes.len() / 2]).unwrap();
    let found = converted(&place, &torn);
    let left = found["records"].as_u64().unwrap();
    assert!(0 < left && left < all, "{left} of {all}");
    assert!(found["torn_tail_bytes"].as_u64().unwrap() > 0 && found["is_whole"] == false, "{found}");

    let damaged = place.text("damaged.fbt");
    let mut changed = bytes.clone();
    let middle = changed.len() / 2;
    changed[middle] ^= 1;
    std::fs::write(&damaged, &changed).unwrap();
    let parquet = place.text("converted.parquet");
    let output = forebay(&["bench", "--records", &damaged, "--parquet", &parquet, "--output", "json"]);
    // Damage in the middle is a finding, whatever the exit code of an incomplete end.
    assert_ne!(code(&output), 2, "{}", err(&output));
    let found = json(&out(&output));
    let left = found["records"].as_u64().unwrap();
    assert!(0 < left && left < all && found["is_whole"] == false, "{left} of {all}");
    assert!(found["damaged_bytes"].as_u64().unwrap() > 0, "{found}");
}

#[test]
fn records_survive_a_kill() {
    let place = Place::new();
    let records = place.text("r.fbt");
    let more = ["--set", "rate=200000", "--set", "depth=64", "--warmup", "0s", "--runtime", "60s"];
    let run = Running::start(&[&["bench", "--target", NULL, "--records", &records][..], &more].concat());
    // The file has several segments.
    let size = || std::fs::metadata(&records).map_or(0, |found| found.len());
    wait_until("the second segment", || size() > 6 << 20);
    run.signal(Signal::KILL);
    let output = run.end();
    assert_eq!(output.status.code(), None);
    let found = converted(&place, &records);
    assert!(found["records"].as_u64().unwrap() > 65_536, "{found}");
}

#[test]
fn regression_a_kill_takes_a_second_of_records_and_not_all() {
    let place = Place::new();
    let records = place.text("r.fbt");
    // Far too few records to fill a chunk.
    let more = ["--set", "rate=1000", "--warmup", "0s", "--runtime", "60s"];
    let run = Running::start(&[&["bench", "--target", NULL, "--records", &records][..], &more].concat());
    let started = Instant::now();
    wait_until("the first records", || std::fs::metadata(&records).is_ok_and(|found| found.len() > 4096));
    std::thread::sleep(Duration::from_millis(1500));
    run.signal(Signal::KILL);
    let lived_s = started.elapsed().as_secs_f64();
    run.end();
    let output = forebay(&["bench", "--records", &records, "--parquet", &place.text("k.parquet"), "--output", "json"]);
    let found = json(&good(&output));
    let kept = found["records"].as_f64().unwrap();
    assert!(kept > 1000.0 * (lived_s - 2.0) && kept >= 900.0, "{kept} in {lived_s} s");
    assert_eq!((&found["is_whole"], &found["has_footer"]), (&false.into(), &false.into()));
    assert!(err(&output).contains("has no footer: the run did not end"), "{}", err(&output));
}

#[test]
fn what_are_no_records_is_refused() {
    let place = Place::new();
    let target = place.target();
    let parquet = place.text("x.parquet");
    refused(&forebay(&["bench", "--records", &target, "--parquet", &parquet]), 2, &["target.img"]);
    refused(&forebay(&["bench", "--records", "/nonexistent/x", "--parquet", &parquet]), 2, &["/nonexistent/x"]);
    assert!(!Path::new(&parquet).exists());
    let records = place.text("r.fbt");
    measured(NULL, &["--set", "ios=10", "--records", &records]);
    let before = std::fs::read(&records).unwrap();
    refused(&bench(NULL, &["--set", "ios=10", "--records", &records]), 2, &["r.fbt", "never overwritten"]);
    assert!(std::fs::read(&records).unwrap() == before);
    refused(&forebay(&["bench", "--records", &records, "--parquet", "/dev/full"]), 2, &["/dev/full"]);
}

/// Without a reader of the result, the records were not converted.
#[test]
fn regression_records_are_converted_also_where_nobody_reads_the_result() {
    let place = Place::new();
    let (records, parquet) = (place.text("r.fbt"), place.text("r.parquet"));
    let more = ["--set", "ios=1000", "--warmup", "0s", "--records", &records, "--parquet", &parquet];
    let mut run = Running::start(&[&["bench", "--target", NULL][..], &more].concat());
    drop(run.0.stdout.take());
    run.end();
    assert!(std::fs::read(&parquet).unwrap().ends_with(b"PAR1"));
}

/// A trace given as the target by mistake was overwritten.
#[test]
fn regression_traces_and_packed_files_are_not_written_over() {
    let place = Place::new();
    let target = place.target();
    for (magic, name) in [
        (&b"\x1f\x8b\x08"[..], "gzip data"),
        (b"\x28\xb5\x2f\xfd", "zstd data"),
        (b"PAR1", "Parquet file"),
        (b"FOREBAYR", "Forebay recording"),
        (b"FOREBAYT", "Forebay records of I/Os"),
    ] {
        let mut content = std::fs::read(&target).unwrap();
        content[..magic.len()].copy_from_slice(magic);
        std::fs::write(&target, &content).unwrap();
        refused(&bench(&target, &["--set", "rw=randwrite", "--set", "ios=10"]), 2, &[name, "--destroy-data"]);
        assert!(std::fs::read(&target).unwrap() == content);
    }
}
