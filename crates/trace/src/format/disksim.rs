//! DiskSim's ASCII format, `time device sector sectors op`, with 0 for a write and 1 for a read. Times are in milliseconds with fractions, or,
//! as in MQSim, in nanoseconds (DiskSim 4.0's reference manual; MQSim, `traces/README.md`). What prints by `%g` leaves the fraction of a whole
//! millisecond out, so that one line does not tell the unit: it is that of the file, by its first 64 KiB.

use super::clock::Clock;
use super::fields::{Bad, milliseconds_ns, number, sectors, word};
use super::namer::{Namer, as_is};
use super::text::LineFormat;
use crate::{Knows, Names, Op, Request};

pub(super) struct DiskSim {
    /// Whether times are in milliseconds; otherwise they are in nanoseconds.
    is_in_milliseconds: bool,
    /// Whether a time in a file of nanoseconds had a fraction.
    has_late_fraction: bool,
    clock: Clock,
    volume: Namer,
}

impl DiskSim {
    /// For a file that begins with `head`.
    pub fn new(head: &[u8]) -> Self {
        let has_fraction = |line: &[u8]| {
            let mut rest = line;
            word(&mut rest).is_some_and(|time| time.contains(&b'.') && milliseconds_ns(time).is_ok())
        };
        Self {
            is_in_milliseconds: head.split(|&byte| byte == b'\n').any(has_fraction),
            has_late_fraction: false,
            clock: Clock::from_zero_or_wall_clock(),
            volume: Namer::default(),
        }
    }

    fn time_ns(&mut self, field: &[u8]) -> Result<u64, Bad> {
        if self.is_in_milliseconds {
            return milliseconds_ns(field);
        }
        self.has_late_fraction = field.contains(&b'.') && milliseconds_ns(field).is_ok();
        if self.has_late_fraction {
            return Err(
                "a time has a fraction, so that all are milliseconds, but none within the first 64 KiB has one, and they were taken \
                 for nanoseconds",
            );
        }
        number(field)
    }
}

impl LineFormat for DiskSim {
    fn line(&mut self, line: &[u8], into: &mut Vec<Request>, names: &mut Names) -> Result<(), Bad> {
        let mut rest = line;
        let mut next = || word(&mut rest).ok_or("too few fields");
        let time = next()?;
        let time_ns = self.time_ns(time)?;
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

    fn is_misread(&self) -> bool {
        self.has_late_fraction
    }

    fn knows(&self) -> Knows {
        Knows { op: true, time: true, ..Knows::default() }
    }
}
