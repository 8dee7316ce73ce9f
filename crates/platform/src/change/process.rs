//! Stops a daemon while measurements run, and continues it afterwards: SIGSTOP and SIGCONT, so that the daemon keeps
//! its state and no service manager restarts it.
//!
//! Process numbers are reused: a process is identified by its number, its name and its start time, which are all in
//! `/proc/N/stat` (proc_pid_stat(5)); a record keeps these.

use crate::lack::{Lack, Reading};
use crate::settings::text::is_numbered;
use crate::tree::Tree;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::time::Duration;

/// The state of a process that runs; `STOPPED` is that of a stopped one.
const RUNNING: &str = "running";
pub(super) const STOPPED: &str = "stopped";
/// Attempts to see the effect of a signal: a process acts on it at once, unless it is in the kernel for long.
const LOOKS: u32 = 100;
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The name and the fields after it; a name may contain spaces and brackets.
fn parted(stat: &str) -> Option<(&str, Vec<&str>)> {
    let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
    Some((name, rest.split_whitespace().collect()))
}

/// The state in the text of `/proc/N/stat`.
pub(super) fn state(stat: &str) -> Option<&'static str> {
    match *parted(stat)?.1.first()? {
        "T" => Some(STOPPED),
        // A process that has ended or is being traced must not be stopped.
        "Z" | "X" | "x" | "t" => None,
        _ => Some(RUNNING),
    }
}

/// Name and start time.
fn identity(stat: &str) -> Option<(&str, &str)> {
    // The start time is the 22nd field; two fields come before the ones counted here.
    parted(stat).and_then(|(name, fields)| Some((name, *fields.get(19)?)))
}

/// The process number in a path `/proc/N/stat`.
pub(super) fn number(path: &str) -> Option<i32> {
    let number = path.strip_prefix("/proc/")?.strip_suffix("/stat")?;
    if is_numbered(number, "") { number.parse().ok().filter(|&number| number > 1) } else { None }
}

/// The stat files of the processes with this name.
pub(super) fn of_name(tree: &Tree, name: &str) -> Reading<Vec<String>> {
    if !tree.is_machine() {
        return Err(Lack::unreadable(name, "processes are those of the machine that this runs on, not of the tree"));
    }
    let all = tree.list("/proc", |name| is_numbered(name, ""))?.names;
    let is_it =
        |number: &String| tree.content(&format!("/proc/{number}/comm")).is_ok_and(|comm| comm.text.trim() == name);
    let found: Vec<String> =
        all.iter().filter(|number| is_it(number)).map(|number| format!("/proc/{number}/stat")).collect();
    if found.is_empty() {
        return Err(Lack::unreadable(name, "it does not run here: that is so already"));
    }
    Ok(found)
}

/// Stops or continues a process. Returns the state that it had and whether that was changed; a process that has
/// ended, or another process with the same number, is not touched.
///
/// # Errors
/// No permission, or the process does not reach the wanted state.
pub(super) fn bring(tree: &Tree, path: &str, recorded: &str, wanted: &str) -> Reading<(String, bool)> {
    let gone = || Ok(("gone".to_owned(), false));
    let refused = |error: rustix::io::Errno| Lack::unreadable(path, std::io::Error::from(error).to_string());
    let bad = || Lack::unreadable(path, "no process that can be stopped here");
    if !tree.is_machine() {
        return Err(Lack::unreadable(path, "a process is stopped on its own machine alone"));
    }
    let (Some(pid), Some(known)) = (number(path).and_then(Pid::from_raw), identity(recorded)) else {
        return Err(bad());
    };
    let now = || match tree.content(path) {
        Ok(content) if identity(&content.text) == Some(known) => Ok(state(&content.text)),
        Ok(_) | Err(Lack::Absent { .. }) => Ok(None),
        Err(lack) => Err(lack),
    };
    // The descriptor belongs to the process that has the number now; whether that is the right process is checked
    // after opening it.
    let process = match pidfd_open(pid, PidfdFlags::empty()) {
        Err(rustix::io::Errno::SRCH) => return gone(),
        other => other.map_err(refused)?,
    };
    let Some(found) = now()? else { return gone() };
    if found == wanted {
        return Ok((found.to_owned(), false));
    }
    let signal = if wanted == STOPPED { Signal::STOP } else { Signal::CONT };
    match pidfd_send_signal(&process, signal) {
        Err(rustix::io::Errno::SRCH) => return gone(),
        other => other.map_err(refused)?,
    }
    for _ in 0..LOOKS {
        if now()?.is_none_or(|state| state == wanted) {
            return Ok((found.to_owned(), true));
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Err(Lack::unreadable(path, format!("it was to be {wanted}, and is not after a second")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_process_stands_still_and_goes_on() {
        let tree = Tree::open("/".as_ref()).unwrap();
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let path = format!("/proc/{}/stat", child.id());
        let mut recorded = tree.content(&path).unwrap().text;
        // Between fork and exec the process has another name.
        while identity(&recorded).is_none_or(|(name, _)| name != "sleep") {
            recorded = tree.content(&path).unwrap().text;
        }
        let bring = |recorded: &str, wanted| bring(&tree, &path, recorded, wanted).unwrap();
        assert_eq!(bring(&recorded, STOPPED), (RUNNING.to_owned(), true));
        assert_eq!(state(&tree.content(&path).unwrap().text), Some(STOPPED));
        assert_eq!(bring(&recorded, STOPPED), (STOPPED.to_owned(), false));
        // Another process with the same number, identified by its start time or its name, is not touched.
        let start = identity(&recorded).unwrap().1.to_owned();
        let later = recorded.replace(&format!(" {start} "), " 1 ");
        assert_eq!(bring(&later, RUNNING), ("gone".to_owned(), false));
        assert_eq!(bring(&recorded.replace("(sleep)", "(other)"), RUNNING), ("gone".to_owned(), false));
        assert_eq!(state(&tree.content(&path).unwrap().text), Some(STOPPED));
        assert_eq!(bring(&recorded, RUNNING), (STOPPED.to_owned(), true));
        assert_eq!(state(&tree.content(&path).unwrap().text), Some(RUNNING));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(bring(&recorded, RUNNING), ("gone".to_owned(), false));
    }

    #[test]
    fn paths_and_texts_that_mean_harm_are_no_process() {
        for path in [
            "/proc/1/stat",
            "/proc/self/stat",
            "/proc/12/status",
            "/proc/12/task/12/stat",
            "/proc//stat",
            "/proc/-5/stat",
            "/proc/99999999999/stat",
        ] {
            assert_eq!(number(path), None, "{path}");
        }
        assert_eq!(number("/proc/77/stat"), Some(77));
        for text in ["", "77", "77 (x", "77 (x)", "77 (x) Z 1", ") ("] {
            assert_eq!((state(text), identity(text)), (None, None), "{text}");
        }
        assert_eq!(state("7 (a) b) T 1 2"), Some(STOPPED));
    }
}
