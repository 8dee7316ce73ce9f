//! fio's I/O logs, versions 2 and 3 (`read_iolog` in fio's iolog.c; "Trace file format" in its manual).
//!
//! Version 3 has a time in microseconds at the beginning of each line. Version 2 has `wait` lines instead: the manual says microseconds
//! since the last one, but fio waits until that many milliseconds after its start, and so does this reader.

use super::clock::Clock;
use super::fields::{Bad, number, range, word};
use super::namer::{Namer, as_is};
use super::text::LineFormat;
use crate::{Knows, Names, Op, Request};

/// The first line of a log, up to the version.
const FIRST_LINE_BEGIN: &[u8] = b"fio version ";
const NS_PER_MS: u64 = 1_000_000;

pub(super) struct FioLog {
    /// 0 until the first line has given it.
    version: u8,
    clock: Clock,
    /// The time reached by the last wait of a log of version 2.
    waited_ns: u64,
    volume: Namer,
}

impl FioLog {
    pub fn new() -> Self {
        Self { version: 0, clock: Clock::from_zero(), waited_ns: 0, volume: Namer::default() }
    }
}

impl LineFormat for FioLog {
    fn line(&mut self, line: &[u8], into: &mut Vec<Request>, names: &mut Names) -> Result<(), Bad> {
        if let Some(version) = line.strip_prefix(FIRST_LINE_BEGIN) {
            self.version = match version.trim_ascii() {
                b"2 iolog" => 2,
                b"3 iolog" => 3,
                _ => return Err("the version is neither 2 nor 3"),
            };
            return Ok(());
        }
        let mut rest = line;
        let mut issued_ns = match self.version {
            0 => return Err("the log does not begin with its version"),
            2 => self.waited_ns,
            _ => self.clock.us_since_zero_ns(number(word(&mut rest).ok_or("too few fields")?)?)?,
        };
        let file = word(&mut rest).ok_or("too few fields")?;
        let op = match word(&mut rest).ok_or("too few fields")? {
            b"add" | b"open" | b"close" => return Ok(()),
            // In version 3 each line has a time, and fio ignores these.
            b"wait" if self.version == 3 => return Ok(()),
            b"wait" if self.version == 2 => {
                let until_ms = number(word(&mut rest).ok_or("too few fields")?)?;
                let until_ns = until_ms.checked_mul(NS_PER_MS).ok_or("a time is absurd")?;
                self.waited_ns = self.waited_ns.max(self.clock.since_zero_ns(until_ns)?);
                return Ok(());
            }
            b"read" => Op::Read,
            b"write" => Op::Write,
            b"trim" => Op::Discard,
            b"sync" | b"datasync" | b"sync_file_range" => Op::Flush,
            _ => return Err("the action is not known"),
        };
        let mut next = || word(&mut rest).ok_or("too few fields");
        let (mut offset_bytes, mut len_bytes) = range(number(next()?)?, number(next()?)?)?;
        if word(&mut rest).is_some() {
            return Err("too many fields");
        }
        if op == Op::Flush {
            (offset_bytes, len_bytes) = (0, 0);
        }
        issued_ns = issued_ns.max(self.waited_ns);
        let volume = self.volume.number(file, &mut names.volumes, as_is);
        into.push(Request { volume, ..Request::new(issued_ns, op, offset_bytes, len_bytes) });
        Ok(())
    }

    fn knows(&self) -> Knows {
        Knows { op: true, time: self.version == 3 || self.waited_ns > 0, ..Knows::default() }
    }
}
