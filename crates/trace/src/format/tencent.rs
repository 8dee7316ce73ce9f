//! Tencent's cloud block storage: `seconds,offset,size,0|1,volume`. Offset and size are in sectors; 0 is a read and 1 a write (README of
//! SNIA's trace set 27917). Times are whole seconds, and sometimes go back a little.

use super::clock::Clock;
use super::fields::{Bad, Fields, number, seconds_ns, sectors};
use super::namer::{Namer, as_is};
use super::text::LineFormat;
use crate::{Knows, Names, Op, Request};

pub(super) struct Tencent {
    clock: Clock,
    volume: Namer,
}

impl Tencent {
    pub fn new() -> Self {
        Self { clock: Clock::around_first(), volume: Namer::default() }
    }
}

impl LineFormat for Tencent {
    fn line(&mut self, line: &[u8], into: &mut Vec<Request>, names: &mut Names) -> Result<(), Bad> {
        let mut fields = Fields::new(line, b',');
        let time_ns = seconds_ns(fields.next()?)?;
        let (offset_bytes, len_bytes) = sectors(number(fields.next()?)?, number(fields.next()?)?)?;
        let op = match fields.next()? {
            b"0" => Op::Read,
            b"1" => Op::Write,
            _ => return Err("the operation is neither 0 nor 1"),
        };
        let raw = fields.next()?;
        number(raw)?;
        fields.end()?;
        let issued_ns = self.clock.since_zero_ns(time_ns)?;
        let volume = self.volume.number(raw, &mut names.volumes, as_is);
        into.push(Request { volume, ..Request::new(issued_ns, op, offset_bytes, len_bytes) });
        Ok(())
    }

    fn may_have_header(&self) -> bool {
        true
    }

    fn knows(&self) -> Knows {
        Knows { op: true, time: true, ..Knows::default() }
    }
}
