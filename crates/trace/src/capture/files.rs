//! Paths of the files that requests belong to, found outside the requests' way: mounts are walked for the inodes that were
//! seen, by a thread that takes its time.

use super::disk::kernel_number;
use super::error::CaptureError;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longest walk, and so the longest wait at the end.
const WALK_MAX: Duration = Duration::from_secs(5);
/// The thread rests this many times as long as it has walked.
const REST_FACTOR: u32 = 19;
/// Shortest rest.
const REST_MIN: Duration = Duration::from_secs(2);
/// Most files that are looked for.
const WANTED_MAX: usize = 1 << 20;
/// Walks in vain after which an inode is given up until the end.
const TRIES_MAX: u8 = 3;

/// A file by its file system (`major << 20 | minor`) and inode.
pub type FileId = (u32, u64);

/// A mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// What is mounted: a device's path, or a name.
    pub source: PathBuf,
    /// Where.
    pub point: PathBuf,
}

/// The mounts that this process sees (proc_pid_mountinfo(5)).
///
/// # Errors
/// Where the system does not tell.
pub fn mounts() -> Result<Vec<Mount>, CaptureError> {
    let path = PathBuf::from("/proc/self/mountinfo");
    let text = fs::read(&path).map_err(|source| CaptureError::Read { path, source })?;
    Ok(String::from_utf8_lossy(&text).lines().filter_map(mount).collect())
}

fn mount(line: &str) -> Option<Mount> {
    let point = line.split(' ').nth(4)?;
    let source = line.split_once(" - ")?.1.split(' ').nth(1)?;
    Some(Mount { source: unescaped(source), point: unescaped(point) })
}

/// Blanks, tabs, line ends and backslashes are written as octal numbers there.
fn unescaped(text: &str) -> PathBuf {
    let mut out = text.to_owned();
    for (code, character) in [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")] {
        out = out.replace(code, character);
    }
    out.into()
}

/// Files that these processes have open.
#[must_use]
pub fn open_files(pids: &[u32]) -> HashSet<FileId> {
    let mut found = HashSet::new();
    for pid in pids {
        // A process that has gone has nothing open.
        let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { continue };
        for entry in entries.flatten() {
            if let Ok(metadata) = fs::metadata(entry.path())
                && metadata.is_file()
            {
                found.insert((kernel_number(metadata.dev()), metadata.ino()));
            }
        }
    }
    found
}

/// These processes and all their children now.
#[must_use]
pub fn with_children(pids: &[u32]) -> Vec<u32> {
    let mut parents = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let Ok(text) = fs::read(entry.path().join("stat")) else { continue };
        // Behind the name, which may hold anything: state, parent (proc_pid_stat(5)).
        let text = String::from_utf8_lossy(&text).into_owned();
        let parent = text.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse::<u32>().ok());
        parents.extend(parent.map(|parent| (pid, parent)));
    }
    let mut found: Vec<u32> = pids.to_vec();
    let mut known: HashSet<u32> = pids.iter().copied().collect();
    let mut next = 0;
    while next < found.len() {
        let parent = found[next];
        next += 1;
        for &(child, _) in parents.iter().filter(|(_, of)| *of == parent) {
            if known.insert(child) {
                found.push(child);
            }
        }
    }
    found
}

/// Looks for paths in a thread of its own.
#[derive(Debug)]
pub struct Finder {
    wanted: Option<Sender<FileId>>,
    found: Receiver<(FileId, String)>,
    asked: HashSet<FileId>,
    thread: Option<JoinHandle<()>>,
}

impl Finder {
    /// Starts the thread.
    ///
    /// # Errors
    /// Where the system does not let us.
    pub fn start() -> Result<Self, CaptureError> {
        let (wanted, to_find) = channel();
        let (tell, found) = channel();
        let thread = std::thread::Builder::new()
            .name("paths".to_owned())
            .spawn(move || run(&to_find, &tell))
            .map_err(CaptureError::Thread)?;
        Ok(Self { wanted: Some(wanted), found, asked: HashSet::new(), thread: Some(thread) })
    }

    /// Asks for a file's path, once.
    pub fn ask(&mut self, file: FileId) {
        if self.asked.len() < WANTED_MAX
            && self.asked.insert(file)
            && let Some(wanted) = &self.wanted
        {
            // Without the thread there are no paths, and nothing else is wrong.
            let _ = wanted.send(file);
        }
    }

    /// Paths found since it was asked last.
    pub fn found(&self) -> Vec<(FileId, String)> {
        self.found.try_iter().collect()
    }

    /// Lets it walk once more and gives what it finds.
    pub fn finish(mut self) -> Vec<(FileId, String)> {
        self.wanted = None;
        if let Some(thread) = self.thread.take() {
            // A panic there costs paths only.
            let _ = thread.join();
        }
        self.found.try_iter().collect()
    }
}

fn run(to_find: &Receiver<FileId>, tell: &Sender<(FileId, String)>) {
    let mut wanted: HashMap<FileId, u8> = HashMap::new();
    let mut rest = REST_MIN;
    loop {
        // Rests while it collects what is asked for.
        let until = Instant::now() + rest;
        let is_over = loop {
            match to_find.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(file) => drop(wanted.insert(file, 0)),
                Err(RecvTimeoutError::Timeout) => break false,
                Err(RecvTimeoutError::Disconnected) => break true,
            }
        };
        let looked_for = |tries: &u8| is_over || *tries < TRIES_MAX;
        let now: HashSet<FileId> =
            wanted.iter().filter(|(_, tries)| looked_for(tries)).map(|(file, _)| *file).collect();
        let begin = Instant::now();
        if !now.is_empty() {
            let mut left = now.clone();
            for mount in mounts().unwrap_or_default() {
                walk(&mount.point, &mut left, begin + WALK_MAX, &mut |file, path| {
                    // Nobody listens any more: then nobody misses it.
                    let _ = tell.send((file, path));
                });
            }
            for file in now {
                if left.contains(&file) {
                    *wanted.entry(file).or_default() += 1;
                } else {
                    wanted.remove(&file);
                }
            }
        }
        if is_over {
            return;
        }
        rest = (begin.elapsed() * REST_FACTOR).max(REST_MIN);
    }
}

/// Walks one mount for the files in `left`, and takes out those that it finds. Stays on its file system.
fn walk(point: &Path, left: &mut HashSet<FileId>, until: Instant, found: &mut impl FnMut(FileId, String)) {
    let Ok(metadata) = fs::metadata(point) else { return };
    let device = metadata.dev();
    let number = kernel_number(device);
    if !left.iter().any(|(file_system, _)| *file_system == number) {
        return;
    }
    let mut folders = vec![point.to_owned()];
    while let Some(folder) = folders.pop() {
        if Instant::now() > until || left.is_empty() {
            return;
        }
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let file = (number, entry.ino());
            // A mount point has the inode of what it hides here.
            if left.contains(&file) && fs::symlink_metadata(entry.path()).is_ok_and(|found| found.dev() == device) {
                left.remove(&file);
                found(file, entry.path().to_string_lossy().into_owned());
            }
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_folder && fs::symlink_metadata(entry.path()).is_ok_and(|metadata| metadata.dev() == device) {
                folders.push(entry.path());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_mount_has_a_source_and_a_point() {
        let line = r"36 35 98:0 /mnt1 /mnt\040two rw,noatime master:1 - ext3 /dev/root rw,errors=continue";
        assert_eq!(mount(line), Some(Mount { source: "/dev/root".into(), point: "/mnt two".into() }));
        assert_eq!(mount("36 35 98:0"), None);
    }

    #[test]
    fn paths_are_found() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("deep")).unwrap();
        let path = folder.path().join("deep/file");
        fs::write(&path, "x").unwrap();
        let metadata = fs::metadata(&path).unwrap();
        let file = (kernel_number(metadata.dev()), metadata.ino());
        let mut left = HashSet::from([file, (file.0, u64::MAX)]);
        let mut found = Vec::new();
        walk(folder.path(), &mut left, Instant::now() + WALK_MAX, &mut |file, path| found.push((file, path)));
        assert_eq!(found, [(file, path.to_str().unwrap().to_owned())]);
        assert_eq!(left, HashSet::from([(file.0, u64::MAX)]));
    }

    #[test]
    fn a_process_has_children_and_open_files() {
        let own = std::process::id();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let family = with_children(&[own]);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(family.contains(&own) && family.contains(&child.id()), "{family:?}");
        let file = tempfile::NamedTempFile::new().unwrap();
        let metadata = file.as_file().metadata().unwrap();
        assert!(open_files(&[own]).contains(&(kernel_number(metadata.dev()), metadata.ino())));
    }
}
