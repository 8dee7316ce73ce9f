//! A pool in its own directory, the binary, and a server that is killed with its test.
#![allow(clippy::expect_used)]

pub mod client;
pub mod members;
pub mod store;

use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

pub const MIB: u64 = 1 << 20;

pub fn forebay(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_forebay"))
        .args(arguments)
        .env("NO_COLOR", "1")
        // Wide, so that sentences stay in one line; the test `width` covers the layout.
        .env("COLUMNS", "400")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// The words of every verb and action: `forebay man` writes a page for each.
pub fn command_lines() -> Vec<Vec<String>> {
    let folder = TempDir::new().unwrap();
    good(&forebay(&["man", folder.path().to_str().unwrap()]));
    let pages = std::fs::read_dir(folder.path()).unwrap().map(|page| page.unwrap().file_name().into_string().unwrap());
    let mut lines: Vec<Vec<String>> = pages
        .filter_map(|page| {
            // An action may have hyphens, a verb has none.
            let words = page.strip_suffix(".1")?.strip_prefix("forebay-")?.splitn(2, '-');
            Some(words.map(str::to_owned).collect())
        })
        .collect();
    lines.sort();
    assert!(lines.len() > 40, "{lines:?}");
    lines
}

pub fn code(output: &Output) -> i32 {
    output.status.code().expect("ended by a signal")
}

pub fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[track_caller]
pub fn good(output: &Output) -> String {
    assert_eq!(code(output), 0, "{}", err(output));
    out(output)
}

/// The result of a command that must succeed, as JSON.
#[track_caller]
pub fn json(arguments: &[&str]) -> Value {
    let value: Value = serde_json::from_str(&good(&forebay(&[arguments, &["--output", "json"]].concat()))).unwrap();
    assert!(value["schema_version"].is_u64(), "{arguments:?}");
    value
}

/// The command must fail with `code`, print all of these texts to stderr, and nothing to stdout.
#[track_caller]
pub fn refused(output: &Output, expected_code: i32, parts: &[&str]) {
    let text = err(output);
    assert_eq!(code(output), expected_code, "{text}{}", out(output));
    for part in parts {
        assert!(text.contains(part), "{part:?} is missing in: {text}");
    }
    assert!(!text.contains("panicked"), "{text}");
}

/// Two image files and a configuration.
pub struct Scene {
    pub directory: TempDir,
    pub config: PathBuf,
}

impl Scene {
    pub fn new() -> Self {
        Self::with("")
    }

    /// As [`Scene::new`], with more text at the end of the configuration.
    pub fn with(more: &str) -> Self {
        let directory = TempDir::new().unwrap();
        let path = |name: &str| directory.path().join(name);
        for (name, mib) in [("fast.img", 64), ("capacity.img", 256)] {
            std::fs::File::create(path(name)).unwrap().set_len(mib * MIB).unwrap();
        }
        let config = path("pool.toml");
        let text = format!(
            "[pool]\nname = \"test\"\n\n[[fast]]\ntarget = \"{0}/fast.img\"\n\n[[capacity]]\ntarget = \"{0}/capacity.img\"\n\
             band = \"4MiB\"\n\n[[disk]]\nname = \"db\"\nsize = \"64MiB\"\n\n[memory]\nlimit = \"64MiB\"\n\n[[export]]\n\
             disk = \"db\"\nnbd = \"unix:{0}/s\"\n{more}",
            directory.path().display()
        );
        std::fs::write(&config, text).unwrap();
        Self { directory, config }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn config(&self) -> &str {
        self.config.to_str().unwrap()
    }

    pub fn edit(&self, from: &str, to: &str) {
        let text = std::fs::read_to_string(&self.config).unwrap();
        assert!(text.contains(from), "{from:?} is not in the configuration");
        std::fs::write(&self.config, text.replace(from, to)).unwrap();
    }

    #[track_caller]
    pub fn created(self) -> Self {
        good(&forebay(&["create", self.config()]));
        self
    }

    pub fn serve(&self) -> Server {
        Server::start(&self.config)
    }
}

/// A running server; killed on drop.
pub struct Server {
    child: Child,
    pub uri: String,
    /// Must stay open while the server runs, because the server writes to it.
    _out: BufReader<ChildStdout>,
}

impl Server {
    #[track_caller]
    pub fn start(config: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_forebay"))
            .arg("serve")
            .arg(config)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        let uri = line.trim().strip_prefix("ready ").unwrap_or_default().to_owned();
        let server = Self { child, uri, _out: out };
        assert!(!server.uri.is_empty(), "the server did not start");
        server
    }

    /// SIGHUP.
    pub fn reload(&self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
    }

    /// SIGTERM; returns the exit code.
    pub fn stop(mut self) -> i32 {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().expect("ended by a signal");
            }
            assert!(started.elapsed() < Duration::from_secs(30), "the server does not stop");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// SIGKILL.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts the program, sends SIGTERM once it has written a line with this text to stderr, and returns its exit code, its output (stdout,
/// stderr), and the time that it took to end.
#[track_caller]
pub fn stopped_after(line: &str, arguments: &[&str]) -> (i32, String, String, Duration) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_forebay"))
        .args(arguments)
        .env("NO_COLOR", "1")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    while !said.contains(line) {
        assert!(log.read_line(&mut said).unwrap() > 0, "{line:?} was not said: {said}");
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let asked = Instant::now();
    std::io::Read::read_to_string(&mut log, &mut said).unwrap();
    let output = child.wait_with_output().unwrap();
    (code(&output), out(&output), said, asked.elapsed())
}
