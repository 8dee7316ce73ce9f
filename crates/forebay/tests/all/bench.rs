//! `forebay bench` and `forebay check` from the outside: measurements, refusals, and ends of runs.

mod abreast;
mod check;
mod errors;
mod faults;
mod generators;
mod hosts;
mod jobs;
mod loads;
mod records;
mod schema;
mod series;
mod steady;

use crate::support::*;
use serde_json::Value;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A target without cost.
const NULL: &str = "null:?size=1GiB";
/// A target in memory.
const RAM: &str = "ram:?size=64MiB";
/// A target in virtual time, for tests that must not depend on the machine's other load: whether a schedule is kept, how wide an interval
/// is.
const MODEL: &str = "model:p4800x?size=256MiB";
/// Time limit of a run in these tests.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A directory with a target file that is full of content.
struct Place {
    directory: TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self { directory: TempDir::new().unwrap() };
        let mut file = std::fs::File::create(place.path("target.img")).unwrap();
        let mut word = 0x9e37_79b9_7f4a_7c15_u64;
        let content: Vec<u8> = (0..(16 * MIB) / 8)
            .flat_map(|_| {
                word ^= word << 13;
                word ^= word >> 7;
                word ^= word << 17;
                word.to_le_bytes()
            })
            .collect();
        file.write_all(&content).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    fn target(&self) -> String {
        self.text("target.img")
    }

    /// Writes a small text file; returns its path.
    fn write(&self, name: &str, content: &str) -> String {
        std::fs::write(self.path(name), content).unwrap();
        self.text(name)
    }
}

/// `forebay bench --target TARGET --output json` with additional arguments.
fn bench(target: &str, more: &[&str]) -> Output {
    let mut arguments = vec!["bench", "--output", "json", "--target", target];
    arguments.extend(more);
    forebay(&arguments)
}

/// Its result, which must succeed, with `--destroy-data`.
#[track_caller]
fn measured(target: &str, more: &[&str]) -> Value {
    json(&good(&bench(target, &[&["--destroy-data"], more].concat())))
}

/// Runs `bench` for a short time, and for longer ones where the machine was too busy to measure anything.
fn bench_for_a_while(target: &str, more: &[&str]) -> Output {
    let run = |runtime| bench(target, &[more, &["--runtime", runtime, "--warmup", "0s"]].concat());
    let is_measured = |output: &Output| !err(output).contains("no I/O was measured");
    ["50ms", "500ms", "5s"].into_iter().map(run).find(is_measured).unwrap_or_else(|| run("20s"))
}

#[track_caller]
fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn jobs_of(result: &Value) -> &Vec<Value> {
    result["jobs"].as_array().unwrap()
}

/// Latency of a job's first kind of I/O.
fn latency(job: &Value) -> &Value {
    &job["kinds"][0]["latency_ns"]["total"]
}

/// A percentile of a latency.
fn percentile(latency: &Value, percent: f64) -> &Value {
    let all = latency["percentiles"].as_array().unwrap();
    all.iter().find(|entry| entry["percentile"] == percent).unwrap()
}

/// A run in the background. Its output is read continuously, because a result exceeds a pipe's buffer.
struct Running(Child, JoinHandle<Vec<u8>>);

impl Running {
    fn start(arguments: &[&str]) -> Self {
        let child = Command::new(env!("CARGO_BIN_EXE_forebay"))
            .args(arguments)
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = child.unwrap();
        let mut from = child.stdout.take().unwrap();
        let reader = std::thread::spawn(move || {
            let mut read = Vec::new();
            from.read_to_end(&mut read).unwrap();
            read
        });
        Self(child, reader)
    }

    fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.0), signal).unwrap();
    }

    /// Waits for its end; fails where it does not come.
    #[track_caller]
    fn end(self) -> Output {
        self.end_within(TIMEOUT)
    }

    /// Waits for its end up to a limit; fails where it does not come.
    #[track_caller]
    fn end_within(mut self, limit: Duration) -> Output {
        let started = Instant::now();
        while self.0.try_wait().unwrap().is_none() {
            if started.elapsed() > limit {
                self.0.kill().unwrap();
                panic!("the run does not end");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let output = self.0.wait_with_output().unwrap();
        Output { stdout: self.1.join().unwrap(), ..output }
    }
}

/// Waits until a condition holds; fails where it never does.
#[track_caller]
fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < TIMEOUT, "{what} never came");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The job files that come with the program.
fn shipped_jobs() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("bench/jobs");
    let mut found: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.sort();
    found
}
