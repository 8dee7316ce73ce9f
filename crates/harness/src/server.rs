//! The server under test, as a separate process.

use anyhow::{Context, Result, anyhow, bail};
use forebay_device::nbd_client::NbdUri;
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Longest time for a start, far beyond the time that recovery needs.
const START_TIMEOUT: Duration = Duration::from_secs(60);
const STOP_TIMEOUT: Duration = Duration::from_secs(60);

/// The program and a pool's configuration.
#[derive(Clone, Debug)]
pub struct Pool {
    /// The program `forebay`.
    pub program: PathBuf,
    /// Configuration file.
    pub config: PathBuf,
    /// File for the server's log.
    pub log: PathBuf,
}

impl Pool {
    fn command(&self, verb: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(verb).arg(&self.config).stdin(Stdio::null());
        command
    }

    /// Runs a command to its end; returns its output.
    pub fn run(&self, verb: &str, arguments: &[&str]) -> Result<String> {
        let output = self.command(verb).args(arguments).output().context("cannot run forebay")?;
        if !output.status.success() {
            let words = String::from_utf8_lossy(&output.stderr);
            bail!("forebay {verb} ended with {}: {}", output.status, words.trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// The status of the running server.
    pub fn status(&self) -> Result<Value> {
        let text = self.run("status", &["--output", "json"])?;
        serde_json::from_str(&text).context("the status is no JSON")
    }

    /// The last lines of the log.
    pub fn last_words(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(6)..].join(" | ")
    }

    /// Starts a server without waiting for it.
    pub fn spawn(&self) -> Result<Server> {
        let log = File::options().create(true).append(true).open(&self.log)?;
        let mut command = self.command("serve");
        // Ensures that no server is left running when this program dies.
        command.env("FOREBAY_STOP_WITH_PARENT", "1");
        let started = Instant::now();
        let child = command.stdout(Stdio::piped()).stderr(log).spawn().context("cannot start the server")?;
        Ok(Server { child, started })
    }

    /// Starts a server and waits until clients can connect.
    pub fn start(&self) -> Result<(Server, Ready)> {
        let mut server = self.spawn()?;
        let output = server.child.stdout.take().context("the server has no output")?;
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            let result = BufReader::new(output).read_line(&mut line).map(|_| line);
            // The receiver may have timed out.
            let _ = sender.send(result);
        });
        let line = receiver
            .recv_timeout(START_TIMEOUT)
            .map_err(|_| anyhow!("the server was not ready within {} s", START_TIMEOUT.as_secs()))??;
        let after = server.started.elapsed();
        let Some(uri) = line.trim().strip_prefix("ready ") else {
            bail!("the server did not start: {}", self.last_words());
        };
        Ok((server, Ready { uri: uri.parse()?, after }))
    }
}

/// The state of a server that accepts clients.
pub struct Ready {
    /// URI of its first export.
    pub uri: NbdUri,
    /// Time from the start of the process to the word `ready`.
    pub after: Duration,
}

/// A server process; dropping this kills it.
pub struct Server {
    child: Child,
    started: Instant,
}

impl Server {
    /// Kills it by `kill -9`; an error if it has already ended by itself.
    pub fn kill(mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("the server was gone before it was killed: {status}");
        }
        self.child.kill().context("cannot kill the server")?;
        self.child.wait().context("the killed server does not end")?;
        Ok(())
    }

    /// Stops it by SIGTERM, which must lead to exit code 0; returns the time that it took.
    pub fn stop(mut self) -> Result<Duration> {
        let asked = Instant::now();
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).context("cannot stop the server")?;
        loop {
            if let Some(status) = self.child.try_wait()? {
                if status.success() {
                    return Ok(asked.elapsed());
                }
                bail!("the server did not stop cleanly: {status}");
            }
            if asked.elapsed() > STOP_TIMEOUT {
                bail!("the server did not stop within {} s", STOP_TIMEOUT.as_secs());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Resident memory of the process in bytes: now, and its peak (`VmRSS`, `VmHWM` of proc(5)).
    pub fn resident_bytes(&self) -> Result<(u64, u64)> {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            let kib: Option<u64> = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse().ok());
            kib.map(|kib| kib * 1024).with_context(|| format!("/proc has no {name}"))
        };
        Ok((field("VmRSS:")?, field("VmHWM:")?))
    }

    /// Bytes that the process has read from storage so far (`read_bytes` of /proc/PID/io, proc(5)).
    pub fn read_by_device(&self) -> Result<u64> {
        let text = std::fs::read_to_string(format!("/proc/{}/io", self.child.id()))?;
        let line = text.lines().find_map(|line| line.strip_prefix("read_bytes: "));
        line.and_then(|bytes| bytes.parse().ok()).context("/proc has no read_bytes")
    }

    /// Processor time of the process so far, all threads (`utime` and `stime` of /proc/PID/stat, proc(5)), in seconds.
    pub fn cpu_seconds(&self) -> Result<f64> {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // The name in parentheses may contain anything; utime and stime are the 12th and 13th word after it.
        let words = text.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
        let ticks: u64 = words.map(|word| word.parse().unwrap_or(0)).sum();
        Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // After a stop or a kill, both fail.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Creates a sparse file.
pub fn sparse_file(path: &Path, size_bytes: u64) -> Result<()> {
    let file = File::create(path).with_context(|| format!("cannot make {}", path.display()))?;
    file.set_len(size_bytes).with_context(|| format!("the file system does not take {size_bytes} bytes in one file"))
}
