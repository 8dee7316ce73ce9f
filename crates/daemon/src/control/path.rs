//! The path of the control socket. The server and its clients derive it from CONFIG alone, and so arrive at the same
//! path.

use crate::config::{Config, SOCKET_PATH_MAX};
use anyhow::{Result, ensure};
use forebay_block::checksum::crc32c;
use forebay_export::Listen;
use std::path::{Path, PathBuf};

/// `server.control`; else beside the socket of the first Unix export, with `.control` appended; else in
/// `$XDG_RUNTIME_DIR/forebay`, `/run/forebay`, or without root `/tmp/forebay-UID`, named after the pool and the configuration's path.
pub fn control_path(config: &Config, file: &Path) -> Result<PathBuf> {
    if let Some(path) = &config.server.control {
        return Ok(PathBuf::from(path));
    }
    let beside = config.export.iter().find_map(|export| match export.listen() {
        Some(Listen::Unix(path)) => {
            let mut path = path.into_os_string();
            path.push(".control");
            (path.len() <= SOCKET_PATH_MAX).then(|| PathBuf::from(path))
        }
        _ => None,
    });
    if let Some(path) = beside {
        return Ok(path);
    }
    let full = std::fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let hash = crc32c(full.as_os_str().as_encoded_bytes());
    let directory = runtime_folder();
    let name: String = config.pool.name.chars().filter(char::is_ascii_alphanumeric).take(16).collect();
    let path = directory.join(format!("{name}-{hash:08x}.control"));
    ensure!(
        path.as_os_str().len() <= SOCKET_PATH_MAX,
        "{} is too long for a socket: set server.control in the configuration",
        path.display()
    );
    Ok(path)
}

/// Folder for this user's sockets, the same for each of the user's processes.
fn runtime_folder() -> PathBuf {
    let named = std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty()).map(PathBuf::from);
    let user = rustix::process::geteuid();
    match named {
        Some(folder) => folder.join("forebay"),
        None if user.is_root() => PathBuf::from("/run/forebay"),
        // systemd makes this folder at login; without a login it does not exist.
        None => {
            let of_login = PathBuf::from(format!("/run/user/{}", user.as_raw()));
            if of_login.is_dir() {
                of_login.join("forebay")
            } else {
                std::env::temp_dir().join(format!("forebay-{}", user.as_raw()))
            }
        }
    }
}

/// Whether a folder is the one that the server creates for its own sockets.
pub fn is_own_folder(folder: &Path) -> bool {
    folder == runtime_folder()
}
