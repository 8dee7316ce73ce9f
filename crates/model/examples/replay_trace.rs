//! Replays a trace in MQSim's format on a flash drive made from a file of parameters, each request at its own time, and prints the drive's
//! latencies: `replay_trace PARTS.toml TRACE`. `bench/against-mqsim` runs it beside MQSim.
//!
//! A line is `arrival in ns, device, first sector, sectors, 0 for a write or 1 for a read`, as in MQSim's README. A sector is 512 bytes.
//! Addresses beyond the end of the drive wrap around to its beginning, as in MQSim. The drive starts as it leaves the factory: a trace
//! should write what it reads.

use forebay_model::conformance::Latencies;
use forebay_model::nand::{Config, Nand};
use forebay_model::ssd::{Command, Done, Op, Ssd};
use std::error::Error;

/// Bytes of a sector.
const SECTOR_BYTES: u64 = 512;

/// Parses a number off the front and skips the space after it.
fn number(rest: &mut &[u8]) -> Option<u64> {
    let digits = rest.iter().take(19).take_while(|byte| byte.is_ascii_digit()).count();
    let (field, after) = rest.split_at(digits);
    *rest = after.strip_prefix(b" ").unwrap_or(after);
    (digits > 0).then(|| field.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
}

/// Parses a line: arrival in ns, byte offset, bytes, and whether it is a read.
fn parse(mut line: &[u8]) -> Option<(u64, u64, u64, bool)> {
    let rest = &mut line;
    let (at_ns, _device, sector, sectors) = (number(rest)?, number(rest)?, number(rest)?, number(rest)?);
    let read = number(rest)? == 1;
    rest.trim_ascii().is_empty().then_some((at_ns, sector, sectors, read))
}

/// Requests in flight: a slot for each, with its arrival time.
#[derive(Default)]
struct Flying {
    arrived_ns: Vec<u64>,
    free: Vec<u32>,
    latencies: Latencies,
    end_ns: u64,
}

impl Flying {
    fn begin(&mut self, at_ns: u64) -> u64 {
        let tag = self.free.pop().unwrap_or_else(|| {
            self.arrived_ns.push(0);
            (self.arrived_ns.len() - 1) as u32
        });
        self.arrived_ns[tag as usize] = at_ns;
        tag.into()
    }

    fn end(&mut self, done: &mut Vec<Done>) {
        for one in done.drain(..) {
            self.latencies.record(one.at_ns - self.arrived_ns[one.tag as usize]);
            self.free.push(one.tag as u32);
            self.end_ns = one.at_ns;
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [parts, trace] = &words[..] else { return Err("usage: replay_trace PARTS.toml TRACE".into()) };
    let mut drive = Nand::new(Config::from_toml(&std::fs::read_to_string(parts)?)?)?;
    let sectors_all = drive.capacity_bytes() / SECTOR_BYTES;
    let text = std::fs::read(trace)?;
    let (mut flying, mut done, mut last_ns) = (Flying::default(), Vec::new(), 0);
    for (at, line) in text.strip_suffix(b"\n").unwrap_or(&text).split(|byte| *byte == b'\n').enumerate() {
        let bad =
            || format!("{trace}: line {}: not `time device sector sectors operation` in the order of time", at + 1);
        let (at_ns, sector, sectors, read) = parse(line).ok_or_else(bad)?;
        if at_ns < last_ns || sectors == 0 || sectors > sectors_all || sectors * SECTOR_BYTES > u64::from(u32::MAX) {
            return Err(bad().into());
        }
        last_ns = at_ns;
        let sector = (sector % sectors_all).min(sectors_all - sectors);
        let command = Command {
            tag: flying.begin(at_ns),
            op: if read { Op::Read } else { Op::Write },
            offset_bytes: sector * SECTOR_BYTES,
            len_bytes: (sectors * SECTOR_BYTES) as u32,
            stream: 0,
        };
        drive.submit(at_ns, command);
        drive.advance(at_ns, &mut done);
        flying.end(&mut done);
    }
    while drive.next_event_ns() != u64::MAX {
        let next_ns = drive.next_event_ns();
        drive.advance(next_ns, &mut done);
        flying.end(&mut done);
    }
    drive.check()?;
    let counters = drive.counters();
    println!("requests {}", flying.latencies.count());
    println!("mean_us {:.3}", flying.latencies.mean_ns().unwrap_or_default() / 1e3);
    println!("iops {:.0}", flying.latencies.count() as f64 * 1e9 / flying.end_ns.max(1) as f64);
    println!("write_amplification {:.3}", counters.write_amplification());
    println!("erases {}", counters.erases);
    Ok(())
}
