//! Judging one unit against what is expected of it.

use super::header::{Header, HeaderFault};
use std::fmt;
use std::ops::RangeInclusive;

/// How the units that were read were judged. The four counts together are all units read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Judged {
    /// Units judged in full: offset, generation and every byte.
    pub whole: u64,
    /// Units judged in part. Either the unit has a header of this run, for this offset and not too old: its content is
    /// not compared, because a write was in flight at the same time or the last writes overlapped. Or it is an intact
    /// unit of an earlier run, with the right offset: its age cannot be judged.
    pub partly: u64,
    /// Units not judged: no header of ours and never written in this run, trimmed, or last written with an error.
    pub unjudged: u64,
    /// Units that are wrong.
    pub wrong: u64,
}

impl Judged {
    /// Adds the counts of another value.
    pub fn add(&mut self, other: Self) {
        self.whole += other.whole;
        self.partly += other.partly;
        self.unjudged += other.unjudged;
        self.wrong += other.wrong;
    }

    /// Number of all units read.
    #[must_use]
    pub fn read(&self) -> u64 {
        self.whole + self.partly + self.unjudged + self.wrong
    }
}

/// What is wrong with a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MismatchKind {
    /// There is no header, and some bytes are not 0: something else is there.
    NoHeader,
    /// All bytes are 0.
    Zeros,
    /// The header is damaged.
    DamagedHeader,
    /// The content does not match the CRC in the header.
    DamagedContent,
    /// It was written to another place: a write or this read was misdirected.
    WrongOffset,
    /// Another run wrote it: this run's write did not arrive.
    ForeignSeed,
    /// An older write of this run: a later write was lost, or the target returned old data.
    Stale,
    /// A generation that this run has not written here; it is newer than the last one.
    NeverWritten,
}

impl fmt::Display for MismatchKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoHeader => "no header: other data is there",
            Self::Zeros => "only zeros: the write never arrived, or its place was discarded",
            Self::DamagedHeader => "damaged header",
            Self::DamagedContent => "damaged content: its CRC32C is not the header's",
            Self::WrongOffset => "misdirected: this was written to another place",
            Self::ForeignSeed => "written by another run: this run's write did not arrive",
            Self::Stale => "stale: a later write was lost",
            Self::NeverWritten => "a generation that this run never wrote here",
        })
    }
}

/// A unit that does not hold what was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{kind} ({unit_bytes} bytes at byte {offset_bytes}; expected {expected}{found})",
    expected = Expected(.generations),
    found = Found(.found)
)]
pub struct Mismatch {
    /// What is wrong.
    pub kind: MismatchKind,
    /// Where the unit is on the target.
    pub offset_bytes: u64,
    /// Its length.
    pub unit_bytes: u32,
    /// The generations that would be correct; from 1 to the last one where nothing was expected here.
    pub generations: RangeInclusive<u64>,
    /// The header that was found, if it is intact.
    pub found: Option<Header>,
}

struct Expected<'a>(&'a RangeInclusive<u64>);

impl fmt::Display for Expected<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0.start(), self.0.end()) {
            (1, &u64::MAX) => f.write_str("a sound unit of an earlier run"),
            (from, to) => write!(f, "generation {from} to {to}"),
        }
    }
}

struct Found<'a>(&'a Option<Header>);

impl fmt::Display for Found<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(header) = self.0 else { return Ok(()) };
        let Header { generation, offset_bytes, seed, .. } = header;
        write!(f, ", found generation {generation} for byte {offset_bytes} of seed {seed}")
    }
}

/// Judges one unit as it was read from `offset_bytes`: it must have an intact header of the run `seed`, for this
/// offset, with one of `generations`. Where `content` is set, the content must match the header's CRC too.
///
/// # Errors
/// The first mismatch, in the order of [`MismatchKind`] from header to age; the content is checked last.
pub fn check(
    unit: &[u8],
    offset_bytes: u64,
    seed: u64,
    generations: RangeInclusive<u64>,
    content: bool,
) -> Result<Header, Mismatch> {
    let mismatch = |kind, found| Mismatch {
        kind,
        offset_bytes,
        unit_bytes: unit.len() as u32,
        generations: generations.clone(),
        found,
    };
    let header = match Header::read(unit) {
        Ok(header) => header,
        Err(HeaderFault::Damaged) => return Err(mismatch(MismatchKind::DamagedHeader, None)),
        Err(HeaderFault::Absent) if unit.iter().all(|&byte| byte == 0) => {
            return Err(mismatch(MismatchKind::Zeros, None));
        }
        Err(HeaderFault::Absent) => return Err(mismatch(MismatchKind::NoHeader, None)),
    };
    let kind = if header.seed != seed {
        MismatchKind::ForeignSeed
    } else if header.offset_bytes != offset_bytes {
        MismatchKind::WrongOffset
    } else if header.generation < *generations.start() {
        MismatchKind::Stale
    } else if header.generation > *generations.end() {
        MismatchKind::NeverWritten
    } else if content && !header.content_is_sound(unit) {
        MismatchKind::DamagedContent
    } else {
        return Ok(header);
    };
    Err(mismatch(kind, Some(header)))
}

/// Judges a unit that this run has never written, by its own header: any header of ours, from whatever run, must have
/// this offset, and its CRC must match the content. Its age cannot be judged. Returns true if the whole unit was
/// judged: headers and the content that they cover.
///
/// # Errors
/// The first mismatch.
pub fn check_alone(unit: &[u8], offset_bytes: u64) -> Result<bool, Mismatch> {
    let mismatch = |at, kind, found| {
        let unit_bytes = unit.len() as u32;
        Err(Mismatch { kind, offset_bytes: at, unit_bytes, generations: 1..=u64::MAX, found })
    };
    let (mut rest, mut at, mut headers) = (unit, offset_bytes, 0);
    while !rest.is_empty() {
        let header = match Header::read_any(rest) {
            Ok(header) => header,
            Err(HeaderFault::Damaged) => return mismatch(at, MismatchKind::DamagedHeader, None),
            // Anything may follow our units: the units with headers were judged, but not the whole piece.
            Err(HeaderFault::Absent) => return Ok(false),
        };
        if header.offset_bytes != at {
            return mismatch(at, MismatchKind::WrongOffset, Some(header));
        }
        // The run that wrote this may have used shorter units, so that several of them are here; or longer units, which
        // end beyond `unit`.
        let Some((own, behind)) = rest.split_at_checked(header.unit_bytes as usize) else { return Ok(false) };
        if !header.content_is_sound(own) {
            return mismatch(at, MismatchKind::DamagedContent, Some(header));
        }
        (rest, at, headers) = (behind, at + u64::from(header.unit_bytes), headers + 1);
    }
    Ok(headers > 0)
}
