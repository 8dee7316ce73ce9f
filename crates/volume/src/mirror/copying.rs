//! Copying from one member of a mirror to another: everything, to a member that replaces another; and what a member could not read. One
//! piece at a time; writes that overlap it wait until it is done.

use super::member::numbers_in;
use super::rebuild::{Flushed, Rebuild, Rebuilt, UNIT_BYTES};
use crate::layout::member_label::OFFSETS_BYTES;
use forebay_block::{Buf, IoError};
use std::collections::VecDeque;

/// How long a reader may take to find wrong what another member had in the place of what is to be mended: it may wait for other devices, or
/// its next request may wait behind others.
const DOUBT_NS: u64 = 10_000_000_000;
/// How long a rebuild waits for a member that is away before it asks again.
const AWAY_NS: u64 = 1_000_000_000;
/// Most ranges to be mended that are remembered; a forgotten one is found again when it is read again.
const MENDS_MAX: usize = 64;

/// A request to a member.
pub(super) enum Ask {
    /// Tests whether this can be read there: either what is to be mended, or the label of a member that could not read something else.
    Probe { member: usize, offset_bytes: u64, len_bytes: u64 },
    /// Reads what is copied, from `first`, or else from any member whose bit is not set in `tried`.
    Read { first: Option<usize>, tried: u8, offset_bytes: u64, len_bytes: u64 },
    /// Writes it to its destination.
    Write { member: usize, offset_bytes: u64, bytes: Buf },
    /// Makes durable what was copied.
    Flush { member: usize },
}

/// What an answer has led to.
pub(super) enum Event {
    /// Nothing that others need to know.
    None,
    /// A member does not take what is copied to it.
    Failed(usize, IoError),
    /// So much of a member is durable.
    Noted(u64),
    /// A member holds everything.
    Complete(Rebuilt),
    /// A block that a member could not read was written again.
    Mended,
    /// No member can read a block.
    Unreadable,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Rebuild,
    Mend,
}

/// What was asked of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Probe,
    Read,
    /// One of a member's labels, to find out whether the member is there.
    IsThere(usize),
    Write,
}

enum Step {
    /// Waits for writes that overlap it.
    Waits,
    Probe,
    Read,
    /// Finds out whether a member that could not read it is there: whether one of its labels can be read.
    IsThere {
        member: usize,
        label: usize,
    },
    Write(Buf),
    InFlight,
}

struct Active {
    to: usize,
    offset_bytes: u64,
    len_bytes: u64,
    kind: Kind,
    step: Step,
    /// What is in flight, or was last.
    asked: Asked,
    /// The member that is read.
    from: Option<usize>,
    /// The member that is read first.
    first: Option<usize>,
    tried: u8,
    /// Those in `tried` that could not read it and are not left behind.
    failed: u8,
}

/// What a member could not read.
#[derive(Clone, Copy)]
struct ToMend {
    member: usize,
    /// The member that had it.
    from: usize,
    offset_bytes: u64,
    len_bytes: u64,
    since_ns: u64,
}

/// All that is copied.
#[derive(Default)]
pub(super) struct Copying {
    rebuild: Option<Rebuild>,
    mends: VecDeque<ToMend>,
    active: Option<Active>,
    /// Counts requests for copying: only the answer to the last one counts.
    asked: u64,
    now_ns: u64,
    not_before_ns: u64,
    /// The member that alone has what is copied is away, and is waited for.
    is_away: bool,
}

impl Copying {
    /// Copies everything from an offset on to a member.
    pub fn rebuild(&mut self, member: usize, from_bytes: u64) {
        self.rebuild = Some(Rebuild::new(member, from_bytes));
    }

    /// Has a range written again that a member could not read, and another could.
    pub fn mend(&mut self, (member, from): (usize, usize), offset_bytes: u64, len_bytes: u64) {
        let begin = offset_bytes / UNIT_BYTES * UNIT_BYTES;
        let len_bytes = (offset_bytes + len_bytes).next_multiple_of(UNIT_BYTES) - begin;
        let is_it = |known: &ToMend| (known.member, known.offset_bytes, known.len_bytes) == (member, begin, len_bytes);
        if !self.mends.iter().any(is_it) && self.mends.len() < MENDS_MAX {
            self.mends.push_back(ToMend { member, from, offset_bytes: begin, len_bytes, since_ns: self.now_ns });
        }
    }

    /// What was read in the place of something to be mended was wrong: nothing of it is written that was not sent yet. Whoever reads it
    /// again knows what to write.
    pub fn doubt(&mut self, offset_bytes: u64, len_bytes: u64) {
        let begin = offset_bytes / UNIT_BYTES * UNIT_BYTES;
        let end = (offset_bytes + len_bytes).next_multiple_of(UNIT_BYTES);
        for to_mend in std::mem::take(&mut self.mends) {
            let all = to_mend.offset_bytes..to_mend.offset_bytes + to_mend.len_bytes;
            // The parts before and behind it are still to be mended.
            let parts = [all.start..all.end.min(begin), all.start.max(end)..all.end];
            self.mends.extend(parts.into_iter().filter(|part| !part.is_empty()).map(|part| ToMend {
                offset_bytes: part.start,
                len_bytes: part.end - part.start,
                ..to_mend
            }));
        }
        let called_off = self.active.take_if(|active| {
            let is_there = active.offset_bytes < end && begin < active.offset_bytes + active.len_bytes;
            let is_sent = active.asked == Asked::Write && matches!(active.step, Step::InFlight);
            active.kind == Kind::Mend && is_there && !is_sent
        });
        // The answer to the request in flight does not count any more.
        self.asked += u64::from(called_off.is_some());
    }

    /// Stops all copying.
    pub fn stop(&mut self) {
        *self = Self { asked: self.asked, now_ns: self.now_ns, ..Self::default() };
    }

    /// Copies nothing more to a member, and reads nothing more from it. Requests in flight there may never be answered, and nobody waits
    /// for them.
    pub fn give_up(&mut self, member: usize) {
        self.mends.retain(|to_mend| to_mend.member != member);
        self.rebuild.take_if(|rebuild| rebuild.member == member);
        // The answer to the request in flight does not count any more.
        self.asked += u64::from(self.active.take_if(|active| active.to == member).is_some());
        let Some(active) = &mut self.active else { return };
        active.failed &= !(1 << member);
        let asks_it = matches!(active.step, Step::IsThere { member: asked, .. } if asked == member);
        if active.from == Some(member) || asks_it {
            self.asked += 1;
            (active.step, active.from) = (Step::Read, None);
            active.tried |= 1 << member;
        }
    }

    /// The number of the last request.
    pub fn asked(&self) -> u64 {
        self.asked
    }

    /// Notes which member is read.
    pub fn reads(&mut self, member: usize) {
        if let Some(active) = &mut self.active {
            active.from = Some(member);
        }
    }

    /// Whether a part of this range is being copied.
    pub fn overlaps(&self, offset_bytes: u64, len_bytes: u64) -> bool {
        self.active.as_ref().is_some_and(|active| {
            active.offset_bytes < offset_bytes + len_bytes && offset_bytes < active.offset_bytes + active.len_bytes
        })
    }

    /// The next request, where it is time for one. `is_idle`: the pool waits for nothing. `is_quiet`: whether no write to a range is in
    /// flight.
    pub fn next(
        &mut self,
        (now_ns, is_idle): (u64, bool),
        bytes_per_s: u64,
        size_bytes: u64,
        is_quiet: impl Fn(u64, u64) -> bool,
    ) -> Option<Ask> {
        self.now_ns = now_ns;
        if self.active.is_none() {
            self.active = self.begin(is_idle, bytes_per_s, size_bytes);
        }
        let Some(active) = &mut self.active else { return self.next_flush(size_bytes) };
        let (offset_bytes, len_bytes) = (active.offset_bytes, active.len_bytes);
        if matches!(active.step, Step::Waits) {
            if !is_quiet(offset_bytes, len_bytes) {
                return None;
            }
            active.step = if active.kind == Kind::Mend { Step::Probe } else { Step::Read };
        }
        let member = active.to;
        if matches!(active.step, Step::InFlight) {
            return None;
        }
        active.from = None;
        let (asked, ask) = match std::mem::replace(&mut active.step, Step::InFlight) {
            Step::Probe => (Asked::Probe, Ask::Probe { member, offset_bytes, len_bytes }),
            Step::Read => {
                let first = active.first.filter(|first| active.tried & 1 << first == 0);
                (Asked::Read, Ask::Read { first, tried: active.tried, offset_bytes, len_bytes })
            }
            Step::IsThere { member, label } => {
                active.from = Some(member);
                let ask = Ask::Probe { member, offset_bytes: OFFSETS_BYTES[label], len_bytes: UNIT_BYTES };
                (Asked::IsThere(label), ask)
            }
            Step::Write(bytes) => (Asked::Write, Ask::Write { member, offset_bytes, bytes }),
            Step::Waits | Step::InFlight => return None,
        };
        active.asked = asked;
        self.asked += 1;
        Some(ask)
    }

    fn begin(&mut self, is_idle: bool, bytes_per_s: u64, size_bytes: u64) -> Option<Active> {
        let now_ns = self.now_ns;
        let active = |(to, first), offset_bytes, len_bytes, kind| Active {
            to,
            offset_bytes,
            len_bytes,
            kind,
            step: Step::Waits,
            asked: Asked::Probe,
            from: None,
            first,
            tried: 1 << to,
            failed: 0,
        };
        // Before the pool waits for nothing any more, readers have read again what they found wrong.
        let is_due = |to_mend: &mut ToMend| is_idle || now_ns.saturating_sub(to_mend.since_ns) >= DOUBT_NS;
        while let Some(to_mend) = self.mends.pop_front_if(is_due) {
            let ToMend { member, from, offset_bytes, len_bytes, .. } = to_mend;
            if len_bytes > UNIT_BYTES {
                let (offset_bytes, len_bytes) = (offset_bytes + UNIT_BYTES, len_bytes - UNIT_BYTES);
                self.mends.push_front(ToMend { offset_bytes, len_bytes, ..to_mend });
            }
            if offset_bytes + UNIT_BYTES <= size_bytes {
                return Some(active((member, Some(from)), offset_bytes, UNIT_BYTES, Kind::Mend));
            }
        }
        if std::mem::take(&mut self.is_away) {
            self.not_before_ns = now_ns + AWAY_NS;
        }
        if now_ns < self.not_before_ns {
            return None;
        }
        let rebuild = self.rebuild.as_mut()?;
        let (offset_bytes, len_bytes) = rebuild.next_piece(size_bytes)?;
        // Clocks tick about twenty times a second: the next tick makes up for what one has not used.
        let since_ns = self.not_before_ns.max(now_ns.saturating_sub(50_000_000));
        self.not_before_ns = since_ns + len_bytes * 1_000_000_000 / bytes_per_s.max(1);
        Some(active((rebuild.member, None), offset_bytes, len_bytes, Kind::Rebuild))
    }

    fn next_flush(&mut self, size_bytes: u64) -> Option<Ask> {
        let rebuild = self.rebuild.as_mut()?;
        rebuild.begin_flush(size_bytes).then_some(Ask::Flush { member: rebuild.member })
    }

    /// A request was answered. `others`: whether a member is left to be read whose bit is not set.
    pub fn ended(
        &mut self,
        (member, asked): (usize, u64),
        result: Result<(), IoError>,
        bytes: Option<Buf>,
        others: impl Fn(u8) -> bool,
    ) -> Event {
        let Some(active) = self.active.as_mut().filter(|_| asked == self.asked) else { return Event::None };
        let (kind, to) = (active.kind, active.to);
        active.from = None;
        match (active.asked, result, bytes) {
            // The member can read it after all.
            (Asked::Probe, Ok(()), Some(_)) => self.end(kind, Event::None),
            (Asked::Read, Ok(()), Some(bytes)) => {
                active.step = Step::Write(bytes);
                Event::None
            }
            (Asked::Write, Ok(()), _) => self.end(kind, if kind == Kind::Mend { Event::Mended } else { Event::None }),
            (Asked::Write, Err(error), _) => {
                self.active = None;
                Event::Failed(to, error)
            }
            (Asked::IsThere(_), Ok(()), _) => self.another_is_there(member + 1),
            (Asked::IsThere(0), Err(_), _) => {
                active.step = Step::IsThere { member, label: 1 };
                Event::None
            }
            (Asked::IsThere(_), Err(_), _) => {
                // A member that is disconnected makes no gaps: it is waited for.
                (self.active, self.is_away) = (None, true);
                Event::None
            }
            (asked, _, _) => {
                if asked == Asked::Read {
                    active.tried |= 1 << member;
                    active.failed |= 1 << member;
                }
                if others(active.tried) {
                    active.step = Step::Read;
                    return Event::None;
                }
                let is_unit = active.len_bytes <= UNIT_BYTES;
                match kind {
                    // Whatever reads it finds that its checksum does not match.
                    Kind::Mend => self.end(kind, Event::Unreadable),
                    Kind::Rebuild if is_unit => self.another_is_there(0),
                    Kind::Rebuild => {
                        let end_bytes = active.offset_bytes + active.len_bytes;
                        self.active = None;
                        if let Some(rebuild) = &mut self.rebuild {
                            rebuild.goes_finer(end_bytes);
                        }
                        Event::None
                    }
                }
            }
        }
    }

    /// No member could read the piece. Those that failed are asked, from `first` on, whether they are there; where all of them are, the
    /// piece is lost.
    fn another_is_there(&mut self, first: usize) -> Event {
        let Some(active) = &mut self.active else { return Event::None };
        if let Some(member) = numbers_in(active.failed).find(|&member| member >= first) {
            active.step = Step::IsThere { member, label: 0 };
            return Event::None;
        }
        let unit = active.offset_bytes..active.offset_bytes + active.len_bytes;
        self.active = None;
        if let Some(rebuild) = &mut self.rebuild {
            rebuild.skip_unreadable(unit);
        }
        Event::None
    }

    fn end(&mut self, kind: Kind, event: Event) -> Event {
        if let Some(active) = self.active.take()
            && let Some(rebuild) = self.rebuild.as_mut().filter(|_| kind == Kind::Rebuild)
        {
            rebuild.copied(active.offset_bytes + active.len_bytes);
        }
        event
    }

    /// The flush of what was copied was answered.
    pub fn flushed(&mut self, member: usize, result: Result<(), IoError>) -> Event {
        let Some(rebuild) = self.rebuild.as_mut().filter(|rebuild| rebuild.member == member) else {
            return Event::None;
        };
        match (result, rebuild.flushed()) {
            (_, None) => Event::None,
            (Err(error), Some(_)) => Event::Failed(member, error),
            (Ok(()), Some(Flushed::GoesOn)) => Event::None,
            (Ok(()), Some(Flushed::Noted(until_bytes))) => Event::Noted(until_bytes),
            (Ok(()), Some(Flushed::Complete(rebuilt))) => {
                self.rebuild = None;
                Event::Complete(rebuilt)
            }
        }
    }
}

#[cfg(test)]
#[path = "copying_tests.rs"]
mod tests;
