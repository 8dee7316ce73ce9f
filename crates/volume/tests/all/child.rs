//! Tests in a process of their own, so that a stack overflow, exhausted memory or an endless loop ends only that process.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Set in the process that runs the test's body.
const CHILD: &str = "FOREBAY_TEST_CHILD";
/// Far more than any test takes.
const TIME_LIMIT: Duration = Duration::from_secs(120);

/// Runs the body of the calling test in its own process, with at most `memory_limit_kib` of memory.
pub fn in_a_process(memory_limit_kib: u64, body: impl FnOnce()) {
    if std::env::var_os(CHILD).is_some() {
        return body();
    }
    let name = std::thread::current().name().unwrap().to_owned();
    let limited = format!("ulimit -v {memory_limit_kib}; exec \"$0\" \"$@\"");
    let mut child = Command::new("sh")
        .args(["-c", &limited])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", &name, "--nocapture", "--test-threads", "1"])
        .envs([(CHILD, "1"), ("MALLOC_ARENA_MAX", "1"), ("RUST_BACKTRACE", "0")])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let started = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if started.elapsed() > TIME_LIMIT {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("it does not end");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
}

/// Resident memory of this process in bytes.
pub fn resident_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}
