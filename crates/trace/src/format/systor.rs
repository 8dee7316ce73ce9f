//! The virtual desktops of Systor '17: `Timestamp,Response,IOType,LUN,Offset,Size`. Times are in seconds, offset and size in bytes; there
//! is a header line, and responses may be missing (README of SNIA's trace set 4964).

use super::clock::Clock;
use super::fields::{Bad, Fields, duration_ns, number, range, seconds_ns};
use super::namer::{Namer, as_is};
use super::text::LineFormat;
use crate::{Knows, NOT_KNOWN, Names, Op, Request};

pub(super) struct Systor {
    clock: Clock,
    volume: Namer,
}

impl Systor {
    pub fn new() -> Self {
        Self { clock: Clock::around_first(), volume: Namer::default() }
    }
}

impl LineFormat for Systor {
    fn line(&mut self, line: &[u8], into: &mut Vec<Request>, names: &mut Names) -> Result<(), Bad> {
        let mut fields = Fields::new(line, b',');
        let time_ns = seconds_ns(fields.next()?)?;
        let latency_ns = match fields.next()?.trim_ascii() {
            b"" => NOT_KNOWN,
            response => duration_ns(seconds_ns(response)?)?,
        };
        let op = match fields.next()? {
            b"R" => Op::Read,
            b"W" => Op::Write,
            _ => return Err("the type is neither R nor W"),
        };
        let lun = fields.next()?;
        number(lun)?;
        let (offset_bytes, len_bytes) = range(number(fields.next()?)?, number(fields.next()?)?)?;
        fields.end()?;
        let issued_ns = self.clock.since_zero_ns(time_ns)?;
        let volume = self.volume.number(lun, &mut names.volumes, as_is);
        into.push(Request { volume, latency_ns, ..Request::new(issued_ns, op, offset_bytes, len_bytes) });
        Ok(())
    }

    fn may_have_header(&self) -> bool {
        true
    }

    fn knows(&self) -> Knows {
        Knows { op: true, time: true, latency: true, ..Knows::default() }
    }
}
