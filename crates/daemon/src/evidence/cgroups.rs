//! Resolves the numbers of control groups in requests to paths. A thread reads the directories, so that no request
//! waits for them.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

/// Where control groups are (version 2).
const ROOT: &str = "/sys/fs/cgroup";
/// Most control groups that are read and remembered.
const GROUPS_MAX: usize = 65_536;

/// Cache of known control groups.
#[derive(Default)]
pub struct Cgroups {
    known: HashMap<u64, Arc<str>>,
    /// Groups that were asked for and are not known yet.
    wanted: HashSet<u64>,
    is_new: bool,
    looking: Option<Receiver<HashMap<u64, Arc<str>>>>,
}

impl Cgroups {
    /// The path of a group, such as `/system.slice/db.service`; `None` where it is not known yet.
    pub fn path(&mut self, group: u64) -> Option<Arc<str>> {
        if group == 0 {
            return None;
        }
        let found = self.known.get(&group).cloned();
        if found.is_none() && self.wanted.len() < GROUPS_MAX {
            self.is_new |= self.wanted.insert(group);
        }
        found
    }

    /// Starts a search for groups that were asked for since the last one, and adopts the result of a finished search.
    pub fn tick(&mut self) {
        if let Some(looking) = &self.looking {
            match looking.try_recv() {
                Ok(found) => {
                    self.known = found;
                    self.looking = None;
                }
                Err(std::sync::mpsc::TryRecvError::Empty) => return,
                Err(std::sync::mpsc::TryRecvError::Disconnected) => self.looking = None,
            }
        }
        if std::mem::take(&mut self.is_new) {
            let (tell, looking) = channel();
            let look = move || {
                // The receiver is gone where the pool has ended meanwhile.
                let _ = tell.send(groups(Path::new(ROOT)));
            };
            self.looking = std::thread::Builder::new().name("cgroups".to_owned()).spawn(look).ok().map(|_| looking);
        }
    }
}

/// All control groups by number: a group's number is the inode number of its directory (kernfs, `kernfs_ino`).
fn groups(root: &Path) -> HashMap<u64, Arc<str>> {
    let mut found = HashMap::new();
    let mut folders: Vec<PathBuf> = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            if found.len() >= GROUPS_MAX || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            let path = entry.path();
            if let Ok(inner) = path.strip_prefix(root) {
                found.insert(entry.ino(), format!("/{}", inner.display()).into());
            }
            folders.push(path);
        }
    }
    if let Ok(metadata) = fs::metadata(root) {
        found.insert(std::os::unix::fs::MetadataExt::ino(&metadata), "/".into());
    }
    found
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn groups_have_paths() {
        let root = tempfile::tempdir().unwrap();
        let inner = root.path().join("system.slice/db.service");
        fs::create_dir_all(&inner).unwrap();
        fs::write(root.path().join("cgroup.procs"), "").unwrap();
        let found = groups(root.path());
        assert_eq!(found.len(), 3);
        assert_eq!(found[&fs::metadata(&inner).unwrap().ino()].as_ref(), "/system.slice/db.service");
        assert_eq!(found[&fs::metadata(root.path()).unwrap().ino()].as_ref(), "/");
    }
}
