//! `forebay replay` from the outside: I/Os at the target, their times, refusals, and ends of runs.

use crate::support::*;
use forebay_bench::telemetry::{Reader, Record};
use forebay_block::OpKind;
use serde_json::Value;
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// SCSI commands (SBC-3, SPC-4).
const READ: u16 = 0x28;
const WRITE: u16 = 0x2a;
const UNMAP: u16 = 0x42;
const FLUSH: u16 = 0x35;

/// A record of vscsiStats, version 1.
fn record(at_us: u64, command: u16, sector: u64, len_bytes: u32) -> [u8; 32] {
    let mut record = [0; 32];
    record[4..8].copy_from_slice(&len_bytes.to_le_bytes());
    record[12..14].copy_from_slice(&command.to_le_bytes());
    record[14..16].copy_from_slice(&0x0100u16.to_le_bytes());
    record[16..24].copy_from_slice(&sector.to_le_bytes());
    record[24..].copy_from_slice(&at_us.to_le_bytes());
    record
}

struct Place {
    directory: TempDir,
}

impl Place {
    fn new() -> Self {
        Self { directory: TempDir::new().unwrap() }
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).to_str().unwrap().to_owned()
    }

    fn trace(&self, records: &[[u8; 32]]) -> String {
        std::fs::write(self.path("trace"), records.concat()).unwrap();
        self.path("trace")
    }
}

/// 600 requests at intervals of 300 us, 4 KiB to 12 KiB each, without overlap, within 32 MiB.
fn requests() -> Vec<[u8; 32]> {
    let kinds = [READ, WRITE, WRITE, READ, FLUSH, UNMAP];
    (0..600u64)
        .map(|number| {
            let kind = kinds[number as usize % kinds.len()];
            let (sector, len) = if kind == FLUSH { (0, 0) } else { (number * 64, 4096 * (1 + number as u32 % 3)) };
            record(1_000_000 + number * 300, kind, sector, len)
        })
        .collect()
}

/// The I/Os that must reach the target, in order.
fn wanted() -> Vec<(OpKind, u64, u32)> {
    let kinds = [OpKind::Read, OpKind::Write, OpKind::Write, OpKind::Read, OpKind::Flush, OpKind::Trim];
    (0..600u64)
        .map(|number| match kinds[number as usize % kinds.len()] {
            OpKind::Flush => (OpKind::Flush, 0, 0),
            kind => (kind, number * 64 * 512, 4096 * (1 + number as u32 % 3)),
        })
        .collect()
}

fn replay(trace: &str, target: &str, more: &[&str]) -> Output {
    forebay(&[&["replay", trace, "--target", target, "--output", "json"], more].concat())
}

#[track_caller]
fn replayed(trace: &str, target: &str, more: &[&str]) -> Value {
    serde_json::from_str(&good(&replay(trace, target, more))).unwrap()
}

/// Records of all I/Os in submission order.
#[track_caller]
fn recorded(path: &str) -> Vec<Record> {
    let bytes = std::fs::read(path).unwrap();
    let mut reader = Reader::new(&*bytes).unwrap();
    let mut records = Vec::new();
    while let Some(segment) = reader.next_segment().unwrap() {
        assert_eq!(segment.dropped_before, 0);
        records.extend_from_slice(&segment.records);
    }
    records.sort_by_key(|record| (record.submitted_ns, record.offset_bytes));
    records
}

fn essence(records: &[Record]) -> Vec<(OpKind, u64, u32)> {
    records.iter().map(|record| (record.kind, record.offset_bytes, record.len_bytes)).collect()
}

#[test]
fn every_request_reaches_the_target_once_at_its_time() {
    let place = Place::new();
    let (trace, records, parquet) = (place.trace(&requests()), place.path("r.fbt"), place.path("r.parquet"));
    let more = ["--records", &records, "--parquet", &parquet];
    let result = replayed(&trace, "null:?size=32MiB", &more);
    let found = recorded(&records);
    let mut in_order = found.clone();
    in_order.sort_by_key(|record| record.intended_ns);
    assert_eq!(essence(&in_order), wanted());
    let first_ns = in_order[0].intended_ns;
    for (number, record) in (0..).zip(&in_order) {
        assert_eq!(record.intended_ns - first_ns, number * 300_000, "{number}");
        assert!(record.submitted_ns >= record.intended_ns && !record.failed);
    }
    assert!(std::fs::read(parquet).unwrap().starts_with(b"PAR1"));
    let (job, replay) = (&result["jobs"][0], &result["replay"]);
    assert_eq!((&job["ios"], &job["partial"], &replay["requests"]), (&600.into(), &Value::Null, &600.into()));
    assert_eq!((&job["open_loop"]["scheduled"], &job["open_loop"]["issued"]), (&600.into(), &600.into()));
    let kinds: Vec<(&str, u64)> = job["kinds"]
        .as_array()
        .unwrap()
        .iter()
        .map(|kind| (kind["kind"].as_str().unwrap(), kind["ios"].as_u64().unwrap()))
        .collect();
    assert_eq!(kinds, [("read", 200), ("write", 200), ("trim", 100), ("flush", 100)]);
    assert_eq!(replay["span"]["length_ns"], 599 * 300_000);
    assert_eq!(replay["footprint"]["end_byte"], 599 * 64 * 512 + 4096 * 3);
    let drift = &replay["drift_ns"];
    assert_eq!((&drift["late"]["samples"], &drift["inter_arrival"]["samples"]), (&600.into(), &599.into()));
    // The telemetry agrees for every I/O.
    let latest = found.iter().map(|record| record.submitted_ns - record.intended_ns).max().unwrap();
    assert!(drift["late"]["max"].as_u64().unwrap() <= latest, "{drift} {latest}");
    assert_eq!(replay["faults"]["count"], 0);
}

#[test]
fn as_fast_as_possible_makes_all_in_order_and_by_several_threads_each_once() {
    let place = Place::new();
    let trace = place.trace(&requests());
    for threads in ["1", "3"] {
        let records = place.path(&format!("{threads}.fbt"));
        let more = ["--as-fast-as-possible", "--depth", "4", "--threads", threads, "--records", &records];
        let result = replayed(&trace, "ram:?size=32MiB", &more);
        let (mut found, mut all) = (essence(&recorded(&records)), wanted());
        if threads == "1" {
            assert_eq!(found, all);
        }
        found.sort();
        all.sort();
        assert_eq!(found, all);
        let job = &result["jobs"][0];
        assert_eq!((&job["ios"], &job["open_loop"], &job["job"]["depth"]), (&600.into(), &Value::Null, &4.into()));
        assert!(result["replay"]["drift_ns"].is_null());
    }
}

#[test]
fn a_modelled_drive_and_a_pool_live_in_the_traces_time() {
    let place = Place::new();
    let trace = place.trace(&requests());
    let pool = place.path("pool.toml");
    let text = "[pool]\nname = \"p\"\n[[fast]]\ntarget = \"ram:?size=64MiB\"\n[[capacity]]\ntarget = \"ram:?size=256MiB\"\n\
                [[disk]]\nname = \"d\"\nsize = \"64MiB\"\n[memory]\nlimit = \"64MiB\"\n";
    std::fs::write(&pool, text).unwrap();
    let once = |target: &str| replayed(&trace, target, &["--scale", "2"]);
    let (first, again) = (once("model:p4610"), once("model:p4610"));
    // Virtual time: equal to the nanosecond.
    assert_eq!((&first["jobs"], &first["replay"]), (&again["jobs"], &again["replay"]));
    for result in [first, once(&format!("pool:{pool}"))] {
        let job = &result["jobs"][0];
        assert_eq!((&job["ios"], &job["failures"]["count"]), (&600.into(), &0.into()), "{job}");
        // 180 ms at twice the speed.
        let duration_s = job["duration_s"].as_f64().unwrap();
        assert!((0.0898..1.0).contains(&duration_s), "{duration_s}");
    }
}

#[test]
fn windows_limits_and_what_does_not_fit() {
    let place = Place::new();
    let trace = place.trace(&requests());
    let null = "null:?size=32MiB";
    // Requests 100 to 199, of which the first 50.
    let window = ["--from", "30ms", "--to", "0.06", "--limit", "50"];
    let records = place.path("w.fbt");
    let result = replayed(&trace, null, &[&window[..], &["--records", &records]].concat());
    let mut found = recorded(&records);
    found.sort_by_key(|record| record.intended_ns);
    assert_eq!(essence(&found), wanted()[100..150]);
    assert_eq!(result["replay"]["skipped"]["before_window"], 100);
    // Requests from number 384 on, a sixth of them flushes, are beyond 12 MiB.
    let small = "null:?size=12MiB";
    let parts = ["180 of the 600 requests do not fit", "(12 MiB)", "--wrap"];
    refused(&replay(&trace, small, &[]), 2, &parts);
    let records = place.path("wrapped.fbt");
    let fast = ["--wrap", "--as-fast-as-possible", "--records", &records];
    let result = replayed(&trace, small, &fast);
    let bytes: u64 = recorded(&records).iter().map(|record| u64::from(record.len_bytes)).sum();
    assert_eq!(bytes, wanted().iter().map(|&(.., len)| u64::from(len)).sum::<u64>());
    assert!(recorded(&records).iter().all(|record| record.offset_bytes + u64::from(record.len_bytes) <= 12 << 20));
    assert_eq!(result["replay"]["wrapped"], 180);
    // Longer than a buffer, and not aligned to blocks.
    let trace = place.trace(&[record(0, READ, 0, 3 << 20), record(10, WRITE, 8, 700)]);
    let result = replayed(&trace, null, &["--as-fast-as-possible"]);
    let replay = &result["replay"];
    assert_eq!((&replay["split"], &replay["rounded"], &replay["ios"]), (&1.into(), &1.into(), &4.into()));
    assert_eq!(result["jobs"][0]["bytes"], (3 << 20) + 1024);
}

#[test]
fn damage_in_a_trace_is_located_and_the_rest_replayed() {
    let place = Place::new();
    let mut records = requests();
    records[7][15] = 9;
    records[8][12..14].copy_from_slice(&0xffu16.to_le_bytes());
    let mut bytes = records.concat();
    bytes.truncate(bytes.len() - 5);
    let trace = place.path("torn");
    std::fs::write(&trace, bytes).unwrap();
    let result = replayed(&trace, "null:?size=32MiB", &["--format", "vscsi"]);
    let faults = &result["replay"]["faults"];
    assert_eq!((&faults["count"], &result["jobs"][0]["ios"]), (&3.into(), &597.into()));
    let places: Vec<u64> =
        faults["first"].as_array().unwrap().iter().map(|fault| fault["place"].as_u64().unwrap()).collect();
    assert_eq!(places, [7 * 32, 8 * 32, 599 * 32]);
    let table = good(&forebay(&["replay", &trace, "--target", "null:?size=32MiB", "--format", "vscsi"]));
    for part in ["597 requests", "at byte 224: the version", "drift: issued late by p50", "as recorded"] {
        assert!(table.contains(part), "{part:?} is missing in: {table}");
    }
}

#[test]
fn what_cannot_be_done_is_said_before_anything_runs() {
    let place = Place::new();
    let trace = place.trace(&requests());
    let null = "null:?size=32MiB";
    refused(&replay("/nonexistent/t", null, &[]), 2, &["/nonexistent/t"]);
    refused(&replay(place.directory.path().to_str().unwrap(), null, &[]), 2, &["is no file", "read twice"]);
    refused(&replay(&trace, null, &["--scale", "0"]), 2, &["--scale 0"]);
    // They never ended: 2^64 ns, whatever the trace's length.
    for scale in ["1e-300", "1e-12", "1e7"] {
        refused(&replay(&trace, null, &["--scale", scale]), 2, &["--scale", "from a millionth to a million"]);
    }
    let slow = place.path("slow.csv");
    std::fs::write(&slow, "time_s,op,offset,size\n0,R,0,4096\n3600,R,0,4096\n").unwrap();
    refused(&replay(&slow, null, &["--scale", "1e-6"]), 2, &["would take 41667 days", "at most a year of 366"]);
    // A window begins at its given time, even where its first request comes late.
    std::fs::write(&slow, "time_s,op,offset,size\n0,R,0,4096\n3600,R,0,4096\n3600.001,R,0,4096\n").unwrap();
    refused(&replay(&slow, null, &["--from", "1s", "--scale", "1e-6"]), 2, &["at most a year of 366"]);
    refused(&replay(&trace, null, &["--scale", "2", "--as-fast-as-possible"]), 2, &["cannot be used with"]);
    refused(&replay(&trace, null, &["--from", "2s", "--to", "1s"]), 2, &["nothing lies between"]);
    refused(&replay(&trace, null, &["--from", "100s"]), 2, &["no request to replay", "in the window"]);
    refused(&replay(&trace, null, &["--limit", "0"]), 2, &["--limit 0"]);
    refused(&replay(&trace, null, &["--depth", "0"]), 2, &["depth"]);
    refused(&replay(&trace, null, &["--set", "rw=read"]), 2, &["--set rw", "compressible"]);
    refused(&replay(&trace, null, &["--volume", "sda"]), 2, &["the trace names no volumes: leave --volume out"]);
    let text = place.path("text");
    std::fs::write(&text, "this is no trace, whatever its name says\n").unwrap();
    refused(&replay(&text, null, &[]), 2, &["no known trace format", "--format"]);
    let vscsi = ["--format", "vscsi"];
    refused(&replay(&text, null, &vscsi), 2, &["not a vscsi trace", "at byte 0"]);
    refused(&replay(&text, null, &["--format", "tape"]), 2, &["--format tape", "vscsi", "blktrace"]);
    std::fs::write(&text, "").unwrap();
    refused(&replay(&text, null, &vscsi), 2, &["it holds none"]);
}

#[test]
fn what_is_recognised_is_not_written_over_unless_it_may_be() {
    let place = Place::new();
    let trace = place.trace(&requests());
    let target = place.path("swap.img");
    // The mark of a swap area (mkswap(8)): the last ten bytes of its first page.
    let mut content = vec![0u8; 32 << 20];
    content[4086..4096].copy_from_slice(b"SWAPSPACE2");
    std::fs::write(&target, &content).unwrap();
    refused(&replay(&trace, &target, &[]), 2, &["swap", "--destroy-data"]);
    assert!(std::fs::read(&target).unwrap() == content);
    let more = ["--destroy-data", "--as-fast-as-possible", "--set", "compressible=50"];
    let result = replayed(&trace, &target, &more);
    assert_eq!((&result["jobs"][0]["ios"], &result["jobs"][0]["failures"]["count"]), (&600.into(), &0.into()));
    let written = std::fs::read(&target).unwrap();
    // Request 1 is a write of 8 KiB at sector 64; half of it was written as zeros later.
    let block = &written[64 * 512..64 * 512 + 4096];
    assert!(block[..2000].iter().any(|&byte| byte != 0) && block[2048..].iter().all(|&byte| byte == 0));
}

#[test]
fn an_interrupt_ends_it_with_what_is_known() {
    let place = Place::new();
    let trace = place.trace(&[record(0, READ, 0, 4096), record(10, READ, 8, 4096), record(600_000_000, READ, 0, 4096)]);
    let child = Command::new(env!("CARGO_BIN_EXE_forebay"))
        .args(["replay", &trace, "--target", "null:?size=1MiB", "--output", "json"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_secs(2));
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let result: Value = serde_json::from_str(&good(&output)).unwrap();
    let job = &result["jobs"][0];
    assert_eq!((&job["partial"], &job["ios"]), (&"interrupted".into(), &2.into()));
    // The replay ended with its last request: a pause of the trace then gave rates of thousands and threads busy for several times the
    // duration.
    assert!(job["duration_s"].as_f64().unwrap() > 1.0, "{}", job["duration_s"]);
    assert_eq!(result["replay"]["requests"], 3);
}

/// Without a reader of the result, the records were not converted.
#[test]
fn regression_records_are_converted_also_where_nobody_reads_the_result() {
    let place = Place::new();
    let (trace, records, parquet) = (place.trace(&requests()), place.path("r.fbt"), place.path("r.parquet"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    command.args(["replay", &trace, "--target", "null:?size=64MiB", "--as-fast-as-possible"]);
    command.args(["--records", &records, "--parquet", &parquet]);
    let mut running = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    drop(running.stdout.take());
    running.wait().unwrap();
    assert!(std::fs::exists(&parquet).unwrap());
}
