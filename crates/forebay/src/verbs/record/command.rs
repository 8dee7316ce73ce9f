//! The recorded command: its start, its signals, and its end.

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, getpgrp, kill_process};
use rustix::termios::tcgetpgrp;
use std::ffi::OsString;
use std::fs::File;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

/// Time limit for a command that is asked to end.
const END_WITHIN: Duration = Duration::from_secs(5);
/// Interval of checking whether it has ended.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A running command.
pub(super) struct Running {
    child: Child,
    /// Program and process id, for messages.
    name: String,
    is_asked: bool,
}

/// Starts a command; none where `command` is empty.
///
/// # Errors
/// The command cannot be started.
pub(super) fn start(command: &[OsString]) -> Result<Option<Running>> {
    let Some((program, arguments)) = command.split_first() else { return Ok(None) };
    let child = Command::new(program).args(arguments).spawn();
    let child = child.with_context(|| format!("{}: cannot be started", program.display()))?;
    let name = format!("{} (process {})", program.display(), child.id());
    Ok(Some(Running { child, name, is_asked: false }))
}

impl Running {
    /// The exit status, where the command has ended.
    ///
    /// # Errors
    /// The system does not give its status.
    pub(super) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().context("cannot wait for the command")
    }

    /// Passes `signal` on once, as a request to end: a signal sent to this process alone does not reach the command, while Ctrl-C at a
    /// terminal does.
    pub(super) fn pass_on(&mut self, signal: i32) {
        let is_typed = signal == signal_hook::consts::SIGINT && is_foreground();
        if !is_typed && !std::mem::replace(&mut self.is_asked, true) {
            // The command may have just ended.
            let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        }
    }

    /// Ends the command, because its recording has ended; returns the outcome as a sentence.
    pub(super) fn end(mut self) -> String {
        let Self { child, name, .. } = &mut self;
        match child.try_wait() {
            Ok(Some(_)) => return format!("{name} had ended"),
            // Its process id may belong to another process by now.
            Err(error) => return format!("{name} cannot be waited for ({error}), and is left alone"),
            Ok(None) => {}
        }
        // Where the command has just ended, waiting shows it.
        let _ = kill_process(Pid::from_child(child), Signal::TERM);
        let asked = Instant::now();
        while asked.elapsed() < END_WITHIN {
            if let Ok(Some(status)) = child.try_wait() {
                return format!("{name} was asked to end (SIGTERM), and did: {status}");
            }
            std::thread::sleep(LOOK_EVERY);
        }
        format!("{name} was asked to end (SIGTERM), and goes on")
    }

    /// Its program and its process id.
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

/// Whether this process is in the terminal's foreground group: then the terminal's signals reach the command as well.
fn is_foreground() -> bool {
    File::open("/dev/tty").is_ok_and(|terminal| tcgetpgrp(terminal).is_ok_and(|group| group == getpgrp()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use std::os::unix::process::ExitStatusExt;

    fn running(words: &[&str]) -> Running {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        start(&words).unwrap().unwrap()
    }

    /// The command continued without its recorder, unnoticed.
    #[test]
    fn a_command_is_ended_with_its_recording() {
        let command = running(&["sleep", "600"]);
        let pid = command.child.id();
        let said = command.end();
        assert!(said.contains(&format!("sleep (process {pid})")) && said.contains("signal: 15"), "{said}");
        let mut gone = running(&["true"]);
        gone.child.wait().unwrap();
        assert!(gone.end().contains("had ended"));
    }

    /// A signal to the recorder alone was ignored until the command ended by itself.
    #[test]
    fn a_signal_reaches_the_command() {
        let mut command = running(&["sleep", "600"]);
        command.pass_on(signal_hook::consts::SIGTERM);
        assert_eq!(command.child.wait().unwrap().signal(), Some(15));
    }
}
