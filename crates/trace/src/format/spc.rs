//! The Storage Performance Council's trace format, revision 1.0.1: `ASU,LBA,bytes,R|W,seconds`; further fields are ignored. LBAs count
//! sectors of 512 bytes, as in the financial and web-search traces of UMass.

use super::clock::Clock;
use super::fields::{Bad, Fields, number, range, seconds_ns, sectors};
use super::namer::{Namer, as_is};
use super::text::LineFormat;
use crate::{Knows, Names, Op, Request};

pub(super) struct Spc {
    clock: Clock,
    volume: Namer,
}

impl Spc {
    pub fn new() -> Self {
        Self { clock: Clock::from_zero_or_wall_clock(), volume: Namer::default() }
    }
}

impl LineFormat for Spc {
    fn line(&mut self, line: &[u8], into: &mut Vec<Request>, names: &mut Names) -> Result<(), Bad> {
        let mut fields = Fields::new(line, b',');
        let asu = fields.next()?.trim_ascii();
        number(asu)?;
        let (first_bytes, _) = sectors(number(fields.next()?)?, 0)?;
        let (offset_bytes, len_bytes) = range(first_bytes, number(fields.next()?)?)?;
        let op = match fields.next()?.trim_ascii() {
            b"R" | b"r" => Op::Read,
            b"W" | b"w" => Op::Write,
            _ => return Err("the opcode is neither R nor W"),
        };
        let issued_ns = self.clock.since_zero_ns(seconds_ns(fields.next()?)?)?;
        let volume = self.volume.number(asu, &mut names.volumes, as_is);
        into.push(Request { volume, ..Request::new(issued_ns, op, offset_bytes, len_bytes) });
        Ok(())
    }

    fn knows(&self) -> Knows {
        Knows { op: true, time: true, ..Knows::default() }
    }
}
