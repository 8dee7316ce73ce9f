//! A daemon that is made to stand still while others are measured, and to go on afterwards: SIGSTOP and SIGCONT, so that nothing of it is lost and
//! no service manager starts it anew.
//!
//! Numbers of processes are given again: a process is known by its number, its name and the time of its start, all of which stand in
//! `/proc/N/stat` (proc_pid_stat(5)), which is what a record keeps.

use crate::lack::{Lack, Reading};
use crate::settings::text::is_numbered;
use crate::tree::Tree;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::time::Duration;

/// State of a process that goes about its work, and of one that stands still.
const RUNNING: &str = "running";
pub(super) const STOPPED: &str = "stopped";
/// A signal is taken at once, by a process that is not in the kernel for long.
const LOOKS: u32 = 100;
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The name and the fields behind it; a name may hold spaces and brackets.
fn parted(stat: &str) -> Option<(&str, Vec<&str>)> {
    let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
    Some((name, rest.split_whitespace().collect()))
}

/// The state in a text of `/proc/N/stat`.
pub(super) fn state(stat: &str) -> Option<&'static str> {
    match *parted(stat)?.1.first()? {
        "T" => Some(STOPPED),
        // What has ended, or is traced, is nobody's to stop.
        "Z" | "X" | "x" | "t" => None,
        _ => Some(RUNNING),
    }
}

/// Name and time of start.
fn identity(stat: &str) -> Option<(&str, &str)> {
    // The 22nd field, of which two stand before.
    parted(stat).and_then(|(name, fields)| Some((name, *fields.get(19)?)))
}

/// The number in a path `/proc/N/stat`.
pub(super) fn number(path: &str) -> Option<i32> {
    let number = path.strip_prefix("/proc/")?.strip_suffix("/stat")?;
    if is_numbered(number, "") { number.parse().ok().filter(|&number| number > 1) } else { None }
}

/// Files of the processes of that name.
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

/// Has a process stand still or go on. Returns what it was found to be and whether that was changed; a process that has ended, and another of
/// the same number, are left alone.
///
/// # Errors
/// No permission; one that does not do so.
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
    // The descriptor is of whoever has the number now; that it is the right one is seen after it was had.
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
        // Between fork and exec it has another name.
        while identity(&recorded).is_none_or(|(name, _)| name != "sleep") {
            recorded = tree.content(&path).unwrap().text;
        }
        let bring = |recorded: &str, wanted| bring(&tree, &path, recorded, wanted).unwrap();
        assert_eq!(bring(&recorded, STOPPED), (RUNNING.to_owned(), true));
        assert_eq!(state(&tree.content(&path).unwrap().text), Some(STOPPED));
        assert_eq!(bring(&recorded, STOPPED), (STOPPED.to_owned(), false));
        // Another process with the same number, by the time of its start or by its name, is not touched.
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
