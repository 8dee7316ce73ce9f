//! Lines of JSON between hosts, of bounded length.

use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{BufRead, Read, Write};

/// Maximum length of a line in bytes. The histograms of a worker with all kinds of I/O and every counter in use take less.
const LINE_MAX: u64 = 8 << 20;
/// Characters of an invalid line that an error shows.
const SHOWN_MAX: usize = 120;

/// Reads the next line without its newline; none at the end of the input.
///
/// # Errors
/// The line is too long or has no newline.
pub fn read(input: &mut impl BufRead) -> Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    input.take(LINE_MAX + 1).read_until(b'\n', &mut line)?;
    match line.pop() {
        None => Ok(None),
        Some(b'\n') => Ok(Some(line)),
        Some(_) if line.len() as u64 >= LINE_MAX => bail!("a line of more than {LINE_MAX} bytes"),
        Some(_) => bail!("its last line has no end"),
    }
}

/// Parses a line.
///
/// # Errors
/// The line is not a known message; the error shows its beginning.
pub fn parse<T: DeserializeOwned>(line: &[u8]) -> Result<T> {
    serde_json::from_slice(line).with_context(|| {
        let text = String::from_utf8_lossy(&line[..line.len().min(4 * SHOWN_MAX)]);
        let shown: String = text.chars().take(SHOWN_MAX).collect();
        format!("this is nothing that forebay says: {shown:?}")
    })
}

/// Writes a line.
///
/// # Errors
/// The other side does not read any more.
pub fn write(output: &mut impl Write, message: &impl Serialize) -> Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    output.write_all(&line)?;
    Ok(output.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufReader, repeat};

    #[test]
    fn lines_are_bounded() {
        let mut input = BufReader::new(&b"one\n\ntwo\nrest"[..]);
        assert_eq!(read(&mut input).unwrap().unwrap(), b"one");
        assert_eq!(read(&mut input).unwrap().unwrap(), b"");
        assert_eq!(read(&mut input).unwrap().unwrap(), b"two");
        assert!(read(&mut input).unwrap_err().to_string().contains("no end"));
        assert_eq!(read(&mut BufReader::new(&b""[..])).unwrap(), None);
        let endless = read(&mut BufReader::new(repeat(b'x'))).unwrap_err();
        assert!(endless.to_string().contains("more than"), "{endless}");
    }

    #[test]
    fn what_is_nothing_is_shown_by_its_begin() {
        let error = parse::<Vec<u64>>(format!("\u{1b}[2J{}", "y".repeat(1000)).as_bytes()).unwrap_err().to_string();
        assert!(error.contains("\\u{1b}[2Jyyy") && error.len() < 300, "{error}");
        assert!(parse::<Vec<u64>>(&[0xff, 0xfe]).is_err());
    }
}
