//! The command that is recorded: how it is started, how signals reach it, and what becomes of it.

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, getpgrp, kill_process};
use rustix::termios::tcgetpgrp;
use std::ffi::OsString;
use std::fs::File;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

/// How long a command that is asked to end is waited for.
const END_WITHIN: Duration = Duration::from_secs(5);
/// Between two looks whether it has ended.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A command that runs.
pub(super) struct Running {
    child: Child,
    /// Its program and its process id, for messages.
    name: String,
    is_asked: bool,
}

/// Starts a command; none where there is no word of one.
///
/// # Errors
/// Where it cannot be started.
pub(super) fn start(command: &[OsString]) -> Result<Option<Running>> {
    let Some((program, arguments)) = command.split_first() else { return Ok(None) };
    let child = Command::new(program).args(arguments).spawn();
    let child = child.with_context(|| format!("{}: cannot be started", program.display()))?;
    let name = format!("{} (process {})", program.display(), child.id());
    Ok(Some(Running { child, name, is_asked: false }))
}

impl Running {
    /// How it has ended, if it has.
    ///
    /// # Errors
    /// Where the system does not tell.
    pub(super) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().context("cannot wait for the command")
    }

    /// Asks it to end, once, as we were by `signal`: what is sent to us alone does not reach it. Ctrl-C at a terminal does.
    pub(super) fn pass_on(&mut self, signal: i32) {
        let is_typed = signal == signal_hook::consts::SIGINT && is_foreground();
        if !is_typed && !std::mem::replace(&mut self.is_asked, true) {
            // It may have ended just now.
            let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        }
    }

    /// Ends it, as nobody records what it does any more; what came of that, in a sentence.
    pub(super) fn end(mut self) -> String {
        let Self { child, name, .. } = &mut self;
        match child.try_wait() {
            Ok(Some(_)) => return format!("{name} had ended"),
            // It may be another process by now.
            Err(error) => return format!("{name} cannot be waited for ({error}), and is left alone"),
            Ok(None) => {}
        }
        // Where it has ended just now, waiting tells.
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

/// Whether we are what the terminal's keys send signals to: then they reach a command of ours as well.
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

    /// It went on without its recorder, and nobody said so.
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
