//! What other tools read of exported traces: blkparse (Debian's package blktrace) and fio, which must be installed.

use forebay_trace::format::BlktraceWriter;
use forebay_trace::{Names, Op, Request};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

const REQUESTS: u64 = 40;

fn run(tool: &str, package: &str, folder: &Path, arguments: &[&str]) -> Output {
    let output = Command::new(tool).args(arguments).current_dir(folder).output();
    let output = output.unwrap_or_else(|error| panic!("{tool}: {error}; it is in Debian's package {package}"));
    let said = || String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{tool}: {}", said());
    output
}

/// Writes and reads of 4 KiB by a process in a control group, one every 100 us.
fn export(folder: &Path) {
    let mut names = Names::default();
    let volume = names.volumes.number("8,16");
    let process = names.processes.number("writer");
    let requests: Vec<Request> = (0..REQUESTS)
        .map(|at| Request {
            volume,
            process,
            pid: 77,
            cgroup: 4711,
            queued_ns: 10_000,
            latency_ns: 50_000,
            ..Request::new(at * 100_000 + 20_000, if at % 4 == 0 { Op::Read } else { Op::Write }, at * 4096, 4096)
        })
        .collect();
    let mut writer = BlktraceWriter::new(Vec::new());
    writer.write(&requests, &names).unwrap();
    fs::write(folder.join("t.blktrace.0"), writer.finish().unwrap().0).unwrap();
}

#[test]
fn regression_blkparse_and_fio_read_what_processes_of_control_groups_did() {
    let folder = tempfile::tempdir().unwrap();
    export(folder.path());

    let parsed = run("blkparse", "blktrace", folder.path(), &["-q", "-i", "t", "-f", "%a %d %S %n %C\\n"]);
    let text = String::from_utf8_lossy(&parsed.stdout).into_owned();
    let issues = |direction: &str| text.lines().filter(|line| line.starts_with(&format!("D {direction}"))).count();
    assert_eq!((issues("R"), issues("W")), (10, 30), "{text}{}", String::from_utf8_lossy(&parsed.stderr));
    assert!(text.lines().any(|line| line == "D W 312 8 writer"), "{text}");

    fs::write(folder.path().join("disk"), vec![0; 1 << 20]).unwrap();
    let arguments = [
        "--name=replay",
        "--read_iolog=t.blktrace.0",
        "--replay_redirect=disk",
        "--replay_no_stall=1",
        "--ioengine=psync",
        "--output-format=json",
    ];
    let replayed = run("fio", "fio", folder.path(), &arguments);
    let json = String::from_utf8_lossy(&replayed.stdout).into_owned();
    // fio prints other text before it.
    let found: serde_json::Value = serde_json::from_str(&json[json.find('{').unwrap()..]).unwrap();
    let ios = |direction: &str| found["jobs"][0][direction]["total_ios"].as_u64();
    assert_eq!((ios("read"), ios("write")), (Some(10), Some(30)), "{json}");
}
