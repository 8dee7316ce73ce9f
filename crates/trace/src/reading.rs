//! Opening a file that somebody named, to read it.

use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Where the kernel shows what a process has open already: standard input, and what a shell makes of `<(command)`.
const OPEN_ALREADY: [&str; 3] = ["/dev/stdin", "/dev/fd", "/proc"];

/// Opens a file to read it. A named pipe is refused: where nobody writes to it the process would wait for ever.
///
/// # Errors
/// As the system says; that it is a named pipe.
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
