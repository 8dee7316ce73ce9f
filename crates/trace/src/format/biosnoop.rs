//! The text of biosnoop (bcc and libbpf-tools): `TIME(s) COMM PID DISK T SECTOR BYTES [P] [QUE(ms)] LAT(ms)`, one line when a request
//! completes (iovisor/bcc, tools/biosnoop.py and libbpf-tools/biosnoop.c).
//!
//! `T` is R or W, or the kernel's letters. Names of processes may contain blanks, so a line is read from its right end.

use super::clock::Clock;
use super::fields::{Bad, duration_ns, last_word, milliseconds_ns, number, range, seconds_ns, sectors, word};
use super::namer::{Namer, as_is};
use super::rwbs;
use super::text::LineFormat;
use crate::{Knows, NOT_KNOWN, Names, Op, Request};

/// A column to the right of the process's name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Column {
    Pid,
    Disk,
    Type,
    Sector,
    Bytes,
    Pattern,
    Queued,
    Latency,
}

const USUAL: [Column; 6] = [Column::Pid, Column::Disk, Column::Type, Column::Sector, Column::Bytes, Column::Latency];

pub(super) struct Biosnoop {
    columns: Vec<Column>,
    clock: Clock,
    volume: Namer,
    process: Namer,
}

impl Biosnoop {
    pub fn new() -> Self {
        Self {
            columns: USUAL.to_vec(),
            clock: Clock::from_zero_or_wall_clock(),
            volume: Namer::default(),
            process: Namer::default(),
        }
    }

    /// Learns the columns from a header.
    fn header(&mut self, mut names: &[u8]) -> Result<(), Bad> {
        let mut columns = Vec::new();
        while let Some(name) = word(&mut names) {
            let column = match name {
                b"PID" => Column::Pid,
                b"DISK" => Column::Disk,
                b"T" => Column::Type,
                b"SECTOR" => Column::Sector,
                b"BYTES" => Column::Bytes,
                b"P" => Column::Pattern,
                b"QUE(ms)" | b"QLAT(ms)" => Column::Queued,
                b"LAT(ms)" => Column::Latency,
                _ => return Err("a column is not known"),
            };
            if columns.contains(&column) {
                return Err("a column comes twice");
            }
            columns.push(column);
        }
        if USUAL.iter().any(|column| !columns.contains(column)) {
            return Err("a column is missing");
        }
        self.columns = columns;
        Ok(())
    }
}

impl LineFormat for Biosnoop {
    fn line(&mut self, line: &[u8], into: &mut Vec<Request>, names: &mut Names) -> Result<(), Bad> {
        let mut rest = line;
        let time = word(&mut rest).ok_or("too few fields")?;
        if time == b"TIME(s)" {
            return match word(&mut rest) {
                Some(b"COMM") => self.header(rest),
                _ => Err("a column is not known"),
            };
        }
        let completed_ns = seconds_ns(time)?;
        let (mut pid, mut disk, mut letters, mut sector, mut len_bytes) = (0, &b""[..], &b""[..], 0, 0);
        let (mut queued_ns, mut latency_ns) = (NOT_KNOWN, 0);
        for column in self.columns.iter().rev() {
            let field = last_word(&mut rest).ok_or("too few fields")?;
            match column {
                Column::Pid => pid = u32::try_from(number(field)?).map_err(|_| "the process id is beyond 2^32")?,
                Column::Disk => disk = field,
                Column::Type => letters = field,
                Column::Sector => sector = number(field)?,
                Column::Bytes => len_bytes = number(field)?,
                Column::Pattern => {}
                Column::Queued => queued_ns = duration_ns(milliseconds_ns(field)?)?,
                Column::Latency => latency_ns = duration_ns(milliseconds_ns(field)?)?,
            }
        }
        let (mut op, flags) = rwbs::parse(letters, len_bytes)?;
        let mut offset_bytes = 0;
        if len_bytes == 0 {
            // Flushes are reported as reads or writes without data, at a meaningless sector.
            op = Op::Flush;
        } else {
            (offset_bytes, _) = sectors(sector, 0)?;
            range(offset_bytes, len_bytes)?;
        }
        // Negative, in two's complement, where it was issued before the zero (super::zero::FromEarliest).
        let issued_ns = self.clock.since_zero_ns(completed_ns)?.wrapping_sub(latency_ns);
        into.push(Request {
            queued_ns,
            latency_ns,
            pid,
            flags,
            process: self.process.number(rest.trim_ascii(), &mut names.processes, as_is),
            volume: self.volume.number(disk, &mut names.volumes, as_is),
            ..Request::new(issued_ns, op, offset_bytes, len_bytes)
        });
        Ok(())
    }

    fn knows(&self) -> Knows {
        Knows { op: true, time: true, latency: true, process: true, ..Knows::default() }
    }
}
