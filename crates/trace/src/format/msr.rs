//! Microsoft Research Cambridge: `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`. Times are in Windows file time of 100 ns;
//! the timestamp is that of the issue (README of SNIA's trace set 387).

use super::clock::Clock;
use super::fields::{Bad, Fields, duration_ns, number, range};
use super::namer::Namer;
use super::text::LineFormat;
use crate::{Knows, Names, Op, Request};

/// File time counts in units of 100 ns.
const NS_PER_TICK: u64 = 100;

pub(super) struct Msr {
    clock: Clock,
    volume: Namer,
}

impl Msr {
    pub fn new() -> Self {
        Self { clock: Clock::around_first(), volume: Namer::default() }
    }
}

fn op(field: &[u8]) -> Result<Op, Bad> {
    if field.eq_ignore_ascii_case(b"Read") {
        Ok(Op::Read)
    } else if field.eq_ignore_ascii_case(b"Write") {
        Ok(Op::Write)
    } else {
        Err("the type is neither Read nor Write")
    }
}

impl LineFormat for Msr {
    fn line(&mut self, line: &[u8], into: &mut Vec<Request>, names: &mut Names) -> Result<(), Bad> {
        let mut fields = Fields::new(line, b',');
        let ticks_field = fields.next()?;
        let ticks = number(ticks_field)?;
        let (host, disk) = (fields.next()?, fields.next()?);
        let op = op(fields.next()?)?;
        let (offset_bytes, len_bytes) = range(number(fields.next()?)?, number(fields.next()?)?)?;
        let latency_ns = duration_ns(number(fields.next()?)?.saturating_mul(NS_PER_TICK))?;
        fields.end()?;
        number(disk)?;
        let issued_ns = self.clock.since_zero_ns(ticks.checked_mul(NS_PER_TICK).ok_or("a time is absurd")?)?;
        // Host and disk are adjacent fields, separated by a comma.
        let begin = ticks_field.len() + 1;
        let raw = &line[begin..begin + host.len() + 1 + disk.len()];
        let volume = self.volume.number(raw, &mut names.volumes, |name| name.replace(',', "."));
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
