//! Writes a capture as `forebay record` does, for tests and measurements: `capture FILE REQUESTS [DROPPED [odd]]`. With `odd` one
//! request lies above 2^63. `NAME.1.fbr` is the second file of the capture `NAME.fbr`, as rotation makes it.
#![forbid(unsafe_code)]

use forebay_trace::format::segments::{Captured, Header, Name, SegmentWriter, Volume, first_path};
use forebay_trace::{Flags, Lifetime, NOT_KNOWN, Op, Request};
use std::error::Error;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

/// Requests of a segment.
const SEGMENT: u64 = 40_000;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, count, rest @ ..] = arguments.as_slice() else {
        return Err("capture FILE REQUESTS [DROPPED [odd]]".into());
    };
    let count: u64 = count.parse()?;
    let dropped = rest.first().map_or(Ok(0), |text| text.parse())?;
    let is_odd = rest.get(1).is_some_and(|text| text == "odd");
    let volumes = ["nvme0n1", "nvme1n1"].map(|name| Volume { name: name.to_owned(), size_bytes: 1 << 40 });
    let file = first_path(Path::new(path)).map_or(0, |(_, number)| number);
    let header = Header { capture: [7; 16], begin_unix_ns: 1_700_000_000_123_456_789, file, volumes: volumes.into() };
    let mut writer = SegmentWriter::begin(BufWriter::new(File::create_new(path)?), header)?;
    let process = |number, name: &str| Name::Process { number, name: name.to_owned() };
    let named =
        |inode, path: &str| Name::File { file_system: 1, inode, generation: 0, level: None, path: path.to_owned() };
    writer.names(
        &[process(1, "postgres"), process(2, "kworker/u8:1"), named(12, "/pg/wal/1"), named(13, "/pg/base/ü")],
        0,
    )?;
    let mut begin = 0;
    while begin < count {
        let end = count.min(begin + SEGMENT);
        let records: Vec<Captured> = (begin..end).map(|index| captured(index, is_odd)).collect();
        writer.records(&records, if end == count { dropped } else { 0 })?;
        begin = end;
    }
    writer.finish(dropped)?.into_inner()?.sync_all()?;
    Ok(())
}

/// Request number `index`: all that a capture may know, and all that it may not.
fn captured(index: u64, is_odd: bool) -> Captured {
    // A linear congruential generator (Knuth's MMIX), so that nothing looks like a pattern.
    let chance = index.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407) >> 33;
    let op = [Op::Read, Op::Read, Op::Write, Op::Write, Op::Write, Op::Discard, Op::WriteZeroes, Op::Flush]
        [chance as usize % 8];
    let len_bytes = if op == Op::Flush { 0 } else { 4096 << (chance % 5) };
    let offset_bytes = if is_odd && index == 5 { 1 << 63 } else { (chance % (1 << 28)) * 4096 };
    let is_known = !chance.is_multiple_of(11);
    let request = Request {
        latency_ns: if is_known { 20_000 + chance % 90_000 } else { NOT_KNOWN },
        queued_ns: if chance.is_multiple_of(3) { NOT_KNOWN } else { chance % 700 },
        inode: if is_known { 12 + chance % 2 } else { 0 },
        cgroup: if chance.is_multiple_of(2) { 0 } else { 4_000 },
        volume: (chance % 2) as u32,
        process: (chance % 3) as u32,
        pid: if chance.is_multiple_of(3) { 0 } else { 1_000 + (chance % 3) as u32 },
        depth: (chance % 33) as u16,
        flags: Flags((chance % 512) as u16),
        lifetime: Lifetime::ALL[chance as usize % Lifetime::ALL.len()],
        ..Request::new(index * 1_000, op, offset_bytes, len_bytes)
    };
    Captured { request, file_system: 1, generation: 0 }
}
