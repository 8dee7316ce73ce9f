//! Who holds a file that we cannot have.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The process that holds a lock of flock(2) on a path, with its name, where the system tells (proc_locks(5)): a lock that
/// was taken in another namespace of processes has none.
pub fn holder(path: &Path) -> Option<String> {
    let metadata = path.metadata().ok()?;
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    let pid = pid_in(&locks, metadata.dev(), metadata.ino(), std::process::id())?;
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let name = name.trim();
    Some(if name.is_empty() { format!("process {pid}") } else { format!("process {pid} ({name})") })
}

/// The process of the first lock on a file in the text of /proc/locks that is not our own: we may hold a shared one.
fn pid_in(locks: &str, device: u64, inode: u64, own: u32) -> Option<u32> {
    let place = format!("{:02x}:{:02x}:{inode}", rustix::fs::major(device), rustix::fs::minor(device));
    locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        // `1: FLOCK  ADVISORY  WRITE 4711 08:01:393225 0 EOF`; one that waits has an arrow before its kind.
        let at = words.iter().position(|word| *word == "FLOCK")?;
        let (pid, of) = (words.get(at + 3)?, words.get(at + 4)?);
        (*of == place && words.get(1) != Some(&"->"))
            .then(|| pid.parse().ok().filter(|&pid: &u32| pid > 0 && pid != own))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_is_named() {
        let text = "1: POSIX  ADVISORY  WRITE 7 08:01:42 0 EOF\n1: FLOCK  ADVISORY  READ 9 08:01:42 0 EOF\n2: FLOCK  ADVISORY  WRITE 4711 08:01:42 0 EOF\n\
                    2: -> FLOCK  ADVISORY  WRITE 5 08:01:43 0 EOF\n3: FLOCK  ADVISORY  READ -1 08:01:44 0 EOF\n";
        let device = rustix::fs::makedev(8, 1);
        assert_eq!(pid_in(text, device, 42, 9), Some(4711));
        for inode in [43, 44, 45] {
            assert_eq!(pid_in(text, device, inode, 9), None, "{inode}");
        }
    }
}
