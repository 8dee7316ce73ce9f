//! Asking the daemon.

use super::{Question, control_path};
use crate::config::Config;
use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// How long an answer may take: removing a disk discards all of it.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Longest answer in bytes.
const ANSWER_MAX_BYTES: u64 = 64 << 20;

/// Asks the server of this configuration.
///
/// # Errors
/// Where none answers, or it refuses.
pub fn ask(config: &Config, file: &Path, question: &Question) -> Result<Value> {
    let path = control_path(config, file)?;
    let mut stream = UnixStream::connect(&path).map_err(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
            anyhow!("no server answers at {}: start it with `forebay serve {}`", path.display(), file.display())
        }
        _ => anyhow!("cannot connect to the server at {}: {error}", path.display()),
    })?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let mut request = serde_json::to_vec(question)?;
    request.push(b'\n');
    stream.write_all(&request).with_context(|| format!("cannot ask the server at {}", path.display()))?;
    let mut answer = String::new();
    BufReader::new(stream.take(ANSWER_MAX_BYTES))
        .read_line(&mut answer)
        .with_context(|| format!("the server at {} did not answer", path.display()))?;
    if answer.is_empty() {
        bail!("the server at {} closed the connection: it may be stopping", path.display());
    }
    let mut answer: Value = serde_json::from_str(&answer)
        .with_context(|| format!("the server at {} answered something else", path.display()))?;
    if let Some(error) = answer.get("error").and_then(Value::as_str) {
        bail!("{error}");
    }
    Ok(answer.get_mut("ok").map(Value::take).unwrap_or_default())
}
