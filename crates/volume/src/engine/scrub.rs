//! A scrub: everything that hosts have stored is read, at a bounded rate and where they leave time, so that damage is found
//! while what it could be restored from still exists. Here is what is read next and what came of it; `requests/scrub.rs`
//! reads it.

use super::brought::Brought;
use super::leisure::Leisure;
use crate::layout::scrub_record::{Pass, ScrubRecord, ScrubState};
use crate::request::RequestError;
use forebay_block::DiskId;
use std::ops::Range;

/// Blocks read at once, at most.
const STEP_BLOCKS: u64 = 32;
/// Ranges of damaged blocks that are kept to be shown.
const FOUND_MAX: usize = 64;
/// After how long what could not be compared is compared again, and how often in a row where members do not answer.
const AGAIN_NS: u64 = 1_000_000_000;
const AWAY_TRIES_MAX: u8 = 60;
/// Bytes of a block.
const BLOCK: u64 = 4096;

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

/// What came of comparing blocks of a band with their parity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compared {
    Well,
    /// Parity is of something else, or something of it cannot be read.
    Unfit {
        is_read: bool,
    },
    /// Members did not answer.
    NotAtAll,
}

/// What is shown of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScrubStatus {
    /// How far it is.
    pub record: ScrubRecord,
    /// What the pass that goes on, or the last one, has found since the start of the server; the first of it.
    pub found: Vec<Found>,
    /// Blocks of bands that it could not compare with their parity since the start of the server, as members did not answer.
    pub uncompared_blocks: u64,
    /// Most bytes a second, while hosts ask for nothing.
    pub rate_bytes_per_s: u64,
}

/// The scrub.
#[derive(Debug)]
pub(crate) struct Scrub {
    record: ScrubRecord,
    pub leisure: Leisure,
    /// What is to be read before it goes on from where it is: parts of what could not be read as a whole. The next is last.
    parts: Vec<Range<u64>>,
    in_flight: Option<Blocks>,
    /// Disk and block before which nothing is written again any more: a crash would lose that.
    mended_to: (u16, u64),
    /// A block that could not be read, and is read once more when what was found on the way is written again: of several copies, and of compressed blocks that
    /// share a block of the device, no one reading may have had all.
    again: Option<u64>,
    /// What is in flight is such a block.
    is_second: bool,
    pub brought: Brought,
    found: Vec<Found>,
    uncompared_blocks: u64,
    /// How often in a row what is compared was not what it should be, and members did not answer.
    unfit_tries: u8,
    away_tries: u8,
    /// Nothing more is read before: what cannot be read now may be in a second.
    not_before_ns: u64,
    /// A pass has come to its end, or has begun or paused: it is to be kept.
    has_changed: bool,
}

impl Scrub {
    /// Goes on from where it was.
    pub fn new(record: ScrubRecord, rate_bytes_per_s: u64) -> Self {
        Self {
            record,
            leisure: Leisure::new(rate_bytes_per_s),
            parts: Vec::new(),
            in_flight: None,
            mended_to: (record.disk, record.block),
            again: None,
            is_second: false,
            brought: Brought::default(),
            found: Vec::new(),
            uncompared_blocks: 0,
            unfit_tries: 0,
            away_tries: 0,
            not_before_ns: 0,
            has_changed: false,
        }
    }

    /// How far it is, for the root. What is in flight, or being written again, is read again after a crash.
    pub fn record(&self) -> ScrubRecord {
        let (disk, block) = self.mended_to;
        ScrubRecord { disk, block, ..self.record }
    }

    /// Disk and block before which all was read.
    fn position(&self) -> (u16, u64) {
        let again = self.in_flight.iter().map(|blocks| blocks.range.start);
        let first = again.chain(self.parts.iter().map(|part| part.start)).chain(self.again).min();
        (self.record.disk, first.unwrap_or(self.record.block))
    }

    pub fn status(&self) -> ScrubStatus {
        ScrubStatus {
            record: self.record(),
            found: self.found.clone(),
            uncompared_blocks: self.uncompared_blocks,
            rate_bytes_per_s: self.leisure.rate_bytes_per_s(),
        }
    }

    /// Whether something about it changed that a checkpoint should keep; asked once.
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
            self.uncompared_blocks = 0;
        }
        self.record.state = ScrubState::Running;
        self.has_changed = true;
    }

    /// Reads nothing more until it is started again. Whether there was a pass.
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

    /// What is read next. `next_stored` gives the first blocks, from a block of a disk on, that lie in a leaf with something in
    /// it. `None` where the pass has come to its end, which waits while something that it found `is_mending`: only what has been written again can be made durable
    /// by the checkpoint that keeps the end.
    pub fn begin_step(
        &mut self,
        now_ns: u64,
        unix_s: u64,
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
                    if !is_mending {
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

    /// Of what was to be read nothing is.
    pub fn passed_over(&mut self) {
        self.in_flight = None;
    }

    /// A step that compared parity has ended. Whether what lives there has none: it was compared twice, as one transfer may go wrong, and paths come and go.
    /// Where members do not answer it is compared again each second for a while, and counted then.
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
            // What comes next is not waited for as well: they are gone.
            Compared::NotAtAll if self.away_tries >= AWAY_TRIES_MAX => {
                self.unfit_tries = 0;
                self.uncompared_blocks += range.end - range.start;
            }
            Compared::NotAtAll => {
                self.away_tries += 1;
                self.parts.push(range);
                self.not_before_ns = now_ns.saturating_add(AGAIN_NS);
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

    /// A step has ended: so many of its blocks held data. What could not be read as a whole is read in parts, so that one bad
    /// block hides no other. Whether damage was found.
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
            // Which one it is is not known: one that is alone it is itself.
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

    /// Adds to what is shown; what lies behind or before damage that is shown already becomes part of it.
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
mod tests {
    use super::*;

    /// What is put right by one reading was reported as damaged: blocks of several copies, and compressed ones that share blocks of the device.
    #[test]
    fn regression_a_block_is_damaged_that_cannot_be_read_twice() {
        let mut scrub = Scrub::new(ScrubRecord::default(), 1 << 20);
        scrub.start(0);
        let stored = |disk, from| Some(Blocks { disk, range: from..from + 400 });
        let damaged = || Some(RequestError::Damaged { disk: DiskId(0), offset_bytes: 5 * BLOCK });
        scrub.begin_step(0, 0, || false, stored).unwrap();
        assert!(!scrub.ended(0, damaged()));
        assert_eq!(scrub.begin_step(0, 0, || true, stored), None, "it is being written again");
        assert_eq!(scrub.begin_step(0, 0, || false, stored).unwrap().range, 5..6);
        assert_eq!(scrub.record().block, 0, "what comes before it is to be read yet");
        assert!(scrub.ended(0, damaged()));
        assert_eq!((scrub.record.pass.bad_blocks, scrub.found.len()), (1, 1));
        assert_eq!(scrub.begin_step(0, 0, || false, stored).unwrap().range, 0..5);
        assert!(!scrub.ended(5, None));
        assert_eq!(scrub.begin_step(0, 0, || false, stored).unwrap().range, 6..32);
        assert!(!scrub.ended(0, Some(RequestError::Damaged { disk: DiskId(0), offset_bytes: 9 * BLOCK })));
        assert_eq!(scrub.begin_step(0, 0, || false, stored).unwrap().range, 9..10);
        assert!(!scrub.ended(1, None), "it can be read now");
        assert_eq!(scrub.record.pass.bad_blocks, 1);
    }

    /// A checkpoint kept how far a pass had read while what it had found was being written again: the power failed, and the pass went on behind that.
    #[test]
    fn regression_a_pass_goes_on_where_what_it_found_may_be_lost() {
        let mut scrub = Scrub::new(ScrubRecord::default(), 1 << 20);
        scrub.start(0);
        let stored = |disk, from| (from < 100).then_some(Blocks { disk, range: from..100 });
        for (is_mending, from) in [(false, 0), (true, 0), (true, 0), (false, 96)] {
            scrub.begin_step(0, 0, || is_mending, stored).unwrap();
            assert!(!scrub.ended(32, None));
            assert_eq!(scrub.record().block, from);
        }
        assert_eq!(scrub.begin_step(0, 0, || true, stored), None);
        assert_eq!((scrub.record().state, scrub.record().block), (ScrubState::Running, 96));
        assert_eq!(scrub.begin_step(0, 0, || false, stored), None);
        assert_eq!((scrub.record().state, scrub.record().block), (ScrubState::Idle, 0));
    }

    /// Members that are gone for good hold a pass up for a minute, and it says what it has not compared.
    #[test]
    fn what_members_never_answer_for_is_counted() {
        let mut scrub = Scrub::new(ScrubRecord::default(), 1 << 30);
        scrub.start(0);
        scrub.leisure.go_on();
        let stored = |_, from| (from < 320).then_some(Blocks { disk: DiskId(u16::MAX), range: from..320 });
        let (mut now_ns, mut steps) = (0, 0);
        while scrub.record.state == ScrubState::Running {
            if scrub.is_due(now_ns) && scrub.begin_step(now_ns, 0, || false, stored).is_some() {
                steps += 1;
                assert!(!scrub.compared(Compared::NotAtAll, now_ns));
            }
            now_ns += 10_000_000;
        }
        assert_eq!((steps, scrub.status().uncompared_blocks), (u64::from(AWAY_TRIES_MAX) + 10, 320));
        assert!((60..62).contains(&(now_ns / AGAIN_NS)), "{now_ns}");
        scrub.start(0);
        assert_eq!(scrub.status().uncompared_blocks, 0);
    }

    #[test]
    fn one_step_at_a_time_and_none_before_time_passes() {
        let mut scrub = Scrub::new(ScrubRecord::default(), 1 << 20);
        scrub.start(0);
        assert!(!scrub.is_due(0), "held until time passes");
        scrub.leisure.go_on();
        scrub.begin_step(0, 0, || false, |disk, from| Some(Blocks { disk, range: from..from + 400 })).unwrap();
        assert!(!scrub.is_due(u64::MAX), "one at a time");
        assert!(!scrub.ended(32, None));
        assert!(!scrub.is_due(70_000_000) && scrub.is_due(75_000_000));
    }
}
