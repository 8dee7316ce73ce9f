//! The server in a process of its own, so that killing it has the effect of a power cut.

use anyhow::{Context, Result, anyhow, bail};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// How long a start may take, far beyond what recovery of a pool of this size needs.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a clean stop may take.
const STOP_TIMEOUT: Duration = Duration::from_secs(60);

/// A running server; killed on drop unless it was stopped.
pub struct Server {
    child: Child,
    log: PathBuf,
    /// URI of the first export.
    pub uri: String,
}

impl Server {
    /// Starts this program as `serve CONFIG` and waits until clients can connect.
    pub fn start(config: &Path, log: &Path) -> Result<Self> {
        let program = std::env::current_exe().context("cannot find this program again")?;
        let mut command = Command::new(&program);
        command.arg("serve").arg(config).env(crate::verbs::STOP_WITH_PARENT, "1");
        Self::of_command(&mut command, log, START_TIMEOUT)
    }

    /// Starts a command whose first line is the word `ready` and a URI. One that does not come to that in time is killed.
    fn of_command(command: &mut Command, log: &Path, timeout: Duration) -> Result<Self> {
        let errors = File::options()
            .create(true)
            .append(true)
            .open(log)
            .with_context(|| format!("cannot write {}", log.display()))?;
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()
            .with_context(|| format!("cannot start {}", Path::new(command.get_program()).display()))?;
        let output = child.stdout.take().context("the server has no output")?;
        let mut server = Self { child, log: log.to_owned(), uri: String::new() };
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            let result = BufReader::new(output).read_line(&mut line).map(|_| line);
            // The receiver may have given up.
            let _ = sender.send(result);
        });
        let line = receiver.recv_timeout(timeout).map_err(|_| {
            anyhow!("the server was not ready within {} s: {}", timeout.as_secs(), server.last_words())
        })??;
        match line.trim().strip_prefix("ready ") {
            Some(uri) => server.uri = uri.to_owned(),
            None => return Err(anyhow!("the server did not start: {}", server.last_words())),
        }
        Ok(server)
    }

    /// Cuts the power: kills the process, which loses all data that its devices have not flushed.
    pub fn cut_power(&mut self) -> Result<()> {
        self.child.kill().context("cannot kill the server")?;
        self.child.wait().context("the killed server does not end")?;
        Ok(())
    }

    /// Stops cleanly.
    pub fn stop(mut self) -> Result<()> {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).context("cannot stop the server")?;
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                if status.success() {
                    return Ok(());
                }
                bail!("the server did not stop cleanly ({status}): {}", self.last_words());
            }
            if started.elapsed() > STOP_TIMEOUT {
                bail!("the server did not stop within {} s", STOP_TIMEOUT.as_secs());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The last lines of the server's log.
    pub fn last_words(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(5)..].join(" | ")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // After a stop or a cut, the process has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_that_never_says_ready_is_given_up_and_killed() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let mut command = Command::new("sh");
        command.args(["-c", "echo $$ >&2; exec sleep 600"]);
        let failure = Server::of_command(&mut command, &log, Duration::from_secs(2)).err().expect("it is not ready");
        assert!(failure.to_string().starts_with("the server was not ready within 2 s: "), "{failure}");
        let pid = std::fs::read_to_string(&log).unwrap();
        assert!(!Path::new("/proc").join(pid.trim()).exists(), "process {pid} was left running");
    }
}
