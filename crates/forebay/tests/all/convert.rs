//! `forebay convert`, and what it writes given to `forebay analyze`, as a user calls them.

use crate::support::{forebay, json};
use serde_json::Value;
use std::fs;
use std::process::Output;
use tempfile::TempDir;

#[track_caller]
fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A directory with a trace in Alibaba's format, from the (volume, bytes) of its writes.
fn place(writes: &[(u32, u64)]) -> (TempDir, String) {
    let directory = TempDir::new().unwrap();
    let lines: Vec<String> = writes
        .iter()
        .enumerate()
        .map(|(at, (volume, bytes))| format!("{volume},W,{},{bytes},{}\n", at * 4096, 1_577_808_144_360_767 + at))
        .collect();
    let path = directory.path().join("trace.csv");
    fs::write(&path, lines.concat()).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (directory, path)
}

/// Requests above 2 TiB were cut silently.
#[test]
fn regression_requests_that_a_format_cannot_hold_are_left_out_and_located() {
    let (directory, path) = place(&[(1, 4096), (1, 3 << 40), (1, 512)]);
    for format in ["fio-log", "fio-log2", "blktrace"] {
        let to = directory.path().join(format);
        let found = json(&["convert", &path, to.to_str().unwrap(), "--to-format", format]);
        assert_eq!((&found["requests"], &found["refused"]["count"]), (&2.into(), &1.into()), "{found}");
        assert!(found["refused"]["first"][0]["what"].as_str().unwrap().contains("2 TiB"), "{found}");
        assert_eq!(json(&["analyze", to.to_str().unwrap()])["requests"], 2);
        fs::remove_file(&to).unwrap();
        let text = forebay(&["convert", &path, to.to_str().unwrap(), "--to-format", format]);
        let text = String::from_utf8(text.stdout).unwrap();
        assert!(
            text.contains("left out") && text.contains("request 2:") && text.contains("2 requests written"),
            "{text}"
        );
    }
}

/// Volumes that were not requested were reported as left out, and the exit code was that of damage.
#[test]
fn regression_one_volume_of_a_fleet_is_all_that_is_asked_for() {
    let (directory, path) = place(&[(1, 4096), (2, 4096), (2, 4096), (3, 512)]);
    let fleet = directory.path().join("fleet");
    let fleet = fleet.to_str().unwrap();
    json(&["convert", &path, fleet, "--to-format", "parquet-by-volume"]);
    assert_eq!(json(&["analyze", fleet])["traces"].as_array().unwrap().len(), 3);
    let output = forebay(&["analyze", fleet, "--volume", "2", "--output", "json"]);
    assert!(output.status.success() && output.stderr.is_empty(), "{}", stderr(&output));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let traces = found["traces"].as_array().unwrap();
    assert_eq!((traces.len(), &traces[0]["trace"], &traces[0]["requests"]), (1, &"2".into(), &2.into()));
    assert_eq!(found["left_out"].as_array().unwrap().len(), 0);
    // The verbs that take a single trace accept it too.
    let one = directory.path().join("one.parquet");
    assert_eq!(json(&["convert", fleet, one.to_str().unwrap(), "--volume", "2"])["requests"], 2);
    let none = forebay(&["analyze", fleet, "--volume", "4"]);
    assert_eq!(none.status.code(), Some(2));
    assert!(stderr(&none).contains("no volume \"4\"; there are 1, 2, 3"), "{}", stderr(&none));
}

/// It was to be written to `fleet/.partial`, which is impossible.
#[test]
fn regression_a_name_that_ends_in_a_slash_is_a_directory_by_volume() {
    let (directory, path) = place(&[(1, 4096), (2, 4096)]);
    let fleet = format!("{}/fleet/", directory.path().display());
    json(&["convert", &path, &fleet]);
    assert_eq!(json(&["analyze", &fleet])["traces"].as_array().unwrap().len(), 2);
}

/// Each part was treated as a trace of its own, without the volume's name.
#[test]
fn regression_the_directory_of_a_volume_is_one_trace() {
    let (directory, path) = place(&[(1, 4096), (2, 4096), (2, 4096)]);
    let fleet = directory.path().join("fleet");
    json(&["convert", &path, fleet.to_str().unwrap(), "--to-format", "parquet-by-volume"]);
    // As when volumes of several machines with equal disk names are put together.
    let volume = directory.path().join("volume=host%2Fsdb");
    fs::rename(fleet.join("volume=2"), &volume).unwrap();
    fs::copy(volume.join("part-0.parquet"), volume.join("part-1.parquet")).unwrap();
    let found = json(&["analyze", volume.to_str().unwrap()]);
    let traces = found["traces"].as_array().unwrap();
    assert_eq!((traces.len(), &traces[0]["trace"], &traces[0]["requests"]), (1, &"host/sdb".into(), &4.into()));
}

/// The volume's name was empty.
#[test]
fn regression_a_partition_without_a_volume_has_a_name() {
    let directory = TempDir::new().unwrap();
    let log = directory.path().join("trace");
    // libCacheSim's records contain no volume.
    let record = [&1_u32.to_le_bytes()[..], &8_u64.to_le_bytes(), &4096_u32.to_le_bytes(), &(-1_i64).to_le_bytes()];
    fs::write(&log, record.concat().repeat(3)).unwrap();
    let fleet = directory.path().join("fleet");
    let arguments = ["convert", log.to_str().unwrap(), fleet.to_str().unwrap(), "--to-format", "parquet-by-volume"];
    json(&[&arguments[..], &["--format", "oracle-general"]].concat());
    let found = json(&["analyze", fleet.to_str().unwrap()]);
    assert_eq!(found["traces"][0]["trace"], "(no volume)");
    let text = String::from_utf8(forebay(&["analyze", fleet.to_str().unwrap()]).stdout).unwrap();
    assert!(text.contains("(no volume) "), "{text}");
}

/// Such a text was read for ever.
#[test]
fn regression_a_text_without_lines_is_refused() {
    let output = forebay(&["analyze", "/dev/zero", "--format", "msr"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("line 1 has no end within"), "{}", stderr(&output));
}

#[test]
fn figures_are_written_as_parquet_and_nothing_is_overwritten() {
    let (directory, path) = place(&[(1, 4096), (2, 4096), (2, 4096)]);
    let to = directory.path().join("found.parquet");
    let arguments = ["analyze", &path, "--by", "volume", "--parquet", to.to_str().unwrap()];
    assert_eq!(json(&arguments)["requests"], 3);
    for name in ["found.parquet", "found.curves.parquet"] {
        let bytes = fs::read(directory.path().join(name)).unwrap();
        assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"), "{name}");
    }
    for gone in ["found.parquet", "found.curves.parquet"] {
        let output = forebay(&arguments);
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains("never overwritten"), "{}", stderr(&output));
        fs::remove_file(directory.path().join(gone)).unwrap();
    }
    json(&arguments);
}

/// One time a year ahead put all later requests of fio's log a year ahead, because its times never go back; and consecutive volumes all
/// began at the same time.
#[test]
fn regression_a_log_of_fio_has_the_times_of_the_trace() {
    let directory = TempDir::new().unwrap();
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let begin_us = 1_577_808_144_360_767_u64;
    let year_us = 365 * 24 * 3600 * 1_000_000;
    // The second volume began half a minute before the first.
    let lines = (0..60_u64).map(|number| {
        let volume = 1 + number / 30;
        let slip_us = if number == 10 { year_us } else { 0 };
        format!(
            "{volume},W,{},4096,{}\n",
            number * 4096,
            begin_us + (number % 30) * 1_000_000 - 30_000_000 * (volume - 1) + slip_us
        )
    });
    fs::write(at("t.csv"), lines.collect::<String>()).unwrap();
    let found = json(&["convert", &at("t.csv"), &at("t.log")]);
    let notes = found["notes"].to_string();
    assert!(notes.contains("far ahead") && notes.contains("30.000 s before") && notes.contains("sorted"), "{notes}");
    let log = fs::read_to_string(at("t.log")).unwrap();
    let writes = log.lines().filter(|line| line.contains(" write "));
    let times_us: Vec<u64> = writes.map(|line| line.split(' ').next().unwrap().parse().unwrap()).collect();
    let mut wanted: Vec<u64> = (0..60).map(|number| number * 1_000_000).collect();
    wanted[40] -= 1_000_000;
    assert_eq!(times_us, wanted);
    let text = String::from_utf8(forebay(&["analyze", &at("t.csv")]).stdout).unwrap();
    assert!(text.contains("over 59.0"), "{text}");
}

/// Every verb said that there was no such trace, and one file of several was read without a note.
#[test]
fn regression_what_blktrace_wrote_for_each_processor_is_one_trace() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let csv = "time_ns,op,offset_bytes,len_bytes,latency_ns\n0,write,0,4096,7000\n9000,write,4096,4096,7000\n";
    std::fs::write(path("sda.csv"), csv).unwrap();
    std::fs::create_dir(path("all")).unwrap();
    assert!(forebay(&["convert", &path("sda.csv"), &path("all/sda.blktrace.0")]).status.success());
    // The events of the second request on another processor.
    let whole = std::fs::read(path("all/sda.blktrace.0")).unwrap();
    let second = whole.len() - 3 * 48;
    std::fs::write(path("all/sda.blktrace.0"), &whole[..second]).unwrap();
    std::fs::write(path("all/sda.blktrace.3"), &whole[second..]).unwrap();

    for (trace, to) in [(path("all/sda"), path("together.csv")), (path("all"), path("folder.csv"))] {
        let output = forebay(&["convert", &trace, &to]);
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!(std::fs::read_to_string(to).unwrap().lines().count(), 3);
    }
    let found = json(&["analyze", &path("all/sda")]);
    assert_eq!(found["requests"], 2, "{found}");
    let found = json(&["analyze", &path("all")]);
    let traces = found["traces"].as_array().unwrap();
    let shown: Vec<_> = traces.iter().map(|trace| (&trace["trace"], &trace["requests"])).collect();
    assert_eq!(shown, [(&"sda".into(), &2.into())]);
    let output = forebay(&["convert", &path("all/sda.blktrace.3"), &path("one.csv")]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("sda.blktrace.0 lies beside this file of processor 3"), "{said}");
    assert!(said.contains(&format!("{} names all of them", path("all/sda"))), "{said}");
}
