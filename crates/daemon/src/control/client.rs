//! The client of the control socket.

use super::{Question, TOO_MANY_CHANGES, control_path};
use crate::config::Config;
use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// Timeout of one answer. It is long because removing a disk discards all of it first.
const TIMEOUT: Duration = Duration::from_secs(120);
/// For how long, and at which interval, a request is repeated to a server that is too busy.
const BUSY_FOR: Duration = Duration::from_secs(10);
const BUSY_EVERY: Duration = Duration::from_millis(50);
/// Longest answer that is read, in bytes.
const ANSWER_MAX_BYTES: u64 = 64 << 20;

/// Sends a request to the server of this configuration and returns its answer.
///
/// # Errors
/// No server answers, or the server refuses.
pub fn ask(config: &Config, file: &Path, question: &Question) -> Result<Value> {
    let path = control_path(config, file)?;
    let until = Instant::now() + BUSY_FOR;
    while Instant::now() < until {
        if let Some(answer) = ask_once(&path, file, question)? {
            return Ok(answer);
        }
        std::thread::sleep(BUSY_EVERY);
    }
    bail!("the server at {} has too much to do: nothing was changed; try again", path.display())
}

/// Whether the server closed the connection before it read the request, as it does when too many clients connect at
/// once.
fn was_unread(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)
}

/// `None` where the server was too busy and did nothing.
fn ask_once(path: &Path, file: &Path, question: &Question) -> Result<Option<Value>> {
    let mut stream = UnixStream::connect(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
            anyhow!("no server answers at {}: start it with `forebay serve {}`", path.display(), file.display())
        }
        _ => anyhow!("cannot connect to the server at {}: {error}", path.display()),
    })?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let mut request = serde_json::to_vec(question)?;
    request.push(b'\n');
    match stream.write_all(&request) {
        Err(error) if was_unread(&error) => return Ok(None),
        sent => sent.with_context(|| format!("cannot ask the server at {}", path.display()))?,
    }
    let mut answer = String::new();
    match BufReader::new(stream.take(ANSWER_MAX_BYTES)).read_line(&mut answer) {
        Err(error) if was_unread(&error) => return Ok(None),
        read => read.with_context(|| format!("the server at {} did not answer", path.display()))?,
    };
    if answer.is_empty() {
        bail!("the server at {} closed the connection: it may be stopping", path.display());
    }
    let mut answer: Value = serde_json::from_str(&answer)
        .with_context(|| format!("the server at {} answered something else", path.display()))?;
    match answer.get("error").and_then(Value::as_str) {
        Some(TOO_MANY_CHANGES) => Ok(None),
        Some(error) => bail!("{error}"),
        None => Ok(Some(answer.get_mut("ok").map(Value::take).unwrap_or_default())),
    }
}
