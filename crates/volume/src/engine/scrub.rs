//! A scrub: everything that hosts have stored is read, at a bounded rate and where hosts leave time, so that damage is found while what it could be restored
//! from still exists. This file decides what is read next and keeps what was found; `requests/scrub.rs` reads.

use super::leisure::Leisure;
use super::transient_leaf::TransientLeaf;
use crate::layout::scrub_record::{PARITY, Pass, ScrubRecord, ScrubState};
use crate::request::RequestError;
use forebay_block::{BLOCK_BYTES_U64 as BLOCK, DiskId};
use std::ops::Range;

/// Most blocks read at once.
const STEP_BLOCKS: u64 = 32;
/// Most ranges of damaged blocks that are kept to be shown.
const FOUND_MAX: usize = 64;
/// After how long a comparison that failed is repeated; and how often, where members do not answer: in a row, and since the pass or the server began.
const AGAIN_NS: u64 = 1_000_000_000;
const AWAY_TRIES_MAX: u8 = 60;
const WAITS_MAX: u32 = 600;
/// How long a pass waits at most for suspects (bands whose parity does not match their data) to be emptied. While it waits, the next start finds them again.
const SUSPECTS_NS: u64 = 600_000_000_000;

/// Blocks of a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Blocks {
    pub disk: DiskId,
    pub range: Range<u64>,
}

/// Damage that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The disk.
    pub disk: DiskId,
    /// First byte.
    pub offset_bytes: u64,
    /// Length in bytes.
    pub len_bytes: u64,
    /// Why the first block of it could not be read.
    pub why: RequestError,
}

/// The result of comparing blocks of a band with their parity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compared {
    Well,
    /// The parity does not match the data, or a part of either cannot be read.
    Unfit {
        is_read: bool,
    },
    /// Members did not answer.
    NotAtAll,
    /// So many members are missing that there is nothing to compare with.
    WithNothing,
}

/// The state to be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScrubStatus {
    /// How far the scrub is.
    pub record: ScrubRecord,
    /// What the present pass, or the last one, has found since the server started: the first ranges of it.
    pub found: Vec<Found>,
    /// Blocks of bands that could not be compared with their parity, as members did not answer, or so many are missing that there is no redundancy left.
    pub uncompared_blocks: u64,
    /// Most bytes a second, while hosts have no requests.
    pub rate_bytes_per_s: u64,
}

/// The scrub.
#[derive(Debug)]
pub(crate) struct Scrub {
    record: ScrubRecord,
    pub leisure: Leisure,
    /// What is to be read before it goes on from where it is: parts of what could not be read as a whole. The next part is last.
    parts: Vec<Range<u64>>,
    in_flight: Option<Blocks>,
    /// Disk and block before which nothing is being mended any more: a crash would lose a mend.
    mended_to: (u16, u64),
    /// A block that could not be read, and is read once more when what was found on the way is mended: with several copies, and with compressed blocks that
    /// share a block of the device, no single reading may have had all of it.
    again: Option<u64>,
    /// The block in flight is read for the second time in this way.
    is_second: bool,
    pub transient: TransientLeaf,
    found: Vec<Found>,
    /// How often in a row a comparison failed, and how often in a row members did not answer.
    unfit_tries: u8,
    away_tries: u8,
    /// How often in this pass it waited for members that did not answer.
    waits: u32,
    /// Since when suspects wait to be emptied.
    suspects_since_ns: Option<u64>,
    /// Nothing more is read before this time: what cannot be read now may be readable in a second.
    not_before_ns: u64,
    /// A pass has ended, begun or paused, which a checkpoint is to keep.
    has_changed: bool,
}

impl Scrub {
    /// Goes on from a record.
    pub fn new(record: ScrubRecord, rate_bytes_per_s: u64) -> Self {
        Self {
            record,
            leisure: Leisure::new(rate_bytes_per_s),
            parts: Vec::new(),
            in_flight: None,
            mended_to: (record.disk, record.block),
            again: None,
            is_second: false,
            transient: TransientLeaf::default(),
            found: Vec::new(),
            unfit_tries: 0,
            away_tries: 0,
            waits: 0,
            suspects_since_ns: None,
            not_before_ns: 0,
            has_changed: false,
        }
    }

    /// How far it is, for the root. What is in flight, or being mended, is read again after a crash.
    pub fn record(&self) -> ScrubRecord {
        let (disk, block) = self.mended_to;
        ScrubRecord { disk, block, ..self.record }
    }

    /// Disk and block before which everything was read.
    fn position(&self) -> (u16, u64) {
        let again = self.in_flight.iter().map(|blocks| blocks.range.start);
        let first = again.chain(self.parts.iter().map(|part| part.start)).chain(self.again).min();
        (self.record.disk, first.unwrap_or(self.record.block))
    }

    pub fn status(&self) -> ScrubStatus {
        ScrubStatus {
            record: self.record(),
            found: self.found.clone(),
            uncompared_blocks: match (self.record.state, &self.record.last) {
                (ScrubState::Idle, Some(last)) => last.uncompared_blocks,
                _ => self.record.pass.uncompared_blocks,
            },
            rate_bytes_per_s: self.leisure.rate_bytes_per_s(),
        }
    }

    /// Whether something changed that a checkpoint should keep; true once for each change.
    pub fn take_changed(&mut self) -> bool {
        !self.leisure.is_held() && std::mem::take(&mut self.has_changed)
    }

    /// Begins a pass, or goes on with one.
    pub fn start(&mut self, unix_s: u64) {
        if self.record.state == ScrubState::Idle {
            let pass = Pass { began_unix_s: unix_s, ..Pass::default() };
            self.record = ScrubRecord { disk: 0, block: 0, pass, ..self.record };
            self.mended_to = (0, 0);
            self.found.clear();
            self.waits = 0;
        }
        self.record.state = ScrubState::Running;
        self.has_changed = true;
    }

    /// Reads nothing more until it is started again. Returns whether a pass was running.
    pub fn pause(&mut self) -> bool {
        let is_running = self.record.state == ScrubState::Running;
        if is_running {
            self.record.state = ScrubState::Paused;
            self.has_changed = true;
        }
        is_running
    }

    /// Whether a step is in progress.
    pub fn is_reading(&self) -> bool {
        self.in_flight.is_some()
    }

    /// Whether a step may begin.
    pub fn is_due(&self, now_ns: u64) -> bool {
        let may_begin = self.in_flight.is_none() && now_ns >= self.not_before_ns;
        self.record.state == ScrubState::Running && may_begin && self.leisure.has_come(now_ns)
    }

    /// Whether suspects that it has found wait to be emptied: they are known in memory only. `are_there`: there are
    /// such bands. False once they have waited for too long.
    pub fn has_suspects(&mut self, are_there: bool, now_ns: u64) -> bool {
        let compares = self.record.disk == PARITY;
        let since_ns = self.suspects_since_ns.take().filter(|_| are_there && compares);
        self.suspects_since_ns = (are_there && compares).then(|| since_ns.unwrap_or(now_ns));
        self.suspects_since_ns.is_some_and(|since_ns| now_ns.saturating_sub(since_ns) < SUSPECTS_NS)
    }

    /// What is read next. `next_stored` returns the first blocks, from a block of a disk on, that lie in a leaf with something in it. `None` where the pass has
    /// come to its end. The end waits while something that was found is being mended (`is_mending`): the checkpoint that keeps the end can only make durable
    /// what has been written. `end_unix_s`: the time, where the pass may end now.
    pub fn begin_step(
        &mut self,
        now_ns: u64,
        end_unix_s: Option<u64>,
        is_mending: impl Fn() -> bool,
        mut next_stored: impl FnMut(DiskId, u64) -> Option<Blocks>,
    ) -> Option<Blocks> {
        let is_mending = is_mending();
        if !is_mending {
            self.mended_to = self.position();
        }
        if self.again.is_some() && is_mending {
            return None;
        }
        self.is_second = self.again.is_some();
        let again = self.again.take().map(|block| block..block + 1);
        let blocks = match again.or_else(|| self.parts.pop()) {
            Some(range) => Blocks { disk: DiskId(self.record.disk), range },
            None => {
                let next = next_stored(DiskId(self.record.disk), self.record.block);
                let Some(Blocks { disk, range }) = next else {
                    if let Some(unix_s) = end_unix_s.filter(|_| !is_mending) {
                        self.end_pass(unix_s);
                    }
                    return None;
                };
                let range = range.start..range.end.min(range.start + STEP_BLOCKS);
                (self.record.disk, self.record.block) = (disk.0, range.end);
                Blocks { disk, range }
            }
        };
        self.leisure.take(now_ns, (blocks.range.end - blocks.range.start) * BLOCK);
        self.in_flight = Some(blocks.clone());
        Some(blocks)
    }

    /// Nothing has to be read for this step.
    pub fn passed_over(&mut self) {
        self.in_flight = None;
    }

    /// A step that compared parity has ended. Returns whether the data there has no parity. Two comparisons must fail for that, as one transfer may go wrong,
    /// and paths come and go. Where members do not answer the comparison is repeated each second for a while; then the blocks count as not compared.
    pub fn compared(&mut self, compared: Compared, now_ns: u64) -> bool {
        let Some(Blocks { range, .. }) = self.in_flight.take() else { return false };
        match compared {
            Compared::Well => (self.unfit_tries, self.away_tries) = (0, 0),
            Compared::Unfit { is_read } => {
                self.unfit_tries += 1;
                if self.unfit_tries > 1 {
                    self.unfit_tries = 0;
                    return true;
                }
                self.parts.push(range);
                self.not_before_ns = if is_read { now_ns } else { now_ns.saturating_add(AGAIN_NS) };
            }
            // What comes next is not waited for as well: the members are gone, or come and go without end.
            Compared::NotAtAll if self.away_tries < AWAY_TRIES_MAX && self.waits < WAITS_MAX => {
                (self.away_tries, self.waits) = (self.away_tries + 1, self.waits + 1);
                self.parts.push(range);
                self.not_before_ns = now_ns.saturating_add(AGAIN_NS);
            }
            Compared::NotAtAll | Compared::WithNothing => {
                self.unfit_tries = 0;
                self.record.pass.uncompared_blocks += range.end - range.start;
            }
        }
        false
    }

    fn end_pass(&mut self, unix_s: u64) {
        let last = Pass { ended_unix_s: unix_s, ..self.record.pass };
        self.mended_to = (0, 0);
        self.record =
            ScrubRecord { state: ScrubState::Idle, disk: 0, block: 0, pass: Pass::default(), last: Some(last) };
        self.has_changed = true;
    }

    /// A step has ended; so many of its blocks held data. What could not be read as a whole is read in parts, so that one bad block hides no other. Returns
    /// whether damage was found.
    pub fn ended(&mut self, stored_blocks: u64, error: Option<RequestError>) -> bool {
        let Some(Blocks { disk, range }) = self.in_flight.take() else { return false };
        let Some(why) = error else {
            self.record.pass.good_blocks += stored_blocks;
            return false;
        };
        let named = match &why {
            RequestError::Damaged { offset_bytes, .. } => Some(offset_bytes / BLOCK).filter(|at| range.contains(at)),
            _ => None,
        };
        let bad = match named {
            Some(bad) => bad,
            // It is unknown which block is bad, unless there is only one.
            None if range.end - range.start == 1 => range.start,
            None => {
                let middle = range.start + (range.end - range.start) / 2;
                self.parts.extend([middle..range.end, range.start..middle]);
                return false;
            }
        };
        self.parts.extend([bad + 1..range.end, range.start..bad].into_iter().filter(|part| !part.is_empty()));
        if !self.is_second {
            self.again = Some(bad);
            return false;
        }
        self.record.pass.bad_blocks += 1;
        self.keep(Found { disk, offset_bytes: bad * BLOCK, len_bytes: BLOCK, why });
        true
    }

    /// Adds to what is shown; damage next to damage that is shown already extends that.
    fn keep(&mut self, found: Found) {
        let (begin, end) = (found.offset_bytes, found.offset_bytes + found.len_bytes);
        let is_near = |known: &Found| {
            known.disk == found.disk && (known.offset_bytes + known.len_bytes == begin || end == known.offset_bytes)
        };
        if let Some(known) = self.found.iter_mut().find(|known| is_near(known)) {
            known.offset_bytes = known.offset_bytes.min(begin);
            known.len_bytes += found.len_bytes;
        } else if self.found.len() < FOUND_MAX {
            self.found.push(found);
        }
    }
}

#[cfg(test)]
#[path = "scrub_tests.rs"]
mod tests;
