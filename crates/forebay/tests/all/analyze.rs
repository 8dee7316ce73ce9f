//! `forebay analyze` and `forebay size` as a user calls them, on small traces and on generators.

use crate::support::{forebay, json};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns stderr of a failing call.
fn refused(arguments: &[&str]) -> String {
    let output = forebay(arguments);
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A recording of four requests in which five events were dropped.
fn recording_with_drops(directory: &Path) -> PathBuf {
    use forebay_trace::format::segments::{Captured, Header, SegmentWriter, Volume};
    use forebay_trace::{Op, Request};
    let path = directory.join("dropped.fbr");
    let volume = Volume { name: "sda".to_owned(), size_bytes: 1 << 30 };
    let header = Header { capture: [7; 16], begin_unix_ns: 5, file: 0, volumes: vec![volume] };
    let mut writer = SegmentWriter::begin(fs::File::create(&path).unwrap(), header).unwrap();
    let records: Vec<Captured> = (0..4)
        .map(|at| Captured {
            request: Request::new(at * 1_000_000, Op::Write, at * 4096, 4096),
            file_system: 0,
            generation: 0,
        })
        .collect();
    writer.records(&records, 5).unwrap();
    writer.finish(5).unwrap();
    path
}

#[test]
fn regression_a_recording_with_dropped_events_is_not_called_exact() {
    let directory = tempfile::TempDir::new().unwrap();
    let path = recording_with_drops(directory.path());
    let path = path.to_str().unwrap();
    let found = json(&["analyze", path]);
    assert_eq!((&found["exact"], &found["faults"]["missing"]), (&Value::from(false), &Value::from(5)), "{found}");
    // A conversion is as incomplete as its source, and every reader reports that.
    let parquet = directory.path().join("dropped.parquet");
    let parquet = parquet.to_str().unwrap();
    let target = "null:?size=1GiB";
    for arguments in [
        &["analyze", path][..],
        &["size", path],
        &["convert", path, parquet],
        &["analyze", parquet],
        &["replay", path, "--target", target, "--as-fast-as-possible", "--destroy-data"],
    ] {
        let output = forebay(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.contains("5 events are missing"), "{arguments:?}: {said}");
    }
    assert_eq!(json(&["analyze", parquet])["exact"], false);
}

/// `size` accepted any memory limit and did not report whether its figures are exact; `analyze` called figures exact although it had left
/// requests out.
#[test]
fn regression_size_says_whether_it_is_exact_and_refuses_what_analyze_does() {
    let directory = tempfile::TempDir::new().unwrap();
    let requests: Vec<(u64, u32, bool)> = (0..2000).map(|at| (at % 500 * 8, 4096, true)).collect();
    let path = trace(directory.path(), "t.vscsi", &requests);
    let path = path.to_str().unwrap();
    assert!(refused(&["size", path, "--memory", "1KiB"]).contains("--memory: at least 1MiB"));
    let found = json(&["size", path]);
    assert_eq!((&found["exact"], &found["sizes"][0]["sample_error"]), (&true.into(), &Value::Null), "{found}");
    let found = json(&["size", path, "--sample", "4"]);
    assert!(found["exact"] == false && found["sizes"][0]["sample_error"].is_number(), "{found}");
    let path = trace(directory.path(), "absurd.vscsi", &[(0, 4096, true), (8, 65 << 20, true)]);
    for verb in ["analyze", "size"] {
        assert_eq!(json(&[verb, path.to_str().unwrap()])["exact"], false, "{verb}");
    }
}

/// A trace with too many writes to keep is read a second time.
#[test]
fn size_says_the_same_whether_it_keeps_writes_or_reads_twice() {
    let directory = tempfile::TempDir::new().unwrap();
    let block = |at: u64| at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
    let requests: Vec<(u64, u32, bool)> = (0..20_000).map(|at| (block(at) % 700 * 8, 4096, at % 9 > 0)).collect();
    let path = trace(directory.path(), "t.vscsi", &requests);
    let path = path.to_str().unwrap();
    // A quarter of a mebibyte holds 16,384 writes; the trace has 17,777.
    let (kept, twice) = (json(&["size", path]), json(&["size", path, "--memory", "1MiB"]));
    assert!(kept["exact"] == true && kept["sizes"].as_array().is_some_and(|sizes| sizes.len() > 2), "{kept}");
    assert_eq!((&kept["sizes"], &kept["exact"]), (&twice["sizes"], &twice["exact"]));
}

#[test]
fn regression_rates_flushes_and_great_depths_are_shown() {
    let directory = tempfile::TempDir::new().unwrap();
    let path = directory.path().join("deep.csv");
    let mut text = String::from("time_us,op,offset,size,latency_ns\n");
    // A hundred requests at once every 100 ms for a second, and a flush.
    for at in 0..1000_u64 {
        text.push_str(&format!("{},write,{},4096,5000000\n", at / 100 * 100_000 + at % 100, at * 4096));
    }
    text.push_str("999999,flush,0,0,7000000\n");
    fs::write(&path, text).unwrap();
    let output = forebay(&["analyze", path.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    for part in ["1000 write (", "1000 IOPS, 4.10 MB/s", "flushes take", "65 - 128", "17 - 32"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let found = json(&["analyze", path.to_str().unwrap()]);
    let report = &found["report"];
    let write = report["operations"].as_array().unwrap().iter().find(|operation| operation["op"] == "write").unwrap();
    assert!((write["requests_per_s"].as_f64().unwrap() - 1000.0).abs() < 1.0, "{report}");
    assert_eq!(report["flush_ns"]["max"], 7_000_000);
}

/// A vscsi trace from (sector, bytes, is a write), with a request each millisecond.
fn trace(directory: &Path, name: &str, requests: &[(u64, u32, bool)]) -> PathBuf {
    let mut bytes = Vec::new();
    for (at, &(sector, len, is_write)) in requests.iter().enumerate() {
        bytes.extend((at as u32).to_le_bytes());
        bytes.extend(len.to_le_bytes());
        bytes.extend(1_u32.to_le_bytes());
        bytes.extend((if is_write { 0x2a_u16 } else { 0x28 }).to_le_bytes());
        bytes.extend(0x100_u16.to_le_bytes());
        bytes.extend(sector.to_le_bytes());
        bytes.extend((at as u64 * 1000).to_le_bytes());
    }
    let path = directory.join(name);
    fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn where_a_trace_goes_and_what_it_touches_is_shown_over_its_time() {
    let directory = tempfile::TempDir::new().unwrap();
    let folder = directory.path().join("fleet");
    fs::create_dir(&folder).unwrap();
    // 32 ms of writes to the same 1 MiB, then 32 ms of writes to the last of 64 MiB; nothing of it is read.
    let requests: Vec<(u64, u32, bool)> =
        (0..64).map(|at| (if at < 32 { 0 } else { 63 << 11 }, 1 << 20, true)).collect();
    let path = trace(&folder, "a.vscsi", &requests);
    let output = forebay(&["analyze", path.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let rows: Vec<&str> = said.lines().filter(|line| line.contains('|')).collect();
    for part in ["Working set over time", "Writes over time", "at most 1 MiB in a slice", "regions of 4 MiB"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!said.contains("Reads over time"), "{said}");
    assert_eq!(rows.len(), 5 + 16, "{said}");
    let thirds = |row: &str| {
        let (_, shades) = row.split_once('|').unwrap();
        (shades[..20].contains('@'), shades[40..].contains('@'))
    };
    assert_eq!((thirds(rows[5]), thirds(rows[20])), ((true, false), (false, true)), "{said}");
    let alone = json(&["analyze", path.to_str().unwrap()]);
    let cells = alone["report"]["over_time"]["volumes"][0]["cells"].as_array().unwrap();
    assert_eq!(cells.iter().map(|cell| cell[3].as_u64().unwrap()).sum::<u64>(), 64 << 20);
    // Each of many traces has its working set but no map.
    trace(&folder, "b.vscsi", &requests);
    let fleet = json(&["analyze", folder.to_str().unwrap()]);
    for analysed in fleet["traces"].as_array().unwrap() {
        let found = &analysed["report"]["over_time"];
        assert_eq!(found["slices"], alone["report"]["over_time"]["slices"]);
        assert!(found["volumes"].is_null());
    }
}

#[test]
fn a_small_trace_is_counted_exactly() {
    let directory = tempfile::TempDir::new().unwrap();
    // Blocks 0 and 1 written, block 0 twice; 8 KiB read from inside block 1; block 9 read once.
    let requests = [(0, 8192, true), (0, 4096, true), (12, 8192, false), (72, 512, false)];
    let path = trace(directory.path(), "small.vscsi", &requests);
    let found = json(&["analyze", path.to_str().unwrap()]);
    assert_eq!((found["requests"].as_u64(), found["exact"].as_bool()), (Some(4), Some(true)));
    let report = &found["report"];
    assert_eq!(report["written_footprint_bytes"], 8192);
    assert_eq!(report["footprint_bytes"], 5 * 4096);
    assert_eq!(report["beta"], 1.5);
    assert_eq!(report["block_accesses"], 7);
    assert_eq!(report["duration_ns"], 3_000_000);
    let whole = report["curve"].as_array().unwrap().iter().find(|point| point["percent"] == 100).unwrap();
    // Block 0 rewritten, block 1 read: two hits of seven; one of four reads, one of three writes.
    assert_eq!(whole["miss_ratio"].as_f64().unwrap(), 1.0 - 2.0 / 7.0);
    assert_eq!(whole["read_miss_ratio"], 0.75);
    assert_eq!(whole["alpha"].as_f64().unwrap(), 1.0 / 3.0);
    let text = forebay(&["analyze", path.to_str().unwrap()]);
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("workload through the PRISM") && text.contains("neither depths nor latencies"), "{text}");
}

/// The published tables: name, alpha in percent, beta, letter.
fn holds(report: &Value, published: &[(&str, f64, f64, &str)]) {
    let rows = report["rows"].as_array().unwrap();
    for (name, alpha, beta, letter) in published {
        let row = rows.iter().find(|row| row["name"] == *name).unwrap_or_else(|| panic!("no row {name}"));
        let (found_alpha, found_beta) = (row["alpha"].as_f64().unwrap() * 100.0, row["beta"].as_f64().unwrap());
        assert!((found_alpha - alpha).abs() <= 1.0, "{name}: alpha {found_alpha:.2} for {alpha}");
        assert!((found_beta / beta - 1.0).abs() <= 0.1, "{name}: beta {found_beta:.1} for {beta}");
        assert_eq!(row["letter"], *letter, "{name}");
    }
}

#[test]
fn the_published_tables_come_out_of_the_generators() {
    let found = json(&["analyze", "rocksdb:?scale=0.001", "--rules", "rocksdb"]);
    let table = [
        ("metadata", 0.0, 5.7 / 2.0, "M"),
        ("wal", 5.4, 172.2, "L"),
        ("L0", 5.4, 689.6, "T"),
        ("L1", 8.0, 1012.3, "T"),
        ("L2", 24.9, 267.5, "T"),
        ("L3", 35.6, 45.1, "T"),
        ("L4/L5", 20.5, 2.6, "X"),
    ];
    holds(&found["report"], &table);
    let fast = found["report"]["alpha_fast"].as_f64().unwrap();
    assert!((fast - 0.79).abs() < 0.01, "{fast}: 79 % can fit the fast tier");
    let found = json(&["analyze", "mongodb:?scale=0.001", "--rules", "mongodb"]);
    holds(&found["report"], &[("journal", 97.2, 9159.4, "L"), ("data", 2.8, 776.7 / 750.0, "X")]);
    // Without paths, hints distinguish the log from tables, and some tables from others.
    let found = json(&["analyze", "rocksdb:?scale=0.001", "--by", "hint", "--sample", "4"]);
    assert_eq!(found["exact"], false);
    let short = found["report"]["rows"].as_array().unwrap().iter().find(|row| row["name"] == "lifetime short").unwrap();
    assert!((short["alpha"].as_f64().unwrap() - 0.054).abs() < 0.01, "{short}");
}

/// The read hits were those of the next smaller point on the curve of `analyze`, which has only octaves and six shares of the footprint.
#[test]
fn regression_size_tells_the_read_hits_of_its_own_sizes() {
    let directory = tempfile::TempDir::new().unwrap();
    let path = directory.path().join("reads.csv");
    let mut text = String::from("time_us,op,offset,size\n");
    // A cache of n blocks hits whatever was accessed fewer than n blocks ago.
    let (mut state, mut list, mut distances, mut reads) = (7_u64, Vec::new(), Vec::new(), 0);
    for at in 0..6000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let block = ((state >> 33) % 1000) * ((state >> 43) % 1000) / 1000;
        let is_read = at % 3 != 0;
        text.push_str(&format!("{at},{},{},4096\n", if is_read { "read" } else { "write" }, block * 4096));
        let distance = list.iter().rev().position(|other| *other == block);
        list.retain(|other| *other != block);
        list.push(block);
        reads += usize::from(is_read);
        distances.extend(distance.filter(|_| is_read));
    }
    fs::write(&path, text).unwrap();
    let found = json(&["size", path.to_str().unwrap(), "--fast-size", "300KiB", "--fast-size", "1300KiB"]);
    let sizes = found["sizes"].as_array().unwrap();
    assert!(sizes.len() > 10, "{found}");
    for size in sizes {
        let blocks = size["size_bytes"].as_u64().unwrap() / 4096;
        let hits = distances.iter().filter(|&&distance| (distance as u64) < blocks).count();
        let wanted = hits as f64 / reads as f64;
        assert!((size["read_hit_ratio"].as_f64().unwrap() - wanted).abs() < 1e-9, "{wanted}: {size}");
    }
}

#[test]
fn a_size_is_found_and_its_classes_can_be_used() {
    let directory = tempfile::TempDir::new().unwrap();
    let config = directory.path().join("classes.toml");
    let arguments = ["size", "rocksdb:?scale=0.001", "--rules", "rocksdb", "--fast-size", "20MiB"];
    let found = json(&[&arguments[..], &["--config", config.to_str().unwrap()]].concat());
    let sizes = found["sizes"].as_array().unwrap();
    let alphas: Vec<f64> = sizes.iter().map(|size| size["alpha"].as_f64().unwrap()).collect();
    assert!(alphas.is_sorted_by(|a, b| *a <= *b + 1e-9), "more space never traps less: {alphas:?}");
    let asked = sizes.iter().find(|size| size["size_bytes"] == 20 << 20).unwrap();
    // L2 and the levels above take 19.8 MB: 43.8 % of the writes as published, plus the staged data.
    assert!(asked["alpha"].as_f64().unwrap() >= 0.43, "{asked}");
    assert!(found["knee"]["edpwd"].as_f64().unwrap() > 0.0);
    let text = fs::read_to_string(&config).unwrap();
    assert!(text.contains("name = \"wal\"\nplace = \"fast\""), "{text}");
    assert!(text.contains("match = [\"extension:log\"]") && text.contains("path:**/L2/*"), "{text}");
    // The written rules reproduce the same classes.
    let back = json(&["analyze", "rocksdb:?scale=0.001", "--rules", config.to_str().unwrap()]);
    let names: Vec<&str> =
        back["report"]["rows"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"wal") && names.contains(&"L2") && names.contains(&"metadata"), "{names:?}");
    let again = refused(&[&arguments[..], &["--config", config.to_str().unwrap()]].concat());
    assert!(again.contains("exists already"), "{again}");
}

#[test]
fn a_directory_is_a_fleet() {
    let directory = tempfile::TempDir::new().unwrap();
    trace(directory.path(), "a.vscsi", &[(0, 4096, true)]);
    trace(directory.path(), "b.vscsi", &[(0, 4096, true), (0, 4096, true)]);
    let found = json(&["analyze", directory.path().to_str().unwrap()]);
    let betas: Vec<f64> =
        found["traces"].as_array().unwrap().iter().map(|trace| trace["report"]["beta"].as_f64().unwrap()).collect();
    assert_eq!(betas, [1.0, 2.0]);
    // An invalid trace is reported, and the others are analysed.
    fs::write(directory.path().join("c.txt"), "this is no trace\n").unwrap();
    let output = forebay(&["analyze", directory.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stdout).contains("b.vscsi"));
    assert!(String::from_utf8_lossy(&output.stderr).contains("c.txt"));
}

#[test]
fn what_is_wrong_is_said_with_what_to_do() {
    let directory = tempfile::TempDir::new().unwrap();
    let path = trace(directory.path(), "t.vscsi", &[(0, 4096, true)]);
    let path = path.to_str().unwrap();
    for (arguments, word) in [
        (vec!["analyze", "/nowhere/at/all"], "/nowhere/at/all"),
        (vec!["analyze", "rocksbd:?scale=1"], "rocksdb"),
        (vec!["analyze", "rocksdb:?scael=1"], "scale"),
        (vec!["analyze", path, "--by", "colour"], "directory"),
        (vec!["analyze", path, "--format", "xml"], "vscsi"),
        (vec!["analyze", path, "--sample", "3"], "power of two"),
        (vec!["analyze", path, "--memory", "1KiB"], "1MiB"),
        (vec!["analyze", path, "--rules", "oracle"], "postgresql"),
        (vec!["analyze", path, "--volume", "sdx"], "names no volumes: leave --volume out"),
        (vec!["size", path, "--volume", "sdx"], "names no volumes: leave --volume out"),
        (vec!["size", path, "--capacity", "p999"], "p999"),
    ] {
        let said = refused(&arguments);
        assert!(said.contains(word), "{arguments:?}: {said}");
    }
    let reads = trace(directory.path(), "r.vscsi", &[(0, 4096, false)]);
    assert!(refused(&["size", reads.to_str().unwrap()]).contains("nothing is written"));
}

/// A truncated packed trace could not be analysed at all.
#[test]
fn regression_a_cut_trace_is_analysed_as_far_as_it_goes() {
    use std::io::Write;
    let directory = tempfile::TempDir::new().unwrap();
    let mut random = 1_u64;
    let requests: Vec<(u64, u32, bool)> = (0..20_000)
        .map(|_| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 40, 4096, true)
        })
        .collect();
    let plain = fs::read(trace(directory.path(), "t.vscsi", &requests)).unwrap();
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(&plain).unwrap();
    let packed = packer.finish().unwrap();
    let path = directory.path().join("t.gz");
    fs::write(&path, &packed[..packed.len() / 2]).unwrap();
    let output = forebay(&["analyze", path.to_str().unwrap(), "--output", "json"]);
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(found["requests"].as_u64().unwrap() > 5_000 && found["cut"].is_string(), "{}", found["cut"]);
    assert!(refused(&["size", path.to_str().unwrap()]).contains("byte"));
}

/// A directory with one good trace was reported as a single trace, with the left-out ones on stderr only.
#[test]
fn regression_a_directory_is_a_fleet_whatever_it_holds() {
    let directory = tempfile::TempDir::new().unwrap();
    trace(directory.path(), "a.vscsi", &[(0, 4096, true)]);
    fs::write(directory.path().join("b.txt"), "no trace\n").unwrap();
    let output = forebay(&["analyze", directory.path().to_str().unwrap(), "--output", "json"]);
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["traces"].as_array().unwrap().len(), 1);
    assert_eq!(found["left_out"][0]["trace"], "b.txt");
}

/// A trace from a pipe lost the bytes from which its format was detected.
#[test]
fn regression_a_trace_from_a_pipe_is_whole() {
    let directory = tempfile::TempDir::new().unwrap();
    let path = trace(directory.path(), "t.vscsi", &[(0, 4096, true); 5]);
    let shell = format!("cat {} | {} analyze /dev/stdin --output json", path.display(), env!("CARGO_BIN_EXE_forebay"));
    let output = Command::new("sh").args(["-c", &shell]).output().unwrap();
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["requests"], 5);
}

/// A trace given as its own replay target was overwritten.
#[test]
fn regression_a_trace_is_not_replayed_onto_itself() {
    let directory = tempfile::TempDir::new().unwrap();
    let path = trace(directory.path(), "t.vscsi", &[(0, 512, true); 5]);
    let before = fs::read(&path).unwrap();
    let said = refused(&["replay", path.to_str().unwrap(), "--target", path.to_str().unwrap(), "--wrap"]);
    assert!(said.contains("the trace itself"), "{said}");
    assert_eq!(fs::read(&path).unwrap(), before);
}

/// Formats other than Parquet were written under their final name, so an aborted file looked complete.
#[test]
fn a_converted_trace_says_the_same_and_is_never_half_there() {
    let directory = tempfile::TempDir::new().unwrap();
    let path = trace(directory.path(), "t.vscsi", &[(8, 4096, true), (0, 8192, false), (8, 4096, true)]);
    for (format, name) in [("parquet", "t.parquet"), ("fio-log", "t.log"), ("blktrace", "t.blktrace.0")] {
        let to = directory.path().join(name);
        let arguments = ["convert", path.to_str().unwrap(), to.to_str().unwrap(), "--to-format", format];
        assert_eq!(json(&arguments)["requests"], 3);
        let found = json(&["analyze", to.to_str().unwrap()]);
        assert_eq!(found["report"]["beta"], 2.0, "{format}");
        assert!(refused(&arguments).contains("exists"), "{format}");
        fs::remove_file(&to).unwrap();
        let cut = directory.path().join("cut.gz");
        fs::write(&cut, [0x1f, 0x8b, 8, 0, 0, 0]).unwrap();
        refused(&["convert", cut.to_str().unwrap(), to.to_str().unwrap(), "--to-format", format]);
        assert!(!to.exists(), "{format}");
    }
}

#[test]
fn damage_in_a_trace_is_located_and_the_rest_is_analysed() {
    let directory = tempfile::TempDir::new().unwrap();
    let path = trace(directory.path(), "t.vscsi", &[(0, 4096, true); 10]);
    let mut bytes = fs::read(&path).unwrap();
    bytes[32 + 12] = 0xee;
    bytes.truncate(32 * 10 - 5);
    fs::write(&path, bytes).unwrap();
    let found = json(&["analyze", path.to_str().unwrap()]);
    assert_eq!(found["requests"], 8);
    assert_eq!(found["faults"]["count"], 2);
    assert_eq!(found["faults"]["first"][0]["byte"], 32);
}

/// The readable rest of a trace, down to one request of five thousand, was reported as the whole trace with exit code 0.
#[test]
fn regression_a_trace_of_which_most_could_not_be_read_is_a_finding() {
    let directory = tempfile::TempDir::new().unwrap();
    let path = directory.path().join("t.csv");
    let to = directory.path().join("t.parquet");
    let (name, to) = (path.to_str().unwrap(), to.to_str().unwrap());
    // A wrong first time makes all later times wrong.
    let write = |bad: u64, good: u64| {
        let line = |second: u64| format!("1,W,{},4096,{}\n", second * 4096, second * 1_000_000);
        let bad = (0..bad).map(|_| "1,W,0,4096,?\n".to_owned());
        fs::write(&path, bad.chain((0..good).map(line)).collect::<String>()).unwrap();
    };
    let replay = ["replay", name, "--target", "null:?size=1GiB", "--as-fast-as-possible", "--destroy-data"];
    for (bad, good, code) in [(10, 10, 0), (11, 10, 1)] {
        write(bad, good);
        for arguments in [&["analyze", name][..], &["size", name], &["convert", name, to], &replay] {
            let output = forebay(arguments);
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
            let is_reported = said.contains(
                "more than half of it could not be read: 11 bad entries and 10 good ones; the first at line 1",
            );
            assert_eq!(is_reported, code == 1, "{arguments:?}: {said}");
            assert!(!output.stdout.is_empty(), "{arguments:?}: what could be read is shown");
        }
        fs::remove_file(to).unwrap();
    }
}

#[test]
fn regression_a_written_config_can_be_given_as_rules() {
    let directory = tempfile::TempDir::new().unwrap();
    let config = directory.path().join("classes.toml");
    let config = config.to_str().unwrap();
    let sized = json(&["size", "rocksdb:?scale=0.001", "--rules", "rocksdb", "--config", config]);
    let text = fs::read_to_string(config).unwrap();
    assert!(
        text.contains("name = \"wal\"\nplace = \"fast\"") && text.contains("match = [\"extension:log\"]"),
        "{text}"
    );
    let found = json(&["analyze", "rocksdb:?scale=0.001", "--rules", config]);
    let alpha = |name: &str| {
        let rows = found["report"]["rows"].as_array().unwrap();
        rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("no row {name}"))["alpha"]
            .as_f64()
            .unwrap()
    };
    assert!((alpha("wal") - 0.054).abs() < 0.01 && (alpha("L3") - 0.356).abs() < 0.02, "{found}");
    assert!(sized["order"].as_array().unwrap().len() >= 6);
}

#[test]
fn regression_a_large_fast_tier_is_worn_later_and_no_knee_writes_no_config() {
    let directory = tempfile::TempDir::new().unwrap();
    let path = trace(directory.path(), "t.vscsi", &[(0, 4096, true); 40]);
    let path = path.to_str().unwrap();
    let found = json(&["size", path, "--fast-size", "1GiB", "--fast-size", "1TiB"]);
    let edpwd = |bytes: u64| {
        let sizes = found["sizes"].as_array().unwrap();
        sizes.iter().find(|size| size["size_bytes"] == bytes).unwrap()["edpwd"].as_f64().unwrap()
    };
    // 1 TiB needs three drives of 375 GB.
    assert!((edpwd(1 << 40) / edpwd(1 << 30) - 3.0).abs() < 1e-9, "{found}");
    let config = directory.path().join("none.toml");
    let said = refused(&["size", path, "--config", config.to_str().unwrap()]);
    assert!(said.contains("no knee") && !config.exists(), "{said}");
}

#[test]
fn regression_convert_tells_faults_before_its_limit_and_leaves_no_empty_file() {
    let directory = tempfile::TempDir::new().unwrap();
    let path = trace(directory.path(), "t.vscsi", &[(0, 4096, true); 10]);
    let mut bytes = fs::read(&path).unwrap();
    bytes[32 + 12] = 0xee;
    fs::write(&path, bytes).unwrap();
    let to = directory.path().join("to.parquet");
    let (path, to_name) = (path.to_str().unwrap(), to.to_str().unwrap());
    assert!(refused(&["convert", path, to_name, "--volume", "sdx"]).contains("names no volumes: leave --volume out"));
    assert!(!to.exists());
    let found = json(&["convert", path, to_name, "--limit", "5"]);
    assert_eq!((found["requests"].as_u64(), found["faults"]["count"].as_u64()), (Some(5), Some(1)), "{found}");
}

#[test]
fn levels_are_those_of_rocksdbs_log() {
    let directory = tempfile::TempDir::new().unwrap();
    let log = directory.path().join("LOG");
    let at = "2026/11/22-09:43:34.414746 1 [f.cc:1]";
    let mut text = String::new();
    // Every second table of the generator, by number.
    for (job, level) in [(1, 3), (2, 5)] {
        text += &format!("{at} [default] [JOB {job}] Compacting 2@0 files to L{level}, score 1.37\n");
        for number in (job..400_000).step_by(4) {
            text += &format!("{at} [default] [JOB {job}] Generated table #{number}: 1 keys, 7 bytes\n");
        }
    }
    fs::write(&log, text).unwrap();
    let log = log.to_str().unwrap();
    // A file has only the paths.
    let trace = directory.path().join("trace.parquet");
    let trace = trace.to_str().unwrap();
    json(&["convert", "rocksdb:?scale=0.001", trace]);
    let written = |found: &Value, name: &str| {
        let rows = found["report"]["rows"].as_array().unwrap();
        rows.iter().find(|row| row["name"] == name).map_or(0, |row| row["written_bytes"].as_u64().unwrap())
    };
    let by_level = json(&["analyze", trace, "--by", "level", "--rocksdb-log", log]);
    let (three, five) = (written(&by_level, "level 3"), written(&by_level, "level 5"));
    assert!(three > 0 && five > 0, "{by_level}");
    assert!(written(&by_level, "level not known") > 0 && written(&by_level, "no table") > 0, "{by_level}");
    let rules = directory.path().join("rules.toml");
    let class =
        |name: &str, rule: &str, more: &str| format!("[[class]]\nname = {name:?}\nmatch = [{rule:?}]\n{more}\n");
    let text = class("upper", "rocksdb.level:0..4", "") + &class("lower", "rocksdb.level>=4", "place = \"capacity\"");
    fs::write(&rules, text).unwrap();
    let rules = rules.to_str().unwrap();
    let by_rule = json(&["analyze", trace, "--rules", rules, "--rocksdb-log", log]);
    assert_eq!((written(&by_rule, "upper"), written(&by_rule, "lower")), (three, five));
    assert_eq!(by_rule["report"]["unknown"].as_array().unwrap().len(), 0);
    // Without the LOG the levels are unknown, and the output says so.
    let without = json(&["analyze", trace, "--rules", rules]);
    assert_eq!((written(&without, "upper"), written(&without, "lower")), (0, 0));
    assert_eq!(without["report"]["unknown"], serde_json::json!(["rocksdb.level:0..4", "rocksdb.level:ge:4"]));
    let text = String::from_utf8(forebay(&["size", trace, "--rules", rules]).stdout).unwrap();
    assert!(text.contains("which is unknown then: rocksdb.level\n"), "{text}");
    let said = String::from_utf8(forebay(&["analyze", trace, "--by", "level"]).stderr).unwrap();
    assert!(said.contains("nothing tells levels") && said.contains("--rocksdb-log"), "{said}");
    assert!(refused(&["convert", trace, "none.parquet", "--rocksdb-log", log]).contains("analyze and size"));
    // Bypassed data does not wear the fast tier, and is reported as bypassed.
    let config = directory.path().join("classes.toml");
    let sized = json(&["size", trace, "--rules", rules, "--rocksdb-log", log, "--config", config.to_str().unwrap()]);
    assert_eq!(sized["bypassed"][0]["name"], "lower");
    assert!(sized["order"].as_array().unwrap().iter().all(|row| row["name"] != "lower"));
    let all: u64 =
        by_rule["report"]["rows"].as_array().unwrap().iter().map(|row| row["written_bytes"].as_u64().unwrap()).sum();
    let taken = sized["sizes"].as_array().unwrap().last().unwrap()["fast_share"].as_f64().unwrap();
    assert!((taken - (1.0 - five as f64 / all as f64)).abs() < 0.01, "{taken}");
    let text = fs::read_to_string(&config).unwrap();
    assert!(text.contains("name = \"lower\"\nplace = \"capacity\""), "{text}");
}

/// "Until overwritten" included discards, "until read again" included first reads, and a sample's figures looked exact.
#[test]
fn regression_times_between_accesses_say_what_they_are() {
    let directory = tempfile::TempDir::new().unwrap();
    let path = directory.path().join("some.csv");
    let mut text = String::from("time_us,op,offset,size\n");
    for (at, op) in ["write", "write", "read", "discard"].into_iter().enumerate() {
        for block in 0..2000 {
            text.push_str(&format!("{},{op},{},4096\n", at * 10_000 + block, block * 4096));
        }
    }
    fs::write(&path, text).unwrap();
    let said = |more: &[&str]| {
        let output = forebay(&[&["analyze", path.to_str().unwrap()], more].concat());
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let exact = said(&[]);
    assert!(exact.contains("from a write of a block to the next, or to its discard: p50 "), "{exact}");
    assert!(exact.contains("from an access of a block to its next read: p50 ") && !exact.contains('~'), "{exact}");
    let sampled = said(&["--sample", "4"]);
    assert!(sampled.contains("~ marks estimates of which the interval is"), "{sampled}");
    assert!(sampled.contains("or to its discard: ~p50 ") && sampled.contains(" ~7.81 MiB"), "{sampled}");
}

/// The output was an empty table with exit code 0.
#[test]
fn regression_a_trace_without_requests_cannot_be_analysed() {
    let directory = tempfile::TempDir::new().unwrap();
    let path = directory.path().join("header.csv");
    fs::write(&path, "time_us,op,offset,size\n").unwrap();
    let (name, more) = (path.to_str().unwrap(), ["--format", "csv"]);
    for output in [&[][..], &["--output", "json"]] {
        let verb = [&["analyze", name][..], &more, output].concat();
        let said = refused(&verb);
        assert!(said.contains("header.csv: there is no request in it") && said.contains("--format"), "{said}");
        assert_eq!(forebay(&verb).stdout, b"");
    }
}
