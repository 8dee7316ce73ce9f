//! Plain CSV whose first line names its columns, in any order: a time (`time_ns`, `time_us`, `time_ms`, or `time_s` and `time` in seconds),
//! `op`, `offset_bytes` (or `offset`), `len_bytes` (or `length`, `len`, `size`, `bytes`), and optionally `latency_ns` and `volume`. Other
//! columns are ignored.

use super::clock::Clock;
use super::fields::{Bad, Fields, decimal, duration_ns, number, range};
use super::namer::{Namer, as_is};
use super::text::LineFormat;
use crate::{Knows, Names, Op, Request};

/// The header that is written; it can be read too.
pub(super) const HEADER: &str = "time_ns,op,offset_bytes,len_bytes,latency_ns,volume";
/// Most columns.
const COLUMNS_MAX: usize = 64;

/// The contents of a column.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Column {
    /// A time, in units with this many decimal digits more than a nanosecond.
    Time(usize),
    Op,
    Offset,
    Len,
    Latency,
    Volume,
    Other,
}

pub(super) struct Csv {
    clock: Clock,
    volume: Namer,
    /// The columns; empty before the header.
    columns: Vec<Column>,
}

/// Names of operations; the ones that are written come first.
const OPS: [(&str, Op); 14] = [
    ("read", Op::Read),
    ("write", Op::Write),
    ("discard", Op::Discard),
    ("write-zeroes", Op::WriteZeroes),
    ("flush", Op::Flush),
    ("access", Op::Access),
    ("trim", Op::Discard),
    ("unmap", Op::Discard),
    ("sync", Op::Flush),
    ("r", Op::Read),
    ("w", Op::Write),
    ("d", Op::Discard),
    ("f", Op::Flush),
    ("write_zeroes", Op::WriteZeroes),
];

/// The name of an operation in written files.
pub(super) fn op_name(op: Op) -> &'static str {
    OPS.iter().find(|(_, known)| *known == op).map_or("access", |(name, _)| name)
}

impl Csv {
    pub fn new() -> Self {
        Self { clock: Clock::around_first(), volume: Namer::default(), columns: Vec::new() }
    }

    fn header(&mut self, line: &[u8]) -> Result<(), Bad> {
        if line.contains(&b'\r') {
            return Err("lines end with CR alone");
        }
        let mut columns = Vec::new();
        for name in line.split(|&byte| byte == b',').take(COLUMNS_MAX) {
            let name = name.trim_ascii().to_ascii_lowercase();
            columns.push(match name.as_slice() {
                b"time_ns" => Column::Time(0),
                b"time_us" => Column::Time(3),
                b"time_ms" => Column::Time(6),
                b"time_s" | b"time" => Column::Time(9),
                b"op" | b"operation" => Column::Op,
                b"offset_bytes" | b"offset" => Column::Offset,
                b"len_bytes" | b"length" | b"len" | b"size" | b"bytes" => Column::Len,
                b"latency_ns" => Column::Latency,
                b"volume" => Column::Volume,
                _ => Column::Other,
            });
        }
        let has = |wanted: fn(&Column) -> bool| columns.iter().filter(|column| wanted(column)).count() == 1;
        let is_whole = has(|column| matches!(column, Column::Time(_)))
            && has(|column| *column == Column::Op)
            && has(|column| *column == Column::Offset)
            && has(|column| *column == Column::Len);
        if !is_whole {
            return Err("no header that names time, op, offset and length");
        }
        self.columns = columns;
        Ok(())
    }
}

impl LineFormat for Csv {
    fn awaits_header(&self) -> bool {
        self.columns.is_empty()
    }

    fn line(&mut self, line: &[u8], into: &mut Vec<Request>, names: &mut Names) -> Result<(), Bad> {
        if self.columns.is_empty() {
            return self.header(line);
        }
        let mut request = Request::new(0, Op::Access, 0, 0);
        let mut fields = Fields::new(line, b',');
        let (mut time_ns, mut volume) = (0, None);
        for column in &self.columns {
            let field = fields.next()?.trim_ascii();
            match column {
                Column::Time(digits) => time_ns = decimal(field, *digits)?,
                Column::Op => {
                    let is_it = |name: &str| field.eq_ignore_ascii_case(name.as_bytes());
                    let op = OPS.iter().find(|(name, _)| is_it(name)).map(|(_, op)| *op);
                    request.op = op.ok_or("the operation is not known")?;
                }
                Column::Offset => request.offset_bytes = number(field)?,
                Column::Len => request.len_bytes = number(field)?,
                Column::Latency if !field.is_empty() => request.latency_ns = duration_ns(number(field)?)?,
                Column::Volume => volume = Some(field),
                Column::Latency | Column::Other => {}
            }
        }
        fields.end()?;
        (request.offset_bytes, request.len_bytes) = match request.op {
            Op::Flush => (0, 0),
            _ => range(request.offset_bytes, request.len_bytes)?,
        };
        request.issued_ns = self.clock.since_zero_ns(time_ns)?;
        if let Some(raw) = volume {
            request.volume = self.volume.number(raw, &mut names.volumes, as_is);
        }
        into.push(request);
        Ok(())
    }

    fn knows(&self) -> Knows {
        let latency = self.columns.contains(&Column::Latency);
        Knows { op: true, time: true, latency, ..Knows::default() }
    }
}
