//! Processes: their children, and the files that they have open.

use super::disk::kernel_number;
use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;

/// An inode by its file system (`major << 20 | minor`) and number.
pub type Inode = (u32, u64);

/// The files that these processes have open.
#[must_use]
pub fn open_files(pids: &[u32]) -> HashSet<Inode> {
    let mut found = HashSet::new();
    for pid in pids {
        // A process that has ended has nothing open.
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

/// These processes and all their present children.
#[must_use]
pub fn with_children(pids: &[u32]) -> Vec<u32> {
    let mut parents = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let Ok(text) = fs::read(entry.path().join("stat")) else { continue };
        // The fields behind the name, which may contain anything: state, parent (proc_pid_stat(5)).
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

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
