//! Alibaba's block traces: `device,R|W,offset,length,microseconds`, offset and length in bytes
//! (github.com/alibaba/block-traces).

use super::clock::Clock;
use super::fields::{Bad, Fields, number, range};
use super::namer::{Namer, as_is};
use super::text::LineFormat;
use crate::{Knows, Names, Op, Request};

pub(super) struct Alibaba {
    clock: Clock,
    volume: Namer,
}

impl Alibaba {
    pub fn new() -> Self {
        Self { clock: Clock::around_first(), volume: Namer::default() }
    }
}

impl LineFormat for Alibaba {
    fn line(&mut self, line: &[u8], into: &mut Vec<Request>, names: &mut Names) -> Result<(), Bad> {
        let mut fields = Fields::new(line, b',');
        let device = fields.next()?;
        number(device)?;
        let op = match fields.next()? {
            b"R" => Op::Read,
            b"W" => Op::Write,
            _ => return Err("the operation is neither R nor W"),
        };
        let (offset_bytes, len_bytes) = range(number(fields.next()?)?, number(fields.next()?)?)?;
        let time_us = number(fields.next()?)?;
        fields.end()?;
        let issued_ns = self.clock.us_since_zero_ns(time_us)?;
        let volume = self.volume.number(device, &mut names.volumes, as_is);
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
