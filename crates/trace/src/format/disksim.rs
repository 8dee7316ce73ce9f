//! DiskSim's ASCII format, `time device sector sectors op`, with 0 for a write and 1 for a read. The time is in milliseconds with a
//! fraction, or, as in MQSim, in nanoseconds without one (DiskSim 4.0's reference manual; MQSim, `traces/README.md`).

use super::clock::Clock;
use super::fields::{Bad, milliseconds_ns, number, sectors, word};
use super::namer::{Namer, as_is};
use super::text::LineFormat;
use crate::{Knows, Names, Op, Request};

pub(super) struct DiskSim {
    clock: Clock,
    volume: Namer,
}

impl DiskSim {
    pub fn new() -> Self {
        Self { clock: Clock::from_zero_or_wall_clock(), volume: Namer::default() }
    }
}

impl LineFormat for DiskSim {
    fn line(&mut self, line: &[u8], into: &mut Vec<Request>, names: &mut Names) -> Result<(), Bad> {
        let mut rest = line;
        let mut next = || word(&mut rest).ok_or("too few fields");
        let time = next()?;
        let time_ns = if time.contains(&b'.') { milliseconds_ns(time)? } else { number(time)? };
        let device = next()?;
        number(device)?;
        let (offset_bytes, len_bytes) = sectors(number(next()?)?, number(next()?)?)?;
        let op = match next()? {
            b"0" => Op::Write,
            b"1" => Op::Read,
            _ => return Err("the operation is neither 0 nor 1"),
        };
        if word(&mut rest).is_some() {
            return Err("too many fields");
        }
        let issued_ns = self.clock.since_zero_ns(time_ns)?;
        let volume = self.volume.number(device, &mut names.volumes, as_is);
        into.push(Request { volume, ..Request::new(issued_ns, op, offset_bytes, len_bytes) });
        Ok(())
    }

    fn knows(&self) -> Knows {
        Knows { op: true, time: true, ..Knows::default() }
    }
}
