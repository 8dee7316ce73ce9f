//! Detects the format of a trace from its first bytes.

use super::kind::Format;
use super::lines::BYTE_ORDER_MARK;
use super::readers::lines;
use super::{blktrace, oracle_general, text, vscsi};
use crate::Names;

/// Number of bytes that are examined.
pub(super) const HEAD_BYTES: usize = 64 << 10;
/// A file whose first bytes, at least this many, are legible was meant as text.
const LEGIBLE_MIN: usize = 64;
/// Most lines of a text that are examined.
const LINES_MAX: usize = 100;
/// Most records of a binary file that are examined.
const RECORDS_MAX: usize = 64;

/// The format of a trace that begins with `head`; `is_whole` if that is all of it.
///
/// # Errors
/// What was found instead of a known format.
pub(super) fn detect(head: &[u8], is_whole: bool) -> Result<Format, String> {
    if head.is_empty() {
        return Err("the file is empty".to_owned());
    }
    if blktrace::looks_right(head) {
        return Ok(Format::Blktrace);
    }
    if is_vscsi(head) {
        return Ok(Format::Vscsi);
    }
    if let Some(format) = text_format(head, is_whole) {
        return Ok(format);
    }
    let is_legible = |bytes: &[u8]| bytes.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace());
    if !is_legible(head) && oracle_general::looks_right(head) {
        return Ok(Format::OracleGeneral);
    }
    if let Some(at) = head.iter().position(|&byte| byte == 0)
        && at >= LEGIBLE_MIN
        && is_legible(&head[..at])
    {
        return Err(format!("byte {at} of what looks like text is 0, which text has nowhere"));
    }
    if head.starts_with(b"FOREBAYT") {
        return Err(
            "it holds records of single I/Os: `forebay bench --records FILE --parquet OUT` makes a table of them"
                .to_owned(),
        );
    }
    Err(format!("it begins with \"{}\"", head[..head.len().min(24)].escape_ascii()))
}

/// Whether most of the first records are vscsi records.
fn is_vscsi(head: &[u8]) -> bool {
    let records = &head.as_chunks().0;
    let records = &records[..records.len().min(RECORDS_MAX)];
    let right = records.iter().filter(|record| vscsi::looks_right(record)).count();
    right > 0 && 4 * right >= 3 * records.len()
}

/// The text format that can read most of the first lines.
fn text_format(head: &[u8], is_whole: bool) -> Option<Format> {
    // Only complete lines count.
    let end = if is_whole { head.len() } else { head.iter().rposition(|&byte| byte == b'\n')? };
    let text = &head[..end];
    let text = text.strip_prefix(&BYTE_ORDER_MARK).unwrap_or(text);
    if text.contains(&0) {
        return None;
    }
    let sensible = |format: Format| {
        let mut lines = lines(format, text)?;
        let (mut requests, mut names, mut count) = (Vec::new(), Names::default(), 0);
        for (at, line) in text.split(|&byte| byte == b'\n').take(LINES_MAX).enumerate() {
            // Lines are stripped as in the reader.
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if at == 0 && text::is_header(&*lines, line) {
                continue;
            }
            count += usize::from(lines.line(line, &mut requests, &mut names).is_ok());
        }
        Some((count, format))
    };
    let (count, format) = Format::ALL.into_iter().filter_map(sensible).max_by_key(|&(count, _)| count)?;
    (count > 0).then_some(format)
}
