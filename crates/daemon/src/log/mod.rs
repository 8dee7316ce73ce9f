//! The log on stderr, in a form for people, for programs or for the journal. Each cause is logged once, and then at
//! intervals.

mod causes;
mod format;
mod not_accepted;

pub use causes::{Causes, Report, Severity};
pub use not_accepted::{NOT_ACCEPTED, not_accepted};

use crate::text;
use format::{Form, Lines};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use tracing_subscriber::EnvFilter;

/// Starts logging to stderr. `FOREBAY_LOG` filters what is logged (default `info`), in the syntax of `RUST_LOG`.
/// `FOREBAY_LOG_FORMAT` selects the form: `text`, `json` or `journal`; the default is `journal` where stderr is
/// connected to it, else `text`.
pub fn start() {
    let wanted = std::env::var("FOREBAY_LOG").ok().filter(|wanted| !wanted.is_empty());
    let filter = wanted.map_or_else(
        || EnvFilter::new("info"),
        |wanted| {
            EnvFilter::try_new(&wanted).unwrap_or_else(|error| {
                let known =
                    "known are error, warn, info, debug and trace, also for a part alone (forebay_daemon=debug)";
                text::complain(format!("FOREBAY_LOG={wanted}: {error}; {known}; going on with info"));
                EnvFilter::new("info")
            })
        },
    );
    let named = std::env::var("FOREBAY_LOG_FORMAT").ok().filter(|name| !name.is_empty());
    let default = || if is_stderr_the_journal() { Form::Journal } else { Form::Text };
    let form = match named.as_deref() {
        None => default(),
        Some("text") => Form::Text,
        Some("json") => Form::Json,
        Some("journal") => Form::Journal,
        Some(other) => {
            text::complain(format!("FOREBAY_LOG_FORMAT={other}: known are text, json and journal; going on with text"));
            Form::Text
        }
    };
    tracing_subscriber::fmt()
        .event_format(Lines { form, has_colours: form == Form::Text && text::colours() })
        .with_env_filter(filter)
        .with_writer(|| Lossy(std::io::stderr()))
        .init();
}

/// A writer that ignores errors. Where the log cannot be written (a pipe without a reader, a full file system), lines
/// are lost and the server runs on. The logging library would print the error instead, and panic where printing
/// fails.
struct Lossy<W>(W);

impl<W: Write> Write for Lossy<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.write(bytes) {
            Err(error) if error.kind() != ErrorKind::Interrupted => Ok(bytes.len()),
            // `write_all` takes 0 bytes written for an error, so report everything as written.
            Ok(0) => Ok(bytes.len()),
            done => done,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        let _ = self.0.flush();
        Ok(())
    }
}

/// Whether stderr is the journal. systemd.exec(5): `$JOURNAL_STREAM` holds device and inode of the stream that is
/// connected to it.
fn is_stderr_the_journal() -> bool {
    let Ok(named) = std::env::var("JOURNAL_STREAM") else { return false };
    let stderr = std::fs::metadata("/proc/self/fd/2").ok();
    stderr.is_some_and(|stderr| named == format!("{}:{}", stderr.dev(), stderr.ino()))
}
