//! Opens a file named by the user for reading.

use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Where the kernel shows what a process has already open: standard input, and a shell's `<(command)`.
const OPEN_ALREADY: [&str; 3] = ["/dev/stdin", "/dev/fd", "/proc"];

/// Opens a file for reading. A named pipe is refused: without a writer the process would wait forever.
///
/// # Errors
/// The system's error, or that it is a named pipe.
pub fn open_file(path: &Path) -> Result<File> {
    let is_open_already = OPEN_ALREADY.iter().any(|folder| path.starts_with(folder));
    if !is_open_already && path.metadata()?.file_type().is_fifo() {
        return Err(Error::new(
            ErrorKind::InvalidInput,
            "it is a named pipe, which may wait for ever: name a file, or /dev/stdin and let the pipe be standard input",
        ));
    }
    File::open(path)
}
