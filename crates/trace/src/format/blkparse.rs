//! blkparse's text: `major,minor cpu sequence seconds.ns pid action RWBS sector + sectors [process]`; in a completion the brackets contain
//! the error (`process_default` in blktrace's blkparse_fmt.c).

use super::blktrace::{Action, Event, Pairing, device_name};
use super::clock::Clock;
use super::fields::{Bad, number, seconds_ns, sectors, word};
use super::namer::{Namer, as_is};
use super::rwbs;
use super::text::LineFormat;
use crate::{Flags, Knows, Names, Request};

const MINOR_MAX: u64 = 0xf_ffff;
/// How blkparse names a file that it reads.
const INPUT: &[u8] = b"Input file ";
/// How the parts of its summary begin.
const SUMMARY: [&[u8]; 5] = [b"CPU", b"Total (", b"Throughput (", b"Events (", b"Skips:"];
/// What blkparse prints for an unknown name.
const UNKNOWN_PROCESS: &[u8] = b"(null)";

pub(super) struct Blkparse {
    clock: Clock,
    pairing: Pairing,
    process: Namer,
    /// The last device, and its volume number.
    volume: Option<(u32, u32)>,
    /// Whether a summary has begun; events may follow it.
    is_over: bool,
    /// Number of lost events according to the summary.
    missing: u64,
}

impl Blkparse {
    pub fn new() -> Self {
        Self {
            clock: Clock::from_first(),
            pairing: Pairing::default(),
            process: Namer::default(),
            volume: None,
            is_over: false,
            missing: 0,
        }
    }
}

/// `major,minor`.
fn device(field: &[u8]) -> Result<u32, Bad> {
    let bad = "the device is not major,minor";
    let comma = field.iter().position(|&byte| byte == b',').ok_or(bad)?;
    let (major, minor) = (number(&field[..comma])?, number(&field[comma + 1..])?);
    if major > 0xfff || minor > MINOR_MAX {
        return Err(bad);
    }
    u32::try_from(major << 20 | minor).map_err(|_| bad)
}

/// Whether a line begins as an event does, and no line of a summary.
fn is_event(mut line: &[u8]) -> bool {
    word(&mut line).is_some_and(|field| device(field).is_ok())
}

fn action(field: &[u8]) -> Option<Action> {
    Some(match field {
        b"Q" => Action::Queue,
        b"M" => Action::BackMerge,
        b"I" => Action::Insert,
        b"D" => Action::Issue,
        b"R" => Action::Requeue,
        b"C" => Action::Complete,
        _ => return None,
    })
}

/// The number of lost events, if this line of the summary reports it: `Skips: 3 forward (4,999 -  33.3%)`.
fn skipped(line: &[u8]) -> u64 {
    let Some(rest) = line.strip_prefix(b"Skips:") else { return 0 };
    let count = rest.split(|&byte| byte == b'(').nth(1).and_then(|rest| rest.split(|&byte| byte == b'-').next());
    let digits: Vec<u8> = count.unwrap_or_default().iter().copied().filter(|&byte| byte != b',').collect();
    number(digits.trim_ascii()).unwrap_or(0)
}

/// Whether the rest of a line is a time as printed by `-t`, `( 1234) [0]`, and not the bytes of a command, `(12 00 00) [x]`.
fn is_elapsed(rest: &[u8]) -> bool {
    let Some(end) = rest.iter().position(|&byte| byte == b')') else { return false };
    // It has at least eight places, with leading blanks.
    rest.first() == Some(&b'(') && (end > 8 || rest.get(1) == Some(&b' ')) && number(&rest[1..end]).is_ok()
}

/// What follows the letters: the range, and the contents of the brackets.
struct Tail<'a> {
    sector: u64,
    sectors: u64,
    bracketed: &'a [u8],
}

/// The range may be missing if there is no data: `8 + 16 [x]`, `8 [0]` or `[x]`, with `( 123)` before the brackets.
fn tail(mut rest: &[u8]) -> Result<Option<Tail<'_>>, Bad> {
    let open = rest.iter().position(|&byte| byte == b'[').ok_or("the brackets are missing")?;
    let close = rest.iter().rposition(|&byte| byte == b']').filter(|&close| close > open);
    let mut tail = Tail { sector: 0, sectors: 0, bracketed: &rest[open + 1..close.ok_or("the brackets are missing")?] };
    rest = &rest[..open];
    let Some(sector) = word(&mut rest).filter(|word| !word.starts_with(b"(")) else {
        return Ok(Some(tail));
    };
    tail.sector = number(sector)?;
    if is_elapsed(rest.trim_ascii_start()) {
        return Ok(Some(tail));
    }
    match word(&mut rest) {
        Some(b"+") => tail.sectors = number(word(&mut rest).ok_or("the length is missing")?)?,
        None => {}
        // The length of a pass-through command is followed by its bytes.
        Some(pdu) if pdu.starts_with(b"(") => return Ok(None),
        Some(_) => return Err("the range is not sector + sectors"),
    }
    Ok(Some(tail))
}

impl LineFormat for Blkparse {
    fn line(&mut self, line: &[u8], into: &mut Vec<Request>, names: &mut Names) -> Result<(), Bad> {
        self.is_over |= SUMMARY.iter().any(|begin| line.starts_with(begin));
        if line.starts_with(INPUT) || self.is_over && !is_event(line) {
            self.missing = self.missing.saturating_add(skipped(line));
            return Ok(());
        }
        let mut rest = line;
        let mut next = || word(&mut rest).ok_or("too few fields");
        let device = device(next()?)?;
        number(next()?)?;
        number(next()?)?;
        let time_ns = seconds_ns(next()?)?;
        let pid = u32::try_from(number(next()?)?).map_err(|_| "the process id is beyond 2^32")?;
        let what = next()?;
        let Some(action) = action(what) else {
            return if what.len() <= 2 && what.iter().all(u8::is_ascii_alphabetic) {
                // The first event defines the zero, whatever it is.
                self.clock.since_zero_ns(time_ns).map(drop)
            } else {
                Err("the action is not known")
            };
        };
        let letters = next()?;
        let Some(tail) = tail(rest)? else { return Ok(()) };
        let (_, len_bytes) = sectors(tail.sector, tail.sectors)?;
        if letters.starts_with(b"N") {
            return Ok(());
        }
        let (op, mut flags) = rwbs::parse(letters, len_bytes)?;
        let time_ns = self.clock.since_zero_ns(time_ns)?;
        let mut process = 0;
        if action == Action::Complete {
            if tail.bracketed != b"0" {
                flags = flags.with(Flags::ERROR);
            }
        } else if tail.bracketed != UNKNOWN_PROCESS {
            process = self.process.number(tail.bracketed, &mut names.processes, as_is);
        }
        let volume = match self.volume {
            Some((last, volume)) if last == device => volume,
            _ => names.volumes.number(&device_name(device)),
        };
        self.volume = Some((device, volume));
        let event = Event {
            time_ns,
            device,
            sector: tail.sector,
            len_bytes,
            action,
            op,
            flags,
            pid,
            process,
            volume,
            cgroup: 0,
        };
        self.pairing.event(event, into);
        Ok(())
    }

    fn end(&mut self, into: &mut Vec<Request>) {
        self.pairing.end(into);
    }

    fn missing(&self) -> u64 {
        // The summary counts lost completions too.
        self.missing.max(self.pairing.lost())
    }

    fn knows(&self) -> Knows {
        self.pairing.knows()
    }

    fn notes(&self) -> Vec<String> {
        self.pairing.notes()
    }
}
