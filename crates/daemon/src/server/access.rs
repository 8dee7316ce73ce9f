//! Permissions of the server's Unix sockets: `server.socket_mode` and `server.socket_group`.

use crate::config::Server;
use anyhow::{Context, Result, bail};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Mode and group of sockets. A value that is not configured stays as the system set it.
#[derive(Default)]
pub struct SocketAccess {
    mode: Option<u32>,
    group: Option<u32>,
}

impl SocketAccess {
    /// The configured permissions.
    ///
    /// # Errors
    /// The group does not exist.
    pub fn of(server: &Server) -> Result<Self> {
        let group = server.socket_group.as_deref().map(group_id).transpose()?;
        Ok(Self { mode: server.socket_mode.map(|mode| mode.0), group })
    }

    /// Sets group and mode of an export's socket. Where either is configured, the socket was made for this user
    /// alone.
    ///
    /// # Errors
    /// The system refuses the change.
    pub fn apply_to_export(&self, path: &Path) -> Result<()> {
        self.apply(path)?;
        match (self.mode, self.group) {
            (None, Some(_)) => set_mode(path, 0o666 & !umask()),
            _ => Ok(()),
        }
    }

    /// Sets the group of a socket, then its mode.
    ///
    /// # Errors
    /// The system refuses the change.
    pub fn apply(&self, path: &Path) -> Result<()> {
        if self.group.is_some() {
            std::os::unix::fs::chown(path, None, self.group).with_context(|| {
                format!(
                    "cannot give {} to the group of server.socket_group: be a member of it, or root",
                    path.display()
                )
            })?;
        }
        self.mode.map_or(Ok(()), |mode| set_mode(path, mode))
    }
}

fn set_mode(path: &Path, mode: u32) -> Result<()> {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
        .with_context(|| format!("cannot give {} the mode of server.socket_mode", path.display()))
}

/// The umask of this process, from proc(5): the system call that reads it would also change it.
fn umask() -> u32 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let umask = text.lines().find_map(|line| line.strip_prefix("Umask:"));
    umask.and_then(|text| u32::from_str_radix(text.trim(), 8).ok()).unwrap_or(0o022)
}

/// The id of a group, given by name or by number (group(5)).
fn group_id(name: &str) -> Result<u32> {
    if let Ok(id) = name.parse() {
        return Ok(id);
    }
    let text = std::fs::read_to_string("/etc/group").context("cannot look up server.socket_group in /etc/group")?;
    match id_in(&text, name) {
        Some(id) => Ok(id),
        None => bail!("server.socket_group is {name:?}, which /etc/group does not have; a number is understood, too"),
    }
}

fn id_in(text: &str, name: &str) -> Option<u32> {
    text.lines().find_map(|line| {
        let mut parts = line.split(':');
        (parts.next() == Some(name)).then(|| parts.nth(1)?.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_looked_up_by_name() {
        let text = "root:x:0:\nkvm:x:104:qemu\nbroken\n";
        assert_eq!((id_in(text, "kvm"), id_in(text, "broken"), id_in(text, "none")), (Some(104), None, None));
        assert_eq!(group_id("42").unwrap(), 42);
    }

    #[test]
    fn the_umask_is_known() {
        let before = umask();
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().with_extension("made");
        std::fs::File::create(&path).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        std::fs::remove_file(&path).unwrap();
        assert_eq!(mode, 0o666 & !before);
    }
}
