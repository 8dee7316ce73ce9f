//! Files that only measurements have written to since they were empty or released: later sessions may write to them without permission. At
//! its end a session marks the file with an extended attribute that holds the time of the last change; any later change of the file
//! invalidates the mark.

use rustix::fs::{XattrFlags, getxattr, setxattr};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const ATTRIBUTE: &str = "user.forebay.scratch";
/// Longer than any mark.
const MARK_MAX_BYTES: usize = 64;

fn mark_of(path: &Path) -> Option<String> {
    let metadata = path.metadata().ok().filter(|metadata| metadata.is_file())?;
    Some(format!("{}.{:09} {}", metadata.mtime(), metadata.mtime_nsec(), metadata.len()))
}

/// Sets the mark, where the file system supports such attributes; elsewhere the next session needs permission again.
pub fn leave_mark(path: &Path) {
    if let Some(mark) = mark_of(path) {
        // The session is over, and its results do not depend on the mark.
        let _ = setxattr(path, ATTRIBUTE, mark.as_bytes(), XattrFlags::empty());
    }
}

/// Whether the file is unchanged since a session marked it.
pub fn is_marked(path: &Path) -> bool {
    let mut value = [0u8; MARK_MAX_BYTES];
    let found = getxattr(path, ATTRIBUTE, &mut value[..]);
    let found = found.ok().and_then(|len| value.get(..len));
    found.is_some() && found == mark_of(path).as_ref().map(String::as_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_holds_until_someone_writes() {
        let directory = tempfile::TempDir::new().unwrap();
        let path = directory.path().join("x");
        std::fs::write(&path, b"1").unwrap();
        assert!(!is_marked(&path));
        leave_mark(&path);
        // Without support for attributes there is nothing to check.
        if is_marked(&path) {
            std::thread::sleep(std::time::Duration::from_millis(20));
            std::fs::write(&path, b"2").unwrap();
            assert!(!is_marked(&path));
        }
        assert!(!is_marked(&directory.path().join("absent")));
    }
}
