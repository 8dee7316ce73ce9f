//! Asking the daemon.

use super::{Question, TOO_MANY_CHANGES, control_path};
use crate::config::Config;
use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long an answer may take: removing a disk discards all of it.
const TIMEOUT: Duration = Duration::from_secs(120);
/// How long a server that has too much to do is asked again, and how often.
const BUSY_FOR: Duration = Duration::from_secs(10);
const BUSY_EVERY: Duration = Duration::from_millis(50);
/// Longest answer in bytes.
const ANSWER_MAX_BYTES: u64 = 64 << 20;

/// Asks the server of this configuration.
///
/// # Errors
/// Where none answers, or it refuses.
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

/// Whether the server has closed the connection before it read anything of it: others came at the same time.
fn was_unread(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)
}

/// Nothing where the server has too much to do, and has done nothing.
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
